//! Files that routes need to decide on requests: lists of networks, and of users.

use super::access::AccessLists;
use super::passwords::users::UserLists;
use evenkeel_config::{Plan, Subject};
use std::sync::Arc;

/// Contents of the files of all routes of a plan.
#[derive(Clone, Debug, Default)]
pub struct RouteFiles {
    pub(crate) access: Arc<AccessLists>,
    pub(crate) users: Arc<UserLists>,
}

impl RouteFiles {
    /// Reads the files of the next plan.
    ///
    /// # Errors
    /// The files that cannot be read and the lines that are wrong, each with its route.
    pub fn next(&self, plan: &Plan) -> Result<RouteFiles, Vec<(Subject, String)>> {
        match (AccessLists::read(plan), self.users.next(plan)) {
            (Ok(access), Ok(users)) => Ok(RouteFiles { access: access.into(), users: users.into() }),
            (access, users) => Err([access.err(), users.err()].into_iter().flatten().flatten().collect()),
        }
    }

    /// True if there are no files to look at.
    pub fn is_empty(&self) -> bool {
        self.access.has_no_files() && self.users.is_empty()
    }

    /// Reads files again that have changed and then stayed the same from one call to the next. Invalid files are
    /// logged, and the previous content stays in use. Blocks.
    pub fn look(&self) {
        self.access.look();
        self.users.look();
    }
}

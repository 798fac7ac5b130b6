//! Result of a merge, and the pieces that are blamed for errors of this machine about it.

use super::origins::{Kind, Origins};
use super::search::Search;
use super::unwanted::{Candidates, Impossible, Kept, Key, Unwanted, changed};
use crate::providers::parts::Refusal;
use evenkeel_config::{Plan, Subject};
use std::collections::BTreeMap;

/// Plan of the file with pieces of other providers.
#[derive(Clone, Debug)]
pub struct Merged {
    pub plan: Plan,
    pub origins: Origins,
    /// Objects that were left out, by provider.
    pub refused: BTreeMap<&'static str, Vec<Refusal>>,
}

impl Merged {
    /// Adds the pieces of providers that an error is about: `subjects` of the merged plan. Returns false if there are none
    /// that were not added before as they are now.
    pub fn blame(&self, subjects: &[Subject], why: &str, running: &Plan, unwanted: &mut Unwanted) -> bool {
        let mut is_new = false;
        for key in subjects.iter().filter_map(|subject| self.key(*subject)) {
            if self.origins.of(key.0, &key.1).is_none() {
                continue;
            }
            let before = unwanted.get(&key);
            if before.is_some_and(|fault| fault.instead.is_none()) {
                continue;
            }
            // As it runs it may be impossible, too.
            let is_first = key.0 == Kind::Listener && before.is_none();
            let instead = running.listener(&key.1).filter(|_| is_first).cloned();
            unwanted.insert(key, Impossible { why: why.to_owned(), instead: instead.map(Kept::Listener) });
            is_new = true;
        }
        is_new
    }

    /// Starts a search for the pieces at fault among those that do not run as they are; `None` if there are none.
    pub fn search(&self, running: &Plan) -> Option<Search> {
        let is_theirs = |kind, name| self.origins.of(kind, name).is_some();
        let all = Candidates {
            listeners: self.plan.listeners.iter().filter(|one| is_theirs(Kind::Listener, &one.name)),
            routes: self.plan.routes.iter().filter(|one| is_theirs(Kind::Route, &one.name)),
            pools: self.plan.pools.iter().filter(|one| is_theirs(Kind::Pool, &one.name)),
        };
        Search::of(changed(all, Some(running)))
    }

    fn key(&self, subject: Subject) -> Option<Key> {
        Some(match subject {
            Subject::Listener(at) => (Kind::Listener, self.plan.listeners.get(at)?.name.clone()),
            Subject::Route(at) => (Kind::Route, self.plan.routes.get(at)?.name.clone()),
            Subject::Pool(at) => (Kind::Pool, self.plan.pools.get(at)?.name.clone()),
        })
    }
}

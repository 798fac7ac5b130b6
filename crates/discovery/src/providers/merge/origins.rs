//! Origins of the pieces of a merged plan.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Origin of each listener, route and pool that is not of the file, by kind and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(pub(super) BTreeMap<(Kind, Arc<str>), Arc<str>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Listener,
    Route,
    Pool,
}

impl Kind {
    /// Name of the table, as messages have it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Listener => "listener",
            Kind::Route => "route",
            Kind::Pool => "pool",
        }
    }
}

impl Origins {
    /// Provider and object that a piece comes from; `None` = the file.
    pub fn of(&self, kind: Kind, name: &str) -> Option<&Arc<str>> {
        self.0.get(&(kind, name.into()))
    }

    /// Origin by the key of the table, such as `pool`, and the name.
    pub fn of_table(&self, table: &str, name: &str) -> Option<Arc<str>> {
        let kind = [Kind::Listener, Kind::Route, Kind::Pool].into_iter().find(|kind| kind.word() == table)?;
        self.of(kind, name).cloned()
    }
}

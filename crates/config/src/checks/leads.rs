//! What leads to each pool? Routes, and records that tell its endpoints to resolvers: by name, so that asking for each pool
//! of a large file costs what the file is long.

use crate::sections::listener::{Listener, Mode};
use crate::sections::route::Route;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What leads to pools.
pub(super) struct Leads<'p> {
    routes: HashMap<&'p str, Vec<&'p Route>>,
    answered: HashSet<&'p str>,
    modes: HashMap<&'p str, Mode>,
}

impl<'p> Leads<'p> {
    /// Of all routes and listeners.
    pub(super) fn new(routes: &'p [Route], listeners: &'p [Arc<Listener>]) -> Leads<'p> {
        let mut by_pool: HashMap<&str, Vec<&Route>> = HashMap::new();
        for route in routes {
            by_pool.entry(&route.pool).or_default().push(route);
        }
        let records = listeners.iter().filter_map(|l| l.zone.as_ref()).flat_map(|zone| &zone.records);
        // The first of a name, should there be two.
        let modes = listeners.iter().rev().map(|l| (&*l.name, l.mode)).collect();
        Leads { routes: by_pool, answered: records.map(|record| &*record.pool).collect(), modes }
    }

    /// The routes to a pool.
    pub(super) fn routes(&self, pool: &str) -> &[&'p Route] {
        self.routes.get(pool).map_or(&[], Vec::as_slice)
    }

    /// Whether a pool's endpoints are told to resolvers.
    pub(super) fn is_answered(&self, pool: &str) -> bool {
        self.answered.contains(pool)
    }

    /// What a listener speaks.
    pub(super) fn mode_of(&self, listener: &str) -> Option<Mode> {
        self.modes.get(listener).copied()
    }
}

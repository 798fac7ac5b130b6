//! Index of the users of each pool: routes and DNS records. Keyed by name, so that checks of a large file
//! take linear time.

use crate::sections::listener::{Listener, Mode};
use crate::sections::route::Route;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Routes, DNS records and listener modes by name.
pub(super) struct Leads<'p> {
    routes: HashMap<&'p str, Vec<&'p Route>>,
    answered: HashSet<&'p str>,
    modes: HashMap<&'p str, Mode>,
}

impl<'p> Leads<'p> {
    /// Indexes all routes and listeners.
    pub(super) fn new(routes: &'p [Route], listeners: &'p [Arc<Listener>]) -> Leads<'p> {
        let mut by_pool: HashMap<&str, Vec<&Route>> = HashMap::new();
        for route in routes {
            route.pools().for_each(|pool| by_pool.entry(&**pool).or_default().push(route));
        }
        let records = listeners.iter().filter_map(|l| l.zone.as_ref()).flat_map(|zone| &zone.records);
        // Reversed, so that the first of two listeners with the same name wins.
        let modes = listeners.iter().rev().map(|l| (&*l.name, l.mode)).collect();
        Leads { routes: by_pool, answered: records.map(|record| &*record.pool).collect(), modes }
    }

    /// Routes to a pool, in the order of the plan.
    pub(super) fn routes(&self, pool: &str) -> &[&'p Route] {
        self.routes.get(pool).map_or(&[], Vec::as_slice)
    }

    /// True if DNS answers name the pool's endpoints.
    pub(super) fn is_answered(&self, pool: &str) -> bool {
        self.answered.contains(pool)
    }

    /// Mode of a listener; `None` if there is no such listener.
    pub(super) fn mode_of(&self, listener: &str) -> Option<Mode> {
        self.modes.get(listener).copied()
    }
}

//! Pieces that a plan must not have, with the reasons.

use super::origins::Kind;
use evenkeel_config::Plan;
use evenkeel_config::plan::{Listener, Pool, Route};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Identity of a piece in a merged plan: its kind and name.
pub type Key = (Kind, Arc<str>);

/// Pieces that are left out.
pub type Unwanted = HashMap<Key, Impossible>;

/// A piece that cannot be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Impossible {
    pub why: String,
    /// Piece of the same kind and name that runs, and is kept.
    pub instead: Option<Kept>,
}

/// Copy of a piece in the plan that runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    Listener(Arc<Listener>),
    Route(Box<Route>),
    Pool(Arc<Pool>),
}

/// Pieces that may be at fault, with the running pieces that stay in their place. Pieces that others refer to come
/// first: listeners and pools, then routes.
pub(super) type Suspects = Vec<(Key, Option<Kept>)>;

/// Listeners, routes and pools for [`changed`].
pub(super) struct Candidates<'p, L, R, P>
where
    L: Iterator<Item = &'p Arc<Listener>>,
    R: Iterator<Item = &'p Route>,
    P: Iterator<Item = &'p Arc<Pool>>,
{
    pub(super) listeners: L,
    pub(super) routes: R,
    pub(super) pools: P,
}

/// Pieces that the running plan does not have, or has with other values; all of them without a plan.
pub(super) fn changed<'p, L, R, P>(all: Candidates<'p, L, R, P>, running: Option<&Plan>) -> Suspects
where
    L: Iterator<Item = &'p Arc<Listener>>,
    R: Iterator<Item = &'p Route>,
    P: Iterator<Item = &'p Arc<Pool>>,
{
    let listeners: HashMap<&str, &Arc<Listener>> =
        running.iter().flat_map(|plan| &plan.listeners).map(|one| (&*one.name, one)).collect();
    let routes: HashMap<&str, &Route> =
        running.iter().flat_map(|plan| plan.routes.iter()).map(|one| (&*one.name, one)).collect();
    let pools: HashMap<&str, &Arc<Pool>> =
        running.iter().flat_map(|plan| &plan.pools).map(|one| (&*one.name, one)).collect();
    let mut suspects = Suspects::new();
    let mut seen: HashSet<Key> = HashSet::new();
    let mut add = |key: Key, instead: Option<Kept>| {
        if seen.insert(key.clone()) {
            suspects.push((key, instead));
        }
    };
    for pool in all.pools {
        let now = pools.get(&*pool.name).copied();
        if now != Some(pool) {
            add((Kind::Pool, pool.name.clone()), now.cloned().map(Kept::Pool));
        }
    }
    for listener in all.listeners {
        let now = listeners.get(&*listener.name).copied();
        if now != Some(listener) {
            add((Kind::Listener, listener.name.clone()), now.cloned().map(Kept::Listener));
        }
    }
    for route in all.routes {
        let now = routes.get(&*route.name).copied();
        if now != Some(route) {
            add((Kind::Route, route.name.clone()), now.cloned().map(|route| Kept::Route(Box::new(route))));
        }
    }
    suspects
}

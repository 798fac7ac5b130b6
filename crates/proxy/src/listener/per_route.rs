//! Per-route state of a worker, created at the route's first request: of a large plan's routes, most see none
//! on most workers.

use crate::filters::list::Filters;
use crate::filters::template::lookup::Lookup;
use crate::listener::route::RouteId;
use crate::observe::access_log::Named;
use crate::observe::stats::{ListenerStats, RouteStats, RouteTable};
use crate::upstream::retries::Retries;
use crate::upstream::target::{Services, Target};
use evenkeel_balance::Clock;
use evenkeel_config::plan;
use evenkeel_net::clock::CachedClock;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Per-route state that does not depend on the listener.
#[derive(Default)]
pub struct Routes {
    pub planned: Arc<[plan::Route]>,
    targets: Box<[Target]>,
    retries: Box<[OnceCell<Rc<Retries>>]>,
    /// Pools of filters, of the routes that have any.
    services: HashMap<RouteId, Services>,
    /// Number of workers, to divide budgets of the process by.
    pub workers: usize,
}

impl Routes {
    /// Creates the state for the routes of a plan. `targets` has the pools of each route, `services` the pools of
    /// filters. Retry state of `before` is kept for routes whose retry settings did not change.
    pub fn new(
        planned: Arc<[plan::Route]>,
        (targets, services): (Box<[Target]>, HashMap<RouteId, Services>),
        before: &Routes,
        workers: usize,
    ) -> Routes {
        let old = before.retries.iter().filter_map(OnceCell::get);
        let old: HashMap<&str, &Rc<Retries>> = old.map(|retries| (retries.route(), retries)).collect();
        let stays =
            |route: &plan::Route| old.get(&*route.name).filter(|old| old.is_of(route)).map(|old| (*old).clone());
        let retries = planned.iter().map(|route| stays(route).map(OnceCell::from).unwrap_or_default()).collect();
        Routes { planned, targets, retries, services, workers }
    }

    /// Pools of a route; `None` if there is no such route.
    pub fn target(&self, route: RouteId) -> Option<&Target> {
        self.targets.get(route)
    }

    /// Pools to which filters of a route send separate requests; `None` if there are none.
    pub fn services(&self, route: RouteId) -> Option<&Services> {
        self.services.get(&route)
    }

    /// Retry rules and budget of a route.
    pub fn retries(&self, route: RouteId, worker: usize, clock: &CachedClock) -> &Retries {
        let new = || Rc::new(Retries::new(&self.planned[route], worker, self.workers, clock.now()));
        self.retries[route].get_or_init(new)
    }

    pub fn len(&self) -> usize {
        self.targets.len()
    }
}

/// Number of routes per allocation.
const BLOCK: usize = 64;

/// Per-route state of a listener; the index after the last route is for requests that no route matched.
pub struct PerRoute {
    blocks: Box<[OnceCell<Box<Block>>]>,
    stats: Arc<RouteTable>,
    /// Statistics of the listener.
    pub of_listener: Arc<ListenerStats>,
    /// Random id of this process, for loop detection.
    pub instance: u64,
}

type Block = [OnceCell<Box<Noted>>; BLOCK];

/// State of a route at a listener.
pub struct Noted {
    /// Statistics of the route at this listener.
    pub stats: Arc<RouteStats>,
    /// Names for the access log.
    pub named: Named,
    /// Filters of the route; empty for unmatched requests.
    pub filters: Filters,
    /// Map that chooses the pool, if any does.
    pub choice: Option<Lookup>,
}

impl PerRoute {
    /// Creates empty state for `routes` routes.
    pub fn new(routes: usize, (of_listener, stats): (Arc<ListenerStats>, Arc<RouteTable>), instance: u64) -> PerRoute {
        let blocks = (0..=routes / BLOCK).map(|_| OnceCell::new()).collect();
        PerRoute { blocks, stats, of_listener, instance }
    }

    /// Returns the state of a route, created at its first use. `filters` builds its filters and the map that chooses its pool.
    pub fn of(
        &self,
        id: RouteId,
        route: Option<&plan::Route>,
        filters: impl FnOnce(&Arc<RouteStats>) -> (Filters, Option<Lookup>),
    ) -> &Noted {
        let block = self.blocks[id / BLOCK].get_or_init(|| Box::new([const { OnceCell::new() }; BLOCK]));
        block[id % BLOCK].get_or_init(|| self.first(route, filters))
    }

    #[cold]
    fn first(
        &self,
        route: Option<&plan::Route>,
        filters: impl FnOnce(&Arc<RouteStats>) -> (Filters, Option<Lookup>),
    ) -> Box<Noted> {
        let stats = route.map_or_else(|| self.stats.unrouted().clone(), |route| self.stats.of(&route.name));
        let (filters, choice) = filters(&stats);
        Box::new(Noted { stats, named: Named::default(), filters, choice })
    }
}

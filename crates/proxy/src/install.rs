//! How does a worker take up a plan, its first or its next? What stays is found again by its name and goes on; requests
//! that run keep the rules they began with.

use crate::accept;
use crate::parts::{ListenerParts, News, Parts, PoolParts, Slots};
use crate::retries::Retries;
use crate::rules::{Listener, Rules};
use crate::sidecar::Reporter;
use crate::upstream::{Endpoint, Endpoints, WorkerPool};
use crate::worker::Worker;
use evenkeel_balance::{Clock, Slot};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// What a worker has of the plan.
#[derive(Default)]
pub struct Installed {
    pub listeners: Vec<Rc<Listener>>,
    pub pools: Vec<Rc<WorkerPool>>,
    pub retries: Vec<Rc<Retries>>,
    pub accepting: Vec<accept::Accepting>,
    /// Which plan it is.
    pub number: u64,
}

/// Takes up what is new.
pub fn take_up(worker: &Rc<Worker>, news: News) {
    match news {
        News::Plan(parts) => install(worker, *parts),
        // Requests that wait or run see it too: they hold pools, and pools these tables.
        News::Endpoints(pools, done) => {
            let installed = worker.installed.borrow();
            for (name, endpoints) in pools {
                if let Some(pool) = installed.pools.iter().find(|pool| pool.name == name) {
                    pool.endpoints.change(table(endpoints));
                }
            }
            drop(done);
        }
    }
}

/// Takes up a plan. Everything in one go, so that no request sees half of it.
fn install(worker: &Rc<Worker>, parts: Parts) {
    let Parts { number, plan, workers, listeners, pools, pool_of_route, sockets, log, generation, done } = parts;
    let mut installed = worker.installed.borrow_mut();
    let before = std::mem::take(&mut *installed);
    if let Some(log) = log {
        worker.log.replace(log);
    }
    let pools: Vec<_> = pools.into_iter().map(|parts| pool(parts, &before.pools)).collect();
    let of_route: Vec<_> = pool_of_route.iter().map(|&pool| pools[pool].clone()).collect();
    let now = worker.clock.now();
    let retries = plan.routes.iter().map(|route| match before.retries.iter().find(|old| old.is_of(route)) {
        Some(stays) => stays.clone(),
        None => Rc::new(Retries::new(route, worker.index, workers, now)),
    });
    let retries: Vec<_> = retries.collect();
    let listener = |parts: ListenerParts| {
        let ListenerParts {
            name,
            router,
            limits,
            timeouts,
            edge,
            requests_max,
            connections_max,
            open,
            report_load,
            stats,
            routes,
        } = parts;
        let before = before.listeners.iter().find(|l| l.name == name);
        let reporter = report_load.map(|(plan, shared)| {
            let reported = before.map(|listener| listener.rules());
            Reporter::new(plan, shared, reported.as_ref().and_then(|rules| rules.reporter.as_ref()))
        });
        let (plan, generation, pools) = (plan.clone(), generation.clone(), of_route.clone());
        let rules = Rules {
            plan,
            router,
            limits,
            timeouts,
            edge,
            requests_max,
            connections_max,
            reporter,
            pools,
            retries: retries.clone(),
            stats: routes,
            _generation: generation,
        };
        match before {
            Some(stays) => {
                stays.change(rules);
                stays.clone()
            }
            None => Rc::new(Listener::new(name, open, stats, rules)),
        }
    };
    let listeners: Vec<_> = listeners.into_iter().map(listener).collect();
    let gone = before.listeners.iter().filter(|old| !listeners.iter().any(|l| Rc::ptr_eq(l, old)));
    let gone: Vec<_> = gone.cloned().collect();

    let (mut accepting, mut left) = (Vec::new(), before.accepting);
    for (addr, listener, new) in sockets {
        let listener = &listeners[listener];
        for stays in left.extract_if(.., |accepting| accepting.addr == addr) {
            stays.listener.replace(listener.clone());
            accepting.push(stays);
        }
        accepting.extend(new.into_iter().filter_map(|socket| accept::start(worker, addr, listener.clone(), socket)));
    }
    left.iter().for_each(|accepting| accepting.close(worker));
    if !gone.is_empty() {
        drain(worker, gone, plan.runtime.drain_timeout);
    }
    *installed = Installed { listeners, pools, retries, accepting, number };
    drop(done);
}

fn pool(parts: PoolParts, before: &[Rc<WorkerPool>]) -> Rc<WorkerPool> {
    let PoolParts {
        name,
        balancer,
        endpoints,
        key,
        limits,
        idle_time,
        announce,
        queue_time,
        sticky,
        reports,
        stats,
        control,
    } = parts;
    let reports = reports.map(Rc::new);
    let before = before.iter().find(|old| old.name == name);
    let endpoints_by_slot = before.map_or_else(|| Rc::new(Endpoints::default()), |old| old.endpoints.clone());
    endpoints_by_slot.change(table(endpoints));
    match (balancer, before) {
        (None, Some(stays)) => {
            stays.limits.set(limits);
            stays.idle_time.set(idle_time);
            stays.announce.set(announce);
            stays.queue_time.set(queue_time);
            stays.sticky.replace(sticky);
            stays.reports.replace(reports);
            stays.clone()
        }
        (Some(balancer), _) => Rc::new(WorkerPool {
            name,
            balancer: RefCell::new(balancer),
            key,
            endpoints: endpoints_by_slot,
            limits: Cell::new(limits),
            idle_time: Cell::new(idle_time),
            announce: Cell::new(announce),
            queue_time: Cell::new(queue_time),
            sticky: RefCell::new(sticky),
            reports: RefCell::new(reports),
            control,
            stats,
        }),
        (None, None) => unreachable!("a new pool comes with a balancer"),
    }
}

/// Endpoints as a worker has them.
fn table(endpoints: Slots) -> Vec<(Slot, Endpoint)> {
    endpoints.into_iter().map(|(slot, e)| (slot, Endpoint::new(e.name, e.addr, e.stats))).collect()
}

/// Ends the connections of listeners that left: idle ones now, others after their request, all of them in `limit`.
fn drain(worker: &Rc<Worker>, gone: Vec<Rc<Listener>>, limit: Duration) {
    gone.iter().for_each(|listener| listener.gone.set(true));
    worker.wheel.wake_all();
    // Not held, so that it is known when the last of their connections has ended.
    let gone: Vec<_> = gone.iter().map(Rc::downgrade).collect();
    let worker = Rc::downgrade(worker);
    tokio::task::spawn_local(async move {
        tokio::time::sleep(limit).await;
        gone.iter().filter_map(Weak::upgrade).for_each(|listener| listener.cut.set(true));
        if let Some(worker) = worker.upgrade() {
            worker.wheel.wake_all();
        }
    });
}

//! How does a worker apply a plan, its first or its next? What stays is found again by its name and goes on; requests
//! that run keep the rules they began with.

use super::accept;
use super::installed::{Installed, Worker};
use super::parts::{ListenerParts, Parts, PoolParts, Slots, Update};
use crate::core::Core;
use crate::listener::per_route::{PerRoute, Routes};
use crate::listener::probe_answers;
use crate::listener::rules::{Listener, Rules};
use crate::load::load_report::Reporter;
use crate::observe::access_log::Named;
use crate::udp;
use crate::upstream::pool::{Endpoint, Endpoints, WorkerPool};
use crate::upstream::probe_rate::ProbeRate;
use evenkeel_balance::Slot;
use evenkeel_config::plan::IdleConnections;
use evenkeel_net::event_loop::{self, alarm};
use evenkeel_net::listen::Protocol;
use evenkeel_net::workers::Applied;
use rustix::process::{Resource, getrlimit};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Applies what is new; `_applied` tells so in the end.
pub fn apply(worker: &Rc<Worker>, update: Update, _applied: Applied) {
    match update {
        Update::Look(look) => look(worker),
        Update::Plan(parts) => install(worker, *parts),
        // Requests that wait or run see it too: they hold pools, and pools these tables.
        Update::Endpoints { pools, drain_timeout } => {
            let installed = worker.installed.borrow();
            let mut left = Vec::new();
            for (at, endpoints) in pools {
                if let Some(pool) = installed.pools.get(at) {
                    left.extend(pool.endpoints.change(table(&worker.core, endpoints)));
                }
            }
            if !left.is_empty() {
                drain(worker, &[], &left, drain_timeout);
            }
        }
    }
}

/// Takes up a plan. Everything in one go, so that no request sees half of it.
fn install(worker: &Rc<Worker>, parts: Parts) {
    let Parts {
        number,
        plan,
        workers,
        instance,
        listeners,
        pools,
        pool_of_route,
        sockets,
        probed,
        log,
        explain,
        traces,
        generation,
    } = parts;
    worker.core.idle.set(idle_max(plan.runtime.idle_connections, workers));
    worker.core.explaining.follow(explain);
    worker.core.traces.follow(traces);
    let mut installed = worker.installed.borrow_mut();
    let before = std::mem::take(&mut *installed);
    if let Some(log) = log {
        worker.core.log.replace(log);
    }
    let mut left = Vec::new();
    let old_pools = by_name(&before.pools);
    let one = |parts: PoolParts| pool(&worker.core, old_pools.get(&*parts.name).copied(), parts, &mut left);
    let pools: Vec<_> = pools.into_iter().map(one).collect();
    // One with another algorithm goes on with the same endpoints, and has the same name.
    let new_pools = by_name(&pools);
    let gone_pools = before.pools.iter().filter(|old| !new_pools.contains_key(&*old.name));
    left.extend(gone_pools.flat_map(|old| old.endpoints.leave()));
    let of_route = pool_of_route.iter().map(|&pool| pools[pool].clone()).collect();
    let routes = Rc::new(Routes::new(&plan.routes, of_route, &before.routes, workers));
    let listener = |parts: ListenerParts| {
        let before = before.listeners.iter().find(|l| l.name == parts.name);
        let reporter = parts.report_load.map(|(plan, shared)| {
            let reported = before.map(|listener| listener.rules());
            Reporter::new(plan, shared, reported.as_ref().and_then(|rules| rules.reporter.as_ref()))
        });
        let rules = Rules {
            planned: plan.routes.clone(),
            router: parts.router,
            tcp: parts.tcp,
            tls: parts.tls,
            redirect_https: parts.redirect_https,
            challenges: parts.challenges,
            hsts: parts.hsts,
            limits: parts.limits,
            timeouts: parts.timeouts,
            h2c: parts.h2c,
            http2: parts.http2,
            flows: parts.flows,
            admission: parts.admission,
            request_id: parts.request_id,
            detect_loops: parts.detect_loops,
            errors: parts.errors,
            error_pages: parts.error_pages,
            requests_max: parts.requests_max,
            connections_max: parts.connections_max,
            reporter,
            prober: worker.prober.clone(),
            routes: routes.clone(),
            noted: PerRoute::new(plan.routes.len(), parts.routes, parts.name.clone(), instance),
            _generation: generation.clone(),
        };
        match before {
            Some(stays) => {
                stays.change(rules);
                stays.clone()
            }
            None => Rc::new(Listener::new(parts.name, parts.open, parts.stats, rules)),
        }
    };
    let listeners: Vec<_> = listeners.into_iter().map(listener).collect();
    let gone = before.listeners.iter().filter(|old| !listeners.iter().any(|l| Rc::ptr_eq(l, old)));
    let gone: Vec<_> = gone.cloned().collect();

    let (mut accepting, mut closing) = (Vec::new(), before.accepting);
    let (mut datagrams, mut left_datagrams) = (Vec::new(), before.datagrams);
    for ((protocol, addr), listener, new) in sockets {
        let listener = &listeners[listener];
        if protocol == Protocol::Udp {
            for stays in left_datagrams.extract_if(.., |serving| serving.addr() == addr) {
                stays.change(listener.clone());
                datagrams.push(stays);
            }
            let start = |socket| udp::start(&worker.core, addr, listener.clone(), socket);
            datagrams.extend(new.into_iter().filter_map(start));
            continue;
        }
        for stays in closing.extract_if(.., |accepting| accepting.addr == addr) {
            stays.serve(listener.clone());
            accepting.push(stays);
        }
        accepting.extend(new.into_iter().filter_map(|socket| accept::start(worker, addr, listener.clone(), socket)));
    }
    closing.iter().for_each(|accepting| accepting.close(worker));
    left_datagrams.iter().for_each(|serving| serving.close(&worker.core));
    let mut answering_before = before.answering;
    let answering = probed.into_iter().filter_map(|(addr, listener, new)| {
        let listener = &listeners[listener];
        if let Some(socket) = new {
            return probe_answers::start(&worker.core, addr, listener.clone(), socket);
        }
        let stays = answering_before.extract_if(.., |answering| answering.addr == addr).next()?;
        stays.listener.replace(listener.clone());
        Some(stays)
    });
    let answering = answering.collect();
    if !gone.is_empty() || !left.is_empty() {
        drain(worker, &gone, &left, plan.runtime.drain_timeout);
    }
    *installed = Installed { listeners, pools, routes, accepting, answering, datagrams, number: Some(number) };
}

/// Idle connections to endpoints that one of so many workers keeps.
fn idle_max(configured: IdleConnections, workers: usize) -> usize {
    let all = match configured {
        IdleConnections::Count(n) => u64::from(n),
        IdleConnections::Auto => getrlimit(Resource::Nofile).current.map_or(u64::MAX, |descriptors| descriptors / 4),
    };
    usize::try_from(all).unwrap_or(usize::MAX).div_ceil(workers)
}

fn by_name(pools: &[Rc<WorkerPool>]) -> HashMap<&str, &Rc<WorkerPool>> {
    pools.iter().map(|pool| (&*pool.name, pool)).collect()
}

/// `before`: the pool of that name. `left`: takes the endpoints that are in it no more.
fn pool(
    core: &Rc<Core>,
    before: Option<&Rc<WorkerPool>>,
    parts: PoolParts,
    left: &mut Vec<Rc<Endpoint>>,
) -> Rc<WorkerPool> {
    let PoolParts {
        name,
        balancer,
        endpoints,
        key,
        limits,
        idle_time,
        protocol,
        http2,
        announce,
        tolerated,
        tls,
        source,
        keepalive,
        queue_time,
        sticky,
        reports,
        stats,
        control,
    } = parts;
    let (reports, tls) = (reports.map(Rc::new), tls.map(Rc::new));
    let endpoints_by_slot = before.map_or_else(|| Rc::new(Endpoints::default()), |old| old.endpoints.clone());
    left.extend(endpoints_by_slot.change(table(core, endpoints)));
    match (balancer, before) {
        (None, Some(stays)) => {
            stays.limits.set(limits);
            stays.idle_time.set(idle_time);
            if stays.protocol.replace(protocol) != protocol || stays.http2.replace(http2) != http2 {
                stays.close_idle();
            }
            stays.announce.set(announce);
            stays.tolerated.set(tolerated);
            if stays.tls.replace(tls.clone()) != tls {
                // They speak as the plan before says.
                stays.chose_h2.set(false);
                stays.close_idle();
            }
            stays.source.set(source);
            stays.keepalive.set(keepalive);
            stays.queue_time.set(queue_time);
            stays.sticky.replace(sticky);
            stays.reports.replace(reports);
            stays.clone()
        }
        (Some(balancer), before) => {
            if let Some(before) = before {
                before.balancer.borrow_mut().end_journal();
            }
            Rc::new(WorkerPool {
                name,
                balancer: RefCell::new(balancer),
                key,
                endpoints: endpoints_by_slot,
                limits: Cell::new(limits),
                idle_time: Cell::new(idle_time),
                protocol: Cell::new(protocol),
                http2: Cell::new(http2),
                chose_h2: Rc::default(),
                announce: Cell::new(announce),
                tolerated: Cell::new(tolerated),
                tls: RefCell::new(tls),
                source: Cell::new(source),
                keepalive: Cell::new(keepalive),
                queue_time: Cell::new(queue_time),
                sticky: RefCell::new(sticky),
                reports: RefCell::new(reports),
                probes: ProbeRate::default(),
                control,
                stats,
                named: Named::default(),
            })
        }
        (None, None) => unreachable!("a new pool comes with a balancer"),
    }
}

/// Endpoints as a worker has them.
fn table(core: &Rc<Core>, endpoints: Slots) -> Vec<(Slot, Endpoint)> {
    endpoints.into_iter().map(|(slot, e)| (slot, Endpoint::new(core, e.name, e.addr, e.stats))).collect()
}

/// Ends the connections of listeners that left: idle ones now, others after their request, all of them in `limit`; and in
/// the same time the sessions with endpoints that left.
fn drain(worker: &Rc<Worker>, gone: &[Rc<Listener>], left: &[Rc<Endpoint>], limit: Duration) {
    gone.iter().for_each(|listener| listener.gone.set(true));
    // Sessions with endpoints that left are woken only when their time is over: endpoints may come and go often.
    if !gone.is_empty() {
        worker.core.wheel.wake_all();
    }
    // Not held, so that it is known when the last of their connections has ended.
    let gone: Vec<_> = gone.iter().map(Rc::downgrade).collect();
    let left: Vec<_> = left.iter().map(Rc::downgrade).collect();
    let core = Rc::downgrade(&worker.core);
    event_loop::spawn(async move {
        alarm::sleep(limit).await;
        gone.iter().filter_map(Weak::upgrade).for_each(|listener| listener.cut.set(true));
        left.iter().filter_map(Weak::upgrade).for_each(|endpoint| endpoint.cut.set(true));
        if let Some(core) = core.upgrade() {
            core.wheel.wake_all();
        }
    });
}

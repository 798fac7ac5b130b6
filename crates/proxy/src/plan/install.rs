//! Installation of a plan in a worker. Listeners, pools and sockets that the previous plan also has, by name or
//! address, stay. Running requests keep the rules that they began with.

use super::accept;
use super::installed::{Installed, Worker};
use super::parts::{Parts, PoolParts, Slots, Update};
use crate::core::Core;
use crate::filters::row::{Build, Stage};
use crate::filters::table;
use crate::filters::template::lookups::Lookups;
use crate::listener::compiled::Compiled;
use crate::listener::per_route::{PerRoute, Routes};
use crate::listener::probe_answers;
use crate::listener::rules::{Listener, Rules, Shared};
use crate::load::load_report::Reporter;
use crate::observe::stats::PoolStats;
use crate::serve::h3;
use crate::udp;
use crate::upstream::marked::Mark;
use crate::upstream::pool::{Endpoint, Endpoints, WorkerPool};
use crate::upstream::target::{Services, Split, Target};
use evenkeel_balance::Slot;
use evenkeel_config::plan::{self, IdleConnections};
use evenkeel_net::event_loop::{self, alarm};
use evenkeel_net::listen::Protocol;
use evenkeel_net::quic::steer;
use evenkeel_net::workers::Applied;
use evenkeel_runtime::Control;
use evenkeel_runtime::splits::Splits;
use rustix::process::{Resource, getrlimit};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

/// Applies an update. Dropping `_applied` at the end reports that it is in use.
pub fn apply(worker: &Rc<Worker>, update: Update, _applied: Applied) {
    match update {
        Update::Look(look) => look(worker),
        Update::Plan(parts) => install(worker, *parts),
        // Running and queued requests see the change too: they hold the pool, and the pool holds this table.
        Update::Endpoints { pools, drain_timeout } => {
            let installed = worker.installed.borrow();
            let mut left = Vec::new();
            for (at, endpoints) in pools {
                if let Some(pool) = installed.pools.get(at) {
                    left.extend(pool.endpoints.change(table((&worker.core, &pool.endpoints.mark), endpoints)));
                    // So that the next sweep adopts the set published with this change, even without requests.
                    pool.endpoints.mark.set();
                }
            }
            if !left.is_empty() {
                drain(worker, &[], &left, drain_timeout);
            }
        }
    }
}

/// Pools of a route, by their indices.
fn target(route: &plan::Route, at: &[usize], pools: &[Rc<WorkerPool>], splits: &Splits) -> Target {
    match &route.action {
        plan::Action::Pool(_) => at.first().map_or(Target::Nowhere, |pool| Target::Pool(pools[*pool].clone())),
        plan::Action::Choice(choice) => {
            let named = choice.pools.iter().zip(at);
            Target::Choice(named.map(|(name, pool)| (name.as_bytes().into(), pools[*pool].clone())).collect())
        }
        plan::Action::Split(split) => splits.published(&route.name).map_or(Target::Nowhere, |weights| {
            let pools = at.iter().map(|pool| pools[*pool].clone());
            Target::Split(Split::new(pools, weights.reader(), split.key.clone()))
        }),
        _ => Target::Nowhere,
    }
}

/// Pools of the filters of a route. Their indices follow the pools of its action; `None` if there are none.
fn services(route: &plan::Route, at: &[usize], pools: &[Rc<WorkerPool>]) -> Option<Services> {
    let mut of_filters = at.iter().skip(route.action.pools().count()).map(|pool| pools[*pool].clone());
    let auth = route.filters.forward_auth.as_ref().and_then(|_| of_filters.next());
    let mirrors: Box<[_]> = of_filters.by_ref().take(route.filters.mirrors.len()).collect();
    let pages: Box<[_]> = of_filters.collect();
    let has_any = auth.is_some() || !mirrors.is_empty() || !pages.is_empty();
    has_any.then_some(Services { auth, mirrors, pages })
}

/// Installs a plan without awaiting, so that no request sees half of it.
fn install(worker: &Rc<Worker>, parts: Parts) {
    let Parts {
        number,
        plan,
        workers,
        instance,
        stats,
        control,
        listeners,
        pools,
        pools_of_route,
        splits,
        sockets,
        probed,
        log,
        explain,
        traces,
        quic_keys,
        generation,
    } = parts;
    worker.core.idle.set(idle_max(plan.runtime.idle_connections, workers));
    worker.core.explanations.follow(explain);
    worker.core.traces.follow(traces);
    let mut installed = worker.installed.borrow_mut();
    let before = std::mem::take(&mut *installed);
    if let Some(log) = log {
        worker.core.log.replace(log);
    }
    let mut left = Vec::new();
    let old_pools = by_name(&before.pools);
    let one = |(parts, stats): (PoolParts, &Arc<PoolStats>)| {
        let old = old_pools.get(&*parts.rules.plan.name).copied();
        pool(worker, old, parts, (stats, &control), &mut left)
    };
    let pools: Vec<_> = pools.into_iter().zip(&stats.pools).map(one).collect();
    // A pool with a new algorithm is a new pool over the same endpoints, so names decide and not identity.
    let new_pools = by_name(&pools);
    let gone_pools = before.pools.iter().filter(|old| !new_pools.contains_key(&*old.name));
    left.extend(gone_pools.flat_map(|old| old.endpoints.leave()));
    let routes = plan.routes.iter().zip(&*pools_of_route);
    let targets = routes.clone().map(|(route, at)| target(route, at, &pools, &splits)).collect();
    let services =
        routes.enumerate().filter_map(|(id, (route, at))| Some((id, services(route, at, &pools)?))).collect();
    let routes = Rc::new(Routes::new(plan.routes.clone(), (targets, services), &before.routes, workers));
    let listener = |(index, (compiled, shared)): (usize, &(Arc<Compiled>, Shared))| {
        let planned = &plan.listeners[index];
        let before = before.listeners.iter().find(|l| l.name == planned.name);
        let counts = before.map_or(&stats.listeners[index], |stays| &stays.stats);
        let reporter = planned.report_load.clone().map(|report| {
            let reported = before.map(|listener| listener.rules());
            let before = reported.as_ref().and_then(|rules| rules.reporter.as_deref());
            Rc::new(Reporter::new(report, shared.load.clone(), before))
        });
        let build = Build {
            listener: planned,
            routes: &plan.routes,
            resources: &compiled.resources,
            admission: &compiled.admission,
            challenges: compiled.challenges.as_ref(),
            reporter: reporter.as_ref(),
            route: None,
        };
        let filters = table::build(Stage::Listener, &build);
        let rules = Rules {
            plan: planned.clone(),
            compiled: compiled.clone(),
            shared: shared.clone(),
            reporter,
            filters,
            prober: worker.prober.clone(),
            routes: routes.clone(),
            // No path matches before the route is known.
            lookups: Lookups::new(compiled.resources.of(), &Rc::default()),
            noted: PerRoute::new(plan.routes.len(), (counts.clone(), stats.routes[index].clone()), instance),
            _generation: generation.clone(),
        };
        match before {
            Some(stays) => {
                stays.change(rules);
                stays.clone()
            }
            None => Rc::new(Listener::new(counts.clone(), rules)),
        }
    };
    let listeners: Vec<_> = listeners.iter().enumerate().map(listener).collect();
    let gone = before.listeners.iter().filter(|old| !listeners.iter().any(|l| Rc::ptr_eq(l, old)));
    let gone: Vec<_> = gone.cloned().collect();

    let (mut accepting, mut closing) = (Vec::new(), before.accepting);
    let (mut datagrams, mut left_datagrams) = (Vec::new(), before.datagrams);
    let (mut quic, mut left_quic) = (Vec::new(), before.quic);
    for ((protocol, addr), listener, new) in sockets {
        let listener = &listeners[listener];
        if protocol == Protocol::Udp && listener.plan().http3.is_some() {
            for stays in left_quic.extract_if(.., |serving| serving.addr == addr) {
                stays.change(listener.clone());
                quic.push(stays);
            }
            // The socket of a listener with flows has joined its group already.
            let of_flows = left_datagrams.extract_if(.., |serving| serving.addr() == addr);
            let taken = of_flows.map(|serving| serving.into_socket(&worker.core));
            let taken: Vec<_> = taken.inspect(|socket| h3::steer(socket, addr)).collect();
            if let Some(keys) = &quic_keys {
                let common = worker.quic.get_or_init(|| h3::Quic::start(&worker.core, instance, keys.clone()));
                let start = |socket| h3::start(&worker.core, common, addr, listener.clone(), socket);
                quic.extend(taken.into_iter().chain(new).filter_map(start));
            }
            continue;
        }
        if protocol == Protocol::Udp {
            for stays in left_datagrams.extract_if(.., |serving| serving.addr() == addr) {
                stays.change(listener.clone());
                datagrams.push(stays);
            }
            let of_quic = left_quic.extract_if(.., |serving| serving.addr == addr);
            let taken: Vec<_> =
                of_quic.map(h3::Serving::into_socket).inspect(|socket| steer::by_addresses(socket)).collect();
            let start = |socket| udp::start(&worker.core, addr, listener.clone(), socket);
            datagrams.extend(taken.into_iter().chain(new).filter_map(start));
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
    left_quic.into_iter().for_each(h3::Serving::end);
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
    *installed = Installed { listeners, pools, routes, accepting, answering, datagrams, quic, number: Some(number) };
}

/// Number of idle upstream connections that each of `workers` workers may keep. `Auto` is a quarter of the descriptor
/// limit.
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

/// Creates a pool or updates `before`, the pool of that name. Endpoints that are no longer in it are added to `left`.
fn pool(
    worker: &Worker,
    before: Option<&Rc<WorkerPool>>,
    parts: PoolParts,
    (stats, control): (&Arc<PoolStats>, &Control),
    left: &mut Vec<Rc<Endpoint>>,
) -> Rc<WorkerPool> {
    let PoolParts { rules, balancer, endpoints } = parts;
    let by_slot = before.map_or_else(|| Rc::new(Endpoints::new(&worker.marked)), |old| old.endpoints.clone());
    left.extend(by_slot.change(table((&worker.core, &by_slot.mark), endpoints)));
    match (balancer, before) {
        (None, Some(stays)) => {
            stays.change(rules);
            stays.clone()
        }
        (Some(balancer), before) => {
            if let Some(before) = before {
                before.balancer.borrow_mut().end_journal();
            }
            WorkerPool::new(rules, balancer, by_slot, stats.clone(), control.clone())
        }
        (None, None) => unreachable!("a new pool comes with a balancer"),
    }
}

/// Creates the worker's endpoints, each with its slot.
fn table(holds: (&Rc<Core>, &Rc<Mark>), endpoints: Slots) -> Vec<(Slot, Endpoint)> {
    endpoints.into_iter().map(|(slot, e)| (slot, Endpoint::new(holds, e.name, (e.addr, e.own), e.stats))).collect()
}

/// Ends the connections of listeners that left the plan: idle connections now, others after their request, all of them
/// within `limit`. Sessions with endpoints in `left` get the same time.
fn drain(worker: &Rc<Worker>, gone: &[Rc<Listener>], left: &[Rc<Endpoint>], limit: Duration) {
    gone.iter().for_each(|listener| listener.gone.set(true));
    // Sessions with endpoints that left are woken only when their time is over, as endpoints may come and go often.
    if !gone.is_empty() {
        worker.core.wheel.wake_all();
    }
    // Weak, so that only those with connections left are counted and woken.
    let gone: Vec<_> = gone.iter().map(Rc::downgrade).collect();
    let left: Vec<_> = left.iter().map(Rc::downgrade).collect();
    let core = Rc::downgrade(&worker.core);
    event_loop::spawn(async move {
        alarm::sleep(limit).await;
        let cut = |endpoint: &Rc<Endpoint>| {
            endpoint.cut.set(true);
            // This reference counts, and so does the slot if it was not reused yet. Any further references are
            // sessions.
            Rc::strong_count(endpoint) > 2
        };
        let sessions = left.iter().filter_map(Weak::upgrade).filter(cut).count();
        let listeners = gone.iter().filter_map(Weak::upgrade).inspect(|listener| listener.cut.set(true)).count();
        // Only if something is cut: endpoints may come and go all the time, and a wake costs every connection of the
        // worker.
        if let Some(core) = core.upgrade().filter(|_| sessions + listeners > 0) {
            core.wheel.wake_all();
        }
    });
}

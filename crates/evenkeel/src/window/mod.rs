//! What do operators see of the process, and what may they change? The answers to what the API asks.

mod counts;
pub mod history;
pub mod latencies;
mod served;
pub mod shown;
pub mod state;
mod tapped;

use crate::asked::{Ask, Asks, ask};
use crate::configured::revisions::{Revision, Revisions};
use crate::looking;
use crate::predictions::Predictions;
use counts::{Counts, of_stats};
use evenkeel_admin::api::problem::Problem;
use evenkeel_admin::api::running::{Later, Requests, Running};
use evenkeel_admin::api::types;
use evenkeel_admin::api::types::config::{self, Outcome, Wish};
use evenkeel_admin::api::types::history::History;
use evenkeel_admin::api::types::picks::{Armed, Explained, PoolShadows, WouldGo};
use evenkeel_admin::api::types::served::{Certificate, Route, Zone};
use evenkeel_admin::api::types::tap;
use evenkeel_balance::Instant;
use evenkeel_balance::state::State;
use evenkeel_config::plan;
use evenkeel_proxy::latency::Latencies;
use evenkeel_proxy::stats::{Counter, EndpointStats};
use evenkeel_proxy::{Looker, Numbers};
use evenkeel_runtime::control::Control;
use evenkeel_runtime::events::unix_ms;
use evenkeel_runtime::history::LastCheck;
use evenkeel_runtime::orders::{Change, Drain, Order, Word};
use evenkeel_runtime::pool::Refused;
use evenkeel_runtime::{EndpointSnapshot, PoolSnapshot};
use latencies::{Before, latencies};
use shown::Shown;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;

/// The process, as its operators see it.
pub struct Window {
    shown: Arc<Shown>,
    revisions: Revisions,
    started: SystemTime,
    /// Where the main loop is asked for what only it can do.
    asks: Asks,
    predictions: Predictions,
}

impl Window {
    /// Of a process with these configurations.
    pub fn new(shown: Arc<Shown>, revisions: Revisions, asks: Asks) -> Window {
        Window { shown, revisions, started: SystemTime::now(), asks, predictions: Predictions::default() }
    }

    fn looker(&self) -> Result<Arc<Looker>, Problem> {
        self.shown.looker.get().cloned().ok_or_else(|| Problem::refused("the process is starting"))
    }

    fn running(&self) -> Result<(Arc<Numbers>, &Control), Problem> {
        let running = self.shown.running.get().map(|running| running.borrow().clone());
        running.zip(self.shown.control.get()).ok_or_else(|| Problem::refused("the process is starting"))
    }

    fn config_of(&self, now: &Numbers) -> config::Running {
        let (revision, file) = (self.revisions.latest(), self.file());
        config::Running {
            generation: now.generation.number,
            draining: now.generation.draining(),
            ..revision.running(file)
        }
    }

    fn file(&self) -> Option<String> {
        self.revisions.file.as_ref().map(|file| file.display().to_string())
    }

    /// Does something to an endpoint, and shows it then.
    fn change(
        &self,
        pool: &str,
        endpoint: &str,
        change: impl FnOnce(&mut evenkeel_runtime::SharedPool, &Control) -> Result<(), Refused>,
    ) -> Result<types::Endpoint, Problem> {
        let (now, control) = self.running()?;
        let mut pools = control.pools();
        let Some(shared) = pools.get_mut(pool) else {
            return Err(Problem::not_found(format!("no pool is called \"{pool}\"")));
        };
        let changed = change(shared, control);
        drop(pools);
        changed.map_err(|refused| problem(pool, endpoint, &refused))?;
        // It may be due earlier than the control thread thinks.
        control.changed();
        if let Err(error) = self.shown.keep_orders(&now, control) {
            let detail = format!("it counts, and is forgotten at a restart: runtime.state cannot be written: {error}");
            return Err(Problem::refused(detail));
        }
        let shown = pools_of(&now, control, &self.shown.latencies()).into_iter().find(|shown| shown.name == pool);
        let shown = shown.and_then(|pool| pool.endpoints.into_iter().find(|shown| shown.name == endpoint));
        shown.ok_or_else(|| Problem::not_found(format!("the endpoint \"{endpoint}\" has just left")))
    }
}

fn problem(pool: &str, endpoint: &str, refused: &Refused) -> Problem {
    match refused {
        Refused::Unknown(known) => {
            let known: Vec<&str> = known.iter().take(20).map(|name| &**name).collect();
            let known = known.join(", ");
            Problem::not_found(format!("no endpoint of pool \"{pool}\" is called \"{endpoint}\"; there are: {known}"))
        }
        Refused::Already(what) => Problem::refused(format!("the endpoint \"{endpoint}\" is {what}")),
        Refused::TooMany => Problem::refused("too many endpoints have orders; take some back"),
    }
}

impl Running for Window {
    fn status(&self) -> types::Status {
        let ready = self.shown.ready();
        let mut status = types::Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            started_ms: unix_ms(self.started),
            now_ms: unix_ms(SystemTime::now()),
            ready: ready.reasons.is_empty(),
            reasons: ready.reasons,
            ..types::Status::default()
        };
        if let Ok((now, control)) = self.running() {
            status.workers = now.workers.len() as u32;
            status.config = self.config_of(&now);
            status.listeners =
                now.plan().listeners.iter().enumerate().map(|(at, plan)| listener(&now, at, plan)).collect();
            status.pools = pools_of(&now, control, &self.shown.latencies());
        }
        status
    }

    fn order(&self, pool: &str, endpoint: &str, patch: types::Patch, by: &str) -> Result<types::Endpoint, Problem> {
        let drain = |drain| match drain {
            types::Drain::KeepSessions => Drain::KeepSessions,
            types::Drain::Now => Drain::Now,
        };
        let word = |health| match health {
            types::Health::Up => Word::Up,
            types::Health::Down => Word::Down,
        };
        let changes = [
            patch.drain.map(|said| Change::Drain(said.map(drain))),
            patch.weight.map(Change::Weight),
            patch.health.map(|said| Change::Health(said.map(word))),
        ];
        self.change(pool, endpoint, |shared, control| {
            let mut changes = changes.into_iter().flatten();
            changes.try_for_each(|change| shared.order(endpoint, change, by, control.now()))
        })
    }

    fn eject(&self, pool: &str, endpoint: &str, out: bool, by: &str) -> Result<types::Endpoint, Problem> {
        self.change(pool, endpoint, |shared, control| match out {
            true => shared.eject(endpoint, by, control.now()),
            false => shared.restore(endpoint, by, control.now()),
        })
    }

    fn events(&self, after: u64) -> Vec<types::Event> {
        let events = self.shown.events().since(after);
        let shown = events.into_iter().map(|event| types::Event {
            id: event.id,
            at_ms: event.unix_ms,
            kind: event.kind.name().into(),
            pool: event.pool.map(|name| name.to_string()),
            endpoint: event.endpoint.map(|name| name.to_string()),
            text: event.text,
            by: event.by,
        });
        shown.collect()
    }

    fn latest_event(&self) -> watch::Receiver<u64> {
        self.shown.events().follow()
    }

    fn history(&self, of: Option<(&str, Option<&str>)>) -> Option<History> {
        self.shown.history.shown(of)
    }

    fn routes(&self) -> Vec<Route> {
        self.running().map(|(now, _)| served::routes(&now, &self.shown)).unwrap_or_default()
    }

    fn certificates(&self) -> Vec<Certificate> {
        served::certificates(&self.shown)
    }

    fn zones(&self) -> Vec<Zone> {
        self.running().map(|(now, _)| served::zones(&now, &self.shown)).unwrap_or_default()
    }

    fn explanations(&self, pool: Option<String>, limit: usize) -> Later<Result<Vec<Explained>, Problem>> {
        let looker = self.looker();
        Box::pin(async move { Ok(looking::kept(&*looker?, pool.as_deref(), limit).await) })
    }

    fn explanation(&self, id: String) -> Later<Result<Explained, Problem>> {
        let looker = self.looker();
        Box::pin(async move { looking::one(&*looker?, &id).await })
    }

    fn explain_next(&self, pool: String) -> Result<Armed, Problem> {
        looking::arm(&*self.looker()?, pool)
    }

    fn would_go(&self, request: types::Described) -> Later<Result<WouldGo, Problem>> {
        let looker = self.looker();
        Box::pin(async move { looking::would_go(&*looker?, request).await })
    }

    fn shadows(&self, pool: Option<String>) -> Later<Result<Vec<PoolShadows>, Problem>> {
        let (looker, predictions) = (self.looker(), self.predictions.clone());
        Box::pin(async move { predictions.of(&*looker?, pool.as_deref()).await })
    }

    fn tap(&self, filter: &tap::Filter) -> Result<Requests, Problem> {
        let (now, _) = self.running()?;
        tapped::open(&self.looker()?, now.plan(), filter)
    }

    fn config(&self, whole: bool) -> config::Config {
        let Ok((now, _)) = self.running() else { return config::Config::default() };
        let source = whole.then(|| self.revisions.latest().texts.text().to_owned());
        config::Config { running: self.config_of(&now), text: now.plan().to_toml(), source }
    }

    fn revisions(&self) -> Vec<config::Revision> {
        self.revisions.all().iter().map(Revision::shown).collect()
    }

    fn revision(&self, generation: u64, whole: bool) -> Option<config::Config> {
        let revision = self.revisions.get(generation)?;
        let text = revision.texts.load().plan.map(|plan| plan.to_toml()).unwrap_or_default();
        let source = whole.then(|| revision.texts.text().to_owned());
        Some(config::Config { running: revision.running(self.file()), text, source })
    }

    fn configure(&self, wish: Wish, unless: Option<u64>, by: &str) -> Later<Result<Outcome, Problem>> {
        let by = by.to_owned();
        Box::pin(ask(self.asks.clone(), move |answer| Ask::Configure { wish, unless, by, answer }))
    }

    fn reopen(&self, by: &str) -> Later<Result<String, Problem>> {
        let by = by.to_owned();
        Box::pin(ask(self.asks.clone(), move |answer| Ask::Reopen { by, answer }))
    }

    fn upgrade(&self, by: &str) -> Later<Result<String, Problem>> {
        let by = by.to_owned();
        Box::pin(ask(self.asks.clone(), move |answer| Ask::Upgrade { by, answer }))
    }
}

fn listener(now: &Numbers, at: usize, plan: &plan::Listener) -> types::Listener {
    let stats = || now.workers.iter().map(|worker| &worker.listeners[at]);
    types::Listener {
        name: plan.name.to_string(),
        mode: plan.mode.name().into(),
        addresses: plan.bind.iter().map(ToString::to_string).collect(),
        // Two threads count, so a sum may be of two moments.
        connections: stats().fold(0u64, |sum, listener| sum.wrapping_add(listener.active.get())),
        accepted: stats().map(|listener| listener.accepted.get()).sum(),
        bytes_in: stats().map(|listener| listener.bytes_in.get()).sum(),
        bytes_out: stats().map(|listener| listener.bytes_out.get()).sum(),
    }
}

fn pools_of(now: &Numbers, control: &Control, before: &Before) -> Vec<types::Pool> {
    let (snapshots, latencies) = (control.snapshot(now.plan()), latencies(now));
    let one = |(at, (snapshot, plan)): (usize, (PoolSnapshot, &Arc<plan::Pool>))| {
        let none = Latencies::default();
        let since: Vec<Latencies> = plan
            .endpoints
            .iter()
            .zip(&latencies[at])
            .map(|(endpoint, now)| now.since(before.get(&(plan.name.clone(), endpoint.name.clone())).unwrap_or(&none)))
            .collect();
        let responses: u64 = since.iter().map(Latencies::count).sum();
        let weights: f64 = snapshot.endpoints.iter().map(|endpoint| endpoint.weight).sum();
        let endpoints = snapshot.endpoints.into_iter().enumerate().map(|(e, snapshot)| {
            let stats: Vec<&EndpointStats> = now.workers.iter().map(|worker| &*worker.endpoints[at][e]).collect();
            let mut shown = endpoint(&snapshot, &stats);
            let ms = |part| since[e].percentile_ns(part).map(|ns| ns as f64 / 1e6);
            shown.latency = ms(0.5).zip(ms(0.99)).map(|(p50_ms, p99_ms)| types::LatencyOfLate {
                responses: since[e].count(),
                p50_ms,
                p99_ms,
            });
            shown.share = (responses > 0).then(|| since[e].count() as f64 / responses as f64);
            shown.report = report(&stats, control.now());
            shown.fair_share = if weights > 0.0 { snapshot.weight / weights } else { 0.0 };
            shown
        });
        types::Pool {
            name: plan.name.to_string(),
            algorithm: plan.balance.algorithm.name.into(),
            in_panic: snapshot.in_panic,
            waiting: snapshot.waiting,
            endpoints: endpoints.collect(),
        }
    };
    snapshots.into_iter().zip(&now.plan().pools).enumerate().map(one).collect()
}

fn endpoint(snapshot: &EndpointSnapshot, stats: &[&EndpointStats]) -> types::Endpoint {
    let mut counts = Counts::default();
    stats.iter().for_each(|stats| counts.add(of_stats(stats)));
    types::Endpoint {
        name: snapshot.name.to_string(),
        address: snapshot.addr.map(|addr| addr.to_string()),
        state: snapshot.state.map_or("unknown", State::name).into(),
        reason: reason(snapshot),
        since_ms: snapshot.since.map(unix_ms).unwrap_or_default(),
        weight: types::Weights { configured: snapshot.weight_configured, effective: snapshot.weight },
        priority: snapshot.priority,
        zone: snapshot.zone.as_ref().map(ToString::to_string),
        in_flight: snapshot.in_flight,
        requests: counts.requests,
        failed: counts.errors,
        share: None,
        fair_share: 0.0,
        latency: None,
        report: None,
        check: snapshot.checked.as_ref().map(check),
        order: snapshot.order.as_ref().map(order),
    }
}

/// What it said last of its load, to whichever worker.
fn report(stats: &[&EndpointStats], now: Instant) -> Option<types::LoadReport> {
    let last = stats.iter().map(|stats| &stats.reported).max_by_key(|said| said.at_ns.get())?;
    let said = |counter: &Counter, unit: f64| Some(counter.get() as f64 * unit).filter(|value| *value > 0.0);
    (last.at_ns.get() > 0).then(|| types::LoadReport {
        age_ms: now.since(Instant(last.at_ns.get())) / 1_000_000,
        in_flight: last.in_flight.get(),
        latency_ms: said(&last.latency_ns, 1e-6),
        utilization: said(&last.utilization_ppm, 1e-6),
    })
}

/// Why it is not up.
fn reason(snapshot: &EndpointSnapshot) -> Option<String> {
    let by = |what: &str| snapshot.order.as_ref().map(|order| format!("{what} by {}", order.by));
    let has = |has: fn(&Order) -> bool| snapshot.order.as_ref().is_some_and(has);
    let configured = || "by its configuration".to_owned();
    match snapshot.state? {
        State::Up if has(|order| order.health == Some(Word::Up)) => by("forced up"),
        State::Up => None,
        State::Draining if has(|order| order.drain.is_some()) => by("drained"),
        State::Disabled if has(|order| order.weight == Some(0)) => by("weight set to 0"),
        State::Draining | State::Disabled => Some(configured()),
        State::Down if has(|order| order.health == Some(Word::Down)) => by("forced down"),
        State::Down => {
            let failure = snapshot.checked.as_ref().and_then(|check| check.failure.clone());
            Some(failure.unwrap_or_else(|| "never passed a check".into()))
        }
        State::Unresolved => Some("its name does not resolve".into()),
        State::Unchecked => Some("its first health check is under way".into()),
        State::Ejected(cause) => Some(cause.to_string()),
        State::Probation => Some("back from an ejection: one request at a time until one succeeds".into()),
        State::Ramping => Some("slow start".into()),
    }
}

fn check(check: &LastCheck) -> types::Check {
    types::Check { at_ms: unix_ms(check.at), took_ms: check.took.as_secs_f64() * 1e3, failure: check.failure.clone() }
}

fn order(order: &Order) -> types::Order {
    types::Order {
        drain: order.drain.map(|drain| match drain {
            Drain::KeepSessions => types::Drain::KeepSessions,
            Drain::Now => types::Drain::Now,
        }),
        weight: order.weight,
        health: order.health.map(|word| match word {
            Word::Up => types::Health::Up,
            Word::Down => types::Health::Down,
        }),
        by: order.by.clone(),
        at_ms: order.unix_ms,
    }
}

//! The process as its operators see and change it: answers to the API.

// Order: advised, cached, handed, past, shown, native, state, tapped
mod advised;
pub mod cached;
pub mod handed;
pub mod native;
pub mod past;
pub mod shown;
pub mod state;
mod tapped;

use crate::advising::Advising;
use crate::asked::{Ask, Asks, ask};
use crate::configured;
use crate::predictions::Predictions;
use evenkeel_admin::api::problem::Problem;
use evenkeel_admin::api::running::{Answer, Later, Requests, Running};
use evenkeel_config::{Plan, plan};
use evenkeel_discovery::providers::parts::Parts;
use evenkeel_discovery::providers::revisions::Revisions;
use evenkeel_proxy::Looker;
use evenkeel_runtime::control::Control;
use evenkeel_runtime::generation::Generation;
use evenkeel_runtime::membership::Endpoints;
use evenkeel_runtime::orders::Change;
use evenkeel_runtime::pool::Refused;
use evenkeel_runtime::snapshot;
use evenkeel_runtime::splits::SplitRefused;
use evenkeel_tls::clients::Expiry;
use evenkeel_view::cache::{Cache, Purge, PurgeDone, StoredResponse, TopKey, TopWanted};
use evenkeel_view::config::{self, Outcome, Wish};
use evenkeel_view::history::History;
use evenkeel_view::picks::{Armed, Explained, WouldGo};
use evenkeel_view::served::{Certificate, InKernel, Route, Split, Zone};
use evenkeel_view::shadows::PoolShadows;
use evenkeel_view::tap;
use evenkeel_view::words::unix_ms;
use evenkeel_view::{Described, Endpoint, Event, Patch, Pool, SplitPatch, Status};
use shown::{Shown, Started};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;

/// The process, as its operators see it.
pub struct Window {
    shown: Arc<Shown>,
    revisions: Revisions,
    providers: Parts,
    started: SystemTime,
    /// Channel to the main loop, for requests that only the main loop can serve.
    asks: Asks,
    predictions: Predictions,
    advising: Advising,
}

impl Window {
    /// Creates the window of a process with these configurations.
    pub fn new(shown: Arc<Shown>, (revisions, providers): (Revisions, Parts), asks: Asks) -> Window {
        let (predictions, advising) = (Predictions::default(), Advising::default());
        Window { shown, revisions, providers, started: SystemTime::now(), asks, predictions, advising }
    }

    fn running(&self) -> Result<&Started, Problem> {
        self.shown.started().ok_or_else(|| Problem::refused("the process is starting"))
    }

    fn looker(&self) -> Result<Arc<Looker>, Problem> {
        Ok(self.running()?.looker.clone())
    }

    fn pool(&self, started: &Started, (plan, endpoints): (&plan::Pool, Endpoints)) -> Pool {
        let mut pool = started.control.shown(plan, &endpoints);
        let counts = started.ledger.pool(&plan.name, endpoints);
        counts.add_to(&mut pool, &self.shown.timeline, started.control.now());
        pool
    }

    fn config_of(&self, now: &Generation) -> config::Running {
        let (revision, file) = (self.revisions.latest(), self.file());
        config::Running { generation: now.number, draining: now.draining(), ..configured::running(&revision, file) }
    }

    fn file(&self) -> Option<String> {
        self.revisions.file.as_ref().map(|file| file.display().to_string())
    }

    fn keep_orders(&self, started: &Started) -> Result<(), Problem> {
        started.keep_orders().map_err(|error| {
            Problem::refused(format!(
                "the change is in effect, but a restart forgets it: cannot write runtime.state: {error}"
            ))
        })
    }

    /// Does something to an endpoint, and shows it then.
    fn change(
        &self,
        pool: &str,
        endpoint: &str,
        change: impl FnOnce(&mut evenkeel_runtime::SharedPool, &Control) -> Result<(), Refused>,
    ) -> Result<Endpoint, Problem> {
        let started = self.running()?;
        let (now, control) = (started.now(), &started.control);
        let mut pools = control.pools();
        let Some(shared) = pools.get_mut(pool) else {
            return Err(Problem::not_found(format!("unknown pool \"{pool}\"")));
        };
        let changed = change(shared, control);
        drop(pools);
        changed.map_err(|refused| problem(pool, endpoint, &refused))?;
        // It may be due earlier than the control thread thinks.
        control.changed();
        // A pool whose endpoints are all drained now leaves its splits. It returns with the first endpoint that is not
        // drained.
        now.splits.refresh(control.orders());
        self.keep_orders(started)?;
        let shown = now.pool(pool).map(|(plan, endpoints)| self.pool(started, (plan, endpoints)));
        let shown = shown.and_then(|pool| pool.endpoints.into_iter().find(|shown| shown.name == endpoint));
        shown.ok_or_else(|| Problem::not_found(format!("the endpoint \"{endpoint}\" has just left")))
    }
}

/// Explains why the kernel has nothing of a listener.
fn not_in_kernel(plan: &Plan, name: &str) -> Problem {
    let by_kernel = || plan.listeners.iter().filter(|listener| listener.plane.is_kernel()).take(20);
    let Some(listener) = plan.listener(name) else {
        let known: Vec<&str> = by_kernel().map(|listener| &*listener.name).collect();
        let of = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Problem::not_found(format!("unknown listener \"{name}\"; the kernel forwards for: {of}"));
    };
    if listener.plane.is_kernel() {
        return Problem::refused("the kernel rules are being applied; try again");
    }
    let why = format!("listener \"{name}\" has plane = \"proxy\": POST /v1/explain describes its picks");
    Problem::not_found(why)
}

/// Explains why an order for the split of a route was refused.
fn split_problem(route: &str, refused: SplitRefused) -> Problem {
    let list = |names: Vec<Arc<str>>| names.iter().take(20).map(|name| &**name).collect::<Vec<_>>().join(", ");
    match refused {
        SplitRefused::UnknownRoute(known) if known.is_empty() => {
            Problem::not_found(format!("unknown route \"{route}\"; no route has a split"))
        }
        SplitRefused::UnknownRoute(known) => {
            Problem::not_found(format!("unknown route \"{route}\"; routes with a split: {}", list(known)))
        }
        SplitRefused::NoSplit => Problem::not_found(format!("the route \"{route}\" has no split")),
        SplitRefused::UnknownPool(pool, known) => {
            Problem::malformed(format!("the split of route \"{route}\" has no pool \"{pool}\"; pools: {}", list(known)))
        }
        SplitRefused::TooLarge(pool, weight) => {
            Problem::malformed(format!("the weight of \"{pool}\" is {weight}; allowed: 0 to 1000000"))
        }
        SplitRefused::AllZero => {
            Problem::malformed(format!("no pool of the split of route \"{route}\" would have a weight above 0"))
        }
        SplitRefused::TooMany => Problem::refused("too many splits have orders; revoke some"),
    }
}

fn problem(pool: &str, endpoint: &str, refused: &Refused) -> Problem {
    match refused {
        Refused::Unknown(known) => {
            let known: Vec<&str> = known.iter().take(20).map(|name| &**name).collect();
            let known = known.join(", ");
            Problem::not_found(format!("unknown endpoint \"{endpoint}\" of pool \"{pool}\"; endpoints: {known}"))
        }
        Refused::Already(what) => Problem::refused(format!("the endpoint \"{endpoint}\" is {what}")),
        Refused::TooMany => Problem::refused("too many endpoints have orders; revoke some"),
    }
}

impl Running for Window {
    fn status(&self) -> Status {
        let ready = self.shown.ready();
        let mut status = Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            started_ms: unix_ms(self.started),
            now_ms: unix_ms(SystemTime::now()),
            ready: ready.reasons.is_empty(),
            reasons: ready.reasons,
            providers: self.providers.states().iter().map(configured::provider).collect(),
            ..Status::default()
        };
        if let Ok(started) = self.running() {
            let now = started.now();
            status.workers = started.workers as u32;
            status.config = self.config_of(&now);
            status.listeners = now.plan.listeners.iter().map(|plan| snapshot::listener(plan)).collect();
            status.pools = now.pools().map(|(plan, endpoints)| self.pool(started, (plan, endpoints))).collect();
            for (pool, modes) in status.pools.iter_mut().zip(now.plan.modes()) {
                pool.modes = modes.iter().map(|mode| mode.name().to_owned()).collect();
            }
            status.splits = now.splits.all().into_iter().filter(|split| split.order.is_some()).collect();
            started.planes.iter().for_each(|plane| plane.add_to(&mut status));
        }
        status
    }

    fn order(&self, pool: &str, endpoint: &str, patch: Patch, by: &str) -> Result<Endpoint, Problem> {
        let changes =
            [patch.drain.map(Change::Drain), patch.weight.map(Change::Weight), patch.health.map(Change::Health)];
        self.change(pool, endpoint, |shared, control| {
            let mut changes = changes.into_iter().flatten();
            changes.try_for_each(|change| shared.order(endpoint, change, by, control.now()))
        })
    }

    fn eject(&self, pool: &str, endpoint: &str, out: bool, by: &str) -> Result<Endpoint, Problem> {
        self.change(pool, endpoint, |shared, control| match out {
            true => shared.eject(endpoint, by, control.now()),
            false => shared.restore(endpoint, by, control.now()),
        })
    }

    fn events(&self, after: u64) -> Vec<Event> {
        self.shown.events().since(after)
    }

    fn latest_event(&self) -> watch::Receiver<u64> {
        self.shown.events().follow()
    }

    fn history(&self, of: Option<(&str, Option<&str>)>) -> Option<History> {
        self.shown.timeline.shown(of)
    }

    fn routes(&self) -> Vec<Route> {
        let planes = self.running().map(|started| &started.planes[..]).unwrap_or_default();
        planes.iter().flat_map(|plane| plane.shown_routes(&self.shown.timeline)).collect()
    }

    fn split(&self, route: &str) -> Result<Split, Problem> {
        let now = self.running()?.now();
        now.splits.shown(&now.plan, route).map_err(|refused| split_problem(route, refused))
    }

    fn order_split(&self, route: &str, patch: SplitPatch, by: &str) -> Result<Split, Problem> {
        let started = self.running()?;
        let (now, control) = (started.now(), &started.control);
        if let Some(changes) = patch.weights {
            let ordered = now.splits.order((&now.plan, route), &changes, by, (control.orders(), control.events()));
            ordered.map_err(|refused| split_problem(route, refused))?;
            self.keep_orders(started)?;
        }
        self.split(route)
    }

    fn cache(&self) -> Result<Cache, Problem> {
        self.running()?.looker.now().shown_cache().ok_or_else(cached::no_cache)
    }

    fn cache_top(&self, wanted: TopWanted) -> Later<Result<Vec<TopKey>, Problem>> {
        match self.running() {
            Ok(started) => cached::top(started.looker.now(), wanted),
            Err(problem) => Box::pin(async move { Err(problem) }),
        }
    }

    fn cache_show(&self, url: &str) -> Result<Vec<StoredResponse>, Problem> {
        let started = self.running()?;
        started.looker.now().cache_show(url).map_err(cached::problem)
    }

    fn purge(&self, purge: &Purge, by: &str) -> Later<Result<PurgeDone, Problem>> {
        match self.running() {
            Ok(started) => cached::purge(&started.looker.now(), &started.control, purge, by),
            Err(problem) => Box::pin(async move { Err(problem) }),
        }
    }

    fn certificates(&self) -> Vec<Certificate> {
        let ms = |seconds: i64| u64::try_from(seconds).unwrap_or_default() * 1000;
        let Ok(started) = self.running() else { return Vec::new() };
        let one = |(listener, expiry): (Arc<str>, Expiry)| Certificate {
            listener: listener.to_string(),
            not_after_ms: ms(expiry.not_after),
            renewed_ms: started.issued.due(&expiry.name).map(ms),
            name: expiry.name,
            names: expiry.names,
            issuer: expiry.issuer,
        };
        let mut all: Vec<Certificate> = started.certificates.served().into_iter().map(one).collect();
        all.sort_by(|a, b| (a.not_after_ms, &a.listener, &a.name).cmp(&(b.not_after_ms, &b.listener, &b.name)));
        all
    }

    fn zones(&self) -> Vec<Zone> {
        let Ok(started) = self.running() else { return Vec::new() };
        let now = started.now();
        started.planes.iter().flat_map(|plane| plane.shown_zones(&now.plan, &self.shown.timeline)).collect()
    }

    fn in_kernel(&self, listener: String) -> Later<Result<InKernel, Problem>> {
        let asking = self.running().and_then(|started| {
            let asking = started.planes.iter().find_map(|plane| plane.in_kernel(&listener));
            asking.ok_or_else(|| not_in_kernel(&started.now().plan, &listener))
        });
        Box::pin(async move { asking?.await.map_err(Problem::refused) })
    }

    fn explanations(&self, pool: Option<String>, limit: usize) -> Later<Result<Vec<Explained>, Problem>> {
        let looker = self.looker();
        Box::pin(async move {
            let all = looker?.explanations().await.into_iter();
            Ok(all.filter(|one| pool.as_ref().is_none_or(|pool| *one.pool == **pool)).take(limit).collect())
        })
    }

    fn explanation(&self, id: String) -> Later<Result<Explained, Problem>> {
        let looker = self.looker();
        Box::pin(async move {
            let why = format!(
                "no explanation of request \"{id}\" is kept: telemetry.explain selects the requests to explain"
            );
            looker?.explanation(&id).await.ok_or_else(|| Problem::not_found(why))
        })
    }

    fn explain_next(&self, pool: String) -> Result<Armed, Problem> {
        self.looker()?.arm(&pool).map_err(Problem::not_found)?;
        Ok(Armed { pool, armed: true })
    }

    fn would_go(&self, request: Described) -> Later<Result<WouldGo, Problem>> {
        let looker = self.looker();
        Box::pin(async move {
            let described = request.parts().map_err(Problem::malformed)?;
            looker?.would_go(described).await.map_err(Problem::not_found)
        })
    }

    fn shadows(&self, pool: Option<String>) -> Later<Result<Vec<PoolShadows>, Problem>> {
        let (looker, predictions) = (self.looker(), self.predictions.clone());
        Box::pin(async move { predictions.of(&*looker?, pool.as_deref()).await })
    }

    fn advice(&self, whole: bool) -> Result<Answer, Problem> {
        let shadows = (self.looker()?, self.predictions.clone());
        advised::advised(&self.advising, &self.revisions, shadows, || self.status(), whole)
    }

    fn tap(&self, filter: &tap::Filter) -> Result<Requests, Problem> {
        let started = self.running()?;
        tapped::open(&started.looker, &started.now(), filter)
    }

    fn config(&self, whole: bool) -> config::Config {
        let Ok(started) = self.running() else { return config::Config::default() };
        let now = started.now();
        let source = whole.then(|| self.revisions.latest().text().map(str::to_owned)).flatten();
        let latest = self.revisions.latest();
        let origin = |table: &str, name: &str| latest.origins.of_table(table, name);
        let text = now.plan_as_found().to_toml_by_origin(&origin);
        config::Config { running: self.config_of(&now), text, source }
    }

    fn revisions(&self) -> Vec<config::Revision> {
        self.revisions.all().iter().map(configured::revision).collect()
    }

    fn revision(&self, generation: u64, whole: bool) -> Option<config::Config> {
        let revision = self.revisions.get(generation)?;
        let text = revision.to_toml();
        let source = whole.then(|| revision.text().map(str::to_owned)).flatten();
        Some(config::Config { running: configured::running(&revision, self.file()), text, source })
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

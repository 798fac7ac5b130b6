//! Pool of a configuration as the first service of a scenario: its endpoints and all settings of balancing. Work, load
//! and links come from the scenario, as a configuration does not have them.

use super::service::Groups;
use crate::planes::PlaneCost;
use crate::scenario::{Balancing, Hop, Information, Load, Policy, Scenario, Server, Service};
use evenkeel_balance::control;
use evenkeel_config::plan::{self, Probe};
use evenkeel_config::planes::Forwarding;
use std::time::Duration;

/// Default work of a request on a core: an assumption, as a configuration does not contain it.
pub const WORK: Duration = Duration::from_millis(10);

/// Default load, as a share of the endpoints' capacity.
pub const SHARE: f64 = 0.7;

/// Pool to simulate, with facts from outside its configuration.
#[derive(Clone, Copy, Debug)]
pub struct FromPool<'a> {
    /// Pool of the configuration.
    pub pool: &'a plan::Pool,
    /// Number of workers, at least 1.
    pub workers: u32,
    /// Requests per second, overriding the scenario's rate.
    pub rate: Option<f64>,
}

/// Scenario file for a pool when none is given: a core per endpoint, Poisson arrivals and exponential work.
pub fn assumed(pool: &str, file: &str, work: Option<Duration>) -> String {
    let work = work.unwrap_or(WORK).as_nanos();
    let summary = toml_text(&format!("Pool {pool} of {file}"));
    format!(
        "summary = {summary}\nrequests = 100_000\nload.share = {SHARE}\nlink = \"200us\"\n\n[service.pool]\n\
         work.exponential = \"{work}ns\"\nserver = [{{ sharing = 1 }}]\n"
    )
}

fn toml_text(text: &str) -> String {
    let plain = |c: char| if c == '"' || c == '\\' || c.is_control() { '?' } else { c };
    format!("\"{}\"", text.chars().map(plain).take(1000).collect::<String>())
}

impl FromPool<'_> {
    /// Endpoints that get requests: endpoints of the first tier, as the simulator has no backup tiers.
    fn endpoints(&self) -> impl Iterator<Item = &plan::Endpoint> {
        let used = |e: &&plan::Endpoint| e.weight > 0 && !e.drain;
        let first = self.pool.endpoints.iter().filter(used).map(|e| e.priority).min();
        self.pool.endpoints.iter().filter(used).filter(move |e| Some(e.priority) == first)
    }

    /// Replaces the servers of a service by the endpoints, each modelled on the server of the same name or else on the
    /// first; and its balancing by the algorithm of the pool. `has_cores`: the scenario has the processors of
    /// balancers, which otherwise are as many as workers.
    pub(super) fn apply(&self, service: &mut Service, has_cores: bool) -> Groups {
        let models = std::mem::take(&mut service.servers);
        let in_kernel = service.balancing.plane.is_some_and(PlaneCost::is_kernel);
        let server = |endpoint: &plan::Endpoint| {
            let model = models.iter().find(|server| *server.name == *endpoint.name).or(models.first());
            Server {
                name: endpoint.name.to_string(),
                weight: endpoint.weight.into(),
                in_flight_max: if in_kernel { 0 } else { self.pool.limits.requests_per_endpoint },
                ..model.cloned().unwrap_or_else(|| Server::new(""))
            }
        };
        service.servers = self.endpoints().map(server).collect();
        service.balancing = self.balancing(&service.balancing);
        if let Some(hop) = service.balancing.hop.take() {
            service.balancing.hop = Some(if has_cores { hop } else { Hop::new(hop.work_ns, self.workers) });
        }
        (0..).zip(&service.servers).map(|(at, server)| (server.name.clone(), at..at + 1)).collect()
    }

    /// Balancing of the pool, at the place and on the plane of `of`. A kernel has no workers, and none of the settings
    /// that are about requests, such as retries, which a pool has by default.
    fn balancing(&self, of: &Balancing) -> Balancing {
        let plan::Pool { load_reports, health, retry, queue, .. } = self.pool;
        let reads = of.plane.is_none_or(|plane| plane.forwarding == Forwarding::Requests);
        let reports = load_reports.as_ref().filter(|_| reads);
        let in_kernel = of.plane.is_some_and(PlaneCost::is_kernel);
        let whole = Balancing {
            policy: None,
            deployment: of.deployment,
            plane: of.plane,
            hop: of.hop.clone(),
            workers: self.workers,
            information: Information {
                probes: reports.is_some_and(|reports| reports.probe != Probe::Off),
                with_answers: reports.is_some_and(|reports| reports.in_band),
                ..of.information
            },
            lag_ns: of.lag_ns,
            control: control::Settings {
                health: health.as_ref().map(|health| health.machine),
                outlier: self.pool.outlier,
                slow_start: self.pool.slow_start,
                panic: self.pool.panic,
                concurrency: self.pool.limits.concurrency,
                ..control::Settings::default()
            },
            check_every_ns: health.as_ref().map_or(0, |health| health.interval.as_nanos() as u64),
            queue: (queue.max, queue.timeout_ns),
            retry: (retry.settings.attempts > 0).then(|| retry.settings.clone()),
            explore: 0.0,
            timeout_ns: retry.settings.try_timeout_ns.unwrap_or(u64::MAX),
        };
        if !in_kernel {
            return whole;
        }
        let control = control::Settings { outlier: None, concurrency: None, ..whole.control };
        Balancing { workers: 1, control, queue: (0, 0), retry: None, timeout_ns: u64::MAX, ..whole }
    }

    /// Replaces the load if a rate is given.
    pub(super) fn load(&self, scenario: &mut Scenario) {
        if let Some(per_second) = self.rate {
            scenario.load = Load::Poisson { per_second };
        }
    }

    /// Policies without duplicates: the pool's algorithm, its shadows, then the policies of the scenario.
    pub(super) fn policies(&self, of: Vec<Policy>) -> Vec<Policy> {
        let own = std::iter::once(&self.pool.balance).chain(&self.pool.shadow);
        let own = own.cloned().map(Policy::algorithm);
        let mut all: Vec<Policy> = Vec::new();
        for policy in own.chain(of) {
            if all.iter().all(|known| known.label != policy.label) {
                all.push(policy);
            }
        }
        all
    }

    /// Summary, in a line, of the settings taken from the configuration.
    pub fn taken(&self) -> String {
        let count = self.endpoints().count();
        let Information { probes, with_answers, .. } = self.balancing(&Balancing::default()).information;
        let reports = match (probes, with_answers) {
            (true, true) => "load reports with responses and by probes",
            (true, false) => "load reports by probes",
            (false, true) => "load reports with responses",
            (false, false) => "no load reports",
        };
        let left_out = self.pool.endpoints.len() - count;
        let left_out = if left_out > 0 { format!(" ({left_out} others drain or are backups)") } else { String::new() };
        // Picks compare better without random ones among them.
        let explore = if self.pool.explore > 0.0 { "; not explore" } else { "" };
        format!(
            "{count} endpoints{left_out} with weights and limits, {} on {} workers, {reports}, queue, tries, ejection and slow start{explore}",
            self.pool.balance, self.workers
        )
    }
}

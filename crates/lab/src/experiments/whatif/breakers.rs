//! The table of breakers: logs from which nothing can be known, each made from a good log or of a system that no model
//! of single endpoints describes. `whatif` has to refuse them.

use super::case::{Arrivals, Case, Law, More, Row, Sharing, WORK_NS};
use super::entry::Entry;
use super::lines::Format::{self, Evenkeel, Haproxy, Nginx};
use crate::rng::Rng;
use evenkeel_sim::scenario::{Balancing, Load, Server, Service, Serving, Step};
use evenkeel_sim::work::Work;

/// Log that has to be refused.
pub struct Breaker {
    pub name: &'static str,
    /// Kind of the defect, for the table of results.
    pub kind: &'static str,
    pub policy: &'static str,
    pub format: Format,
    /// System whose log is spoilt.
    system: System,
    spoil: Spoil,
    pub quick: bool,
}

/// Change of the entries of a log.
type Spoil = fn(&mut Vec<Entry>, &mut Rng);

/// System whose log is spoilt: four endpoints at a load of 0.7, unless changed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum System {
    Usual,
    /// Balancers that share nothing.
    Balancers(u32),
    /// Load as a share of the capacity.
    Load(f64),
    /// Arrivals for some seconds each, with these rates and works relative to the usual, one after the other.
    Parts(&'static [(f64, f64)]),
    /// Endpoints that each call the same database, which is the bottleneck.
    Database,
    /// A second pool, whose requests have no lines, uses the first endpoint too.
    SecondPool,
    /// An endpoint that joins in the middle.
    Joins,
    /// Policy that the command names instead of the policy in force.
    Claimed(&'static str),
    /// The usual system, whose configuration `whatif` gets.
    Configured,
    /// Endpoints that work on any number of requests at once, and a share of explored requests.
    Exploring(f64),
}

const REQUESTS: u64 = 12_000;
const LOAD: f64 = 0.7;
/// Duration of the log at the usual load, in nanoseconds.
const SPAN_NS: u64 = (REQUESTS as f64 / (LOAD * 4.0 / WORK_NS)) as u64;

const fn row(
    name: &'static str,
    kind: &'static str,
    (policy, format): (&'static str, Format),
    system: System,
    spoil: Spoil,
) -> Breaker {
    Breaker { name, kind, policy, format, system, spoil, quick: false }
}

/// Row that `--quick` runs, too.
const fn quick(row: Breaker) -> Breaker {
    Breaker { quick: true, ..row }
}

use System::{Balancers, Claimed, Configured, Database, Exploring, Joins, Parts, SecondPool, Usual};

#[rustfmt::skip] // rows of a table
pub static ALL: &[Breaker] = &[
    quick(row("sampled-10", "sampled", ("random", Evenkeel), Usual, |log, rng| keep(log, rng, 0.1))),
    row("sampled-50", "sampled", ("leastconn", Evenkeel), Usual, |log, rng| keep(log, rng, 0.5)),
    row("sampled-50-counts", "sampled", ("random", Haproxy), Usual, |log, rng| keep(log, rng, 0.5)),
    row("sampled-50-turns", "sampled", ("round_robin", Nginx), Usual, |log, rng| keep(log, rng, 0.5)),
    quick(row("hidden-balancer", "hidden load", ("leastconn", Haproxy), Balancers(2), |log, _| log.retain(|of| of.balancer == 0))),
    row("hidden-balancer-random", "hidden load", ("random", Evenkeel), Balancers(2), |log, _| log.retain(|of| of.balancer == 0)),
    row("hidden-balancers-3-of-4", "hidden load", ("leastconn", Evenkeel), Balancers(4), |log, _| log.retain(|of| of.balancer == 0)),
    row("second-pool", "hidden load", ("random", Evenkeel), SecondPool, |_, _| ()),
    row("database", "hidden load", ("round_robin", Evenkeel), Database, |_, _| ()),
    quick(row("whole-seconds", "whole seconds", ("random", Nginx), Usual, |log, _| log.iter_mut().for_each(|of| of.step_ns = SECOND_NS))),
    row("whole-seconds-json", "whole seconds", ("leastconn", Evenkeel), Usual, |log, _| log.iter_mut().for_each(|of| of.step_ns = SECOND_NS)),
    row("whole-durations", "whole seconds", ("random", Nginx), Usual, |log, _| log.iter_mut().for_each(|of| same_end(of, whole_durations))),
    quick(row("gap", "gap", ("leastconn", Evenkeel), Usual, |log, _| log.retain(|of| !within(of, 0.5, 0.6)))),
    row("gaps", "gap", ("random", Evenkeel), Usual, |log, _| log.retain(|of| of.ended_ns() / SECOND_NS % 8 != 3)),
    quick(row("clock-back", "clock", ("leastconn", Evenkeel), Usual, |log, _| shift(log, 0.5, -5.0))),
    row("clock-forward", "clock", ("random", Haproxy), Usual, |log, _| shift(log, 0.4, 60.0))  ,
    row("time-zones", "clock", ("leastconn", Haproxy), Usual, |log, rng| log.iter_mut().filter(|_| rng.below(2) == 0).for_each(|of| of.shift_ns = 3_600_000_000_000)),
    row("jitter", "clock", ("leastconn", Evenkeel), Usual, |log, rng| log.iter_mut().for_each(|of| of.shift_ns = (rng.unit() * 4e8) as i64)),
    row("stamped-at-the-end", "clock", ("leastconn", Evenkeel), Usual, |log, _| log.iter_mut().for_each(|of| of.shift_ns = of.total_ns as i64)),
    row("demand-grows", "demand", ("random", Evenkeel), Parts(&[(1.0, 0.6), (1.0, 0.75), (1.0, 0.9), (1.0, 1.05), (1.0, 1.2)]), |_, _| ()),
    row("demand-with-load", "demand", ("leastconn", Evenkeel), Parts(&[(0.8, 0.6), (1.1, 1.15), (0.8, 0.6), (1.1, 1.15), (0.8, 0.6), (1.1, 1.15)]), |_, _| ()),
    row("heavy-for-one-endpoint", "demand", ("round_robin", Evenkeel), Exploring(0.05), |log, _| picked_for_first(log, 3.0)),
    row("cached-at-one-endpoint", "demand", ("round_robin", Evenkeel), Exploring(0.05), |log, _| picked_for_first(log, 0.3)),
   quick(row("overload", "overload", ("random", Evenkeel), System::Load(1.15), |_, _| ())),
    row("overload-in-the-end", "overload", ("leastconn", Haproxy), Parts(&[(0.8, 1.0), (0.8, 1.0), (1.8, 1.0)]), |_, _| ()),
    quick(row("endpoint-without-lines", "endpoints", ("round_robin", Evenkeel), Configured, |log, _| log.retain(|of| of.endpoint() != Some(2)))),
    row("endpoint-without-lines-counts", "endpoints", ("random", Haproxy), Usual, |log, _| log.retain(|of| of.endpoint() != Some(2))),
    row("endpoint-not-named", "endpoints", ("random", Evenkeel), Usual, |log, rng| forget(log, rng, 0.3)),
    row("endpoint-joins", "endpoints", ("leastconn", Evenkeel), Joins, |_, _| ()),
    quick(row("instances-interleaved", "policy", ("leastconn", Evenkeel), Balancers(2), |_, _| ())),
    row("instances-in-turn", "policy", ("round_robin", Haproxy), Balancers(3), |_, _| ()),
    row("said-round-robin", "policy", ("leastconn", Evenkeel), Claimed("round_robin"), |_, _| ()),
    row("said-leastconn", "policy", ("random", Evenkeel), Claimed("leastconn"), |_, _| ()),
    row("milliseconds-as-seconds", "units", ("leastconn", Nginx), Usual, |log, _| log.iter_mut().for_each(|of| same_end(of, |of| of.stretch(1e3)))),
    row("microseconds-as-milliseconds", "units", ("random", Evenkeel), Usual, |log, _| log.iter_mut().for_each(|of| of.stretch(1e3))),
    row("seconds-as-milliseconds", "units", ("leastconn", Evenkeel), Usual, |log, _| log.iter_mut().for_each(|of| of.stretch(1e-3))),
    row("shuffled", "lines", ("leastconn", Evenkeel), Usual, |log, rng| rng.shuffle(log)),
    row("duplicated", "lines", ("leastconn", Evenkeel), Usual, |log, _| *log = log.iter().flat_map(|of| [of.clone(), of.clone()]).collect()),
    row("duplicated-20", "lines", ("random", Haproxy), Usual, duplicate_some),
    row("slow-requests-lost", "lines", ("leastconn", Evenkeel), Usual, |log, _| log.retain(|of| of.total_ns < 150_000_000)),
    row("few-lines", "lines", ("random", Evenkeel), Usual, |log, _| log.truncate(60)),
];

const SECOND_NS: u64 = 1_000_000_000;

/// Keeps a share of the lines.
fn keep(log: &mut Vec<Entry>, rng: &mut Rng, share: f64) {
    log.retain(|_| rng.unit() < share);
}

/// True if a request ended within a part of the log, by shares of its duration.
fn within(of: &Entry, from: f64, to: f64) -> bool {
    (from..to).contains(&(of.ended_ns() as f64 / SPAN_NS as f64))
}

/// Lets the clock step by so many seconds after a share of the log.
fn shift(log: &mut [Entry], after: f64, seconds: f64) {
    log.iter_mut().filter(|of| within(of, after, 2.0)).for_each(|of| of.shift_ns = (seconds * 1e9) as i64);
}

/// Changes the durations of an entry whose line is stamped at its end.
fn same_end(of: &mut Entry, change: impl FnOnce(&mut Entry)) {
    let ended_ns = of.ended_ns();
    change(of);
    of.shift_ns = ended_ns as i64 - of.ended_ns() as i64;
}

fn whole_durations(of: &mut Entry) {
    of.step_ns = SECOND_NS;
    of.total_ns = of.total_ns / SECOND_NS * SECOND_NS;
    of.tries.iter_mut().for_each(|tried| tried.took_ns = tried.took_ns / SECOND_NS * SECOND_NS);
}

/// Lets a share of the lines name no endpoint.
fn forget(log: &mut [Entry], rng: &mut Rng, share: f64) {
    for of in log.iter_mut().filter(|_| rng.unit() < share) {
        of.tries.iter_mut().for_each(|tried| tried.endpoint = None);
    }
}

/// Changes the work of requests that the policy, and no draw, sent to the first endpoint.
fn picked_for_first(log: &mut [Entry], times: f64) {
    log.iter_mut().filter(|of| of.drawn_from == 0 && of.endpoint() == Some(0)).for_each(|of| of.stretch(times));
    log.sort_by_key(Entry::ended_ns);
}

fn duplicate_some(log: &mut Vec<Entry>, rng: &mut Rng) {
    let again = |of: &Entry| {
        let times = if rng.unit() < 0.2 { 2 } else { 1 };
        std::iter::repeat_n(of.clone(), times).collect::<Vec<_>>()
    };
    *log = log.iter().flat_map(again).collect();
}

impl Breaker {
    /// System of the log, and the lines that are left of it.
    pub fn log(&self) -> (Case, Vec<Entry>) {
        let (case, mut entries) = match self.system {
            Parts(parts) => self.parts(parts),
            _ => {
                let case = self.case();
                let (_, log) = case.log();
                let entries = case.entries(&log);
                (case, entries)
            }
        };
        (self.spoil)(&mut entries, &mut Rng::new(7));
        (case, entries)
    }

    fn row(&self) -> Row {
        let (load, more) = match self.system {
            System::Load(load) => (load, More::Nothing),
            Balancers(count) => (LOAD, More::Balancers(count)),
            Exploring(share) => (LOAD, More::Explore(share)),
            _ => (LOAD, More::Nothing),
        };
        Row {
            name: self.name,
            endpoints: &[(1, 1.0); 4],
            sharing: if matches!(self.system, Exploring(_)) { Sharing::Unlimited } else { Sharing::Fifo },
            law: Law::Exponential,
            load,
            arrivals: Arrivals::Poisson,
            policy: self.policy,
            format: self.format,
            requests: REQUESTS,
            more,
            quick: self.quick,
        }
    }

    fn case(&self) -> Case {
        let mut case = self.row().case();
        case.is_split = false;
        let web = &mut case.scenario.services[0];
        match self.system {
            Joins => web.servers[3].joins_ns = SPAN_NS / 2,
            Claimed(policy) => case.claimed = policy,
            Configured => case.is_configured = true,
            Database => {
                // Endpoints work for a third of the time of their requests; the rest is at two cores for all.
                web.servers.iter_mut().for_each(|of| of.work = Some(Work::Exponential { mean_ns: WORK_NS / 3.0 }));
                web.steps.push(Step::Call(1));
                let serving = Serving::Fifo { cores: 2 };
                let shared = Server { serving, ..Server::new("db") };
                case.scenario.services.push(service("db", vec![shared], WORK_NS * 0.6));
            }
            SecondPool => {
                // Each client request passes the front to the logged pool and to the other pool.
                web.servers[0].machine = Some(0);
                let mut second =
                    service("other", vec![Server { machine: Some(0), ..Server::new("o1") }], WORK_NS / 6.0);
                second.balancing.policy = Some(super::case::named("random"));
                let mut front = service("front", vec![Server { serving: Serving::Unlimited, ..Server::new("f") }], 0.0);
                front.steps = vec![Step::Call(2), Step::Call(1)];
                front.balancing.policy = Some(super::case::named("random"));
                let web = case.scenario.services.remove(0);
                case.scenario.services = vec![front, web, second];
                case.scenario.machines = vec![1.0];
                case.service = 1;
            }
            _ => {}
        }
        case
    }

    /// Runs the parts as systems of their own, and joins their logs.
    fn parts(&self, parts: &[(f64, f64)]) -> (Case, Vec<Entry>) {
        let (mut all, mut began_ns) = (Vec::new(), 0);
        let length_ns = SPAN_NS / parts.len() as u64;
        for (rate, work) in parts {
            let mut case = self.case();
            for server in &mut case.scenario.services[0].servers {
                server.work = Some(Work::Exponential { mean_ns: WORK_NS * work });
            }
            case.scenario.load = Load::Poisson { per_second: LOAD * 4.0 / (WORK_NS / 1e9) * rate };
            case.scenario.requests = u64::MAX;
            case.scenario.until_ns = length_ns;
            let (_, log) = case.log();
            let mut entries = case.entries(&log);
            entries.iter_mut().for_each(|of| of.arrived_ns += began_ns);
            all.extend(entries);
            began_ns += length_ns;
        }
        all.sort_by_key(Entry::ended_ns);
        (self.case(), all)
    }
}

/// Service with exponential work.
fn service(name: &str, servers: Vec<Server>, mean_ns: f64) -> Service {
    Service {
        name: name.to_string(),
        servers,
        steps: vec![Step::Work],
        work: Work::Exponential { mean_ns },
        response_bytes: 0,
        balancing: Balancing::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_enough_breakers_and_each_has_its_name() {
        assert!(ALL.len() >= 20 && ALL.iter().filter(|row| row.quick).count() == 8);
        for row in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name == row.name).count(), 1, "{}", row.name);
            assert!(super::super::cases::ALL.iter().all(|case| case.name != row.name), "{}", row.name);
        }
    }

    fn log(name: &str) -> Vec<Entry> {
        ALL.iter().find(|row| row.name == name).expect(name).log().1
    }

    #[test]
    fn breakers_spoil_what_they_say() {
        assert!((1_000..1_400).contains(&log("sampled-10").len()));
        assert!((5_500..6_500).contains(&log("hidden-balancer").len()));
        assert!(log("endpoint-without-lines").iter().all(|of| of.endpoint() != Some(2)));
        let gap = log("gap");
        let widest = gap.windows(2).map(|pair| pair[1].ended_ns() - pair[0].ended_ns()).max();
        assert!(widest >= Some(SPAN_NS / 11), "{widest:?}");
        assert_eq!(log("duplicated").len(), 2 * REQUESTS as usize);
        assert!(!log("shuffled").is_sorted_by_key(Entry::ended_ns));
        let joins = log("endpoint-joins");
        let first = joins.iter().filter(|of| of.endpoint() == Some(3)).map(|of| of.arrived_ns).min();
        assert!(first >= Some(SPAN_NS / 2));
    }

    #[test]
    fn hidden_load_makes_endpoints_slower() {
        let mean = |entries: Vec<Entry>, at: usize| {
            let took: Vec<f64> =
                entries.iter().filter(|of| of.endpoint() == Some(at)).map(|of| of.total_ns as f64).collect();
            took.iter().sum::<f64>() / took.len() as f64
        };
        assert!(mean(log("second-pool"), 0) > 1.2 * mean(log("second-pool"), 1));
        let grows = log("demand-grows");
        let (first, last) = grows.split_at(grows.len() / 2);
        assert!(mean(last.to_vec(), 0) > 1.5 * mean(first.to_vec(), 0));
    }
}

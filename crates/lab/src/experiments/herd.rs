//! Herd experiment, the loss from independent balancers: 1, 4 and 16 of them in front of the same endpoints
//! of changing speed, with local knowledge and with shared load; and the simulator's prediction.

use crate::balancers::{self, Algorithm, Running};
use crate::child::{self, Child};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::http;
use crate::load::generator::Plan;
use crate::origin;
use crate::rng::Rng;
use crate::scratch::Scratch;
use crate::setups::sidecars;
use crate::stats::{Interval, Spread};
use crate::study::comparison::{Case, Comparison};
use crate::study::figures::{Timed, raw, told};
use crate::study::prediction::SEEDS;
use crate::study::topology::{column, even, node};
use crate::study::{self, Claim, Finding, Found, Meter, Options, Prediction, Rounds, Versions};
use crate::worker;
use clap::{Args, FromArgMatches};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub static EXPERIMENT: Experiment = Experiment {
    name: "herd",
    summary: "1, 4 and 16 independent balancers before 8 endpoints whose speed changes: local algorithms, shared load, and the prediction",
    docs: "Balancers that each see a part of the requests send too many to an endpoint that looks idle to all of them. Here eight endpoints \
work on two requests at a time, first come first served, 10 ms on average (exponential), and every two seconds on average each draws \
its speed anew: full, half or a quarter. Requests come at moments drawn beforehand (Poisson), 660 a second: 60 % of what the endpoints \
can take; each goes to one of the balancers at random. In a round all ways meet the same moments, the same work and the same changes \
of speed. Latency counts from the moment meant.

Each endpoint has an evenkeel beside it, in every run. Balancers with shared load (leastconn or prequal \
with `load_reports`) learn from those how many requests are in flight at each endpoint; the others know only their own. The bound for all of \
them is one balancer through which every request goes.

The simulator ran the same system in virtual time beforehand, as long as a live run: balancers begin with nothing known, and Peak EWMA, \
which remembers for ten seconds, is better as long as there is little that it could remember. The simulator knows nothing of the time \
that clients and balancers take.",
    args: Options::augment_args,
    run: |matches| Options::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|o| run(&o)),
};

const ENDPOINTS: usize = 8;
const PLACES: usize = 2;
const COUNTS: [usize; 3] = [1, 4, 16];
const RATE: f64 = 660.0;
const WORK_US: f64 = 10_000.0;
/// Factors of the usual time, in thousandths, drawn uniformly.
const SLOW: [u64; 4] = [1000, 1000, 2000, 4000];
/// Mean seconds between changes of an endpoint.
const CHANGES: f64 = 2.0;
const WARM_UP: f64 = 1.0;
/// Scenario of the same system.
const SCENARIO: &str = include_str!("../../scenarios/herd.toml");
const PATIENCE: Duration = Duration::from_secs(60);

/// Way of balancing: name, algorithm, true if load is shared, and the policy in the simulator.
struct Way {
    name: &'static str,
    pool: (Algorithm, bool),
    simulated: &'static str,
}

const WAYS: [Way; 5] = [
    Way { name: "random", pool: (Algorithm::Random, false), simulated: "random" },
    Way { name: "leastconn", pool: (Algorithm::LeastConn, false), simulated: "leastconn{samples=0.0}" },
    Way { name: "peak_ewma", pool: (Algorithm::PeakEwma, false), simulated: "peak_ewma" },
    Way { name: "shared load", pool: (Algorithm::LeastConn, true), simulated: "leastconn" },
    Way { name: "shared load, prequal", pool: (Algorithm::Prequal, true), simulated: "prequal" },
];
/// Index of the first of [`WAYS`] that shares load.
const SHARED: usize = 3;

const GAIN: [Claim; 2] = [
    Claim::ours("With 4 balancers p99 with shared load is at most 0.7 of that of the best local algorithm"),
    Claim::ours("With 16 balancers p99 with shared load is at most 0.7 of that of the best local algorithm"),
];
const CENTRAL: [Claim; 2] = [
    Claim::ours(
        "With 4 balancers p99 with shared load is at most 1.1 of that of one balancer for all, the best there is",
    ),
    Claim::ours("With 16 balancers p99 with shared load is at most 1.3 of that of one balancer for all"),
];

fn run(options: &Options) -> Result<()> {
    let evenkeel = balancers::find_evenkeel(options.evenkeel.as_deref())?;
    let versions = vec![evenkeel.named_version()];
    // Tails need many requests and many changes of speed.
    let seconds = if options.quick { 1.0 } else { options.seconds() as f64 * 3.0 };
    let prediction = Prediction::of(evenkeel.program(), SCENARIO, (RATE * (seconds + WARM_UP)) as u64, SEEDS)?;
    let folder = Scratch::new()?;
    let mut endpoints: Vec<(SocketAddr, Child)> = Vec::new();
    for _ in 0..ENDPOINTS {
        let bind = SocketAddr::from(([127, 0, 0, 1], origin::free_ports()?[0]));
        let worker = worker::Arguments { bind, places: PLACES, spin: false, below_ms: None };
        endpoints.push((bind, worker.start(Vec::new(), folder.path())?));
    }
    let sidecars =
        endpoints.iter().map(|(address, _)| sidecars::beside(&evenkeel, *address)).collect::<Result<Vec<Running>>>()?;
    let names: Vec<String> = COUNTS
        .iter()
        .flat_map(|count| WAYS.iter().map(move |way| format!("{count} balancers, {}", way.name)))
        .collect();
    let rounds = Rounds::run(&names, options.rounds(), |at, round| {
        let (count, way) = (COUNTS[at / WAYS.len()], &WAYS[at % WAYS.len()]);
        // All ways of a round have the same load and changes.
        let seed = round as u64;
        let start = |_| sidecars::in_front(&evenkeel, &sidecars, way.pool);
        let balancers = (0..count).map(start).collect::<Result<Vec<_>>>()?;
        let targets = balancers.iter().map(|balancer| format!("127.0.0.1:{}/", balancer.port())).collect();
        let plan = Plan::open(targets, RATE, seconds, WARM_UP).working(WORK_US, seed);
        let meter = Meter::start(vec![
            ("balancers", balancers.iter().map(Running::pid).collect()),
            ("sidecars", sidecars.iter().map(Running::pid).collect()),
            ("endpoints", endpoints.iter().map(|(_, worker)| worker.pid()).collect()),
            ("lab", vec![std::process::id()]),
        ])?;
        let load = plan.start(Vec::new(), &folder.path().join("load"))?;
        let begin = Instant::now();
        for change in changes(seed, seconds + WARM_UP) {
            while begin.elapsed() < change.at {
                child::pause((change.at - begin.elapsed().min(change.at)).min(Duration::from_millis(50)))?;
            }
            let mut stream = http::connect_to(endpoints[change.endpoint].0)?;
            http::get(&mut stream, &format!("/slow/{}", change.slow), "1.1")?;
        }
        let load = load.end(PATIENCE)?;
        Timed::new(load, meter.used()?, WARM_UP)
    })?;
    let measured = Measured { rounds: &rounds };
    study::present_beside(&measured.found(versions), &measured.beside(&prediction), options)
}

/// Change of an endpoint's speed.
struct Change {
    at: Duration,
    endpoint: usize,
    slow: u64,
}

/// All changes of a run, in order of time; each endpoint's first is at the start.
fn changes(seed: u64, seconds: f64) -> Vec<Change> {
    let mut rng = Rng::new(seed ^ 0x6865_7264);
    let mut changes = Vec::new();
    for endpoint in 0..ENDPOINTS {
        let mut at = 0.0;
        while at < seconds {
            changes.push(Change { at: Duration::from_secs_f64(at), endpoint, slow: SLOW[rng.below(SLOW.len())] });
            at -= (1.0 - rng.unit()).ln() * CHANGES;
        }
    }
    changes.sort_by_key(|change| change.at);
    changes
}

struct Measured<'m> {
    rounds: &'m Rounds<Timed>,
}

impl Measured<'_> {
    fn runs(&self, count: usize, way: usize, share: f64) -> Vec<f64> {
        self.rounds.figures(count * WAYS.len() + way, |run| run.load.quantile(share))
    }

    fn median(&self, count: usize, way: usize, share: f64) -> f64 {
        Spread::of(&self.runs(count, way, share)).map_or(f64::INFINITY, |of| of.median)
    }

    /// Index of the way with the lowest p99 within a range.
    fn best(&self, count: usize, of: std::ops::Range<usize>) -> usize {
        let least = of.min_by(|a, b| self.median(count, *a, 0.99).total_cmp(&self.median(count, *b, 0.99)));
        least.unwrap_or(0)
    }

    /// Finding: p99 of the best way with shared load over p99 of the best without.
    fn gain(&self, claim: Claim, count: usize) -> Finding {
        let (shared, local) = (self.best(count, SHARED..WAYS.len()), self.best(count, 0..SHARED));
        self.p99(claim, (count, shared), (count, local), 0.7)
    }

    /// Finding: p99 of the best way with shared load over p99 of a single balancer that sees all requests.
    fn central(&self, claim: Claim, count: usize, most: f64) -> Finding {
        self.p99(claim, (count, self.best(count, SHARED..WAYS.len())), (0, self.best(0, 0..WAYS.len())), most)
    }

    fn p99(&self, claim: Claim, of: (usize, usize), over: (usize, usize), most: f64) -> Finding {
        let runs = |(count, way)| self.runs(count, way, 0.99);
        let told = |(count, way): (usize, usize)| format!("{} of {}", WAYS[way].name, COUNTS[count]);
        let what = format!("p99 with {} over that with {}", told(of), told(over));
        Finding::at_most(claim, &what, Interval::of_ratios(&runs(of), &runs(over)), most)
    }

    /// Compares the prediction with the measurements.
    fn beside(&self, prediction: &Prediction) -> Comparison {
        let case = |at: usize| {
            let (count, way) = (at / WAYS.len(), at % WAYS.len());
            let group = if COUNTS[count] == 1 { "1 balancer".into() } else { format!("{} balancers", COUNTS[count]) };
            let point = format!("balancers = {}", COUNTS[count]);
            let Way { name, simulated, .. } = WAYS[way];
            let case = Case { group: &group, name, simulated: (&point, simulated), colour: way, why: "" };
            case.latencies(prediction, |share| self.runs(count, way, share))
        };
        (0..COUNTS.len() * WAYS.len()).flat_map(case).collect()
    }

    fn found(&self, versions: Versions) -> Found {
        let header =
            ["", "p50 ms", "p99 ms", "p99.9 ms", "balancers, CPU us/request", "CPU accounted for", "failed runs"];
        let mut figures = vec![header.map(str::to_owned).to_vec()];
        for (count, balancers) in COUNTS.iter().enumerate() {
            for (way, one) in WAYS.iter().enumerate() {
                let at = count * WAYS.len() + way;
                figures.push(vec![
                    format!("{balancers} balancers, {}", one.name),
                    told(&self.runs(count, way, 0.5), 1),
                    told(&self.runs(count, way, 0.99), 0),
                    told(&self.runs(count, way, 0.999), 0),
                    told(&self.rounds.figures(at, |run| run.us("balancers")), 0),
                    told(&self.rounds.figures(at, |run| run.used.accounted()), 2),
                    self.rounds.failed_of(at),
                ]);
            }
        }
        Found {
            title: "What do balancers lose that know nothing of each other?",
            topology: topology(),
            findings: vec![
                self.gain(GAIN[0], 1),
                self.gain(GAIN[1], 2),
                self.central(CENTRAL[0], 1, 1.1),
                self.central(CENTRAL[1], 2, 1.3),
            ],
            figures,
            plots: Vec::new(),
            lead: 5,
            method: EXPERIMENT.docs.split("\n\n").map(str::to_owned).collect(),
            versions,
            raw: raw(self.rounds),
            failed: self.rounds.failed(),
            ..Found::default()
        }
    }
}

fn topology() -> String {
    even(&[
        column("clients", [node("open loop", "660 requests/s")]),
        column("balancers", (1..=4).map(|n| node(format!("evenkeel {n}"), "1, 4 or 16"))),
        column("endpoints", (1..=ENDPOINTS).map(|n| node(format!("endpoint {n}"), "evenkeel beside it"))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::prediction::read;
    use evenkeel_sim::scenario::{Capacity, Load, Serving};

    #[test]
    fn the_scenario_is_the_same_system() {
        let points = read(SCENARIO);
        assert_eq!(points.len(), COUNTS.len());
        for (point, count) in points.iter().zip(COUNTS) {
            let (scenario, service) = (&point.scenario, &point.scenario.services[0]);
            assert_eq!(point.label, format!("balancers = {count}"));
            assert!(matches!(scenario.load, Load::Poisson { per_second } if per_second == RATE));
            assert_eq!(service.work.mean_ns(), WORK_US * 1e3);
            assert_eq!(service.servers.len(), ENDPOINTS);
            let labels: Vec<&str> = point.policies.iter().map(|policy| policy.label.as_str()).collect();
            assert!(WAYS.iter().all(|way| labels.contains(&way.simulated)), "{labels:?}");
            for server in &service.servers {
                assert_eq!(server.serving, Serving::Fifo { cores: PLACES as u32 });
                let mean_ns = (CHANGES * 1e9) as u64;
                let states = vec![(0.25, 0.25), (0.5, 0.25), (1.0, 0.5)];
                assert_eq!(server.capacity, [Capacity::Antagonist { states, mean_ns }]);
            }
        }
        assert_eq!(SLOW.map(|slow| 1e3 / slow as f64), [1.0, 1.0, 0.5, 0.25]);
    }

    #[test]
    fn a_seed_is_a_schedule_and_every_endpoint_has_a_first_speed() {
        let (one, same) = (changes(3, 10.0), changes(3, 10.0));
        let key = |change: &Change| (change.at, change.endpoint, change.slow);
        assert!(
            one.iter().map(key).eq(same.iter().map(key)) && !one.iter().map(key).eq(changes(4, 10.0).iter().map(key))
        );
        assert!(one[..ENDPOINTS].iter().all(|change| change.at.is_zero()));
        // 8 endpoints with 100 changes each on average in 200 s; 5 standard deviations are 141.
        let later = changes(5, 10.0 * 20.0).len() - ENDPOINTS;
        assert!(later.abs_diff(800) < 145, "{later}");
    }
}

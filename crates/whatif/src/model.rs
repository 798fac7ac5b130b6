//! Models of the endpoints and clients that reproduce a log: fitted to its first part, and run on the rest.

use crate::doubt::Doubt;
use crate::policy::Candidate;
use crate::traffic::Traffic;
use evenkeel_sim::replay::fit::ways;
use evenkeel_sim::replay::memory::{Memory, memory};
use evenkeel_sim::replay::ranks::ranks;
use evenkeel_sim::replay::{Clients, Course, Played, System, Trace, Way, play, quantile};

/// Part of the log that models are fitted to before they are run on the rest.
const FITTED: f64 = 0.6;

/// Tries of an endpoint that models are fitted to.
const TRIES_MAX: usize = 20_000;

/// Positions among each endpoint's models in order of capacity from which systems are made.
const LEVELS: [f64; 7] = [0.0, 0.17, 0.33, 0.5, 0.67, 0.83, 1.0];

/// Largest deviations: of shares and other parts of the picks, absolute, and of times and requests in flight, as a
/// natural logarithm.
const PART_MAX: f64 = 0.04;
const TIMES_MAX: f64 = 0.16;

/// Runs of each system, each with other luck.
const RUNS: u64 = 4;

/// Systems are left out that deviate more than this and more than this many times as much as the best.
const NEAR: f64 = 0.04;
const TIMES_BEST: f64 = 2.0;

/// Figures of a log or of a run that validation compares.
#[derive(Clone, Debug)]
pub struct Measured {
    pub shares: Vec<f64>,
    /// Picks of a member with the least in flight, and picks in turn, as parts of all.
    pub least: f64,
    pub in_turn: f64,
    /// Mean requests in flight at the endpoint before a pick.
    pub met: f64,
    /// Median, 90th and 99th percentile of the time from the first try to the end, in nanoseconds.
    pub times_ns: [f64; 3],
}

/// Comparison of a figure: name, value in the log, and value of the model, in the unit of the name.
#[derive(Clone, Debug)]
pub struct Compared {
    pub what: String,
    pub logged: f64,
    pub model: f64,
    /// True if they differ by no more than chance and the tolerance of the figure.
    pub agrees: bool,
}

/// Models that reproduce the log under a policy.
#[derive(Clone, Debug)]
pub struct Model {
    pub policy: Candidate,
    /// Likely systems, each with its models by member.
    pub systems: Vec<Likely>,
    /// Correlations of the work of consecutive requests under the first of the systems.
    pub memory: Memory,
    /// True if the work of consecutive requests is alike, so that their order is kept.
    pub has_memory: bool,
    /// Comparison of the best system with the held-out part of the log.
    pub compared: Vec<Compared>,
    pub measured: Measured,
}

#[derive(Clone, Debug)]
pub struct Likely {
    pub ways: Vec<Way>,
    pub clients: Clients,
    /// Deviation from the log, as a natural logarithm.
    pub off: f64,
}

impl Measured {
    pub fn of(trace: &Trace) -> Measured {
        let times: Vec<u64> = trace.requests().map(|a| a.latency_ns).collect();
        let picks = trace.requests().count().max(1) as f64;
        let [least, in_turn] = trace.picks();
        Measured {
            shares: trace.shares(),
            least,
            in_turn,
            met: trace.requests().map(|a| f64::from(a.found)).sum::<f64>() / picks,
            times_ns: [0.5, 0.9, 0.99].map(|part| quantile(times.clone(), part)),
        }
    }
}

/// Finds models that reproduce the traffic under one of the policies, the most likely policy first.
///
/// # Errors
/// Doubts: no model is possible, or none reproduces the log under any of the policies.
pub fn model(traffic: &Traffic, policies: &[Candidate], seed: u64) -> Result<Model, Vec<Doubt>> {
    let trace = &traffic.trace;
    let fit = |at: usize| ways(trace, at, &traffic.names[at], TRIES_MAX);
    let all = (0..trace.members.len()).map(fit).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|why| vec![Doubt::new("fit", why, "give a longer log, or one of a steadier time")])?;
    let sets = sets(&all);
    let (coherent, worst) = coherent(trace, sets);
    if coherent.is_empty() {
        return Err(vec![incoherent(worst)]);
    }
    let memory = memory(trace, &coherent[0].iter().collect::<Vec<_>>());
    let has_memory = memory.is_of_demand();
    let (train, test) = (trace.part(0.0, FITTED), trace.part(FITTED, 1.0));
    let (measured, retries) = (Measured::of(&test), retries(traffic));
    let mut tried: Vec<(usize, Likely, Vec<Compared>, f64)> = Vec::new();
    let clients = if Clients::are_thinking(trace) { vec![Clients::Thinking] } else { Clients::possible(trace) };
    for clients in clients {
        for set in &coherent {
            let trained: Option<Vec<Way>> = set.iter().enumerate().map(|(at, way)| way.refit(&train, at)).collect();
            let Some(trained) = trained else { continue };
            let tested = || set.iter().enumerate().map(|(at, way)| way.refit(&test, at)).collect::<Option<Vec<Way>>>();
            let ranks = has_memory.then(tested).flatten().map(|ways| ranks(&test, &ways, seed));
            for (number, policy) in policies.iter().enumerate() {
                let system = System {
                    trace: &test,
                    members: &test.members,
                    ways: trained.iter().collect(),
                    clients,
                    answers_probes: traffic.answers_probes,
                    ranks: ranks.as_deref(),
                };
                let course = |seed| Course { retries, ..Course::new(policy.algorithm, &policy.params, seed) };
                let runs: Vec<Played> = (seed..seed + RUNS).map(|seed| play(&system, course(seed))).collect();
                let (compared, off) = compare(&runs, &measured, traffic, &test);
                tried.push((number, Likely { ways: set.clone(), clients, off }, compared, off));
            }
        }
    }
    tried.sort_by(|a, b| a.3.total_cmp(&b.3));
    let Some((number, _, compared, best)) = tried.first().cloned() else {
        let text = "the endpoints worked differently in the first part of the log and in the rest";
        return Err(vec![Doubt::new("fit", text, "give a longer log, or one of a steadier time")]);
    };
    if compared.iter().any(|one| !one.agrees) {
        return Err(vec![unlike(&compared, &policies[number], policies.len() == 1)]);
    }
    let near = |of: &&(usize, Likely, Vec<Compared>, f64)| {
        of.0 == number && of.3 <= NEAR.max(TIMES_BEST * best) && of.2.iter().all(|one| one.agrees)
    };
    let systems = tried.iter().filter(near).map(|of| of.1.clone()).collect();
    Ok(Model { policy: policies[number].clone(), systems, memory, has_memory, compared, measured: Measured::of(trace) })
}

/// Most tries after the first of a request in the traffic.
pub fn retries(traffic: &Traffic) -> u32 {
    traffic.rows.iter().map(|row| row.more.len()).max().unwrap_or(0) as u32
}

/// Combinations of models of the endpoints: the best of each, and models of like capacity.
fn sets(all: &[Vec<Way>]) -> Vec<Vec<Way>> {
    let best = |of: &Vec<Way>| of.iter().min_by(|a, b| a.misfit.total_cmp(&b.misfit)).cloned();
    let mut sets: Vec<Vec<Way>> = vec![all.iter().filter_map(best).collect()];
    for level in LEVELS {
        let at = |of: &Vec<Way>| of[((of.len() - 1) as f64 * level).round() as usize].clone();
        let set: Vec<Way> = all.iter().map(at).collect();
        let is_same =
            |other: &Vec<Way>| other.iter().zip(&set).all(|(a, b)| a.serving == b.serving && a.delay_ns == b.delay_ns);
        if !sets.iter().any(is_same) {
            sets.push(set);
        }
    }
    sets
}

/// Sets under which the work of an endpoint's requests does not hang together, and the least correlation of the others.
fn coherent(trace: &Trace, sets: Vec<Vec<Way>>) -> (Vec<Vec<Way>>, f64) {
    let mut least = f64::INFINITY;
    let mut kept = Vec::new();
    for set in sets {
        let memory = memory(trace, &set.iter().collect::<Vec<_>>());
        least = least.min(memory.within);
        if !memory.is_unexplained() {
            kept.push(set);
        }
    }
    (kept, least)
}

fn incoherent(correlation: f64) -> Doubt {
    let text = format!(
        "an endpoint is slow for several of its requests in a row (correlation {correlation:.2}) for no reason that the log has: it has \
         load that the log lacks (a sample, another balancer, another pool), stalls, or work that depends on the load"
    );
    Doubt::new("coherence", text, "log every request of every balancer and pool of these endpoints")
}

fn unlike(compared: &[Compared], policy: &Candidate, is_given: bool) -> Doubt {
    let wrong = compared.iter().filter(|one| !one.agrees);
    let wrong: Vec<String> =
        wrong.map(|one| format!("{} {:.3} (log: {:.3})", one.what, one.model, one.logged)).collect();
    let is_pick = compared.iter().any(|one| !one.agrees && one.is_of_picks());
    let under = if is_given { policy.label.clone() } else { format!("{}, the nearest policy", policy.label) };
    let text = format!("no model of the endpoints reproduces the log under {under}: it has {}", wrong.join(", "));
    match is_pick {
        true => Doubt::new(
            "policy",
            text,
            "say which algorithm, weights and number of balancers were in force (--balance, --from), and give all lines",
        ),
        false => Doubt::new("fit", text, "give a longer log, or one of a steadier time"),
    }
}

impl Compared {
    /// Comparison of parts of all; `more` widens what counts as equal.
    fn of_part(what: String, logged: f64, model: Spread, more: f64) -> Compared {
        let agrees = (logged - model.value).abs() <= PART_MAX + 2.0 * model.deviation + more;
        Compared { what, logged, model: model.value, agrees }
    }

    /// Comparison of positive numbers by their ratio.
    fn of_ratio(what: &str, logged: f64, model: Spread, most: f64) -> Compared {
        let (logged, value) = (logged.max(1e-9), model.value.max(1e-9));
        let agrees = (logged / value).ln().abs() <= most + 2.0 * model.deviation / value;
        Compared { what: what.to_string(), logged, model: value, agrees }
    }

    /// True for figures of picks, not of times.
    fn is_of_picks(&self) -> bool {
        self.what.starts_with("share") || self.what.starts_with("picks")
    }
}

/// Mean of a figure over runs, and its standard deviation over parts of the length of the log.
#[derive(Clone, Copy, Debug)]
struct Spread {
    value: f64,
    deviation: f64,
}

impl Spread {
    /// `longer`: length of a run as a multiple of the log's.
    fn of(runs: &[Played], longer: f64, figure: impl Fn(&Played) -> f64) -> Spread {
        let values: Vec<f64> = runs.iter().map(figure).collect();
        let value = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|one| (one - value).powi(2)).sum();
        Spread { value, deviation: (longer.max(1.0) * squares / (values.len().max(2) - 1) as f64).sqrt() }
    }
}

/// Comparison of runs with the log, and the deviation of times and requests in flight.
fn compare(runs: &[Played], log: &Measured, traffic: &Traffic, test: &Trace) -> (Vec<Compared>, f64) {
    /// Requests in flight below which a relative difference is insignificant.
    const FEW: f64 = 0.15;
    // A short log is run several times over.
    let longer = runs.first().map_or(1.0, |run| run.requests / test.requests().count().max(1) as f64);
    let spread = |of: &dyn Fn(&Played) -> f64| Spread::of(runs, longer, of);
    let shares: Vec<Spread> = (0..log.shares.len()).map(|at| spread(&|of| of.shares[at].value)).collect();
    let off = |at: &usize| (log.shares[*at] - shares[*at].value).abs() - 2.0 * shares[*at].deviation;
    let furthest = (0..log.shares.len()).max_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(0);
    // Requests that start in the same unit of time have an order that the log does not know.
    let close = test.arrivals.windows(2).filter(|pair| pair[1].at - pair[0].at < test.unit_ns - 1).count();
    let close = close as f64 / test.arrivals.len().max(1) as f64;
    let share = format!("share of {}", traffic.names[furthest]);
    let in_turn = spread(&|of| of.in_turn.value);
    let least = spread(&|of| of.least.value);
    let met = spread(&|of| of.met.value + FEW);
    let ms = |of: fn(&Played) -> f64| spread(&|run| of(run) / 1e6);
    let [p50, p90, p99] = log.times_ns.map(|ns| ns / 1e6);
    let all = vec![
        Compared::of_part(share, log.shares[furthest], shares[furthest], 0.0),
        Compared::of_part("picks in turn".to_string(), log.in_turn, in_turn, 2.0 * close * in_turn.value),
        Compared::of_part("picks of the least loaded".to_string(), log.least, least, close),
        Compared::of_ratio("mean in flight", log.met + FEW, met, TIMES_MAX),
        Compared::of_ratio("p50 in ms", p50, ms(|of| of.median_ns), TIMES_MAX),
        Compared::of_ratio("p90 in ms", p90, ms(|of| of.p90_ns), TIMES_MAX),
        Compared::of_ratio("p99 in ms", p99, ms(|of| of.ln_p99.value.exp()), 2.0 * TIMES_MAX),
    ];
    // A policy that makes other picks is further than any times.
    let wrong = |one: &Compared| {
        if one.agrees {
            0.0
        } else if one.is_of_picks() {
            10.0
        } else {
            1.0
        }
    };
    let wrong: f64 = all.iter().map(wrong).sum();
    let ln = |one: &Compared| (one.logged / one.model).ln().abs();
    let times = all[3..6].iter().map(ln).fold(0.0, f64::max);
    let parts = all[..1].iter().map(|one| (one.logged - one.model).abs()).fold(0.0, f64::max);
    (all, times.max(parts) + wrong)
}

//! Predictions for other algorithms on the requests of a pool: its workers remember the latest requests, and the
//! simulator replays them with another algorithm.
//!
//! Predictions are exact for algorithms whose picks do not depend on the course of requests. Others depend on how
//! endpoints would respond, of which only the recorded requests are known. So every combination of models of the
//! endpoints ([`crate::replay`]) and clients is a system; systems that do not reproduce the measurements with the pool's own
//! algorithm are left out; and a figure is given only if all the others agree on it.

mod remembered;

use crate::replay::fit::ways;
use crate::replay::memory::memory;
use crate::replay::{Clients, Course, Figure, Played, System, Trace, Way, play, stateless};
use evenkeel_balance::recent::Recent;
use evenkeel_balance::{Algorithm, EndpointId, Params};
use remembered::Remembered;

/// Largest error of a share, absolute.
pub const SHARE_WITHIN: f64 = 0.03;

/// Largest error of other figures, relative.
pub const TIMES_WITHIN: f64 = 0.2;

/// Maximum requests of an endpoint that its models are fitted to, the latest first.
const REQUESTS_MAX: usize = 4_000;

/// Minimum runs of an algorithm, each with a different seed.
const SEEDS_MIN: usize = 3;

/// Requests in flight below which a relative difference is insignificant.
const FEW: f64 = 0.15;

/// An algorithm and its parameters.
pub type Choice<'a> = (&'static Algorithm, &'a Params);

/// Input of predictions for a pool.
#[derive(Debug)]
pub struct Known<'a> {
    /// Latest requests, by worker.
    pub recent: Vec<Recent>,
    /// Algorithm that the pool uses.
    pub balance: Choice<'a>,
    /// True if endpoints answer probes.
    pub answers_probes: bool,
}

/// Measurements of a pool, and predictions for it.
#[derive(Clone, Debug, Default)]
pub struct Prediction {
    /// Number of requests that it is based on.
    pub requests: u64,
    /// Time from the first start to the last, in nanoseconds.
    pub span_ns: u64,
    /// Endpoints with their weights.
    pub endpoints: Vec<(EndpointId, u32)>,
    pub real: Figures,
    /// Predictions by algorithm, in the order requested.
    pub shadows: Vec<Shadow>,
    /// Reason why nothing can be predicted; `None` if something is.
    pub nothing: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Share of the picks by endpoint, 0 to 1.
    pub shares: Option<Vec<f64>>,
    /// Requests in flight at the endpoint before a pick, on average.
    pub met: Option<f64>,
    /// 99th percentile of the latency, in nanoseconds.
    pub p99_ns: Option<f64>,
}

/// Prediction for an algorithm that is not in use.
#[derive(Clone, Debug, Default)]
pub struct Shadow {
    pub figures: Figures,
    /// True if the shares are exact, as the picks do not depend on the course of requests.
    pub exact: bool,
    /// Reasons why figures are missing.
    pub withheld: Vec<String>,
}

/// Predicts the figures of each of these algorithms. `name` gives the name of an endpoint for messages.
pub fn predict(known: &Known<'_>, shadows: &[Choice<'_>], name: impl Fn(EndpointId) -> String) -> Prediction {
    let Remembered { trace, odd } = match Remembered::of(&known.recent) {
        Ok(remembered) => remembered,
        Err(why) => return Prediction { nothing: Some(why), ..Prediction::default() },
    };
    let names: Vec<String> = trace.members.iter().map(|m| name(m.id)).collect();
    let ways =
        (0..trace.members.len()).map(|at| ways(&trace, at, &names[at], REQUESTS_MAX)).collect::<Result<Vec<_>, _>>();
    let real = Figures { shares: Some(trace.shares()), met: Some(trace.met()), p99_ns: Some(trace.latency_ns(0.99)) };
    let systems = match (&odd, &ways) {
        (Some(odd), _) => Err(odd.clone()),
        (_, Err(why)) => Err(why.clone()),
        (None, Ok(ways)) => likely(known, &trace, ways, &names),
    };
    let of = |&choice: &Choice<'_>| {
        let exact = stateless::shares(&trace, choice, known.answers_probes);
        // For the pool's own algorithm the measurements are better than any model.
        let is_own = choice.0.name == known.balance.0.name && choice.1.values().eq(known.balance.1.values());
        let mut shadow = match &systems {
            _ if is_own => Shadow { figures: real.clone(), ..Shadow::default() },
            Ok(systems) => agreed(systems, choice, &names),
            Err(why) => Shadow { withheld: vec![why.clone()], ..Shadow::default() },
        };
        if let Some(shares) = exact {
            shadow.figures.shares = Some(shares);
            shadow.exact = true;
        }
        shadow
    };
    Prediction {
        requests: trace.arrivals.len() as u64,
        span_ns: trace.span_ns,
        endpoints: trace.members.iter().map(|m| (m.id, m.weight)).collect(),
        shadows: shadows.iter().map(of).collect(),
        real,
        nothing: None,
    }
}

fn system<'a>(trace: &'a Trace, ways: Vec<&'a Way>, clients: Clients, known: &Known<'_>) -> System<'a> {
    System { trace, members: &trace.members, ways, clients, answers_probes: known.answers_probes, ranks: None }
}

/// System that reproduces the measurements with the pool's own algorithm.
struct Likely<'a> {
    system: System<'a>,
    /// True if it also reproduces the p99.
    times: bool,
    /// Deviation from the measurements, as a natural logarithm.
    off: f64,
}

/// Relative positions, among each endpoint's models in order of capacity, from which systems are made.
const LEVELS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// Largest deviation of the picks of the least loaded and of the picks in turn, as parts of all, beyond chance.
const PICKS_WITHIN: f64 = 0.04;

/// Systems are left out if they are off by more than this and by more than twice as much as the best.
const OFF_MAX: f64 = 0.15;

/// # Errors
/// The reason why there is no such system.
fn likely<'a>(
    known: &Known<'_>,
    trace: &'a Trace,
    ways: &'a [Vec<Way>],
    names: &[String],
) -> Result<Vec<Likely<'a>>, String> {
    let (real, real_met) = (trace.shares(), trace.met());
    let [median_ns, p90_ns, p99_ns] = [0.5, 0.9, 0.99].map(|part| trace.latency_ns(part));
    let best = |of: &'a Vec<Way>| of.iter().min_by(|a, b| a.misfit.total_cmp(&b.misfit));
    let mut sets: Vec<Vec<&Way>> = vec![ways.iter().filter_map(best).collect()];
    for level in LEVELS {
        let set: Vec<&Way> = ways.iter().map(|of| &of[((of.len() - 1) as f64 * level).round() as usize]).collect();
        let same = |other: &Vec<&Way>| other.iter().zip(&set).all(|(a, b)| std::ptr::eq(*a, *b));
        if !sets.iter().any(same) {
            sets.push(set);
        }
    }
    sets.retain(|ways| !memory(trace, ways).is_unexplained());
    if sets.is_empty() {
        return Err(UNEXPLAINED.to_string());
    }
    let (mut likely, mut nearest) = (Vec::new(), None::<(f64, usize, f64)>);
    let mut unlike = None::<(&str, f64, f64)>;
    for clients in Clients::possible(trace) {
        for ways in &sets {
            let system = system(trace, ways.clone(), clients, known);
            let played = play(&system, Course::new(known.balance.0, known.balance.1, 0));
            let (at, share_off) = furthest(&played, trace, &real);
            if nearest.is_none_or(|(least, ..)| share_off < least) {
                nearest = Some((share_off, at, played.shares[at].value));
            }
            let ln = |a: f64, b: f64| (a / b).ln().abs();
            let met = ln(played.met.value + FEW, real_met + FEW);
            let off = met.max(ln(played.median_ns, median_ns)).max(ln(played.p90_ns, p90_ns));
            let other = other_picks(&played, trace);
            if share_off <= SHARE_WITHIN && off <= 0.5 && other.is_some() {
                unlike = unlike.or(other);
            } else if share_off <= SHARE_WITHIN && off <= 0.5 {
                let times = (played.ln_p99.value - p99_ns.ln()).abs() <= TIMES_WITHIN.ln_1p() && played.steady;
                likely.push(Likely { system, times, off });
            }
        }
    }
    let least = likely.iter().map(|of| of.off).fold(f64::INFINITY, f64::min);
    likely.retain(|of| of.off <= OFF_MAX.max(2.0 * least));
    if let Some((of, model, real)) = unlike.filter(|_| likely.is_empty()) {
        return Err(format!(
            "no model of the endpoints makes the picks that were made: {:.0} % of its picks are {of} (measured: {:.0} %), so others may \
             use the endpoints, too",
            100.0 * model,
            100.0 * real
        ));
    }
    if likely.is_empty() {
        let (_, at, share) = nearest.unwrap_or_default();
        return Err(format!(
            "no model of the endpoints reproduces what was measured: the nearest gives {} {:.0} % of the requests (measured: \
             {:.0} %)",
            names[at],
            100.0 * share,
            100.0 * real[at]
        ));
    }
    Ok(likely)
}

/// Returns the endpoint whose share differs most from the measured share, and by how much more than by chance. A
/// shorter record varies more than a run.
fn furthest(played: &Played, trace: &Trace, real: &[f64]) -> (usize, f64) {
    let longer = (played.requests / trace.arrivals.len() as f64).max(1.0).sqrt();
    let off = |(share, real): (&Figure, &f64)| (share.value - real).abs() - share.error * longer;
    let off = played.shares.iter().zip(real).map(off).enumerate();
    off.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
}

/// Figure of picks by which a run differs from the measurements: its name, its value, and the measurement.
fn other_picks(played: &Played, trace: &Trace) -> Option<(&'static str, f64, f64)> {
    let longer = (played.requests / trace.arrivals.len() as f64).max(1.0).sqrt();
    let figures = [("of the least loaded", played.least), ("in turn", played.in_turn)];
    let of = figures.into_iter().zip(trace.picks());
    let off = |of: &Figure, real: f64| (of.value - real).abs() - of.error * longer;
    of.filter(|((_, of), real)| off(of, *real) > PICKS_WITHIN).map(|((name, of), real)| (name, of.value, real)).next()
}

/// Range that covers the figures of all systems with their errors.
fn range(figures: impl Iterator<Item = Figure>) -> (f64, f64) {
    figures.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), of| {
        (least.min(of.value - of.error), most.max(of.value + of.error))
    })
}

/// Figures that all systems agree on.
fn agreed(systems: &[Likely<'_>], (algorithm, params): Choice<'_>, names: &[String]) -> Shadow {
    // Each with its own seed, so that the spread includes random variation.
    let again = SEEDS_MIN.div_ceil(systems.len());
    let systems = systems.iter().cycle().take(again * systems.len());
    let played: Vec<(Played, bool)> = (1..)
        .zip(systems)
        .map(|(seed, of)| (play(&of.system, Course::new(algorithm, params, seed)), of.times))
        .collect();
    if let Some((full, _)) = played.iter().find(|(of, _)| of.full > 0.01) {
        let why = format!("{:.0} % of its requests would find all endpoints at their limits", 100.0 * full.full);
        return Shadow { withheld: vec![why], ..Shadow::default() };
    }
    if let Some((piles, _)) = played.iter().find(|(of, _)| !of.steady) {
        let why = format!("{} may get more than it can do, so that requests pile up", names[piles.busiest]);
        return Shadow { withheld: vec![why], ..Shadow::default() };
    }
    let mut withheld = Vec::new();
    let shares: Vec<(f64, f64)> =
        (0..names.len()).map(|at| range(played.iter().map(|(of, _)| of.shares[at]))).collect();
    let width = |at: usize| shares[at].1 - shares[at].0;
    let widest = (0..names.len()).max_by(|&a, &b| width(a).total_cmp(&width(b)));
    let unsure = widest.filter(|&at| width(at) > 2.0 * SHARE_WITHIN);
    if let Some(at) = unsure {
        let (least, most) = (100.0 * shares[at].0.max(0.0), 100.0 * shares[at].1);
        withheld.push(format!("{} would get {least:.0} to {most:.0} % of the requests: {UNSEEN}", names[at]));
    }
    let (least, most) = range(played.iter().map(|(of, _)| of.met));
    let met = (most - least <= (2.0 * TIMES_WITHIN * least).max(2.0 * FEW)).then(|| f64::midpoint(least, most));
    let (least, most) = range(played.iter().filter(|(_, times)| *times).map(|(of, _)| of.ln_p99));
    let p99_ns =
        (least <= most && most - least <= 2.0 * TIMES_WITHIN.ln_1p()).then(|| f64::midpoint(least, most).exp());
    if least > most {
        withheld.push("no model of the endpoints reproduces the p99 that was measured".to_string());
    } else if p99_ns.is_none() {
        let (least, most) = (least.exp() / 1e6, most.exp() / 1e6);
        withheld.push(format!("its p99 would be {least:.1} to {most:.1} ms: {UNSEEN}"));
    }
    let shares = unsure.is_none().then(|| shares.iter().map(|&(least, most)| f64::midpoint(least, most)).collect());
    Shadow { figures: Figures { shares, met, p99_ns }, exact: false, withheld }
}

/// Reason why no model of the endpoints is complete.
const UNEXPLAINED: &str = "an endpoint is slow for several of its requests in a row for no reason that its requests show: others may use it, \
                           too, or it stalls";

/// Reason why figures of systems differ.
const UNSEEN: &str = "that depends on how endpoints work at loads that they did not have";

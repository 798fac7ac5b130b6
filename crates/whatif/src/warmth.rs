//! Warm-up of endpoints: the work of requests at an endpoint that joined while the log was written, from its first request
//! on, as a multiple of the work of later requests.

use crate::record::Record;
use crate::traffic::Traffic;
use evenkeel_sim::replay::{Trace, Way};

/// Requests that an endpoint would have had in the time without any, by its own rate; chance does not explain more.
const EXPECTED_MIN: f64 = 30.0;

/// Least share of the log that it is without requests.
const SHARE_MIN: f64 = 0.03;

/// Tries that have to be left after endpoints have joined and warmed up.
const TRIES_MIN: usize = 2_000;

/// Requests of each step of a warm-up, and most steps.
const STEP: usize = 25;
const STEPS_MAX: usize = 16;

/// Factor of the first steps up to which an endpoint starts warm, and standard errors that chance explains.
const WARM_BELOW: f64 = 1.15;
const CHANCE: f64 = 3.0;

/// Endpoint with its first request, long after the first of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Index among the members of the trace.
    pub member: usize,
    /// First request, in nanoseconds since the first of the trace.
    pub at: u64,
}

/// Warm-up that a log shows.
#[derive(Clone, Debug)]
pub struct Warmth {
    pub name: String,
    pub joined: Joined,
    /// Factors of the work, each until this time after it joined, in nanoseconds. Empty if it started warm.
    pub cold: Vec<(u64, f64)>,
}

impl Warmth {
    /// Observation, without a full stop.
    pub fn text(&self) -> String {
        let at = self.joined.at as f64 / 1e9;
        match (self.cold.first(), self.cold.last()) {
            (Some((_, first)), Some((until, _))) => format!(
                "{} joined {at:.0} s after the first request: its requests had {first:.1} times the usual work at first, and the usual \
                 work {:.1} s later",
                self.name,
                *until as f64 / 1e9
            ),
            _ => format!("{} joined {at:.0} s after the first request, and was warm", self.name),
        }
    }
}

/// Times without requests at the start and at the end of a trace, in nanoseconds, of a member that did not have to be there.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    pub member: usize,
    pub before: Option<u64>,
    pub after: Option<u64>,
}

/// Members that were absent for longer than chance explains.
pub fn absent(trace: &Trace) -> Vec<Absent> {
    let mut spans = vec![(u64::MAX, 0u64, 0u64); trace.members.len()];
    for a in &trace.arrivals {
        let (first, last, count) = &mut spans[a.endpoint];
        (*first, *last, *count) = ((*first).min(a.at), a.at, *count + 1);
    }
    let absent = |(member, (first, last, count)): (usize, (u64, u64, u64))| {
        let rate = count as f64 / (last - first).max(1) as f64;
        let is_long = |ns: &u64| *ns as f64 > SHARE_MIN * trace.span_ns as f64 && *ns as f64 * rate > EXPECTED_MIN;
        let (before, after) = (Some(first).filter(is_long), Some(trace.span_ns - last).filter(is_long));
        Absent { member, before, after }
    };
    let used = spans.into_iter().enumerate().filter(|(_, (.., count))| *count > 1);
    used.map(absent).filter(|of| of.before.is_some() || of.after.is_some()).collect()
}

/// Endpoints that joined while the trace was written.
pub fn joined(trace: &Trace) -> Vec<Joined> {
    absent(trace).into_iter().filter_map(|of| Some(Joined { member: of.member, at: of.before? })).collect()
}

/// Record from the middle between the last join and the end on; `None` if too little is left.
pub fn since(record: &Record, traffic: &Traffic, joined: &[Joined]) -> Option<Record> {
    let last = joined.iter().map(|one| one.at).max()?;
    let from = last + (traffic.trace.span_ns - last) / 2;
    let left = traffic.trace.arrivals.iter().filter(|a| a.at >= from).count();
    let began = traffic.rows.iter().flat_map(|row| row.tries()).map(|of| of.began).max()?;
    let from_ns = began - (traffic.trace.span_ns - from);
    let rows = record.rows.iter().filter(|row| row.arrived >= from_ns).cloned().collect();
    (left >= TRIES_MIN).then(|| Record { rows, ..record.clone() })
}

/// Warm-up of an endpoint under a model of it.
pub fn warmth(traffic: &Traffic, joined: Joined, way: &Way) -> Warmth {
    let trace = &traffic.trace;
    let middle = joined.at + (trace.span_ns - joined.at) / 2;
    let (early, late): (Vec<_>, Vec<_>) = way.works(trace, joined.member).into_iter().partition(|(at, _)| *at < middle);
    let name = traffic.names[joined.member].clone();
    let (usual, _) = mean(&late);
    let length = STEP.max(early.len().div_ceil(STEPS_MAX));
    let steps: Vec<(u64, f64, f64)> = early
        .chunks(length)
        .map(|step| {
            let (mean, error) = mean(step);
            (step[step.len() - 1].0 - joined.at, mean / usual.max(1.0), error / usual.max(1.0))
        })
        .collect();
    let is_cold = |(_, factor, error): &(u64, f64, f64)| *factor > WARM_BELOW.max(1.0 + CHANCE * error);
    // Steps before the last that is cold, of those without a gap of two.
    let mut count = 0;
    for (at, step) in steps.iter().enumerate() {
        if is_cold(step) {
            count = at + 1;
        } else if at > count {
            break;
        }
    }
    let cold = steps[..count].iter().map(|(until, factor, _)| (*until, factor.max(1.0))).collect();
    Warmth { name, joined, cold }
}

/// Mean of works, and its standard error.
fn mean(works: &[(u64, f64)]) -> (f64, f64) {
    let count = works.len().max(1) as f64;
    let mean = works.iter().map(|(_, ns)| ns).sum::<f64>() / count;
    let squares: f64 = works.iter().map(|(_, ns)| (ns - mean).powi(2)).sum();
    (mean, (squares / count / count).sqrt())
}

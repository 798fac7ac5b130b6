//! Models of an endpoint that fit its measurements: a delay, cores that requests share, or cores that requests wait
//! for.
//!
//! Under the true model, the work of a request does not depend on how many others it found, as a balancer does not know
//! the work. So each model is tried: the work of every request is computed from its start and end, and a model remains
//! possible if requests that found many others had as much work as those that found few. If endpoints never had many
//! requests at once, many models remain possible, and predictions that depend on the model differ.

use super::trace::{Arrival, Trace};
use crate::scenario::Serving;

/// Minimum requests of an endpoint.
const REQUESTS_MIN: usize = 30;

/// Differences of the mean logarithm of work below this do not rule out a model, as none is exact.
const SAME_BELOW: f64 = 0.06;

/// Differences below this many standard errors are chance.
const CHANCE: f64 = 3.0;

/// Maximum share of requests whose computed work is negative; above it, a model is impossible.
const NEGATIVE_MAX: f64 = 0.01;

/// Candidate numbers of cores.
const CORES: [u32; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];

/// Work of a request under a model.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub work_ns: f64,
    /// Start of the request, in nanoseconds since the start of the trace.
    pub at: u64,
    pub failed: bool,
    /// Share of its time until the first byte of the response, 0 to 1.
    pub answered: f64,
}

impl Default for Sample {
    fn default() -> Sample {
        Sample { work_ns: 1.0, at: 0, failed: false, answered: 1.0 }
    }
}

/// Model of how an endpoint serves requests.
#[derive(Clone, Debug)]
pub struct Way {
    pub serving: Serving,
    /// Fixed delay of each request before its work begins.
    pub delay_ns: u64,
    /// Samples in order of their starts.
    pub samples: Vec<Sample>,
    /// Indices of the samples in ascending order of work.
    pub order: Vec<u32>,
    /// Difference of the mean logarithm of work between requests that found many others and those that found few.
    pub misfit: f64,
    /// Requests per second that it can do; infinite for a delay.
    pub capacity: f64,
}

impl Way {
    /// Model in which every request takes this long.
    pub fn constant(work_ns: f64) -> Way {
        let samples = vec![Sample { work_ns, ..Sample::default() }];
        Way { serving: Serving::Unlimited, delay_ns: 0, samples, order: vec![0], misfit: 0.0, capacity: f64::INFINITY }
    }

    /// Sample at a rank, 0 to 1, among the samples in order of their work.
    pub(super) fn at_rank(&self, rank: f32) -> Sample {
        let at = (rank * self.order.len() as f32) as usize;
        self.samples[self.order[at.min(self.order.len() - 1)] as usize]
    }
}

/// Possible models of an endpoint, in ascending order of capacity.
///
/// # Errors
/// The reason why no model is possible.
pub fn ways(trace: &Trace, endpoint: usize, name: &str, requests_max: usize) -> Result<Vec<Way>, String> {
    let mut of: Vec<&Arrival> = trace.arrivals.iter().filter(|a| a.endpoint == endpoint).collect();
    if of.len() < REQUESTS_MIN {
        return Err(format!("{name} got {} requests, too few to know how it works ({REQUESTS_MIN})", of.len()));
    }
    of.drain(..of.len().saturating_sub(requests_max));
    let mut held: Vec<u64> = of.iter().map(|a| a.held_ns).collect();
    held.sort_unstable();
    let shortest = held[held.len() / 100];
    let most = of.iter().map(|a| a.found).max().unwrap_or(0) + 1;
    let mut ways = Vec::new();
    for delay_ns in [0, shortest * 8 / 10] {
        let timeline = Timeline::of(&of, delay_ns);
        let finite = CORES.iter().filter(|&&cores| cores < most.max(2));
        let shared = finite.clone().map(|&cores| Serving::Sharing { cores: f64::from(cores) });
        let waited = finite.map(|&cores| Serving::Fifo { cores });
        for serving in shared.chain(waited).chain((delay_ns == 0).then_some(Serving::Unlimited)) {
            ways.extend(way(&of, timeline.work(serving), serving, delay_ns, trace.unit_ns));
        }
    }
    if ways.is_empty() {
        return Err(format!("the times of {name} fit neither a delay nor a number of cores"));
    }
    ways.sort_by(|a, b| a.capacity.total_cmp(&b.capacity));
    Ok(ways)
}

impl Way {
    /// Start and work under this model of each try of an endpoint, in order of start; failed tries and computed work that
    /// is not positive are left out.
    pub fn works(&self, trace: &Trace, endpoint: usize) -> Vec<(u64, f64)> {
        let of: Vec<&Arrival> = trace.arrivals.iter().filter(|a| a.endpoint == endpoint).collect();
        let work = Timeline::of(&of, self.delay_ns).work(self.serving);
        of.iter().zip(work).filter(|(a, ns)| !a.failed && *ns > 0.0).map(|(a, ns)| (a.at, ns)).collect()
    }

    /// Same model with the work of another part of the requests; `None` if it has too few or their work rules it out.
    pub fn refit(&self, trace: &Trace, endpoint: usize) -> Option<Way> {
        let of: Vec<&Arrival> = trace.arrivals.iter().filter(|a| a.endpoint == endpoint).collect();
        if of.len() < REQUESTS_MIN {
            return None;
        }
        let work = Timeline::of(&of, self.delay_ns).work(self.serving);
        way(&of, work, self.serving, self.delay_ns, trace.unit_ns)
    }
}

/// Model with this work; `None` if the work rules it out.
fn way(of: &[&Arrival], work: Vec<f64>, serving: Serving, delay_ns: u64, unit_ns: u64) -> Option<Way> {
    // The first requests may have found requests that started before the record.
    let skipped = of.len() / 20;
    // Each end of a span is off by up to a unit.
    let slack = 2.0 * (unit_ns - 1) as f64;
    let negative = work.iter().skip(skipped).filter(|&&ns| ns <= -slack).count();
    if negative as f64 > NEGATIVE_MAX * work.len() as f64 {
        return None;
    }
    let mut found: Vec<u32> = of.iter().map(|a| a.found).collect();
    let middle = *found.select_nth_unstable(of.len() / 2).1;
    let (mut few, mut many) = (Moments::default(), Moments::default());
    for (a, &ns) in of.iter().zip(&work).skip(skipped).filter(|(a, ns)| **ns > -slack && !a.failed) {
        if a.found > middle { &mut many } else { &mut few }.add((ns + slack).ln());
    }
    let misfit = if many.count < 10.0 || few.count < 10.0 { 0.0 } else { (many.mean() - few.mean()).abs() };
    let error = (few.variance() / few.count.max(1.0) + many.variance() / many.count.max(1.0)).sqrt();
    if misfit > SAME_BELOW.max(CHANCE * error) {
        return None;
    }
    let sample = |(a, ns): (&&Arrival, f64)| Sample {
        work_ns: ns.max(1.0),
        at: a.at,
        failed: a.failed,
        answered: (a.latency_ns as f64 / (a.held_ns as f64).max(1.0)).min(1.0),
    };
    let samples: Vec<Sample> = of.iter().zip(work).skip(skipped).map(sample).collect();
    let mean_ns = samples.iter().map(|s| s.work_ns).sum::<f64>() / samples.len() as f64;
    let capacity = match serving {
        Serving::Unlimited => f64::INFINITY,
        Serving::Sharing { cores } => cores * 1e9 / mean_ns,
        Serving::Fifo { cores } => f64::from(cores) * 1e9 / mean_ns,
    };
    let order = order(&samples);
    Some(Way { serving, delay_ns, samples, order, misfit, capacity })
}

/// Indices of samples in ascending order of work.
pub fn order(samples: &[Sample]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..samples.len() as u32).collect();
    order.sort_by(|&a, &b| samples[a as usize].work_ns.total_cmp(&samples[b as usize].work_ns));
    order
}

#[derive(Default)]
struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, x: f64) {
        self.count += 1.0;
        self.sum += x;
        self.squares += x * x;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    fn variance(&self) -> f64 {
        (self.squares / self.count.max(1.0) - self.mean().powi(2)).max(0.0)
    }
}

/// Start (after the delay) and end of the requests of an endpoint, in order of start.
struct Timeline {
    spans: Vec<(u64, u64)>,
    /// Starts (`true`) and ends (`false`) in order of time, with the index of the request.
    events: Vec<(u64, bool, usize)>,
}

impl Timeline {
    fn of(of: &[&Arrival], delay_ns: u64) -> Timeline {
        let span = |a: &&Arrival| (a.at + delay_ns.min(a.held_ns), a.at + a.held_ns);
        let spans: Vec<(u64, u64)> = of.iter().map(span).collect();
        let both = |(i, &(came, went)): (usize, &(u64, u64))| [(came, true, i), (went, false, i)];
        let mut events: Vec<(u64, bool, usize)> = spans.iter().enumerate().flat_map(both).collect();
        events.sort_unstable();
        Timeline { spans, events }
    }

    fn work(&self, serving: Serving) -> Vec<f64> {
        match serving {
            Serving::Unlimited => self.held(),
            Serving::Sharing { cores } => self.shared(cores),
            Serving::Fifo { cores } => self.waited(cores as usize),
        }
    }

    fn held(&self) -> Vec<f64> {
        self.spans.iter().map(|(came, went)| (went - came) as f64).collect()
    }

    /// Work if all requests present share the cores, each at most a single core.
    fn shared(&self, cores: f64) -> Vec<f64> {
        let (mut work, mut got, mut at, mut there) = (vec![0.0; self.spans.len()], 0.0, 0, 0i64);
        for &(when, came, i) in &self.events {
            if there > 0 {
                got += (when - at) as f64 * (cores / there as f64).min(1.0);
            }
            at = when;
            if came {
                there += 1;
                work[i] -= got;
            } else {
                there -= 1;
                work[i] += got;
            }
        }
        work
    }

    /// Work if each request waits for a core, in order of arrival.
    fn waited(&self, cores: usize) -> Vec<f64> {
        let mut there: Vec<u64> = Vec::new(); // ends of earlier requests, ascending
        let work = |&(came, went): &(u64, u64)| {
            let gone = there.partition_point(|&went| went <= came);
            there.drain(..gone);
            let began = if there.len() < cores { came } else { there[there.len() - cores] };
            there.insert(there.partition_point(|&other| other <= went), went);
            went as f64 - began as f64
        };
        self.spans.iter().map(work).collect()
    }
}

//! Correlation of the work of consecutive requests. If requests wait for others that the log does not have, those that
//! come together at an endpoint are slow together, while requests of other endpoints are not.

use super::fit::Way;
use super::ranks::ranked;
use super::trace::Trace;

/// Rank correlations of the work of consecutive requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Correlation at the same endpoint.
    pub within: f64,
    /// Correlation at different endpoints: demand that comes in runs.
    pub across: f64,
    /// Standard error of both, by the number of pairs.
    pub error: f64,
}

/// Largest correlation within an endpoint, absolute and in standard errors, that chance explains.
const WITHIN_MAX: f64 = 0.03;
const ERRORS_MAX: f64 = 2.4;

/// Correlation across endpoints from which demand comes in runs; it explains nearly as much within.
const DEMAND_MIN: f64 = 0.1;
const LIKE_DEMAND: f64 = 1.3;

impl Memory {
    /// True if the work of consecutive requests is alike at all endpoints, so that their order matters.
    pub fn is_of_demand(&self) -> bool {
        self.across > DEMAND_MIN
    }

    /// True if neither chance nor demand explains the correlation within endpoints: they have load that the trace lacks,
    /// stall, or work differently from the models.
    pub fn is_unexplained(&self) -> bool {
        let is_demand = self.is_of_demand() && self.within < LIKE_DEMAND * self.across;
        !is_demand && self.within > WITHIN_MAX.max(ERRORS_MAX * self.error)
    }
}

/// Memory of a trace under models of its endpoints.
pub fn memory(trace: &Trace, ways: &[&Way]) -> Memory {
    let by_endpoint: Vec<Vec<(u64, f32)>> = ways.iter().map(|way| ranked(way)).collect();
    let mut within = Correlation::default();
    // Requests that come long after one another meet other conditions.
    let near = 4 * mean_held(trace).max(1);
    for of in &by_endpoint {
        for pair in of.windows(2).filter(|pair| pair[1].0 - pair[0].0 <= near) {
            within.add(pair[0].1, pair[1].1);
        }
    }
    let mut all: Vec<(u64, usize, f32)> = Vec::new();
    for (at, of) in by_endpoint.iter().enumerate() {
        all.extend(of.iter().map(|&(start, rank)| (start, at, rank)));
    }
    all.sort_unstable_by_key(|&(start, at, _)| (start, at));
    let mut across = Correlation::default();
    for pair in all.windows(2).filter(|pair| pair[0].1 != pair[1].1 && pair[1].0 - pair[0].0 <= near) {
        across.add(pair[0].2, pair[1].2);
    }
    let error =
        1.0 / (within.count.min(if by_endpoint.len() > 1 { across.count } else { within.count })).max(1.0).sqrt();
    Memory { within: within.value(), across: across.value(), error }
}

fn mean_held(trace: &Trace) -> u64 {
    let sum: u128 = trace.arrivals.iter().map(|a| u128::from(a.held_ns)).sum();
    (sum / trace.arrivals.len().max(1) as u128) as u64
}

/// Correlation of pairs of ranks from 0 to 1.
#[derive(Default)]
struct Correlation {
    count: f64,
    products: f64,
}

impl Correlation {
    fn add(&mut self, a: f32, b: f32) {
        self.count += 1.0;
        self.products += (f64::from(a) - 0.5) * (f64::from(b) - 0.5);
    }

    /// The variance of a uniform rank is 1/12.
    fn value(&self) -> f64 {
        12.0 * self.products / self.count.max(1.0)
    }
}

//! Ranks of requests by their work, among the requests of the same endpoint.

use super::fit::Way;
use super::trace::{Arrival, Kind, Trace};
use evenkeel_balance::rng::mix;

/// Rank of the work of each try of a trace among the samples of its endpoint, 0 to 1. Tries without a sample get any.
/// An explored request gets the rank of the request before it: its latency has to follow from the model, not from its
/// measurement.
pub fn ranks(trace: &Trace, ways: &[Way], seed: u64) -> Vec<f32> {
    let by_start: Vec<Vec<(u64, f32)>> = ways.iter().map(ranked).collect();
    let luck = |number: u64| (mix(seed ^ number) >> 40) as f32 / (1u32 << 24) as f32;
    let rank = |(number, a): (u64, &Arrival)| {
        let of = &by_start[a.endpoint];
        of.binary_search_by_key(&a.at, |(at, _)| *at).map_or_else(|_| luck(number), |at| of[at].1)
    };
    let mut ranks: Vec<f32> = (0..).zip(&trace.arrivals).map(rank).collect();
    for at in 1..ranks.len() {
        if matches!(trace.arrivals[at].kind, Kind::Explored(_)) {
            ranks[at] = ranks[at - 1];
        }
    }
    ranks
}

/// Starts and ranks of the samples, in order of the starts.
pub fn ranked(way: &Way) -> Vec<(u64, f32)> {
    let mut ranked: Vec<(u64, f32)> = way.samples.iter().map(|sample| (sample.at, 0.0)).collect();
    for (rank, &at) in way.order.iter().enumerate() {
        ranked[at as usize].1 = (rank as f32 + 0.5) / way.order.len() as f32;
    }
    ranked
}

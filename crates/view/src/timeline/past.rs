//! [`Past`]: the history of a process, for the process that takes over.

use super::{ENDPOINTS_MAX, Endpoint, Pool, SECONDS, SPANS, Spans, Timeline};
use crate::history::Span;
use crate::latencies::BUCKETS;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// Spans that are handed over: of all requests, of pools, and of endpoints until it is reached. Some six megabytes.
const SPANS_MAX: usize = 40_000;

/// History of requests without values that only count in this process.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Past {
    all: Vec<Sums>,
    pools: Vec<PastPool>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct PastPool {
    name: Arc<str>,
    spans: Vec<Sums>,
    endpoints: Vec<PastEndpoint>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct PastEndpoint {
    name: Arc<str>,
    spans: Vec<Sums>,
    spreads: Vec<Box<[(u8, u32)]>>,
}

/// The fields of a [`Span`] in their order, as names would be most of the text.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sums(u64, u32, u32, u32, Option<f64>, Option<f64>, Option<f64>);

impl Sums {
    fn of(span: &Span) -> Sums {
        let Span { until_ms, requests, errors, in_flight, p50_ms, p95_ms, p99_ms } = *span;
        // Percentiles are known to a fifth.
        let rounded = |ms: Option<f64>| ms.map(|ms| (ms * 1000.0).round() / 1000.0);
        Sums(until_ms, requests, errors, in_flight, rounded(p50_ms), rounded(p95_ms), rounded(p99_ms))
    }

    fn span(self) -> Span {
        let Sums(until_ms, requests, errors, in_flight, p50_ms, p95_ms, p99_ms) = self;
        Span { until_ms, requests, errors, in_flight, p50_ms, p95_ms, p99_ms }
    }
}

impl Timeline {
    /// Returns the history until now, without the span that is not over.
    pub fn past(&self) -> Past {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut room = SPANS_MAX;
        let all = taken(&kept.all, &mut room);
        let mut pools: Vec<PastPool> = Vec::new();
        for (name, pool) in &kept.pools {
            pools.push(PastPool {
                name: name.clone(),
                spans: taken(&pool.ring.spans, &mut room),
                endpoints: Vec::new(),
            });
        }
        for past in &mut pools {
            let endpoints = kept.pools[&past.name].endpoints.iter();
            let with_spans = endpoints.filter_map(|(name, endpoint)| Some((name, endpoint.spans.as_ref()?)));
            for (name, spans) in with_spans {
                if room == 0 {
                    break;
                }
                let sums = taken(&spans.ring.spans, &mut room);
                let spreads = spans.spreads.iter().skip(spans.spreads.len().saturating_sub(sums.len()));
                let spreads = spreads.cloned().collect();
                past.endpoints.push(PastEndpoint { name: name.clone(), spans: sums, spreads });
            }
        }
        Past { all, pools }
    }

    /// Begins with the history of the process before. Pools and endpoints that are not in the plan are forgotten with
    /// the next spans.
    pub fn restore(&self, past: Past) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.all = last(past.all.into_iter().map(Sums::span), SECONDS);
        for PastPool { name, spans, endpoints } in past.pools {
            let mut pool = Pool::default();
            pool.ring.spans = last(spans.into_iter().map(Sums::span), SPANS);
            for past in endpoints {
                if kept.endpoints == ENDPOINTS_MAX {
                    break;
                }
                kept.endpoints += 1;
                let mut spans = Box::<Spans>::default();
                spans.ring.spans = last(past.spans.into_iter().map(Sums::span), SPANS);
                let cells = |spread: Box<[(u8, u32)]>| {
                    spread.into_iter().filter(|(at, _)| usize::from(*at) < BUCKETS).collect()
                };
                spans.spreads = last(past.spreads.into_iter().map(cells), SPANS);
                pool.endpoints.insert(past.name, Endpoint { spans: Some(spans), ..Endpoint::default() });
            }
            kept.pools.insert(name, pool);
        }
    }
}

/// The latest spans for which there is room.
fn taken(spans: &VecDeque<Span>, room: &mut usize) -> Vec<Sums> {
    let count = spans.len().min(*room);
    *room -= count;
    spans.iter().skip(spans.len() - count).map(Sums::of).collect()
}

fn last<T>(all: impl ExactSizeIterator<Item = T>, most: usize) -> VecDeque<T> {
    let skipped = all.len().saturating_sub(most);
    all.skip(skipped).collect()
}

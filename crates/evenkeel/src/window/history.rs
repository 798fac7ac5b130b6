//! What happened of late? Sums by the second of all requests, and by five seconds of each pool and endpoint, for a quarter of an
//! hour: enough for a page that people look at when something is wrong.

use super::counts::{self, Counts};
use evenkeel_admin::api::types::history::{History as Shown, Span, Step};
use evenkeel_proxy::Numbers;
use evenkeel_proxy::latency::{Latencies, lower_ns, upper_ns};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it is counted.
pub const EVERY: Duration = Duration::from_secs(1);

/// Seconds of which sums of all are kept.
const SECONDS: usize = 900;

/// Counts that make a span of a pool or an endpoint.
const TOGETHER: u64 = 5;

/// Their spans.
const SPANS: usize = SECONDS / TOGETHER as usize;

/// Endpoints of which spans are kept, those that had requests first: some ten megabytes. Of more, pools alone show their sums.
const ENDPOINTS_MAX: usize = 1000;

/// What is kept.
#[derive(Default)]
pub struct History(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    counted: u64,
    all: VecDeque<Span>,
    listeners: Counts,
    pools: HashMap<Arc<str>, Pool>,
    routes: HashMap<(Arc<str>, Arc<str>), Route>,
    endpoints: usize,
}

#[derive(Default)]
struct Pool {
    ring: Ring,
    endpoints: HashMap<Arc<str>, Endpoint>,
    /// When it was last in the plan, by `counted`.
    seen: u64,
}

struct Endpoint {
    /// Until the last count.
    before: Counts,
    latencies: Latencies,
    ring: Ring,
    spreads: VecDeque<Box<[(u8, u32)]>>,
    seen: u64,
}

#[derive(Default)]
struct Route {
    before: Counts,
    now: Counts,
}

/// Spans of one pool or endpoint, and the one that is not over.
#[derive(Default)]
struct Ring {
    spans: VecDeque<Span>,
    open: Open,
}

/// A span that is not over.
#[derive(Default)]
struct Open {
    counts: Counts,
    latencies: Latencies,
}

impl Open {
    fn add(&mut self, counts: Counts, latencies: Option<&Latencies>) {
        self.counts.add(counts);
        if let Some(latencies) = latencies {
            self.latencies.add(latencies);
        }
    }

    fn close(&mut self, until_ms: u64, in_flight: u32) -> (Span, Latencies) {
        let Open { counts, latencies } = std::mem::take(self);
        let ms = |part| latencies.percentile_ns(part).map(|ns| ns as f64 / 1e6);
        let span = Span {
            until_ms,
            requests: counts.requests as u32,
            errors: counts.errors as u32,
            in_flight,
            p50_ms: ms(0.5),
            p95_ms: ms(0.95),
            p99_ms: ms(0.99),
        };
        (span, latencies)
    }
}

impl Ring {
    fn push(&mut self, span: Span) {
        push(&mut self.spans, span, SPANS);
    }
}

fn push<T>(ring: &mut VecDeque<T>, one: T, most: usize) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(one);
}

impl History {
    /// Counts what has happened since it was last called, which is [`EVERY`] so often.
    pub fn count(&self, now: &Numbers, now_ms: u64) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        kept.counted += 1;
        let (counted, is_over) = (kept.counted, kept.counted.is_multiple_of(TOGETHER));
        let mut all = Open::default();
        let mut all_in_flight = 0;
        for (p, plan) in now.plan().pools.iter().enumerate() {
            let pool = kept.pools.entry(plan.name.clone()).or_default();
            pool.seen = counted;
            let mut pool_in_flight = 0;
            for (e, endpoint) in plan.endpoints.iter().enumerate() {
                let (counts, in_flight) = counts::of_endpoint(now, p, e);
                pool_in_flight += in_flight;
                if let Some(kept) = pool.endpoints.get_mut(&endpoint.name) {
                    kept.seen = counted;
                    kept.count(counts, || counts::latencies(now, p, e), [&mut all, &mut pool.ring.open]);
                    if is_over {
                        kept.close(now_ms, in_flight);
                    }
                } else if counts.requests > 0 && kept.endpoints < ENDPOINTS_MAX {
                    let mut new = Endpoint::new(counted);
                    new.count(counts, || counts::latencies(now, p, e), [&mut all, &mut pool.ring.open]);
                    pool.endpoints.insert(endpoint.name.clone(), new);
                    kept.endpoints += 1;
                }
            }
            if is_over {
                let (span, _) = pool.ring.open.close(now_ms, pool_in_flight);
                pool.ring.push(span);
            }
            all_in_flight += pool_in_flight;
        }
        let listeners = counts::of_listeners(now);
        // The requests of all are those of clients, the latencies those of endpoints.
        all.counts = listeners.since(kept.listeners);
        kept.listeners = listeners;
        push(&mut kept.all, all.close(now_ms, all_in_flight).0, SECONDS);
        if is_over {
            let before = std::mem::take(&mut kept.routes);
            let route = |(names, now): ((Arc<str>, Arc<str>), Counts)| {
                let before = before.get(&names).map_or(Counts::default(), |route| route.now);
                (names, Route { before, now })
            };
            kept.routes = counts::of_routes(now).into_iter().map(route).collect();
            kept.forget(counted);
        }
    }

    /// What is kept of all, of a pool, or of an endpoint.
    pub fn shown(&self, of: Option<(&str, Option<&str>)>) -> Option<Shown> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let second = EVERY.as_millis() as u32;
        let Some((pool, endpoint)) = of else {
            let spans = kept.all.iter().copied().collect();
            return Some(Shown { step_ms: second, spans, spreads: Vec::new() });
        };
        let pool = kept.pools.get(pool)?;
        let (ring, spreads) = match endpoint {
            None => (&pool.ring, Vec::new()),
            Some(endpoint) => {
                let endpoint = pool.endpoints.get(endpoint)?;
                (&endpoint.ring, endpoint.spreads.iter().map(|spread| spread.iter().map(step).collect()).collect())
            }
        };
        Some(Shown { step_ms: second * TOGETHER as u32, spans: ring.spans.iter().copied().collect(), spreads })
    }

    /// What has passed by a route from a listener: so far, and how much of it of late.
    pub fn passed(&self, listener: &Arc<str>, route: &Arc<str>) -> (Counts, Counts, Duration) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let route = kept.routes.get(&(listener.clone(), route.clone()));
        let (now, late) = route.map(|route| (route.now, route.now.since(route.before))).unwrap_or_default();
        (now, late, EVERY * TOGETHER as u32)
    }
}

fn step((bucket, responses): &(u8, u32)) -> Step {
    let ms = |ns: u64| ns as f64 / 1e6;
    let bucket = usize::from(*bucket);
    Step { from_ms: ms(lower_ns(bucket)), until_ms: ms(upper_ns(bucket)), responses: *responses }
}

impl Kept {
    /// Forgets what has left the plan.
    fn forget(&mut self, counted: u64) {
        self.pools.retain(|_, pool| pool.seen == counted);
        self.pools.values_mut().for_each(|pool| pool.endpoints.retain(|_, endpoint| endpoint.seen == counted));
        self.endpoints = self.pools.values().map(|pool| pool.endpoints.len()).sum();
    }
}

impl Endpoint {
    fn new(seen: u64) -> Endpoint {
        let (before, latencies) = (Counts::default(), Latencies::default());
        Endpoint { before, latencies, ring: Ring::default(), spreads: VecDeque::new(), seen }
    }

    /// Adds what is new to its own span and to these.
    fn count(&mut self, counts: Counts, latencies: impl FnOnce() -> Latencies, sums: [&mut Open; 2]) {
        let new = counts.since(self.before);
        self.before = counts;
        // Those of an endpoint without new responses are not read: of thousands, most are idle.
        let latencies = (new.requests > 0).then(|| {
            let now = latencies();
            let new = now.since(&self.latencies);
            self.latencies = now;
            new
        });
        let [all, pool] = sums;
        [all, pool, &mut self.ring.open].into_iter().for_each(|open| open.add(new, latencies.as_ref()));
    }

    fn close(&mut self, now_ms: u64, in_flight: u32) {
        let (span, latencies) = self.ring.open.close(now_ms, in_flight);
        self.ring.push(span);
        let cells = latencies.steps.iter().enumerate().filter(|(_, count)| **count > 0);
        push(&mut self.spreads, cells.map(|(bucket, count)| (bucket as u8, *count as u32)).collect(), SPANS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::Plan;
    use evenkeel_runtime::Generation;

    fn plan(endpoints: &str) -> Arc<Plan> {
        let text = format!("[listener.web]\nbind = ['127.0.0.1:1']\n[pool.web]\nendpoints = [{endpoints}]\n");
        evenkeel_config::parse_str("test.toml", &text, &|_| None).plan.expect("a good plan").into()
    }

    fn numbers(endpoints: &str, workers: usize) -> Numbers {
        Numbers::first(Generation::first(plan(endpoints)).into(), workers)
    }

    #[test]
    fn what_was_counted_before_is_not_counted_again() {
        let (now, history) = (numbers("'127.0.0.1:2', '127.0.0.1:3'", 2), History::default());
        let endpoint = |worker: usize| &now.workers[worker].endpoints[0][0];
        for second in 1..=10 {
            for worker in 0..2 {
                endpoint(worker).requests[1].add(3);
                endpoint(worker).requests[4].add(1);
                (0..4).for_each(|_| endpoint(worker).latency.record(2_000_000));
            }
            history.count(&now, second * 1000);
        }
        let all = history.shown(None).expect("of all");
        assert_eq!((all.step_ms, all.spans.len(), all.spans[9].until_ms), (1000, 10, 10_000));
        assert!((2.0..2.6).contains(&all.spans[3].p99_ms.expect("there were responses")));
        let one = history.shown(Some(("web", Some("127.0.0.1:2")))).expect("of the endpoint");
        let counts = |shown: &Shown| shown.spans.iter().map(|span| (span.requests, span.errors)).collect::<Vec<_>>();
        assert_eq!(counts(&one), [(40, 10), (40, 10)]);
        assert_eq!(counts(&history.shown(Some(("web", None))).expect("of the pool")), counts(&one));
        assert_eq!(one.spreads.iter().map(|spread| spread[0].responses).collect::<Vec<_>>(), [40, 40]);
        assert!(one.spreads[0][0].from_ms <= 2.0 && one.spreads[0][0].until_ms > 2.0);
        assert_eq!(history.shown(Some(("web", Some("127.0.0.1:3")))), None, "it had none");
        assert_eq!(history.shown(Some(("shop", None))), None);
    }

    #[test]
    fn what_left_the_plan_is_forgotten() {
        let (first, history) = (numbers("'127.0.0.1:2'", 1), History::default());
        first.workers[0].endpoints[0][0].requests[1].add(1);
        history.count(&first, 1);
        let next = first.next(first.generation.next(plan("'127.0.0.1:3'")).into());
        (0..TOGETHER).for_each(|_| history.count(&next, 2));
        assert_eq!(history.shown(Some(("web", Some("127.0.0.1:2")))), None);
        assert_eq!(history.0.lock().unwrap().endpoints, 0);
    }

    #[test]
    fn a_ring_keeps_its_last_spans() {
        let (now, history) = (numbers("'127.0.0.1:2'", 1), History::default());
        (1..=1000).for_each(|second| history.count(&now, second));
        let all = history.shown(None).expect("of all");
        assert_eq!((all.spans.len(), all.spans[0].until_ms), (SECONDS, 101));
        assert_eq!(history.shown(Some(("web", None))).expect("of the pool").spans.len(), SPANS);
    }
}

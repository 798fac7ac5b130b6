//! History of the last quarter of an hour, by the second for all requests and by five seconds for each pool and
//! endpoint: enough for a page that people read when something is wrong. Also the latencies of the last half minute to
//! minute.

mod past;

pub use past::Past;

use crate::durations::Durations;
use crate::history::{History, Span, Step};
use crate::latencies::{Latencies, lower_ns, upper_ns};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time between two calls of [`Timeline::count`].
pub const EVERY: Duration = Duration::from_secs(1);

/// Seconds of which sums of all are kept.
const SECONDS: usize = 900;

/// Counts that make a span of a pool or an endpoint.
const TOGETHER: u64 = 5;

/// Counts after which recent latencies start a new window. They cover up to two windows: 30 to 60 seconds.
const WINDOW: u64 = 30;

/// Spans of a pool or an endpoint that are kept.
const SPANS: usize = SECONDS / TOGETHER as usize;

/// Endpoints of which spans are kept, those that had requests first: some ten megabytes. Of more, pools alone show
/// their sums.
const ENDPOINTS_MAX: usize = 1000;

/// Requests, and errors among them. Where requests are not read, TCP sessions and UDP flows, counted when they begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub requests: u64,
    /// Requests answered with 500 and above; of an endpoint, all that failed by its fault.
    pub errors: u64,
    /// Requests that got no connection to the endpoint.
    pub unreached: u64,
}

impl Counts {
    pub fn add(&mut self, more: Counts) {
        self.requests += more.requests;
        self.errors += more.errors;
        self.unreached += more.unreached;
    }

    /// Returns the difference to an earlier moment. An endpoint that left and came back counts from zero.
    pub fn since(self, before: Counts) -> Counts {
        if self.requests < before.requests {
            return self;
        }
        Counts {
            requests: self.requests - before.requests,
            errors: self.errors.saturating_sub(before.errors),
            unreached: self.unreached.saturating_sub(before.unreached),
        }
    }
}

/// Requests of a route at a listener, with their durations where those are measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteCounts {
    /// Requests, and those that were errors.
    pub counts: Counts,
    /// Requests that a pool got, and the errors among them.
    pub sent: Counts,
    /// Times from the head of a request to the end of its response.
    pub durations: Durations,
}

impl RouteCounts {
    fn since(&self, before: &RouteCounts) -> RouteCounts {
        let durations = match self.counts.requests < before.counts.requests {
            // It left and came back, so its durations count from zero, too.
            true => self.durations.clone(),
            false => self.durations.since(&before.durations),
        };
        RouteCounts { counts: self.counts.since(before.counts), sent: self.sent.since(before.sent), durations }
    }
}

/// Requests of a route at a listener, in total and of the latest span.
#[derive(Clone, Debug, Default)]
pub struct RoutePassed {
    /// Requests since the process started.
    pub so_far: Counts,
    /// Requests of the latest span.
    pub late: RouteCounts,
    /// Length of the latest span.
    pub span: Duration,
}

impl RoutePassed {
    /// Returns the rate a second of a count of the latest span.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.span.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Requests at an endpoint in some time.
#[derive(Clone, Debug)]
pub struct OfLate {
    /// Requests, and errors among them.
    pub counts: Counts,
    /// Times to the first byte of their responses, if they are measured.
    pub latencies: Latencies,
}

/// Requests counted until now.
pub trait Counted {
    /// The pools of the plan that runs, with the requests of their endpoints.
    fn pools(&self) -> impl Iterator<Item = impl PoolCounted>;

    /// Requests of clients, of all listeners.
    fn listeners(&self) -> Counts;

    /// Requests of each route that had some, by the names of listener and route; of a DNS listener, queries by the name
    /// of its zone.
    fn routes(&self) -> HashMap<(Arc<str>, Arc<str>), RouteCounts>;
}

/// Requests of a pool counted until now. Endpoints are in the order in which the pool has them.
pub trait PoolCounted {
    fn name(&self) -> &Arc<str>;

    /// The names of its endpoints.
    fn endpoints(&self) -> impl Iterator<Item = &Arc<str>>;

    /// Tries at an endpoint, and those under way.
    fn endpoint(&self, endpoint: usize) -> (Counts, u32);

    /// Times to the first byte of the responses of an endpoint.
    fn latencies(&self, endpoint: usize) -> Latencies;
}

/// History of requests, and recent latencies.
#[derive(Default)]
pub struct Timeline(Mutex<Kept>);

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
    /// Number of the count in which it was last in the plan.
    seen: u64,
}

/// An endpoint that had requests.
#[derive(Default)]
struct Endpoint {
    /// Counts until the last look.
    before: Counts,
    latencies: Latencies,
    /// Values at the end of the last window, and of the window before.
    windows: [Option<OfLate>; 2],
    /// Spans, unless there were too many endpoints before it.
    spans: Option<Box<Spans>>,
    seen: u64,
}

#[derive(Default)]
struct Spans {
    ring: Ring,
    spreads: VecDeque<Box<[(u8, u32)]>>,
}

#[derive(Default)]
struct Route {
    now: RouteCounts,
    late: RouteCounts,
}

/// Spans of a pool or endpoint, and the span that is not over.
#[derive(Default)]
struct Ring {
    spans: VecDeque<Span>,
    open: Open,
}

/// Sums of a span that is not over.
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
        let span = Span {
            until_ms,
            requests: counts.requests as u32,
            errors: counts.errors as u32,
            in_flight,
            p50_ms: latencies.percentile_ms(0.5),
            p95_ms: latencies.percentile_ms(0.95),
            p99_ms: latencies.percentile_ms(0.99),
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

impl Timeline {
    /// Counts everything since the last call, which is [`EVERY`] so often.
    pub fn count(&self, now: &impl Counted, now_ms: u64) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        kept.counted += 1;
        let (counted, is_over) = (kept.counted, kept.counted.is_multiple_of(TOGETHER));
        let mut all = Open::default();
        let mut all_in_flight = 0;
        for now in now.pools() {
            let pool = kept.pools.entry(now.name().clone()).or_default();
            pool.seen = counted;
            let mut pool_in_flight = 0;
            for (e, name) in now.endpoints().enumerate() {
                let (counts, in_flight) = now.endpoint(e);
                pool_in_flight += in_flight;
                if counts.requests > 0 && !pool.endpoints.contains_key(name) {
                    let has_spans = kept.endpoints < ENDPOINTS_MAX;
                    kept.endpoints += usize::from(has_spans);
                    let spans = has_spans.then(Box::default);
                    pool.endpoints.insert(name.clone(), Endpoint { spans, ..Endpoint::default() });
                }
                let Some(endpoint) = pool.endpoints.get_mut(name) else { continue };
                endpoint.seen = counted;
                endpoint.count(counts, || now.latencies(e), [&mut all, &mut pool.ring.open]);
                if let Some(spans) = endpoint.spans.as_mut().filter(|_| is_over) {
                    spans.close(now_ms, in_flight);
                }
                if counted.is_multiple_of(WINDOW) {
                    let until_now = OfLate { counts, latencies: endpoint.latencies.clone() };
                    endpoint.windows = [Some(until_now), endpoint.windows[0].take()];
                }
            }
            if is_over {
                let (span, _) = pool.ring.open.close(now_ms, pool_in_flight);
                pool.ring.push(span);
            }
            all_in_flight += pool_in_flight;
        }
        let listeners = now.listeners();
        // The requests of all are from clients, the latencies from endpoints.
        all.counts = listeners.since(kept.listeners);
        kept.listeners = listeners;
        push(&mut kept.all, all.close(now_ms, all_in_flight).0, SECONDS);
        if is_over {
            let before = std::mem::take(&mut kept.routes);
            let route = |(names, now): ((Arc<str>, Arc<str>), RouteCounts)| {
                let late = before.get(&names).map_or_else(|| now.clone(), |route| now.since(&route.now));
                (names, Route { now, late })
            };
            kept.routes = now.routes().into_iter().map(route).collect();
            kept.forget(counted);
        }
    }

    /// Returns the history of all, of a pool, or of an endpoint.
    pub fn shown(&self, of: Option<(&str, Option<&str>)>) -> Option<History> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let second = EVERY.as_millis() as u32;
        let Some((pool, endpoint)) = of else {
            let spans = kept.all.iter().copied().collect();
            return Some(History { step_ms: second, spans, spreads: Vec::new() });
        };
        let pool = kept.pools.get(pool)?;
        let (ring, spreads) = match endpoint {
            None => (&pool.ring, Vec::new()),
            Some(endpoint) => {
                let spans = pool.endpoints.get(endpoint)?.spans.as_ref()?;
                (&spans.ring, spans.spreads.iter().map(|spread| spread.iter().map(step).collect()).collect())
            }
        };
        Some(History { step_ms: second * TOGETHER as u32, spans: ring.spans.iter().copied().collect(), spreads })
    }

    /// Returns the requests of an endpoint in the last half minute to minute. `counts` and `latencies`: all until now.
    pub fn of_late(&self, pool: &str, endpoint: &str, counts: Counts, latencies: &Latencies) -> OfLate {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.pools.get(pool).and_then(|pool| pool.endpoints.get(endpoint)?.windows[1].as_ref());
        match before {
            None => OfLate { counts, latencies: latencies.clone() },
            Some(before) => {
                OfLate { counts: counts.since(before.counts), latencies: latencies.since(&before.latencies) }
            }
        }
    }

    /// Returns the requests of a route at a listener; of a zone, its queries.
    pub fn passed(&self, listener: &Arc<str>, route: &Arc<str>) -> RoutePassed {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let route = kept.routes.get(&(listener.clone(), route.clone()));
        let (so_far, late) = route.map(|route| (route.now.counts, route.late.clone())).unwrap_or_default();
        RoutePassed { so_far, late, span: EVERY * TOGETHER as u32 }
    }
}

fn step((bucket, responses): &(u8, u32)) -> Step {
    let ms = |ns: u64| ns as f64 / 1e6;
    let bucket = usize::from(*bucket);
    Step { from_ms: ms(lower_ns(bucket)), until_ms: ms(upper_ns(bucket)), responses: *responses }
}

impl Kept {
    /// Forgets pools that have left the plan.
    fn forget(&mut self, counted: u64) {
        self.pools.retain(|_, pool| pool.seen == counted);
        self.pools.values_mut().for_each(|pool| pool.endpoints.retain(|_, endpoint| endpoint.seen == counted));
        let endpoints = self.pools.values().flat_map(|pool| pool.endpoints.values());
        self.endpoints = endpoints.filter(|endpoint| endpoint.spans.is_some()).count();
    }
}

impl Endpoint {
    /// Adds new counts to its span and to these.
    fn count(&mut self, counts: Counts, latencies: impl FnOnce() -> Latencies, sums: [&mut Open; 2]) {
        if counts.requests < self.before.requests {
            // It left and came back.
            (self.latencies, self.windows) = Default::default();
        }
        let new = counts.since(self.before);
        self.before = counts;
        // Latencies of an endpoint without new responses are not read: of thousands, most are idle.
        let latencies = (new.requests > 0).then(|| {
            let now = latencies();
            let new = now.since(&self.latencies);
            self.latencies = now;
            new
        });
        let own = self.spans.as_mut().map(|spans| &mut spans.ring.open);
        sums.into_iter().chain(own).for_each(|open| open.add(new, latencies.as_ref()));
    }
}

impl Spans {
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
    use crate::latencies::bucket;

    /// Endpoints of a pool `web`, each with its tries and their latencies.
    #[derive(Default)]
    struct Web(Vec<(Arc<str>, Counts, Latencies)>, Arc<str>);

    impl Web {
        fn new(endpoints: &[&str]) -> Web {
            let endpoint = |name: &&str| (Arc::from(*name), Counts::default(), Latencies::default());
            Web(endpoints.iter().map(endpoint).collect(), "web".into())
        }

        /// Adds tries of 2 ms at the first endpoint.
        fn add(&mut self, requests: u64, errors: u64) {
            let (_, counts, latencies) = &mut self.0[0];
            counts.add(Counts { requests, errors, unreached: 0 });
            latencies.steps[bucket(2_000_000)] += requests;
        }
    }

    impl Counted for Web {
        fn pools(&self) -> impl Iterator<Item = impl PoolCounted> {
            std::iter::once(self)
        }

        fn listeners(&self) -> Counts {
            Counts::default()
        }

        fn routes(&self) -> HashMap<(Arc<str>, Arc<str>), RouteCounts> {
            HashMap::new()
        }
    }

    impl PoolCounted for &Web {
        fn name(&self) -> &Arc<str> {
            &self.1
        }

        fn endpoints(&self) -> impl Iterator<Item = &Arc<str>> {
            self.0.iter().map(|(name, ..)| name)
        }

        fn endpoint(&self, endpoint: usize) -> (Counts, u32) {
            (self.0[endpoint].1, 0)
        }

        fn latencies(&self, endpoint: usize) -> Latencies {
            self.0[endpoint].2.clone()
        }
    }

    #[test]
    fn what_was_counted_before_is_not_counted_again() {
        let (mut now, history) = (Web::new(&["one", "idle"]), Timeline::default());
        for second in 1..=10 {
            now.add(8, 2);
            history.count(&now, second * 1000);
        }
        let all = history.shown(None).expect("of all");
        assert_eq!((all.step_ms, all.spans.len(), all.spans[9].until_ms), (1000, 10, 10_000));
        assert!((2.0..2.6).contains(&all.spans[3].p99_ms.expect("there were responses")));
        let one = history.shown(Some(("web", Some("one")))).expect("of the endpoint");
        let counts = |shown: &History| shown.spans.iter().map(|span| (span.requests, span.errors)).collect::<Vec<_>>();
        assert_eq!(counts(&one), [(40, 10), (40, 10)]);
        assert_eq!(counts(&history.shown(Some(("web", None))).expect("of the pool")), counts(&one));
        assert_eq!(one.spreads.iter().map(|spread| spread[0].responses).collect::<Vec<_>>(), [40, 40]);
        assert!(one.spreads[0][0].from_ms <= 2.0 && one.spreads[0][0].until_ms > 2.0);
        assert_eq!(history.shown(Some(("web", Some("idle")))), None, "it had none");
        assert_eq!(history.shown(Some(("shop", None))), None);
    }

    #[test]
    fn latencies_of_late_are_of_the_last_half_minute_to_minute() {
        let (mut now, history) = (Web::new(&["one"]), Timeline::default());
        let late = |now: &Web| {
            let late = history.of_late("web", "one", now.0[0].1, &now.0[0].2);
            assert_eq!(late.counts.requests, late.latencies.count());
            late.counts.requests
        };
        let mut seen = Vec::new();
        for second in 1..=120 {
            now.add(1, 0);
            history.count(&now, second * 1000);
            // An extra request, of which no count knows.
            now.add(1, 0);
            seen.push(late(&now));
        }
        assert_eq!([0, 29, 58, 59, 60, 89, 119].map(|at| seen[at]), [2, 60, 118, 61, 63, 61, 61]);
        let unknown = history.of_late("web", "two", now.0[0].1, &now.0[0].2);
        assert_eq!(unknown.counts.requests, 240, "nothing is known of it");
        let mut back = Web::new(&["one"]);
        back.add(1, 0);
        history.count(&back, 121);
        assert_eq!(late(&back), 1, "what left and came back counts from zero");
    }

    #[test]
    fn a_successor_continues_the_history() {
        let (mut now, history) = (Web::new(&["one", "two"]), Timeline::default());
        for second in 1..=10 {
            now.add(8, 2);
            history.count(&now, second * 1000);
        }
        let one = Some(("web", Some("one")));
        let next = Timeline::default();
        next.restore(history.past());
        assert_eq!(next.past(), history.past());
        let (before, mut fresh) = (history.shown(one).expect("of the endpoint"), Web::new(&["one"]));
        for second in 11..=15 {
            fresh.add(1, 0);
            next.count(&fresh, second * 1000);
        }
        let after = next.shown(one).expect("of the endpoint");
        assert_eq!(after.spreads[..2], before.spreads);
        let counts = after.spans.iter().map(|span| (span.until_ms, span.requests, span.errors)).collect::<Vec<_>>();
        assert_eq!(counts, [(5000, 40, 10), (10_000, 40, 10), (15_000, 5, 0)]);
        assert_eq!(next.shown(None).expect("of all").spans.len(), 15);
        (0..TOGETHER).for_each(|_| next.count(&Web::new(&["two"]), 20_000));
        assert_eq!(next.shown(one), None, "it is no longer in the plan");
    }

    #[test]
    fn what_left_the_plan_is_forgotten() {
        let (mut first, history) = (Web::new(&["one"]), Timeline::default());
        first.add(1, 0);
        history.count(&first, 1);
        let next = Web::new(&["two"]);
        (0..TOGETHER).for_each(|_| history.count(&next, 2));
        assert_eq!(history.shown(Some(("web", Some("one")))), None);
        assert_eq!(history.0.lock().unwrap().endpoints, 0);
    }

    #[test]
    fn a_ring_keeps_its_last_spans() {
        let (now, history) = (Web::new(&["one"]), Timeline::default());
        (1..=1000).for_each(|second| history.count(&now, second));
        let all = history.shown(None).expect("of all");
        assert_eq!((all.spans.len(), all.spans[0].until_ms), (SECONDS, 101));
        assert_eq!(history.shown(Some(("web", None))).expect("of the pool").spans.len(), SPANS);
    }
}

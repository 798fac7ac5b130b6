//! An adaptive limit on the requests in flight at an endpoint, which follows its latency (gradient controller).

/// Bounds and pace of the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Smallest limit; at least 1.
    pub min: u32,
    /// Largest limit, in requests.
    pub max: u32,
    /// Limit before the first interval.
    pub start: u32,
    /// Multiple of its shortest latency that an endpoint may take before the limit falls; above 1.
    pub tolerance: f64,
    /// Time between steps of the limit, nanoseconds.
    pub interval_ns: u64,
}

impl Default for Settings {
    /// Tolerance 1.5 and start 20, as in the gradient limit of Netflix's concurrency-limits.
    fn default() -> Settings {
        Settings { min: 3, max: 1000, start: 20, tolerance: 1.5, interval_ns: 1_000_000_000 }
    }
}

/// The limit of an endpoint, stepped once per interval.
///
/// Each step sets it to limit x (shortest latency x tolerance / latency) + sqrt(limit). The square root leaves room to
/// find out that more is possible. Source: Envoy's gradient controller and Netflix's Gradient2. Both need the latency
/// without queueing, and must not treat an endpoint that has become slower as overloaded forever. So that latency is
/// measured again from time to time, for an interval, under a limit that leaves no queue. Envoy goes down to 3
/// requests for that.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    limit: f64,
    /// Mean latency, in nanoseconds, of an interval in which our requests did not queue; `None` before the first.
    shortest_ns: Option<f64>,
    /// Intervals until the shortest latency is measured again.
    measure_in: u32,
    /// Limit to return to after the measurement under way; `None` if there is none.
    paused: Option<f64>,
}

/// Observations of an endpoint in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Requests that succeeded in the interval.
    pub requests: u32,
    /// Mean latency of these requests, nanoseconds.
    pub latency_ns: f64,
    /// Most requests in flight at the same time.
    pub in_flight: u32,
}

/// Requests needed to learn from an interval. With exponential latencies, the mean of 10 has a relative standard
/// deviation of a third.
const REQUESTS_MIN: u32 = 10;

/// Intervals between measurements of the shortest latency. Each costs about a third of an interval's
/// requests.
const MEASURE_EVERY: u32 = 30;

/// Part of the difference by which the shortest latency rises when the endpoint is slower with few requests in flight.
const FORGET: f64 = 0.1;

/// Smallest gradient: a limit falls by half at most, as a single interval may be an outlier.
const GRADIENT_MIN: f64 = 0.5;

impl Limit {
    /// Returns the limit before the first interval.
    pub fn new(settings: &Settings) -> Limit {
        let limit = f64::from(settings.start);
        Limit { limit, shortest_ns: None, measure_in: MEASURE_EVERY, paused: None }.within(settings)
    }

    /// Most requests in flight at once; at least 1.
    pub fn in_flight_max(&self) -> u32 {
        (self.limit.round() as u32).max(1)
    }

    /// Returns this limit within the bounds of `settings`, which may have changed.
    pub fn within(self, settings: &Settings) -> Limit {
        let min = f64::from(settings.min.max(1));
        Limit { limit: self.limit.clamp(min, f64::from(settings.max).max(min)), ..self }
    }

    /// Adjusts the limit to the observations of an interval.
    pub fn step(&mut self, settings: &Settings, did: &Interval) {
        let enough = did.requests >= REQUESTS_MIN;
        if let Some(before) = self.paused.take() {
            self.shortest_ns = if enough { Some(did.latency_ns) } else { self.shortest_ns };
            *self = Limit { limit: before, ..*self }.within(settings);
            return;
        }
        if !enough {
            return;
        }
        let shortest = self.shortest_ns.unwrap_or(did.latency_ns).min(did.latency_ns);
        if f64::from(did.in_flight) < self.limit / 2.0 {
            // The limit was not reached, so nothing is known about it; and an endpoint that is slow now is slow by
            // itself.
            self.shortest_ns = Some(shortest + (did.latency_ns - shortest) * FORGET);
            return;
        }
        self.shortest_ns = Some(shortest);
        let gradient = (settings.tolerance * shortest / did.latency_ns.max(1.0)).clamp(GRADIENT_MIN, 1.0);
        self.limit = self.limit * gradient + self.limit.sqrt();
        self.measure_in -= 1;
        if self.measure_in == 0 {
            self.measure_in = MEASURE_EVERY;
            self.paused = Some(self.limit);
            // The endpoint serves about limit / tolerance at once; another division leaves headroom.
            self.limit /= 1.0 + settings.tolerance;
        }
        *self = self.within(settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    /// An interval of an endpoint that serves `at_once` requests in `ms` each, with as many in flight as the limit
    /// allows.
    fn busy(limit: &Limit, at_once: f64, ms: f64) -> Interval {
        let in_flight = limit.in_flight_max();
        let latency_ns = ms * MS * (f64::from(in_flight) / at_once).max(1.0);
        Interval { requests: 100, latency_ns, in_flight }
    }

    /// Returns the limits after each of `steps` intervals.
    fn run(limit: &mut Limit, settings: &Settings, steps: usize, at_once: f64, ms: f64) -> Vec<u32> {
        let mut step = |_| {
            limit.step(settings, &busy(limit, at_once, ms));
            limit.in_flight_max()
        };
        (0..steps).map(&mut step).collect()
    }

    #[test]
    fn settles_somewhat_above_what_an_endpoint_serves_at_once_from_wherever_it_starts() {
        for (start, tolerance, settled) in [(3, 1.5, 68), (20, 1.5, 68), (1000, 1.5, 68), (20, 2.0, 90)] {
            let settings = Settings { start, tolerance, ..Settings::default() };
            let seen = run(&mut Limit::new(&settings), &settings, 1000, 40.0, 10.0);
            // limit = limit x 1.5 x 40 / limit + sqrt(limit) = 60 + sqrt(limit): 68.2; 90 for a tolerance of 2.
            let (mut last, mut measuring) = (seen[900..].to_vec(), 0);
            last.retain(|n| {
                n.abs_diff(settled) <= 2 || {
                    measuring += 1;
                    false
                }
            });
            assert!(measuring <= 4, "from {start}: {:?}", &seen[900..]);
        }
    }

    #[test]
    fn follows_an_endpoint_that_has_become_slower_or_faster() {
        let settings = Settings::default();
        let mut limit = Limit::new(&settings);
        run(&mut limit, &settings, 100, 40.0, 10.0);
        for (at_once, ms, settled) in [(40.0, 100.0, 68), (20.0, 30.0, 36), (40.0, 2.0, 68)] {
            let seen = run(&mut limit, &settings, 300, at_once, ms);
            let near = seen[200..].iter().filter(|n| n.abs_diff(settled) <= 2).count();
            assert!(near >= 96, "{at_once} at once in {ms} ms each: {seen:?}");
        }
    }

    #[test]
    fn is_not_moved_by_intervals_that_never_reached_it() {
        let settings = Settings::default();
        let mut limit = Limit::new(&settings);
        for requests in [5, 1000] {
            limit.step(&settings, &Interval { requests, latency_ns: 5.0 * MS, in_flight: 9 });
            limit.step(&settings, &Interval { requests, latency_ns: 500.0 * MS, in_flight: 9 });
        }
        limit.step(&settings, &Interval { requests: 5, latency_ns: 500.0 * MS, in_flight: 20 });
        assert_eq!(limit.in_flight_max(), 20);
    }
}

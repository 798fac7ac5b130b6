//! Counters of a running simulation.

use crate::run::{Failure, Series};
use hdrhistogram::Histogram;

/// Intervals of a time series; when there are twice as many, pairs are merged.
const INTERVALS: usize = 128;

/// Services of more servers get no series: unreadable as a plot, and gigabytes of memory.
const SERVERS_MAX: usize = 1024;

/// Results as seen by clients.
pub(super) struct Tally {
    pub latency: Histogram<u64>,
    pub latency_sum_ns: u128,
    pub failed: [u64; 4],
    /// Arrival of the first measured request.
    pub measured_from: Option<u64>,
    pub last_end: u64,
    pub in_system: u64,
    pub in_system_max: u64,
    /// For Little's law, over the whole run: the integral of requests in flight over time, its end, and the sum of
    /// request times; in nanoseconds.
    area: u128,
    area_at: u64,
    times_ns: u128,
    /// Client requests in flight at each sample.
    pub samples: Vec<u64>,
}

impl Tally {
    pub fn new() -> Tally {
        // Three significant digits, up to 11 days.
        let latency = Histogram::new_with_bounds(1, 1_000_000_000_000_000, 3).expect("these bounds are allowed");
        Tally {
            latency,
            latency_sum_ns: 0,
            failed: [0; 4],
            measured_from: None,
            last_end: 0,
            in_system: 0,
            in_system_max: 0,
            area: 0,
            area_at: 0,
            times_ns: 0,
            samples: Vec::new(),
        }
    }

    fn integrate(&mut self, now: u64) {
        self.area += u128::from(self.in_system) * u128::from(now - self.area_at);
        self.area_at = now;
    }

    pub fn began(&mut self, now: u64, measured: bool) {
        self.integrate(now);
        self.in_system += 1;
        self.in_system_max = self.in_system_max.max(self.in_system);
        if measured {
            self.measured_from.get_or_insert(now);
        }
    }

    pub fn ended(&mut self, began: u64, now: u64, measured: bool, failure: Option<Failure>) {
        self.integrate(now);
        self.in_system -= 1;
        self.times_ns += u128::from(now - began);
        self.last_end = now;
        match failure {
            _ if !measured => {}
            Some(failure) => self.failed[failure as usize] += 1,
            None => {
                self.latency.saturating_record(now - began);
                self.latency_sum_ns += u128::from(now - began);
            }
        }
    }

    /// Ratio of the two sides of Little's law: mean requests in flight over rate times mean time. `open_ns` is the time
    /// so far of requests that have not ended by `now`. The sides are counted independently: the first at changes, the
    /// other per request.
    pub fn little(&mut self, now: u64, open_ns: u128) -> f64 {
        self.integrate(now);
        let times = self.times_ns + open_ns;
        if times == 0 { 1.0 } else { self.area as f64 / times as f64 }
    }

    /// True if the number of requests in flight settled: its mean over the last quarter of the run is at most three
    /// times the value of the second quarter plus 10 for each of `servers`. Runs just below capacity vary that much.
    pub fn settled(&self, servers: usize) -> bool {
        let quarter = self.samples.len() / 4;
        let mean = |samples: &[u64]| samples.iter().sum::<u64>() as f64 / samples.len().max(1) as f64;
        let (second, last) = (mean(&self.samples[quarter..2 * quarter]), mean(&self.samples[3 * quarter..]));
        quarter == 0 || last <= 3.0 * second + 10.0 * servers as f64
    }
}

/// Time series of a service.
pub(super) struct Recorder {
    pub series: Series,
    /// Requests by server since the last sample.
    since: Vec<u32>,
}

impl Recorder {
    pub fn new(servers: usize, step_ns: u64) -> Recorder {
        let rows = if servers <= SERVERS_MAX { servers } else { 0 };
        let series = Series {
            step_ns,
            requests: (0..rows).map(|_| Vec::with_capacity(2 * INTERVALS)).collect(),
            in_flight: (0..rows).map(|_| Vec::with_capacity(2 * INTERVALS)).collect(),
        };
        Recorder { series, since: vec![0; rows] }
    }

    #[inline]
    pub fn request(&mut self, server: usize) {
        if let Some(since) = self.since.get_mut(server) {
            *since += 1;
        }
    }

    /// Closes a sampling interval.
    pub fn sample(&mut self, in_flight: impl Iterator<Item = u32>) {
        for (i, in_flight) in in_flight.enumerate().take(self.since.len()) {
            self.series.requests[i].push(std::mem::take(&mut self.since[i]));
            self.series.in_flight[i].push(in_flight as f32);
        }
    }

    /// Merges pairs of intervals when there are twice [`INTERVALS`]. Returns true if it did.
    pub fn coarsen(&mut self) -> bool {
        if self.series.requests.first().is_none_or(|row| row.len() < 2 * INTERVALS) {
            return false;
        }
        self.series.requests.iter_mut().for_each(|row| *row = row.chunks(2).map(|c| c.iter().sum()).collect());
        let mean = |c: &[f32]| c.iter().sum::<f32>() / c.len() as f32;
        self.series.in_flight.iter_mut().for_each(|row| *row = row.chunks(2).map(mean).collect());
        self.series.step_ns *= 2;
        true
    }
}

//! Results of an [`Experiment`]: every policy at every point with every seed, run on several threads. The figures do
//! not depend on their number.

use crate::engine::simulate;
use crate::experiment::{Experiment, Figure, Point};
use crate::interval::Interval;
use crate::metric::{self, Metric};
use crate::run::{Run, Series};
use hdrhistogram::Histogram;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Confidence of all intervals shown.
pub const CONFIDENCE: f64 = 0.95;

/// Tolerance of the check by Little's law, an identity here: only rounding may differ.
const LITTLE_OFF_MAX: f64 = 0.001;

/// The results of an experiment.
#[derive(Clone, Debug)]
pub struct Results {
    /// Seeds that were run, in the order of the figures.
    pub seeds: Vec<u64>,
    /// By point, then by policy.
    pub points: Vec<Vec<Row>>,
}

/// Results of a policy at a point.
#[derive(Clone, Debug)]
pub struct Row {
    /// Values by metric, then by seed.
    pub figures: Vec<Vec<f64>>,
    /// Share of requests by group of servers of the first service, then by seed.
    pub shares: Vec<Vec<f64>>,
    /// Latencies of all seeds, in nanoseconds.
    pub latency: Histogram<u64>,
    /// True if each run settled, with less work offered than the capacity.
    pub steady: bool,
    /// Offered work as a share of capacity; 0 for closed loops.
    pub offered: f64,
    /// Number of events of all seeds.
    pub events: u64,
    /// By server of the first service: maximum in flight in any run.
    pub peaks: Vec<u32>,
    /// Time series of the first seed.
    pub over_time: OverTime,
}

/// Time series by group of servers, then by interval.
#[derive(Clone, Debug, Default)]
pub struct OverTime {
    /// Length of an interval in seconds.
    pub step: f64,
    /// Share of requests, 0 to 1.
    pub share: Vec<Vec<f64>>,
    /// Mean requests in flight per server.
    pub in_flight: Vec<Vec<f64>>,
}

/// A run that violates Little's law: the simulator is wrong, and none of its figures can be trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct Contradiction {
    pub at: String,
    pub policy: String,
    pub seed: u64,
    /// Ratio of the two sides of Little's law; 1 if it holds.
    pub little: f64,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contradiction { at, policy, seed, little } = self;
        let at = if at.is_empty() { String::new() } else { format!(" at {at}") };
        write!(
            f,
            "{policy}{at} with seed {seed} contradicts Little's law: requests under way are {little:.4} of rate times time"
        )
    }
}

impl std::error::Error for Contradiction {}

impl Row {
    fn of(point: &Point, runs: Vec<Run>) -> Row {
        let figures = metric::ALL.iter().map(|m| runs.iter().map(m.of).collect()).collect();
        let front = |run: &Run| run.services.first().map(|s| s.servers.clone()).unwrap_or_default();
        let share = |run: &Run, group: &std::ops::Range<usize>| {
            let servers = front(run);
            let all: u64 = servers.iter().map(|s| s.requests).sum();
            servers[group.clone()].iter().map(|s| s.requests).sum::<u64>() as f64 / all.max(1) as f64
        };
        let shares = point.groups.iter().map(|(_, group)| runs.iter().map(|run| share(run, group)).collect()).collect();
        let mut latency = Histogram::new_with_bounds(1, 1_000_000_000_000_000, 3).expect("these bounds are allowed");
        let mut peaks = vec![0; runs.first().map_or(0, |run| front(run).len())];
        for run in &runs {
            latency.add(&run.latency).expect("it has the same bounds");
            for (peak, server) in peaks.iter_mut().zip(front(run)) {
                *peak = server.in_flight_max.max(*peak);
            }
        }
        Row {
            figures,
            shares,
            latency,
            steady: runs.iter().all(|run| run.steady && run.offered < 1.0),
            offered: runs.first().map_or(0.0, |run| run.offered),
            events: runs.iter().map(|run| run.events).sum(),
            peaks,
            over_time: runs
                .first()
                .and_then(|run| run.services.first())
                .map_or_else(OverTime::default, |service| OverTime::of(point, &service.series)),
        }
    }

    /// Values by seed; `None` if the metric needs a steady state and there was none.
    pub fn values(&self, metric: &Metric) -> Option<&[f64]> {
        (self.steady || !metric.settled).then(|| self.figures[metric::index(metric)].as_slice())
    }

    /// Mean over seeds with its 95 % interval; `None` like [`Row::values`].
    pub fn interval(&self, metric: &Metric) -> Option<Interval> {
        self.values(metric).map(|values| Interval::of(values, CONFIDENCE))
    }

    /// Values by seed of the figure of a claim.
    pub fn figure(&self, point: &Point, figure: &Figure) -> Option<&[f64]> {
        match figure {
            Figure::Metric(metric) => self.values(metric),
            Figure::Share(group) => {
                let at = point.groups.iter().position(|(name, _)| name == group)?;
                Some(&self.shares[at])
            }
        }
    }
}

impl OverTime {
    fn of(point: &Point, series: &Series) -> OverTime {
        let intervals = series.requests.first().map_or(0, Vec::len);
        let whole: Vec<f64> = (0..intervals)
            .map(|i| series.requests.iter().map(|server| f64::from(server[i])).sum::<f64>().max(1.0))
            .collect();
        let rows = |group: &std::ops::Range<usize>| if intervals == 0 { 0..0 } else { group.clone() };
        let share = |group: &std::ops::Range<usize>| {
            let servers = &series.requests[rows(group)];
            (0..intervals).map(|i| servers.iter().map(|s| f64::from(s[i])).sum::<f64>() / whole[i]).collect()
        };
        let in_flight = |group: &std::ops::Range<usize>| {
            let servers = &series.in_flight[rows(group)];
            let mean = |i: usize| servers.iter().map(|s| f64::from(s[i])).sum::<f64>() / servers.len().max(1) as f64;
            (0..intervals).map(mean).collect()
        };
        OverTime {
            step: series.step_ns as f64 / 1e9,
            share: point.groups.iter().map(|(_, group)| share(group)).collect(),
            in_flight: point.groups.iter().map(|(_, group)| in_flight(group)).collect(),
        }
    }
}

impl Experiment {
    /// Runs every policy at every point with `seeds`, on `threads` threads. `progress` is called after each run with
    /// the number of runs done and in total.
    ///
    /// # Errors
    /// The first run that violates Little's law.
    pub fn run(
        &self,
        seeds: &[u64],
        threads: usize,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Results, Contradiction> {
        let mut rows: Vec<(usize, usize)> = Vec::new();
        for (at, point) in self.points.iter().enumerate() {
            rows.extend((0..point.policies.len()).map(|policy| (at, policy)));
        }
        let all = rows.len() * seeds.len();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // A slot for each run, so that the order of results does not depend on threads.
        let places: Vec<Mutex<Option<Run>>> = (0..all).map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for _ in 0..threads.clamp(1, all.max(1)) {
                scope.spawn(|| {
                    loop {
                        let job = next.fetch_add(1, Ordering::Relaxed);
                        let Some(place) = places.get(job) else { return };
                        let (at, policy) = rows[job / seeds.len()];
                        let point = &self.points[at];
                        let run = simulate(&point.scenario, &point.policies[policy], seeds[job % seeds.len()]);
                        *place.lock().expect("no other thread has this place") = Some(run);
                        progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
                    }
                });
            }
        });
        let mut runs =
            places.into_iter().map(|p| p.into_inner().expect("all threads have ended").expect("each was run"));
        let mut points: Vec<Vec<Row>> = self.points.iter().map(|_| Vec::new()).collect();
        for (at, policy) in rows {
            let (point, mut of_row) = (&self.points[at], Vec::new());
            for (seed, run) in seeds.iter().zip(runs.by_ref()) {
                if (run.little - 1.0).abs() > LITTLE_OFF_MAX {
                    let policy = point.policies[policy].label.clone();
                    return Err(Contradiction { at: point.label.clone(), policy, seed: *seed, little: run.little });
                }
                of_row.push(run);
            }
            points[at].push(Row::of(point, of_row));
        }
        Ok(Results { seeds: seeds.to_vec(), points })
    }

    /// Point and row by the labels of point and policy.
    pub fn row<'r>(&self, results: &'r Results, at: &str, policy: &str) -> Option<(&Point, &'r Row)> {
        let at = self.points.iter().position(|point| point.label == at)?;
        let policy = self.points[at].policies.iter().position(|p| p.label == policy)?;
        Some((&self.points[at], &results.points[at][policy]))
    }
}

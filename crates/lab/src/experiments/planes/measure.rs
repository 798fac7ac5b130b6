//! Measurement of a run between two points of a continuous load: requests by the endpoints' counters, CPU time by
//! process.

use crate::child;
use crate::error::{Error, Result};
use crate::load::Answered;
use crate::machine::Cores;
use crate::origin::Origin;
use crate::procfs;
use crate::study::{Meter, Used};
use std::time::{Duration, Instant};

/// Number of concurrent connections.
pub const CONNECTIONS: u32 = 200;
const WARM_UP: Duration = Duration::from_millis(700);
/// Interval at which requests are counted.
const STEP: Duration = Duration::from_millis(250);

pub struct Run {
    /// Requests per second.
    pub rate: f64,
    pub requests: f64,
    /// Requests per second in each step of the run: end of the step in seconds, and the rate.
    pub steps: Vec<(f64, f64)>,
    pub used: Used,
}

impl Run {
    /// CPU microseconds per request, of a group or of the whole machine.
    pub fn us(&self, group: Option<&str>) -> f64 {
        let time = group.map_or(self.used.machine, |name| self.used.of(name));
        time.as_secs_f64() * 1e6 / self.requests.max(1.0)
    }
}

pub struct Bench<'b> {
    pub origin: &'b Origin,
    pub cores: &'b Cores,
    /// Duration of a run, in seconds.
    pub seconds: u64,
}

impl Bench<'_> {
    /// Measures between two points of a load. `load` runs it for the given number of seconds.
    ///
    /// # Errors
    /// The load fails, or a process has ended.
    pub fn measure(&self, balancer: &[u32], load: impl FnOnce(u64) -> Result<Answered> + Send) -> Result<Run> {
        for &pid in balancer {
            self.cores.hold(pid)?;
        }
        let us = std::process::id();
        let before = procfs::children_of(us);
        let endpoints: Vec<u32> = before
            .iter()
            .copied()
            .filter(|pid| !balancer.contains(pid))
            .flat_map(|pid| procfs::children_of(pid).into_iter().filter(|pid| !balancer.contains(pid)).chain([pid]))
            .collect();
        std::thread::scope(|scope| {
            let seconds = self.seconds + 2;
            let going = scope.spawn(move || load(seconds));
            let measured = (|| {
                child::pause(WARM_UP)?;
                let load = procfs::children_of(us).into_iter().filter(|pid| !before.contains(pid)).collect();
                let groups =
                    vec![("balancer", balancer.to_vec()), ("endpoints", endpoints), ("load", load), ("lab", vec![us])];
                let (seen, from, meter) = (self.origin.seen()?, Instant::now(), Meter::start(groups)?);
                let (mut steps, mut last, mut then) = (Vec::new(), seen.requests, from);
                while from.elapsed() < Duration::from_secs(self.seconds) {
                    child::pause(STEP)?;
                    // Each reading of the counters is a request, too.
                    let (requests, now) = (self.origin.seen()?.requests, Instant::now());
                    let rate = requests.saturating_sub(last + 1) as f64 / (now - then).as_secs_f64();
                    steps.push(((now - from).as_secs_f64(), rate));
                    (last, then) = (requests, now);
                }
                let (used, window) = (meter.used()?, from.elapsed());
                let requests = last.saturating_sub(seen.requests + steps.len() as u64) as f64;
                Ok(Run { rate: requests / window.as_secs_f64(), requests, steps, used })
            })();
            // Failures of the load take precedence: the figure would mislead.
            let ended = going.join().map_err(|_| Error::Wrong("the load panicked".into()))?;
            ended.and(measured)
        })
    }
}

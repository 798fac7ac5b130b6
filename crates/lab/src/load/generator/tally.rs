//! Results of a load: answers, failures and latencies, as the sending process reports them to the lab.

use crate::procfs::Cpu;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Quantiles of the outcome, denser in the tail.
const SHARES: [f64; 16] =
    [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 1.0];

/// Counters that are updated as requests end.
pub struct Tally {
    /// Latencies in nanoseconds, to three digits.
    latencies: Histogram<u64>,
    failed: BTreeMap<String, u64>,
    /// Completion time of each answer, in nanoseconds since the start.
    done_ns: Vec<u64>,
    warm_up_ns: u64,
}

impl Tally {
    /// Creates a tally of answers after the warm-up.
    pub fn new(warm_up_ns: u64) -> Tally {
        // Three digits, and no bound on the largest.
        let latencies = Histogram::new(3).expect("three digits can be had");
        Tally { latencies, failed: BTreeMap::new(), done_ns: Vec::new(), warm_up_ns }
    }

    /// Adds a request; times in nanoseconds since the start. Ignored if its planned time is within the warm-up.
    pub fn add(&mut self, meant_ns: u64, done_ns: u64, failure: Option<String>) {
        if meant_ns < self.warm_up_ns {
            return;
        }
        match failure {
            Some(failure) => *self.failed.entry(failure).or_default() += 1,
            None => {
                // The histogram resizes itself, so every value fits.
                let _ = self.latencies.record(done_ns.saturating_sub(meant_ns).max(1));
                self.done_ns.push(done_ns);
            }
        }
    }

    /// Results of the load. `over_ns`: its end, in nanoseconds since the start.
    pub fn outcome(mut self, over_ns: u64) -> Outcome {
        self.done_ns.sort_unstable();
        let quantile = |share: f64| (share, self.latencies.value_at_quantile(share) as f64 / 1e6);
        let seconds = over_ns.saturating_sub(self.warm_up_ns) as f64 / 1e9;
        let mut each_second = vec![0; seconds.ceil() as usize];
        for &done in &self.done_ns {
            if let Some(count) = each_second.get_mut((done.saturating_sub(self.warm_up_ns) / 1_000_000_000) as usize) {
                *count += 1;
            }
        }
        Outcome {
            answered: self.done_ns.len() as u64,
            failed: self.failed,
            seconds,
            rate: thousandths(middle_rate(&self.done_ns)),
            mean_ms: thousandths(self.latencies.mean() / 1e6),
            quantiles_ms: if self.done_ns.is_empty() { Vec::new() } else { SHARES.map(quantile).to_vec() },
            each_second,
            cpu_seconds: Cpu::of(&[std::process::id()]).map_or(0.0, |cpu| cpu.scheduled.as_secs_f64()),
        }
    }
}

/// Answers per second over the middle eight tenths of the answers: excludes the start, in which queues fill, and the
/// end, in which clients finish.
fn middle_rate(done_ns: &[u64]) -> f64 {
    let (from, to) = (done_ns.len() / 10, done_ns.len() * 9 / 10);
    match (done_ns.get(from), done_ns.get(to)) {
        (Some(begin), Some(end)) if end > begin => (to - from) as f64 * 1e9 / (end - begin) as f64,
        _ => 0.0,
    }
}

/// Rounds to thousandths, so that parsing returns the same value.
fn thousandths(figure: f64) -> f64 {
    (figure * 1e3).round() / 1e3
}

#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Whole answers with status 200.
    pub answered: u64,
    /// Number of failures, by kind.
    pub failed: BTreeMap<String, u64>,
    /// Duration without the warm-up.
    pub seconds: f64,
    /// Answers per second, over the middle eight tenths of them.
    pub rate: f64,
    /// Mean latency in milliseconds.
    pub mean_ms: f64,
    /// Latency quantiles in milliseconds, by share.
    pub quantiles_ms: Vec<(f64, f64)>,
    /// Number of answers in each second.
    pub each_second: Vec<u64>,
    /// CPU time of the load itself, seconds.
    pub cpu_seconds: f64,
}

impl Outcome {
    /// Latency quantile in milliseconds; 0 if `share` is not in `quantiles_ms`.
    pub fn quantile(&self, share: f64) -> f64 {
        let told = self.quantiles_ms.iter().find(|(of, _)| (of - share).abs() < 1e-9);
        told.map_or(0.0, |(_, ms)| *ms)
    }

    /// Number of failures of all kinds.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    pub fn json(&self) -> Value {
        json!({
            "answered": self.answered, "failed": self.failed, "seconds": self.seconds, "rate": self.rate, "mean_ms": self.mean_ms,
            "quantiles_ms": self.quantiles_ms.iter().map(|(share, ms)| json!([share, ms])).collect::<Vec<_>>(),
            "each_second": self.each_second, "cpu_seconds": self.cpu_seconds,
        })
    }

    /// Parses the output of [`json`](Outcome::json).
    pub fn parse(text: &str) -> Option<Outcome> {
        let all: Value = serde_json::from_str(text).ok()?;
        let pair = |pair: &Value| Some((pair[0].as_f64()?, pair[1].as_f64()?));
        let failed = all["failed"].as_object()?.iter().map(|(name, count)| Some((name.clone(), count.as_u64()?)));
        Some(Outcome {
            answered: all["answered"].as_u64()?,
            failed: failed.collect::<Option<_>>()?,
            seconds: all["seconds"].as_f64()?,
            rate: all["rate"].as_f64()?,
            // Without answers there is no mean.
            mean_ms: all["mean_ms"].as_f64().unwrap_or(0.0),
            quantiles_ms: all["quantiles_ms"].as_array()?.iter().map(pair).collect::<Option<_>>()?,
            each_second: all["each_second"].as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?,
            cpu_seconds: all["cpu_seconds"].as_f64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_was_counted() {
        let mut tally = Tally::new(1_000_000_000);
        tally.add(0, 900_000_000, None);
        for request in 0..1000_u64 {
            let meant = 1_000_000_000 + request * 1_000_000;
            tally.add(meant, meant + (request + 1) * 1_000_000, None);
        }
        tally.add(1_000_000_000, 1_000_000_000, Some("503".into()));
        let outcome = tally.outcome(3_000_000_000);
        assert_eq!((outcome.answered, outcome.failures(), outcome.seconds), (1000, 1, 2.0));
        // Three digits: within a thousandth.
        assert!((outcome.quantile(0.5) - 500.0).abs() < 1.0 && (outcome.quantile(0.99) - 990.0).abs() < 1.0);
        assert!((outcome.mean_ms - 500.5).abs() < 1.0 && outcome.quantile(0.123) == 0.0);
        // A count each 2 ms.
        assert!((outcome.rate - 500.0).abs() < 1e-6, "{}", outcome.rate);
        assert_eq!(outcome.each_second, [500, 500]);
        assert_eq!(Outcome::parse(&outcome.json().to_string()), Some(outcome));
    }

    #[test]
    fn of_nothing_there_is_no_latency() {
        let outcome = Tally::new(0).outcome(0);
        assert_eq!((outcome.rate, outcome.quantile(0.5), outcome.answered), (0.0, 0.0, 0));
        assert_eq!(Outcome::parse(&outcome.json().to_string()), Some(outcome));
        assert_eq!(Outcome::parse("error: x"), None);
    }
}

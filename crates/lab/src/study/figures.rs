//! Presentation of runs: as median with range, or as a row of a plot.

use super::meter::Used;
use super::rounds::Rounds;
use crate::error::{Error, Result};
use crate::load::generator::Outcome;
use crate::stats::{Interval, Spread};
use evenkeel_draw::intervals::Row;
use serde_json::{Value, json};
use std::time::Duration;

/// Text `median (min..max)`; empty without runs.
pub fn told(runs: &[f64], digits: usize) -> String {
    let spread = Spread::of(runs);
    spread.map_or_else(String::new, |s| format!("{:.digits$} ({:.digits$}..{:.digits$})", s.median, s.min, s.max))
}

/// Spread as JSON; `null` without runs.
pub fn spread(runs: &[f64]) -> Value {
    Spread::of(runs).map_or(Value::Null, |s| json!({ "median": s.median, "min": s.min, "max": s.max }))
}

/// Names without duplicates, with their counts: `a, b (3 times)`.
pub fn told_counts(names: &[String]) -> String {
    let mut counts: Vec<(&String, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let one = |(name, count): &(&String, usize)| match count {
        1 => (*name).clone(),
        _ => format!("{name} ({count} times)"),
    };
    counts.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Row of a plot: the median with its interval. If all runs failed, the name says so.
pub fn row(name: &str, runs: &[f64], expected: Option<f64>, colour: usize) -> Row {
    let none = runs.iter().all(|run| run.is_nan());
    Row {
        name: if none { format!("{name}: failed") } else { name.to_owned() },
        interval: Interval::of(runs).map(|of| (of.low, of.high)),
        median: Spread::of(runs).map_or(0.0, |of| of.median),
        expected,
        colour,
    }
}

/// Results of a load, and the CPU time used during it.
pub struct Timed {
    pub load: Outcome,
    /// CPU time from before its start to after its end, including the warm-up.
    pub used: Used,
    warm_up: f64,
}

impl Timed {
    /// Creates the result of a load whose requests were all answered. `warm_up`: seconds that do not count.
    ///
    /// # Errors
    /// Some requests failed.
    pub fn new(load: Outcome, mut used: Used, warm_up: f64) -> Result<Timed> {
        if load.failures() > 0 {
            return Err(Error::Refused(format!("requests failed: {:?}", load.failed)));
        }
        used.groups.push(("clients", Duration::from_secs_f64(load.cpu_seconds)));
        Ok(Timed { load, used, warm_up })
    }

    /// CPU time of a group per request, in microseconds.
    pub fn us(&self, group: &str) -> f64 {
        // CPU time includes the warm-up, so scale the number of requests to include it, too.
        let requests = self.load.answered as f64 * (self.load.seconds + self.warm_up) / self.load.seconds;
        self.used.of(group).as_secs_f64() * 1e6 / requests
    }
}

pub fn raw(rounds: &Rounds<Timed>) -> Value {
    rounds.json(|run| json!({ "load": run.load.json(), "cpu": run.used.json() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_told_by_their_middle_and_ends() {
        assert_eq!(told(&[3.0, 1.0, 2.25], 1), "2.2 (1.0..3.0)");
        assert_eq!(told(&[], 1), "");
        assert_eq!(told(&[f64::NAN, 2.0], 0), "2 (2..2)", "a run that failed has no figure");
        let line = row("a", &[1.0, 1.0, 1.0], Some(2.0), 3);
        assert_eq!((line.median, line.interval, line.expected), (1.0, Some((1.0, 1.0)), Some(2.0)));
        assert_eq!(row("a", &[f64::NAN], None, 0).name, "a: failed");
        assert_eq!(told_counts(&["a", "b", "a"].map(str::to_owned)), "a (2 times), b");
    }
}

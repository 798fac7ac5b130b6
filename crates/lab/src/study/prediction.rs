//! Prediction by the simulator, which runs a scenario file of the same system in virtual time.

use crate::child;
use crate::error::{Error, Result, While};
use crate::scratch::Scratch;
use crate::stats::Spread;
use serde_json::Value;
use std::time::Duration;

/// Maximum run time of the simulator.
const PATIENCE: Duration = Duration::from_secs(300);
/// Simulated runs of each case, for latencies: tails are skewed, so the median of few runs would be chance.
pub const SEEDS: u64 = 50;

/// Results of a simulated scenario.
pub struct Prediction(Value);

impl Prediction {
    /// Simulates a scenario file with the program `evenkeel`. `requests`: as many as a live run has, so that both start
    /// without knowledge and learn for as long. `seeds`: runs of each case.
    ///
    /// # Errors
    /// The simulator rejects the file, or takes too long.
    pub fn of(evenkeel: &str, scenario: &str, requests: u64, seeds: u64) -> Result<Prediction> {
        let folder = Scratch::new()?;
        let file = folder.write("scenario.toml", scenario)?;
        Prediction::run(evenkeel, &file.display().to_string(), requests, seeds)
    }

    /// Simulates a built-in scenario of the simulator.
    ///
    /// # Errors
    /// There is no scenario of this name.
    pub fn built_in(evenkeel: &str, name: &str, requests: u64) -> Result<Prediction> {
        // Built-in scenarios have more requests, so fewer seeds suffice.
        Prediction::run(evenkeel, name, requests, SEEDS / 5)
    }

    fn run(evenkeel: &str, what: &str, requests: u64, seeds: u64) -> Result<Prediction> {
        let (requests, seeds) = (requests.to_string(), seeds.to_string());
        let command = [evenkeel, "sim", what, "--json", "--requests", &requests, "--seeds", &seeds].map(str::to_owned);
        let output = child::output(&command, PATIENCE)?;
        let parsed = serde_json::from_str(&output.text).or_say(|| "the simulator printed no JSON".into());
        parsed.map(Prediction).map_err(|error| Error::Wrong(format!("{error}:\n{}", output.text)))
    }

    /// Median over seeds of a metric, by labels of point (empty if there is only one) and algorithm; latencies in
    /// seconds, rates per second. The median, as measurements use the median over rounds; the mean of a skewed tail is
    /// higher.
    pub fn figure(&self, point: &str, algorithm: &str, metric: &str) -> Option<f64> {
        let named = |list: &Value, key: &str, name: &str| {
            list.as_array()?.iter().find(|one| one[key].as_str() == Some(name)).cloned()
        };
        let point = named(&self.0["points"], "point", point)?;
        let figure = &named(&point["algorithms"], "algorithm", algorithm)?["figures"][metric];
        let seeds: Vec<f64> = figure["seeds"].as_array()?.iter().filter_map(Value::as_f64).collect();
        Spread::of(&seeds).map(|of| of.median)
    }

    /// Ratio of a metric of two algorithms, each given by point and algorithm.
    pub fn ratio(&self, of: (&str, &str), over: (&str, &str), metric: &str) -> Option<f64> {
        Some(self.figure(of.0, of.1, metric)? / self.figure(over.0, over.1, metric)?)
    }
}

/// Replaces the value of a key. The key must be on a separate line. `section`: name without brackets; empty for the top
/// level.
pub fn with(scenario: &str, section: &str, key: &str, value: &str) -> String {
    let (mut within, begin) = (section.is_empty(), format!("{key} = "));
    let line = |line: &str| {
        if let Some(header) = line.strip_prefix('[') {
            within = header.trim_end_matches(']') == section;
        }
        if within && line.starts_with(&begin) { format!("{begin}{value}\n") } else { format!("{line}\n") }
    };
    scenario.lines().map(line).collect()
}

/// Duration in seconds as a scenario writes it.
pub fn time(seconds: f64) -> String {
    format!("\"{:.0}ns\"", seconds.max(0.0) * 1e9)
}

/// Reads a scenario file, so that a test can compare it with the experiment.
#[cfg(test)]
pub fn read(scenario: &str) -> Vec<evenkeel_sim::experiment::Point> {
    let read = evenkeel_sim::file::read("scenario.toml", scenario);
    assert!(read.diagnostics.is_empty(), "{:?}", read.diagnostics);
    read.experiment.expect("it is clean").points
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_is_set_where_it_stands() {
        let scenario = "link = \"1ms\"\n[service.a]\nwork = \"1ms\" # ours\n[service.b]\nwork = \"1ms\"\n";
        let set = with(&with(scenario, "service.a", "work", &time(2e-6)), "", "link", "\"0s\"");
        assert_eq!(set, "link = \"0s\"\n[service.a]\nwork = \"2000ns\"\n[service.b]\nwork = \"1ms\"\n");
    }

    #[test]
    fn a_figure_is_found_by_its_names() {
        let figures = json!({ "p99": { "mean": 0.5, "seeds": [0.25, 1.0, 0.125] }, "p50": null });
        let said = json!({ "points": [{ "point": "balancers = 4", "algorithms": [{ "algorithm": "random", "figures": figures }] }] });
        let prediction = Prediction(said);
        assert_eq!(prediction.figure("balancers = 4", "random", "p99"), Some(0.25));
        for (point, algorithm, metric) in
            [("x", "random", "p99"), ("balancers = 4", "x", "p99"), ("balancers = 4", "random", "p50")]
        {
            assert_eq!(prediction.figure(point, algorithm, metric), None);
            let whole = ("balancers = 4", "random");
            assert_eq!(prediction.ratio(whole, (point, algorithm), metric), None);
        }
        let whole = ("balancers = 4", "random");
        assert_eq!(prediction.ratio(whole, whole, "p99"), Some(1.0));
    }
}

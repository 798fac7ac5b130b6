//! What does the simulator say of the same system? It runs a scenario file in virtual time; its figures stand beside what was measured.

use crate::child;
use crate::error::{Error, Result, While};
use crate::scratch::Scratch;
use serde_json::Value;
use std::time::Duration;

/// How long the simulator may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a simulated scenario came to.
pub struct Prediction(Value);

impl Prediction {
    /// Simulates a scenario file. `evenkeel`: the program.
    ///
    /// # Errors
    /// The file is wrong.
    pub fn of(evenkeel: &str, scenario: &str) -> Result<Prediction> {
        let folder = Scratch::new()?;
        let file = folder.write("scenario.toml", scenario)?;
        let command = [evenkeel, "sim", &file.display().to_string(), "--json"].map(str::to_owned);
        let output = child::output(&command, PATIENCE)?;
        let parsed = serde_json::from_str(&output.text).or_say(|| "the simulator said no JSON".into());
        parsed.map(Prediction).map_err(|error| Error::Wrong(format!("{error}:\n{}", output.text)))
    }

    /// A figure, the mean over seeds: seconds of a latency, a second of a rate. By what the simulator calls point, algorithm and metric.
    pub fn figure(&self, point: &str, algorithm: &str, metric: &str) -> Option<f64> {
        let named = |list: &Value, key: &str, name: &str| {
            list.as_array()?.iter().find(|one| one[key].as_str() == Some(name)).cloned()
        };
        let point = named(&self.0["points"], "point", point)?;
        named(&point["algorithms"], "algorithm", algorithm)?["figures"][metric]["mean"].as_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_figure_is_found_by_its_names() {
        let figures = json!({ "p99": { "mean": 0.25 }, "p50": null });
        let said = json!({ "points": [{ "point": "balancers = 4", "algorithms": [{ "algorithm": "random", "figures": figures }] }] });
        let prediction = Prediction(said);
        assert_eq!(prediction.figure("balancers = 4", "random", "p99"), Some(0.25));
        for (point, algorithm, metric) in
            [("x", "random", "p99"), ("balancers = 4", "x", "p99"), ("balancers = 4", "random", "p50")]
        {
            assert_eq!(prediction.figure(point, algorithm, metric), None);
        }
    }
}

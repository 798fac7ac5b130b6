//! Advice on a configuration: changes in order of effect, each with its evidence and a patch.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Advice on a configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Advised {
    /// Path of the configuration.
    pub config: String,
    /// Advice in order of effect.
    pub advice: Vec<Advice>,
    /// Pools for which the time was not sufficient.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<String>,
    /// Origin of advice that a running instance computed and keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed: Option<Computed>,
}

/// Conclusion about a part of the configuration, with the change that follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Advice {
    /// Kind of advice, such as `algorithm` or `retries`.
    pub kind: String,
    /// Part of the configuration: `pool "web"`.
    pub subject: String,
    pub verdict: Verdict,
    /// Sentence without a full stop, which begins with a verb.
    pub says: String,
    /// Effect of the change, if it was measured or derived.
    pub effect: Option<Effect>,
    /// Facts that it is derived from, a sentence each.
    pub evidence: Vec<String>,
    /// Command that repeats the evidence.
    pub repeat: Option<String>,
    /// Unified difference of the configuration; `evenkeel check` accepts its result.
    pub patch: Option<String>,
}

/// Conclusion about a part of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The change is dangerous to leave undone, whatever the load.
    Danger,
    /// The change is better than noise.
    Change,
    /// The change is better if a condition holds that nothing here shows.
    Depends,
    /// No change is better than noise.
    Leave,
}

/// Figure that a change improves, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub enum Figure {
    /// Share of requests that fail.
    #[serde(rename = "failed")]
    Failures,
    /// 99th percentile of latencies.
    #[serde(rename = "p99")]
    Latency,
    /// Processor time of the balancer.
    #[serde(rename = "cpu")]
    Processor,
    /// Requests that reach endpoints.
    #[serde(rename = "requests")]
    Requests,
    /// Bytes of responses to clients.
    #[serde(rename = "bytes")]
    Bytes,
}

/// Effect of a change on a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Effect {
    pub figure: Figure,
    /// Relative change with its 90 % interval: low, middle and high; -0.2 is a fifth less. All three are equal for a
    /// figure that is derived instead of sampled.
    pub change: [f64; 3],
    /// Conditions under which it was found, such as a load.
    pub at: String,
}

/// Computation of advice in a running instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Computed {
    /// End of the computation, milliseconds since 1970.
    pub at_ms: u64,
    /// Age of the advice, milliseconds.
    pub age_ms: u64,
    /// Duration of the computation, milliseconds.
    pub took_ms: u64,
    /// Generation of the configuration that it is about.
    pub generation: u64,
}

/// Computation of advice that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Computing {
    /// Start of the computation, milliseconds since 1970.
    pub since_ms: u64,
    /// Sentence for people who read the response.
    pub detail: String,
}

impl Verdict {
    /// Words in front of an effect, such as `if that holds`.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Danger => "dangerous as it is",
            Verdict::Depends => "if that holds",
            Verdict::Change | Verdict::Leave => "effect",
        }
    }
}

impl Figure {
    /// Noun phrase, to be followed by a change.
    fn text(self) -> &'static str {
        match self {
            Figure::Failures => "failed requests",
            Figure::Latency => "p99",
            Figure::Processor => "processor time of the balancer",
            Figure::Requests => "requests to endpoints",
            Figure::Bytes => "bytes to clients",
        }
    }
}

impl Effect {
    /// Change in words: `p99 -21 % [-24, -18], 70 % load`.
    pub fn text(&self) -> String {
        let [low, middle, high] = self.change.map(|change| change * 100.0);
        let figure = self.figure.text();
        match low == high {
            true => format!("{figure} {middle:+.0} %, {}", self.at),
            false => format!("{figure} {middle:+.0} % [{low:+.0}, {high:+.0}], {}", self.at),
        }
    }
}

impl Advised {
    /// Changes in order of effect, and conclusions that change nothing.
    pub fn parts(&self) -> (Vec<&Advice>, Vec<&Advice>) {
        self.advice.iter().partition(|advice| advice.verdict != Verdict::Leave)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_have_their_interval_unless_they_are_derived() {
        let effect = |change| Effect { figure: Figure::Latency, change, at: "70 % load".into() }.text();
        assert_eq!(effect([-0.24, -0.21, -0.18]), "p99 -21 % [-24, -18], 70 % load");
        assert_eq!(effect([-0.5; 3]), "p99 -50 %, 70 % load");
    }
}

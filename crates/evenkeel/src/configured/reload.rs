//! Change of the configuration of a running evenkeel, and the report about it. All of it changes or nothing: after any
//! error the process continues with its configuration.

use crate::configured::shown;
use crate::failure::Failure;
use evenkeel_admin::api::problem::Problem;
use evenkeel_config::{Diagnostic, Outcome, Subject, render_text};
use evenkeel_discovery::Discovery;
use evenkeel_runtime::{Runtime, StartError, Summary};
use evenkeel_view::config;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// Result of reading a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// The configuration is in use.
    Applied,
    /// The files have errors, and nothing changed.
    Refused,
    /// The files are valid, but this machine cannot apply them.
    Failed,
}

/// Every result with its label.
const RESULTS: [(Result, &str); 3] =
    [(Result::Applied, "applied"), (Result::Refused, "refused"), (Result::Failed, "failed")];

impl Result {
    /// Its name in metrics and answers.
    pub fn label(self) -> &'static str {
        RESULTS[self as usize].1
    }
}

/// Report for the client that asked.
#[derive(Debug)]
pub struct Report {
    pub result: Result,
    /// Text for people: all errors, or all changes.
    pub text: String,
    /// The generation that runs now.
    pub generation: u64,
    /// Errors and warnings about the plan.
    pub diagnostics: Vec<Diagnostic>,
    /// Reasons why this machine cannot apply the plan.
    pub faults: Vec<Fault>,
    /// Changes, if the plan is in use.
    summary: Option<Summary>,
    /// A line for each difference from the previous plan.
    pub changes: Vec<String>,
}

/// Reason why this machine cannot apply a plan.
#[derive(Debug)]
pub struct Fault {
    /// Listeners, routes and pools of the plan that the fault concerns; none = the plan as a whole.
    pub subjects: Vec<Subject>,
    pub why: String,
}

/// Differences that an event names.
const EVENT_CHANGES: usize = 5;

/// Applies a configuration that was read. Endpoints found by sources that it keeps stay. The report has no
/// [`changes`](Report::changes) yet.
pub async fn change(outcome: Outcome, runtime: &mut Runtime, discovery: &Discovery) -> Report {
    let Outcome { plan, diagnostics } = outcome;
    let wanted = plan.clone();
    let mut text = render_text(&diagnostics, false);
    let reloaded = match plan {
        Some(plan) => {
            let following = discovery.follow(&plan).await;
            Some(runtime.reload_found(plan, following.lists()).inspect(|_| discovery.keep(following)))
        }
        None => None,
    };
    let mut faults = Vec::new();
    let (result, summary) = match reloaded {
        None => (Result::Refused, None),
        Some(Ok(summary)) => {
            let _ = writeln!(text, "{summary}");
            (Result::Applied, Some(summary))
        }
        Some(Err(StartError(errors))) => {
            for error in errors {
                let subjects = wanted.as_ref().map(|plan| error.subjects(plan)).unwrap_or_default();
                let failure = Failure::from(error);
                text += &failure.text(false);
                faults.push(Fault { subjects, why: failure.problem().to_owned() });
            }
            (Result::Failed, None)
        }
    };
    Report { result, text, generation: runtime.now().number, diagnostics, faults, summary, changes: Vec::new() }
}

impl Report {
    /// Writes it to the log. `why`: who asked for it.
    pub fn log(&self, why: &str) {
        let (generation, text) = (self.generation, self.text.trim_end());
        match self.result {
            Result::Applied => {
                tracing::info!(generation, why, "configuration changed: {text}");
                self.changes.iter().for_each(|change| tracing::debug!("{change}"));
            }
            _ => tracing::error!(generation, why, "keeping the previous configuration: {text}"),
        }
    }

    /// In one line, for the service manager.
    pub fn status(&self) -> String {
        let kept = if self.result == Result::Applied { "" } else { "keeping the previous configuration: " };
        format!("serving; {kept}{}", self.text.lines().next().unwrap_or_default())
    }

    /// Returns the text for the event log, on one line.
    pub fn event(&self) -> String {
        let mut text = self.status();
        for change in self.changes.iter().take(EVENT_CHANGES) {
            let _ = write!(text, "; {change}");
        }
        let more = self.changes.len().saturating_sub(EVENT_CHANGES);
        if more > 0 {
            let _ = write!(text, "; and {more} more");
        }
        text
    }

    /// The answer to the client that asked for it.
    pub fn answer(self) -> std::result::Result<config::Outcome, Problem> {
        let diagnostics = shown(&self.diagnostics);
        let Summary { added, changed, removed, at_restart, .. } = match (self.result, self.summary) {
            (Result::Applied, Some(summary)) => summary,
            (Result::Refused, _) => return Err(Problem::wrong_config(self.text, diagnostics)),
            _ => return Err(Problem::refused(self.text)),
        };
        Ok(config::Outcome {
            result: self.result.label().to_owned(),
            generation: self.generation,
            text: self.text,
            changes: self.changes,
            added,
            changed,
            removed,
            at_restart: at_restart.into_iter().map(str::to_owned).collect(),
            diagnostics,
        })
    }
}

/// Number of reloads by result.
#[derive(Debug)]
pub struct Reloads {
    by_result: [AtomicU64; RESULTS.len()],
    /// Seconds since 1970.
    last_success: AtomicU64,
}

impl Reloads {
    /// No reload yet, but the configuration of the start counts as a success.
    pub fn new() -> Reloads {
        Reloads { by_result: Default::default(), last_success: AtomicU64::new(unix_seconds()) }
    }

    /// Counts a reload by its result.
    pub fn count(&self, result: Result) {
        self.by_result[result as usize].fetch_add(1, Relaxed);
        if result == Result::Applied {
            self.last_success.store(unix_seconds(), Relaxed);
        }
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The numbers, to be registered without a prefix.
#[derive(Debug)]
pub struct Numbers(pub Arc<Reloads>);

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Configuration reloads; \"refused\": it has errors; \"failed\": it could not be applied";
        let mut family = encoder.encode_descriptor("evenkeel_config_reloads", help, None, MetricType::Counter)?;
        for (result, label) in RESULTS {
            let n = self.0.by_result[result as usize].load(Relaxed);
            ConstCounter::new(n).encode(family.encode_family(&[("result", label)])?)?;
        }
        let name = "evenkeel_config_last_success_timestamp_seconds";
        let help = "Unix time when the configuration in use was read";
        let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(self.0.last_success.load(Relaxed)).encode(family)
    }
}

//! Live cases: evenkeel runs in front of endpoints and makes the log; then every alternative is really run, too.

// Order: system, clients, cases
pub mod cases;
mod clients;
mod system;

use super::ask;
use super::score::{Judged, Subject};
use super::truth::{QUANTILES, QUESTIONS, Ran, Truth};
use crate::error::{Error, Result};
use crate::stats::quantile;
use cases::{Question, Row};
use std::path::Path;
use std::time::Duration;
use system::{Course, Line, System};

/// Lengths of the runs of live cases, and their number.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub log: Duration,
    /// Length of each run of an alternative.
    pub truth: Duration,
    /// At least 3 for an interval that says something.
    pub rounds: usize,
}

/// Makes the log of a live case, asks about it, and runs the alternatives in turn.
///
/// # Errors
/// Something does not start, or requests get no response.
pub fn judge(evenkeel: &str, row: &'static Row, effort: Effort, folder: &Path) -> Result<Judged> {
    let system = System::start(row, evenkeel, folder)?;
    let course = |policy, is_asked, length, seed| Course { policy, is_asked, length, seed };
    let (log, _) = system.run("log", &course(row.policy, false, effort.log, 0))?;
    let how = [vec!["--balance".to_owned(), row.policy.to_owned()], system.words()].concat();
    let response = ask::call(evenkeel, row.name, vec![log.display().to_string()], how, folder)?;
    let is_changed = row.question != Question::Policies;
    let names = system.names();
    let (mut own, mut runs) = (Vec::new(), vec![Vec::new(); QUESTIONS.len()]);
    for round in 1..=effort.rounds {
        let run = |policy, is_asked| {
            let course = course(policy, is_asked, effort.truth, round as u64);
            let (_, lines) = system.run("truth", &course)?;
            Ok::<_, Error>(ran(&lines, &names))
        };
        for (policy, runs) in QUESTIONS.iter().zip(&mut runs) {
            runs.push(run(policy, true)?);
        }
        own.push(match QUESTIONS.iter().position(|policy| *policy == row.policy) {
            Some(at) if !is_changed => runs[at][round - 1].clone(),
            _ => run(row.policy, false)?,
        });
    }
    let subject =
        Subject { name: row.name, policy: row.policy, format: "evenkeel, live", endpoints: names, is_changed };
    Ok(Judged::of(&subject, response, Truth::of_rounds(&QUESTIONS, &runs, &own)))
}

/// Figures of a run, from its access log.
fn ran(lines: &[Line], names: &[String]) -> Ran {
    let mut latencies: Vec<f64> = lines.iter().map(|line| line.latency_ms).collect();
    latencies.sort_by(f64::total_cmp);
    let tries: Vec<&String> = lines.iter().flat_map(|line| &line.tries).collect();
    // An endpoint that the log lacks is the added endpoint.
    let share = |name: &String| {
        let is_it = |of: &&&String| **of == name || (name.starts_with("added") && !names.contains(of));
        tries.iter().filter(is_it).count() as f64 / tries.len().max(1) as f64
    };
    Ran {
        latency_ms: QUANTILES.map(|(_, part)| quantile(&latencies, part).unwrap_or(f64::NAN)),
        shares: names.iter().map(share).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_lines() {
        let line = |latency_ms: f64, tries: &[&str]| Line {
            latency_ms,
            tries: tries.iter().map(|name| (*name).to_owned()).collect(),
        };
        let lines = [line(1.0, &["a"]), line(3.0, &["a", "b"]), line(2.0, &["c"])];
        let ran = ran(&lines, &["a".to_owned(), "b".to_owned(), "added 0".to_owned()]);
        assert_eq!((ran.latency_ms[0], ran.shares), (2.0, vec![0.5, 0.25, 0.25]));
    }
}

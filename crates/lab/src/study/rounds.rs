//! Interleaved rounds: each round measures all things, starting with a different one each time, so that changes of the
//! machine affect all alike. A run in which requests failed is repeated once; if that fails too, the round has no
//! figure for it, and the report says so.

use super::figures::told_counts;
use crate::child;
use crate::error::{Error, Result};
use crate::progress::Progress;
use serde_json::{Value, json};

/// Measurements of several things: by thing, then by round.
#[derive(Clone, Debug)]
pub struct Rounds<T> {
    names: Vec<String>,
    runs: Vec<Vec<Run<T>>>,
}

/// Run of a thing in a round.
#[derive(Clone, Debug)]
struct Run<T> {
    /// Result; `None` if it failed twice.
    done: Option<T>,
    /// Reasons why earlier attempts gave no figure.
    failed: Vec<String>,
}

/// Runs in which requests failed.
#[derive(Clone, Debug, Default)]
pub struct Failed {
    /// Sentences for the report; empty if no run failed.
    pub told: Vec<String>,
    /// Failed runs as JSON: name, round and reason.
    pub json: Vec<Value>,
    /// Things without a figure in any round.
    pub without: Vec<String>,
}

impl<T> Rounds<T> {
    /// Measures each of `names` once per round. `measure` gets index and round. A measurement that fails with `Refused`
    /// is repeated once.
    ///
    /// # Errors
    /// Other errors of a measurement, or the experiment is interrupted.
    pub fn run(
        names: &[String],
        rounds: usize,
        mut measure: impl FnMut(usize, usize) -> Result<T>,
    ) -> Result<Rounds<T>> {
        let mut runs: Vec<Vec<Run<T>>> = names.iter().map(|_| Vec::with_capacity(rounds)).collect();
        let (progress, whole) = (Progress::new(), (names.len() * rounds) as f64);
        let mut done = 0.0;
        for round in 0..rounds {
            for step in 0..names.len() {
                child::go_on()?;
                let at = (round + step) % names.len();
                progress.tell(done, whole, &names[at]);
                runs[at].push(twice(&names[at], || measure(at, round))?);
                done += 1.0;
            }
        }
        Ok(Rounds { names: names.to_vec(), runs })
    }

    /// Successful runs of a thing, by round.
    pub fn of(&self, index: usize) -> impl Iterator<Item = &T> {
        self.runs[index].iter().filter_map(|run| run.done.as_ref())
    }

    /// Figure of each run of a thing, by round; NaN where it failed.
    pub fn figures(&self, index: usize, figure: impl Fn(&T) -> f64) -> Vec<f64> {
        self.runs[index].iter().map(|run| run.done.as_ref().map_or(f64::NAN, &figure)).collect()
    }

    /// All runs by name as JSON; `null` where a run failed.
    pub fn json(&self, run: impl Fn(&T) -> Value) -> Value {
        let of = |runs: &Vec<Run<T>>| runs.iter().map(|one| one.done.as_ref().map_or(Value::Null, &run)).collect();
        Value::Object(self.names.iter().cloned().zip(self.runs.iter().map(of)).collect())
    }

    /// Number of failed runs of a thing, as text.
    pub fn failed_of(&self, index: usize) -> String {
        self.runs[index].iter().map(|run| run.failed.len()).sum::<usize>().to_string()
    }

    pub fn failed(&self) -> Failed {
        let (mut failed, mut again, mut left_out) = (Failed::default(), Vec::new(), Vec::new());
        for (name, runs) in self.names.iter().zip(&self.runs) {
            for (round, run) in runs.iter().enumerate().filter(|(_, run)| !run.failed.is_empty()) {
                if run.done.is_some() { &mut again } else { &mut left_out }.push(name.clone());
                let of = |why: &String| json!({ "name": name, "round": round + 1, "why": why });
                failed.json.extend(run.failed.iter().map(of));
            }
            if runs.iter().all(|run| run.done.is_none()) {
                failed.without.push(name.clone());
            }
        }
        let said = [
            (again, "Requests failed, and the run was measured once more"),
            (left_out, "Requests failed twice, and the round has no figure"),
        ];
        let told = said.iter().filter(|(names, _)| !names.is_empty());
        failed.told = told.map(|(names, what)| format!("{what}: {}.", told_counts(names))).collect();
        failed
    }
}

impl Failed {
    pub fn and(mut self, other: Failed) -> Failed {
        self.told.extend(other.told);
        self.json.extend(other.json);
        self.without.extend(other.without);
        self
    }
}

/// Measures, and repeats once if requests failed.
fn twice<T>(name: &str, mut measure: impl FnMut() -> Result<T>) -> Result<Run<T>> {
    let mut failed = Vec::new();
    while failed.len() < 2 {
        match measure() {
            Ok(done) => return Ok(Run { done: Some(done), failed }),
            Err(Error::Refused(why)) => {
                let then = if failed.is_empty() { "once more" } else { "left out" };
                eprintln!("{name}: {then}: {why}");
                failed.push(why);
            }
            Err(other) => return Err(other),
        }
        child::go_on()?;
    }
    Ok(Run { done: None, failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_first_in_its_turn_and_keeps_its_runs() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let mut order = Vec::new();
        let rounds = Rounds::run(&names, 3, |at, round| {
            order.push((at, round));
            Ok(order.len() as f64)
        });
        let rounds = rounds.expect("nothing fails");
        assert_eq!(order, [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (0, 1), (2, 2), (0, 2), (1, 2)]);
        assert!(rounds.of(0).eq([1.0, 6.0, 8.0].iter()) && rounds.of(2).eq([3.0, 5.0, 7.0].iter()));
        assert_eq!(rounds.figures(1, |run| run + 0.5), [2.5, 4.5, 9.5]);
        assert!(rounds.failed().told.is_empty() && rounds.failed().json.is_empty());
    }

    #[test]
    fn a_failed_run_is_measured_once_more_and_then_left_out() {
        let names = ["good", "once", "always"].map(str::to_owned);
        let mut tries = [0; 3];
        let rounds = Rounds::run(&names, 2, |at, _| {
            tries[at] += 1;
            match at == 2 || (at == 1 && tries[1] == 1) {
                true => Err(Error::Refused("requests failed".into())),
                false => Ok(1.0),
            }
        });
        let rounds = rounds.expect("the others go on");
        assert_eq!(tries, [2, 3, 4]);
        assert_eq!(rounds.figures(1, |run| *run), [1.0, 1.0]);
        assert!(rounds.figures(2, |run| *run).iter().all(|figure| figure.is_nan()));
        assert_eq!([0, 1, 2].map(|at| rounds.failed_of(at)), ["0", "1", "4"]);
        let failed = rounds.failed();
        assert_eq!(failed.without, ["always"]);
        assert_eq!(failed.json.len(), 5);
        assert_eq!(failed.told.len(), 2);
        assert!(failed.told[1].ends_with("always (2 times)."), "{:?}", failed.told);
        assert_eq!(rounds.json(|run| json!(run))["always"], json!([null, null]));
    }

    #[test]
    fn another_error_ends_it() {
        let wrong = |_: usize, _: usize| Err::<f64, _>(Error::Wrong("a process has ended".into()));
        assert!(Rounds::run(&["a".to_owned()], 2, wrong).is_err());
    }
}

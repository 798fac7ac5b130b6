//! Grid of things and cases, measured case by case, and within a case round by round, all things in turn. State that is
//! started for a case is kept between rounds; a failure is recorded with its reason, and the other things continue.

mod outcome;

use super::{Claim, Used};
use crate::child;
use crate::error::{Error, Result};
use crate::progress::Progress;
use serde_json::Value;

/// Name of the thing that claims are about.
pub const OURS: &str = "evenkeel";

#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name in `--only`.
    pub name: &'static str,
    /// Description for the report.
    pub about: &'static str,
    /// Unit of the figure; lower is better.
    pub unit: &'static str,
    pub bounds: &'static [Bound],
}

/// Claim that evenkeel's figure is at most a fraction of the lowest figure of others.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub claim: Claim,
    pub of: &'static [&'static str],
    /// Upper bound of the ratio.
    pub at_most: f64,
}

impl Bound {
    /// Creates a bound for a claim of this project.
    pub const fn new(text: &'static str, of: &'static [&'static str], at_most: f64) -> Bound {
        Bound { claim: Claim::ours(text), of, at_most }
    }
}

/// Measurement of a thing in a case.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Figure, in the unit of its case.
    pub figure: f64,
    /// Secondary figures, by name.
    pub beside: Vec<(&'static str, f64)>,
    /// CPU time used during the run, by group.
    pub used: Option<Used>,
    pub note: Option<String>,
    /// Further data for the JSON.
    pub more: Value,
}

impl Run {
    /// Secondary figure, by name.
    pub fn beside(&self, name: &str) -> Option<f64> {
        self.beside.iter().find(|(known, _)| *known == name).map(|(_, figure)| *figure)
    }
}

/// Cell of the grid: a thing in a case.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Runs by round; empty if it cannot be measured.
    pub runs: Vec<Run>,
    /// Notes for the reader, such as why there are no runs.
    pub notes: Vec<String>,
}

impl Cell {
    pub fn figures(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.figure).collect()
    }

    /// Values of a secondary figure, by round.
    fn beside(&self, name: &str) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.beside(name)).collect()
    }

    fn keep(&mut self, run: Run) {
        if let Some(note) = run.note.as_ref().filter(|note| !self.notes.contains(note)) {
            self.notes.push(note.clone());
        }
        self.runs.push(run);
    }

    /// Unwraps a result. On failure replaces the cell by the reason and returns `None`; passes on an interrupt.
    fn or_reason<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => {
                *self = Cell { runs: Vec::new(), notes: vec![error.to_string()] };
                Ok(None)
            }
        }
    }
}

/// Measurement of each thing in each case. Both are given by index.
pub trait Bench {
    /// State kept from round to round.
    type Kept;

    /// Starts the state that is measured in every round.
    ///
    /// # Errors
    /// This thing has no figure in this case.
    fn open(&self, case: usize, thing: usize) -> Result<Self::Kept>;

    /// Measures one round.
    ///
    /// # Errors
    /// This thing has no figure in this case.
    fn measure(&self, case: usize, thing: usize, kept: &mut Self::Kept) -> Result<Run>;

    /// Ends the state. Returns a note for the reader, if there is one.
    ///
    /// # Errors
    /// The measurement turns out to be invalid.
    fn close(&self, _case: usize, _thing: usize, _kept: Self::Kept) -> Result<Option<String>> {
        Ok(None)
    }
}

/// Measurements of all things in all cases.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Names of the things compared.
    pub things: Vec<String>,
    /// Cases, with a cell for each thing.
    pub cases: Vec<(Case, Vec<Cell>)>,
}

impl Grid {
    /// Measures all things in all cases.
    ///
    /// # Errors
    /// The experiment is interrupted.
    pub fn run(things: Vec<String>, cases: &[Case], rounds: usize, bench: &impl Bench) -> Result<Grid> {
        let (progress, whole) = (Progress::new(), (cases.len() * rounds * things.len()) as f64);
        let (mut measured, mut done) = (Vec::new(), 0.0);
        for (at, case) in cases.iter().enumerate() {
            let mut cells = vec![Cell::default(); things.len()];
            let mut kept = Vec::new();
            for (thing, cell) in cells.iter_mut().enumerate() {
                child::go_on()?;
                kept.push(cell.or_reason(bench.open(at, thing))?);
            }
            for round in 0..rounds {
                for step in 0..things.len() {
                    child::go_on()?;
                    let thing = (round + step) % things.len();
                    progress.tell(done, whole, &format!("{}, {}", case.name, things[thing]));
                    done += 1.0;
                    let Some(one) = &mut kept[thing] else { continue };
                    match cells[thing].or_reason(bench.measure(at, thing, one))? {
                        Some(run) => cells[thing].keep(run),
                        None => kept[thing] = None,
                    }
                }
            }
            for ((thing, kept), cell) in kept.into_iter().enumerate().zip(&mut cells) {
                let Some(kept) = kept else { continue };
                let note = cell.or_reason(bench.close(at, thing, kept))?;
                cell.notes.extend(note.flatten());
            }
            measured.push((*case, cells));
        }
        Ok(Grid { things, cases: measured })
    }
}

/// Selects the cases named by `--only`, in the order of the table; all without it.
///
/// # Errors
/// A name is unknown; the text lists the known ones.
pub fn choose<C>(all: &'static [C], only: &[String], name: impl Fn(&C) -> &str) -> Result<Vec<&'static C>> {
    if let Some(unknown) = only.iter().find(|wanted| all.iter().all(|case| name(case) != **wanted)) {
        let known: Vec<&str> = all.iter().map(&name).collect();
        return Err(Error::Wrong(format!("unknown case `{unknown}`; there are {}", known.join(", "))));
    }
    Ok(all.iter().filter(|case| only.is_empty() || only.iter().any(|wanted| wanted == name(case))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Bench of two things in two cases; the second thing fails in the second case.
    struct Told(RefCell<Vec<(usize, usize)>>);

    impl Bench for Told {
        type Kept = u32;

        fn open(&self, case: usize, thing: usize) -> Result<u32> {
            if (case, thing) == (1, 1) { Err(Error::Missing("b".into())) } else { Ok(0) }
        }

        fn measure(&self, case: usize, thing: usize, kept: &mut u32) -> Result<Run> {
            self.0.borrow_mut().push((case, thing));
            *kept += 1;
            Ok(Run { figure: f64::from(*kept), note: Some("x".into()), ..Run::default() })
        }
    }

    #[test]
    fn all_take_turns_within_a_case_and_one_that_fails_has_its_reason() {
        let case = |name| Case { name, about: "", unit: "", bounds: &[] };
        let bench = Told(RefCell::default());
        let grid = Grid::run(["a", "b"].map(str::to_owned).to_vec(), &[case("1"), case("2")], 2, &bench);
        let grid = grid.expect("nothing interrupts it");
        assert_eq!(*bench.0.borrow(), [(0, 0), (0, 1), (0, 1), (0, 0), (1, 0), (1, 0)]);
        assert_eq!(grid.cases[0].1[1].figures(), [1.0, 2.0]);
        assert_eq!(grid.cases[0].1[0].notes, ["x"], "said once");
        let failed = &grid.cases[1].1[1];
        assert!(failed.runs.is_empty() && failed.notes[0].starts_with("b is not installed"), "{failed:?}");
        let mut cell = failed.clone();
        assert!(matches!(cell.or_reason::<()>(Err(Error::Interrupted)), Err(Error::Interrupted)));
    }

    #[test]
    fn only_the_cases_named_run_in_the_order_of_the_table() {
        static ALL: [&str; 3] = ["a", "b", "c"];
        let chosen = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            choose(&ALL, &only, |name| name).map(|chosen| chosen.into_iter().copied().collect::<Vec<_>>())
        };
        assert_eq!(chosen(&["c", "a"]).expect("both are there"), ["a", "c"]);
        assert!(chosen(&["ab"]).expect_err("there is none").to_string().contains("ab"));
        assert_eq!(chosen(&[]).expect("all are there").len(), 3);
    }
}

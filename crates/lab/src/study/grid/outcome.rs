//! Report of a grid: claims by ratios within rounds, one table, a plot for each case, and all runs.

use super::{Bound, Case, Cell, Grid, OURS, Run};
use crate::error::{Error, Result};
use crate::stats::{Interval, Spread};
use crate::study::figures::{row, spread, told};
use crate::study::{Claim, Finding, Found, Plot, Used, Versions};
use serde_json::{Map, Value, json};

impl Grid {
    fn index(&self, name: &str) -> Option<usize> {
        self.things.iter().position(|thing| thing == name)
    }

    /// Report of the grid. `base`: thing that the table compares with. `docs`: method, in paragraphs.
    pub fn found(&self, title: &'static str, topology: String, base: &str, docs: &str, versions: Versions) -> Found {
        Found {
            title,
            topology,
            findings: self.findings(),
            figures: self.figures(base),
            plots: self.plots(),
            method: docs.split("\n\n").map(str::to_owned).chain(self.method()).collect(),
            versions,
            raw: self.raw(),
            ..Found::default()
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let of = self.cases.iter().flat_map(|(case, cells)| case.bounds.iter().map(move |bound| (case, bound, cells)));
        of.map(|(case, bound, cells)| self.finding(case, bound, cells)).collect()
    }

    fn finding(&self, case: &Case, bound: &Bound, cells: &[Cell]) -> Finding {
        let ours = self.index(OURS).map(|at| &cells[at]).filter(|cell| !cell.runs.is_empty());
        let Some(ours) = ours else {
            return Finding::not_shown(bound.claim, format!("{}: {OURS} has no figure", case.name));
        };
        let others = bound.of.iter().filter_map(|name| {
            let cell = &cells[self.index(name)?];
            Some((name, cell, Spread::of(&cell.figures())?.median))
        });
        match others.min_by(|one, other| one.2.total_cmp(&other.2)) {
            Some((name, cell, _)) => {
                let what = format!("{}, {}: {OURS} over {name}", case.name, case.unit);
                let ratio = Interval::of_ratios(&ours.figures(), &cell.figures());
                Finding::at_most(bound.claim, &what, ratio, bound.at_most)
            }
            None => Finding::not_shown(bound.claim, format!("{}: none of {} ran", case.name, bound.of.join(", "))),
        }
    }

    /// Case with the largest absolute figure of the first thing, and the figure by round.
    fn largest(&self, figure: impl Fn(&Run) -> Option<f64>) -> Option<(&'static str, Vec<f64>)> {
        let of = self.cases.iter().filter_map(|(case, cells)| {
            let runs: Vec<f64> = cells.first()?.runs.iter().filter_map(&figure).collect();
            Some((case.name, Spread::of(&runs)?.median.abs(), runs))
        });
        of.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(name, _, runs)| (name, runs))
    }

    /// Judges the claim that a figure of the first thing is at most `most` in every case, where it is largest.
    pub fn everywhere(&self, claim: Claim, what: &str, most: f64, figure: impl Fn(&Run) -> Option<f64>) -> Finding {
        match self.largest(figure) {
            Some((name, runs)) => {
                Finding::at_most(claim, &format!("{what}, where it is largest ({name})"), Interval::of(&runs), most)
            }
            None => Finding::not_shown(claim, format!("{what}: nothing was measured")),
        }
    }

    /// Table with a row for each cell. `base`: thing that figures are divided by, if several are compared.
    fn figures(&self, base: &str) -> Vec<Vec<String>> {
        let mut beside: Vec<&str> = Vec::new();
        for (name, _) in self.cells().flat_map(|cell| &cell.runs).flat_map(|run| &run.beside) {
            if !beside.contains(name) {
                beside.push(name);
            }
        }
        let whose = self.cells().flat_map(|cell| &cell.runs).any(|run| run.used.is_some());
        let base = self.index(base).filter(|_| self.things.len() > 1);
        let mut header = ["", "figure", "unit"].map(str::to_owned).to_vec();
        header.extend(base.map(|at| format!("of {}", self.things[at])));
        header.extend(beside.iter().map(|name| (*name).to_owned()));
        header.extend(whose.then(|| "CPU accounted for".to_owned()));
        let mut rows = vec![header];
        for (case, cells) in &self.cases {
            for (thing, cell) in self.things.iter().zip(cells) {
                let mut row = vec![format!("{}: {thing}", case.name), told(&cell.figures(), 2), case.unit.to_owned()];
                row.extend(base.map(|at| told(&ratios(&cell.figures(), &cells[at].figures()), 2)));
                row.extend(beside.iter().map(|name| told_wide(&cell.beside(name))));
                let accounted = cell.runs.iter().filter_map(|run| Some(run.used.as_ref()?.accounted()));
                row.extend(whose.then(|| told(&accounted.collect::<Vec<_>>(), 2)));
                rows.push(row);
            }
        }
        rows
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.cases.iter().flat_map(|(_, cells)| cells)
    }

    fn plots(&self) -> Vec<Plot> {
        let plot = |(case, cells): &(Case, Vec<Cell>)| {
            let measured = self.things.iter().zip(cells).enumerate().filter(|(_, (_, cell))| !cell.runs.is_empty());
            let rows: Vec<_> = measured.map(|(at, (name, cell))| row(name, &cell.figures(), None, at)).collect();
            Plot::of_rows(case.name, case.unit, &rows)
        };
        self.cases.iter().map(plot).collect()
    }

    /// Describes each case, with the notes of its cells.
    fn method(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (case, cells) in &self.cases {
            lines.push(format!("{}: {}.", case.name, case.about));
            let named = self.things.iter().zip(cells);
            lines.extend(named.flat_map(|(thing, cell)| {
                cell.notes.iter().map(move |note| format!("{}, {thing}: {note}", case.name))
            }));
        }
        lines
    }

    fn raw(&self) -> Value {
        let run = |run: &Run| {
            let beside: Map<String, Value> =
                run.beside.iter().map(|(name, figure)| ((*name).to_owned(), json!(figure))).collect();
            json!({ "figure": run.figure, "beside": beside, "cpu": run.used.as_ref().map(Used::json), "more": run.more })
        };
        let cell = |cell: &Cell| {
            json!({
                "figure": spread(&cell.figures()),
                "runs": cell.runs.iter().map(run).collect::<Vec<_>>(),
                "notes": cell.notes,
            })
        };
        let cases = self.cases.iter().map(|(case, cells)| {
            let by_name = self.things.iter().zip(cells).map(|(thing, one)| (thing.clone(), cell(one)));
            json!({
                "name": case.name, "about": case.about, "unit": case.unit, "proxies": by_name.collect::<Map<_, _>>(),
            })
        });
        json!({ "cases": cases.collect::<Vec<_>>() })
    }

    /// Fails if evenkeel was measured and has no figure in a case; other things may fail.
    ///
    /// # Errors
    /// The case and the reason.
    pub fn check(&self) -> Result<()> {
        let Some(ours) = self.index(OURS) else { return Ok(()) };
        match self.cases.iter().find(|(_, cells)| cells[ours].runs.is_empty()) {
            Some((case, cells)) => {
                Err(Error::Wrong(format!("{}: {OURS} has no figure: {}", case.name, cells[ours].notes.join("; "))))
            }
            None => Ok(()),
        }
    }
}

/// Divides runs of the same rounds; empty if the rounds differ.
fn ratios(of: &[f64], over: &[f64]) -> Vec<f64> {
    let equal = of.len() == over.len() && !over.contains(&0.0);
    if equal { of.iter().zip(over).map(|(of, over)| of / over).collect() } else { Vec::new() }
}

/// Formats figures that may be large: no decimals from 100 on.
fn told_wide(runs: &[f64]) -> String {
    let large = Spread::of(runs).is_some_and(|of| of.median >= 100.0);
    told(runs, if large { 0 } else { 3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound::new("at most 0.8 of the better", &["haproxy", "nginx"], 0.8);

    fn grid(figures: [&[f64]; 4]) -> Grid {
        let cell = |runs: &[f64]| Cell {
            runs: runs
                .iter()
                .map(|&figure| Run { figure, beside: vec![("a second", 1.0), ("errors", 0.0)], ..Run::default() })
                .collect(),
            notes: Vec::new(),
        };
        let case = Case { name: "1k", about: "1 kB", unit: "us", bounds: &[BOUND] };
        let things = ["evenkeel", "haproxy", "nginx", "envoy"].map(str::to_owned).to_vec();
        Grid { things, cases: vec![(case, figures.map(cell).to_vec())] }
    }

    #[test]
    fn a_claim_is_about_the_better_of_the_others_and_not_shown_without_figures() {
        let of = |figures| grid(figures).findings().remove(0);
        let (slow, fast): (&[f64], &[f64]) = (&[20.0; 3], &[10.0; 3]);
        let good = of([&[7.0, 7.5, 8.0], slow, fast, &[1.0; 3]]);
        assert_eq!(good.verdict.name(), "reproduced");
        assert!(good.told().starts_with("1k, us: evenkeel over nginx: 0.750"), "{}", good.told());
        assert_eq!(of([&[9.0; 3], &[], fast, &[1.0; 3]]).verdict.name(), "not reproduced");
        assert_eq!(of([&[], slow, fast, &[]]).verdict.name(), "not shown");
        assert_eq!(of([&[9.0; 3], &[], &[], &[1.0; 3]]).told(), "1k: none of haproxy, nginx ran");
    }

    #[test]
    fn a_table_has_a_row_for_each_cell_and_its_part_of_the_base() {
        let grid = grid([&[5.0; 3], &[10.0; 3], &[], &[20.0; 3]]);
        let rows = grid.figures("haproxy");
        assert_eq!(rows[0], ["", "figure", "unit", "of haproxy", "a second", "errors"]);
        let first = ["1k: evenkeel", "5.00 (5.00..5.00)", "us", "0.50 (0.50..0.50)", "1.000 (1.000..1.000)"];
        assert_eq!(rows[1][..5], first);
        assert_eq!((rows.len(), rows[3][1].as_str()), (5, ""));
        assert_eq!(grid.raw()["cases"][0]["proxies"]["envoy"]["figure"]["median"], 20.0);
        assert_eq!(grid.plots().len(), 1);
        assert!(grid.check().is_ok());
        let mut one = grid.clone();
        one.cases[0].1.truncate(1);
        one.cases[0].1[0].runs.truncate(1);
        assert_eq!(one.figures("evenkeel")[0].len(), 6, "a single run has all its columns");
        assert_eq!(grid.largest(|run| Some(run.figure)), Some(("1k", vec![5.0; 3])));
        let claim = BOUND.claim;
        assert_eq!(grid.everywhere(claim, "it", 4.0, |run| Some(run.figure)).verdict.name(), "not reproduced");
    }
}

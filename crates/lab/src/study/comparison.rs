//! Predictions of the simulator compared with measurements: a line for each figure of each case, and from them a table,
//! plots, JSON and a verdict on each figure.

use super::claim::{Claim, Finding};
use super::figures::row;
use super::plot::Plot;
use super::prediction::Prediction;
use crate::stats::{Interval, Spread};
use serde_json::{Value, json};

/// Largest relative error of a good prediction.
const WITHIN: f64 = 0.2;

/// Quantity that is predicted.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Name in tables and JSON, with the unit.
    pub name: &'static str,
    /// Name in the simulator's JSON.
    pub metric: &'static str,
    /// Factor from the simulator's unit.
    pub scale: f64,
    /// Claim that the prediction holds.
    pub claim: Claim,
}

/// Median latency, in milliseconds.
pub const P50: Figure = Figure {
    name: "p50, milliseconds",
    metric: "p50",
    scale: 1e3,
    claim: Claim::ours("The median is within 20 % of the simulator's prediction in every case, or the page states why"),
};
/// 99th percentile of the latency, in milliseconds.
pub const P99: Figure = Figure {
    name: "p99, milliseconds",
    metric: "p99",
    scale: 1e3,
    claim: Claim::ours(
        "The 99th percentile is within 20 % of the simulator's prediction in every case, or the page states why",
    ),
};
/// Requests per second, or their ratio to others.
pub const RATE: Figure = Figure {
    name: "requests a second",
    metric: "throughput",
    scale: 1.0,
    claim: Claim::ours(
        "Requests a second are within 20 % of the simulator's prediction in every case, or the page states why",
    ),
};

/// Case that is simulated and measured.
#[derive(Clone, Copy, Debug)]
pub struct Case<'c> {
    /// Plot that the case belongs to.
    pub group: &'c str,
    pub name: &'c str,
    /// Names of its point and its algorithm in the simulator's JSON.
    pub simulated: (&'c str, &'c str),
    pub colour: usize,
    /// Known cause of an error, as a sentence about omissions of the simulator; empty if there is none.
    pub why: &'static str,
}

/// Predicted and measured figure of a case.
#[derive(Clone, Debug)]
pub struct Line {
    group: String,
    name: String,
    figure: Figure,
    predicted: Option<f64>,
    measured: Vec<f64>,
    colour: usize,
    why: &'static str,
}

impl Case<'_> {
    /// Returns a line for a figure that is in the simulator's JSON, scaled to the unit of the figure.
    pub fn figure(&self, figure: Figure, prediction: &Prediction, measured: Vec<f64>) -> Line {
        let (point, algorithm) = self.simulated;
        let predicted = prediction.figure(point, algorithm, figure.metric).map(|of| of * figure.scale);
        self.line(figure, predicted, measured)
    }

    /// Returns lines for p50 and p99. `measured`: latency quantile in milliseconds, by round.
    pub fn latencies(&self, prediction: &Prediction, measured: impl Fn(f64) -> Vec<f64>) -> [Line; 2] {
        [(P50, 0.5), (P99, 0.99)].map(|(figure, share)| self.figure(figure, prediction, measured(share)))
    }

    /// Returns a line for a figure with a computed prediction.
    pub fn line(&self, figure: Figure, predicted: Option<f64>, measured: Vec<f64>) -> Line {
        let (group, name) = (self.group.to_owned(), self.name.to_owned());
        Line { group, name, figure, predicted, measured, colour: self.colour, why: self.why }
    }
}

impl Line {
    fn case(&self) -> String {
        [self.group.as_str(), self.name.as_str()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn ratio(&self) -> Option<f64> {
        Some(Spread::of(&self.measured)?.median / self.predicted.filter(|of| *of > 0.0)?)
    }

    fn is_off(&self) -> bool {
        self.ratio().is_some_and(|ratio| (ratio - 1.0).abs() > WITHIN)
    }

    fn is_excused(&self) -> bool {
        self.is_off() && !self.why.is_empty()
    }

    /// Returns the error of the median, as `+11 %`.
    fn error(&self) -> String {
        self.ratio().map_or_else(String::new, |ratio| format!("{:+.0} %", (ratio - 1.0) * 100.0))
    }

    fn json(&self) -> Value {
        let interval = Interval::of(&self.measured);
        json!({
            "case": self.case(),
            "figure": self.figure.name,
            "predicted": self.predicted,
            "measured": Spread::of(&self.measured).map(|of| of.median),
            "low": interval.map(|of| of.low),
            "high": interval.map(|of| of.high),
            "error": self.ratio().map(|ratio| ratio - 1.0),
            "why": self.is_excused().then_some(self.why),
        })
    }
}

/// All predictions for an experiment, with their measurements.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    lines: Vec<Line>,
}

impl FromIterator<Line> for Comparison {
    fn from_iter<I: IntoIterator<Item = Line>>(lines: I) -> Comparison {
        Comparison { lines: lines.into_iter().collect() }
    }
}

impl Comparison {
    /// Groups lines by key, in the order of first appearance.
    fn by<K: PartialEq>(&self, key: impl Fn(&Line) -> K) -> Vec<Vec<&Line>> {
        let mut all: Vec<(K, Vec<&Line>)> = Vec::new();
        for line in &self.lines {
            let of = key(line);
            match all.iter_mut().find(|(known, _)| *known == of) {
                Some((_, lines)) => lines.push(line),
                None => all.push((of, vec![line])),
            }
        }
        all.into_iter().map(|(_, lines)| lines).collect()
    }

    /// Judges each figure by the case with the largest error among those without a known cause.
    pub fn findings(&self) -> Vec<Finding> {
        self.by(|line| line.figure.name).into_iter().map(|lines| verdict(&lines)).collect()
    }

    /// Draws each figure of each group, with a mark at the prediction.
    pub fn plots(&self) -> Vec<Plot> {
        let plot = |lines: Vec<&Line>| {
            let figure = lines[0].figure.name;
            let (name, unit) = figure.split_once(", ").unwrap_or((figure, figure));
            let title = format!("{}: {name}", lines[0].group);
            let unit = format!("{unit}; dashed: predicted by the simulator");
            let row = |line: &&Line| row(&line.name, &line.measured, line.predicted, line.colour);
            Plot::of_rows(title, &unit, &lines.iter().map(row).collect::<Vec<_>>())
        };
        self.by(|line| (line.group.clone(), line.figure.name)).into_iter().map(plot).collect()
    }

    /// Table with a header and a row for each line. Empty if nothing was predicted.
    pub fn table(&self) -> Vec<Vec<String>> {
        let row = |line: &Line| {
            let interval = Interval::of(&line.measured);
            let median = Spread::of(&line.measured).map_or_else(String::new, |of| digits(of.median));
            vec![
                line.case(),
                line.figure.name.to_owned(),
                line.predicted.map_or_else(String::new, digits),
                median
                    + &interval.map_or_else(String::new, |of| format!(" ({} to {})", digits(of.low), digits(of.high))),
                line.error(),
            ]
        };
        let header = ["", "figure", "predicted", "measured", "error"].map(str::to_owned).to_vec();
        let lines = self.lines.iter().map(row);
        if self.lines.is_empty() { Vec::new() } else { std::iter::once(header).chain(lines).collect() }
    }

    /// Returns the known causes of errors, a sentence each.
    pub fn reasons(&self) -> Vec<String> {
        let of = self.by(|line| line.why).into_iter().filter_map(|lines| {
            let off: Vec<String> = lines
                .iter()
                .filter(|line| line.is_excused())
                .map(|line| format!("{} ({})", line.case(), line.figure.metric))
                .collect();
            (!off.is_empty()).then(|| format!("{} This applies to {}.", lines[0].why, off.join("; ")))
        });
        of.collect()
    }

    pub fn json(&self) -> Value {
        self.lines.iter().map(Line::json).collect()
    }
}

fn verdict(lines: &[&Line]) -> Finding {
    let claim = lines[0].figure.claim;
    let excused = lines.iter().filter(|line| line.is_excused()).count();
    let far = |line: &Line| line.ratio().map_or(f64::INFINITY, |ratio| ratio.ln().abs());
    let judged = lines.iter().filter(|line| !line.is_excused());
    let Some(worst) = judged.max_by(|a, b| far(a).total_cmp(&far(b))) else {
        return Finding::not_shown(claim, "every case is farther off, for reasons that the page states".into());
    };
    let Some(predicted) = worst.predicted.filter(|of| *of > 0.0) else {
        return Finding::not_shown(claim, format!("the simulator has no prediction for {}", worst.case()));
    };
    let ratios: Vec<f64> = worst.measured.iter().map(|of| of / predicted).collect();
    let others = match excused {
        0 => String::new(),
        _ => format!("; {excused} of {} cases are farther off, for reasons that the page states", lines.len()),
    };
    let what = format!("measured over predicted, where it is farthest off ({}){others}", worst.case());
    Finding::near(claim, &what, Interval::of(&ratios), 1.0, WITHIN)
}

/// Formats with three significant digits.
fn digits(figure: f64) -> String {
    match figure.abs() {
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        size if size >= 1.0 => format!("{figure:.2}"),
        _ => format!("{figure:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, predicted: Option<f64>, measured: f64, why: &'static str) -> Line {
        let case = Case { group: "two balancers", name, simulated: ("", ""), colour: 0, why };
        case.line(P99, predicted, vec![measured; 3])
    }

    #[test]
    fn the_farthest_case_that_is_not_explained_is_judged() {
        let said = |lines: Vec<Line>| lines.into_iter().collect::<Comparison>().findings().remove(0).told();
        let lines = vec![line("a", Some(10.0), 11.0, ""), line("b", Some(10.0), 9.5, "")];
        assert!(said(lines.clone()).contains("(two balancers, a): 1.100"));
        let excused = line("c", Some(10.0), 20.0, "It has no clocks.");
        let both: Vec<Line> = lines.into_iter().chain([excused.clone()]).collect();
        assert!(said(both.clone()).contains("a); 1 of 3 cases"));
        assert!(said(vec![excused]).contains("every case"));
        assert!(said(vec![line("d", None, 1.0, "It has no clocks.")]).contains("no prediction for two balancers, d"));
        let comparison: Comparison = both.into_iter().collect();
        assert_eq!(comparison.reasons(), ["It has no clocks. This applies to two balancers, c (p99)."]);
        assert_eq!(comparison.plots().len(), 1);
    }

    #[test]
    fn an_explanation_counts_only_where_it_is_needed() {
        let comparison: Comparison = [line("a", Some(10.0), 9.0, "It has no clocks.")].into_iter().collect();
        assert!(comparison.reasons().is_empty());
        let told = &comparison.json()[0];
        assert_eq!((&told["case"], &told["why"]), (&json!("two balancers, a"), &Value::Null));
        assert_eq!(comparison.table()[1][2..], ["10.0", "9.00 (9.00 to 9.00)", "-10 %"]);
        assert_eq!(Comparison::default().table(), Vec::<Vec<String>>::new());
    }
}

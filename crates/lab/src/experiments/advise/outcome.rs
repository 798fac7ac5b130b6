//! Report: verdicts on all advice, by case.

use super::EXPERIMENT;
use super::advice::Advice;
use super::case::Case;
use super::score::{Claimed, Score, Verdict};
use super::setting::Run;
use crate::stats::{Interval, Spread};
use crate::study::topology::{column, even, node};
use crate::study::{Claim, Finding, Found, Plot, Versions};
use evenkeel_draw::intervals::Row;
use serde_json::{Value, json};

const HARMLESS: Claim = Claim::ours("No advice makes p99 or CPU time worse beyond noise");
const HELD: Claim = Claim::ours("Claimed effects hold within their intervals in eight of ten configurations");

/// Case with its advice, and the runs of each configuration.
pub struct Advised {
    pub case: &'static Case,
    pub changes: Vec<Advice>,
    pub others: Vec<String>,
    /// Runs of the original, then of each change.
    pub runs: Vec<Vec<Run>>,
}

impl Advised {
    fn scores(&self) -> impl Iterator<Item = (&Advice, Score)> {
        let before = self.runs.first().map_or(&[][..], Vec::as_slice);
        let of = move |(advice, after): (_, &Vec<Run>)| Some((advice, Score::of(advice, before, after)?));
        self.changes.iter().zip(self.runs.iter().skip(1)).filter_map(of)
    }

    /// True if all its claims that can be compared hold. `None` without such a claim.
    fn holds(&self) -> Option<bool> {
        let claims: Vec<Claimed> = self.scores().map(|(_, score)| score.claim).collect();
        let compared = claims.iter().filter(|claim| !matches!(claim, Claimed::NotShown(_)));
        compared.map(|claim| *claim == Claimed::Holds).reduce(|one, other| one && other)
    }
}

pub struct Measured {
    pub cases: Vec<Advised>,
}

impl Measured {
    pub fn found(&self, versions: Versions) -> Found {
        let scores: Vec<Score> = self.cases.iter().flat_map(|case| case.scores().map(|(_, score)| score)).collect();
        let harms = |score: &&Score| [score.of_p99, score.of_cpu].contains(&Verdict::Worse);
        let worse = scores.iter().filter(harms).count();
        let compared: Vec<bool> = self.cases.iter().filter_map(Advised::holds).collect();
        let share = compared.iter().filter(|holds| **holds).count() as f64 / compared.len() as f64;
        let findings = vec![
            match scores.len() {
                0 => Finding::not_shown(HARMLESS, "there was no advice".into()),
                all => Finding::at_most(
                    HARMLESS,
                    &format!("harmful, of {all} pieces of advice"),
                    Some(point(worse as f64)),
                    0.0,
                ),
            },
            match compared.len() {
                0 => Finding::not_shown(HELD, "no claim could be compared".into()),
                all => Finding::at_least(
                    HELD,
                    &format!("share that holds, of {all} configurations with claims"),
                    Some(point(share)),
                    0.8,
                ),
            },
        ];
        Found {
            title: "Does advice help, as much as it claims?",
            topology: even(&[
                column("clients", [node("open loop", "the same requests in each round")]),
                column("balancer", [node("evenkeel", "original"), node("evenkeel", "with one change")]),
                column("endpoints", [node("two to nine", "slow, stopped or failing")]),
            ]),
            findings,
            figures: self.by_advice(),
            tables: vec![
                ("Configurations: medians of the original".to_owned(), self.by_case()),
                ("Advice without a change".to_owned(), self.others()),
            ],
            plots: self.plots(),
            method: EXPERIMENT.docs.split("\n\n").map(str::to_owned).collect(),
            versions,
            raw: self.json(),
            ..Found::default()
        }
    }

    fn by_advice(&self) -> Vec<Vec<String>> {
        let mut rows = vec![header(&[
            "configuration",
            "advice",
            "verdict",
            "p50",
            "p99",
            "CPU a request",
            "failed before",
            "failed after",
            "claimed",
            "measured",
            "claim",
        ])];
        for case in &self.cases {
            for (advice, score) in case.scores() {
                let claimed = advice.effect.as_ref().map_or_else(String::new, |of| {
                    let interval = Interval { median: of.middle, low: of.low, high: of.high };
                    format!("{} {}", of.figure, percent(interval))
                });
                let mut row = vec![case.case.name.to_owned(), format!("{}: {}", advice.subject, advice.says)];
                row.push(score.verdict.name().to_owned());
                row.extend([score.p50, score.p99, score.cpu].map(percent));
                row.extend(score.failed.map(|share| format!("{:.2} %", share * 100.0)));
                row.extend([claimed, score.claimed.map_or_else(String::new, percent)]);
                row.push(match &score.claim {
                    Claimed::NotShown(why) => why.clone(),
                    claim => claim.name().to_owned(),
                });
                rows.push(row);
            }
        }
        rows
    }

    fn by_case(&self) -> Vec<Vec<String>> {
        let mut rows = vec![header(&[
            "configuration",
            "of",
            "endpoints and load",
            "requests/s",
            "p50 ms",
            "p99 ms",
            "CPU us",
            "claims",
        ])];
        for of in &self.cases {
            let median = |figure: fn(&Run) -> f64| {
                let runs: Vec<f64> = of.runs.first().into_iter().flatten().map(figure).collect();
                Spread::of(&runs).map_or_else(String::new, |spread| format!("{:.1}", spread.median))
            };
            let mut row = vec![of.case.name.to_owned(), of.case.from.unwrap_or("evenkeel").to_owned()];
            row.extend([of.case.about.to_owned(), format!("{:.0}", of.case.rate)]);
            row.extend([median(|run| run.clients.p50_ms), median(|run| run.clients.p99_ms), median(|run| run.cpu_us)]);
            row.push(match of.holds() {
                None => "none".to_owned(),
                Some(holds) => if holds { "hold" } else { "fail" }.to_owned(),
            });
            rows.push(row);
        }
        rows
    }

    fn others(&self) -> Vec<Vec<String>> {
        let mut rows = vec![header(&["configuration", "advice"])];
        for of in &self.cases {
            rows.extend(of.others.iter().map(|text| vec![of.case.name.to_owned(), text.clone()]));
        }
        rows
    }

    /// Changes of p99 and of CPU time by advice.
    fn plots(&self) -> Vec<Plot> {
        let of = |colour: usize, title: &str, figure: fn(&Score) -> Interval, claims: &str| {
            let row = |case: &Advised, (advice, score): (&Advice, Score)| {
                let Interval { median, low, high } = figure(&score);
                let claim = advice.effect.as_ref().filter(|effect| effect.figure == claims);
                Row {
                    name: format!("{}: {}", case.case.name, advice.kind),
                    interval: Some((low * 100.0, high * 100.0)),
                    median: median * 100.0,
                    expected: claim.map(|effect| effect.middle * 100.0),
                    colour,
                }
            };
            let rows: Vec<Row> =
                self.cases.iter().flat_map(|case| case.scores().map(move |score| row(case, score))).collect();
            (!rows.is_empty()).then(|| Plot::of_rows(title, "% more or less; dashed: the claim", &rows))
        };
        let p99 = of(0, "p99 with the change", |score| score.p99, "p99");
        let cpu = of(1, "CPU time of a request with the change", |score| score.cpu, "cpu");
        [p99, cpu].into_iter().flatten().collect()
    }

    fn json(&self) -> Value {
        let interval = |of: Interval| json!([of.low, of.median, of.high]);
        let tested = |(advice, score): (&Advice, Score)| {
            json!({
                "kind": advice.kind, "subject": advice.subject, "says": advice.says, "of": advice.verdict,
                "evidence": advice.evidence, "patch": advice.patch,
                "claimed": advice.effect.as_ref().map(|of| json!({
                    "figure": of.figure, "change": [of.low, of.middle, of.high], "at": of.at,
                })),
                "verdict": score.verdict.name(), "claim": score.claim.name(), "p50": interval(score.p50),
                "p99": interval(score.p99), "cpu": interval(score.cpu), "failed": score.failed,
                "measured": score.claimed.map(interval),
            })
        };
        let case = |of: &Advised| {
            json!({
                "name": of.case.name, "of": of.case.from.unwrap_or("evenkeel"), "advice": of.scores().map(tested).collect::<Value>(),
                "others": of.others,
                "runs": of.runs.iter().map(|runs| runs.iter().map(Run::json).collect::<Value>()).collect::<Value>(),
            })
        };
        json!({ "cases": self.cases.iter().map(case).collect::<Value>() })
    }
}

fn percent(of: Interval) -> String {
    let [low, median, high] = [of.low, of.median, of.high].map(|change| change * 100.0);
    if low == high { format!("{median:+.0} %") } else { format!("{median:+.0} % [{low:+.0}, {high:+.0}]") }
}

fn point(value: f64) -> Interval {
    Interval { median: value, low: value, high: value }
}

fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

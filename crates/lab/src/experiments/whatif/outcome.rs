//! Report: scores, and tables by case and by breaker.

use super::EXPERIMENT;
use super::ask::Response;
use super::breakers::Breaker;
use super::score::{Checked, Judged, Scores, Subject};
use super::truth::{Figures, Mean, QUANTILES};
use crate::stats::Interval;
use crate::study::topology::{column, even, node};
use crate::study::{Claim, Finding, Found, Plot, Versions};
use evenkeel_draw::intervals::Row;
use serde_json::{Value, json};

/// Share of cases that are accepted at least. A program that refuses everything is never wrong.
const ACCEPTED_MIN: f64 = 0.5;

const ACCEPTED: Claim = Claim::ours("At least half of the logs with a known truth are accepted");
const HELD: Claim = Claim::ours(
    "True differences of p50, p90 and p99, and true shares, lie in the interval at 90 % in 85 % of the accepted cases",
);
const NARROW: Claim =
    Claim::ours("Intervals of p99 are narrower than the policies differ in half of the accepted cases");
const RIGHT: Claim = Claim::ours("The recommended policy is the best, or as good, in 90 % of the accepted cases");
const LIVE_ACCEPTED: Claim = Claim::ours("At least half of the logs of live runs are accepted");
const LIVE_HELD: Claim = Claim::ours(
    "Differences of p50, p90 and p99, and shares, that live runs measure meet the interval at 90 % in 85 % of the accepted cases",
);
const LIVE_NARROW: Claim =
    Claim::ours("Intervals of p99 are narrower than live runs of the policies differ in half of the accepted cases");
const LIVE_RIGHT: Claim =
    Claim::ours("The recommended policy is the best in live runs, or as good, in 90 % of the accepted cases");
const REFUSED: Claim = Claim::ours("Nine of ten logs from which nothing can be known are refused");

/// Breaker with the response of the program.
pub struct Broken {
    pub breaker: &'static Breaker,
    pub response: Response,
}

impl Broken {
    /// True if the program refused the log. A failure of the program is not a refusal.
    fn is_refused(&self) -> bool {
        self.response.error.is_none() && !self.response.is_accepted()
    }
}

/// Results of all cases and breakers.
#[derive(Default)]
pub struct Measured {
    pub cases: Vec<Judged>,
    pub live: Vec<Judged>,
    pub breakers: Vec<Broken>,
}

impl Measured {
    /// Scores of the simulated cases and breakers, and of the live cases.
    fn scores(&self) -> [Scores; 2] {
        let refused: Vec<bool> = self.breakers.iter().map(Broken::is_refused).collect();
        [Scores::of(&self.cases, &refused), Scores::of(&self.live, &[])]
    }

    fn all(&self) -> impl Iterator<Item = &Judged> {
        self.cases.iter().chain(&self.live)
    }

    pub fn found(&self, versions: Versions) -> Found {
        let scores = self.scores();
        let finding = |claim, what: &str, score: Option<f64>, least| match score {
            // The table is complete, so its share has no interval.
            Some(_) => Finding::at_least(claim, what, score.map(point), least),
            None => Finding::not_shown(claim, format!("{what}: nothing was accepted")),
        };
        let of_cases = |claims: [Claim; 4], cases: &[Judged], scores: &Scores| {
            let accepted = cases.iter().filter(|of| of.response.is_accepted()).count();
            let strictly =
                scores.held_strictly.map_or_else(String::new, |of| format!(" ({of:.2} without the truth's error)"));
            let held = format!("figures within their intervals, of {accepted} cases{strictly}");
            let [accepted, all, narrow, right] = claims;
            vec![
                finding(accepted, &format!("accepted, of {} cases", cases.len()), scores.accepted, ACCEPTED_MIN),
                finding(all, &held, scores.held_all, 0.85),
                finding(narrow, "cases with narrow intervals, where policies differ", scores.narrow_p99, 0.5),
                finding(right, "cases with a right recommendation", scores.right, 0.9),
            ]
        };
        let mut findings = Vec::new();
        if self.live.is_empty() || !self.cases.is_empty() {
            findings.extend(of_cases([ACCEPTED, HELD, NARROW, RIGHT], &self.cases, &scores[0]));
        }
        if !self.live.is_empty() {
            findings.extend(of_cases([LIVE_ACCEPTED, LIVE_HELD, LIVE_NARROW, LIVE_RIGHT], &self.live, &scores[1]));
        }
        if self.live.is_empty() || !self.breakers.is_empty() {
            let refused = format!("refused, of {} breakers", self.breakers.len());
            findings.push(finding(REFUSED, &refused, scores[0].refused, 0.9));
        }
        Found {
            title: "Does `whatif` know, and does it know when it does not?",
            topology: even(&[
                column(
                    "logs",
                    [node("simulator", "with a known truth, or spoilt"), node("live runs", "and their alternatives")],
                ),
                column("program", [node("evenkeel whatif", "")]),
                column("judge", [node("scores", "truth against intervals")]),
            ]),
            findings,
            figures: self.summary(&scores),
            tables: vec![
                ("Cases: figures held, of the other policies".to_owned(), self.by_case()),
                ("Figures that were missed, in milliseconds and shares".to_owned(), self.missed()),
                ("Reasons of refused cases and questions".to_owned(), self.reasons()),
                ("Breakers".to_owned(), self.by_breaker()),
            ],
            plots: self.plots(),
            method: EXPERIMENT.docs.split("\n\n").map(str::to_owned).collect(),
            versions,
            raw: self.json(&scores),
            ..Found::default()
        }
    }

    fn summary(&self, scores: &[Scores; 2]) -> Vec<Vec<String>> {
        let mut rows = vec![header(&["score", "simulated", "live", "goal"])];
        let mut add = |name: &str, score: &dyn Fn(&Scores) -> Option<f64>, goal: &str| {
            let [simulated, live] = scores.each_ref().map(|of| share(score(of)));
            rows.push(vec![name.to_owned(), simulated, live, goal.to_owned()]);
        };
        add("cases accepted", &|of| of.accepted, "0.50");
        for (at, name) in ["p50", "p90", "p99", "shares"].into_iter().enumerate() {
            add(&format!("{name} held"), &|of| of.held[at], "0.85");
        }
        add("all figures held", &|of| of.held_all, "0.85");
        add("all figures held, without the truth's error", &|of| of.held_strictly, "");
        add("narrow intervals of p99", &|of| of.narrow_p99, "0.50");
        add("narrow intervals of all quantiles", &|of| of.narrow, "0.50");
        add("right recommendations", &|of| of.right, "0.90");
        add("right, or said to be as good as the right policy", &|of| of.right_or_alike, "");
        add("breakers refused", &|of| of.refused, "0.90");
        rows
    }

    fn by_case(&self) -> Vec<Vec<String>> {
        let mut rows = vec![header(&[
            "case",
            "policy",
            "format",
            "response",
            "p50",
            "p90",
            "p99",
            "shares",
            "narrow",
            "best",
            "recommended",
            "right",
            "truth's seeds",
            "seconds",
        ])];
        for of in self.all() {
            let accepted = of.response.is_accepted();
            let Subject { name, policy, format, .. } = of.subject;
            let mut cells = [name, policy, format].map(str::to_owned).to_vec();
            cells.push(if accepted { "accepted".to_owned() } else { of.response.why() });
            cells.extend((0..4).map(|at| share(of.held(at))));
            cells.push(of.is_narrow[2].map_or_else(String::new, yes));
            cells.push(of.truth.best().map_or("", |best| best.policy).to_owned());
            cells.push(of.response.best.clone().filter(|_| accepted).unwrap_or_default());
            cells.push(of.is_right.map_or_else(String::new, yes));
            cells.push(of.truth.seeds.to_string());
            cells.push(format!("{:.1}", of.response.seconds));
            rows.push(cells);
        }
        rows
    }

    fn missed(&self) -> Vec<Vec<String>> {
        let mut rows = vec![header(&["case", "question", "figure", "truth", "error", "low", "middle", "high"])];
        for of in self.all() {
            for Checked { question, figure, interval, truth, .. } in of.checked.iter().filter(|of| of.held < 1.0) {
                let number = |value: f64| if *figure == 3 { format!("{value:.3}") } else { format!("{value:.2}") };
                let mut cells = vec![of.subject.name.to_owned(), question.clone(), figure_name(*figure).to_owned()];
                cells.extend([truth.value, truth.error, interval.low, interval.middle, interval.high].map(number));
                rows.push(cells);
            }
        }
        rows
    }

    fn reasons(&self) -> Vec<Vec<String>> {
        let mut rows = vec![header(&["case", "question", "kind", "reason"])];
        for of in self.all() {
            let whole = of.response.refused.iter().map(|(kind, text)| ["all", kind, text].map(str::to_owned));
            let one =
                |answer: &super::ask::Answer| Some([answer.question.clone(), String::new(), answer.refused.clone()?]);
            let all = whole.chain(of.response.answers.iter().filter_map(one));
            rows.extend(all.map(|cells| std::iter::once(of.subject.name.to_owned()).chain(cells).collect()));
        }
        rows
    }

    fn by_breaker(&self) -> Vec<Vec<String>> {
        let mut rows = vec![header(&["breaker", "kind", "policy", "format", "refused", "reason", "seconds"])];
        for Broken { breaker, response } in &self.breakers {
            let refused = response.error.is_none() && !response.is_accepted();
            let reason = if response.is_accepted() { "accepted".to_owned() } else { response.why() };
            let words = [breaker.name, breaker.kind, breaker.policy, breaker.format.name()].map(str::to_owned);
            let rest = [yes(refused), reason, format!("{:.1}", response.seconds)];
            rows.push(words.into_iter().chain(rest).collect());
        }
        rows
    }

    /// Intervals of the difference of p99, with the truth, by policy.
    fn plots(&self) -> Vec<Plot> {
        let of_policy = |(colour, policy): (usize, &&str)| {
            let row = |of: &Judged| {
                let checked = of.checked.iter().find(|of| of.figure == 2 && of.question == **policy)?;
                let part = |ms: f64| 100.0 * ms / of.truth.own_p99_ms;
                Some(Row {
                    name: of.subject.name.to_owned(),
                    interval: Some((part(checked.interval.low), part(checked.interval.high))),
                    median: part(checked.interval.middle),
                    expected: Some(part(checked.truth.value)),
                    colour,
                })
            };
            let rows: Vec<Row> = self.all().filter_map(row).collect();
            let title = format!("p99 under {policy}");
            (!rows.is_empty())
                .then(|| Plot::of_rows(title, "% of the p99 of the log more or less; dashed: the truth", &rows))
        };
        super::truth::QUESTIONS.iter().enumerate().filter_map(of_policy).collect()
    }

    fn json(&self, scores: &[Scores; 2]) -> Value {
        let mean = |of: &Mean| json!({ "value": of.value, "error": of.error });
        let figures = |of: &Figures| {
            json!({
                "policy": of.policy,
                "latency_ms": of.latency_ms.iter().map(mean).collect::<Value>(),
                "change_ms": of.change_ms.iter().map(mean).collect::<Value>(),
                "shares": of.shares.iter().map(mean).collect::<Value>(),
            })
        };
        let response = |of: &Response| {
            json!({
                "accepted": of.is_accepted(), "error": of.error, "seconds": of.seconds, "best": of.best, "alike": of.alike,
                "refused": of.refused.iter().map(|(kind, text)| json!({ "kind": kind, "text": text })).collect::<Value>(),
                "questions_refused": of.answers.iter().filter_map(|answer| {
                    Some(json!({ "question": answer.question, "text": answer.refused.as_ref()? }))
                }).collect::<Value>(),
            })
        };
        let checked = |of: &Checked| {
            json!({
                "question": of.question, "figure": figure_name(of.figure), "truth": mean(&of.truth), "held": of.held,
                "interval": [of.interval.low, of.interval.middle, of.interval.high],
            })
        };
        let case = |of: &Judged| {
            json!({
                "name": of.subject.name, "response": response(&of.response), "seeds": of.truth.seeds,
                "truth": of.truth.policies.iter().map(figures).collect::<Value>(),
                "checked": of.checked.iter().map(checked).collect::<Value>(),
                "narrow": of.is_narrow, "right": of.is_right,
            })
        };
        let score = |of: &Scores| {
            json!({
                "accepted": of.accepted, "held": of.held, "held_all": of.held_all, "held_strictly": of.held_strictly,
                "narrow_p99": of.narrow_p99, "narrow": of.narrow, "right": of.right, "right_or_alike": of.right_or_alike,
                "refused": of.refused,
            })
        };
        let breaker = |of: &Broken| {
            json!({
                "name": of.breaker.name, "kind": of.breaker.kind, "refused": of.is_refused(),
                "response": response(&of.response),
            })
        };
        json!({
            "scores": score(&scores[0]),
            "scores_live": score(&scores[1]),
            "cases": self.cases.iter().map(case).collect::<Value>(),
            "live": self.live.iter().map(case).collect::<Value>(),
            "breakers": self.breakers.iter().map(breaker).collect::<Value>(),
        })
    }
}

fn figure_name(figure: usize) -> &'static str {
    QUANTILES.get(figure).map_or("shares", |(name, _)| name)
}

fn point(value: f64) -> Interval {
    Interval { median: value, low: value, high: value }
}

fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn share(of: Option<f64>) -> String {
    of.map_or_else(String::new, |of| format!("{of:.2}"))
}

fn yes(of: bool) -> String {
    if of { "yes" } else { "no" }.to_owned()
}

//! Report of the throughput with a slow link, relative to the throughput without it, beside published figures.

use super::beside;
use super::picking::Picking;
use super::{ALGORITHMS, Arm, CONNECTIONS, EXPERIMENT, SERVERS, SHARES};
use crate::balancers::Algorithm;
use crate::stats::{Interval, Spread};
use crate::study::topology::{band, column, node};
use crate::study::{Claim, Finding, Found, Rounds, Versions};
use evenkeel_draw::flow::flow;
use serde_json::json;

const THIRD: Claim = Claim {
    text: "One of four servers behind a link of 8.3 % of the balancer's rate: round robin serves a third of it",
    source: "HAProxy mailing list, 430,000 of 1,300,000 requests a second",
};
const WHOLE: [Claim; 2] = [
    Claim { text: "At 8.3 % leastconn serves all of it", source: "HAProxy mailing list, 1,300,000" },
    Claim { text: "At 8.3 % random serves all of it", source: "HAProxy mailing list, 1,300,000" },
];
const OURS: Claim = Claim::ours(
    "evenkeel's random and leastconn serve all of it at 4.1 and 1.5 % too, as two draws are of two endpoints",
);
const REPLACED: Claim = Claim {
    text: "HAProxy's random, whose two draws may be of one server, falls to at most 0.75 at 4.1 % and 0.35 at 1.5 %",
    source: "arithmetic: one of 16 pairs is the slow server twice",
};

/// Measurements of all runs.
pub struct Outcome<'o> {
    /// Balancers and algorithms that ran.
    pub arms: &'o [Arm<'o>],
    /// Number of runs without a slow link, which come first in a round.
    pub bases: usize,
    /// Requests per second, by round.
    pub rounds: &'o Rounds<f64>,
    pub picking: &'o Picking,
}

impl Outcome<'_> {
    /// Throughput with a slow link, and of the same balancer without it, by round.
    fn runs(&self, arm: usize, share: usize) -> (Vec<f64>, Vec<f64>) {
        let rates = |at: usize| self.rounds.figures(at, |rate| *rate);
        (rates(self.bases + share * self.arms.len() + arm), rates(arm / ALGORITHMS))
    }

    /// Rows to compare with a prediction.
    pub fn rows(&self) -> Vec<beside::Row<'_>> {
        let each = (0..SHARES.len()).flat_map(move |share| (0..self.arms.len()).map(move |arm| (share, arm)));
        let row = |(share, at): (usize, usize)| {
            let (Arm { name, balancer, algorithm }, (runs, base)) = (&self.arms[at], self.runs(at, share));
            let through = runs.iter().zip(base).map(|(run, base)| run / base).collect();
            beside::Row { name, balancer: balancer.kind.name, algorithm: *algorithm, share: SHARES[share], through }
        };
        each.map(row).collect()
    }

    fn failed(&self, arm: usize) -> String {
        let of = (0..SHARES.len()).map(|share| self.rounds.failed_of(self.bases + share * self.arms.len() + arm));
        of.filter_map(|count| count.parse::<usize>().ok()).sum::<usize>().to_string()
    }

    fn interval(&self, balancer: &str, algorithm: Algorithm, share: usize) -> Option<Interval> {
        let arm = self.arms.iter().position(|arm| arm.balancer.name == balancer && arm.algorithm == algorithm)?;
        let (runs, base) = self.runs(arm, share);
        Interval::of_ratios(&runs, &base)
    }

    /// Lowest ratio of several arms, the worst for a claim.
    fn lowest(&self, of: &[(&str, Algorithm, usize)]) -> Option<Interval> {
        let all: Option<Vec<Interval>> =
            of.iter().map(|(name, algorithm, share)| self.interval(name, *algorithm, *share)).collect();
        all?.into_iter().min_by(|a, b| a.median.total_cmp(&b.median))
    }

    fn findings(&self) -> Vec<Finding> {
        let has_haproxy = self.arms.iter().any(|arm| arm.balancer.name == "haproxy");
        let published = if has_haproxy { "haproxy" } else { "evenkeel" };
        let of = |algorithm: Algorithm, share: usize| {
            format!("{published}'s {} at {:.1} %", algorithm.name(), SHARES[share] * 100.0)
        };
        let mut findings = vec![
            Finding::near(
                THIRD,
                &of(Algorithm::RoundRobin, 0),
                self.interval(published, Algorithm::RoundRobin, 0),
                SERVERS as f64 * SHARES[0],
                0.1,
            ),
            Finding::at_least(
                WHOLE[0],
                &of(Algorithm::LeastConn, 0),
                self.interval(published, Algorithm::LeastConn, 0),
                0.95,
            ),
            Finding::at_least(
                WHOLE[1],
                &of(Algorithm::Random, 0),
                self.interval(published, Algorithm::Random, 0),
                0.95,
            ),
        ];
        let ours = [
            ("evenkeel", Algorithm::LeastConn, 1),
            ("evenkeel", Algorithm::Random, 1),
            ("evenkeel", Algorithm::LeastConn, 2),
            ("evenkeel", Algorithm::Random, 2),
        ];
        findings.push(Finding::at_least(OURS, "the lowest of the four", self.lowest(&ours), 0.95));
        findings.push(match has_haproxy {
            true => {
                let (at_4, at_1) =
                    (self.interval("haproxy", Algorithm::Random, 1), self.interval("haproxy", Algorithm::Random, 2));
                let scaled = |of: Option<Interval>, most: f64| {
                    of.map(|Interval { median, low, high }| Interval {
                        median: median / most,
                        low: low / most,
                        high: high / most,
                    })
                };
                let worst = [scaled(at_4, 0.75), scaled(at_1, 0.35)].into_iter().collect::<Option<Vec<_>>>();
                let worst = worst.and_then(|all| all.into_iter().max_by(|a, b| a.median.total_cmp(&b.median)));
                Finding::at_most(REPLACED, "rate over what the claim allows, the larger of both", worst, 1.0)
            }
            false => Finding::not_shown(REPLACED, "HAProxy did not run".into()),
        });
        findings.extend(self.picking.findings());
        findings
    }

    pub fn found(&self, versions: Versions) -> Found {
        let header = ["", "8.3 %", "4.1 %", "1.5 %", "failed runs"].map(str::to_owned).to_vec();
        let cell = |arm: usize, share: usize| {
            let (runs, base) = self.runs(arm, share);
            let spread = Spread::of_ratios(&runs, &base);
            spread.map_or_else(String::new, |Spread { median, min, max }| format!("{median:.3} ({min:.3}..{max:.3})"))
        };
        let row = |(at, arm): (usize, &Arm)| {
            let cells = (0..SHARES.len()).map(|share| cell(at, share));
            std::iter::once(arm.name.clone()).chain(cells).chain([self.failed(at)]).collect()
        };
        Found {
            title: "Which algorithm should be the default?",
            topology: topology(),
            findings: self.findings(),
            figures: std::iter::once(header).chain(self.arms.iter().enumerate().map(row)).collect(),
            tables: self.picking.table().into_iter().collect(),
            plots: self.picking.plots().into_iter().collect(),
            lead: 1,
            method: EXPERIMENT.docs.split("\n\n").map(str::to_owned).chain(self.picking.notes.clone()).collect(),
            versions,
            raw: json!({ "requests_per_second": self.rounds.json(|rate| json!(rate)), "picking": self.picking.json() }),
            failed: self.rounds.failed().and(self.picking.failed()),
        }
    }
}

/// Diagram: a client, the balancer and four servers, the last behind a slow link.
fn topology() -> String {
    let servers = (0..SERVERS).map(|n| node(format!("NGINX {n}"), if n == 0 { "1 kB, slow link" } else { "1 kB" }));
    let columns = [
        column("client", [node("wrk", format!("{CONNECTIONS} connections"))]),
        column("balancer", [node("one of several", "its link is the limit")]),
        column("servers", servers),
    ];
    let sent = (0..SERVERS).map(|to| band(0, to, if to == 0 { 0.083 } else { 0.3 }));
    flow("The machines", &columns, &[vec![band(0, 0, 1.0)], sent.collect()])
}

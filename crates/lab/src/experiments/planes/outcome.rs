//! Report of the runs: claims by ratios within a round, tables, plots, and published models of systems that cannot run
//! here.

use super::measure::Run;
use super::{Arm, DIRECT, EXPERIMENT};
use crate::study::figures::{row, told};
use crate::study::topology::{column, even, node};
use crate::study::{Claim, Finding, Found, Plot, Rounds, Says};
use evenkeel_draw::axis::Axis;
use evenkeel_draw::chart::{Chart, Line, Size};
use evenkeel_draw::intervals::Row;
use serde_json::json;

const DIRECT_LESS: Claim = Claim {
    text: "A connection for each request: directly a request costs less than through HAProxy",
    source: "a cloud provider's comparison, throughput",
};
const KEEP_ALIVE: Claim = Claim {
    text: "HAProxy serves about twice as many requests over kept connections",
    source: "a cloud provider's comparison",
};
const MANAGED: Claim = Claim {
    text: "A managed balancer of layer 4 serves as much as none, one of layer 7 less, and only after ten minutes",
    source: "a cloud provider's comparison",
};
const KERNEL: Claim = Claim { text: "IPVS serves more than iptables", source: "a cloud provider's comparison" };
const OURS: [(Claim, &str, &str, bool); 6] = [
    (
        Claim::ours("evenkeel's HTTP costs less than HAProxy's, a connection for each request"),
        "evenkeel HTTP",
        "haproxy HTTP",
        false,
    ),
    (
        Claim::ours("evenkeel's HTTP costs less than HAProxy's, on kept connections"),
        "evenkeel HTTP",
        "haproxy HTTP",
        true,
    ),
    (
        Claim::ours("evenkeel's TCP costs less than HAProxy's, a connection for each request"),
        "evenkeel TCP",
        "haproxy TCP",
        false,
    ),
    (Claim::ours("evenkeel's TCP costs less than HAProxy's, on kept connections"), "evenkeel TCP", "haproxy TCP", true),
    (Claim::ours("evenkeel's HTTP costs less than NGINX's, on kept connections"), "evenkeel HTTP", "nginx HTTP", true),
    (
        Claim::ours("evenkeel's TCP costs less than NGINX's stream, on kept connections"),
        "evenkeel TCP",
        "nginx stream",
        true,
    ),
];

/// Measurements of all rounds.
pub struct Measured<'m> {
    pub arms: &'m [Arm],
    pub names: &'m [String],
    pub rounds: &'m Rounds<Run>,
}

impl Measured<'_> {
    fn figures(&self, name: &str, kept: bool, figure: impl Fn(&Run) -> f64) -> Option<Vec<f64>> {
        let at = self.arms.iter().position(|arm| arm.name == name && arm.kept == kept)?;
        Some(self.rounds.figures(at, figure))
    }

    fn findings(&self) -> Vec<Finding> {
        let whole = |name, kept| self.figures(name, kept, |run| run.us(None));
        let alone = |name, kept| self.figures(name, kept, |run| run.us(Some("balancer")));
        let rate = |kept| self.figures("haproxy HTTP", kept, |run| run.rate);
        let judge = |claim: Claim, what: &str, both: (Option<Vec<f64>>, Option<Vec<f64>>), says: Says| {
            Finding::of_ratio(claim, what, both, says, "one of both did not run")
        };
        let directly = (whole(DIRECT, false), whole("haproxy HTTP", false));
        let mut findings = vec![
            judge(DIRECT_LESS, "CPU time of the machine, directly over through HAProxy", directly, Says::AtMost(1.0)),
            judge(
                KEEP_ALIVE,
                "requests a second, kept over a connection each",
                (rate(true), rate(false)),
                Says::AtLeast(1.6),
            ),
        ];
        findings.extend(OURS.map(|(claim, ours, theirs, kept)| {
            let both = (alone(ours, kept), alone(theirs, kept));
            judge(claim, "CPU time of the balancer, evenkeel's over the other's", both, Says::AtMost(1.0))
        }));
        findings.push(Finding::not_shown(MANAGED, "managed balancers run at their providers only".into()));
        findings.push(Finding::not_shown(KERNEL, "the lab compares no IPVS, which many kernels do not have".into()));
        findings
    }

    /// Plot of requests per second over the first run of each, with a connection for each request.
    fn over_time(&self) -> Plot {
        let of = self.arms.iter().enumerate().filter(|(_, arm)| !arm.kept);
        let line = |(at, arm): (usize, &Arm)| {
            let points = self.rounds.of(at).next().map(|run| run.steps.clone()).unwrap_or_default();
            Line { label: arm.name.to_owned(), points, band: Vec::new(), is_dashed: false }
        };
        let title = "Requests a second over the first run of each, a connection for each request".to_owned();
        let axis = |name: &str| Axis::Plain { name: name.into(), log: false };
        let (x, y, lines) = (axis("seconds"), axis("requests a second"), of.map(line).collect());
        let chart = Chart { title: String::new(), x, y, lines, marks: Vec::new(), size: Size::Report };
        Plot::drawn(title, chart.svg())
    }

    pub fn found(&self) -> Found {
        let header = [
            "",
            "requests/s",
            "balancer, CPU us/request",
            "endpoints",
            "load",
            "machine",
            "accounted for",
            "failed runs",
        ];
        let mut figures = vec![header.map(str::to_owned).to_vec()];
        for (at, name) in self.names.iter().enumerate() {
            let of = |digits: usize, figure: &dyn Fn(&Run) -> f64| told(&self.rounds.figures(at, figure), digits);
            figures.push(vec![
                name.clone(),
                of(0, &|run| run.rate),
                of(1, &|run| run.us(Some("balancer"))),
                of(1, &|run| run.us(Some("endpoints"))),
                of(1, &|run| run.us(Some("load"))),
                of(1, &|run| run.us(None)),
                of(2, &|run| run.used.accounted()),
                self.rounds.failed_of(at),
            ]);
        }
        let plot = |(kept, group): (bool, Option<&'static str>)| {
            let of = self.arms.iter().enumerate().filter(|(_, arm)| arm.kept == kept);
            let row = |(at, arm): (usize, &Arm)| {
                let colour = usize::from(!arm.name.starts_with("evenkeel"));
                row(arm.name, &self.rounds.figures(at, |run| run.us(group)), None, colour)
            };
            let rows: Vec<Row> = of.map(row).collect();
            let whose = if group.is_some() { "of the balancer" } else { "of the whole machine" };
            let how = if kept { "kept connections" } else { "a connection for each request" };
            let title = format!("CPU time {whose}, {how}");
            Plot::of_rows(title, "microseconds a request", &rows)
        };
        let run = |run: &Run| json!({ "rate": run.rate, "requests": run.requests, "steps": run.steps, "cpu": run.used.json() });
        let plots = [(false, Some("balancer")), (false, None), (true, Some("balancer")), (true, None)];
        Found {
            findings: self.findings(),
            figures,
            plots: plots.map(plot).into_iter().chain([self.over_time(), managed()]).collect(),
            lead: 2,
            raw: self.rounds.json(run),
            failed: self.rounds.failed(),
            ..none()
        }
    }
}

/// Report without figures, to which each part that runs adds its own.
pub fn none() -> Found {
    Found {
        title: "On which plane should load be balanced?",
        topology: topology(),
        method: EXPERIMENT.docs.split("\n\n").map(str::to_owned).collect(),
        ..Found::default()
    }
}

/// Plot of figures that providers publish of their managed balancers; not measured.
fn managed() -> Plot {
    let line = |label: &str, points: &[(f64, f64)]| Line {
        label: label.to_owned(),
        points: points.to_vec(),
        band: Vec::new(),
        is_dashed: true,
    };
    let title = "A model, not measured: managed balancers as published, share of what they reach in the end".to_owned();
    let lines = vec![
        line("of layer 4", &[(0.0, 1.0), (15.0, 1.0)]),
        line("of layer 7", &[(0.0, 0.3), (10.0, 1.0), (15.0, 1.0)]),
    ];
    let x = Axis::Plain { name: "minutes under load".into(), log: false };
    let chart = Chart { title: String::new(), x, y: Axis::Share, lines, marks: Vec::new(), size: Size::Report };
    Plot::drawn(title, chart.svg())
}

fn topology() -> String {
    even(&[
        column("load", [node("ab, wrk, h2load", "200 connections")]),
        column("balancer", [node("one of several, or none", "a core of its own")]),
        column("endpoints", [node("NGINX 1", "4 kB"), node("NGINX 2", "4 kB")]),
    ])
}

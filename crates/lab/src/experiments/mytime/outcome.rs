//! Report of the runs: every claim of the publication with its figure, by ratios within a round.

use super::balancer::Balancing;
use super::run::Run;
use super::system::{CLIENTS, LEVELS, NODES, SERVICES};
use crate::stats::{Interval, Spread};
use crate::study::topology::{column, even, node};
use crate::study::{Claim, Finding, Found, Plot, Rounds, Says, Versions};
use evenkeel_draw::intervals::Row;
use serde_json::{Value, json};

/// Figure that a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Rate,
    Response,
    Peak,
    Finish,
}

impl Figure {
    const ALL: [Figure; 4] = [Figure::Rate, Figure::Response, Figure::Peak, Figure::Finish];

    fn name(self) -> &'static str {
        match self {
            Figure::Rate => "requests a second",
            Figure::Response => "response time",
            Figure::Peak => "peaks",
            Figure::Finish => "finish time",
        }
    }

    fn of(self, run: &Run) -> f64 {
        match self {
            Figure::Rate => run.load.rate,
            Figure::Response => run.load.mean_ms,
            Figure::Peak => {
                // MyTime itself is balanced by the edge, the same in every run.
                let inner = run.peaks.iter().enumerate().filter(|(at, _)| at % SERVICES.len() != 3);
                inner.map(|(_, peak)| peak).sum::<f64>() / (NODES * (SERVICES.len() - 1)) as f64
            }
            Figure::Finish => run.load.seconds,
        }
    }

    /// Figure normalised to 1 ms of service CPU time per request.
    fn at_equal_speed(self, run: &Run) -> f64 {
        match self {
            Figure::Rate => run.rate_at_equal_speed(),
            Figure::Response | Figure::Finish => self.of(run) / run.work_ms(),
            Figure::Peak => self.of(run),
        }
    }
}

/// Claim of the publication or of this project: ratio of two ways at a level.
struct Line {
    text: &'static str,
    published: &'static str,
    level: usize,
    figure: Figure,
    of: &'static str,
    over: &'static str,
    says: Says,
}

const RR: &str = "haproxy round robin";
const LC: &str = "haproxy leastconn";
const RANDOM: &str = "haproxy random(1)";
const TWO: &str = "haproxy random(2)";
const EXTERNAL: &str = "haproxy external";
const SHARED: &str = "evenkeel shared load";

#[rustfmt::skip]
const LINES: &[Line] = &[
    line("Without contention all algorithms serve the same: random(1) as much as leastconn", "all equal, random the worst", 0, Figure::Rate, RANDOM, LC, Says::Near(1.0, 0.05)),
    line("Without contention random(2) serves as much as leastconn", "just below", 0, Figure::Rate, TWO, LC, Says::Near(1.0, 0.05)),
    line("Without contention round robin serves as much as leastconn", "equal", 0, Figure::Rate, RR, LC, Says::Near(1.0, 0.05)),
    line("Moderate contention: random(1) serves less than leastconn", "10 % less than the best", 1, Figure::Rate, RANDOM, LC, Says::AtMost(1.0)),
    line("Moderate contention: random(2) serves as much as round robin", "the same", 1, Figure::Rate, TWO, RR, Says::Near(1.0, 0.03)),
    line("Moderate contention: random(2) has lower peaks than round robin", "30 % lower", 1, Figure::Peak, TWO, RR, Says::AtMost(1.0)),
    line("Moderate contention: random(2) has lower peaks than random(1)", "30 % lower", 1, Figure::Peak, TWO, RANDOM, Says::AtMost(1.0)),
    line("Moderate contention: leastconn serves more than random(2)", "4 % more", 1, Figure::Rate, LC, TWO, Says::AtLeast(1.0)),
    line("Moderate contention: leastconn has lower peaks than random(2)", "4 % lower", 1, Figure::Peak, LC, TWO, Says::AtMost(1.0)),
    line("Moderate contention: leastconn answers sooner than random(2)", "4 % sooner", 1, Figure::Response, LC, TWO, Says::AtMost(1.0)),
    line("Moderate contention: leastconn finishes before random(2)", "26 s earlier", 1, Figure::Finish, LC, TWO, Says::AtMost(1.0)),
    line("Moderate contention: an external balancer serves more than leastconn in sidecars", "3 % more", 1, Figure::Rate, EXTERNAL, LC, Says::AtLeast(1.0)),
    line("Moderate contention: an external balancer serves more than random(2) in sidecars", "7 % more", 1, Figure::Rate, EXTERNAL, TWO, Says::AtLeast(1.0)),
    line("Moderate contention: with an external balancer all finishes before random(2)", "38 s earlier", 1, Figure::Finish, EXTERNAL, TWO, Says::AtMost(1.0)),
    line("High contention: random(1) is far behind leastconn", "disastrous", 2, Figure::Rate, RANDOM, LC, Says::AtMost(0.9)),
    line("High contention: random(2) serves as much as round robin", "the same", 2, Figure::Rate, TWO, RR, Says::Near(1.0, 0.03)),
    line("High contention: random(2) has lower peaks than round robin", "the lowest peaks", 2, Figure::Peak, TWO, RR, Says::AtMost(1.0)),
    line("High contention: leastconn serves more than random(2)", "4 % more", 2, Figure::Rate, LC, TWO, Says::AtLeast(1.0)),
    line("High contention: leastconn finishes before random(2)", "24 s earlier", 2, Figure::Finish, LC, TWO, Says::AtMost(1.0)),
    line("High contention: an external balancer serves more than leastconn in sidecars", "3 % more", 2, Figure::Rate, EXTERNAL, LC, Says::AtLeast(1.0)),
    line("High contention: with an external balancer all finishes before random(2)", "36 s earlier", 2, Figure::Finish, EXTERNAL, TWO, Says::AtMost(1.0)),
    line("Without contention evenkeels that share load serve as much as an external one", OURS, 0, Figure::Rate, SHARED, "evenkeel external", Says::Near(1.0, 0.05)),
    line("Moderate contention: evenkeels that share load serve as much as an external one", OURS, 1, Figure::Rate, SHARED, "evenkeel external", Says::Near(1.0, 0.05)),
    line("High contention: evenkeels that share load serve as much as an external one", OURS, 2, Figure::Rate, SHARED, "evenkeel external", Says::Near(1.0, 0.05)),
    line("High contention: evenkeels that share load serve as much as an external HAProxy", OURS, 2, Figure::Rate, SHARED, EXTERNAL, Says::AtLeast(0.95)),
];

const OURS: &str = "";

const fn line(
    text: &'static str,
    published: &'static str,
    level: usize,
    figure: Figure,
    of: &'static str,
    over: &'static str,
    says: Says,
) -> Line {
    Line { text, published, level, figure, of, over, says }
}

struct Outcome<'o> {
    balancings: &'o [Balancing],
    rounds: &'o Rounds<Run>,
}

impl Outcome<'_> {
    fn figures(&self, name: &str, level: usize, figure: Figure) -> Option<Vec<f64>> {
        let at = self.balancings.iter().position(|one| one.name == name)?;
        Some(self.rounds.figures(level * self.balancings.len() + at, |run| figure.at_equal_speed(run)))
    }

    fn finding(&self, line: &Line) -> Finding {
        let source = if line.published == OURS { "evenkeel" } else { "HAProxy, 2019" };
        let claim = Claim { text: line.text, source };
        let runs = |name| self.figures(name, line.level, line.figure);
        let said = if line.published == OURS { String::new() } else { format!(" (published: {})", line.published) };
        let speed = if line.figure == Figure::Peak { "" } else { " at equal speed" };
        let what = format!("{} of {} over {}{speed}{said}", line.figure.name(), line.of, line.over);
        Finding::of_ratio(claim, &what, (runs(line.of), runs(line.over)), line.says, "HAProxy did not run")
    }

    /// Plot of each way at a level, relative to leastconn in sidecars of the same kind, which every run has.
    fn plot(&self, level: usize, figure: Figure) -> Plot {
        let base = self.figures("evenkeel leastconn", level, figure).unwrap_or_default();
        let row = |one: &Balancing| {
            let runs = self.figures(one.name, level, figure).unwrap_or_default();
            Row {
                name: one.name.to_owned(),
                interval: Interval::of_ratios(&runs, &base).map(|of| (of.low, of.high)),
                median: Spread::of_ratios(&runs, &base).map_or(0.0, |of| of.median),
                expected: Some(1.0),
                colour: if one.ours { 0 } else { 1 },
            }
        };
        let rows: Vec<Row> = self.balancings.iter().map(row).collect();
        let title = format!("{}: {} at equal speed", capital(LEVELS[level].0), figure.name());
        Plot::of_rows(title, "over leastconn in sidecars; dashed: equal", &rows)
    }

    fn table(&self) -> Vec<Vec<String>> {
        let mut table = vec![
            [
                "",
                "requests/s",
                "mean ms",
                "p99 ms",
                "peak",
                "finish s",
                "services, CPU ms/request",
                "sidecars, CPU ms/request",
                "failed",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        for (level, (level_name, _)) in LEVELS.iter().enumerate() {
            for (at, one) in self.balancings.iter().enumerate() {
                let index = level * self.balancings.len() + at;
                let median = |figure: &dyn Fn(&Run) -> f64| {
                    Spread::of(&self.rounds.figures(index, figure)).map_or(0.0, |of| of.median)
                };
                let cpu = |run: &Run| {
                    run.used.of("balancers beside services").as_secs_f64() * 1e3 / run.load.answered.max(1) as f64
                };
                let mut row = vec![format!("{level_name}: {}", one.name)];
                row.extend(Figure::ALL[..2].iter().map(|figure| format!("{:.1}", median(&|run| figure.of(run)))));
                row.push(format!("{:.0}", median(&|run| run.load.quantile(0.99))));
                row.extend(Figure::ALL[2..].iter().map(|figure| format!("{:.2}", median(&|run| figure.of(run)))));
                row.extend([format!("{:.2}", median(&Run::work_ms)), format!("{:.2}", median(&cpu))]);
                let failed: u64 = self.rounds.of(index).map(|run| run.load.failures()).sum();
                row.push(failed.to_string());
                table.push(row);
            }
        }
        table
    }

    fn raw(&self) -> Value {
        let run = |run: &Run| json!({ "load": run.load.json(), "peaks": run.peaks, "cpu": run.used.json(), "cpu_by_service": run.kinds.json() });
        self.rounds.json(run)
    }
}

pub fn found(
    balancings: &[Balancing],
    names: &[String],
    rounds: &Rounds<Run>,
    docs: &str,
    versions: Versions,
) -> Found {
    let outcome = Outcome { balancings, rounds };
    let shown = [Figure::Rate, Figure::Response, Figure::Peak];
    let plots = (0..LEVELS.len()).flat_map(|level| shown.map(|figure| outcome.plot(level, figure)));
    let accounted: Vec<f64> = (0..names.len()).flat_map(|at| rounds.figures(at, |run| run.used.accounted())).collect();
    let mut method: Vec<String> = docs.split("\n\n").map(str::to_owned).collect();
    if let Some(Spread { median, min, max }) = Spread::of(&accounted) {
        method.push(format!(
            "The CPU time of services, balancers, clients and the lab adds up to {median:.3} of the machine's ({min:.3} to {max:.3} by \
run); the rest is the kernel's own and that of other programs."
        ));
    }
    Found {
        title: "Which algorithm shall sidecars use?",
        topology: topology(),
        findings: LINES.iter().map(|line| outcome.finding(line)).collect(),
        figures: outcome.table(),
        plots: plots.collect(),
        lead: 2 * shown.len(),
        method,
        versions,
        raw: outcome.raw(),
        failed: rounds.failed(),
        ..Found::default()
    }
}

fn capital(text: &str) -> String {
    text[..1].to_uppercase() + &text[1..]
}

/// Diagram: clients, the edge, the nodes, and the nodes that they call.
fn topology() -> String {
    let nodes = |text: &'static str| (1..=NODES).map(move |n| node(format!("node {n}"), text));
    even(&[
        column("clients", [node("clients", format!("{CLIENTS} at once"))]),
        column("edge", [node("balancer", "leastconn")]),
        column("a node's MyTime", nodes("MyTime and its sidecar")),
        column("what it calls", nodes("User, Time, Log")),
    ])
}

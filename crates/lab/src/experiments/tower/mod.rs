//! Tower experiment: the three demonstrations of Peak EWMA in tower's pull request 76, in real time.

// Order: stack, table
mod stack;
mod table;

use crate::balancers::{self, Algorithm, Balancer, Setup};
use crate::child::Child;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::http;
use crate::load::generator::Plan;
use crate::origin;
use crate::scratch::Scratch;
use crate::stats::{Interval, Spread, quantile};
use crate::study::comparison::{Case, Comparison};
use crate::study::figures::{row, told};
use crate::study::topology::{column, even, node};
use crate::study::{self, Claim, Finding, Found, Options, Plot, Prediction, Rounds, Versions};
use crate::worker;
use clap::{Args, FromArgMatches};
use serde_json::json;
use stack::Stack;
use std::time::Duration;
use table::{ALL, ROWS, SHARES, Table};

pub static EXPERIMENT: Experiment = Experiment {
    name: "tower",
    summary: "The three published tables of tower's Peak EWMA: tower's balancer, evenkeel's in its place, evenkeel's proxy",
    docs: "tower's change #76 brought Peak EWMA with three tables: percentiles of a load that is kept at so many requests at once, over \
endpoints that take a random whole number of milliseconds, most of them short, one or few long. The tables come from three different \
demonstrations. Here each runs in one process as it did then, with tower's own balancer of today and with evenkeel's in its place; \
the first also over sockets: clients, evenkeel, and ten processes as endpoints. The other two are 33,000 requests a second, which two \
cores cannot carry over sockets.

Today's tower takes 30 ms for the latency of an endpoint that has not answered yet; that of the publication took none. Runs are \
shorter here: 10,000 requests of the first, 100,000 of the others.

Endpoints take any number of requests at once, so sending all to the fastest would win: the tables check known behaviour, and say \
nothing about which algorithm is better.",
    args: Options::augment_args,
    run: |matches| Options::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|o| run(&o)),
};

/// Concurrent requests of an endpoint over sockets: more than the load has.
const PLACES: usize = 64;
const PATIENCE: Duration = Duration::from_secs(300);

/// Way of balancing, run against a table. `row`: published row to compare with.
struct Arm {
    table: usize,
    row: usize,
    name: &'static str,
    way: Way,
}

#[derive(Clone, Copy)]
enum Way {
    Stack(Stack),
    Proxy(Algorithm),
}

/// Names of the publication's rows in the scenario.
const SIMULATED: [&str; 3] = ["peak_ewma", "random", "round_robin"];
/// Explanation of a deviation.
const WHY: &str = "The simulator knows no processor time: with thousands of requests at once, each also waits for the thread that sends and \
answers all of them. And where about one request of a hundred meets the slow endpoint, p99 lies between its latencies and those of the \
others, so that little moves it far.";

/// All ways, with the published row that each is compared with.
const WAYS: [(&str, usize, Way); 8] = [
    ("tower, Peak EWMA", 0, Way::Stack(Stack::PeakEwma)),
    ("tower, least loaded", 1, Way::Stack(Stack::Pending)),
    ("evenkeel-tower, Peak EWMA", 0, Way::Stack(Stack::Ours("peak_ewma"))),
    ("evenkeel-tower, least loaded", 1, Way::Stack(Stack::Ours("random"))),
    ("evenkeel-tower, round robin", 2, Way::Stack(Stack::Ours("round_robin"))),
    ("evenkeel's proxy, Peak EWMA", 0, Way::Proxy(Algorithm::PeakEwma)),
    ("evenkeel's proxy, least loaded", 1, Way::Proxy(Algorithm::Random)),
    ("evenkeel's proxy, round robin", 2, Way::Proxy(Algorithm::RoundRobin)),
];

const CELLS: [Claim; 3] = [
    Claim { text: "First table, p50 to p95: each cell within 5 % or 2 ms, whatever way it went", source: "tower #76" },
    Claim { text: "Second table, p50 to p95: each cell within 5 % or 2 ms", source: "tower #76" },
    Claim { text: "Third table, p50 to p95: each cell within 5 % or 2 ms", source: "tower #76" },
];
const PEAK_FIRST: [Claim; 3] = [
    Claim { text: "First table: at p99.9 Peak EWMA is not slower than least loaded", source: "tower #76" },
    Claim { text: "Second table: at p99 and p99.9 Peak EWMA is not slower than least loaded", source: "tower #76" },
    Claim { text: "Third table: at p99.9 Peak EWMA is not slower than least loaded", source: "tower #76" },
];
const LEAST_SECOND: [Claim; 3] = [
    Claim { text: "First table: at p99 and p99.9 least loaded is not slower than round robin", source: "tower #76" },
    Claim { text: "Second table: at p99 and p99.9 least loaded is not slower than round robin", source: "tower #76" },
    Claim { text: "Third table: at p99 and p99.9 least loaded is not slower than round robin", source: "tower #76" },
];

/// Latency in milliseconds at each of [`SHARES`].
type Run = [f64; 5];

fn run(options: &Options) -> Result<()> {
    let evenkeel = &balancers::find_evenkeel(options.evenkeel.as_deref())?;
    let versions = vec![evenkeel.named_version(), ("tower".into(), "0.5, built in".into())];
    let arms: Vec<Arm> = (0..ALL.len())
        .flat_map(|table| WAYS.iter().map(move |&(name, row, way)| Arm { table, row, name, way }))
        .filter(|arm| ALL[arm.table].over_sockets || matches!(arm.way, Way::Stack(_)))
        .collect();
    let names: Vec<String> = arms.iter().map(|arm| format!("{}, {} table", arm.name, ALL[arm.table].name)).collect();
    let requests = |table: &Table| {
        let usual = if options.quick { table.requests / 20 } else { table.requests };
        usual.max(table.at_once * 2)
    };
    let simulated = |table: &Table| Prediction::built_in(evenkeel.program(), table.simulated, requests(table) as u64);
    let predictions = ALL.iter().map(simulated).collect::<Result<Vec<_>>>()?;
    let rounds = Rounds::run(&names, options.rounds(), |at, round| {
        let (arm, table) = (&arms[at], &ALL[arms[at].table]);
        let requests = requests(table);
        match arm.way {
            Way::Stack(stack) => {
                let latencies = stack::run(stack, table, requests, round as u64)?;
                Ok(SHARES.map(|share| quantile(&latencies, share).unwrap_or(0.0)))
            }
            Way::Proxy(algorithm) => over_sockets(evenkeel, algorithm, table, requests),
        }
    })?;
    let measured = Measured { arms: &arms, rounds: &rounds };
    study::present_beside(&measured.found(versions), &measured.beside(&predictions), options)
}

fn over_sockets(evenkeel: &Balancer, algorithm: Algorithm, table: &Table, requests: usize) -> Result<Run> {
    let folder = Scratch::new()?;
    let mut endpoints = Vec::new();
    let start = |&below_ms: &u64| -> Result<Child> {
        let bind = http::local(origin::free_ports()?[0]);
        endpoints.push(bind);
        worker::Arguments { bind, places: PLACES, spin: false, below_ms: Some(below_ms) }
            .start(Vec::new(), folder.path())
    };
    let _workers = table.below_ms.iter().map(start).collect::<Result<Vec<_>>>()?;
    let front = http::local(origin::free_ports()?[0]);
    let _running = evenkeel.start(Vec::new(), Setup::of_algorithm(algorithm, &endpoints, front))?;
    let each = (requests / table.at_once) as u64;
    let plan = Plan::closed(vec![format!("{front}/")], table.at_once as u32, each);
    let load = plan.start(Vec::new(), &folder.path().join("load"))?.end(PATIENCE)?;
    match load.failures() {
        0 => Ok(SHARES.map(|share| load.quantile(share))),
        _ => Err(Error::Refused(format!("requests failed: {:?}", load.failed))),
    }
}

/// Measurements of all rounds.
struct Measured<'m> {
    arms: &'m [Arm],
    rounds: &'m Rounds<Run>,
}

impl Measured<'_> {
    /// Largest deviation over the cells p50 to p95, relative to the tolerance, by round.
    fn deviation(&self, at: usize) -> Vec<f64> {
        let (arm, shares) = (&self.arms[at], 0..3);
        let published = &ALL[arm.table].published[arm.row];
        let of = |run: &Run| {
            let cell = |column: usize| (run[column] - published[column]).abs() / (published[column] * 0.05).max(2.0);
            shares.clone().map(cell).fold(0.0, f64::max)
        };
        self.rounds.figures(at, of)
    }

    /// Compares predictions, by table, of evenkeel's algorithms; the simulator does not have tower's own.
    fn beside(&self, predictions: &[Prediction]) -> Comparison {
        let of = self.arms.iter().enumerate().filter(|(_, arm)| arm.name.starts_with("evenkeel"));
        let case = |(at, arm): (usize, &Arm)| {
            let group = format!("The {} table", ALL[arm.table].name);
            let case =
                Case { group: &group, name: arm.name, simulated: ("", SIMULATED[arm.row]), colour: arm.row, why: WHY };
            let column = |share: f64| SHARES.iter().position(|of| *of == share).unwrap_or(0);
            case.latencies(&predictions[arm.table], |share| self.rounds.figures(at, |run| run[column(share)]))
        };
        of.flat_map(case).collect()
    }

    fn cells(&self, table: usize) -> Finding {
        let of = self.arms.iter().enumerate().filter(|(_, arm)| arm.table == table);
        let worst = of.max_by(|(a, _), (b, _)| {
            let median = |at: usize| Spread::of(&self.deviation(at)).map_or(0.0, |of| of.median);
            median(*a).total_cmp(&median(*b))
        });
        match worst {
            Some((at, arm)) => {
                let what = format!("the worst cell, of {}, as a part of what it may differ", arm.name);
                Finding::at_most(CELLS[table], &what, Interval::of(&self.deviation(at)), 1.0)
            }
            None => Finding::not_shown(CELLS[table], "it did not run".into()),
        }
    }

    /// Claim on evenkeel instead of tower's balancer: the larger ratio of two rows at these columns.
    fn order(&self, claim: Claim, table: usize, (of, over): (&str, &str), columns: &[usize]) -> Finding {
        let at = |name: &str| self.arms.iter().position(|arm| arm.table == table && arm.name == name);
        let (Some(of_at), Some(over_at)) = (at(of), at(over)) else {
            return Finding::not_shown(claim, "it did not run".into());
        };
        let rounds = self.rounds.figures(of_at, |_| 0.0).len();
        let ratios = columns.iter().map(|&column| {
            let figures = |at: usize| self.rounds.figures(at, |run| run[column]);
            figures(of_at).into_iter().zip(figures(over_at)).map(|(of, over)| of / over).collect::<Vec<f64>>()
        });
        // NaN wins: a round in which either of the two failed has no ratio.
        let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
        let worst =
            ratios.fold(vec![0.0; rounds], |worst, of| worst.into_iter().zip(of).map(|(a, b)| larger(a, b)).collect());
        Finding::at_most(claim, &format!("{of} over {over}"), Interval::of(&worst), 1.0)
    }

    fn found(&self, versions: Versions) -> Found {
        let mut figures =
            vec![["", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "p99.9 ms", "failed runs"].map(str::to_owned).to_vec()];
        for (index, table) in ALL.iter().enumerate() {
            for (row, name) in ROWS.iter().enumerate() {
                let cells = table.published[row].map(|ms| format!("{ms:.0}"));
                figures.push(
                    [vec![format!("{} table, published: {name}", table.name)], cells.to_vec(), vec![String::new()]]
                        .concat(),
                );
                for (at, arm) in self.arms.iter().enumerate().filter(|(_, arm)| arm.table == index && arm.row == row) {
                    let cell = |column: usize| told(&self.rounds.figures(at, |run| run[column]), 0);
                    let failed = self.rounds.failed_of(at);
                    figures
                        .push(std::iter::once(arm.name.to_owned()).chain((0..5).map(cell)).chain([failed]).collect());
                }
            }
        }
        let findings = (0..ALL.len()).flat_map(|table| {
            let (peak, least, turns) = (WAYS[2].0, WAYS[3].0, WAYS[4].0);
            // At p99 of the first and third table, the difference is within timer noise.
            let columns: &[usize] = if table == 1 { &[3, 4] } else { &[4] };
            [
                self.cells(table),
                self.order(PEAK_FIRST[table], table, (peak, least), columns),
                self.order(LEAST_SECOND[table], table, (least, turns), &[3, 4]),
            ]
        });
        let plots = (0..ALL.len()).flat_map(|table| [2, 4].map(|column| self.plot(table, column)));
        Found {
            title: "Does Peak EWMA steer away from a slow endpoint?",
            topology: topology(),
            findings: findings.collect(),
            figures,
            plots: plots.collect(),
            method: EXPERIMENT.docs.split("\n\n").map(str::to_owned).collect(),
            versions,
            raw: self.rounds.json(|run| json!(run)),
            failed: self.rounds.failed(),
            ..Found::default()
        }
    }

    fn plot(&self, table: usize, column: usize) -> Plot {
        let of = self.arms.iter().enumerate().filter(|(_, arm)| arm.table == table);
        let row = |(at, arm): (usize, &Arm)| {
            let published = ALL[table].published[arm.row][column];
            row(arm.name, &self.rounds.figures(at, |run| run[column]), Some(published), arm.row)
        };
        let title = format!("The {} table at p{}", ALL[table].name, SHARES[column] * 100.0);
        Plot::of_rows(title, "milliseconds; dashed: as published", &of.map(row).collect::<Vec<_>>())
    }
}

fn topology() -> String {
    even(&[
        column("load", [node("50 at once", "the first table")]),
        column("balancer", [node("one of several", "")]),
        column("endpoints", ALL[0].below_ms.iter().map(|ms| node(format!("below {ms} ms"), ""))),
    ])
}

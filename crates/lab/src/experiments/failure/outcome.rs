//! Report over all rounds: findings for each fault and for the whole, relative to the best of the others.

use super::conduct::{Ran, Took};
use super::measure::{Felt, Lived, Struck};
use super::schedule::{FAULTS, Fault};
use super::traffic::{KINDS, PATIENCE};
use super::{ENDPOINTS, EXPERIMENT};
use crate::balancers::{Balancer, OURS};
use crate::stats::{Interval, Spread};
use crate::study::figures::{row, told};
use crate::study::topology::{band, column, node};
use crate::study::{Claim, Finding, Found, Plot, Versions};
use evenkeel_draw::flow::flow;
use evenkeel_draw::panels::{Panel, Series, Shade, panels};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const WHOLE: [Claim; 2] = [
    Claim::ours("All faults: through evenkeel at most as many requests fail as through the best of the others"),
    Claim::ours("All faults: the 99th percentile through evenkeel is at most that through the best of the others"),
];
const OVER: [Claim; KINDS.len()] = [
    Claim::ours("Over HTTP/1.1 evenkeel fails at most as many requests as the best of the others"),
    Claim::ours("So it does over HTTP/1.1 and TLS"),
    Claim::ours("So it does over HTTP/2 and TLS"),
    Claim::ours("So it does of calls of gRPC"),
];

/// Tolerance in seconds of the time to steer away: an endpoint gets a request every 24 ms.
const AWAY_NOISE: f64 = 0.1;
/// Factor by which a latency may be larger.
const P99_NOISE: f64 = 1.05;

/// Measurements of all rounds.
pub struct Measured<'m> {
    pub balancers: &'m [Balancer],
    /// Runs of all balancers, by round.
    pub rounds: &'m [&'m Ran],
    /// Reason why faults that drop packets are left out.
    pub left_out: Option<String>,
    /// Requests per second to each balancer.
    pub rate: u32,
}

#[derive(Clone, Copy)]
enum By {
    /// Upper bound of the difference to the other.
    Difference(f64),
    /// Upper bound of the ratio to the other.
    Ratio(f64),
}

#[derive(Clone, Copy)]
enum Part {
    Whole,
    Over(usize),
    Fault(&'static Fault),
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Whole => "the whole",
            Part::Over(kind) => KINDS[kind].1,
            Part::Fault(fault) => fault.name,
        }
    }
}

fn failed(felt: &Felt) -> f64 {
    felt.failed() as f64
}

/// 99th percentile in milliseconds; the clients' timeout if no request was answered.
fn p99(felt: &Felt) -> f64 {
    felt.quantiles_ms.map_or(PATIENCE.as_secs_f64() * 1e3, |q| q[1])
}

impl Measured<'_> {
    /// Figure of a balancer, by round. Each round has its own schedule.
    fn felt(&self, part: Part, balancer: usize, figure: impl Fn(&Felt) -> f64) -> Vec<f64> {
        let of = |ran: &Ran| {
            let took = &ran.took[balancer];
            match part {
                Part::Whole => Some(figure(&took.felt)),
                Part::Over(kind) => Some(figure(&took.over[kind])),
                Part::Fault(fault) => lived(ran, took, fault).map(|lived| figure(&lived.felt)),
            }
        };
        self.rounds.iter().copied().filter_map(of).collect()
    }

    fn lived(&self, fault: &Fault, balancer: usize, figure: impl Fn(&Lived) -> Option<f64>) -> Vec<f64> {
        let of = |ran: &Ran| lived(ran, &ran.took[balancer], fault).and_then(&figure);
        self.rounds.iter().copied().filter_map(of).collect()
    }

    fn finding(&self, claim: Claim, what: &str, by: By, of: impl Fn(usize) -> Vec<f64>) -> Finding {
        let median = |balancer: usize| Spread::of(&of(balancer)).map_or(f64::INFINITY, |of| of.median);
        let is_ours = |balancer: &usize| self.balancers[*balancer].name == OURS;
        let all = 0..self.balancers.len();
        let (Some(ours), Some(best)) = (
            all.clone().find(is_ours),
            all.filter(|balancer| !is_ours(balancer)).min_by(|a, b| median(*a).total_cmp(&median(*b))),
        ) else {
            return Finding::not_shown(claim, "no other balancer ran".into());
        };
        let (ours, theirs, name) = (of(ours), of(best), self.balancers[best].name);
        match by {
            By::Difference(most) => {
                let runs: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours - theirs).collect();
                Finding::at_most(claim, &format!("{what}, evenkeel less {name}"), Interval::of(&runs), most)
            }
            By::Ratio(most) => {
                let ratios = Interval::of_ratios(&ours, &theirs);
                Finding::at_most(claim, &format!("{what}, evenkeel over {name}"), ratios, most)
            }
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let failures =
            |claim, part| self.finding(claim, "failed requests", By::Difference(0.0), |at| self.felt(part, at, failed));
        let p99 =
            |claim, part| self.finding(claim, "99th percentile", By::Ratio(P99_NOISE), |at| self.felt(part, at, p99));
        let mut all = vec![failures(WHOLE[0], Part::Whole), p99(WHOLE[1], Part::Whole)];
        all.extend(OVER.iter().enumerate().map(|(kind, claim)| failures(*claim, Part::Over(kind))));
        for fault in &FAULTS {
            let [fails, steers, tail] = fault.claims;
            let missing = self.left_out.as_ref().filter(|_| fault.drops_packets());
            if let Some(why) = missing {
                all.extend(fault.claims.map(|claim| Finding::not_shown(claim, why.clone())));
            } else if self.felt(Part::Fault(fault), 0, failed).is_empty() {
                let why = "the run was too short for this fault".to_owned();
                all.extend(fault.claims.map(|claim| Finding::not_shown(claim, why.clone())));
            } else {
                let away = |at| self.lived(fault, at, |lived| Some(lived.away.as_secs_f64()));
                all.push(failures(fails, Part::Fault(fault)));
                all.push(self.finding(steers, "seconds to steer away", By::Difference(AWAY_NOISE), away));
                all.push(p99(tail, Part::Fault(fault)));
            }
        }
        all
    }

    /// Parts that were measured: the whole, each protocol, each fault that occurred.
    fn parts(&self) -> Vec<Part> {
        let there = |fault: &&Fault| self.rounds.iter().any(|ran| place(ran, fault).is_some());
        let kinds = (0..KINDS.len()).map(Part::Over);
        [Part::Whole].into_iter().chain(kinds).chain(FAULTS.iter().filter(there).map(Part::Fault)).collect()
    }

    fn row(&self, part: Part, balancer: usize) -> Vec<String> {
        let felt = |figure: fn(&Felt) -> f64, digits| told(&self.felt(part, balancer, figure), digits);
        let mut row = vec![
            format!("{}: {}", part.name(), self.balancers[balancer].name),
            felt(|felt| felt.gets as f64, 0),
            felt(|felt| felt.posts as f64, 0),
            felt(|felt| felt.calls as f64, 0),
            felt(|felt| felt.begun as f64, 0),
            felt(|felt| felt.quantiles_ms.map_or(f64::NAN, |q| q[0]), 1),
            felt(p99, 1),
        ];
        let lived = |figure: fn(&Lived) -> Option<f64>, digits| match part {
            Part::Fault(fault) => told(&self.lived(fault, balancer, figure), digits),
            _ => String::new(),
        };
        row.push(lived(|lived| Some(lived.away.as_secs_f64()), 2));
        row.push(lived(|lived| lived.share_back.map(|time| time.as_secs_f64()), 2));
        row.push(lived(|lived| lived.reached.map(|count| count as f64), 0));
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for ran in self.rounds.iter().copied() {
            let felt = match part {
                Part::Whole => Some(&ran.took[balancer].felt),
                Part::Over(kind) => Some(&ran.took[balancer].over[kind]),
                Part::Fault(fault) => lived_of(ran, balancer, fault),
            };
            felt.into_iter()
                .flat_map(|felt| &felt.seen)
                .for_each(|(what, count)| *seen.entry(what).or_default() += count);
        }
        row.push(seen.iter().map(|(what, count)| format!("{what}: {count}")).collect::<Vec<_>>().join(", "));
        row
    }

    fn figures(&self) -> Vec<Vec<String>> {
        let header = [
            "",
            "failed GETs",
            "failed POSTs",
            "failed calls",
            "cut answers",
            "p50 ms",
            "p99 ms",
            "hurt until s",
            "share back s",
            "reached it",
            "as clients saw them, all rounds",
        ];
        let rows = self.parts().into_iter().flat_map(|part| (0..self.balancers.len()).map(move |at| (part, at)));
        let rows = rows.map(|(part, balancer)| self.row(part, balancer));
        [header.map(str::to_owned).to_vec()].into_iter().chain(rows).collect()
    }

    fn plots(&self) -> Vec<Plot> {
        let compared = |title: &str, unit: &str, figure: fn(&Felt) -> f64| {
            let of =
                |(at, balancer): (usize, &Balancer)| row(balancer.name, &self.felt(Part::Whole, at, figure), None, at);
            let rows: Vec<_> = self.balancers.iter().enumerate().map(of).collect();
            Plot::of_rows(title, unit, &rows)
        };
        let mut all = vec![
            compared("Failed requests of a run", "requests", failed),
            compared("99th percentile of a run", "milliseconds", p99),
        ];
        for fault in FAULTS.iter().filter(|fault| self.rounds.iter().any(|ran| place(ran, fault).is_some())) {
            let title = format!("Failed requests, {}: {}", fault.name, fault.about);
            let of = |(at, balancer): (usize, &Balancer)| {
                row(balancer.name, &self.felt(Part::Fault(fault), at, failed), None, at)
            };
            let rows: Vec<_> = self.balancers.iter().enumerate().map(of).collect();
            all.push(Plot::of_rows(title, "failed requests", &rows));
        }
        if let Some(first) = self.rounds.first() {
            all.extend(self.balancers.iter().zip(&first.took).map(|(balancer, took)| course(balancer, took, first)));
        }
        all
    }

    /// Report of the experiment.
    pub fn found(&self, versions: Versions) -> Found {
        let mut method: Vec<String> = EXPERIMENT.docs.split("\n\n").map(str::to_owned).collect();
        method.extend(self.balancers.iter().map(|balancer| format!("{}: {}", balancer.name, balancer.kind.settings)));
        Found {
            title: "How do load balancers live with endpoints that break?",
            topology: topology(self.balancers, self.rate),
            findings: self.findings(),
            figures: self.figures(),
            plots: self.plots(),
            method,
            versions,
            raw: json!({
                "rate": self.rate,
                "loop": "open",
                "left_out": self.left_out,
                "rounds": self.rounds.iter().map(|ran| self.json(ran)).collect::<Vec<_>>(),
            }),
            ..Found::default()
        }
    }

    fn json(&self, ran: &Ran) -> Value {
        let second = |at_ns: u64| at_ns.saturating_sub(ran.begin_ns) as f64 / 1e9;
        let fault = |struck: &Struck| {
            json!({
                "name": struck.fault.name,
                "about": struck.fault.about,
                "endpoint": struck.endpoint + 1,
                "from_s": second(struck.from_ns),
                "until_s": second(struck.until_ns),
                "recovered_s": second(struck.to_ns),
            })
        };
        let took = |(balancer, took): (&Balancer, &Took)| {
            let over = KINDS.iter().zip(&took.over).map(|((_, name, _), felt)| ((*name).to_owned(), felt_json(felt)));
            json!({
                "name": balancer.name,
                "whole": felt_json(&took.felt),
                "over": over.collect::<serde_json::Map<_, _>>(),
                "retries": took.retries,
                "posts_done_twice": took.posts_twice,
                "faults": took.lived.iter().map(lived_json).collect::<Vec<_>>(),
                "seconds": took.seconds.iter().map(|s| json!({
                    "failed_gets": s.failed[0], "failed_posts": s.failed[1], "failed_calls": s.failed[2], "p99_ms": s.p99_ms,
                    "reached": s.reached,
                })).collect::<Vec<_>>(),
            })
        };
        json!({
            "seed": ran.seed,
            "faults": ran.struck.iter().map(fault).collect::<Vec<_>>(),
            "balancers": self.balancers.iter().zip(&ran.took).map(took).collect::<Vec<_>>(),
        })
    }
}

/// Index of a fault in a run.
fn place(ran: &Ran, fault: &Fault) -> Option<usize> {
    ran.struck.iter().position(|struck| struck.fault.name == fault.name)
}

fn lived<'t>(ran: &Ran, took: &'t Took, fault: &Fault) -> Option<&'t Lived> {
    place(ran, fault).map(|at| &took.lived[at])
}

fn lived_of<'r>(ran: &'r Ran, balancer: usize, fault: &Fault) -> Option<&'r Felt> {
    lived(ran, &ran.took[balancer], fault).map(|lived| &lived.felt)
}

/// Plot of the first round of a balancer, by seconds.
fn course(balancer: &Balancer, took: &Took, ran: &Ran) -> Plot {
    let second = |at_ns: u64| at_ns.saturating_sub(ran.begin_ns) as f64 / 1e9;
    let shade = |struck: &Struck| {
        let (from, until) = (second(struck.from_ns), second(struck.until_ns));
        let name = format!("{} @{}", struck.fault.name, struck.endpoint + 1);
        let about = format!("{} at endpoint {}, {from:.1} s to {until:.1} s", struck.fault.name, struck.endpoint + 1);
        Shade { name, about, from, until }
    };
    let series = |name: String, value: &dyn Fn(&super::measure::Second) -> usize| Series {
        name,
        values: took.seconds.iter().map(|second| value(second) as f64).collect(),
    };
    let failures = ["GETs", "POSTs", "calls of gRPC"].iter().enumerate();
    let failures = failures.map(|(at, name)| series(format!("failed {name}"), &|second| second.failed[at])).collect();
    let shares =
        (0..usize::from(ENDPOINTS)).map(|at| series(format!("endpoint {}", at + 1), &|second| second.reached[at]));
    let all = ran.took.iter().flat_map(|took| &took.seconds);
    let most = all.map(|second| second.failed.iter().sum::<usize>()).max().unwrap_or(0).max(1) as f64;
    let p99 = took.seconds.iter().map(|second| second.p99_ms).collect();
    let title = format!("The first round of {}, second by second", balancer.name);
    let drawn = [
        Panel::Bars { title: "failed a second".into(), series: failures, most },
        Panel::Line { title: "99th percentile, milliseconds".into(), values: p99, ends: (5.0, 10_000.0) },
        Panel::Shares { title: "requests of each endpoint".into(), series: shares.collect() },
    ];
    let shades: Vec<Shade> = ran.struck.iter().map(shade).collect();
    let svg = panels(&title, &drawn, &shades);
    Plot::drawn(title, svg)
}

fn topology(balancers: &[Balancer], rate: u32) -> String {
    let columns = [
        column(
            "clients",
            KINDS.iter().map(|(_, name, share)| node(*name, format!("{:.0} % of {rate}/s", share * 100.0))),
        ),
        column("balancers, all at once", balancers.iter().map(|b| node(b.name, format!("{rate}/s each")))),
        column("endpoints", (1..=ENDPOINTS).map(|n| node(format!("endpoint {n}"), "8 to 12 ms each"))),
    ];
    let rate = f64::from(rate);
    let (many, endpoints) = (balancers.len(), usize::from(ENDPOINTS));
    let sent = (0..KINDS.len()).flat_map(|from| (0..many).map(move |to| band(from, to, rate * KINDS[from].2)));
    let passed = (0..many).flat_map(|from| (0..endpoints).map(move |to| band(from, to, rate / endpoints as f64)));
    flow("The machines", &columns, &[sent.collect(), passed.collect()])
}

fn felt_json(felt: &Felt) -> Value {
    let quantile = |which: usize| felt.quantiles_ms.map(|q| q[which]);
    json!({
        "requests": felt.requests,
        "failed_gets": felt.gets,
        "failed_posts": felt.posts,
        "failed_calls": felt.calls,
        "cut_answers": felt.begun,
        "seen": felt.seen,
        "p50_ms": quantile(0),
        "p99_ms": quantile(1),
        "p999_ms": quantile(2),
    })
}

fn lived_json(lived: &Lived) -> Value {
    json!({
        "felt": felt_json(&lived.felt),
        "hurt_until_s": lived.away.as_secs_f64(),
        "hurt_to_the_end": lived.to_the_end,
        "first_back_s": lived.first_back.map(|time| time.as_secs_f64()),
        "share_back_s": lived.share_back.map(|time| time.as_secs_f64()),
        "reached_broken_endpoint": lived.reached,
    })
}

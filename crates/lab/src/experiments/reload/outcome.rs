//! Report over all rounds: failures of each balancer, the time until a reload takes effect, and the processes and
//! memory that remain after it.

use super::EXPERIMENT;
use super::conduct::Went;
use super::traffic::{Count, KINDS, Row};
use crate::balancers::{Balancer, OURS};
use crate::stats::{Interval, Spread};
use crate::study::figures::{row, told};
use crate::study::topology::{band, column, node};
use crate::study::{Claim, Finding, Found, Plot, Rounds, Versions};
use evenkeel_draw::flow::flow;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const MIB: f64 = 1024.0 * 1024.0;

/// Claims by balancer: no request fails, no stream drops.
static CLAIMS: [(&str, [Claim; 2]); 4] = [
    (
        "evenkeel",
        [
            Claim::ours("evenkeel: no request fails while it reloads"),
            Claim::ours("evenkeel: no stream drops while it reloads"),
        ],
    ),
    (
        "haproxy",
        [
            Claim {
                text: "HAProxy: no request fails while it reloads",
                source: "HAProxy, \"Truly Seamless Reloads\", 2017",
            },
            Claim {
                text: "HAProxy: no stream drops while it reloads",
                source: "HAProxy, \"Truly Seamless Reloads\", 2017",
            },
        ],
    ),
    (
        "nginx",
        [
            Claim { text: "NGINX: no request fails while it reloads", source: "NGINX, \"Controlling nginx\"" },
            Claim { text: "NGINX: no stream drops while it reloads", source: "NGINX, \"Controlling nginx\"" },
        ],
    ),
    (
        "envoy",
        [
            Claim { text: "Envoy: no request fails while its files change", source: "Envoy, \"xDS configuration\"" },
            Claim { text: "Envoy: no stream drops while its files change", source: "Envoy, \"xDS configuration\"" },
        ],
    ),
];
const UPGRADE: Claim = Claim::ours("evenkeel: no request fails and no stream drops while its binary is replaced");
const SOON: Claim = Claim::ours("A reload of evenkeel is at work as soon as one of the best of the others");

/// Measurements of all rounds.
pub struct Measured<'m> {
    pub balancers: &'m [Balancer],
    pub rounds: &'m Rounds<Went>,
    /// Number of reloads of each balancer in a round.
    pub reloads: u32,
}

/// Number of failed requests, or of failed streams.
fn lost(counts: &[Count; KINDS.len()], streams: bool) -> f64 {
    let rows = KINDS.iter().zip(counts).filter(|(row, _)| row.kind.is_stream() == streams);
    rows.map(|(_, count)| count.failures()).sum::<usize>() as f64
}

/// Median time until a reload took effect, in milliseconds.
fn at_work(went: &Went) -> f64 {
    went.took.get(went.took.len() / 2).copied().unwrap_or_default().as_secs_f64() * 1e3
}

impl Measured<'_> {
    fn findings(&self) -> Vec<Finding> {
        let mut all = Vec::new();
        for (at, balancer) in self.balancers.iter().enumerate() {
            let claims = CLAIMS.iter().find(|(name, _)| *name == balancer.name);
            for (claim, streams) in
                claims.iter().flat_map(|(_, [requests, streams])| [(requests, false), (streams, true)])
            {
                let what = if streams { "dropped streams" } else { "failed requests" };
                let what = format!("{what} over {} reloads", self.reloads);
                let runs = self.rounds.figures(at, |went| lost(&went.reloads, streams));
                all.push(Finding::at_most(*claim, &what, Interval::of(&runs), 0.0));
            }
        }
        let Some(ours) = self.balancers.iter().position(|balancer| balancer.name == OURS) else { return all };
        let both = |counts: &[Count; KINDS.len()]| lost(counts, false) + lost(counts, true);
        let upgrades: Vec<f64> = self.rounds.of(ours).filter_map(|went| went.upgrade.as_ref().map(both)).collect();
        all.push(Finding::at_most(UPGRADE, "failed requests and dropped streams", Interval::of(&upgrades), 0.0));
        let took = |at| self.rounds.figures(at, at_work);
        let median = |at: &usize| Spread::of(&took(*at)).map_or(f64::INFINITY, |of| of.median);
        let rivals = (0..self.balancers.len()).filter(|at| *at != ours);
        all.push(match rivals.min_by(|a, b| median(a).total_cmp(&median(b))) {
            Some(best) => {
                let what = format!("its time over that of {}", self.balancers[best].name);
                Finding::at_most(SOON, &what, Interval::of_ratios(&took(ours), &took(best)), 1.05)
            }
            None => Finding::not_shown(SOON, "no other balancer ran".into()),
        });
        all
    }

    fn figures(&self) -> Vec<Vec<String>> {
        let header = [
            "",
            "done",
            "failed",
            "done in upgrade",
            "failed in upgrade",
            "at work after ms",
            "slowest ms",
            "signals sent again",
            "processes after",
            "MiB before",
            "MiB after",
            "as clients saw them, all rounds",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for at in 0..self.balancers.len() {
            rows.push(self.whole(at));
        }
        for (kind, of) in KINDS.iter().enumerate() {
            rows.extend((0..self.balancers.len()).map(|at| {
                let name = format!("{} ({}): {}", of.name, clients(of.clients), self.balancers[at].name);
                let mut row = vec![name];
                row.extend(self.counted(at, &[kind]));
                row.extend((0..6).map(|_| String::new()));
                row.push(self.seen(at, &[kind]));
                row
            }));
        }
        rows
    }

    /// Row over all clients of a balancer, with figures of its processes.
    fn whole(&self, at: usize) -> Vec<String> {
        let all: Vec<usize> = (0..KINDS.len()).collect();
        let of = |figure: fn(&Went) -> f64, digits| told(&self.rounds.figures(at, figure), digits);
        let mut row = vec![format!("all: {}", self.balancers[at].name)];
        row.extend(self.counted(at, &all));
        row.push(of(at_work, 0));
        row.push(of(|went| went.took.last().copied().unwrap_or_default().as_secs_f64() * 1e3, 0));
        row.push(of(|went| went.lost as f64, 0));
        row.push(of(|went| went.left.0 as f64, 0));
        row.push(of(|went| went.before.1 as f64 / MIB, 0));
        row.push(of(|went| went.left.1 as f64 / MIB, 0));
        row.push(self.seen(at, &all));
        row
    }

    /// Counts and failures during the reloads, and during the upgrade.
    fn counted(&self, at: usize, kinds: &[usize]) -> [String; 4] {
        let of = |upgrade: bool, count: fn(&Count) -> usize| {
            let counts = |went: &Went| {
                let counts = if upgrade { went.upgrade.as_ref()? } else { &went.reloads };
                Some(kinds.iter().map(|kind| count(&counts[*kind])).sum::<usize>() as f64)
            };
            let runs: Vec<f64> = self.rounds.of(at).filter_map(counts).collect();
            told(&runs, 0)
        };
        let done = |upgrade| of(upgrade, |count| count.done);
        let failed = |upgrade| of(upgrade, Count::failures);
        [done(false), failed(false), done(true), failed(true)]
    }

    fn seen(&self, at: usize, kinds: &[usize]) -> String {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let counts = self.rounds.of(at).flat_map(|went| [Some(&went.reloads), went.upgrade.as_ref()]).flatten();
        for (what, count) in counts.flat_map(|counts| kinds.iter().flat_map(|kind| &counts[*kind].failed)) {
            *seen.entry(what).or_default() += count;
        }
        seen.iter().map(|(what, count)| format!("{what}: {count}")).collect::<Vec<_>>().join(", ")
    }

    fn plots(&self) -> Vec<Plot> {
        let plot = |title: &str, unit: &str, figure: fn(&Went) -> f64| {
            let of =
                |(at, balancer): (usize, &Balancer)| row(balancer.name, &self.rounds.figures(at, figure), None, at);
            let rows: Vec<_> = self.balancers.iter().enumerate().map(of).collect();
            Plot::of_rows(title, unit, &rows)
        };
        vec![
            plot("Failed requests of a round", "requests", |went| lost(&went.reloads, false)),
            plot("Dropped streams of a round", "streams", |went| lost(&went.reloads, true)),
            plot("Time until a reload takes effect", "milliseconds", at_work),
            plot("Resident memory after the last reload", "MiB", |went| went.left.1 as f64 / MIB),
            plot("Processes after the last reload", "processes", |went| went.left.0 as f64),
        ]
    }

    /// Report of the experiment.
    pub fn found(&self, versions: Versions) -> Found {
        let rounds = (0..self.balancers.len()).map(|at| self.rounds.of(at).count()).max().unwrap_or(0);
        let one = |round: usize| {
            let of = |(at, balancer): (usize, &Balancer)| Some(one_json(balancer, self.rounds.of(at).nth(round)?));
            json!({ "balancers": self.balancers.iter().enumerate().filter_map(of).collect::<Vec<_>>() })
        };
        Found {
            title: "What do clients notice of a reload?",
            topology: topology(self.balancers),
            findings: self.findings(),
            figures: self.figures(),
            plots: self.plots(),
            method: EXPERIMENT.docs.split("\n\n").map(str::to_owned).collect(),
            versions,
            raw: json!({ "reloads": self.reloads, "rounds": (0..rounds).map(one).collect::<Vec<_>>() }),
            failed: self.rounds.failed(),
            ..Found::default()
        }
    }
}

fn clients(count: usize) -> String {
    if count == 1 { "1 client".to_owned() } else { format!("{count} clients") }
}

fn topology(balancers: &[Balancer]) -> String {
    let names: Vec<&str> = balancers.iter().map(|balancer| balancer.name).collect();
    let of = |row: &Row| {
        let over = if row.tls { " over TLS" } else { "" };
        node(row.kind.short(), clients(row.clients) + over)
    };
    let columns = [
        column("clients", KINDS.iter().map(of)),
        column(&format!("{}, in turns", names.join(", ")), [node("balancer", "")]),
        column("endpoints", (1..=3).map(|n| node(format!("endpoint {n}"), "8 to 12 ms each"))),
    ];
    let clients: usize = KINDS.iter().map(|kind| kind.clients).sum();
    let sent = KINDS.iter().enumerate().map(|(from, kind)| band(from, 0, kind.clients as f64)).collect();
    flow("The machines", &columns, &[sent, (0..3).map(|to| band(0, to, clients as f64 / 3.0)).collect()])
}

fn one_json(balancer: &Balancer, went: &Went) -> Value {
    let counts = |counts: &[Count; KINDS.len()]| {
        let rows = KINDS.iter().zip(counts);
        let rows = rows.map(|(row, c)| (row.name.to_owned(), json!({ "done": c.done, "failed": c.failed })));
        Value::Object(rows.collect())
    };
    json!({
        "name": balancer.name,
        "reloads": counts(&went.reloads),
        "upgrade": went.upgrade.as_ref().map(counts),
        "took_effect_ms": went.took.iter().map(|time| time.as_secs_f64() * 1e3).collect::<Vec<_>>(),
        "signals_lost": went.lost,
        "processes": { "before": went.before.0, "after": went.left.0 },
        "resident_bytes": { "before": went.before.1, "after": went.left.1 },
    })
}

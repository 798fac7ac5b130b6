//! How are the figures printed? As tables for the terminal, and as JSON for programs.

use super::conduct::{Ran, Took};
use super::measure::{BACK, Felt, HURT, Lived, Struck};
use super::traffic::{FRESH, PATIENCE, POSTS};
use super::verdict;
use crate::balancers::Balancer;
use crate::machine::Machine;
use crate::report::table;
use serde_json::{Value, json};
use std::time::Duration;

/// A run, and what is needed to compare and repeat it.
pub struct Told {
    /// The name of the experiment.
    pub experiment: &'static str,
    /// Endpoints behind each balancer.
    pub endpoints: usize,
    /// The command line.
    pub command: String,
    /// The machine.
    pub machine: Machine,
    /// Requests per second to each balancer.
    pub rate: u32,
    /// The seed.
    pub seed: u64,
    /// The balancers that took part.
    pub balancers: Vec<Balancer>,
    /// What happened.
    pub ran: Ran,
}

/// The columns that every table of this experiment has, the first of them being the balancer's name.
pub const FELT: [&str; 8] =
    ["balancer", "requests", "failed GETs", "failed POSTs", "cut answers", "p50 ms", "p99 ms", "p99.9 ms"];
/// The columns of one fault, after those of `FELT`.
pub const LIVED: [&str; 4] = ["hurt until s", "first back s", "share back s", "reached it"];
/// The columns of the whole run, after those of `FELT`.
pub const WHOLE: [&str; 3] = ["retries", "POSTs done twice", "failures as clients saw them"];

impl Told {
    /// What a reader must know of the machine and the method.
    pub fn method(&self) -> Vec<String> {
        let Machine { kernel, cpu, cores, commit } = &self.machine;
        vec![
            self.command.clone(),
            format!("commit {commit}; Linux {kernel}; {cpu}, {cores} cores"),
            format!(
                "{} requests per second to each balancer, open loop, latency from the moment a request was meant to be \
                 sent; {:.0} % POSTs, {:.0} % on a connection of their own; clients wait {} s; seed {}",
                self.rate,
                POSTS * 100.0,
                FRESH * 100.0,
                PATIENCE.as_secs(),
                self.seed
            ),
            "All balancers at once over the same endpoints, each with one worker: the same requests and the same faults \
             at the same moments."
                .into(),
        ]
    }

    /// What the columns mean.
    pub fn legend() -> Vec<String> {
        vec![
            "Failed GETs and POSTs: no answer of an endpoint that was well, before any of it had come. Cut answers: had \
             begun. Latency is of requests that did not fail."
                .into(),
            format!(
                "Hurt until: from the fault to the last request that failed because of it or took over {} ms; \"to the \
                 end\" if that was in its last tenth. First back: from the revival to the first good answer of that \
                 endpoint. Share back: to the first second in which it got {:.0} % of a fair share. Reached it: requests \
                 sent during the fault that the broken endpoint read; it cannot tell when it is dead or resets at once.",
                HURT.as_millis(),
                BACK * 100.0
            ),
        ]
    }

    /// Name and version of each.
    pub fn versions(&self) -> Vec<(&'static str, &str, &'static str)> {
        self.balancers.iter().map(|b| (b.kind.name, b.version.as_str(), b.kind.settings)).collect()
    }

    /// The rows of one fault.
    pub fn rows_of(&self, fault: usize) -> Vec<Vec<String>> {
        let row = |(name, took): (&str, &Took)| {
            let lived = &took.lived[fault];
            let seconds =
                |time: Option<Duration>| time.map_or("never".into(), |time| format!("{:.2}", time.as_secs_f64()));
            let away = if lived.to_the_end { "to the end".into() } else { seconds(Some(lived.away)) };
            let reached = lived.reached.map_or("-".into(), |reached| reached.to_string());
            let more = [away, seconds(lived.first_back), seconds(lived.share_back), reached];
            felt(name, &lived.felt).into_iter().chain(more).collect()
        };
        self.each().map(row).collect()
    }

    /// The rows of the whole run.
    pub fn rows_of_all(&self) -> Vec<Vec<String>> {
        let row = |(name, took): (&str, &Took)| {
            let seen: Vec<String> = took.felt.seen.iter().map(|(what, count)| format!("{what}: {count}")).collect();
            let more = [took.retries.to_string(), took.posts_twice.to_string(), seen.join(", ")];
            felt(name, &took.felt).into_iter().chain(more).collect()
        };
        self.each().map(row).collect()
    }

    /// What broke, where and when.
    pub fn headline(&self, struck: &Struck) -> String {
        let second = |at_ns: u64| at_ns.saturating_sub(self.ran.begin_ns) as f64 / 1e9;
        let (from, until) = (second(struck.from_ns), second(struck.until_ns));
        format!(
            "{}: endpoint {} from {from:.1} s to {until:.1} s; {}",
            struck.fault.name,
            struck.endpoint + 1,
            struck.fault.about
        )
    }

    fn each(&self) -> impl Iterator<Item = (&'static str, &Took)> {
        self.balancers.iter().map(|balancer| balancer.kind.name).zip(&self.ran.took)
    }

    /// The whole run as text for a terminal.
    pub fn text(&self) -> String {
        let mut text = self.method().join("\n") + "\n";
        for (name, version, settings) in self.versions() {
            text += &format!("{name}: {version}\n  {settings}\n");
        }
        for (number, struck) in self.ran.struck.iter().enumerate() {
            let header: Vec<&str> = FELT.iter().chain(&LIVED).copied().collect();
            text += &format!("\n{}\n{}", self.headline(struck), table::draw(&header, &self.rows_of(number)));
        }
        let header: Vec<&str> = FELT.iter().chain(&WHOLE).copied().collect();
        text += &format!("\nthe whole run\n{}\n", table::draw(&header, &self.rows_of_all()));
        Told::legend().iter().chain(&verdict::sentences(self)).for_each(|line| text += &format!("{line}\n"));
        text
    }

    /// The whole run as JSON, the seconds included.
    pub fn json(&self) -> Value {
        let Machine { kernel, cpu, cores, commit } = &self.machine;
        let second = |at_ns: u64| at_ns.saturating_sub(self.ran.begin_ns) as f64 / 1e9;
        let faults = self.ran.struck.iter().map(|struck| {
            json!({
                "name": struck.fault.name,
                "about": struck.fault.about,
                "endpoint": struck.endpoint + 1,
                "from_s": second(struck.from_ns),
                "until_s": second(struck.until_ns),
                "recovered_s": second(struck.to_ns),
            })
        });
        let took = self.balancers.iter().zip(&self.ran.took).map(|(balancer, took)| {
            json!({
                "name": balancer.kind.name,
                "version": balancer.version,
                "settings": balancer.kind.settings,
                "whole": felt_json(&took.felt),
                "retries": took.retries,
                "posts_done_twice": took.posts_twice,
                "faults": took.lived.iter().map(lived_json).collect::<Vec<_>>(),
                "seconds": took.seconds.iter().map(|s| json!({
                    "failed_gets": s.failed[0], "failed_posts": s.failed[1], "p99_ms": s.p99_ms, "reached": s.reached,
                })).collect::<Vec<_>>(),
            })
        });
        json!({
            "experiment": self.experiment,
            "command": self.command,
            "commit": commit,
            "machine": { "kernel": kernel, "cpu": cpu, "cores": cores },
            "rate": self.rate,
            "seed": self.seed,
            "loop": "open",
            "faults": faults.collect::<Vec<_>>(),
            "balancers": took.collect::<Vec<_>>(),
            "verdict": verdict::sentences(self),
        })
    }
}

fn felt(name: &str, felt: &Felt) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    row.extend([felt.requests, felt.gets, felt.posts, felt.begun].map(|count| count.to_string()));
    row.extend((0..3).map(|which| felt.quantiles_ms.map_or(String::new(), |q| format!("{:.1}", q[which]))));
    row
}

fn felt_json(felt: &Felt) -> Value {
    let quantile = |which: usize| felt.quantiles_ms.map(|q| q[which]);
    json!({
        "requests": felt.requests,
        "failed_gets": felt.gets,
        "failed_posts": felt.posts,
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

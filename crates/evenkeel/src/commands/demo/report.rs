//! All figures of the demo: a table with its reading, or JSON.

use super::endpoints::MAXIMA_MS;
use super::load::{CLIENTS, USERS};
use super::outage::Outage;
use super::trial::Trial;
use crate::arguments::Demo;
use serde_json::{Value, json};
use std::fmt::Write;

/// A percentile is shown only if at least this many answers are beyond it: fewer would make it chance.
const BEYOND_MIN: f64 = 10.0;

const PERCENTILES: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// The maxima of the endpoints, each once, with the indices of those that have it.
fn groups() -> Vec<(u64, Vec<usize>)> {
    let mut groups: Vec<(u64, Vec<usize>)> = Vec::new();
    for (index, max) in MAXIMA_MS.into_iter().enumerate() {
        match groups.last_mut() {
            Some((m, members)) if *m == max => members.push(index),
            _ => groups.push((max, vec![index])),
        }
    }
    groups
}

/// A percentile in milliseconds; `None` if too few answers are beyond it.
pub fn percentile(trial: &Trial, p: f64) -> Option<f64> {
    let histogram = &trial.seen.latency_us;
    let enough = histogram.len() as f64 * (100.0 - p) / 100.0 > BEYOND_MIN;
    enough.then(|| histogram.value_at_percentile(p) as f64 / 1000.0)
}

/// The table and how to read it.
pub fn table(trials: &[Trial]) -> String {
    let groups = groups();
    let mut out = String::from("\nLatency as the clients saw it, milliseconds; share of the requests by endpoint.\n\n");
    let _ = write!(out, "{:12} {:>8} {:>7}", "", "requests", "seconds");
    for p in PERCENTILES {
        let _ = write!(out, " {:>6}", format!("p{p}"));
    }
    let _ = write!(out, " {:>6}  ", "errors");
    for (max, members) in &groups {
        let times = if members.len() > 1 { format!("{}x ", members.len()) } else { String::new() };
        let _ = write!(out, " {:>9}", format!("{times}{max} ms"));
    }
    out.push('\n');
    for trial in trials {
        let seen = &trial.seen;
        let capped = if seen.capped { "*" } else { " " };
        let _ = write!(
            out,
            "{:12} {:>7}{capped} {:>7.1}",
            trial.algorithm.name,
            seen.latency_us.len() + seen.errors,
            seen.wall.as_secs_f64()
        );
        for p in PERCENTILES {
            let cell = percentile(trial, p).map_or("-".to_string(), |ms| match ms < 10.0 {
                true => format!("{ms:.1}"),
                false => format!("{ms:.0}"),
            });
            let _ = write!(out, " {cell:>6}");
        }
        let _ = write!(out, " {:>6}  ", seen.errors);
        for (_, members) in &groups {
            let share: f64 = members.iter().map(|&i| trial.shares[i]).sum();
            let _ = write!(out, " {:>7.1} %", share * 100.0);
        }
        out.push('\n');
    }
    let capped = trials.iter().any(|t| t.seen.capped);
    if capped {
        out.push_str("* stopped early: time limit reached\n");
    }
    out.push_str(&reading(trials));
    out
}

/// Reasons for the differences, and limits of the comparison. The registry describes the algorithms themselves.
fn reading(trials: &[Trial]) -> String {
    let named = |holds: &dyn Fn(&Trial) -> bool| {
        let names: Vec<&str> = trials.iter().filter(|t| holds(t)).map(|t| t.algorithm.name).collect();
        names.join(", ")
    };
    let mut out = String::from("\n");
    for trial in trials {
        let key = if trial.algorithm.needs.key { " (the key here: the field x-user)" } else { "" };
        let _ = writeln!(out, "  {:12} {}{key}", trial.algorithm.name, trial.algorithm.summary);
    }
    let _ = write!(
        out,
        "\nHow to read it. Ten endpoints answer after 0 to MAX-1 ms, evenly drawn: one with a maximum of 1 ms, four of 10,\n\
         four of 100, one of 1000. {CLIENTS} clients ask again as soon as they are answered. Timers add up to 1 ms. Requests\n\
         pile up where answers are slow, so algorithms that look at requests in flight or at latencies send less there.\n"
    );
    let blind = named(&|t| t.algorithm.promises.shares_whatever_the_load);
    if !blind.is_empty() {
        let _ = writeln!(
            out,
            "{blind} does not look: each endpoint gets its tenth, and most clients wait at the slowest one most of the time."
        );
    }
    let greedy = named(&|t| t.shares[0] > 0.9);
    let example = if greedy.is_empty() { String::new() } else { format!(" That is what {greedy} did.") };
    let _ = write!(
        out,
        "\nWhat it does not show. These endpoints have no limit: however many requests one has, it stays as fast. Sending\n\
         everything to the fastest one wins here; a real server would be overloaded.{example}\n\
         One run on this machine, clients, proxy and endpoints together: the order of algorithms that are close is chance.\n"
    );
    out
}

/// Everything, for machines.
pub fn as_json(arguments: &Demo, trials: &[Trial], outage: &Outage) -> Value {
    let one = |trial: &Trial| {
        let seen = &trial.seen;
        json!({
            "name": trial.algorithm.name,
            "requests": seen.latency_us.len() + seen.errors,
            "capped": seen.capped,
            "wall_s": seen.wall.as_secs_f64(),
            "p50_ms": percentile(trial, 50.0),
            "p90_ms": percentile(trial, 90.0),
            "p95_ms": percentile(trial, 95.0),
            "p99_ms": percentile(trial, 99.0),
            "p999_ms": percentile(trial, 99.9),
            "errors": seen.errors,
            "shares": trial.shares,
        })
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "seed": arguments.seed,
        "clients": CLIENTS,
        "users": USERS,
        "endpoint_maxima_ms": MAXIMA_MS,
        "outage": {
            "endpoint": outage.victim,
            "requests": outage.requests,
            "failed": outage.failed.iter().sum::<u64>(),
            "retries": outage.retries,
            "out_after_s": outage.out.map(|(after, _)| after.as_secs_f64()),
            "back_after_s": outage.back.map(|after| after.as_secs_f64()),
            "answered_by_slice": outage.answered,
        },
        "algorithms": trials.iter().map(one).collect::<Value>(),
    })
}

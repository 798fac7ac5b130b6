//! Results as text: a table for each point, published figures beside simulated figures, claims and verdicts.

use crate::experiment::{Experiment, Point};
use crate::metric::{self, Metric};
use crate::results::{Results, Row};
use crate::verdict::{self, Verdict, shown, with_interval};
use std::fmt::Write;

/// Columns of every table. Columns of [`IF_ANY`] appear only if they are not all 0.
const ALWAYS: [&str; 7] = ["mean", "p50", "p90", "p99", "p999", "throughput", "peak"];
const IF_ANY: [&str; 7] = ["failed", "refused", "errors", "timed_out", "no_pick", "retries", "probes"];

pub fn text(experiment: &Experiment, results: &Results) -> String {
    let mut out = format!("{}: {}\n", experiment.name, experiment.summary);
    let _ = writeln!(out, "mean over {} seeds\n", results.seeds.len());
    for (point, rows) in experiment.points.iter().zip(&results.points) {
        if !point.label.is_empty() {
            let _ = writeln!(out, "{}", point.label);
        }
        out += &aligned(&table(point, rows));
        out.push('\n');
    }
    if !experiment.published.is_empty() {
        let _ = writeln!(out, "published, and ours");
        out += &aligned(&published(experiment, results));
        out.push('\n');
    }
    for claim in &experiment.claims {
        let judged = verdict::claim(claim, experiment, results);
        let interval = judged
            .interval
            .filter(|i| i.half.is_finite())
            .map_or(String::new(), |i| format!(" ({})", verdict::compared(i, claim.difference)));
        let _ = writeln!(out, "{}: {}{interval}", judged.verdict.as_str(), claim.says);
    }
    if !experiment.claims.is_empty() {
        out.push('\n');
    }
    for sentence in sentences(experiment, results) {
        let _ = writeln!(out, "{sentence}");
    }
    out
}

/// Verdict of each point, a sentence each.
pub fn sentences(experiment: &Experiment, results: &Results) -> Vec<String> {
    let one = |(point, rows): (&Point, &Vec<Row>)| {
        let best = verdict::best(experiment, point, rows);
        if point.label.is_empty() { best } else { format!("{}: {best}", point.label) }
    };
    experiment.points.iter().zip(&results.points).map(one).collect()
}

/// Metrics shown for a point.
fn columns(rows: &[Row]) -> Vec<&'static Metric> {
    let any = |m: &Metric| rows.iter().any(|row| row.figures[metric::index(m)].iter().any(|x| *x > 0.0));
    let fits = |m: &&Metric| ALWAYS.contains(&m.name) || IF_ANY.contains(&m.name) && any(m);
    let errors = rows
        .iter()
        .all(|row| row.figures[metric::index(metric::find("failed").expect("a row"))].iter().all(|x| *x == 0.0));
    metric::ALL.iter().filter(fits).filter(|m| !errors || m.name != "failed").collect()
}

/// Table of a point: a header and a row for each policy, with regret if there is a yardstick.
pub fn table(point: &Point, rows: &[Row]) -> Vec<Vec<String>> {
    let columns = columns(rows);
    let yardsticks: Vec<&str> =
        ["central-queue", "jsq"].into_iter().filter(|y| point.policies.iter().any(|p| p.label == *y)).collect();
    let mut header = vec!["algorithm".to_string()];
    header.extend(columns.iter().map(|m| m.name.to_string()));
    header.extend(yardsticks.iter().map(|y| format!("p99 over {y}")));
    let mut table = vec![header];
    for (at, (policy, row)) in point.policies.iter().zip(rows).enumerate() {
        let mut line = vec![policy.label.clone()];
        line.extend(columns.iter().map(|m| match row.interval(m) {
            Some(interval) => shown(interval.mean, m.unit),
            None => "no steady state".to_string(),
        }));
        line.extend(yardsticks.iter().map(|y| {
            verdict::regret(point, rows, at, y).map_or("-".to_string(), |[_, p99]| format!("{:+.0} %", p99 * 100.0))
        }));
        table.push(line);
    }
    // Once per row instead of in every latency column.
    for line in table.iter_mut().skip(1) {
        let mut first = true;
        for cell in line.iter_mut().filter(|cell| *cell == "no steady state") {
            if !std::mem::take(&mut first) {
                *cell = "-".to_string();
            }
        }
    }
    table
}

/// Table of published figures: a header and a row for each.
pub fn published(experiment: &Experiment, results: &Results) -> Vec<Vec<String>> {
    let many = experiment.points.len() > 1;
    let mut table = vec![["row", "figure", "published", "ours", "allowed", "verdict"].map(String::from).to_vec()];
    for published in &experiment.published {
        let row = experiment.row(results, &published.at, &published.policy).map(|(_, row)| row);
        let name = published.title.as_ref().unwrap_or(&published.policy);
        let name = if many { format!("{}, {name}", published.at) } else { name.clone() };
        for cell in &published.cells {
            let (unit, verdict) = (cell.metric.unit, verdict::cell(cell, row));
            let ours = row.map_or("-".to_string(), |row| match row.interval(cell.metric) {
                Some(ours) => with_interval(ours, cell.metric),
                None => "no steady state".to_string(),
            });
            let said = match (verdict, &cell.note) {
                (Verdict::Noted, Some(note)) => note.clone(),
                _ => verdict.as_str().to_string(),
            };
            let allowed = format!("{} to {}", shown(cell.allowed.0, unit), shown(cell.allowed.1, unit));
            table.push(vec![name.clone(), cell.metric.name.to_string(), shown(cell.value, unit), ours, allowed, said]);
        }
    }
    table
}

/// Table with aligned columns: the first and columns of words to the left, columns of figures to the right.
fn aligned(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let width = |at: usize| table.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let figure = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c));
    let right: Vec<bool> = (0..columns).map(|at| table.iter().skip(1).any(|row| figure(&row[at]))).collect();
    let mut out = String::new();
    for row in table {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let pad = " ".repeat(width(at) - cell.chars().count());
            let _ = if right[at] && at > 0 { write!(line, "{pad}{cell}  ") } else { write!(line, "{cell}{pad}  ") };
        }
        let _ = writeln!(out, "  {}", line.trim_end());
    }
    out
}

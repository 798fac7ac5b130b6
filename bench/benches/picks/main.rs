//! Cost of a pick: nanoseconds per start and end for every algorithm of the registry, compared with tower and
//! pingora-load-balancing.
//!
//! 64 requests are in flight at any time, so that loads differ and are not all zero: each operation ends the
//! oldest and starts one. Batches of some hundred microseconds on pinned threads. The output is the median,
//! and the range that holds four of five batches (on a busy machine the others were interrupted).

mod harness;
mod ours;
mod pingora;
mod tower;

use clap::Parser;
use harness::{Case, Measured};
use serde_json::{Value, json};
use std::path::PathBuf;

/// An implementation of one algorithm.
pub struct Subject {
    /// Name in the table of results.
    pub name: String,
    /// Description of one operation.
    pub operation: &'static str,
    /// True if endpoints can have different weights.
    pub weighs: bool,
    /// True if several threads can use it concurrently.
    pub shares: bool,
    pub run: Box<dyn Fn(Case) -> Measured>,
}

/// Requests in flight at any time.
pub const IN_FLIGHT: usize = 64;

/// Nanoseconds per pick of every algorithm, compared with tower and pingora-load-balancing.
#[derive(Parser)]
struct Arguments {
    /// Measure only subjects whose name contains one of these words.
    filter: Vec<String>,
    /// Batches per figure.
    #[arg(long, default_value_t = 101, value_parser = clap::value_parser!(u16).range(5..=10_000))]
    batches: u16,
    /// Measure only pools of these sizes.
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000,10000")]
    endpoints: Vec<usize>,
    /// Also write every figure to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let mut subjects = ours::subjects();
    subjects.extend(tower::subjects());
    subjects.extend(pingora::subjects());
    let wanted = |name: &str| arguments.filter.is_empty() || arguments.filter.iter().any(|word| name.contains(word));
    subjects.retain(|subject| wanted(&subject.name));
    println!("ns per operation: median (of five batches four lie between), {} batches", arguments.batches);
    let columns: String = arguments.endpoints.iter().map(|n| format!("{:>24}", format!("n={n}"))).collect();
    println!("{:<28}{:<9}{:<8}{columns}", "subject", "weights", "threads");
    let mut rows = Vec::new();
    for subject in &subjects {
        for unequal in [false, true] {
            for threads in [1, 2] {
                if (unequal && !subject.weighs) || (threads > 1 && !subject.shares) {
                    continue;
                }
                let weights = if unequal { "unequal" } else { "equal" };
                print!("{:<28}{weights:<9}{threads:<8}", subject.name);
                for &endpoints in &arguments.endpoints {
                    let case = Case { endpoints, unequal, threads, batches: arguments.batches.into() };
                    let measured = (subject.run)(case);
                    print!("{:>24}", measured.to_string());
                    rows.push(row(subject, case, measured));
                }
                println!();
            }
        }
    }
    for (operation, names) in operations(&subjects) {
        println!("{operation}: {}", names.join(", "));
    }
    if let Some(path) = &arguments.json {
        let report =
            json!({ "unit": "ns/operation", "in_flight": IN_FLIGHT, "batches": arguments.batches, "rows": rows });
        std::fs::write(path, format!("{report:#}\n")).expect("the file given by --json can be written");
    }
}

fn row(subject: &Subject, case: Case, measured: Measured) -> Value {
    json!({
        "subject": subject.name,
        "operation": subject.operation,
        "endpoints": case.endpoints,
        "weights": if case.unequal { "unequal" } else { "equal" },
        "threads": case.threads,
        "median": measured.median,
        "low": measured.low,
        "high": measured.high,
    })
}

/// Groups subjects by their operation, because a table that hid the difference would mislead.
fn operations(subjects: &[Subject]) -> Vec<(&'static str, Vec<&str>)> {
    let mut operations: Vec<(&'static str, Vec<&str>)> = Vec::new();
    for subject in subjects {
        match operations.iter_mut().find(|(operation, _)| *operation == subject.operation) {
            Some((_, names)) => names.push(&subject.name),
            None => operations.push((subject.operation, vec![&subject.name])),
        }
    }
    operations
}

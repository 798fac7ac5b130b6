//! `evenkeel algorithms`: the registry as a list, or the page of a single algorithm.

use crate::arguments::Algorithms;
use crate::failure::Failure;
use crate::output::print;
use evenkeel_balance::algorithms;
use evenkeel_balance::params::Param;
use evenkeel_balance::picker::Algorithm;
use serde_json::{Value, json};
use std::fmt::Write;

/// Width of the list, in columns.
const WIDTH: usize = 100;

/// Runs `evenkeel algorithms`.
pub fn list(arguments: &Algorithms) -> Result<(), Failure> {
    let one = arguments.name.as_deref().and_then(algorithms::find);
    let text = match (one, arguments.json) {
        (Some(algorithm), true) => format!("{:#}\n", as_json(algorithm)),
        (Some(algorithm), false) => evenkeel_config::algorithm_reference(algorithm),
        (None, true) => format!("{:#}\n", algorithms::ALL.iter().map(|a| as_json(a)).collect::<Value>()),
        (None, false) => table(),
    };
    print(&text)
}

/// Table with name and aliases on the left, purpose and parameters on the right.
fn table() -> String {
    let mut out = String::new();
    let named = |a: &Algorithm| {
        let mut names = vec![a.name.to_string()];
        names.extend(a.aliases.iter().map(|alias| format!("  {alias}")));
        names
    };
    let left = algorithms::ALL.iter().flat_map(|a| named(a)).map(|n| n.len()).max().unwrap_or(0) + 2;
    for algorithm in algorithms::ALL {
        let is_default = std::ptr::eq(*algorithm, algorithms::default());
        let summary = format!("{}{}", algorithm.summary, if is_default { " (the default)" } else { "" });
        let mut right = wrapped(&summary, WIDTH - left);
        for param in algorithm.params {
            let text = format!("{} = {} ({}): {}", param.name, param.default, param.kind, param.help);
            right.extend(wrapped(&text, WIDTH - left - 2).into_iter().map(|line| format!("  {line}")));
        }
        let names = named(algorithm);
        for i in 0..names.len().max(right.len()) {
            let cell = |column: &[String]| column.get(i).cloned().unwrap_or_default();
            let _ = writeln!(out, "{}", format!("{:left$}{}", cell(&names), cell(&right)).trim_end());
        }
    }
    out.push_str("\nIndented on the left: other names. evenkeel algorithms NAME explains one.\n");
    out
}

/// Lines of at most `width` columns, broken at spaces.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

fn as_json(algorithm: &Algorithm) -> Value {
    let param = |p: &Param| {
        json!({
            "name": p.name, "type": p.kind.to_string(), "default": p.default.to_string(), "help": p.help, "why": p.why,
        })
    };
    let (needs, promises) = (algorithm.needs, algorithm.promises);
    json!({
        "name": algorithm.name,
        "aliases": algorithm.aliases,
        "default": std::ptr::eq(algorithm, algorithms::default()),
        "summary": algorithm.summary,
        "source": algorithm.source,
        "needs": {
            "key": needs.key, "in_flight": needs.in_flight, "latency": needs.latency, "probes": needs.probes,
        },
        "promises": {
            "shares_when_idle": promises.shares_when_idle,
            "shares_when_busy": promises.shares_when_busy,
            "shares_whatever_the_load": promises.shares_whatever_the_load,
            "affinity": promises.affinity,
        },
        "params": algorithm.params.iter().map(param).collect::<Value>(),
    })
}

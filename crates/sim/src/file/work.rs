//! Reader of `work` and other distributions of durations.

use crate::work::Work;
use evenkeel_config::Code;
use evenkeel_config::tables::{Findings, Section};

/// Reads a table of [`WORK`](super::work_keys::WORK), in which exactly 1 key must be set.
pub(super) fn work(table: &Section, findings: &mut Findings) -> Work {
    let nothing = Work::Constant(0);
    if table.is_broken() {
        return nothing;
    }
    const KINDS: [&str; 6] = ["constant", "exponential", "uniform", "normal", "lognormal", "pareto"];
    let set: Vec<&str> = KINDS.into_iter().filter(|kind| table.has(kind)).collect();
    let [kind] = set[..] else {
        let message = format!("a length of time needs exactly one of {}", KINDS.join(", "));
        findings.add(Code::Contradiction, table.span, message).help("write { exponential = \"10ms\" }");
        return nothing;
    };
    let inner = table.section(kind);
    match kind {
        "constant" => Work::Constant(table.ns(kind)),
        "exponential" => Work::Exponential { mean_ns: table.ns(kind) as f64 },
        "uniform" => {
            let (min, max) = (inner.int("min"), inner.int("max"));
            if min > max {
                above(&inner, "min", findings);
                return nothing;
            }
            Work::Uniform { min, max, step_ns: inner.ns("step"), late_ns: inner.ns("late") }
        }
        "normal" => Work::TruncatedNormal { mean_ns: inner.ns("mean") as f64, sd_ns: inner.ns("deviation") as f64 },
        "lognormal" => Work::Lognormal { mean_ns: inner.ns("mean") as f64, sigma: inner.float("sigma") },
        _ => {
            let (min, max) = (inner.ns("min"), inner.ns("max"));
            if min >= max {
                above(&inner, "min", findings);
                return nothing;
            }
            Work::BoundedPareto { alpha: inner.float("alpha"), min_ns: min as f64, max_ns: max as f64 }
        }
    }
}

fn above(table: &Section, key: &str, findings: &mut Findings) {
    findings
        .add(Code::Contradiction, table.span_of(key), "\"min\" must be below \"max\"")
        .help("raise \"max\", or lower \"min\"");
}

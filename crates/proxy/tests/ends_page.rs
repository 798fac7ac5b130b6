//! The reference page of the ends in the access log, generated from the tables that the log is written by.

use evenkeel_proxy::end::{Cause, Phase};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# How a request ended

<!-- Generated from crates/proxy/src/observe/end.rs. `make bless` writes it anew. -->

Two letters in the access log (`term`), as in HAProxy: the side that ended the request, and the phase it was in. `--` is a
normal end, `sH` an endpoint that did not respond in time, `CD` a client that left during a response, `PR` a refused request.
`evenkeel_http_ends_total` counts requests by `cause`.
";

fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n| First letter | `cause` | Ended by |\n|---|---|---|\n");
    for (cause, label) in Cause::ALL.iter().zip(Cause::LABELS) {
        writeln!(page, "| `{}` | `{label}` | {} |", char::from(cause.letter()), cause.text()).expect("it is text");
    }
    page.push_str("\n| Second letter | While |\n|---|---|\n");
    for phase in Phase::ALL {
        writeln!(page, "| `{}` | {} |", char::from(phase.letter()), phase.text()).expect("it is text");
    }
    page
}

#[test]
fn the_committed_page_of_ends_matches_the_log() {
    crate::committed::same_as_committed(&[("docs/reference/ends.md".into(), page())]);
}

//! `queue` of a pool: requests that wait while every endpoint is at its limit.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::quantity::duration_text;
use crate::table::{Absent, H, Key, Kind, MS, Section, table};
use evenkeel_balance::queue;
use std::time::Duration;

table! {
    pub static QUEUE = "queue of [pool.NAME]",
        "Queue for requests when every endpoint is at its limit; first in, first out. Requests that do not fit get a \
        503 immediately.";

    impl for queue::Settings {
        max = Key {
            name: "max",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("1024"),
            help: "Maximum requests that wait at a time, over all workers; 0 = requests do not wait.",
            why: "Envoy's limit of pending requests.",
        };
        timeout_ns = Key {
            name: "timeout",
            kind: Kind::Duration { min: MS, max: H, off: false },
            absent: Absent::Default("\"2s\""),
            help: "Longest wait of a request.",
            why: "A client that has waited longer has often left, and a response would be wasted work.",
        };
    }
}

/// Reports a wait longer than the timeout of the whole request.
pub(super) fn check(pool: &Section, request: Option<Duration>, findings: &mut Findings) {
    let queue = pool.section("queue");
    let timeout = queue.duration("timeout").unwrap_or_default();
    if let (Some(set), Some(request)) = (queue.set("timeout"), request.filter(|request| timeout > *request)) {
        let whole = duration_text(request);
        findings
            .add(
                Code::TimeoutOrder,
                set.span,
                format!("\"timeout\" of the queue is longer than \"request\" ({whole}), so it never ends a wait"),
            )
            .help("make it shorter: what it leaves is the time to answer");
    }
}

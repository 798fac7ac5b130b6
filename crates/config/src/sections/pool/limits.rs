//! `limits` of a pool: bounds per endpoint, among them the adaptive limit that follows latency. See
//! [`PoolLimits`].

use crate::diagnostic::Findings;
use crate::table::{Absent, Key, Kind, Lines, MS, S, Section, table};
use evenkeel_balance::concurrency;

table! {
    pub(super) static POOL_LIMITS = "limits of [pool.NAME]",
        "Limits of each endpoint.";

    /// `limits` of a pool.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct PoolLimits {
        /// Most requests in flight at an endpoint, over all workers; 0 = no limit.
        requests_per_endpoint: u32 = Key {
            name: "requests_per_endpoint",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("0"),
            help: "Maximum requests in flight at one endpoint, over all workers; 0 = no limit.",
            why: "The right number depends on the endpoint, and too low a limit refuses requests.",
        };
        /// Most idle connections that a worker keeps to an endpoint; 0 = connections are not reused.
        idle_per_endpoint: usize = Key {
            name: "idle_per_endpoint",
            kind: Kind::Int { min: 0, max: 65_535 },
            absent: Absent::Default("256"),
            help: "Maximum idle connections that one worker keeps to one endpoint; 0 = connections are not reused.",
            why: "Enough for a burst. Each connection costs a file descriptor here and a slot at the endpoint.",
        };
        /// Largest head of a response, bytes: 1 KiB to 1 MiB.
        response_headers: usize = Key {
            name: "response_headers",
            kind: Kind::Size { min: 1 << 10, max: 1 << 20, off: false },
            absent: Absent::Default("\"64KiB\""),
            help: "Largest head of a response: the status line and all header fields, at most 1,024. Instead of a \
                larger response, the client gets a 502, and the endpoint still counts as healthy.",
            why: "Twice the default buffers of NGINX and HAProxy. Only responses that need the memory use it.",
        };
        /// Adaptive limit of requests in flight at an endpoint, on top of `requests_per_endpoint`; `None` =
        /// off.
        concurrency: Option<concurrency::Settings> = Key {
            name: "concurrency",
            kind: Kind::TableOrWord { table: &CONCURRENCY, word: "adaptive" },
            absent: Absent::Means("off"),
            help: "Limit of requests in flight at one endpoint that adapts to its latency, never above \
                `requests_per_endpoint`. `\"adaptive\"`: with the defaults of the table.",
            why: "",
        };
    }
}

table! {
    /// Keys of the adaptive limit.
    pub static CONCURRENCY = "limits.concurrency of [pool.NAME]",
        "Bounds of the adaptive limit. The limit falls while an endpoint's latency is above `tolerance` times its \
        latency without load, and rises otherwise.";

    impl for concurrency::Settings {
        min = Key {
            name: "min",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Default("3"),
            help: "Smallest limit.",
            why: "Fewer requests give too few samples to notice that the endpoint has recovered.",
        };
        max = Key {
            name: "max",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Default("1000"),
            help: "Largest limit.",
            why: "More requests than one process serves well at once.",
        };
        start = Key {
            name: "start",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Means("20, within `min` and `max`"),
            help: "Limit to start from.",
            why: "",
        }, read start, write write_start;
        tolerance = Key {
            name: "tolerance",
            kind: Kind::Number { min: 1.01, max: 100.0 },
            absent: Absent::Default("1.5"),
            help: "Ratio of an endpoint's latency to its shortest latency above which the limit falls.",
            why: "The value of the gradient limit in Netflix's concurrency-limits.",
        };
        interval_ns = Key {
            name: "interval",
            kind: Kind::Duration { min: 100 * MS, max: 60 * S, off: false },
            absent: Absent::Default("\"1s\""),
            help: "Time between two adjustments of the limit.",
            why: "Long enough for several responses, and short enough to follow a burst.",
        };
    }
}

fn start(limit: &Section) -> u32 {
    match limit.set("start") {
        Some(_) => limit.number("start"),
        None => usual_start(limit.number("min"), limit.number("max")),
    }
}

/// Default start within the bounds. Not `clamp`, which panics if `max` is below `min`; [`check`] reports
/// that.
fn usual_start(min: u32, max: u32) -> u32 {
    concurrency::Settings::default().start.min(max).max(min)
}

fn write_start(set: &concurrency::Settings, _: &concurrency::Settings, lines: &mut Lines) {
    if set.start != usual_start(set.min, set.max) {
        lines.add("start", set.start.to_string());
    }
}

/// Reports bounds that do not contain the start.
pub(crate) fn check(limit: &Section, findings: &mut Findings) {
    let (min, max, start): (u32, u32, u32) = (limit.number("min"), limit.number("max"), start(limit));
    if !limit.is_broken() && !(min..=max).contains(&start) {
        let message = format!("\"concurrency\" must have min <= start <= max, but they are {min}, {start} and {max}");
        // The defaults are consistent, so some of the three is set.
        let mut set = ["start", "max", "min"].into_iter().filter(|key| limit.set(key).is_some());
        let (one, other) = (set.next().unwrap_or("start"), set.next().unwrap_or("start"));
        limit
            .contradiction(limit.span_of(one), message, other, findings)
            .help("raise \"max\", lower \"min\", or leave \"start\" out");
    }
}

//! What are the limits of an endpoint? [`PoolLimits`], `limits` of a pool, and among them the one that follows latency.

use crate::diagnostic::Findings;
use crate::table::{Absent, Key, Kind, Lines, MS, S, Section, table};
use evenkeel_balance::concurrency;

table! {
    pub(super) static POOL_LIMITS = "limits of [pool.NAME]",
        "The limits of each endpoint.";

    /// `limits` of a pool.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct PoolLimits {
        /// Requests in flight at one endpoint, all workers together; 0 = no limit.
        requests_per_endpoint: u32 = Key {
            name: "requests_per_endpoint",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("0"),
            help: "Requests in flight at one endpoint, all workers together; 0 = no limit.",
            why: "The right number depends on the endpoint; one that is too low refuses requests.",
        };
        /// Idle upstream connections that a worker keeps for one endpoint; 0 = none is ever used again.
        idle_per_endpoint: usize = Key {
            name: "idle_per_endpoint",
            kind: Kind::Int { min: 0, max: 65_535 },
            absent: Absent::Default("256"),
            help: "Idle connections that one worker keeps to one endpoint; 0 = no connection is used twice.",
            why: "Enough for a burst; each costs a file descriptor here, and a connection at the endpoint.",
        };
        /// A limit of requests in flight at one endpoint that follows its latency, below `requests_per_endpoint`; `None` = no
        /// such limit.
        concurrency: Option<concurrency::Settings> = Key {
            name: "concurrency",
            kind: Kind::TableOrWord { table: &CONCURRENCY, word: "adaptive" },
            absent: Absent::Means("no such limit"),
            help: "A limit of requests in flight at one endpoint that follows its latency, never above \
                   `requests_per_endpoint`. `\"adaptive\"`: with its defaults.",
            why: "",
        };
    }
}

table! {
    /// The limit that follows latency.
    pub static CONCURRENCY = "limits.concurrency of [pool.NAME]",
        "The bounds of the limit that follows the latency of an endpoint: it falls while responses take longer than they \
         do without load, and rises while they do not.";

    impl for concurrency::Settings {
        min = Key {
            name: "min",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Default("3"),
            help: "The smallest limit.",
            why: "With fewer requests it could not be seen that the endpoint is fast again.",
        };
        max = Key {
            name: "max",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Default("1000"),
            help: "The largest.",
            why: "More requests than one process serves well at once.",
        };
        start = Key {
            name: "start",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Means("20, or the bound next to it"),
            help: "Where it starts.",
            why: "",
        }, read start, write write_start;
        tolerance = Key {
            name: "tolerance",
            kind: Kind::Number { min: 1.01, max: 100.0 },
            absent: Absent::Default("1.5"),
            help: "How many times its shortest latency an endpoint may take before the limit falls.",
            why: "That of the gradient limit of Netflix's concurrency-limits.",
        };
        interval_ns = Key {
            name: "interval",
            kind: Kind::Duration { min: 100 * MS, max: 60 * S, off: false },
            absent: Absent::Default("\"1s\""),
            help: "How often the limit is adjusted.",
            why: "Long enough for some responses, short enough to follow a burst.",
        };
    }
}

fn start(limit: &Section) -> u32 {
    match limit.set("start") {
        Some(_) => limit.number("start"),
        None => usual_start(limit.number("min"), limit.number("max")),
    }
}

/// Not `clamp`, which panics if `max` is below `min`: that is reported apart.
fn usual_start(min: u32, max: u32) -> u32 {
    concurrency::Settings::default().start.min(max).max(min)
}

fn write_start(set: &concurrency::Settings, _: &concurrency::Settings, lines: &mut Lines) {
    if set.start != usual_start(set.min, set.max) {
        lines.add("start", set.start.to_string());
    }
}

/// Reports bounds that the start is not within.
pub(crate) fn check(limit: &Section, findings: &mut Findings) {
    let (min, max, start): (u32, u32, u32) = (limit.number("min"), limit.number("max"), start(limit));
    if !limit.is_broken() && !(min..=max).contains(&start) {
        let message = format!("\"concurrency\" must have min <= start <= max, but they are {min}, {start} and {max}");
        // They start as they should, so at least one of them is set.
        let mut set = ["start", "max", "min"].into_iter().filter(|key| limit.set(key).is_some());
        let (one, other) = (set.next().unwrap_or("start"), set.next().unwrap_or("start"));
        limit
            .contradiction(limit.span_of(one), message, other, findings)
            .help("raise \"max\", lower \"min\", or leave \"start\" out");
    }
}

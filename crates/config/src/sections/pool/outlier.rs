//! When do failures take an endpoint out? `outlier` of a pool.

use crate::diagnostic::Findings;
use crate::quantity::duration_text;
use crate::table::{Absent, DAY, Declared, H, Key, Kind, MS, Section, table};
use evenkeel_balance::outlier;
use std::time::Duration;

table! {
    /// When failures take an endpoint out.
    pub static OUTLIER = "outlier of [pool.NAME]",
        "Ejection: an endpoint that fails requests, or does so far more than its pool, gets none for a while. Then it \
        gets one, and the outcome of that one decides.";

    impl for outlier::Settings {
        consecutive_5xx = Key {
            name: "consecutive_5xx",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("0"),
            help: "Responses of 500 and above in a row, gateway errors included, that eject; 0 = never.",
            why: "A 500 mostly is about the request: one client that asks for a broken page would take endpoints out.",
        };
        consecutive_gateway = Key {
            name: "consecutive_gateway",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("5"),
            help: "Gateway errors in a row that eject: 502, 503, 504, resets, timeouts, broken responses; 0 = never.",
            why: "Envoy's default.",
        };
        consecutive_connect = Key {
            name: "consecutive_connect",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("3"),
            help: "Connections in a row that could not be opened, and eject; 0 = never.",
            why: "Fewer than for errors: the process is most likely dead, and each failure costs a request one try.",
        };
        success_rate = Key {
            name: "success_rate",
            kind: Kind::Table(&SUCCESS_RATE),
            absent: Absent::Means("off"),
            help: "Ejects endpoints whose share of successes is far below the pool's.",
            why: "",
        };
        latency = Key {
            name: "latency",
            kind: Kind::Table(&LATENCY),
            absent: Absent::Means("off"),
            help: "Ejects endpoints whose mean latency is far above the pool's median.",
            why: "",
        };
        interval_ns = Key {
            name: "interval",
            kind: Kind::Duration { min: 100 * MS, max: H, off: false },
            absent: Absent::Default("\"10s\""),
            help: "How often `success_rate` and `latency` are evaluated.",
            why: "Envoy's default.",
        };
        eject_ns = Key {
            name: "eject",
            kind: Kind::Duration { min: 100 * MS, max: DAY, off: false },
            absent: Absent::Default("\"30s\""),
            help: "How long the first ejection lasts; each further one lasts twice as long.",
            why: "Envoy's: about what a process takes to start again.",
        };
        eject_max_ns = Key {
            name: "eject_max",
            kind: Kind::Duration { min: 100 * MS, max: DAY, off: false },
            absent: Absent::Default("\"5m\""),
            help: "The longest ejection; at least `eject`.",
            why: "Envoy's: an endpoint that was repaired is soon used again.",
        };
        eject_at_most = Key {
            name: "eject_at_most",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0.3"),
            help: "The share of a tier that may be ejected at once. Of two or more endpoints, one always may. Failures \
                   in a row eject all of a tier while another tier could serve.",
            why: "When most endpoints fail, the cause is rarely in them, and the rest could not carry the load.",
        };
    }
}

table! {
    static SUCCESS_RATE = "outlier.success_rate of [pool.NAME]",
        "Ejects endpoints whose share of successes in an interval is below mean - `deviations` x standard deviation \
        of the pool.";

    impl for outlier::SuccessRate {
        deviations = Key {
            name: "deviations",
            kind: Kind::Number { min: 0.1, max: 10.0 },
            absent: Absent::Default("1.9"),
            help: "Standard deviations below the mean.",
            why: "Envoy's default.",
        };
        min_requests = Key {
            name: "min_requests",
            kind: Kind::Int { min: 1, max: 1_000_000_000 },
            absent: Absent::Default("100"),
            help: "Requests that an endpoint must have had in the interval to be compared.",
            why: "Envoy's: with fewer, one failure is more than a percent.",
        };
        min_endpoints = Key {
            name: "min_endpoints",
            kind: Kind::Int { min: 2, max: 65_535 },
            absent: Absent::Default("5"),
            help: "The number of endpoints with so many requests that is needed to compare them.",
            why: "Envoy's: the deviation of fewer endpoints means nothing.",
        };
    }
}

table! {
    static LATENCY = "outlier.latency of [pool.NAME]",
        "Ejects endpoints whose mean latency in an interval is above `factor` x the median of the pool's.";

    impl for outlier::Latency {
        factor = Key {
            name: "factor",
            kind: Kind::Number { min: 1.1, max: 1000.0 },
            absent: Absent::Default("3"),
            help: "How many times the median.",
            why: "More than endpoints differ by age or distance alone.",
        };
        min_requests = Key {
            name: "min_requests",
            kind: Kind::Int { min: 1, max: 1_000_000_000 },
            absent: Absent::Default("100"),
            help: "Requests that an endpoint must have had in the interval to be compared.",
            why: "With fewer, a single slow request moves the mean.",
        };
    }
}

/// The key `outlier` of a table: `None` for `"off"`, and the defaults if it is left out.
pub(crate) fn outlier(table: &Section) -> Option<outlier::Settings> {
    (table.word("outlier") != "off").then(|| outlier::Settings::of(&table.section("outlier")))
}

/// Reports a first ejection that is longer than the longest.
pub(crate) fn check(table: &Section, findings: &mut Findings) {
    let outlier = table.section("outlier");
    let (eject_ns, eject_max_ns) = (outlier.ns("eject"), outlier.ns("eject_max"));
    if eject_ns > eject_max_ns && !outlier.is_broken() {
        let text = |ns| duration_text(Duration::from_nanos(ns));
        let (eject, max) = (text(eject_ns), text(eject_max_ns));
        let (set, other) = if outlier.set("eject").is_some() { ("eject", "eject_max") } else { ("eject_max", "eject") };
        let message =
            format!("the first ejection, \"eject\", lasts {eject}, but the longest, \"eject_max\", only {max}");
        outlier
            .contradiction(outlier.span_of(set), message, other, findings)
            .help(format!("write eject_max = \"{eject}\" or longer, or eject = \"{max}\" or shorter"));
    }
}

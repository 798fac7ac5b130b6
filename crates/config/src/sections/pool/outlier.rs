//! `outlier` of a pool: passive ejection of endpoints by the results of requests.

use crate::diagnostic::Findings;
use crate::quantity::duration_text;
use crate::table::{Absent, DAY, Declared, H, Key, Kind, MS, Section, table};
use evenkeel_balance::outlier;
use std::time::Duration;

table! {
    /// Keys of outlier ejection.
    pub static OUTLIER = "outlier of [pool.NAME]",
        "Ejection: an endpoint that fails requests, or fails far more requests than its pool, gets no requests for a \
        while. Then it gets a single request, and the outcome of that request decides.";

    impl for outlier::Settings {
        consecutive_5xx = Key {
            name: "consecutive_5xx",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("0"),
            help: "Responses of 500 and above in a row, including gateway errors, that eject an endpoint; 0 = never.",
            why: "A 500 mostly depends on the request: one client that requests a broken page would eject endpoints.",
        };
        consecutive_gateway = Key {
            name: "consecutive_gateway",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("5"),
            help: "Gateway errors in a row that eject an endpoint: 502, 503, 504, resets, timeouts, malformed \
                responses; 0 = never.",
            why: "Envoy's default.",
        };
        consecutive_connect = Key {
            name: "consecutive_connect",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("3"),
            help: "Failed connection attempts in a row that eject an endpoint; 0 = never.",
            why: "Fewer than for gateway errors: the process is most likely dead, and each failure costs a request one \
                try.",
        };
        success_rate = Key {
            name: "success_rate",
            kind: Kind::Table(&SUCCESS_RATE),
            absent: Absent::Means("off"),
            help: "Ejects endpoints with a success rate far below the pool's.",
            why: "",
        };
        latency = Key {
            name: "latency",
            kind: Kind::Table(&LATENCY),
            absent: Absent::Means("off"),
            help: "Ejects endpoints with a mean latency far above the pool's median.",
            why: "",
        };
        interval_ns = Key {
            name: "interval",
            kind: Kind::Duration { min: 100 * MS, max: H, off: false },
            absent: Absent::Default("\"10s\""),
            help: "Time between two evaluations of `success_rate` and `latency`.",
            why: "Envoy's default.",
        };
        eject_ns = Key {
            name: "eject",
            kind: Kind::Duration { min: 100 * MS, max: DAY, off: false },
            absent: Absent::Default("\"30s\""),
            help: "Duration of the first ejection. Each further ejection lasts twice as long as the previous one.",
            why: "Envoy's default: about the time a process takes to restart.",
        };
        eject_max_ns = Key {
            name: "eject_max",
            kind: Kind::Duration { min: 100 * MS, max: DAY, off: false },
            absent: Absent::Default("\"5m\""),
            help: "Longest ejection; at least `eject`.",
            why: "Envoy's default: a repaired endpoint is used again soon.",
        };
        eject_at_most = Key {
            name: "eject_at_most",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0.3"),
            help: "Share of a tier that may be ejected at once, but always at least one of two or more endpoints. \
                Consecutive failures may eject a whole tier while another tier can serve.",
            why: "When most endpoints fail, the cause is rarely the endpoints, and the rest could not carry the load.",
        };
    }
}

table! {
    static SUCCESS_RATE = "outlier.success_rate of [pool.NAME]",
        "Ejects endpoints with a success rate in an interval below the pool's mean minus `deviations` standard \
        deviations.";

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
            help: "Minimum requests in the interval for an endpoint to be compared.",
            why: "Envoy's default: with fewer requests, one failure is more than a percent.",
        };
        min_endpoints = Key {
            name: "min_endpoints",
            kind: Kind::Int { min: 2, max: 65_535 },
            absent: Absent::Default("5"),
            help: "Minimum number of endpoints with `min_requests` for a comparison.",
            why: "Envoy's default: the deviation of fewer endpoints means nothing.",
        };
    }
}

table! {
    static LATENCY = "outlier.latency of [pool.NAME]",
        "Ejects endpoints with a mean latency in an interval above `factor` times the pool's median.";

    impl for outlier::Latency {
        factor = Key {
            name: "factor",
            kind: Kind::Number { min: 1.1, max: 1000.0 },
            absent: Absent::Default("3"),
            help: "Multiple of the median.",
            why: "Endpoints rarely differ this much by age or distance alone.",
        };
        min_requests = Key {
            name: "min_requests",
            kind: Kind::Int { min: 1, max: 1_000_000_000 },
            absent: Absent::Default("100"),
            help: "Minimum requests in the interval for an endpoint to be compared.",
            why: "With fewer requests, a single slow request shifts the mean.",
        };
    }
}

/// Reads the key `outlier` of a table: `None` for `"off"`, the defaults if not set.
pub(crate) fn outlier(table: &Section) -> Option<outlier::Settings> {
    (table.word("outlier") != "off").then(|| outlier::Settings::of(&table.section("outlier")))
}

/// Reports a first ejection longer than the longest.
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

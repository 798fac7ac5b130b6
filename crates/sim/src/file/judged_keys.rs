//! Keys of published figures and claims.

use super::row::{DAY, key, required, with_default};
use crate::metric;
use evenkeel_config::tables::{Form, Kind, Table};

pub(super) static PUBLISHED: Table = Table {
    path: "[[published]]",
    help: "A row of a published table. Each figure is the mean over the seeds.",
    inherits: false,
    keys: &[
        key("at", Kind::Text(Form::Content), "the only point", "Name of the point."),
        required("algorithm", Kind::Text(Form::Content), "\"peak_ewma\"", "Name of the policy in the results."),
        key("title", Kind::Text(Form::Content), "none", "Name of the policy in the source."),
        with_default(
            "relative",
            Kind::Number { min: 0.0, max: 10.0 },
            "0.02",
            "Tolerance of a figure, as a share of it.",
        ),
        with_default(
            "absolute",
            Kind::Duration { min: 0, max: DAY, off: false },
            "\"0s\"",
            "Absolute tolerance of a time, whatever `relative` is.",
        ),
        required("cells", Kind::Table(&CELLS), "{ p50 = \"5ms\" }", "Published figures."),
    ],
};

const fn time(name: &'static str, help: &'static str) -> evenkeel_config::tables::Key {
    key(name, Kind::TableOr { table: &TIME_CELL, key: "value" }, "not published", help)
}

const fn number(name: &'static str, help: &'static str) -> evenkeel_config::tables::Key {
    key(name, Kind::TableOr { table: &NUMBER_CELL, key: "value" }, "not published", help)
}

/// Figures that can be compared. Each is the name of a metric.
pub(super) static CELLS: Table = Table {
    path: "cells of [[published]]",
    help: "A figure, or a table with its tolerance or range.",
    inherits: false,
    keys: &[
        time("wall", "Time from the start to the last response."),
        time("mean", "Mean latency."),
        time("p50", "Median latency."),
        time("p90", "90th percentile of the latency."),
        time("p95", "95th percentile."),
        time("p99", "99th percentile."),
        time("p999", "99.9th percentile."),
        time("p9999", "99.99th percentile."),
        number("throughput", "Responses per second."),
        number("peak", "Maximum requests in flight at any server."),
        number("peak_mean", "Maximum requests in flight at a server, averaged over the servers."),
        number("jain", "Jain's index of fairness, by capacity: 1 is fair."),
        number("failed", "Share of requests that failed, 0 to 1."),
    ],
};

const NOTE_HELP: &str = "Reason why the figure cannot be reproduced. It is shown next to the figure, and the figure is \
    not judged.";

static TIME_CELL: Table = Table {
    path: "a time of cells of [[published]]",
    help: "A time. `relative` and `absolute` default to the values of the row.",
    inherits: false,
    keys: &[
        required("value", Kind::Duration { min: 0, max: DAY, off: false }, "\"5ms\"", "Published value."),
        key("relative", Kind::Number { min: 0.0, max: 10.0 }, "that of the row", "Tolerance, relative."),
        key("absolute", Kind::Duration { min: 0, max: DAY, off: false }, "that of the row", "Tolerance, absolute."),
        key("from", Kind::Duration { min: 0, max: DAY, off: false }, "by `relative`", "Lower bound."),
        key("to", Kind::Duration { min: 0, max: DAY, off: false }, "by `relative`", "Upper bound."),
        key("note", Kind::Text(Form::Content), "none", NOTE_HELP),
    ],
};

static NUMBER_CELL: Table = Table {
    path: "a number of cells of [[published]]",
    help: "A number. `relative` defaults to the value of the row.",
    inherits: false,
    keys: &[
        required("value", Kind::Number { min: 0.0, max: 1e12 }, "1000", "Published value."),
        key("relative", Kind::Number { min: 0.0, max: 10.0 }, "that of the row", "Tolerance, relative."),
        key("from", Kind::Number { min: 0.0, max: 1e12 }, "by `relative`", "Lower bound."),
        key("to", Kind::Number { min: 0.0, max: 1e12 }, "by `relative`", "Upper bound."),
        key("note", Kind::Text(Form::Content), "none", NOTE_HELP),
    ],
};

pub(super) static CLAIM: Table = Table {
    path: "[[claim]]",
    help: "A claim about `of` divided by `to`, seed by seed, with one bound. It holds if the whole interval over the \
           seeds is within the bound, and fails if the whole interval is outside. Otherwise it is not distinguishable.",
    inherits: false,
    keys: &[
        required("says", Kind::Text(Form::Content), "\"A is faster than B\"", "Claim as a sentence."),
        required("metric", Kind::Choice(metric::NAMES_AND_SHARE), "\"p99\"", "Figure to compare."),
        key("server", Kind::Text(Form::Name), "none", "With the metric `share`: the group of servers."),
        required(
            "of",
            Kind::TableOr { table: &SIDE, key: "algorithm" },
            "\"leastconn\"",
            "Left side of the comparison.",
        ),
        required("to", Kind::TableOr { table: &SIDE, key: "algorithm" }, "\"random\"", "Right side of the comparison."),
        with_default(
            "by",
            Kind::Choice(&["ratio", "difference"]),
            "\"ratio\"",
            "`ratio`: `of` divided by `to`. `difference`: `of` minus `to`.",
        ),
        key("at_most", Kind::Number { min: -1e12, max: 1e12 }, "none", "Upper bound. Times are in seconds."),
        key("at_least", Kind::Number { min: -1e12, max: 1e12 }, "none", "Lower bound."),
        key(
            "not_above",
            Kind::Number { min: -1e12, max: 1e12 },
            "none",
            "It is not more than this beyond the interval.",
        ),
        key(
            "not_below",
            Kind::Number { min: -1e12, max: 1e12 },
            "none",
            "It is not less than this beyond the interval.",
        ),
        key(
            "within",
            Kind::Number { min: 0.0, max: 1.0 },
            "none",
            "Equivalence: the 90 % interval of the ratio lies within 1 plus or minus this.",
        ),
    ],
};

static SIDE: Table = Table {
    path: "of or to of [[claim]]",
    help: "A measured value, or a `constant`.",
    inherits: false,
    keys: &[
        key("algorithm", Kind::Text(Form::Content), "none", "Name of the policy in the results."),
        key("at", Kind::Text(Form::Content), "the only point", "Name of the point."),
        key("constant", Kind::Number { min: -1e12, max: 1e12 }, "none", "A number instead; times are in seconds."),
    ],
};

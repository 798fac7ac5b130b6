//! Keys of published figures and claims.

use super::row::{DAY, key, required, with_default};
use crate::metric;
use evenkeel_config::tables::{Form, Kind, Table};

pub(super) static PUBLISHED: Table = Table {
    path: "[[published]]",
    help: "A row of a table that was published. Each figure is the mean over the seeds.",
    inherits: false,
    keys: &[
        key("at", Kind::Text(Form::Content), "the only point", "The point, by its name."),
        required("algorithm", Kind::Text(Form::Content), "\"peak_ewma\"", "By the name that the results show."),
        key("title", Kind::Text(Form::Content), "none", "What its source calls it."),
        with_default(
            "relative",
            Kind::Number { min: 0.0, max: 10.0 },
            "0.02",
            "How far off a figure may be, as a share of it.",
        ),
        with_default(
            "absolute",
            Kind::Duration { min: 0, max: DAY, off: false },
            "\"0s\"",
            "How far off a time may be anyway.",
        ),
        required("cells", Kind::Table(&CELLS), "{ p50 = \"5ms\" }", "The figures."),
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
    help: "A figure, or a table that says more about it.",
    inherits: false,
    keys: &[
        time("wall", "From the start to the last answer."),
        time("mean", "The mean latency."),
        time("p50", "The median latency."),
        time("p90", "The 90th percentile."),
        time("p95", "The 95th."),
        time("p99", "The 99th."),
        time("p999", "The 99.9th."),
        time("p9999", "The 99.99th."),
        number("throughput", "Answers a second."),
        number("peak", "The most requests that any server had at once."),
        number("peak_mean", "The same of each server, on average over them."),
        number("jain", "Jain's index of fairness, by capacity: 1 is fair."),
        number("failed", "The share of requests that failed."),
    ],
};

const NOTE_HELP: &str = "Why it does not come out: it is shown beside the figure, and nothing is judged.";

static TIME_CELL: Table = Table {
    path: "a time of cells of [[published]]",
    help: "A time. `relative` and `absolute` are those of the row if they are left out.",
    inherits: false,
    keys: &[
        required("value", Kind::Duration { min: 0, max: DAY, off: false }, "\"5ms\"", "What was published."),
        key("relative", Kind::Number { min: 0.0, max: 10.0 }, "that of the row", "How far off it may be, as a share."),
        key(
            "absolute",
            Kind::Duration { min: 0, max: DAY, off: false },
            "that of the row",
            "How far off it may be anyway.",
        ),
        key("from", Kind::Duration { min: 0, max: DAY, off: false }, "by `relative`", "The least that is allowed."),
        key("to", Kind::Duration { min: 0, max: DAY, off: false }, "by `relative`", "The most that is allowed."),
        key("note", Kind::Text(Form::Content), "none", NOTE_HELP),
    ],
};

static NUMBER_CELL: Table = Table {
    path: "a number of cells of [[published]]",
    help: "A number. `relative` is that of the row if it is left out.",
    inherits: false,
    keys: &[
        required("value", Kind::Number { min: 0.0, max: 1e12 }, "1000", "What was published."),
        key("relative", Kind::Number { min: 0.0, max: 10.0 }, "that of the row", "How far off it may be, as a share."),
        key("from", Kind::Number { min: 0.0, max: 1e12 }, "by `relative`", "The least that is allowed."),
        key("to", Kind::Number { min: 0.0, max: 1e12 }, "by `relative`", "The most that is allowed."),
        key("note", Kind::Text(Form::Content), "none", NOTE_HELP),
    ],
};

pub(super) static CLAIM: Table = Table {
    path: "[[claim]]",
    help: "A sentence about `of` divided by `to`, seed by seed, and one bound for it. It holds, or does not, if the whole \
           interval over the seeds says so; otherwise it is not distinguishable.",
    inherits: false,
    keys: &[
        required("says", Kind::Text(Form::Content), "\"A is faster than B\"", "The sentence."),
        required("metric", Kind::Choice(metric::NAMES_AND_SHARE), "\"p99\"", "What is compared."),
        key(
            "server",
            Kind::Text(Form::Name),
            "none",
            "With the metric `share`: the group of servers whose share it is.",
        ),
        required("of", Kind::TableOr { table: &SIDE, key: "algorithm" }, "\"leastconn\"", "What it is about."),
        required("to", Kind::TableOr { table: &SIDE, key: "algorithm" }, "\"random\"", "What that is compared to."),
        with_default(
            "by",
            Kind::Choice(&["ratio", "difference"]),
            "\"ratio\"",
            "Whether `of` is divided by `to`, or `to` taken from it.",
        ),
        key("at_most", Kind::Number { min: -1e12, max: 1e12 }, "none", "It is this or less. Times are in seconds."),
        key("at_least", Kind::Number { min: -1e12, max: 1e12 }, "none", "It is this or more."),
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
            "They are equivalent: the 90 % interval of the ratio lies within 1 plus or minus this.",
        ),
    ],
};

static SIDE: Table = Table {
    path: "of or to of [[claim]]",
    help: "A measured value, or a `constant`.",
    inherits: false,
    keys: &[
        key("algorithm", Kind::Text(Form::Content), "none", "By the name that the results show."),
        key("at", Kind::Text(Form::Content), "the only point", "The point, by its name."),
        key("constant", Kind::Number { min: -1e12, max: 1e12 }, "none", "A number instead; times are in seconds."),
    ],
};

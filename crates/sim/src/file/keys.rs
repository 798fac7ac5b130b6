//! Keys of a scenario file: top level, machines, references, load and cases. Services, work, and published figures and
//! claims have separate files.

use super::judged_keys::{CLAIM, PUBLISHED};
use super::row::{DAY, H, MS, US, key, required, with_default};
use super::service_keys::SERVICE;
use super::work_keys::WORK;
use crate::metric;
use evenkeel_config::tables::{Absent, Form, Key, Kind, Table};

/// The top level of a scenario file.
pub(super) static ROOT: Table = Table {
    path: "the top level",
    help: "The simulated system, the policies to compare, and the expected results.",
    inherits: false,
    keys: &[
        required("summary", Kind::Text(Form::Content), "\"Ten servers, one slow\"", "Summary in one line, for lists."),
        key("source", Kind::Text(Form::Content), "nothing", "Source of the scenario, and what it leaves out."),
        key(
            "algorithms",
            Kind::List(&Kind::Balance),
            "every algorithm that needs no hash key, and that planes keep",
            "Policies to compare, each `\"NAME\"` or `{ NAME = { PARAMETER = VALUE } }`, like `balance` of a pool.",
        ),
        key(
            "references",
            Kind::List(&Kind::TableOr { table: &REFERENCE, key: "name" }),
            "none",
            "Reference policies to run as well.",
        ),
        Key {
            name: "seeds",
            kind: Kind::Int { min: 1, max: 1000 },
            absent: Absent::Default("5"),
            help: "Runs of each algorithm. With the same seed, all algorithms get the same arrivals and work.",
            why: "The fewest runs that give a meaningful interval; one run is an anecdote.",
        },
        key(
            "requests",
            Kind::Int { min: 1, max: 1_000_000_000 },
            "as many as come until `until`",
            "Requests that clients make in each run.",
        ),
        with_default(
            "warm_up",
            Kind::Number { min: 0.0, max: 0.9 },
            "0.1",
            "Share of `requests`, from the start, that is not measured.",
        ),
        key(
            "until",
            Kind::Duration { min: MS, max: DAY, off: false },
            "when all `requests` are answered",
            "End of a run, in virtual time.",
        ),
        with_default(
            "link",
            Kind::Duration { min: 0, max: H, off: false },
            "\"0s\"",
            "One-way delay between any two machines.",
        ),
        with_default(
            "rank",
            Kind::Choice(metric::NAMES),
            "\"p99\"",
            "Figure by which the verdict ranks the algorithms.",
        ),
        required("load", Kind::Table(&LOAD), "{ users = 50 }", "Arrivals of requests."),
        required(
            "service",
            Kind::Named(&SERVICE),
            "[service.web]",
            "Services, by name. Clients call the first; its steps may call others.",
        ),
        key("machine", Kind::Named(&MACHINE), "each server has its own", "Machines that servers share, by name."),
        key(
            "vary",
            Kind::Open,
            "one point",
            "Keys of this file, each with an array of values: `load.share = [0.5, 0.9]`, `service.web.server.0.count = \
             [6, 10]` (arrays are indexed from 0). Every combination is a point, named after its values. A value \
             without a meaningful name may be `{ label = \"high\", value = ... }`.",
        ),
        key(
            "case",
            Kind::Tables(&CASE),
            "one",
            "Points that differ in more than one key. Each is combined with the points of `vary`.",
        ),
        key("published", Kind::Tables(&PUBLISHED), "none", "Published figures to reproduce."),
        key("claim", Kind::Tables(&CLAIM), "none", "Claims to judge by the results."),
    ],
};

static MACHINE: Table = Table {
    path: "[machine.NAME]",
    help: "Cores that several servers share. If they need more, each server gets proportionally less.",
    inherits: false,
    keys: &[required("cores", Kind::Number { min: 0.01, max: 10_000.0 }, "2", "Number of cores. May be fractional.")],
};

static REFERENCE: Table = Table {
    path: "references",
    help: "A reference policy that sees the true state of all servers without delay (or the `board`), or reproduces a \
           known fault. One key each.",
    inherits: false,
    keys: &[
        key(
            "name",
            Kind::Choice(&["jsq", "central-queue"]),
            "none",
            "`jsq`: joins the shortest queue, at the server with the fewest requests in flight. `central-queue`: all \
             servers act as one, with all their cores; no balancing is better on average.",
        ),
        key(
            "jsq",
            Kind::Int { min: 1, max: 100_000 },
            "none",
            "Number of distinct servers to draw; the server with the fewest requests in flight gets the request.",
        ),
        key(
            "draws_with_replacement",
            Kind::Int { min: 1, max: 100_000 },
            "none",
            "As `jsq`, but the same server may be drawn again.",
        ),
    ],
};

static LOAD: Table = Table {
    path: "[load]",
    help: "Arrivals of requests: exactly one of `share`, `rate`, `users`, `phases` and `moments`.",
    inherits: false,
    keys: &[
        key(
            "share",
            Kind::Number { min: 0.001, max: 10.0 },
            "none",
            "Random arrivals, at this share of the capacity of the busiest service. At 1 or more there is no steady \
             state.",
        ),
        key("rate", Kind::Number { min: 0.001, max: 1e9 }, "none", "Poisson arrivals, per second."),
        key(
            "users",
            Kind::Int { min: 1, max: 10_000_000 },
            "none",
            "Number of users, each with one request at a time.",
        ),
        with_default(
            "think",
            Kind::TableOr { table: &WORK, key: "constant" },
            "\"0s\"",
            "With `users`: time from a response to the next request.",
        ),
        key("phases", Kind::Tables(&PHASE), "none", "Poisson arrivals at a changing rate: alternating phases."),
        key(
            "moments",
            Kind::List(&Kind::Duration { min: 0, max: DAY, off: false }),
            "none",
            "Times of arrivals from the start, ascending.",
        ),
    ],
};

static PHASE: Table = Table {
    path: "phases of [load]",
    help: "A rate, held for an exponential time.",
    inherits: false,
    keys: &[
        required("rate", Kind::Number { min: 0.0, max: 1e9 }, "1000", "Requests per second."),
        required("mean", Kind::Duration { min: US, max: DAY, off: false }, "\"10s\"", "Mean duration."),
    ],
};

static CASE: Table = Table {
    path: "[[case]]",
    help: "A named point.",
    inherits: false,
    keys: &[
        required("name", Kind::Text(Form::Label), "\"high\"", "Name of the point."),
        required("set", Kind::Open, "{ load.users = 50 }", "Keys of this file, with their values at this point."),
    ],
};

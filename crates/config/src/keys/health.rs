//! The keys of who may be used: health checks, ejection, slow start, panic and zones of `[pool.NAME]`.

use super::{Absent, DAY, H, Key, Kind, MS, Table, UDP_CHECK};
use crate::form::Form;

pub(super) static HEALTH: Table = Table {
    path: "health of [pool.NAME]",
    help: "Active checks: each endpoint is asked, again and again, whether it is well. Exactly one of `http`, `tcp` and \
           `udp` says how.",
    inherits: false,
    keys: &[
        Key {
            name: "http",
            kind: Kind::TableOr { table: &HTTP, key: "path" },
            absent: Absent::Means("no HTTP check"),
            help: "By a request. Passed if status and body are as expected.",
            why: "",
        },
        Key {
            name: "tcp",
            kind: Kind::Table(&TCP),
            absent: Absent::Means("no TCP check"),
            help: "By a connection: `{}`. Passed if it opens.",
            why: "",
        },
        Key {
            name: "udp",
            kind: Kind::Table(&UDP_CHECK),
            absent: Absent::Means("no UDP check"),
            help: "By a datagram. Passed if an answer comes that is as expected.",
            why: "",
        },
        Key {
            name: "port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Means("the port of each endpoint"),
            help: "The port that is asked. Another than that of the endpoint gets no PROXY protocol header.",
            why: "",
        },
        Key {
            name: "interval",
            kind: Kind::Duration { min: 10 * MS, max: DAY, off: false },
            absent: Absent::Default("\"2s\""),
            help: "From the start of one check of an endpoint to the start of its next.",
            why: "HAProxy's: with `fall` 3 a dead endpoint is out after about 4 to 6 s, and a check each 2 s costs it nothing.",
        },
        Key {
            name: "jitter",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0.2"),
            help: "Each interval is longer or shorter by up to this share of it.",
            why: "So that many endpoints, or many balancers, that started together do not stay in step.",
        },
        Key {
            name: "timeout",
            kind: Kind::Duration { min: MS, max: H, off: false },
            absent: Absent::Means("`\"1s\"`, or `interval` if that is shorter"),
            help: "How long one check may take, the connect included. Not longer than `interval`.",
            why: "",
        },
        Key {
            name: "fall",
            kind: Kind::Int { min: 1, max: 1000 },
            absent: Absent::Default("3"),
            help: "Failed checks in a row that take an endpoint down.",
            why: "HAProxy's: one lost packet takes nobody down.",
        },
        Key {
            name: "rise",
            kind: Kind::Int { min: 1, max: 1000 },
            absent: Absent::Default("2"),
            help: "Passed checks in a row that bring it back.",
            why: "HAProxy's: an endpoint that answers once while it starts is not up yet.",
        },
        Key {
            name: "initial",
            kind: Kind::Choice(&["check-first", "healthy", "unhealthy"]),
            absent: Absent::Default("\"check-first\""),
            help: "What an endpoint is before its first result. `check-first`: neither; requests wait for the result, at \
                   most a second, and it decides alone.",
            why: "A new endpoint that is down gets no request, and one that is up does not wait for `rise` checks.",
        },
    ],
};

static HTTP: Table = Table {
    path: "health.http of [pool.NAME]",
    help: "The request of a health check.",
    inherits: false,
    keys: &[
        Key {
            name: "path",
            kind: Kind::Text(Form::Target),
            absent: Absent::Default("\"/\""),
            help: "Path and query.",
            why: "Every server has it; a page that checks what the endpoint depends on says more.",
        },
        Key {
            name: "method",
            kind: Kind::Choice(&["GET", "HEAD", "OPTIONS"]),
            absent: Absent::Default("\"GET\""),
            help: "The method.",
            why: "The one that every handler has.",
        },
        Key {
            name: "host",
            kind: Kind::Text(Form::Authority),
            absent: Absent::Means("the address of the endpoint"),
            help: "The `Host` field.",
            why: "",
        },
        Key {
            name: "expect",
            kind: Kind::List(&Kind::IntOrText { min: 200, max: 599, form: Form::Status }),
            absent: Absent::Default("[\"200..=299\"]"),
            help: "The statuses that pass: numbers, ranges (`\"204..=299\"`), or all of a class (`\"2xx\"`).",
            why: "A redirect to a login or an error page is not health.",
        },
        Key {
            name: "body",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("any body"),
            help: "A text that the body must contain. Not with `HEAD`, whose responses have none.",
            why: "",
        },
    ],
};

static TCP: Table = Table {
    path: "health.tcp of [pool.NAME]",
    help: "A connection is the whole check: there is nothing to set.",
    inherits: false,
    keys: &[],
};

/// When failures take an endpoint out.
pub static OUTLIER: Table = Table {
    path: "outlier of [pool.NAME]",
    help: "Ejection: an endpoint that fails requests, or does so far more than its pool, gets none for a while. Then it \
           gets one, and the outcome of that one decides.",
    inherits: false,
    keys: &[
        Key {
            name: "consecutive_5xx",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("5"),
            help: "Responses of 500 and above in a row, gateway errors included, that eject; 0 = never.",
            why: "Envoy's.",
        },
        Key {
            name: "consecutive_gateway",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("5"),
            help: "Gateway errors in a row that eject: 502, 503, 504, resets, timeouts, broken responses; 0 = never.",
            why: "Envoy's.",
        },
        Key {
            name: "consecutive_connect",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("3"),
            help: "Connections in a row that could not be opened, and eject; 0 = never.",
            why: "Fewer than errors: it means a dead process, and each costs a request a try.",
        },
        Key {
            name: "success_rate",
            kind: Kind::Table(&SUCCESS_RATE),
            absent: Absent::Means("off"),
            help: "Ejects endpoints whose share of successes is far below the pool's.",
            why: "",
        },
        Key {
            name: "latency",
            kind: Kind::Table(&LATENCY),
            absent: Absent::Means("off"),
            help: "Ejects endpoints whose mean latency is far above the pool's median.",
            why: "",
        },
        Key {
            name: "interval",
            kind: Kind::Duration { min: 100 * MS, max: H, off: false },
            absent: Absent::Default("\"10s\""),
            help: "How often `success_rate` and `latency` are looked at.",
            why: "Envoy's.",
        },
        Key {
            name: "eject",
            kind: Kind::Duration { min: 100 * MS, max: DAY, off: false },
            absent: Absent::Default("\"30s\""),
            help: "How long the first ejection lasts; each further one lasts twice as long.",
            why: "Envoy's: about what a process takes to start again.",
        },
        Key {
            name: "eject_max",
            kind: Kind::Duration { min: 100 * MS, max: DAY, off: false },
            absent: Absent::Default("\"5m\""),
            help: "The longest ejection; at least `eject`.",
            why: "Envoy's: whoever mends an endpoint does not wait long for it.",
        },
        Key {
            name: "eject_at_most",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0.3"),
            help: "The share of the pool that may be ejected at once. One of two or more always may.",
            why: "When most fail it is rarely the endpoints, and the rest could not carry the load.",
        },
    ],
};

static SUCCESS_RATE: Table = Table {
    path: "outlier.success_rate of [pool.NAME]",
    help: "Ejects endpoints whose share of successes in an interval is below mean - `deviations` x standard deviation \
           of the pool.",
    inherits: false,
    keys: &[
        Key {
            name: "deviations",
            kind: Kind::Number { min: 0.1, max: 10.0 },
            absent: Absent::Default("1.9"),
            help: "Standard deviations below the mean.",
            why: "Envoy's.",
        },
        Key {
            name: "min_requests",
            kind: Kind::Int { min: 1, max: 1_000_000_000 },
            absent: Absent::Default("100"),
            help: "Requests that an endpoint must have had in the interval to be looked at.",
            why: "Envoy's: below, one failure is more than a percent.",
        },
        Key {
            name: "min_endpoints",
            kind: Kind::Int { min: 2, max: 65_535 },
            absent: Absent::Default("5"),
            help: "Endpoints with so many requests that there must be.",
            why: "Envoy's: a deviation of fewer means nothing.",
        },
    ],
};

static LATENCY: Table = Table {
    path: "outlier.latency of [pool.NAME]",
    help: "Ejects endpoints whose mean latency in an interval is above `factor` x the median of the pool's.",
    inherits: false,
    keys: &[
        Key {
            name: "factor",
            kind: Kind::Number { min: 1.1, max: 1000.0 },
            absent: Absent::Default("3"),
            help: "How many times the median.",
            why: "Above the spread of endpoints that only differ in age or distance.",
        },
        Key {
            name: "min_requests",
            kind: Kind::Int { min: 1, max: 1_000_000_000 },
            absent: Absent::Default("100"),
            help: "Requests that an endpoint must have had in the interval to be looked at.",
            why: "The mean of fewer follows a single slow one.",
        },
    ],
};

/// How an endpoint that comes gets its share.
pub static SLOW_START: Table = Table {
    path: "slow_start of [pool.NAME]",
    help: "An endpoint that comes, or comes back, starts with part of its weight: \
           weight x max(`min_weight`, (age / `window`)^(1 / `aggression`)).",
    inherits: false,
    keys: &[
        Key {
            name: "window",
            kind: Kind::Duration { min: 100 * MS, max: H, off: false },
            absent: Absent::Required("\"30s\""),
            help: "How long the ramp is.",
            why: "",
        },
        Key {
            name: "aggression",
            kind: Kind::Number { min: 0.1, max: 10.0 },
            absent: Absent::Default("1"),
            help: "1 is linear; above, it rises faster at first.",
            why: "Envoy's.",
        },
        Key {
            name: "min_weight",
            kind: Kind::Number { min: 0.001, max: 1.0 },
            absent: Absent::Default("0.1"),
            help: "The share of its weight that it starts with.",
            why: "Envoy's: without requests nothing gets warm.",
        },
    ],
};

/// What happens when few are healthy.
pub static PANIC: Table = Table {
    path: "panic of [pool.NAME]",
    help: "What happens when few endpoints of a pool are healthy.",
    inherits: false,
    keys: &[
        Key {
            name: "healthy_below",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0.5"),
            help: "The share of healthy endpoints below which the pool panics; 0 = never.",
            why: "Envoy's.",
        },
        Key {
            name: "mode",
            kind: Kind::Choice(&["use-all", "refuse"]),
            absent: Absent::Default("\"use-all\""),
            help: "`use-all`: all endpoints get requests, healthy or not. `refuse`: requests get a 503.",
            why: "The few that are left would go down under the load of all, and checks that fail everywhere are often \
                  wrong.",
        },
    ],
};

pub(super) static LOCALITY: Table = Table {
    path: "locality of [pool.NAME]",
    help: "Endpoints of the own zone first.",
    inherits: false,
    keys: &[
        Key {
            name: "zone",
            kind: Kind::Text(Form::Label),
            absent: Absent::Required("\"${ZONE}\""),
            help: "The own zone, as endpoints name theirs.",
            why: "",
        },
        Key {
            name: "spill_at",
            kind: Kind::Number { min: 0.01, max: 1.0 },
            absent: Absent::Default("0.8"),
            help: "The share of the own zone's weight that must be healthy for it to get everything. Below, the rest \
                   spills over to the other zones in proportion.",
            why: "Above it the others of the zone carry what one in five leaves; below they may not.",
        },
    ],
};

//! The keys of `[pool.NAME]`.

use super::{Absent, Key, Kind, POOL_TIMEOUTS, Table};
use crate::form::Form;

pub(super) static POOL: Table = Table {
    path: "[pool.NAME]",
    help: "Endpoints that do the same work, and how one is chosen for a request.",
    inherits: false,
    keys: &[
        Key {
            name: "balance",
            kind: Kind::Balance,
            absent: Absent::Means("the first algorithm of the list, with its defaults"),
            help: "How an endpoint is chosen: `\"NAME\"` or `{ NAME = { PARAMETER = VALUE } }`. See the algorithms page.",
            why: "",
        },
        Key {
            name: "endpoints",
            kind: Kind::List(&Kind::TableOr { table: &ENDPOINT, key: "addr" }),
            absent: Absent::Required(r#"["127.0.0.1:8081", "127.0.0.1:8082"]"#),
            help: "The endpoints. A plain string is an endpoint's `addr`.",
            why: "",
        },
        Key {
            name: "limits",
            kind: Kind::Table(&POOL_LIMITS),
            absent: Absent::Means("its defaults"),
            help: "What endpoints may be given.",
            why: "",
        },
        Key {
            name: "timeouts",
            kind: Kind::Table(&POOL_TIMEOUTS),
            absent: Absent::Means("those of `[defaults.timeouts]`"),
            help: "How long endpoints may take.",
            why: "",
        },
    ],
};

static ENDPOINT: Table = Table {
    path: "endpoints of [pool.NAME]",
    help: "One endpoint.",
    inherits: false,
    keys: &[
        Key {
            name: "addr",
            kind: Kind::Text(Form::Address),
            absent: Absent::Required(r#""127.0.0.1:8081""#),
            help: "Where it listens: IP address or host name, and port.",
            why: "",
        },
        Key {
            name: "name",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the address"),
            help: "What metrics and logs call it, and by what it is known again when its address changes. Unique in \
                   the pool.",
            why: "",
        },
        Key {
            name: "weight",
            kind: Kind::Int { min: 0, max: 65_535 },
            absent: Absent::Default("1"),
            help: "Its share against the others; 0 = no traffic.",
            why: "Equal shares.",
        },
        Key {
            name: "priority",
            kind: Kind::Int { min: 0, max: 15 },
            absent: Absent::Default("0"),
            help: "Its tier: 0 is used first, the next when that one has no room.",
            why: "All in one tier.",
        },
        Key {
            name: "drain",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Gets no new requests; running ones go on.",
            why: "",
        },
    ],
};

static POOL_LIMITS: Table = Table {
    path: "limits of [pool.NAME]",
    help: "What endpoints may be given.",
    inherits: false,
    keys: &[
        Key {
            name: "requests_per_endpoint",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("0"),
            help: "Requests in flight at one endpoint, all workers together; 0 = no limit.",
            why: "Only whoever knows the endpoint knows the number; a wrong one refuses requests.",
        },
        Key {
            name: "idle_per_endpoint",
            kind: Kind::Int { min: 0, max: 65_535 },
            absent: Absent::Default("256"),
            help: "Idle connections that one worker keeps to one endpoint; 0 = none is used twice.",
            why: "Enough for a burst; each costs a descriptor here and whatever the endpoint spends on one.",
        },
    ],
};

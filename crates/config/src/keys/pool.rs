//! The keys of `[pool.NAME]`.

use super::{
    Absent, DISCOVER, H, HEALTH, Key, Kind, LOAD_REPORTS, LOCALITY, MS, OUTLIER, PANIC, POOL_RETRY, POOL_TIMEOUTS, S,
    SLOW_START, STICKY, Table,
};
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
            absent: Absent::Means("none; then `discover` must find them"),
            help: "The endpoints. A plain string is an endpoint's `addr`.",
            why: "",
        },
        Key {
            name: "discover",
            kind: Kind::Table(&DISCOVER),
            absent: Absent::Means("only `endpoints`"),
            help: "Finds endpoints while evenkeel runs, beside those of `endpoints`.",
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
        Key {
            name: "health",
            kind: Kind::Table(&HEALTH),
            absent: Absent::Means("no checks"),
            help: "Asks endpoints whether they are well.",
            why: "",
        },
        Key {
            name: "outlier",
            kind: Kind::TableOrWord { table: &OUTLIER, word: "off" },
            absent: Absent::Means("its defaults"),
            help: "Ejects endpoints that fail requests.",
            why: "",
        },
        Key {
            name: "slow_start",
            kind: Kind::TableOr { table: &SLOW_START, key: "window" },
            absent: Absent::Means("off"),
            help: "Gives endpoints that come, or come back, their share bit by bit.",
            why: "",
        },
        Key {
            name: "panic",
            kind: Kind::Table(&PANIC),
            absent: Absent::Means("its defaults"),
            help: "What happens when few endpoints are healthy.",
            why: "",
        },
        Key {
            name: "locality",
            kind: Kind::Table(&LOCALITY),
            absent: Absent::Means("all zones alike"),
            help: "Uses endpoints of the own zone first.",
            why: "",
        },
        Key {
            name: "subset",
            kind: Kind::Table(&SUBSET),
            absent: Absent::Means("all of them"),
            help: "Uses, and checks, a part of the endpoints: for many instances in front of many endpoints.",
            why: "",
        },
        Key {
            name: "queue",
            kind: Kind::Table(&QUEUE),
            absent: Absent::Means("its defaults"),
            help: "Who waits when every endpoint is full.",
            why: "",
        },
        Key {
            name: "retry",
            kind: Kind::Table(&POOL_RETRY),
            absent: Absent::Means("that of `[defaults.retry]`"),
            help: "What is tried again.",
            why: "",
        },
        Key {
            name: "sticky",
            kind: Kind::Table(&STICKY),
            absent: Absent::Means("off"),
            help: "Lets clients meet their endpoint again.",
            why: "",
        },
        Key {
            name: "load_reports",
            kind: Kind::TableOrBool(&LOAD_REPORTS),
            absent: Absent::Means("off"),
            help: "Learns from endpoints how much they have to do, all balancers together. `true`: with its defaults.",
            why: "",
        },
        Key {
            name: "proxy_protocol",
            kind: Kind::Choice(&["off", "v1", "v2"]),
            absent: Absent::Default("\"off\""),
            help: "The PROXY protocol header that endpoints get at the start of each connection, to know the client. A \
                   connection is then never shared between clients.",
            why: "An endpoint that does not expect it refuses every request.",
        },
        Key {
            name: "source",
            kind: Kind::Choice(&["own", "client"]),
            absent: Absent::Default("\"own\""),
            help: "The address that endpoints see: one of this machine, or the client's, which takes CAP_NET_ADMIN or \
                   CAP_NET_RAW and a route back through this machine. Only for listeners with `mode = \"tcp\"`.",
            why: "It works everywhere.",
        },
        Key {
            name: "tcp",
            kind: Kind::Table(&TCP),
            absent: Absent::Means("its defaults"),
            help: "Of sessions, where the listener has `mode = \"tcp\"`.",
            why: "",
        },
    ],
};

static SUBSET: Table = Table {
    path: "subset of [pool.NAME]",
    help: "The endpoints of a tier on a ring, of which each instance takes some from its own place on. Instances numbered \
           from 0 use each endpoint equally often, but for a few; one that comes or goes changes nothing for the others, and \
           an endpoint that does changes at most two of an instance's.",
    inherits: false,
    keys: &[
        Key {
            name: "size",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Required("20"),
            help: "Endpoints to use of each tier.",
            why: "",
        },
        Key {
            name: "instance",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the host's name"),
            help: "Which instance this is: a name with a number at its end counts as that number, any other by its hash.",
            why: "",
        },
    ],
};

static TCP: Table = Table {
    path: "tcp of [pool.NAME]",
    help: "Of sessions, where the listener has `mode = \"tcp\"`.",
    inherits: false,
    keys: &[Key {
        name: "keepalive",
        kind: Kind::Duration { min: S, max: H, off: true },
        absent: Absent::Default("\"30s\""),
        help: "After how much silence the kernel asks both peers of a session for a sign of life. Who gives none for nine \
               times is gone.",
        why: "Below the minutes after which firewalls and address translators forget a silent connection.",
    }],
};

pub(super) static ENDPOINT: Table = Table {
    path: "endpoints of [pool.NAME]",
    help: "One endpoint.",
    inherits: false,
    keys: &[
        Key {
            name: "addr",
            kind: Kind::Text(Form::Address),
            absent: Absent::Required(r#""127.0.0.1:8081""#),
            help: "Where it listens: IP address or host name, and port. A name is resolved again and again while \
                   evenkeel runs, as `[resolver]` says; until that succeeds, the endpoint gets no requests.",
            why: "",
        },
        Key {
            name: "resolve",
            kind: Kind::Choice(&["first", "all"]),
            absent: Absent::Default("\"first\""),
            help: "What is made of the addresses of a name. `first`: one endpoint, which keeps its address while the name \
                   has it. `all`: an endpoint for each, with weight, priority and zone of this one.",
            why: "An entry is an endpoint, with counts of its own, unless it says that it is many.",
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
        Key {
            name: "zone",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("no zone"),
            help: "The zone it is in, for `locality`.",
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
        Key {
            name: "concurrency",
            kind: Kind::TableOrWord { table: &CONCURRENCY, word: "adaptive" },
            absent: Absent::Means("no such limit"),
            help: "A limit of requests in flight at one endpoint that follows its latency, never above \
                   `requests_per_endpoint`. `\"adaptive\"`: with its defaults.",
            why: "",
        },
    ],
};

/// The limit that follows latency.
pub static CONCURRENCY: Table = Table {
    path: "limits.concurrency of [pool.NAME]",
    help: "The bounds of the limit that follows the latency of an endpoint: it falls while answers take longer than they \
           do when nobody waits, and rises while they do not.",
    inherits: false,
    keys: &[
        Key {
            name: "min",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Default("3"),
            help: "The smallest limit.",
            why: "Lower, and it could not see that the endpoint has become fast again.",
        },
        Key {
            name: "max",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Default("1000"),
            help: "The largest.",
            why: "More than one process serves well at once.",
        },
        Key {
            name: "start",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Means("20, or the bound next to it"),
            help: "Where it starts.",
            why: "",
        },
        Key {
            name: "tolerance",
            kind: Kind::Number { min: 1.01, max: 100.0 },
            absent: Absent::Default("1.5"),
            help: "How many times its shortest latency an endpoint may take before the limit falls.",
            why: "That of the gradient limit of Netflix's concurrency-limits.",
        },
        Key {
            name: "interval",
            kind: Kind::Duration { min: 100 * MS, max: 60 * S, off: false },
            absent: Absent::Default("\"1s\""),
            help: "How often it is looked at.",
            why: "Long enough for some answers, short enough to follow a burst.",
        },
    ],
};

/// Who waits.
pub static QUEUE: Table = Table {
    path: "queue of [pool.NAME]",
    help: "When every endpoint is at its limit, requests wait, first in first out. The rest get a 503 at once.",
    inherits: false,
    keys: &[
        Key {
            name: "max",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("1024"),
            help: "Requests that may wait at once, all workers together; 0 = none waits.",
            why: "As many as Envoy lets wait.",
        },
        Key {
            name: "timeout",
            kind: Kind::Duration { min: MS, max: H, off: false },
            absent: Absent::Default("\"2s\""),
            help: "How long one waits at most.",
            why: "Who waited longer has often left, and the work for them would be lost.",
        },
    ],
};

//! The keys of `zone` of `[listener.NAME]`.

use super::{Absent, H, Key, Kind, Table};
use crate::form::Form;

pub(super) static ZONE: Table = Table {
    path: "zone of [listener.NAME]",
    help: "The names that a listener with `mode = \"dns\"` answers for, with the addresses of endpoints that are well. Resolvers \
           keep an answer for its time to live, and one answer may carry thousands of clients: this balances answers, not \
           requests.",
    inherits: false,
    keys: &[
        Key {
            name: "name",
            kind: Kind::Text(Form::Domain),
            absent: Absent::Required(r#""gslb.example.com""#),
            help: "The zone. Names outside it are refused.",
            why: "",
        },
        Key {
            name: "ttl",
            kind: Kind::Duration { min: 0, max: H, off: false },
            absent: Absent::Default("\"5s\""),
            help: "How long resolvers may keep an answer; whole seconds. Negative answers are kept that long, and at most 5 s.",
            why: "An endpoint that fails goes on getting clients for that long; below some seconds many resolvers round up.",
        },
        Key {
            name: "records",
            kind: Kind::Named(&RECORD),
            absent: Absent::Means("only `apex`"),
            help: "What names in the zone stand for, by their part before that of the zone: `www`, or `\"_http._tcp\"`.",
            why: "",
        },
        Key {
            name: "apex",
            kind: Kind::Table(&APEX),
            absent: Absent::Means("it has no address"),
            help: "What the name of the zone itself stands for.",
            why: "",
        },
        Key {
            name: "ns",
            kind: Kind::Tables(&NAME_SERVER),
            absent: Absent::Means("`ns1` in the zone, without addresses"),
            help: "Its name servers, as the zone above names them.",
            why: "",
        },
        Key {
            name: "contact",
            kind: Kind::Text(Form::Domain),
            absent: Absent::Means("`hostmaster` in the zone"),
            help: "Who looks after it: a mail address with a dot in the place of the @.",
            why: "",
        },
        Key {
            name: "serial",
            kind: Kind::Int { min: 0, max: u32::MAX as u64 },
            absent: Absent::Default("1"),
            help: "The serial of its SOA record. Nobody transfers the zone, so nothing depends on it.",
            why: "",
        },
        Key {
            name: "fail_open",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Whether an answer names all endpoints when none is well. `false`: SERVFAIL, so that resolvers ask another \
                   server or keep what they have.",
            why: "If all checks fail at once, it is more likely that the checks are wrong.",
        },
        Key {
            name: "client_subnet",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Whether the client's network that a resolver tells (RFC 7871) counts instead of the resolver's address.",
            why: "Anybody can claim any network, and resolvers keep one answer for each.",
        },
        Key {
            name: "localities",
            kind: Kind::Tables(&LOCALITY_OF_CLIENTS),
            absent: Absent::Means("none"),
            help: "Which clients are near which endpoints, for records with `policy = \"locality\"`.",
            why: "",
        },
        Key {
            name: "responses_per_subnet",
            kind: Kind::Int { min: 0, max: 100_000_000 },
            absent: Absent::Default("1000"),
            help: "Responses a second over UDP to one /24 (of IPv6 one /56) without a cookie of ours, for each worker; of the \
                   rest every second gets an empty one that asks to come by TCP. 0 = no limit.",
            why: "A forged source then floods its victim with little, and a resolver that asks more is a large one, which \
                  sends cookies or comes again.",
        },
        Key {
            name: "query_log",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0"),
            help: "The part of queries that the log of the process tells of.",
            why: "A line costs more than an answer.",
        },
    ],
};

macro_rules! target_keys {
    ($($more:expr),*) => {
        &[
            Key {
                name: "pool",
                kind: Kind::Text(Form::Name),
                absent: Absent::Required(r#""web""#),
                help: "The pool whose endpoints it names.",
                why: "",
            },
            Key {
                name: "answers",
                kind: Kind::Int { min: 1, max: 64 },
                absent: Absent::Default("4"),
                help: "How many of them an answer names, the one to use first before the others; all, if fewer are well.",
                why: "Clients go on to the next address when one is dead, and an answer of this length fits everywhere.",
            },
            Key {
                name: "ttl",
                kind: Kind::Duration { min: 0, max: H, off: false },
                absent: Absent::Means("that of the zone"),
                help: "How long resolvers may keep it; whole seconds.",
                why: "",
            },
            Key {
                name: "policy",
                kind: Kind::Choice(&["any", "locality"]),
                absent: Absent::Default("\"any\""),
                help: "`locality`: only endpoints whose `zone` the `localities` give for the client, as long as one is well.",
                why: "",
            },
            $($more),*
        ]
    };
}

static RECORD: Table = Table {
    path: "records.NAME of zone",
    help: "A name, and the pool whose endpoints are its addresses.",
    inherits: false,
    keys: target_keys!(Key {
        name: "type",
        kind: Kind::Choice(&["address", "srv"]),
        absent: Absent::Default("\"address\""),
        help: "`address`: A and AAAA. `srv`: SRV, whose targets are names in the zone that are made of the addresses of \
               endpoints, so that ports and weights are told too.",
        why: "",
    }),
};

static APEX: Table = Table {
    path: "apex of zone",
    help: "The pool whose endpoints are the addresses of the name of the zone.",
    inherits: false,
    keys: target_keys!(),
};

static NAME_SERVER: Table = Table {
    path: "ns of zone",
    help: "A name server of the zone.",
    inherits: false,
    keys: &[
        Key {
            name: "name",
            kind: Kind::Text(Form::Domain),
            absent: Absent::Required(r#""ns1.gslb.example.com""#),
            help: "Its whole name.",
            why: "",
        },
        Key {
            name: "addresses",
            kind: Kind::List(&Kind::Text(Form::Ip)),
            absent: Absent::Means("none: the name is outside the zone"),
            help: "Its addresses, if the name is in the zone.",
            why: "",
        },
    ],
};

static LOCALITY_OF_CLIENTS: Table = Table {
    path: "localities of zone",
    help: "Clients that are near the endpoints of a zone.",
    inherits: false,
    keys: &[
        Key {
            name: "zone",
            kind: Kind::Text(Form::Label),
            absent: Absent::Required(r#""a""#),
            help: "The `zone` of these endpoints.",
            why: "",
        },
        Key {
            name: "clients",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Required(r#"["10.0.0.0/8"]"#),
            help: "Networks of the clients; the longest that has a client's address counts.",
            why: "",
        },
    ],
};

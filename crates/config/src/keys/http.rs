//! The keys of `[listener.NAME]` and `[[route]]`.

use super::{Absent, Key, Kind, LISTENER_TIMEOUTS, REPORT_LOAD, ROUTE_RETRY, ROUTE_TIMEOUTS, Table, UDP, ZONE};
use crate::form::Form;

pub(super) static LISTENER: Table = Table {
    path: "[listener.NAME]",
    help: "Addresses on which clients are served.",
    inherits: false,
    keys: &[
        Key {
            name: "bind",
            kind: Kind::List(&Kind::Text(Form::Bind)),
            absent: Absent::Required(r#"["127.0.0.1:8080"]"#),
            help: "The addresses. `[::]` takes IPv4 too.",
            why: "",
        },
        Key {
            name: "mode",
            kind: Kind::Choice(&["http", "tcp", "udp", "dns"]),
            absent: Absent::Default("\"http\""),
            help: "What is spoken here: HTTP, whose requests are balanced; anything over TCP, whose connections are balanced; \
                   anything over UDP, whose flows are; or DNS, over UDP and TCP, whose answers are.",
            why: "",
        },
        Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Means("none: routes say where to"),
            help: "The pool for everything that no route of this listener takes. For modes other than `http`, whose routes are \
                   for all its listeners alike.",
            why: "",
        },
        Key {
            name: "zone",
            kind: Kind::Table(&ZONE),
            absent: Absent::Means("none"),
            help: "What is answered, with `mode = \"dns\"`.",
            why: "",
        },
        Key {
            name: "accept_proxy_protocol",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("nobody"),
            help: "Networks of load balancers in front that begin each connection with a PROXY protocol header, version 1 \
                   or 2. From them it is required, from anybody else it is an error.",
            why: "",
        },
        Key {
            name: "trusted_proxies",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("nobody"),
            help: "Networks of proxies in front whose `X-Forwarded-For`, `-Proto`, `-Host` and `Forwarded` are believed: the \
                   client is the last address that is in none of these networks. From anybody else they are replaced.",
            why: "",
        },
        Key {
            name: "limits",
            kind: Kind::Table(&LISTENER_LIMITS),
            absent: Absent::Means("its defaults"),
            help: "What clients may use up.",
            why: "",
        },
        Key {
            name: "timeouts",
            kind: Kind::Table(&LISTENER_TIMEOUTS),
            absent: Absent::Means("those of `[defaults.timeouts]`"),
            help: "How long clients may take.",
            why: "",
        },
        Key {
            name: "udp",
            kind: Kind::Table(&UDP),
            absent: Absent::Means("its defaults"),
            help: "When flows end, with `mode = \"udp\"`.",
            why: "",
        },
        Key {
            name: "report_load",
            kind: Kind::TableOrBool(&REPORT_LOAD),
            absent: Absent::Means("off"),
            help: "Tells balancers in front how much there is to do: for an evenkeel that stands beside the application. \
                   `true`: with its defaults.",
            why: "",
        },
    ],
};

static LISTENER_LIMITS: Table = Table {
    path: "limits of [listener.NAME]",
    help: "What clients may use up.",
    inherits: false,
    keys: &[
        Key {
            name: "connections",
            kind: Kind::Int { min: 1, max: 10_000_000 },
            absent: Absent::Default("50_000"),
            help: "Open connections of clients, all workers together. With `mode = \"udp\"` flows, of which the one that is \
                   idle longest ends when there are so many.",
            why: "Each may need a second descriptor upstream: 100 000 of the 1 048 576 that the service unit allows.",
        },
        Key {
            name: "connections_per_address",
            kind: Kind::Int { min: 0, max: 10_000_000 },
            absent: Absent::Default("0"),
            help: "Open connections, or flows, of one client address (of IPv6 one /64), all workers together; 0 = no \
                   limit. Proxies in front have none.",
            why: "Behind one address there may be a whole company or a proxy; only whoever knows the clients knows the \
                  number.",
        },
        Key {
            name: "requests_per_address",
            kind: Kind::Number { min: 0.0, max: 1e6 },
            absent: Absent::Default("0"),
            help: "Requests a second of one client address (of IPv6 one /64), all workers together; the rest get a 429. \
                   With `mode = \"udp\"` new flows, the rest of which are dropped. 0 = no limit. Proxies in front have none.",
            why: "As for `connections_per_address`.",
        },
        Key {
            name: "burst_per_address",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Means("what `requests_per_address` allows in a second"),
            help: "Requests of one address that may come at once before its rate counts.",
            why: "",
        },
        Key {
            name: "headers",
            kind: Kind::Size { min: 1 << 10, max: 32 << 10 },
            absent: Absent::Default("\"16KiB\""),
            help: "Bytes of the head of a request: its first line and its header fields.",
            why: "What Node.js takes and a buffer of HAProxy holds; half of what one read buffer holds here.",
        },
        Key {
            name: "header_count",
            kind: Kind::Int { min: 1, max: 256 },
            absent: Absent::Default("100"),
            help: "Header fields of a request.",
            why: "Browsers send 15 to 20, and a chain of proxies adds some.",
        },
        Key {
            name: "requests_per_connection",
            kind: Kind::Int { min: 0, max: 1_000_000_000 },
            absent: Absent::Default("0"),
            help: "Requests on one connection before it is closed; 0 = no limit.",
            why: "Closing costs clients a new handshake, and connections leave by `client_idle` anyway.",
        },
    ],
};

pub(super) static ROUTE: Table = Table {
    path: "[[route]]",
    help: "Which pool gets which requests. Of several routes that match, the most specific wins, and their order never \
           matters: an exact host before the longest wildcard before any host; then the path, from the left: fixed \
           text before a parameter or a rest, and any path last; then a route that names the listener. Two routes of \
           which neither is more specific are an error. Without any route, a file with one pool sends it everything.",
    inherits: false,
    keys: &[
        Key {
            name: "name",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the first host and the path"),
            help: "What metrics and logs call it. Unique.",
            why: "",
        },
        Key {
            name: "match",
            kind: Kind::Table(&MATCH),
            absent: Absent::Means("every request"),
            help: "Which requests.",
            why: "",
        },
        Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Required(r#""web""#),
            help: "The pool that gets them.",
            why: "",
        },
        Key {
            name: "timeouts",
            kind: Kind::Table(&ROUTE_TIMEOUTS),
            absent: Absent::Means("those of the pool"),
            help: "How long endpoints may take.",
            why: "",
        },
        Key {
            name: "retry",
            kind: Kind::Table(&ROUTE_RETRY),
            absent: Absent::Means("that of the pool"),
            help: "What is tried again.",
            why: "",
        },
    ],
};

static MATCH: Table = Table {
    path: "match of [[route]]",
    help: "Which requests: those for which every key that is set holds.",
    inherits: false,
    keys: &[
        Key {
            name: "listener",
            kind: Kind::List(&Kind::Text(Form::Name)),
            absent: Absent::Means("every listener"),
            help: "Names of listeners.",
            why: "",
        },
        Key {
            name: "host",
            kind: Kind::List(&Kind::Text(Form::Host)),
            absent: Absent::Means("every host"),
            help: "Hosts without port. `*.example.com` is every host below example.com, at any depth, but not \
                   example.com itself.",
            why: "",
        },
        Key {
            name: "path",
            kind: Kind::Text(Form::Path),
            absent: Absent::Means("every path"),
            help: "A path without query: fixed (`/x`), with parameters that stand for one segment (`/users/{id}/posts`), \
                   or with a rest at its end (`/v1/{*rest}`: everything below `/v1/`, and `/v1/` itself). \
                   `{{` and `}}` are literal braces.",
            why: "",
        },
        Key {
            name: "alpn",
            kind: Kind::List(&Kind::Text(Form::Label)),
            absent: Absent::Means("every protocol"),
            help: "Protocols of TLS clients, as \"h2\": what is offered must be one of them. Only for listeners with \
                   `mode = \"tcp\"`, which pass TLS through; there `host` is the server's name in the ClientHello.",
            why: "",
        },
    ],
};

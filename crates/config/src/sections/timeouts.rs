//! How long may each thing take? The same rows serve `[defaults.timeouts]` and every table that starts from it. A new one
//! is a row, and a field of each struct that it is for.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::table::{Absent, DAY, Key, Kind, MS, Section, Table, table};
use std::time::Duration;

/// The defaults, from which listeners, pools and routes start.
pub(crate) static DEFAULT_TIMEOUTS: Table = Table {
    path: "[defaults.timeouts]",
    help: "Where the timeouts of every listener, pool and route start.",
    inherits: false,
    keys: &[CLIENT_HEADER, CLIENT_IDLE, CLIENT_BODY, CONNECT, RESPONSE, REQUEST, IDLE, HALF_CLOSED, UPSTREAM_IDLE],
};

table! {
    pub(crate) static LISTENER_TIMEOUTS = "timeouts of [listener.NAME]",
        "What a client may take. Left out: from `[defaults.timeouts]`.", inherits true;

    /// `timeouts` of a listener: the client's side.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ListenerTimeouts {
        /// From the first byte of a request (or the accept) to the end of its head.
        client_header: Duration = CLIENT_HEADER;
        /// Without a byte between two requests on a kept-alive connection.
        client_idle: Duration = CLIENT_IDLE;
        /// Without a byte while the request's body is due, or below the pace that the proxy wants.
        client_body: Duration = CLIENT_BODY;
    }
}

table! {
    pub(crate) static POOL_TIMEOUTS = "timeouts of [pool.NAME]",
        "What an endpoint may take. Left out: from `[defaults.timeouts]`.", inherits true;

    /// `timeouts` of a pool: the upstream's side.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PoolTimeouts {
        /// See [`RouteTimeouts::connect`].
        connect: Duration = CONNECT;
        /// See [`RouteTimeouts::response`].
        response: Option<Duration> = RESPONSE;
        /// See [`RouteTimeouts::request`].
        request: Option<Duration> = REQUEST;
        /// See [`RouteTimeouts::idle`].
        idle: Duration = IDLE;
        /// See [`RouteTimeouts::half_closed`].
        half_closed: Duration = HALF_CLOSED;
        /// How long an idle upstream connection is kept.
        upstream_idle: Duration = UPSTREAM_IDLE;
    }
}

table! {
    pub(crate) static ROUTE_TIMEOUTS = "timeouts of [[route]]",
        "What an endpoint may take for requests of this route. Left out: from the route's pool.", inherits true;

    /// `timeouts` of a route: the upstream's side, for its requests.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RouteTimeouts {
        /// To open an upstream connection.
        connect: Duration = CONNECT;
        /// From the end of the request to the end of the response's head; `None` = no limit.
        response: Option<Duration> = RESPONSE;
        /// The whole request, all tries and both bodies included; `None` = no limit.
        request: Option<Duration> = REQUEST;
        /// Without a byte in either direction once the response's head was sent (bodies, upgraded connections).
        idle: Duration = IDLE;
        /// The same once one side of a session or an upgraded connection has ended its half.
        half_closed: Duration = HALF_CLOSED;
    }
}

const CLIENT_HEADER: Key = Key {
    name: "client_header",
    kind: Kind::Duration { min: 10 * MS, max: DAY, off: false },
    absent: Absent::Default("\"10s\""),
    help: "From the first byte of a request (for the first one: from the accept) to the end of its head.",
    why: "A client that sends a byte now and then cannot hold a connection for longer, and a slow line has enough time.",
};

const CLIENT_IDLE: Key = Key {
    name: "client_idle",
    kind: Kind::Duration { min: 10 * MS, max: DAY, off: false },
    absent: Absent::Default("\"60s\""),
    help: "How long a client's connection is kept between two requests.",
    why: "Long enough for a person who reads a page and clicks on; an idle connection costs little memory.",
};

const CLIENT_BODY: Key = Key {
    name: "client_body",
    kind: Kind::Duration { min: 10 * MS, max: DAY, off: false },
    absent: Absent::Default("\"30s\""),
    help: "How long a client may send less than 240 bytes a second, or nothing at all, while the body of a request is \
           due. It does not limit the whole body.",
    why: "A big upload over a slow line is not cut while it moves, and a byte now and then does not hold a request.",
};

const CONNECT: Key = Key {
    name: "connect",
    kind: Kind::Duration { min: MS, max: DAY, off: false },
    absent: Absent::Default("\"1s\""),
    help: "To open a connection to an endpoint.",
    why: "A first SYN that is lost is sent again after 1 s (RFC 6298): another endpoint is the better second try.",
};

const RESPONSE: Key = Key {
    name: "response",
    kind: Kind::Duration { min: MS, max: DAY, off: true },
    absent: Absent::Default("\"30s\""),
    help: "From the end of the request to the end of the head of the response. `\"off\"` for long polling.",
    why: "Longer than any page should take, and short enough that a hung endpoint does not keep its requests.",
};

const REQUEST: Key = Key {
    name: "request",
    kind: Kind::Duration { min: MS, max: 30 * DAY, off: true },
    absent: Absent::Default("\"off\""),
    help: "The whole request: every try, and both bodies.",
    why: "Off, since a deadline for the whole cuts every long download and stream; `response` and `idle` catch \
          what hangs. Set it on routes whose requests are short.",
};

const IDLE: Key = Key {
    name: "idle",
    kind: Kind::Duration { min: 10 * MS, max: 30 * DAY, off: false },
    absent: Absent::Default("\"5m\""),
    help: "How long no byte may pass in either direction after the head of the response: bodies, streams, upgraded \
           connections.",
    why: "Event streams and WebSockets with keep-alive messages send one at least every minute or two.",
};

const HALF_CLOSED: Key = Key {
    name: "half_closed",
    kind: Kind::Duration { min: 10 * MS, max: 30 * DAY, off: false },
    absent: Absent::Default("\"30s\""),
    help: "How long no byte may pass in a TCP session or an upgraded connection once one side has ended its half. Never longer \
           than `idle`.",
    why: "A side that has closed usually wants the rest of an answer and no more; one that never gets the other's end would \
          keep the session, and its place at the endpoint, for all of `idle`. HAProxy calls it `timeout client-fin` and \
          `timeout server-fin`, usually 30 s.",
};

const UPSTREAM_IDLE: Key = Key {
    name: "upstream_idle",
    kind: Kind::Duration { min: 0, max: DAY, off: false },
    absent: Absent::Default("\"60s\""),
    help: "How long an idle connection to an endpoint is kept; less if the endpoint names its own time (`Keep-Alive: timeout=5`). \
           Where it does not, set this below that time, or requests will meet connections that the endpoint is closing.",
    why: "Below the 75 s of nginx. Node.js and Apache httpd close after 5 s, and name that in their responses.",
};

/// Reports a part that, in the same table, may take longer than the whole.
pub(crate) fn check_order(timeouts: &Section, findings: &mut Findings) {
    let set = |name| timeouts.set(name).and(timeouts.duration(name)).map(|d| (d, timeouts.span_of(name)));
    let Some((whole, whole_span)) = set("request") else { return };
    for part in ["connect", "response"] {
        if let Some((_, span)) = set(part).filter(|(d, _)| *d > whole) {
            findings
                .add(Code::TimeoutOrder, span, format!("\"{part}\" is longer than \"request\", so it never ends one"))
                .see("the whole request ends before", whole_span)
                .help(format!("make \"{part}\" shorter, or leave it out"));
        }
    }
}

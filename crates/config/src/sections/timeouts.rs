//! `timeouts`: time limits of listeners, pools and routes. A set of rows serves `[defaults.timeouts]` and
//! every table that inherits from it. To add a limit, add a row here and a field to each struct that it applies
//! to.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::table::{Absent, DAY, Key, Kind, MS, Section, Table, table};
use std::time::Duration;

/// Keys of `[defaults.timeouts]`, from which listeners, pools and routes start.
pub(crate) static DEFAULT_TIMEOUTS: Table = Table {
    path: "[defaults.timeouts]",
    help: "Default time limits of every listener, pool and route.",
    inherits: false,
    keys: &[CLIENT_HEADER, CLIENT_IDLE, CLIENT_BODY, CONNECT, RESPONSE, REQUEST, IDLE, HALF_CLOSED, UPSTREAM_IDLE],
};

table! {
    pub(crate) static LISTENER_TIMEOUTS = "timeouts of [listener.NAME]",
        "Time limits for clients. Keys that are not set are inherited from `[defaults.timeouts]`.", inherits true;

    /// `timeouts` of a listener: limits for the client's side.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ListenerTimeouts {
        /// Time from the first byte of a request (or the accept) to the end of its head.
        client_header: Duration = CLIENT_HEADER;
        /// Time without a byte between two requests on a kept-alive connection.
        client_idle: Duration = CLIENT_IDLE;
        /// Time without a byte, or below the minimum pace, while a request body is due.
        client_body: Duration = CLIENT_BODY;
    }
}

table! {
    pub(crate) static POOL_TIMEOUTS = "timeouts of [pool.NAME]",
        "Time limits for endpoints. Keys that are not set are inherited from `[defaults.timeouts]`.", inherits true;

    /// `timeouts` of a pool: limits for the upstream side.
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
        /// Time that an idle upstream connection is kept.
        upstream_idle: Duration = UPSTREAM_IDLE;
    }
}

table! {
    pub(crate) static ROUTE_TIMEOUTS = "timeouts of [[route]]",
        "Time limits for endpoints, for requests of this route. Keys that are not set are inherited from the route's \
        pool.", inherits true;

    /// `timeouts` of a route: limits for the upstream side.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RouteTimeouts {
        /// Time to open an upstream connection.
        connect: Duration = CONNECT;
        /// Time from the end of the request to the end of the response head; `None` = no limit.
        response: Option<Duration> = RESPONSE;
        /// Time for the whole request, including all tries and both bodies; `None` = no limit.
        request: Option<Duration> = REQUEST;
        /// Time without a byte in either direction after the response head (bodies, upgraded connections).
        idle: Duration = IDLE;
        /// [`idle`](Self::idle) once a side of a session or an upgraded connection has closed its half.
        half_closed: Duration = HALF_CLOSED;
    }
}

const CLIENT_HEADER: Key = Key {
    name: "client_header",
    kind: Kind::Duration { min: 10 * MS, max: DAY, off: false },
    absent: Absent::Default("\"10s\""),
    help: "Time from the first byte of a request (for the first request: from the accept) to the end of its head.",
    why: "Enough for a slow line, and a client that trickles bytes cannot hold a connection for longer.",
};

const CLIENT_IDLE: Key = Key {
    name: "client_idle",
    kind: Kind::Duration { min: 10 * MS, max: DAY, off: false },
    absent: Absent::Default("\"60s\""),
    help: "Time that a client connection is kept open between two requests.",
    why: "Long enough for a user to read a page before the next click. An idle connection costs little memory.",
};

const CLIENT_BODY: Key = Key {
    name: "client_body",
    kind: Kind::Duration { min: 10 * MS, max: DAY, off: false },
    absent: Absent::Default("\"30s\""),
    help: "Longest time that a client may send nothing, or less than 240 bytes per second, while a request body is \
        due. Not a limit for the whole body.",
    why: "A large upload over a slow line may take any time as long as it makes progress, and a client that trickles \
        bytes cannot hold a request.",
};

const CONNECT: Key = Key {
    name: "connect",
    kind: Kind::Duration { min: MS, max: DAY, off: false },
    absent: Absent::Default("\"1s\""),
    help: "Time to open a connection to an endpoint.",
    why: "A lost SYN is sent again after 1 s (RFC 6298). By then it is better to try another endpoint.",
};

const RESPONSE: Key = Key {
    name: "response",
    kind: Kind::Duration { min: MS, max: DAY, off: true },
    absent: Absent::Default("\"30s\""),
    help: "Time from the end of the request to the end of the response head. Set `\"off\"` for long polling.",
    why: "Longer than any page should take, and short enough that a hung endpoint does not hold its requests.",
};

const REQUEST: Key = Key {
    name: "request",
    kind: Kind::Duration { min: MS, max: 30 * DAY, off: true },
    absent: Absent::Default("\"off\""),
    help: "Time for the whole request: all tries and both bodies.",
    why: "A limit for the whole request would cut off long downloads and streams, and `response` and `idle` catch \
        requests that hang. Set it on routes with short requests.",
};

const IDLE: Key = Key {
    name: "idle",
    kind: Kind::Duration { min: 10 * MS, max: 30 * DAY, off: false },
    absent: Absent::Default("\"5m\""),
    help: "Time without a byte in either direction after the response head: bodies, streams, upgraded connections.",
    why: "Event streams and WebSockets usually send a keep-alive message at least every minute or two.",
};

const HALF_CLOSED: Key = Key {
    name: "half_closed",
    kind: Kind::Duration { min: 10 * MS, max: 30 * DAY, off: false },
    absent: Absent::Default("\"30s\""),
    help: "Time without a byte in a TCP session or an upgraded connection after one side has closed its half. Never \
        longer than `idle`.",
    why: "A side that has closed usually waits only for the rest of a response. If the other side never closes, the \
        session would count as in flight at the endpoint for all of `idle`. HAProxy has `timeout client-fin` and \
        `timeout server-fin` for this, usually 30 s.",
};

const UPSTREAM_IDLE: Key = Key {
    name: "upstream_idle",
    kind: Kind::Duration { min: 0, max: DAY, off: false },
    absent: Absent::Default("\"60s\""),
    help: "Time that an idle connection to an endpoint is kept; less if the endpoint announces a shorter time \
        (`Keep-Alive: timeout=5`). If endpoints announce none, set it below their idle timeout, or requests will hit \
        connections that are being closed.",
    why: "Below the 75 s of NGINX. Node.js and Apache httpd close after 5 s, and announce that in their responses.",
};

/// Reports a part that may take longer than the whole, within a table.
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

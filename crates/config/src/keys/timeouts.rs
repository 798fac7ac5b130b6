//! How long may each thing take? The same rows serve `[defaults.timeouts]` and every table that overrides them.

use super::{Absent, DAY, Key, Kind, MS, Table};

/// The defaults, from which listeners, pools and routes start.
pub(super) static DEFAULT_TIMEOUTS: Table = Table {
    path: "[defaults.timeouts]",
    help: "Where the timeouts of every listener, pool and route start.",
    inherits: false,
    keys: &[CLIENT_HEADER, CLIENT_IDLE, CLIENT_BODY, CONNECT, RESPONSE, REQUEST, IDLE, UPSTREAM_IDLE],
};

pub(super) static LISTENER_TIMEOUTS: Table = Table {
    path: "timeouts of [listener.NAME]",
    help: "What a client may take. Left out: from `[defaults.timeouts]`.",
    inherits: true,
    keys: &[CLIENT_HEADER, CLIENT_IDLE, CLIENT_BODY],
};

pub(super) static POOL_TIMEOUTS: Table = Table {
    path: "timeouts of [pool.NAME]",
    help: "What an endpoint may take. Left out: from `[defaults.timeouts]`.",
    inherits: true,
    keys: &[CONNECT, RESPONSE, REQUEST, IDLE, UPSTREAM_IDLE],
};

pub(super) static ROUTE_TIMEOUTS: Table = Table {
    path: "timeouts of [[route]]",
    help: "What an endpoint may take for requests of this route. Left out: from the route's pool.",
    inherits: true,
    keys: &[CONNECT, RESPONSE, REQUEST, IDLE],
};

const CLIENT_HEADER: Key = Key {
    name: "client_header",
    kind: Kind::Duration { min: 10 * MS, max: DAY, off: false },
    absent: Absent::Default("\"10s\""),
    help: "From the first byte of a request (for the first one: from the accept) to the end of its head.",
    why: "Bounds how long a client that sends a byte now and then holds a connection, and leaves a slow line time enough.",
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
    help: "How long a client may fall below 240 bytes a second while the body of a request is due; without any byte, so \
           long in all. Not the time of the whole body.",
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
    help: "Without a byte in either direction once the head of the response was sent: bodies, streams, upgraded \
           connections.",
    why: "Event streams and WebSockets that send a sign of life do so at least each minute or two.",
};

const UPSTREAM_IDLE: Key = Key {
    name: "upstream_idle",
    kind: Kind::Duration { min: 0, max: DAY, off: false },
    absent: Absent::Default("\"60s\""),
    help: "How long an idle connection to an endpoint is kept. Set it below the keep-alive time of the endpoint, or \
           requests will meet connections that the endpoint is closing.",
    why: "Below the 75 s of nginx. Node.js and Apache httpd close after 5 s: set 4s for them.",
};

//! `health` of a pool: active checks of each endpoint. See [`HealthCheck`] for the schedule and [`Check`] for
//! the probe.

use super::dialogue::{MYSQL, MysqlCheck, POSTGRES, PostgresCheck, REDIS, SMTP, TCP, TcpCheck};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::quantity::duration_text;
use crate::table::{
    Absent, DAY, Declared, Field, H, Key, Kind, Lines, MS, Payload, Section, Words, quote, table, words,
};
use evenkeel_balance::health::{self, Initial};
use std::ops::RangeInclusive;
use std::time::Duration;

table! {
    pub(super) static HEALTH = "health of [pool.NAME]",
        "Active checks: every endpoint is probed at an interval. Exactly one of `http`, `grpc`, `tcp`, `udp`, \
        `mysql`, `postgres`, `redis` and `smtp` selects the probe.";

    /// `health` of a pool.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HealthCheck {
        /// Probe to send at each interval.
        check: Check, rows [
            Key {
                name: "http",
                kind: Kind::TableOr { table: &HTTP, key: "path" },
                absent: Absent::Means("no HTTP check"),
                help: "Checks with an HTTP request. Passes if the status, and the body if `body` is set, are as \
                    expected.",
                why: "",
            },
            Key {
                name: "grpc",
                kind: Kind::TableOr { table: &GRPC, key: "service" },
                absent: Absent::Means("no gRPC check"),
                help: "Checks with a call of `grpc.health.v1.Health/Check` over HTTP/2. Passes if the status is \
                    `SERVING`.",
                why: "",
            },
            Key {
                name: "tcp",
                kind: Kind::Table(&TCP),
                absent: Absent::Means("no TCP check"),
                help: "Checks with a TCP connection; `{}` for no exchange. Passes if the connection opens and the \
                    expected bytes arrive.",
                why: "",
            },
            Key {
                name: "udp",
                kind: Kind::Table(&UDP_CHECK),
                absent: Absent::Means("no UDP check"),
                help: "Checks with a datagram. Passes if the expected answer arrives.",
                why: "",
            },
            Key {
                name: "mysql",
                kind: Kind::TableOr { table: &MYSQL, key: "user" },
                absent: Absent::Means("no MySQL check"),
                help: "Checks with a login to MySQL or MariaDB; `{}` for the default user.",
                why: "",
            },
            Key {
                name: "postgres",
                kind: Kind::TableOr { table: &POSTGRES, key: "user" },
                absent: Absent::Means("no PostgreSQL check"),
                help: "Checks with the start of a PostgreSQL session; `{}` for the default role and database.",
                why: "",
            },
            Key {
                name: "redis",
                kind: Kind::Table(&REDIS),
                absent: Absent::Means("no Redis check"),
                help: "Checks with `PING` to Redis or Valkey: `{}`.",
                why: "",
            },
            Key {
                name: "smtp",
                kind: Kind::Table(&SMTP),
                absent: Absent::Means("no SMTP check"),
                help: "Checks with `EHLO` to a mail server: `{}`.",
                why: "",
            },
        ], read asked, write write_asked;
        /// Port to check; `None` = the endpoint's own.
        port: Option<u16> = Key {
            name: "port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Means("the port of each endpoint"),
            help: "Port to check. No PROXY protocol header is sent to a port other than the endpoint's own.",
            why: "",
        };
        /// Time between the starts of two checks of an endpoint, before jitter.
        interval: Duration = Key {
            name: "interval",
            kind: Kind::Duration { min: 10 * MS, max: DAY, off: false },
            absent: Absent::Default("\"2s\""),
            help: "Time from the start of one check of an endpoint to the start of the next.",
            why: "HAProxy's value: with `fall = 3` a dead endpoint is down after 4 to 6 s, and a check every 2 s costs \
                an endpoint almost nothing.",
        };
        /// Random part of each interval, as a share of it: 0 to 1, in both directions.
        jitter: f64 = Key {
            name: "jitter",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0.2"),
            help: "Randomly lengthens or shortens each interval by up to this share of the interval.",
            why: "Keeps checks of many endpoints, or by many balancers, from synchronizing.",
        };
        /// Time limit of a check, the connect included; at most `interval`.
        timeout: Duration = Key {
            name: "timeout",
            kind: Kind::Duration { min: MS, max: H, off: false },
            absent: Absent::Means("`\"1s\"`, or `interval` if that is shorter"),
            help: "Time limit of one check, including the connect. At most `interval`.",
            why: "",
        }, read timeout, write write_timeout;
        /// Number of results that change the state of an endpoint.
        machine: health::Settings, inline health::Settings;
    }
}

table! {
    static MACHINE = "health of [pool.NAME]", "";

    impl for health::Settings {
        fall = Key {
            name: "fall",
            kind: Kind::Int { min: 1, max: 1000 },
            absent: Absent::Default("3"),
            help: "Failed checks in a row that mark an endpoint as down.",
            why: "HAProxy's value: a single lost packet does not take an endpoint down.",
        };
        rise = Key {
            name: "rise",
            kind: Kind::Int { min: 1, max: 1000 },
            absent: Absent::Default("2"),
            help: "Passed checks in a row that mark an endpoint as up again.",
            why: "HAProxy's value: an endpoint that passes once during its start is not up yet.",
        };
        initial = Key {
            name: "initial",
            kind: Kind::Choice(INITIAL),
            absent: Absent::Default("\"check-first\""),
            help: "State of an endpoint before its first result. `check-first`: undecided. Requests wait for the first \
                result, for at most a second, and the first result alone decides.",
            why: "A new endpoint that is down gets no requests, and a new endpoint that is up need not wait for `rise` \
                checks.",
        };
    }
}

words! {
    const INITIAL for Initial {
        CheckFirst = "check-first",
        Healthy = "healthy",
        Unhealthy = "unhealthy",
    }
}

table! {
    static HTTP = "health.http of [pool.NAME]",
        "The request of an HTTP health check.";

    /// Keys of [`Check::Http`].
    #[derive(Clone, PartialEq)]
    struct HttpCheck {
        /// Path and query, sent unchanged.
        path: String = Key {
            name: "path",
            kind: Kind::Text(Form::Target),
            absent: Absent::Default("\"/\""),
            help: "Path and query.",
            why: "Every application serves this path. A page that also checks the application's dependencies is \
                better.",
        };
        /// `GET`, `HEAD` or `OPTIONS`.
        method: Method = Key {
            name: "method",
            kind: Kind::Choice(Method::WORDS),
            absent: Absent::Default("\"GET\""),
            help: "Method of the request.",
            why: "Every application supports GET.",
        };
        /// See [`Check::Http`].
        host: Option<String> = Key {
            name: "host",
            kind: Kind::Text(Form::Authority),
            absent: Absent::Means("the address of the endpoint"),
            help: "Value of `Host`.",
            why: "",
        };
        /// See [`Check::Http`].
        expect: Vec<RangeInclusive<u16>> = Key {
            name: "expect",
            kind: Kind::List(&Kind::IntOrText { min: 200, max: 599, form: Form::Status }),
            absent: Absent::Default("[\"200..=299\"]"),
            help: "Statuses that pass: numbers, ranges (`\"204..=299\"`), or a whole class (`\"2xx\"`).",
            why: "A redirect to a login page, or an error page, does not show that the endpoint is healthy.",
        };
        /// See [`Check::Http`].
        body: Option<String> = Key {
            name: "body",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("any body"),
            help: "Text that the body must contain. Not with `HEAD`: its responses have no body.",
            why: "",
        };
    }
}

table! {
    static GRPC = "health.grpc of [pool.NAME]",
        "The call of a gRPC health check.";

    /// Keys of [`Check::Grpc`].
    #[derive(Clone, PartialEq)]
    struct GrpcCheck {
        /// See [`Check::Grpc`].
        service: Option<String> = Key {
            name: "service",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("the server as a whole"),
            help: "Service to check, such as `shop.Orders`.",
            why: "",
        };
        /// See [`Check::Grpc`].
        host: Option<String> = Key {
            name: "host",
            kind: Kind::Text(Form::Authority),
            absent: Absent::Means("the address of the endpoint"),
            help: "The `:authority` of the call.",
            why: "",
        };
    }
}

table! {
    static UDP_CHECK = "health.udp of [pool.NAME]",
        "The datagram of a UDP health check, and the expected answer.";

    /// Keys of [`Check::Udp`].
    #[derive(Clone, PartialEq)]
    struct UdpCheck {
        /// Payload of the datagram. Not empty.
        send: Payload = Key {
            name: "send",
            kind: Kind::Text(Form::Payload),
            absent: Absent::Required("\"ping\""),
            help: "Payload of the datagram.",
            why: "",
        };
        /// See [`Check::Udp`].
        expect: Option<Payload> = Key {
            name: "expect",
            kind: Kind::Text(Form::Payload),
            absent: Absent::Means("any answer"),
            help: "Bytes that the answer must contain.",
            why: "",
        };
    }
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Method {
        Get = "GET",
        Head = "HEAD",
        Options = "OPTIONS",
    }
}

/// Probe of a health check, with the condition for passing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// An HTTP request. Passes if the status, and the body if required, are as expected.
    Http {
        /// `GET`, `HEAD` or `OPTIONS`.
        method: String,
        /// Path and query, sent unchanged.
        path: String,
        /// Value of `Host`; `None` = the address of the endpoint.
        host: Option<String>,
        /// Statuses that pass: not empty, within 200 to 599.
        expect: Vec<RangeInclusive<u16>>,
        /// Text that the body must contain; `None` = any body. Always `None` with `HEAD`.
        body: Option<String>,
    },
    /// A call of `grpc.health.v1.Health/Check`. Passes on `SERVING`.
    Grpc {
        /// Service to ask about; empty = the server as a whole.
        service: String,
        /// The `:authority` of the call; `None` = the address of the endpoint.
        host: Option<String>,
    },
    /// A TCP connection. Passes if it opens, and if the expected bytes arrive.
    Tcp {
        /// Bytes to send once connected.
        send: Option<Vec<u8>>,
        /// Bytes that must arrive; `None` = opening the connection is enough.
        expect: Option<Vec<u8>>,
        /// Bytes to send before closing.
        quit: Option<Vec<u8>>,
    },
    /// A login at MySQL or MariaDB, without a password.
    Mysql {
        /// User whose login must succeed; `None` = `evenkeel`, whose denied login passes too.
        user: Option<String>,
    },
    /// The start of a PostgreSQL session.
    Postgres {
        /// Role that must not be rejected; `None` = `evenkeel`, which may also be unknown or denied.
        user: Option<String>,
        database: String,
    },
    /// `PING` at Redis or Valkey.
    Redis,
    /// `EHLO` at a mail server.
    Smtp,
    /// A datagram. Passes if an answer arrives that is as expected.
    Udp {
        /// Payload of the datagram. Not empty.
        send: Vec<u8>,
        /// Bytes that the answer must contain; `None` = any answer.
        expect: Option<Vec<u8>>,
    },
}

/// Reads the probe. [`check`] reports a table with none or several.
fn asked(health: &Section) -> Check {
    if health.has("http") {
        let HttpCheck { path, method, host, expect, body } = HttpCheck::of(&health.section("http"));
        return Check::Http { method: method.word().to_string(), path, host, expect, body };
    }
    if health.has("grpc") {
        let GrpcCheck { service, host } = GrpcCheck::of(&health.section("grpc"));
        return Check::Grpc { service: service.unwrap_or_default(), host };
    }
    if health.has("udp") {
        let UdpCheck { send, expect } = UdpCheck::of(&health.section("udp"));
        return Check::Udp { send: send.0, expect: expect.map(|expect| expect.0) };
    }
    if health.has("mysql") {
        let MysqlCheck { user } = MysqlCheck::of(&health.section("mysql"));
        return Check::Mysql { user };
    }
    if health.has("postgres") {
        let PostgresCheck { user, database } = PostgresCheck::of(&health.section("postgres"));
        return Check::Postgres { user, database };
    }
    if health.has("redis") {
        return Check::Redis;
    }
    if health.has("smtp") {
        return Check::Smtp;
    }
    let TcpCheck { send, expect, quit } = TcpCheck::of(&health.section("tcp"));
    let [send, expect, quit] = [send, expect, quit].map(|part| part.map(|part| part.0));
    Check::Tcp { send, expect, quit }
}

fn write_asked(set: &HealthCheck, _: &HealthCheck, lines: &mut Lines) {
    match set.check.clone() {
        Check::Tcp { send, expect, quit } => {
            let [send, expect, quit] = [send, expect, quit].map(|part| part.map(Payload));
            lines.add("tcp", TcpCheck { send, expect, quit }.lines(TcpCheck::unset()).braces());
        }
        Check::Mysql { user } => lines.add("mysql", MysqlCheck { user }.lines(MysqlCheck::unset()).braces()),
        Check::Postgres { user, database } => {
            let postgres = PostgresCheck { user, database };
            lines.add("postgres", postgres.lines(PostgresCheck::unset()).braces());
        }
        Check::Redis => lines.add("redis", "{}".to_string()),
        Check::Smtp => lines.add("smtp", "{}".to_string()),
        Check::Grpc { service, host } => {
            let grpc = GrpcCheck { service: (!service.is_empty()).then_some(service), host };
            lines.add("grpc", grpc.lines(GrpcCheck::unset()).braces());
        }
        Check::Udp { send, expect } => {
            let udp = UdpCheck { send: Payload(send), expect: expect.map(Payload) };
            lines.add("udp", udp.lines(UdpCheck::unset()).braces());
        }
        Check::Http { method, path, host, expect, body } => {
            let method = Method::of_word(&method).unwrap_or(Method::Get);
            let http = HttpCheck { path, method, host, expect, body };
            lines.add("http", http.lines(HttpCheck::unset()).braces());
        }
    }
}

fn timeout(health: &Section) -> Duration {
    let interval = health.duration("interval").unwrap_or_default();
    health.duration("timeout").unwrap_or(usual_timeout(interval))
}

/// Default timeout: longer than a healthy endpoint takes for a small page.
fn usual_timeout(interval: Duration) -> Duration {
    interval.min(Duration::from_secs(1))
}

fn write_timeout(set: &HealthCheck, _: &HealthCheck, lines: &mut Lines) {
    if set.timeout != usual_timeout(set.interval) {
        lines.add("timeout", quote(&duration_text(set.timeout)));
    }
}

/// Reports a table with no probe or several, a check longer than its interval, and a body expected of `HEAD`.
pub(super) fn check(pool: &Section, name: &str, findings: &mut Findings) {
    if !pool.has_read("health") {
        return;
    }
    let health = pool.section("health");
    let kinds = ["http", "grpc", "tcp", "udp", "mysql", "postgres", "redis", "smtp"];
    let mut set = kinds.into_iter().filter_map(|kind| health.set(kind).map(|set| (kind, set)));
    match (set.next(), set.next()) {
        (None, _) => {
            findings
                .add(Code::Missing, health.span, format!("health of [pool.{name}] does not say how to check"))
                .help(
                    "add http = { path = \"/\" }, grpc = {}, tcp = {}, udp = { send = \"ping\" }, mysql = {}, \
                     postgres = {}, redis = {} or smtp = {}",
                );
        }
        (Some((first, _)), Some((second, set))) => {
            let message = format!("\"health\" has both \"{first}\" and \"{second}\"");
            health.contradiction(set.span, message, first, findings).help("keep the one that says more");
        }
        (Some(("http", _)), None) => check_http(&health.section("http"), findings),
        (Some(_), None) => {}
    }
    let (timeout, interval) = (timeout(&health), health.duration("interval").unwrap_or_default());
    if timeout > interval && !health.is_broken() {
        let (timeout, interval) = (duration_text(timeout), duration_text(interval));
        let message = format!("\"timeout\" is {timeout}, but the next check begins after {interval}, the \"interval\"");
        health
            .contradiction(health.span_of("timeout"), message, "interval", findings)
            .help(format!("write timeout = \"{interval}\" or shorter, or make \"interval\" longer"));
    }
}

fn check_http(http: &Section, findings: &mut Findings) {
    if Method::read(http.value("method")) == Method::Head && http.text("body").is_some() {
        let span = http.span_of("body");
        let message = "\"body\" is expected, but the response to HEAD has none";
        http.contradiction(span, message, "method", findings).help("write method = \"GET\", or leave \"body\" out");
    }
}

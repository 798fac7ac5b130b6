//! Tests of templates, including the formats of other servers.

use super::super::layout::planned;
use super::super::names::{NOWHERE, Named};
use super::*;
use crate::observe::end::Cause;
use crate::observe::request_id::RequestId;
use crate::observe::timing::Timing;
use evenkeel_wire::head::{Request, Table};

fn made(layout: &Layout, change: impl for<'l> Fn(Line<'l>) -> Line<'l>) -> String {
    let mut fields: Table = [("user-agent", "curl/8\"\n"), ("x-tenant", "a|b}"), ("referer", "")]
        .into_iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
        .collect();
    let mut answer: Table = [(&b"x-cache"[..], &b"HIT"[..])].into_iter().collect();
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    layout.keep(&Request { method: "GET", target: "/a?b", host: b"h", fields: fields.fields() }, None, &mut asked);
    layout.keep_response(&answer.fields(), &mut answered);
    let (taken, sent) = (Named::default(), Named::default());
    let timing = Timing {
        queue_ns: 1_000_000,
        connect_ns: Some(2_000_000),
        ttfb_ns: Some(10_500_000),
        total_ns: 109_000_000,
        ..Timing::default()
    };
    let summary = Summary {
        tries: 2,
        status: 200,
        bytes_in: 78,
        bytes_out: 2750,
        timing,
        phase: Phase::Done,
        ..Summary::default()
    };
    let id = &RequestId::Made { origin: 0, number: 7 };
    let line = Line {
        client_port: 33317,
        sent: sent.sent("static", Some("srv1")),
        asked: &asked,
        answered: &answered,
        ..Line::new("HTTP/1.1", id, b"192.0.2.1", taken.taken("in", || Some("r \u{f6}")), summary)
    };
    let mut out = Vec::new();
    write(&change(line), layout, layout.template.as_deref().expect("a template"), 1_233_926_054_655, &mut out);
    String::from_utf8(out).expect("it is ASCII")
}

/// Line of a request that reached no endpoint.
fn refused(line: Line<'_>) -> Line<'_> {
    let timing = Timing { total_ns: line.summary.timing.total_ns, ..Timing::default() };
    let (cause, phase) = (Cause::Proxy, Phase::Request);
    let summary = Summary { tries: 0, status: 503, timing, cause, phase, ..line.summary };
    Line { sent: &NOWHERE, asked: b"", summary, ..line }
}

#[test]
fn the_formats_of_others_are_as_others_write_them() {
    let combined =
        "192.0.2.1 - - [06/Feb/2009:13:14:14 +0000] \"GET /a?b HTTP/1.1\" 200 2750 \"-\" \"curl/8\\x22\\x0A\"\n";
    assert_eq!(made(&planned("combined", "", 1), |line| line), combined);
    let common = combined.split(" \"-\"").next().expect("the front");
    assert_eq!(made(&planned("common", "", 1), |line| line), format!("{common}\n"));
    let httplog = planned("httplog", "request = [\"X-Tenant\", \"X-None\"], response = [\"X-Cache\"]", 1);
    assert_eq!(
        made(&httplog, |line| line),
        "192.0.2.1:33317 [06/Feb/2009:13:14:14.655] in static/srv1 0/1/2/7/109 200 2750 - - ---- 0/0/0/0/1 0/0 \
         {a\\x7Cb\\x7D|} {HIT} \"GET /a?b HTTP/1.1\"\n"
    );
    assert_eq!(
        made(&planned("httplog", "", 1), refused),
        "192.0.2.1:33317 [06/Feb/2009:13:14:14.655] in in/<NOSRV> 0/0/-1/-1/109 503 2750 - - PR-- 0/0/0/0/0 0/0 \
         \"- - HTTP/1.1\"\n"
    );
}

#[test]
fn every_value_has_a_text() {
    let all: &[&str] = &[
        "ts",
        "date",
        "date_ms",
        "unix_ms",
        "req_id",
        "client",
        "client_port",
        "peer",
        "user",
        "listener",
        "route",
        "pool",
        "endpoint",
        "server",
        "tries",
        "retries",
        "attempts",
        "proto",
        "tls_version",
        "tls_cipher",
        "sni",
        "t_handshake",
        "migrations",
        "packets_lost",
        "method",
        "host",
        "path",
        "request",
        "user_agent",
        "referer",
        "trace_id",
        "status",
        "bytes_in",
        "bytes_out",
        "t_queue",
        "t_connect",
        "t_ttfb",
        "t_total",
        "timers",
        "term",
        "grpc_status",
        "reason",
        "captured",
        "request.x-tenant",
        "response.X-Cache",
    ];
    let format: Vec<String> = all.iter().map(|name| format!("%{{{name}}}")).collect();
    let attempts = [
        Try { endpoint: "a".into(), end: "status 503".into(), took_ns: 1_234_567, ..Try::default() },
        Try { endpoint: "b".into(), end: "answered".into(), ..Try::default() },
    ];
    let text = made(&planned(&format.join(";"), "", 1), |line| Line { reason: Some("why\n"), ..line });
    assert_eq!(
        text.trim_end(),
        "2009-02-06T13:14:14.655Z;06/Feb/2009:13:14:14 +0000;06/Feb/2009:13:14:14.655;1233926054655;\
         00000000000000000000000000000007;192.0.2.1;33317;-;-;in;r \\xC3\\xB6;static;srv1;static/srv1;2;1;-;HTTP/1.1;-;-;-;-;-;-;GET;h;\
         /a?b;GET /a?b HTTP/1.1;curl/8\\x22\\x0A;-;-;200;78;2750;1.000;2.000;10.500;109.000;0/1/2/7/109;--;-;why\\x0A;\
         {a\\x7Cb\\x7D} {HIT} ;a|b};HIT"
    );
    let mut out = Vec::new();
    let id = &RequestId::Made { origin: 0, number: 0 };
    let line = Line { attempts: &attempts, ..Line::new("HTTP/1.1", id, b"", &NOWHERE, Summary::default()) };
    let mut writer = Out { line: &line, layout: &planned("common", "", 1), unix_ms: 0, text: &mut out };
    writer.write_attempts().expect("a vector takes all");
    assert_eq!(out, b"a=status_503@1.234,b=answered@0.000");
}

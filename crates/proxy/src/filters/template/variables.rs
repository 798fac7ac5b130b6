//! Values of variables, appended as bytes. An unknown value is empty.

use super::lines;
use super::source::Source;
use crate::peer::hash_key::cookie;
use evenkeel_config::plan::Variable;
use evenkeel_net::clock::civil;
use evenkeel_wire::head::Request;
use evenkeel_wire::host;
use evenkeel_wire::http1::kind::{Kind, kind};
use std::io::Write;

/// Appends the value of a variable.
pub fn write(variable: &Variable, from: &Source<'_, '_, '_, '_>, out: &mut Vec<u8>) {
    let cx = from.cx;
    match variable {
        Variable::ClientIp => match cx.facts.origin {
            Some(ip) => number(ip, out),
            None => out.extend_from_slice(cx.peer.ip_text()),
        },
        // The port of a client behind a trusted proxy is unknown.
        Variable::ClientPort if cx.facts.origin.is_none() => number(cx.peer.port, out),
        Variable::ClientPort => {}
        Variable::Scheme => {
            let said = cx.facts.said.as_deref().and_then(|said| said.scheme);
            out.extend_from_slice(said.unwrap_or(cx.peer.scheme()).as_bytes());
        }
        Variable::Port => {
            if let Some(addresses) = cx.peer.addresses() {
                number(addresses.destination.port(), out);
            }
        }
        Variable::RequestId => cx.request_id().write(out),
        Variable::User => out.extend_from_slice(cx.facts.user.as_deref().unwrap_or_default()),
        Variable::Claim(name) => {
            let claim = cx.facts.token.as_ref().and_then(|checked| checked.token.claim(name));
            out.extend_from_slice(claim.unwrap_or_default().as_bytes());
        }
        Variable::TlsVersion => out.extend_from_slice(cx.peer.tls().map_or("", |info| info.version).as_bytes()),
        Variable::TlsCipher => out.extend_from_slice(cx.peer.tls().map_or("", |info| info.cipher).as_bytes()),
        Variable::TlsServerName => {
            let name = cx.peer.tls().and_then(|info| info.server_name.as_deref());
            out.extend_from_slice(name.unwrap_or_default().as_bytes());
        }
        Variable::TlsClientSubject => certificate(from, b"X-Client-Cert-Subject: ", out),
        Variable::TlsClientFingerprint => certificate(from, b"X-Client-Cert-Fingerprint: ", out),
        Variable::Time => time(unix_ms(from), out),
        Variable::TimeUnix => number(unix_ms(from) / 1000, out),
        Variable::Status => number(from.status, out),
        Variable::Pool => out.extend_from_slice(cx.facts.pool.map_or("", |pool| &pool.name).as_bytes()),
        Variable::Endpoint => {
            out.extend_from_slice(cx.facts.endpoint.as_ref().map_or("", |endpoint| &endpoint.name).as_bytes());
        }
        // Known when the filter is built.
        Variable::Route | Variable::PathParameter(_) | Variable::Map(_) => {}
        Variable::Host
        | Variable::Method
        | Variable::Path
        | Variable::PathFirst
        | Variable::PathLast
        | Variable::Query
        | Variable::RequestUri
        | Variable::Header(_)
        | Variable::Cookie(_)
        | Variable::QueryParameter(_) => {
            if let Some(request) = from.request {
                of_head(variable, request, from.lines, out);
            }
        }
    }
}

/// Appends a part of the request's head.
fn of_head(variable: &Variable, request: &Request<'_, '_>, lines: &[u8], out: &mut Vec<u8>) {
    let value: &[u8] = match variable {
        Variable::Host => host::without_port(request.host),
        Variable::Method => request.method.as_bytes(),
        Variable::Path => request.path().as_bytes(),
        Variable::PathFirst => segments(request).next().unwrap_or_default().as_bytes(),
        Variable::PathLast => segments(request).next_back().unwrap_or_default().as_bytes(),
        Variable::RequestUri => request.target.strip_suffix('?').unwrap_or(request.target).as_bytes(),
        Variable::Query => request.query().unwrap_or_default().as_bytes(),
        Variable::Header(name) => field(request, lines, name).unwrap_or_default(),
        Variable::Cookie(name) => {
            let fields = request.fields.kept().filter(|(known, _)| known.eq_ignore_ascii_case(b"cookie"));
            fields.map(|(_, value)| value).find_map(|value| cookie(value, name.as_bytes())).unwrap_or_default()
        }
        Variable::QueryParameter(name) => {
            let pairs = request.query().unwrap_or_default().split('&');
            let mut named = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).filter(|(n, _)| *n == &**name);
            named.next().map_or("", |(_, value)| value).as_bytes()
        }
        _ => b"",
    };
    out.extend_from_slice(value);
}

/// Segments of the path, without empty segments.
fn segments<'b>(request: &Request<'_, 'b>) -> impl DoubleEndedIterator<Item = &'b str> {
    request.path().split('/').filter(|segment| !segment.is_empty())
}

/// True for fields that this proxy writes itself. Such fields of a client are not forwarded, but over HTTP/2 they are
/// removed only once the head is written.
pub fn is_own(name: &[u8]) -> bool {
    matches!(kind(name), Kind::Forwarded | Kind::Lookalike)
}

/// First value of a field that is forwarded, from the client or from the added lines.
fn field<'b>(request: &Request<'_, 'b>, added: &'b [u8], name: &str) -> Option<&'b [u8]> {
    let is_named = |known: &[u8]| known.eq_ignore_ascii_case(name.as_bytes());
    let kept = request.fields.kept().find(|(known, _)| is_named(known) && !is_own(known)).map(|(_, value)| value);
    kept.or_else(|| lines::each(added).find(|(known, _)| is_named(known)).map(|(_, value)| value))
}

/// Value that the listener has noted about the client's certificate, as a field of this name.
fn certificate(from: &Source<'_, '_, '_, '_>, name: &[u8], out: &mut Vec<u8>) {
    let Some(info) = from.cx.peer.tls() else { return };
    let mut lines = info.note().fields.split(|b| *b == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    out.extend_from_slice(value.trim_ascii_end());
}

/// Arrival of the request, in milliseconds since 1970.
fn unix_ms(from: &Source<'_, '_, '_, '_>) -> u64 {
    from.cx.core.clock.unix_ms(from.cx.timing.get().began)
}

/// Appends a time as RFC 3339 has it: `2026-11-20T10:00:00.123Z`.
fn time(unix_ms: u64, out: &mut Vec<u8>) {
    const DAY: u64 = 86_400;
    let (seconds, ms) = (unix_ms / 1000, unix_ms % 1000);
    let ((year, month, day), second) = (civil(seconds / DAY), seconds % DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Writing to a vector cannot fail.
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z");
}

fn number(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{value}");
}

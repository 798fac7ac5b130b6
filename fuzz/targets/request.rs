//! Requests mean the same before and after the proxy: any split of the bytes gives the same result, and the
//! forwarded head is byte for byte what a naive reading of the rules requires.
#![no_main]

mod naive;
#[path = "../../crates/wire/tests/wire/mod.rs"]
mod wire;

use evenkeel_wire::http1::{Body, Limits, Request, Room, Version, head_len, leading_empty_lines};
use libfuzzer_sys::fuzz_target;
use naive::Head;
use wire::{Connection, HOST, pieces};

const LIMITS: Limits = Limits { head: 1024, fields: 24 };
/// For forwarded messages: some more fields.
const AFTER: Limits = Limits { head: 4096, fields: 32 };

fuzz_target!(|bytes: &[u8]| {
    let new = || Connection::requests(LIMITS);
    let finest = new().read(bytes.chunks(1));
    assert!(new().read([bytes]).agrees_with(&finest));
    for cuts in naive::cuts(bytes) {
        assert!(new().read(pieces(bytes, &cuts)).agrees_with(&finest));
    }
    let Ok(Some(len)) = head_len(bytes, &LIMITS) else { return };
    let mut room = Room::new();
    if let Ok(Some(request)) = Request::read(bytes, &mut room, &LIMITS) {
        let head = Head::split(&bytes[leading_empty_lines(bytes)..len]);
        check(&request, &head);
    }
});

fn check(request: &Request<'_, '_>, head: &Head) {
    let old = head.first.ends_with(b"HTTP/1.0");
    assert_eq!(old, request.version == Version::V10);
    let target = target(&head.first);
    assert_eq!((request.method.as_bytes(), request.target.as_bytes()), (target.method, &*target.origin));

    let (hosts, named) = (head.values("host"), target.authority);
    assert!(hosts.len() == 1 || old && hosts.is_empty());
    let from_field = hosts.first().copied().filter(|host| !host.is_empty());
    // The target takes precedence over the field, except that the field's spelling is kept if both are equal.
    let same = from_field.filter(|field| named.is_none_or(|named| named.eq_ignore_ascii_case(field)));
    let host = same.or(named);
    assert_eq!(request.host, host.unwrap_or_default());

    let (lengths, codings) = (head.values("content-length"), head.values("transfer-encoding"));
    match (&*lengths, &*codings) {
        ([], []) => assert_eq!(request.body, Body::EMPTY),
        ([length], []) => {
            let text = std::str::from_utf8(length).expect("digits");
            assert_eq!(request.body, Body::Length(text.parse().expect("digits")));
        }
        ([], [coding]) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked") && !old);
            assert!(matches!(request.body, Body::Chunked(_)));
        }
        _ => panic!("two framings"),
    }

    let closes = request.body_may_be_overlooked();
    let written = wire::written(request);
    let want = forwarded(request, head, &target, host);
    assert!(written == want, "written: {}\nnaive: {}", written.escape_ascii(), want.escape_ascii());

    assert!(!Head::split(&written).hides_a_request(), "written: {}", written.escape_ascii());

    let mut room = Room::new();
    assert_eq!(head_len(&written, &AFTER), Ok(Some(written.len())));
    let again = Request::read(&written, &mut room, &AFTER).expect("what goes on is good").expect("it is whole");
    assert_eq!((again.method, again.target, &again.body), (request.method, request.target, &request.body));
    assert_eq!((again.upgrade, again.version, again.keep_alive), (request.upgrade, Version::V11, !closes));
    assert_eq!(again.host, host.unwrap_or(HOST));
    if host.is_some() {
        let twice = wire::written(&again);
        assert!(twice == written, "once: {}\ntwice: {}", written.escape_ascii(), twice.escape_ascii());
    }
}

struct Target<'a> {
    method: &'a [u8],
    /// Path and query, or `*`.
    origin: Vec<u8>,
    /// Authority of a target in absolute form.
    authority: Option<&'a [u8]>,
}

fn target(line: &[u8]) -> Target<'_> {
    let words: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let [method, target, version] = words[..] else { panic!("a line of three words") };
    assert!(method.iter().all(|b| naive::is_token(*b)) && method != b"CONNECT");
    assert!(version.len() == 8 && version.starts_with(b"HTTP/1.") && version[7].is_ascii_digit());
    assert!(target.iter().all(|b| (0x21..0x7f).contains(b) && *b != b'#'));
    if target.starts_with(b"/") || target == b"*" {
        assert!(target != b"*" || method == b"OPTIONS");
        return Target { method, origin: target.to_vec(), authority: None };
    }
    let lower = target.to_ascii_lowercase();
    let scheme = ["http://", "https://"].into_iter().find(|s| lower.starts_with(s.as_bytes())).expect("a scheme");
    let rest = &target[scheme.len()..];
    let end = rest.iter().position(|b| *b == b'/').unwrap_or(rest.len());
    let origin = match (&rest[end..], method) {
        (b"", b"OPTIONS") => b"*".to_vec(),
        (b"", _) => b"/".to_vec(),
        (path, _) => path.to_vec(),
    };
    Target { method, origin, authority: Some(&rest[..end]) }
}

/// The head that must be forwarded.
fn forwarded(request: &Request<'_, '_>, head: &Head, target: &Target<'_>, host: Option<&[u8]>) -> Vec<u8> {
    let line = |name: &str, value: &[u8]| [name.as_bytes(), b": ", value].concat();
    let hop_by_hop =
        "connection keep-alive te proxy-connection http2-settings forwarded x-forwarded-for x-forwarded-proto x-forwarded-host \
         client-cert client-cert-chain x-client-cert-issuer x-client-cert-serial x-client-cert-subject x-client-cert-verified \
         x-client-cert-fingerprint";
    let mut dropped: Vec<String> = hop_by_hop.split(' ').map(String::from).collect();
    dropped.extend(head.nominated().into_iter().filter(|name| name != "upgrade"));
    let old = request.version == Version::V10;
    let expects = head.values("expect");
    assert!(old || expects.len() < 2 && expects.iter().all(|value| value.eq_ignore_ascii_case(b"100-continue")));
    if old || request.body == Body::EMPTY {
        dropped.push("expect".into());
    }
    let wins = target.authority.is_some() && head.values("host").first().copied() != host;
    let host_kept = head.is_plain("host") && !wins;
    if !host_kept {
        dropped.push("host".into());
    }
    let (plain, framing) = head.plain_framing();
    let mut fields = Head { first: vec![], fields: plain }.without(&dropped);
    fields.retain(|field| !naive::is_lookalike(&naive::name_of(field)));
    // Of several Upgrade fields the last one counts, and only if the switch is complete. An endpoint that
    // ignores a body without meaning would take it for the first bytes of the tunnel.
    let is_bodiless = matches!(request.method, "GET" | "HEAD" | "DELETE" | "TRACE");
    let has_body = request.body != Body::EMPTY;
    let may_switch = !(has_body && is_bodiless);
    let wanted = !old && head.lists("connection", "upgrade") && may_switch;
    let last = fields.iter().rposition(|field| naive::name_of(field) == "upgrade");
    let http2 = |field: &[u8]| naive::tokens(naive::value_of(field)).iter().any(|t| t.starts_with("h2"));
    let websocket = |field: &[u8]| naive::tokens(naive::value_of(field)).iter().any(|t| t == "websocket");
    let kept = last.filter(|at| wanted && !http2(&fields[*at]) && !(has_body && websocket(&fields[*at])));
    assert_eq!(request.upgrade, kept.is_some());
    let mut at = 0;
    fields.retain(|field| {
        at += 1;
        naive::name_of(field) != "upgrade" || kept == Some(at - 1)
    });
    if !host_kept {
        fields.insert(0, line("Host", host.unwrap_or(HOST)));
    }
    fields.extend(framing);
    match (kept.is_some(), has_body) {
        (true, false) => fields.push(line("Connection", b"upgrade")),
        (true, true) => fields.push(line("Connection", b"upgrade, close")),
        (false, true) if is_bodiless => fields.push(line("Connection", b"close")),
        (false, _) => {}
    }
    let first = [target.method, b" ", &target.origin, b" HTTP/1.1"].concat();
    Head::join(&first, &fields)
}

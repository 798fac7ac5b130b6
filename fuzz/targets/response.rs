//! Responses mean the same before and after the proxy, whatever the endpoint sends, whatever was requested,
//! and whichever client gets it.
#![no_main]

mod naive;
#[path = "../../crates/wire/tests/wire/mod.rs"]
mod wire;

use evenkeel_config::plan::{Tolerance, Tolerated};
use evenkeel_wire::http1::mend::{self, Mended};
use evenkeel_wire::http1::response::{RequestContext, Towards};
use evenkeel_wire::http1::{Body, Limits, Response, Room, Version, head_len};
use libfuzzer_sys::fuzz_target;
use naive::Head;
use wire::{Connection, pieces};

const LIMITS: Limits = Limits { head: 1024, fields: 24 };
/// For forwarded messages: some more fields.
const AFTER: Limits = Limits { head: 4096, fields: 32 };

fuzz_target!(|bytes: &[u8]| {
    for asked in [(false, false), (true, false), (false, true)].map(|(head, upgrade)| RequestContext { head, upgrade })
    {
        let new = || Connection::responses(vec![asked; 8], LIMITS);
        let finest = new().read(bytes.chunks(1));
        assert!(new().read([bytes]).agrees_with(&finest));
        for cuts in naive::cuts(bytes) {
            assert!(new().read(pieces(bytes, &cuts)).agrees_with(&finest));
        }
        mend(bytes, asked);
        let Ok(Some(len)) = head_len(bytes, &LIMITS) else { return };
        let mut room = Room::new();
        if let Ok(Some(response)) = Response::read(bytes, &mut room, asked, &LIMITS) {
            check(&response, asked, &bytes[..len]);
        }
    }
});

/// With every fault tolerated, a few repairs lead to a valid head, an incomplete one, or an error.
fn mend(bytes: &[u8], asked: RequestContext) {
    use Tolerance::*;
    let faults = [ChunkSizePadding, BareLfHead, FoldedFields, DuplicateContentLength, Identity];
    let tolerated = faults.into_iter().fold(Tolerated::default(), Tolerated::with);
    let (mut bytes, mut room) = (bytes.to_vec(), Room::new());
    for _ in 0..8 {
        let Err(refused) = Response::read(&bytes, &mut room, asked, &LIMITS) else { return };
        match mend::mend(&bytes, refused, &LIMITS, tolerated) {
            Ok(Mended::Head(len, head)) => drop(bytes.splice(..len, head)),
            Ok(Mended::More) | Err(_) => return,
        }
    }
    panic!("mended for ever: {}", bytes.escape_ascii());
}

fn check(response: &Response<'_, '_>, asked: RequestContext, bytes: &[u8]) {
    let head = Head::split(bytes);
    let old = head.first.starts_with(b"HTTP/1.0 ");
    assert!(old || head.first.starts_with(b"HTTP/1.") && head.first[7].is_ascii_digit() && head.first[8] == b' ');
    let code = std::str::from_utf8(&head.first[9..12]).ok().and_then(|code| code.parse().ok());
    assert_eq!(code, Some(response.status));
    assert!(response.status >= 100 && (response.status != 101 || asked.upgrade));

    let bodiless = asked.head || matches!(response.status, 100..200 | 204 | 304);
    let (lengths, codings) = (head.values("content-length"), head.values("transfer-encoding"));
    let body = match (&*lengths, &*codings) {
        ([], []) => Body::UntilClose,
        ([length], []) => Body::Length(std::str::from_utf8(length).ok().and_then(|l| l.parse().ok()).expect("digits")),
        ([], [coding]) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked") && !old);
            Body::Chunked(Default::default())
        }
        _ => panic!("two framings"),
    };
    // Some servers send a body, or its last chunk, after a head that has none. If late, it would be taken for
    // the next response.
    let never = matches!(response.status, 100..200 | 204);
    let may_trail = match &body {
        Body::Chunked(_) => never || response.status == 304,
        Body::Length(n) => never && *n > 0,
        Body::UntilClose => false,
    };
    let body = if bodiless { Body::EMPTY } else { body };
    assert_eq!(response.body, body);
    let closes = head.lists("connection", "close") || old && !head.lists("connection", "keep-alive");
    assert_eq!(response.keep_alive, !closes && body != Body::UntilClose && !may_trail);

    for version in [Version::V10, Version::V11] {
        for keep_alive in [false, true] {
            let strip = version == Version::V10 && matches!(body, Body::Chunked(_));
            let towards = Towards { version, keep_alive: keep_alive && !strip && body != Body::UntilClose };
            check_back(response, asked, &head, towards);
        }
    }
}

fn check_back(response: &Response<'_, '_>, asked: RequestContext, head: &Head, towards: Towards) {
    let mut written = Vec::new();
    response.write(towards, b"", &mut written);
    let back = Head::split(&written);
    let mut dropped: Vec<String> = "connection keep-alive te proxy-connection".split(' ').map(String::from).collect();
    let others = ["upgrade", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];
    dropped.extend(head.nominated().into_iter().filter(|name| !others.contains(&name.as_str())));
    if response.status != 101 {
        dropped.push("upgrade".into());
    }
    let never = response.status < 200 || response.status == 204;
    if never {
        dropped.push("content-length".into());
    }
    if never || towards.version == Version::V10 {
        dropped.push("transfer-encoding".into());
    }
    let (plain, framing) = head.plain_framing();
    let mut fields = Head { first: vec![], fields: plain }.without(&dropped);
    fields.extend(framing.filter(|line| !dropped.contains(&naive::name_of(line))));
    let connection = match (response.status, towards.version, towards.keep_alive) {
        (101, ..) => Some("upgrade"),
        (..200, ..) | (_, Version::V11, true) => None,
        (_, Version::V10, true) => Some("keep-alive"),
        (_, _, false) => Some("close"),
    };
    fields.extend(connection.map(|option| format!("Connection: {option}").into_bytes()));
    assert!(back.fields == fields, "{}\nnaive: {}", written.escape_ascii(), Head::join(b"", &fields).escape_ascii());

    let mut room = Room::new();
    assert_eq!(head_len(&written, &AFTER), Ok(Some(written.len())));
    let again =
        Response::read(&written, &mut room, asked, &AFTER).expect("what goes back is good").expect("it is whole");
    assert_eq!((again.status, again.is_interim()), (response.status, response.is_interim()));
    let stripped = towards.version == Version::V10 && matches!(response.body, Body::Chunked(_));
    assert_eq!(again.body, if stripped { Body::UntilClose } else { response.body.clone() });
    if response.status >= 200 {
        assert_eq!(again.keep_alive, towards.keep_alive);
    }
    if let Some(stretch) = response.all_but(towards) {
        let mut left = Head::join(&head.first, &head.fields);
        left.drain(stretch);
        assert_eq!(fields, Head::split(&left).fields, "what is left of it, and as it would be written");
    }
}

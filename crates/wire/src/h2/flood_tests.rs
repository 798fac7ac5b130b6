//! Waste that a peer is allowed, and the end of the connection for more of it.

use super::*;

#[test]
fn floods_end_the_connection_and_hold_little() {
    let many = |one: Vec<u8>| one.repeat(30_000);
    let open = headers(1, POST, false);
    let continued = [frame(kind::HEADERS, 0, 1, &block(GET)), many(frame(kind::CONTINUATION, 0, 1, &[]))].concat();
    let large = [
        frame(kind::HEADERS, 0, 1, &[0; 16_000]),
        many(frame(kind::CONTINUATION, 0, 1, &[0; 16_000]))[..16_009 * 20].to_vec(),
    ]
    .concat();
    let rows: Vec<(&str, Vec<u8>, Flood)> = vec![
        ("heads of streams that were reset", [reset_here(), many(headers(1, GET, true))].concat(), Flood::LateFrames),
        ("data of such", [reset_here(), frame(kind::DATA, 0, 1, b"x").repeat(90_000)].concat(), Flood::LateFrames),
        (
            "resets of such",
            [reset_here(), frame(kind::RST_STREAM, 0, 1, &[0; 4]).repeat(90_000)].concat(),
            Flood::LateFrames,
        ),
        ("continuations", continued, Flood::Continuations),
        ("large heads", large, Flood::LargeHeads),
        ("settings", many(frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0])), Flood::Settings),
        ("pings", many(frame(kind::PING, 0, 0, &[0; 8])), Flood::Pings),
        ("priorities", many(frame(kind::PRIORITY, 0, 9, &[0, 0, 0, 0, 1])), Flood::Ignored),
        ("unknown", many(frame(77, 0, 0, &[])), Flood::Ignored),
        ("empty data", [open.clone(), many(frame(kind::DATA, 0, 1, &[]))].concat(), Flood::EmptyData),
        ("windows", [open, many(frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]))].concat(), Flood::WindowUpdates),
    ];
    for (name, bytes, flood) in rows {
        let mut server = server();
        let mut rest = &bytes[..];
        let error = loop {
            match server.receive(rest, 0) {
                Err(error) => break error,
                Ok(Received { used, event }) => {
                    assert!(used > 0 || event.is_some(), "{name}: the connection makes no progress");
                    rest = &rest[used..];
                }
            }
        };
        assert_eq!((error.flood, error.code), (Some(flood), ErrorCode::EnhanceYourCalm), "{name}");
        // Each that was allowed was answered, and no more.
        assert!(server.output().len() < 64 * 1024, "{name}: {}", server.output().len());
        assert!(server.open_streams() <= 100, "{name}");
    }
}

/// A request whose stream the server resets for its head.
fn reset_here() -> Vec<u8> {
    headers(1, &[POST, &[("connection", "close")]].concat(), false)
}

/// Passes all of `rest` to a server, or as much as it accepts. Returns its error, and the floods that it reported.
fn take(server: &mut Connection, mut rest: &[u8], now: u64) -> (Option<ConnectionError>, Vec<Flood>) {
    let mut floods = Vec::new();
    loop {
        match server.receive(rest, now) {
            Err(error) => return (Some(error), floods),
            Ok(Received { used: 0, event: None }) => return (None, floods),
            Ok(Received { used, event }) => {
                floods
                    .extend(event.and_then(|event| if let Event::Flooded(flood) = event { Some(flood) } else { None }));
                rest = &rest[used..];
            }
        }
    }
}

fn request_and_reset(stream: StreamId) -> Vec<u8> {
    [headers(stream, GET, true), frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
}

/// CVE-2023-44487. The streams of other users on the connection are served.
#[test]
fn rapid_resets_end_new_streams_and_not_those_that_have_begun() {
    let mut server = server();
    assert_eq!(all(&mut server, &headers(1, POST, false)).events.len(), 1);
    let resets: Vec<u8> = (1..=1500).flat_map(|n| request_and_reset(2 * n + 1)).collect();
    assert_eq!(take(&mut server, &resets, 0), (None, vec![Flood::Resets]));
    let away: Vec<_> = written(&mut server).into_iter().filter(|(kind, ..)| *kind == kind::GOAWAY).collect();
    // The excess stream was open when it was reset.
    assert_eq!(away, [(kind::GOAWAY, 0, 2 * 1001 + 1)]);
    assert_eq!(all(&mut server, &frame(kind::DATA, flag::END_STREAM, 1, b"x")).events, ["1 data x ends=true"]);
    server.send_head(1, pairs(&[(":status", "204")]), true);
    assert_eq!(written(&mut server).len(), 1);
    // A client that does not stop ends the connection all the same, and is counted once.
    let more: Vec<u8> = (2000..9000).flat_map(|n| request_and_reset(2 * n + 1)).collect();
    let (error, floods) = take(&mut server, &more, 0);
    assert_eq!(
        (error.map(|error| (error.code, error.flood)), floods),
        (Some((ErrorCode::EnhanceYourCalm, None)), vec![])
    );
}

#[test]
fn cancels_of_streams_that_were_open_for_a_while_are_no_flood_however_many() {
    const MS: u64 = 1_000_000;
    let mut server = server();
    // A hundred at a time, each open for 100 ms.
    for round in 0..100u32 {
        let ids = (0..100).map(|n| 200 * round + 2 * n + 1);
        let begun: Vec<u8> = ids.clone().flat_map(|id| headers(id, GET, true)).collect();
        let resets: Vec<u8> = ids.flat_map(|id| frame(kind::RST_STREAM, 0, id, &[0, 0, 0, 8])).collect();
        assert_eq!(take(&mut server, &begun, u64::from(round) * 100 * MS), (None, vec![]), "{round}");
        assert_eq!(take(&mut server, &resets, u64::from(round + 1) * 100 * MS), (None, vec![]), "{round}");
        assert_eq!(server.open_streams(), 0);
    }
    // Streams that end at once are paid for by those that are served.
    for n in 10_000..20_000 {
        let both = [headers(4 * n + 1, GET, true), request_and_reset(4 * n + 3)].concat();
        assert_eq!(take(&mut server, &both, 10_000 * MS), (None, vec![]));
        server.send_head(4 * n + 1, pairs(&[(":status", "204")]), true);
    }
    // 400 per second are allowed as well.
    let mut server = self::server();
    for n in 0..24_000u32 {
        let at = u64::from(n) * 1000 * MS / 400;
        assert_eq!(take(&mut server, &request_and_reset(2 * n + 1), at), (None, vec![]), "{n}");
    }
}

/// A client may begin many streams before it knows the limit, each with a body and trailers.
#[test]
fn a_first_flight_beyond_the_limit_is_refused_and_those_within_it_are_served() {
    let mut server = server();
    let ids = (0..310u32).map(|n| 2 * n + 1);
    let heads: Vec<u8> = ids.clone().flat_map(|id| headers(id, POST, false)).collect();
    let heard = all(&mut server, &heads);
    assert_eq!((heard.error, heard.events.len(), server.open_streams()), (None, 100, 100));
    let refused = written(&mut server);
    assert_eq!(refused.len(), 210);
    assert!(
        refused.iter().all(|(kind, _, code)| (*kind, *code) == (kind::RST_STREAM, ErrorCode::RefusedStream as u32))
    );
    let rest: Vec<u8> =
        ids.flat_map(|id| [frame(kind::DATA, 0, id, b"x"), headers(id, &[("x-sum", "1")], true)].concat()).collect();
    let heard = all(&mut server, &rest);
    assert_eq!((heard.error, heard.events.len()), (None, 200));
    for n in 0..100 {
        server.send_head(2 * n + 1, pairs(&[(":status", "204")]), true);
    }
    assert_eq!((written(&mut server).len(), server.open_streams()), (100, 0));
}

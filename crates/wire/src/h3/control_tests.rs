//! Unidirectional streams: types, settings, and frames that concern the connection.

use super::*;

fn setting(id: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(id, &mut out);
    varint::write(value, &mut out);
    out
}

/// A control stream with empty SETTINGS and these frames.
fn control(frames: &[Vec<u8>]) -> Vec<u8> {
    [vec![0], frame(kind::SETTINGS, &[]), frames.concat()].concat()
}

/// Events of a unidirectional stream that stays open. Cut or not, they are the same.
fn hear(is_server: bool, bytes: &[u8]) -> Heard {
    let events_in_parts = |cut: usize| {
        let config = Config::default();
        let mut side = if is_server { Connection::server(config, 0) } else { Connection::client(config, 0) };
        let mut stream = UnidirectionalStream::default();
        feed(bytes, &mut || cut, true, |part, ends| {
            if ends {
                return Ok(Received { used: part.len(), event: None });
            }
            side.receive_unidirectional(&mut stream, part, false, 0)
        })
    };
    let heard = events_in_parts(usize::MAX / 2);
    for cut in 1..bytes.len().min(20) {
        assert_eq!(events_in_parts(cut), heard, "{cut}");
    }
    heard
}

#[test]
fn the_control_streams_of_both_sides_fit() {
    let config = Config { max_header_list: 1000, max_fields: 10, connect: true };
    let (mut server, mut client) = (Connection::server(config, 0), Connection::client(config, 0));
    let (bytes, answer) = (server.control().clone(), client.control().clone());
    let mut stream = UnidirectionalStream::default();
    let received = client.receive_unidirectional(&mut stream, &bytes, false, 0).unwrap();
    assert!(matches!(received, Received { event: Some(Event::Settings), used } if used == bytes.len()));
    assert_eq!((client.peer_takes_connect(), client.peer_max_field_section()), (true, Some(1320)));
    server.receive_unidirectional(&mut UnidirectionalStream::default(), &answer, false, 0).unwrap();
    assert_eq!((server.peer_takes_connect(), server.peer_max_field_section()), (false, Some(1320)));
}

#[test]
fn settings_come_first_and_once() {
    for is_server in [true, false] {
        assert_eq!(hear(is_server, &control(&[])), Heard::of(&["Settings"]));
        for kind in [kind::GOAWAY, kind::DATA, 0x21] {
            let heard = hear(is_server, &[vec![0], frame(kind, &[0])].concat());
            assert_eq!(heard, Heard::failed(&[], ErrorCode::MissingSettings), "{kind:x}");
        }
        let again = hear(is_server, &control(&[frame(kind::SETTINGS, &[])]));
        assert_eq!(again, Heard::failed(&["Settings"], ErrorCode::FrameUnexpected));
    }
}

#[test]
fn wrong_settings_are_refused() {
    let error = |payload: &[u8]| hear(true, &[vec![0], frame(kind::SETTINGS, payload)].concat()).error;
    let invalid = Some(ErrorCode::SettingsError);
    for id in [0x0, 0x2, 0x3, 0x4, 0x5] {
        assert_eq!(error(&setting(id, 1)), invalid, "{id}");
    }
    assert_eq!((error(&setting(0x8, 2)), error(&setting(0x33, 2)), error(&setting(0x8, 1))), (invalid, invalid, None));
    let unknown = setting(0xffd_277, 1);
    assert_eq!((error(&unknown), error(&unknown.repeat(2))), (None, invalid));
    assert_eq!((error(&[0x06]), error(&[0x06, 0x40])), (Some(ErrorCode::FrameError), Some(ErrorCode::FrameError)));
    assert_eq!(error(&[7; 1025]), Some(ErrorCode::ExcessiveLoad));
}

#[test]
fn frames_that_do_not_belong_to_a_control_stream_are_refused() {
    for (is_server, kind) in [true, false].into_iter().flat_map(|is| [0, 1, 2, 5, 6, 8, 9].map(|kind| (is, kind))) {
        let heard = hear(is_server, &control(&[frame(kind, &[0, 0])]));
        assert_eq!(heard, Heard::failed(&["Settings"], ErrorCode::FrameUnexpected), "{kind:x}");
    }
    for kind in [kind::MAX_PUSH_ID, kind::PRIORITY_UPDATE, kind::PUSH_PRIORITY_UPDATE] {
        let heard = hear(false, &control(&[frame(kind, &[0])]));
        assert_eq!(heard, Heard::failed(&["Settings"], ErrorCode::FrameUnexpected), "{kind:x}");
    }
    let unknown = control(&[frame(0x21, b"grease"), frame(0xabcd, &[7; 500])]);
    assert_eq!(hear(true, &unknown), Heard::of(&["Settings"]));
}

#[test]
fn the_end_of_a_connection_comes_closer() {
    let go_away = |id: u64| {
        let mut payload = Vec::new();
        varint::write(id, &mut payload);
        frame(kind::GOAWAY, &payload)
    };
    let heard = hear(false, &control(&[go_away(4000), go_away(8), go_away(8)]));
    assert_eq!(heard, Heard::of(&["Settings", "GoAway { id: 4000 }", "GoAway { id: 8 }", "GoAway { id: 8 }"]));
    assert_eq!(hear(false, &control(&[go_away(4), go_away(8)])).error, Some(ErrorCode::IdError));
    // A server names requests, a client pushes.
    assert_eq!(hear(false, &control(&[go_away(5)])).error, Some(ErrorCode::IdError));
    assert_eq!(hear(true, &control(&[go_away(5)])).error, None);
    for payload in [&[][..], &[0x40], &[0, 0], &[0; 9]] {
        let heard = hear(true, &control(&[frame(kind::GOAWAY, payload)]));
        assert_eq!(heard.error, Some(ErrorCode::FrameError), "{payload:?}");
    }
}

#[test]
fn pushes_are_not_used() {
    let error = |is_server, frames: &[Vec<u8>]| hear(is_server, &control(frames)).error;
    let max = |id| frame(kind::MAX_PUSH_ID, &[id]);
    assert_eq!(error(true, &[max(3), max(3), max(5)]), None);
    assert_eq!(error(true, &[max(3), max(2)]), Some(ErrorCode::IdError));
    for is_server in [true, false] {
        assert_eq!(error(is_server, &[frame(kind::CANCEL_PUSH, &[0])]), Some(ErrorCode::IdError));
        assert_eq!(error(is_server, &[frame(kind::CANCEL_PUSH, &[])]), Some(ErrorCode::FrameError));
    }
    assert_eq!(hear(true, &[1, 0]), Heard::failed(&[], ErrorCode::StreamCreationError));
    assert_eq!(hear(false, &[1, 0]), Heard::failed(&[], ErrorCode::IdError));
}

#[test]
fn priorities_of_requests_are_updated() {
    let update = |kind, payload: &str| hear(true, &control(&[frame(kind, payload.as_bytes())]));
    let priority = "Priority { stream: 4, priority: Priority { urgency: 1, incremental: true } }";
    assert_eq!(update(kind::PRIORITY_UPDATE, "\x04u=1, i"), Heard::of(&["Settings", priority]));
    let usual = "Priority { stream: 4, priority: Priority { urgency: 3, incremental: false } }";
    assert_eq!(update(kind::PRIORITY_UPDATE, "\x04u="), Heard::of(&["Settings", usual]));
    assert_eq!(update(kind::PRIORITY_UPDATE, "\x04"), Heard::of(&["Settings", usual]));
    assert_eq!(update(kind::PRIORITY_UPDATE, "\x05u=1").error, Some(ErrorCode::IdError));
    assert_eq!(update(kind::PRIORITY_UPDATE, "").error, Some(ErrorCode::FrameError));
    assert_eq!(update(kind::PUSH_PRIORITY_UPDATE, "\x04u=1").error, Some(ErrorCode::IdError));
    let long = format!("\x04u=1{}", " ".repeat(300));
    assert_eq!(update(kind::PRIORITY_UPDATE, &long), Heard::of(&["Settings"]));
}

#[test]
fn instructions_that_need_a_dynamic_table_are_refused() {
    assert_eq!(hear(true, &[2, 0x20]), Heard::of(&[]));
    assert_eq!(hear(true, &[2, 0x3f, 0x00]), Heard::failed(&[], ErrorCode::QpackEncoderStreamError));
    assert_eq!(hear(true, &[3, 0x44, 0x7f, 0x05]), Heard::of(&[]));
    assert_eq!(hear(true, &[3, 0x84]), Heard::failed(&[], ErrorCode::QpackDecoderStreamError));
    let many = [&[2][..], &[0x20; 1001]].concat();
    assert_eq!(hear(true, &many).error, Some(ErrorCode::ExcessiveLoad));
}

#[test]
fn streams_of_unknown_types_are_stopped() {
    let unwanted = "Unwanted { code: StreamCreationError }";
    assert_eq!(hear(true, &[0x21, 7, 7, 7]), Heard::of(&[unwanted]));
    assert_eq!(hear(false, &[0xc0, 0, 0, 0, 0, 0, 0, 0x54, 7]), Heard::of(&[unwanted]));
}

#[test]
fn critical_streams_exist_once_and_never_end() {
    for kind in [0, 2, 3] {
        let mut side = server();
        let mut stream = UnidirectionalStream::default();
        side.receive_unidirectional(&mut stream, &[kind], false, 0).unwrap();
        let second = side.receive_unidirectional(&mut UnidirectionalStream::default(), &[kind], false, 0);
        assert_eq!(second.unwrap_err().code, ErrorCode::StreamCreationError);
        let end = side.receive_unidirectional(&mut stream, &[], true, 0);
        assert_eq!(end.unwrap_err().code, ErrorCode::ClosedCriticalStream);
        let reset = side.on_unidirectional_end(&stream);
        assert_eq!(reset.unwrap_err().code, ErrorCode::ClosedCriticalStream);
    }
    // A stream may end before its type has arrived.
    for bytes in [&[][..], &[0x40]] {
        assert!(server().receive_unidirectional(&mut UnidirectionalStream::default(), bytes, true, 0).is_ok());
    }
}

proptest! {
    #[test]
    fn any_bytes_of_a_unidirectional_stream_are_read_or_refused(
        kind in 0u8..5, settings: bool, bytes in prop::collection::vec(any::<u8>(), 0..60), is_server: bool
    ) {
        let start = if settings { control(&[]) } else { vec![kind] };
        hear(is_server, &[start, bytes].concat());
    }
}

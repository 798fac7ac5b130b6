//! Frames for a stream or a connection that is about to end, or has ended.

use super::*;

/// True if the connection still works: a request on a new stream arrives.
fn goes_on(server: &mut Connection, stream: StreamId) -> bool {
    let heard = all(server, &headers(stream, GET, true));
    heard.error.is_none() && heard.events.len() == 1
}

/// Body and trailers, as sent by a client that does not know yet that its stream has ended.
fn rest_of(stream: StreamId) -> Vec<u8> {
    [frame(kind::DATA, 0, stream, b"late"), headers(stream, &[("x-sum", "4")], true)].concat()
}

#[test]
fn the_rest_of_a_request_that_was_refused_costs_nothing() {
    let mut server = server_with(Config { max_streams: 1, ..Config::default() });
    all(&mut server, &[headers(1, POST, false), headers(3, POST, false)].concat());
    assert_eq!(written(&mut server), [(kind::RST_STREAM, 3, ErrorCode::RefusedStream as u32)]);
    assert_eq!(all(&mut server, &rest_of(3)), Heard::default());
    assert_eq!(all(&mut server, &frame(kind::DATA, flag::END_STREAM, 1, b"x")).events, ["1 data x ends=true"]);
    server.send_head(1, pairs(&[(":status", "204")]), true);
    assert!(goes_on(&mut server, 5));
}

#[test]
fn what_follows_an_empty_frame_that_is_an_error_of_its_stream_is_heard_at_once() {
    let mut server = server();
    let post = [POST, &[("content-length", "4")]].concat();
    all(&mut server, &headers(1, &post, false));
    let both = [frame(kind::DATA, flag::END_STREAM, 1, b""), headers(3, GET, true)].concat();
    let heard = all(&mut server, &both);
    assert_eq!(heard.events.len(), 2, "{heard:?}");
    assert_eq!(written(&mut server), [(kind::RST_STREAM, 1, ErrorCode::ProtocolError as u32)]);
}

#[test]
fn the_rest_of_a_request_behind_the_last_one_that_is_served_costs_nothing() {
    let mut server = server();
    all(&mut server, &headers(1, POST, false));
    server.go_away(ErrorCode::NoError);
    let late = [headers(3, POST, false), rest_of(3), frame(kind::RST_STREAM, 0, 3, &[0, 0, 0, 8])].concat();
    assert_eq!(all(&mut server, &late), Heard::default());
    assert_eq!(all(&mut server, &frame(kind::DATA, flag::END_STREAM, 1, b"x")).events, ["1 data x ends=true"]);
    server.go_away(ErrorCode::NoError);
    let lasts: Vec<u32> = written(&mut server).iter().filter(|frame| frame.0 == kind::GOAWAY).map(|f| f.2).collect();
    assert_eq!(lasts, [1, 1], "the last one that is served does not rise");
}

#[test]
fn after_its_own_reset_a_client_sends_nothing_more_although_this_side_was_first() {
    let mut server = server();
    all(&mut server, &headers(1, POST, false));
    server.reset(1, ErrorCode::NoError);
    all(&mut server, &frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    written(&mut server);
    all(&mut server, &headers(1, POST, false));
    assert_eq!(written(&mut server), [(kind::RST_STREAM, 1, ErrorCode::StreamClosed as u32)]);
    assert!(goes_on(&mut server, 3));
}

#[test]
fn streams_that_end_well_do_not_push_out_one_that_was_reset_here() {
    let mut server = server();
    all(&mut server, &headers(1, POST, false));
    server.reset(1, ErrorCode::Cancel);
    for stream in (3..1000).step_by(2) {
        all(&mut server, &headers(stream, GET, true));
        server.send_head(stream, pairs(&[(":status", "204")]), true);
    }
    assert_eq!(all(&mut server, &rest_of(1)), Heard::default());
    assert!(goes_on(&mut server, 1001));
}

#[test]
fn a_frame_of_data_whose_stream_is_reset_within_it_opens_the_window_again() {
    let mut server = server_with(Config { connection_window: 65_535, ..Config::default() });
    all(&mut server, &headers(1, POST, false));
    let data = frame(kind::DATA, 0, 1, &[b'x'; 16_000]);
    for _ in 0..20 {
        let id = server.last + 2;
        all(&mut server, &headers(id, POST, false));
        let data = frame(kind::DATA, 0, id, &data[frame::LEN..]);
        assert_eq!(all(&mut server, &data[..5000]).events.len(), 1);
        server.reset(id, ErrorCode::Cancel);
        assert_eq!(all(&mut server, &data[5000..]), Heard::default());
    }
}

#[test]
fn a_response_is_as_long_as_it_says() {
    let rows = [
        ("GET", "200", "5", "12345", true),
        ("GET", "200", "5", "1234", false),
        ("GET", "200", "5", "123456", false),
        ("GET", "200", "5", "", false),
        ("HEAD", "200", "5", "", true),
        ("HEAD", "200", "5", "12345", false),
        ("GET", "304", "5", "", true),
        ("GET", "304", "5", "12345", false),
        ("GET", "204", "0", "x", false),
        ("CONNECT", "200", "5", "tunnel", true),
        ("CONNECT", "400", "5", "tunnel", false),
    ];
    for (method, status, length, body, is_well) in rows {
        let response = [(":status", status), ("content-length", length)];
        let with_data =
            [headers(1, &response, false), frame(kind::DATA, flag::END_STREAM, 1, body.as_bytes())].concat();
        let data_and_trailers =
            [headers(1, &response, false), frame(kind::DATA, 0, 1, body.as_bytes()), headers(1, &[("x", "y")], true)];
        let mut ways = vec![with_data, data_and_trailers.concat()];
        if body.is_empty() {
            ways.push(headers(1, &response, true));
        }
        for bytes in ways {
            let mut client = Connection::client(Config::default(), 0);
            all(&mut client, &frame(kind::SETTINGS, 0, 0, &[]));
            client.open(pairs(&[(":method", method), (":authority", "a:1")]), true).expect("it may");
            let heard = all(&mut client, &bytes);
            let is_reset = heard.events.iter().any(|event| event.starts_with("Reset"));
            assert_eq!((is_reset, heard.error), (!is_well, None), "{method} {status} {length} {body}");
            assert_eq!(client.open_streams(), 0);
        }
    }
}

#[test]
fn answers_to_nothing_are_a_flood_and_answers_to_pings_are_not() {
    for (bytes, flood) in [
        (frame(kind::SETTINGS, flag::ACK, 0, &[]), Flood::Settings),
        (frame(kind::PING, flag::ACK, 0, &[0; 8]), Flood::Pings),
        (frame(kind::GOAWAY, 0, 0, &[0; 8]), Flood::Ignored),
    ] {
        let mut server = server();
        let error = (0..2000).find_map(|_| {
            loop {
                match server.receive(&bytes, 0) {
                    Ok(Received { used: 0, event: Some(_) }) => {}
                    Ok(_) => break None,
                    Err(error) => break Some(error),
                }
            }
        });
        assert_eq!(error.and_then(|error| error.flood), Some(flood));
    }
    let mut server = server();
    for payload in 0..5000u64 {
        server.ping(payload);
        let heard = all(&mut server, &frame(kind::PING, flag::ACK, 0, &payload.to_be_bytes()));
        assert_eq!(heard.error, None, "after {payload}");
    }
}

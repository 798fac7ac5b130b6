//! Responses that an endpoint cuts, or that end here as it breaks the rules: the client gets what came, and the log the
//! reason.

use super::before;
use crate::support::h2_client::{Frame, HEADERS, RST_STREAM};
use crate::support::h2_frames::{H2Frames, data, head};
use crate::support::h2_server::H2Server;
use crate::support::log::Log;
use crate::support::{Proxy, text};

const ALONE: &str = "retry = { attempts = 0 }\noutlier = 'off'";

fn reset(stream: u32, code: u32) -> Frame {
    Frame::new(RST_STREAM, 0, stream, code.to_be_bytes())
}

#[test]
fn what_came_before_a_reset_reaches_the_client() {
    let endpoint = H2Frames::start(|conn, frame| {
        if frame.kind == HEADERS {
            // In one write, so that the first read gets all of it.
            let fields = [("content-length", "9")];
            let stream = frame.stream;
            conn.send(&[head(stream, "200", &fields, false), data(stream, "some", false), reset(stream, 2)]);
        }
    });
    let log = Log::new();
    let proxy = Proxy::with(&[endpoint.addr], "", &format!("protocol = 'h2'\n{ALONE}"), &log.config());
    for n in 0..50 {
        let mut client = proxy.client();
        let got = text(&client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").rest());
        assert!(got.starts_with("HTTP/1.1 200 OK\n") && got.ends_with("\n\nsome"), "{n}: {got}");
    }
    for line in log.lines(proxy) {
        let reason = line["reason"].as_str().unwrap_or_default();
        assert!(reason.ends_with("reset the stream: INTERNAL_ERROR"), "{line}");
    }
}

#[test]
fn a_reason_is_true_where_the_endpoint_has_not_reset_the_stream() {
    let malformed = |frames: fn(u32) -> Vec<Frame>| {
        H2Frames::start(move |conn, frame| {
            if frame.kind == HEADERS {
                conn.send(&frames(frame.stream));
            }
        })
    };
    let cases = [
        (malformed(|stream| vec![head(stream, "200", &[("Upper", "case")], true)]), "sent a malformed response"),
        (malformed(|stream| vec![data(stream, "no head", true)]), "sent a malformed response"),
        (malformed(|stream| vec![head(stream, "99", &[], true)]), "sent a malformed response"),
        (malformed(|stream| vec![reset(stream, 2)]), "reset the stream: INTERNAL_ERROR"),
        (malformed(|stream| (0..17).map(|_| head(stream, "103", &[], false)).collect()), "16 interim responses"),
    ];
    for (n, (endpoint, reason)) in cases.iter().enumerate() {
        let proxy = before(&[endpoint.addr], ALONE);
        let mut client = proxy.client();
        let answer = client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let last = std::iter::from_fn(|| Some(answer.response())).find(|answer| answer.status() >= 200);
        let last = last.expect("it answers");
        assert_eq!(last.status(), 502, "{n}");
        assert!(last.body_text().contains(reason), "{n}: {}", last.body_text());
    }
}

#[test]
fn as_many_interim_responses_as_may_come_pass() {
    let endpoint = H2Server::start(|mut exchange| async move {
        for _ in 0..16 {
            let head = http::Response::builder().status(103).body(()).expect("a good head");
            exchange.respond.send_informational(head).expect("the stream is open");
        }
        exchange.reply(200, &[], b"done", &[]).await;
    });
    let proxy = before(&[endpoint.addr], ALONE);
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let statuses: Vec<u16> = (0..17).map(|_| client.response().status()).collect();
    assert_eq!((statuses[..16].iter().all(|status| *status == 103), statuses[16]), (true, 200));
}

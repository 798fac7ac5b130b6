//! gRPC calls to HTTP/1 endpoints: errors, ends, deadlines and retries as gRPC defines them.

use super::client;
use crate::support::{Endpoint, Proxy, wait_until};

const CALL: [(&str, &str); 2] = [("content-type", "application/grpc+proto"), ("te", "trailers")];

/// A proxy without details in errors; `more` follows its pool.
fn before(endpoints: &[&Endpoint], more: &str) -> Proxy {
    let list: Vec<String> = endpoints.iter().map(|endpoint| endpoint.addr.to_string()).collect();
    Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nh2c = true\n\
         [pool.web]\nbalance = \"round_robin\"\nendpoints = {list:?}\n{more}"
    ))
}

/// Fields of the head of a call.
fn call<'f>(path: &'f str, more: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    let pseudo = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "a")];
    pseudo.iter().chain(more).copied().collect()
}

/// Response of a call that ends after a message.
fn called(status: u8) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
    format!("{head}1\r\nm\r\n0\r\ngrpc-status: {status}\r\n\r\n").into_bytes()
}

/// Response of a call that ends without a message.
fn refused(status: u8) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n";
    format!("{head}grpc-status: {status}\r\n\r\n").into_bytes()
}

#[test]
fn an_error_of_a_call_is_a_status_of_grpc() {
    let resets = Endpoint::resetting();
    let proxy = before(&[&resets], "");
    let mut client = client(&proxy);
    for (stream, more) in [(1, ("x-a", "b")), (3, ("max-forwards", "-"))] {
        client.head(stream, &call("/s/M", &[CALL[0], more]), true);
        let answer = client.answer(stream);
        assert_eq!((answer.status(), answer.ended, answer.reset), (200, true, None));
        assert_eq!(answer.field("content-type").as_deref(), Some("application/grpc"));
        assert_eq!(answer.field("grpc-status").as_deref(), Some("14"));
        assert_eq!(answer.field("grpc-message").as_deref(), Some("502 Bad Gateway"));
    }
    client.head(5, &call("/s/M", &[("content-type", "application/grpc-web")]), true);
    assert_eq!(client.answer(5).status(), 502);
    wait_until("both are counted", || proxy.pool(|pool| pool.grpc[14].get()) == 2);
}

#[test]
fn how_a_call_ended_is_counted() {
    let endpoint = Endpoint::answering(|request| match request.line().contains("ok") {
        true => called(0),
        false => called(13),
    });
    let proxy = before(&[&endpoint], "");
    let mut client = client(&proxy);
    for (stream, path, status) in [(1, "/ok", "0"), (3, "/bad", "13")] {
        client.head(stream, &call(path, &CALL), true);
        let answer = client.answer(stream);
        let trailers = answer.heads.last().expect("trailers");
        assert_eq!((answer.body_text().as_str(), &trailers[..]), ("m", &[("grpc-status".into(), status.into())][..]));
    }
    wait_until("both are counted", || [0, 13, 14].map(|code| proxy.pool(|pool| pool.grpc[code].get())) == [1, 1, 0]);
}

#[test]
fn a_call_that_ends_without_a_message_is_tried_again_where_that_is_asked_for() {
    let (busy, well) = (Endpoint::answering(|_| refused(14)), Endpoint::answering(|_| called(0)));
    for (on, expected) in [("\"grpc:unavailable\"", [2, 0]), ("\"grpc:internal\", \"503\"", [1, 1])] {
        let proxy = before(&[&busy, &well], &format!("[defaults.retry]\nattempts = 1\non = [{on}]\n"));
        let mut client = client(&proxy);
        // A call for each endpoint.
        for stream in [1, 3] {
            client.head(stream, &call("/s/M", &CALL), true);
            let answer = client.answer(stream);
            assert_eq!((answer.status(), answer.ended, answer.reset), (200, true, None));
        }
        let ended = || [0, 14].map(|code| proxy.pool(|pool| pool.grpc[code].get()));
        wait_until("both are counted", || ended().iter().sum::<u64>() == 2);
        assert_eq!(ended(), expected, "{on}");
    }
}

#[test]
fn a_call_ends_at_the_deadline_of_its_client() {
    let silent = Endpoint::silent();
    let proxy = before(&[&silent], "");
    let mut client = client(&proxy);
    client.head(1, &call("/s/M", &[CALL[0], ("grpc-timeout", "1m")]), true);
    let answer = client.answer(1);
    assert_eq!((answer.status(), answer.field("grpc-status").as_deref()), (200, Some("4")));
}

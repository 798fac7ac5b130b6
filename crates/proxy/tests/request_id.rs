//! Request ids: the same for the endpoint, the client, the log and the proxy's own responses, over HTTP/1 and HTTP/2.

use crate::support::endpoint::status;
use crate::support::h2_client::{H2Client, get};
use crate::support::log::Log;
use crate::support::{Client, Endpoint, Proxy, own_addr};
use serde_json::Value;

const TRUSTED: &str = "trusted_proxies = [\"127.0.0.2\"]\nrequest_id = true\nh2c = true";
const PROXY_IN_FRONT: [u8; 4] = [127, 0, 0, 2];
const STRANGER: [u8; 4] = [127, 0, 0, 3];

/// An endpoint that answers with the ids that it got, and with one of its own.
fn telling() -> Endpoint {
    Endpoint::answering(|request| {
        let named = |line: &&str| line.to_ascii_lowercase().replace('_', "-").starts_with("x-request-id:");
        let heard: Vec<&str> = request.head.lines().filter(named).filter_map(|line| line.split(": ").nth(1)).collect();
        let heard = heard.join(" | ");
        format!("HTTP/1.1 200 OK\r\nX-Request-ID: mine\r\nContent-Length: {}\r\n\r\n{heard}", heard.len()).into_bytes()
    })
}

/// The id that the endpoint got, and all ids in the response.
fn asked(client: &mut Client, fields: &str) -> (String, Vec<String>) {
    let response = client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).response();
    let named = |line: &&str| line.to_ascii_lowercase().starts_with("x-request-id: ");
    let told = response.head.lines().filter(named).map(|line| line["x-request-id: ".len()..].to_string());
    (response.body_text(), told.collect())
}

fn is_made(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn ids(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["req_id"].as_str().expect("an id")).collect()
}

#[test]
fn endpoint_client_and_log_call_a_request_the_same() {
    let (endpoint, log) = (telling(), Log::new());
    let proxy = Proxy::with(&[endpoint.addr], TRUSTED, "", &log.config());
    let mut client = proxy.client();
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..2 {
        let (heard, told) = asked(&mut client, "");
        assert!(is_made(&heard), "{heard}");
        assert_eq!(told, [heard.as_str()], "that of the endpoint is replaced");
        seen.push(heard);
    }
    let mut h2 = H2Client::connect(proxy.addr());
    h2.get(1, "/");
    let answer = h2.answer(1);
    assert_eq!(answer.field("x-request-id"), Some(answer.body_text()));
    seen.push(answer.body_text());
    assert_eq!(ids(&log.lines(proxy)), seen);
    assert!(seen[0] != seen[1] && seen[1] != seen[2]);
}

#[test]
fn only_a_trusted_proxy_names_requests_and_only_with_what_can_be_a_name() {
    let (endpoint, log) = (telling(), Log::new());
    let proxy = Proxy::with(&[endpoint.addr], TRUSTED, "", &log.config());
    let mut trusted = Client::connect_from(PROXY_IN_FRONT, proxy.addr());
    let good = ["Root=1-67891233-abcdef", "\"quoted\\\"", &"x".repeat(128)].map(String::from);
    for id in &good {
        assert_eq!(asked(&mut trusted, &format!("X-REQUEST-ID: {id}\r\n")), (id.clone(), vec![id.clone()]));
    }
    let (heard, _) = asked(&mut trusted, "X-Request-Id: first\r\nX-Request-Id: second\r\nx_request_id: third\r\n");
    assert_eq!(heard, "first");
    for bad in ["", "a b", "gr\u{f6}\u{df}e", &"x".repeat(129)] {
        let (heard, told) = asked(&mut trusted, &format!("X-Request-Id: {bad}\r\n"));
        assert!(is_made(&heard) && told == [heard.as_str()], "{bad}: {heard} {told:?}");
    }
    let mut stranger = Client::connect_from(STRANGER, proxy.addr());
    let (heard, told) = asked(&mut stranger, "X-Request-Id: forged\r\nX_Request_Id: forged\r\n");
    assert!(is_made(&heard) && told == [heard.as_str()], "{heard} {told:?}");
    let lines = log.lines(proxy);
    assert_eq!(ids(&lines)[..3], good);
    assert_eq!(ids(&lines)[8], heard);
}

#[test]
fn answers_of_evenkeel_have_the_same_id_in_text_field_and_log() {
    let log = Log::new();
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\n{TRUSTED}\n[pool.web]\nendpoints = [\"{}\"]\n{}",
        own_addr(),
        log.config()
    ));
    let mut client = Client::connect_from(PROXY_IN_FRONT, proxy.addr());
    let response = client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: named\r\n\r\n").response();
    assert_eq!((response.status(), response.field("x-request-id")), (502, Some("named")));
    assert_eq!(response.body_text(), "502 Bad Gateway (request named)\n");
    let mut h2 = H2Client::connect(proxy.addr());
    let mut fields = get("/").to_vec();
    fields.push(("x-request-id", "forged"));
    h2.head(1, &fields, true);
    let answer = h2.answer(1);
    let id = answer.field("x-request-id").expect("an id");
    assert!(is_made(&id));
    assert_eq!(answer.body_text(), format!("502 Bad Gateway (request {id})\n"));
    // A request that cannot be parsed gets a new id.
    let response = proxy.client().send("GET / HTTP/1.1\r\nX-Request-Id: lost\r\n\r\n").response();
    let malformed = response.field("x-request-id").expect("an id").to_string();
    assert!(response.status() == 400 && is_made(&malformed));
    assert_eq!(ids(&log.lines(proxy)), ["named", &id, &malformed]);
}

#[test]
fn every_try_of_a_request_has_its_id() {
    let refusing = Endpoint::answering(|_| status("503 Service Unavailable", "busy"));
    let good = telling();
    let proxy = Proxy::with(
        &[refusing.addr, good.addr],
        "request_id = { field = \"X-Correlation-Id\", respond = false }",
        "",
        "[defaults.retry]\non = [\"503\"]",
    );
    let mut client = proxy.client();
    // Round robin: one of the two begins at the endpoint that refuses.
    for _ in 0..2 {
        let response = client.get("/");
        assert_eq!((response.status(), response.field("x-correlation-id")), (200, None));
        assert_eq!(response.field("x-request-id"), Some("mine"), "that is another field");
    }
    let [refused, answered] = [refusing.seen(), good.seen()]
        .map(|seen| seen.iter().filter_map(|r| r.field("x-correlation-id").map(String::from)).collect::<Vec<_>>());
    assert!(answered.len() == 2 && answered.iter().all(|id| is_made(id)) && answered[0] != answered[1], "{answered:?}");
    assert!(!refused.is_empty() && refused.iter().all(|id| answered.contains(id)), "{refused:?}");
}

#[test]
fn without_the_key_fields_go_on_as_they_came() {
    let endpoint = telling();
    let proxy = Proxy::with(&[endpoint.addr], "trusted_proxies = [\"127.0.0.2\"]", "", "");
    let mut client = Client::connect_from(STRANGER, proxy.addr());
    assert_eq!(asked(&mut client, ""), (String::new(), vec!["mine".to_string()]));
    assert_eq!(asked(&mut client, "X-Request-Id: theirs\r\n"), ("theirs".into(), vec!["mine".into()]));
}

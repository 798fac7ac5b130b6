//! Requests that are forwarded in parts, as a filter looks at bodies, between any two protocols.

use crate::support::endpoint::{Conn, ok};
use crate::support::h2_server::H2Server;
use crate::support::h3_client::{self, H3Client};
use crate::support::{Client, Endpoint, Proxy, SOON, noise, text, wait_until};
use bytes::Bytes;
use http::HeaderMap;
use std::future::poll_fn;
use std::net::SocketAddr;

/// A proxy with the filter `parts`. `pool` is added to its pool, `behind` to the end of the file.
fn before(endpoints: &[SocketAddr], pool: &str, behind: &str) -> Proxy {
    proxy_for("parts", endpoints, pool, behind)
}

/// A proxy with the test filter of this name.
pub fn proxy_for(filter: &str, endpoints: &[SocketAddr], pool: &str, behind: &str) -> Proxy {
    let list: Vec<String> = endpoints.iter().map(|addr| format!("\"{addr}\"")).collect();
    Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.{filter}]\nbind = [\"$BIND\"]\nerrors = \"detailed\"\nh2c = true\n\
         [defaults.route]\nrequest_trailers = ['X-Sum', 'X-A']\n{}\
         [pool.web]\nbalance = \"round_robin\"\nendpoints = [{}]\n{pool}\n{behind}",
        h3_client::secure(filter, ""),
        list.join(", ")
    ))
}

/// Response to an echoed request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Echo {
    pub interim: Vec<u16>,
    pub status: u16,
    pub body: Vec<u8>,
    pub sum: Option<String>,
}

/// Sends a body in chunks with a trailer, over HTTP/1.
pub fn ask_h1(proxy: &Proxy, body: &[u8]) -> Echo {
    let mut client = proxy.client();
    let mut request = b"POST /echo HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in body.chunks(3000) {
        request.extend_from_slice(format!("{:x};x=y\r\n", piece.len()).as_bytes());
        request.extend_from_slice(piece);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\nX-Sum: 7\r\n\r\n");
    let sending = client.send_aside(request);
    let mut echo = Echo::default();
    let answer = loop {
        let answer = client.response();
        if answer.status() >= 200 {
            break answer;
        }
        echo.interim.push(answer.status());
    };
    sending.join().expect("no panic").expect("the proxy takes it");
    let wire = text(&answer.wire[answer.wire.len().saturating_sub(40)..]).to_lowercase();
    let sum = wire.split_once("x-sum: ").and_then(|(_, value)| Some(value.lines().next()?.to_string()));
    Echo { status: answer.status(), body: answer.body, sum, ..echo }
}

pub async fn ask_h2(proxy: &Proxy, body: &[u8]) -> Echo {
    let tcp = tokio::net::TcpStream::connect(proxy.addr()).await.expect("it listens");
    let (client, connection) = h2::client::handshake(tcp).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let mut client = client.ready().await.expect("it takes requests");
    let request = http::Request::post("http://a/echo").header("te", "trailers").body(()).expect("a good one");
    let (mut response, mut send) = client.send_request(request, false).expect("it takes one more");
    let mut left = Bytes::copy_from_slice(body);
    let sending = async move {
        while !left.is_empty() {
            send.reserve_capacity(left.len());
            let room = poll_fn(|cx| send.poll_capacity(cx)).await.expect("room").expect("room");
            send.send_data(left.split_to(room.min(left.len())), false).expect("it goes on");
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "7".parse().expect("a value"));
        send.send_trailers(trailers).expect("it goes on");
    };
    let receiving = async {
        let mut echo = Echo::default();
        while let Some(interim) = poll_fn(|cx| response.poll_informational(cx)).await {
            echo.interim.push(interim.expect("a good head").status().as_u16());
        }
        let response = response.await.expect("an answer");
        echo.status = response.status().as_u16();
        let mut body = response.into_body();
        while let Some(part) = body.data().await {
            let part = part.expect("it goes on");
            body.flow_control().release_capacity(part.len()).expect("it was taken");
            echo.body.extend_from_slice(&part);
        }
        let trailers = body.trailers().await.expect("the end");
        echo.sum = trailers.and_then(|map| Some(map.get("x-sum")?.to_str().ok()?.to_string()));
        echo
    };
    tokio::time::timeout(SOON, async { tokio::join!(sending, receiving).1 }).await.expect("in time")
}

pub async fn ask_h3(proxy: &Proxy, body: &[u8]) -> Echo {
    let client = H3Client::connect(h3_client::secure_addr(proxy)).await;
    let mut exchange = client.begin(&[&h3_client::request("POST", "/echo")[..], &[("te", "trailers")]].concat()).await;
    for piece in body.chunks(30_000) {
        // A response may have come.
        if !exchange.data(piece).await {
            break;
        }
    }
    exchange.trailers(&[("x-sum", "7")]).await;
    let answer = exchange.answer().await;
    let (interim, sum) = (answer.interim(), answer.trailer("x-sum").map(str::to_owned));
    Echo { interim, status: answer.status(), body: answer.body, sum }
}

/// An HTTP/1 endpoint that echoes, after an interim response.
pub fn echo_h1() -> Endpoint {
    Endpoint::start(|conn: &mut Conn| {
        while let Some(request) = conn.request() {
            let sum = text(&request.wire).to_lowercase().contains("x-sum: 7").then_some("X-Sum: 7\r\n");
            conn.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            conn.send("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n");
            for piece in request.body.chunks(50_000) {
                conn.send(format!("{:x}\r\n", piece.len()));
                conn.send(piece);
                conn.send("\r\n");
            }
            conn.send(format!("0\r\n{}\r\n", sum.unwrap_or_default()));
        }
    })
}

/// An HTTP/2 endpoint that echoes, after an interim response.
pub fn echo_h2() -> H2Server {
    H2Server::start(|mut exchange| async move {
        let head = http::Response::builder().status(103).header("link", "</a>").body(()).expect("a good head");
        exchange.respond.send_informational(head).expect("the stream is open");
        let (body, trailers) = exchange.read().await;
        let sum = trailers.and_then(|map| Some(map.get("x-sum")?.to_str().ok()?.to_string())).unwrap_or_default();
        exchange.reply(200, &[], &body, &[("x-sum", &sum)]).await;
    })
}

#[tokio::test]
async fn bodies_interim_responses_and_trailers_pass_between_any_two_protocols() {
    let (h1, h2) = (echo_h1(), echo_h2());
    for (addr, pool) in [(h1.addr, ""), (h2.addr, "protocol = 'h2'")] {
        let proxy = before(&[addr], pool, "");
        for size in [0, 1, 20_000, 2_000_000] {
            let body = noise(size);
            let of_h3 = ask_h3(&proxy, &body).await;
            for (client, echo) in [("h1", ask_h1(&proxy, &body)), ("h2", ask_h2(&proxy, &body).await), ("h3", of_h3)] {
                let at = format!("{client}, {pool}, {size}");
                assert!(echo.body == body, "{at}: {} bytes", echo.body.len());
                assert_eq!((echo.status, echo.interim, echo.sum.as_deref()), (200, vec![103], Some("7")), "{at}");
            }
        }
    }
    assert_eq!((h1.accepted(), h2.accepted()), (1, 1), "connections carry all requests of a proxy");
}

pub fn post(framing: &str, body: &str) -> String {
    format!("POST /a HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{body}")
}

#[test]
fn a_request_of_http1_that_has_come_whole_or_in_pieces_is_framed_for_its_endpoint() {
    let endpoint = Endpoint::answering(|request| ok(&request.body_text()));
    let proxy = before(&[endpoint.addr], "", "");
    let mut client = proxy.client();
    // Complete with the head, and with the next request in the same write.
    client.send(
        post("Content-Length: 5", "hello")
            + &post("Transfer-Encoding: chunked", "2\r\nhe\r\n3\r\nllo\r\n0\r\nX-A: b\r\n\r\n"),
    );
    assert_eq!([client.response().body_text(), client.response().body_text()], ["hello", "hello"]);
    // Split at every position.
    let whole = post("Transfer-Encoding: chunked", "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n");
    let head = whole.find("\r\n\r\n").expect("a head") + 4;
    for at in head..whole.len() {
        client.send(&whole[..at]);
        proxy.has_heard();
        assert_eq!(client.send(&whole[at..]).response().body_text(), "hello", "{at}");
    }
    let seen = endpoint.seen();
    assert_eq!(text(&seen[1].wire), "5\nhello\n0\nX-A: b\n\n");
    assert_eq!((seen[0].field("content-length"), endpoint.accepted()), (Some("5"), 1));
}

#[test]
fn responses_of_any_framing_reach_clients_of_http1() {
    let endpoint = Endpoint::start(|conn| {
        while let Some(request) = conn.request() {
            let head = "HTTP/1.1 200 Fine\r\nX-A: 1\r\n";
            match request.line().split(' ').nth(1) {
                Some("/stated") => conn.send(format!("{head}Content-Length: 4\r\n\r\nbody")),
                Some("/chunked") => {
                    conn.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n4;x\r\nbody\r\n0\r\n\r\n"))
                }
                Some("/none") => conn.send("HTTP/1.1 204 No Content\r\n\r\n"),
                _ => {
                    conn.send(format!("{head}\r\nbody"));
                    return;
                }
            }
        }
    });
    let proxy = before(&[endpoint.addr], "", "");
    let mut client = proxy.client();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    for (path, length, coding) in
        [("/stated", Some("4"), None), ("/chunked", None, Some("chunked")), ("/close", None, Some("chunked"))]
    {
        let answer = client.send(get(path)).response();
        assert_eq!((answer.status(), answer.body_text().as_str(), answer.field("x-a")), (200, "body", Some("1")));
        assert_eq!((answer.field("content-length"), answer.field("transfer-encoding")), (length, coding), "{path}");
    }
    assert_eq!(client.send(get("/none")).head().lines().next(), Some("HTTP/1.1 204 No Content"));
    let old = client.send("GET /chunked HTTP/1.0\r\nHost: a\r\n\r\n").rest();
    assert!(text(&old).ends_with("Connection: close\n\nbody"), "{}", text(&old));
    assert_eq!(endpoint.accepted(), 2, "one was closed");
}

#[test]
fn a_response_that_is_cut_or_malformed_does_not_look_whole() {
    for (sent, is_502) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbodyX", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9, 8\r\n\r\nbody", true),
        ("HTTP/1.1 200", true),
        ("", true),
    ] {
        let endpoint = Endpoint::start(move |conn| {
            conn.request();
            conn.send(sent);
        });
        let proxy = before(&[endpoint.addr], "", "");
        let mut client = proxy.client();
        let answer = text(&client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").rest());
        assert_eq!(answer.starts_with("HTTP/1.1 502"), is_502, "{sent:?}: {answer}");
        assert!(is_502 || answer.starts_with("HTTP/1.1 200") && !answer.ends_with("0\n\n"), "{sent:?}: {answer}");
    }
}

#[test]
fn a_response_before_the_end_of_its_request_costs_both_connections() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nlarge");
        conn.rest();
    });
    let proxy = before(&[endpoint.addr], "", "");
    let mut client = proxy.client();
    let answer = client.send(post("Content-Length: 1000000", "some")).response();
    assert_eq!((answer.status(), answer.field("connection")), (413, Some("close")));
    client.finish_sending();
    client.ends();
}

#[test]
fn another_try_follows_a_status_and_a_lost_connection() {
    let (busy, well) =
        (Endpoint::answering(|_| crate::support::endpoint::status("503 No", "x")), Endpoint::saying("well"));
    let proxy = before(&[busy.addr, well.addr], "", "[defaults.retry]\nattempts = 1\non = ['503']\n");
    for _ in 0..4 {
        assert_eq!(proxy.client().get("/").body_text(), "well");
    }
    assert_eq!(busy.accepted(), 1, "its connection is used again");
    let closing = Endpoint::start(|conn| {
        conn.request();
        conn.send(ok("once"));
        conn.request();
    });
    let proxy = before(&[closing.addr], "", "");
    let mut client = proxy.client();
    for _ in 0..3 {
        assert_eq!(client.get("/").body_text(), "once");
        wait_until("it is idle", || proxy.in_flight() == 0);
    }
}

fn upgrade(client: &mut Client) -> String {
    client.send("GET /chat HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n").head()
}

#[test]
fn a_tunnel_passes_both_halves_to_their_ends() {
    let endpoint = Endpoint::start(|conn| {
        let head = conn.head();
        assert!(head.contains("Upgrade: echo"), "{head}");
        conn.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nfirst");
        assert_eq!(conn.bytes(5), b"hello");
        conn.send("you");
        conn.finish_sending();
        assert_eq!(conn.rest(), b"more");
    });
    let proxy = before(&[endpoint.addr], "", "");
    let mut client = proxy.client();
    let head = upgrade(&mut client);
    assert!(
        head.starts_with("HTTP/1.1 101 ") && head.contains("Upgrade: echo") && head.contains("Connection: upgrade"),
        "{head}"
    );
    assert_eq!(client.bytes(5), b"first");
    client.send("hello");
    assert_eq!(client.rest(), b"you", "its end is passed on");
    client.send("more").finish_sending();
    drop(endpoint);
    wait_until("it is over", || proxy.in_flight() == 0);
}

#[test]
fn a_switch_that_is_not_granted_is_a_response_like_any_other() {
    let endpoint = Endpoint::saying("no");
    let proxy = before(&[endpoint.addr], "", "");
    let mut client = proxy.client();
    for _ in 0..2 {
        client
            .send("POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(client.response().body_text(), "no");
    }
    assert_eq!(endpoint.accepted(), 2, "neither connection is used again");
}

/// Waits long enough for a proxy without back-pressure to take everything. No event marks that nothing happens; a slow
/// machine can only make the test pass.
pub fn pass_time() {
    std::thread::sleep(std::time::Duration::from_millis(200));
}

#[test]
fn an_endpoint_that_does_not_read_keeps_the_client_from_sending() {
    let (go, gate) = std::sync::mpsc::sync_channel::<()>(1);
    let gate = std::sync::Mutex::new(gate);
    let endpoint = Endpoint::start(move |conn| {
        conn.head();
        gate.lock().expect("nothing panics with it").recv_timeout(SOON).expect("the test goes on");
        let read = conn.bytes(64 << 20).len();
        conn.send(ok(&read.to_string()));
    });
    let proxy = before(&[endpoint.addr], "", "");
    let mut client = proxy.client();
    client.send(post(&format!("Content-Length: {}", 64 << 20), ""));
    let sending = client.send_aside(noise(64 << 20));
    pass_time();
    assert!(!sending.is_finished(), "sockets hold less");
    go.send(()).expect("the endpoint waits");
    assert_eq!(client.response().body_text(), (64 << 20).to_string());
    sending.join().expect("no panic").expect("the proxy takes it");
}

//! Messages of any size and kind over HTTP/3.

use super::before;
use crate::support::endpoint::ok;
use crate::support::h2_server::H2Server;
use crate::support::h3_client::{H3Client, LISTENS, Part, SETTINGS, request};
use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, noise, wait_until};
use base64::Engine as _;
use evenkeel_wire::h3::ErrorCode::RequestCancelled;
use sha1::Sha1;
use sha2::{Digest, Sha256};

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn uploads_and_downloads_of_20_mb_are_whole() {
    let body = noise(20_000_000);
    let down = body.clone();
    let endpoint = Endpoint::answering(move |request| match request.body.is_empty() {
        false => ok(&digest(&request.body)),
        true => [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", down.len()).as_bytes(), &down].concat(),
    });
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let download = client.get("/").await;
    assert!(download.body == body, "{} bytes, {:?}", download.body.len(), download.reset);
    let mut upload = client.begin(&request("POST", "/")).await;
    for part in body.chunks(1 << 20) {
        assert!(upload.data(part).await);
    }
    let _ = upload.send.finish();
    assert_eq!(upload.answer().await.body_text(), digest(&body));
}

#[tokio::test]
async fn many_requests_at_the_same_time_get_their_own_answers() {
    let endpoint = Endpoint::answering(|request| ok(request.line()));
    let proxy = before(&[endpoint.addr]);
    let client = std::sync::Arc::new(H3Client::connect(proxy.addr()).await);
    // More than may be open at the same time.
    let asking: Vec<_> = (0..300)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { (n, client.get(&format!("/{n}")).await) })
        })
        .collect();
    for asked in asking {
        let (n, answer) = asked.await.expect("no panic");
        assert_eq!(answer.body_text(), format!("GET /{n} HTTP/1.1"));
    }
    assert_eq!(proxy.listener(|l| l.http3.streams.get()), 300);
    assert_eq!(proxy.listener(|l| l.http3.connections.get()), 1);
    let metrics = proxy.metrics();
    for line in
        ["evenkeel_http3_connections_total{listener=\"web\"} 1", "evenkeel_http3_streams_total{listener=\"web\"} 300"]
    {
        assert!(metrics.contains(line), "{line}");
    }
}

#[tokio::test]
async fn trailers_and_calls_pass_in_both_directions() {
    let endpoint = H2Server::start(|mut exchange| async move {
        let (body, trailers) = exchange.read().await;
        let sum = trailers.and_then(|map| Some(map.get("x-sum")?.to_str().ok()?.to_string())).unwrap_or_default();
        let told = [("grpc-status", "0"), ("x-sum", &*sum)];
        exchange.reply(200, &[("content-type", "application/grpc")], &body, &told).await;
    });
    let kept = "[defaults.route]\nrequest_trailers = ['X-Sum']";
    let proxy = Proxy::with(&[endpoint.addr], LISTENS, "protocol = 'h2'", kept);
    let client = H3Client::connect(proxy.addr()).await;
    let fields = [&request("POST", "/s/M")[..], &[("content-type", "application/grpc"), ("te", "trailers")]].concat();
    let mut call = client.begin(&fields).await;
    call.data("message").await;
    call.trailers(&[("x-sum", "7")]).await;
    let answer = call.answer().await;
    assert_eq!((answer.status(), answer.body_text().as_str(), answer.ended), (200, "message", true));
    assert_eq!((answer.trailer("grpc-status"), answer.trailer("x-sum")), (Some("0"), Some("7")));
    wait_until("it is counted", || proxy.pool(|pool| pool.grpc[0].get()) == 1);
}

#[tokio::test]
async fn parts_of_a_call_pass_as_they_come() {
    let endpoint = H2Server::start(|mut exchange| async move {
        let head = http::Response::new(());
        let mut send = exchange.respond.send_response(head, false).expect("it goes on");
        while let Some(Ok(part)) = exchange.body.data().await {
            let _ = exchange.body.flow_control().release_capacity(part.len());
            send.send_data(part, false).expect("it goes on");
        }
        let _ = send.send_data(bytes::Bytes::new(), true);
    });
    let proxy = Proxy::with(&[endpoint.addr], LISTENS, "protocol = 'h2'", "");
    let client = H3Client::connect(proxy.addr()).await;
    let mut call = client.begin(&request("POST", "/")).await;
    assert!(matches!(call.part().await, Part::Head(_)));
    for n in 0..20 {
        let part = format!("part {n}");
        assert!(call.data(&part).await);
        assert_eq!(call.part().await, Part::Data(part.into_bytes()));
    }
    let _ = call.send.finish();
    assert_eq!(call.part().await, Part::End);
}

#[tokio::test]
async fn interim_heads_and_answers_without_a_body_pass() {
    let endpoint = Endpoint::start(|conn| {
        while let Some(head) = conn.next_head() {
            if head.starts_with("HEAD") {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
            } else if head.starts_with("GET /none") {
                conn.send("HTTP/1.1 204 No Content\r\n\r\n");
            } else {
                conn.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
                conn.send(ok("hello"));
            }
        }
    });
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let head = client.ask(&request("HEAD", "/")).await;
    assert_eq!((head.status(), head.field("content-length"), head.body.len()), (200, Some("10"), 0));
    assert_eq!(client.get("/none").await.status(), 204);
    let answer = client.get("/").await;
    let statuses: Vec<&str> = answer.heads.iter().map(|head| &*head[0].1).collect();
    assert_eq!((statuses, answer.body_text().as_str()), (vec!["103", "200"], "hello"));
}

#[tokio::test]
async fn a_websocket_passes_both_ways_until_both_sides_end() {
    let endpoint = Endpoint::start(|conn| {
        let head = conn.head();
        assert!(head.starts_with("GET /chat?x HTTP/1.1\r\nHost: a\r\n"), "{head}");
        let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).expect("a key");
        let hash = Sha1::new().chain_update(key).chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
        let accept = base64::engine::general_purpose::STANDARD.encode(hash);
        conn.send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\nhello"
        ));
        assert_eq!(conn.bytes(5), b"world");
        conn.send("again");
        assert_eq!(conn.rest(), b"", "the client says that it has done");
    });
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let mut control = client.server_control().await;
    let settings = control.next(SETTINGS).await.expect("settings");
    assert!(settings.windows(2).any(|pair| pair == [8, 1]), "{settings:?}");
    let ask = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/chat?x"),
        (":authority", "a"),
        ("sec-websocket-version", "13"),
    ];
    let mut socket = client.begin(&ask).await;
    let Part::Head(head) = socket.part().await else { panic!("no head") };
    assert_eq!(head[0], (":status".into(), "200".into()));
    assert!(!head.iter().any(|(name, _)| name == "upgrade" || name == "connection" || name == "sec-websocket-accept"));
    assert_eq!(socket.part().await, Part::Data(b"hello".to_vec()));
    socket.data("world").await;
    assert_eq!(socket.part().await, Part::Data(b"again".to_vec()));
    let _ = socket.send.finish();
    assert_eq!(socket.part().await, Part::End);
    wait_until("it is counted", || proxy.ended(200) == 1);
}

#[tokio::test]
async fn a_head_over_the_limit_is_answered() {
    let (endpoint, log) = (Endpoint::saying("hello"), Log::new());
    let proxy = Proxy::with(&[endpoint.addr], LISTENS, "", &log.config());
    let client = H3Client::connect(proxy.addr()).await;
    for size in [60_000, 300_000] {
        let long = "x".repeat(size);
        let head = [&request("GET", "/large")[..], &[("x-long", &long)]].concat();
        let mut exchange = client.begin(&head).await;
        let answer = exchange.answer().await;
        assert_eq!((answer.status(), answer.ended), (431, true), "{size}");
    }
    let many: Vec<(&str, &str)> = request("GET", "/").into_iter().chain([("a", "b"); 2000]).collect();
    assert_eq!(client.ask(&many).await.status(), 431);
    assert_eq!(client.get("/").await.body_text(), "hello");
    drop(client);
    let lines = log.lines(proxy);
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|line| line["proto"] == "HTTP/3"), "{lines:?}");
}

/// Many clients send the end of a stream in another packet than the head.
#[tokio::test]
async fn a_get_whose_end_comes_later_has_no_body_and_one_that_sends_a_body_keeps_it() {
    let endpoint =
        Endpoint::answering(|request| ok(&format!("{:?} {}", request.field("transfer-encoding"), request.body_text())));
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let mut bare = 0;
    for _ in 0..20 {
        let sent = client.quic.stats().frame_tx.stream;
        let mut exchange = client.begin(&request("GET", "/")).await;
        wait_until("the head is sent", || client.quic.stats().frame_tx.stream > sent);
        let _ = exchange.send.finish();
        // On a machine that is busy, the end may come too late: then it ends a body of no bytes.
        bare += usize::from(exchange.answer().await.body_text() == "None ");
    }
    assert!(bare >= 10, "{bare} of 20");
    for trailers in [false, true] {
        let mut exchange = client.begin(&request("GET", "/")).await;
        exchange.data("he").await;
        exchange.data("llo").await;
        match trailers {
            true => exchange.trailers(&[("x-sum", "7")]).await,
            false => _ = exchange.send.finish(),
        }
        assert_eq!(exchange.answer().await.body_text(), "Some(\"chunked\") hello");
    }
    let mut exchange = client.begin(&request("GET", "/")).await;
    exchange.cancel(RequestCancelled as u32);
    wait_until("nothing is under way", || proxy.in_flight() == 0);
}

/// A client that does not read holds the endpoint back, and other streams go on.
#[tokio::test]
async fn a_slow_reader_holds_the_endpoint_back() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    const SIZE: usize = 64 << 20;
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = taken.clone();
    let endpoint = Endpoint::start(move |conn| {
        use std::io::Write as _;
        while let Some(head) = conn.next_head_if_whole() {
            if head.starts_with("GET /fast") {
                conn.send(ok("fast"));
                continue;
            }
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
            for _ in 0..SIZE >> 16 {
                if conn.stream.write_all(&[7; 1 << 16]).is_err() {
                    return;
                }
                counter.fetch_add(1 << 16, SeqCst);
            }
        }
    });
    let proxy = before(&[endpoint.addr]);
    let client = H3Client::connect(proxy.addr()).await;
    let mut slow = client.begin(&request("GET", "/slow")).await;
    let _ = slow.send.finish();
    assert!(matches!(slow.part().await, Part::Head(_)));
    for _ in 0..50 {
        assert_eq!(client.get("/fast").await.body_text(), "fast");
    }
    // The windows of quinn and of this side, and buffers of the kernel for TCP.
    let before = taken.load(SeqCst);
    assert!(before < SIZE / 2, "{before}");
    let answer = slow.answer().await;
    assert_eq!((answer.body.len(), answer.ended), (SIZE, true));
}

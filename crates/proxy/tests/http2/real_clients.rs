//! Interoperation with other HTTP/2 clients: curl, nghttp, h2load, and the crate `h2`.

use super::before;
use crate::support::endpoint::ok;
use crate::support::{Endpoint, Proxy, SOON, noise, tool};
use bytes::Bytes;
use evenkeel_peers::installed;
use h2::client::SendRequest;
use std::io::Write;
use std::process::Stdio;

async fn connect(proxy: &Proxy) -> SendRequest<Bytes> {
    let tcp = tokio::net::TcpStream::connect(proxy.addr()).await.expect("it listens");
    let (client, connection) = h2::client::handshake(tcp).await.expect("it speaks HTTP/2");
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client.ready().await.expect("it takes requests")
}

/// Sends a request with a body, and returns status and body of the response.
async fn ask(client: &SendRequest<Bytes>, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let request = http::Request::builder().method(method).uri(format!("http://a{path}")).body(()).expect("a good one");
    let mut client = client.clone().ready().await.expect("it takes requests");
    let (response, mut send) = client.send_request(request, body.is_empty()).expect("it takes one more");
    let mut left = Bytes::copy_from_slice(body);
    let sending = async move {
        while !left.is_empty() {
            send.reserve_capacity(left.len());
            let room = std::future::poll_fn(|cx| send.poll_capacity(cx)).await.expect("room").expect("room");
            let part = left.split_to(room.min(left.len()));
            send.send_data(part, left.is_empty()).expect("it goes on");
        }
    };
    let receiving = async {
        let response = response.await.expect("an answer");
        let status = response.status().as_u16();
        let (mut body, mut all) = (response.into_body(), Vec::new());
        while let Some(part) = body.data().await {
            let part = part.expect("it goes on");
            body.flow_control().release_capacity(part.len()).expect("it was taken");
            all.extend_from_slice(&part);
        }
        (status, all)
    };
    tokio::join!(sending, receiving).1
}

#[tokio::test]
async fn ten_megabytes_pass_both_ways_byte_for_byte() {
    let content = noise(10_000_000);
    let endpoint = Endpoint::answering(|request| {
        [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n989680\r\n"[..], &request.body, b"\r\n0\r\n\r\n"]
            .concat()
    });
    let proxy = before(&[endpoint.addr]);
    let client = connect(&proxy).await;
    let (status, body) = tokio::time::timeout(SOON, ask(&client, "POST", "/", &content)).await.expect("in time");
    assert_eq!(status, 200);
    assert!(body == content, "{} bytes", body.len());
}

#[tokio::test]
async fn requests_of_many_streams_and_connections_do_not_mix() {
    let endpoint = Endpoint::answering(|request| ok(&format!("{} {}", request.line(), request.body.len())));
    let proxy = before(&[endpoint.addr]);
    let mut tasks = Vec::new();
    for connection in 0..4 {
        let client = connect(&proxy).await;
        for stream in 0..50usize {
            let client = client.clone();
            tasks.push(tokio::spawn(async move {
                let body = noise(stream * 777);
                let (status, got) = ask(&client, "PUT", &format!("/{connection}/{stream}"), &body).await;
                let want = format!("PUT /{connection}/{stream} HTTP/1.1 {}", body.len());
                assert_eq!((status, String::from_utf8_lossy(&got).into_owned()), (200, want));
            }));
        }
    }
    for task in tasks {
        tokio::time::timeout(SOON, task).await.expect("in time").expect("it succeeds");
    }
}

fn run(program: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = tool(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it is installed");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    let writing = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("a child of ours");
    let _ = writing.join();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    output.stdout
}

#[test]
fn curl_with_prior_knowledge_gets_and_sends() {
    if !installed(&["curl"]) {
        return;
    }
    let content = noise(3_000_000);
    let endpoint = Endpoint::answering(|request| {
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.body.len()).as_bytes(), &request.body]
            .concat()
    });
    let proxy = before(&[endpoint.addr]);
    let url = format!("http://{}/", proxy.addr());
    let curl = ["-sSf", "--max-time", "60", "--http2-prior-knowledge", "-H", "Expect:"];
    let got = run("curl", &[&curl[..], &["--data-binary", "@-", &url]].concat(), &content);
    assert!(got == content, "{} bytes", got.len());
    // Without a length.
    let got = run("curl", &[&curl[..], &["-T", "-", &url]].concat(), &content);
    assert!(got == content, "{} bytes", got.len());
    // A single request, as curl 7.88 uses such a connection only once, also with NGINX.
    let said = run("curl", &[&curl[..], &["-d", "hi", "-w", " %{http_version} %{http_code}", &url]].concat(), b"");
    assert_eq!(String::from_utf8_lossy(&said), "hi 2 200");
    let head = run("curl", &[&curl[..], &["-I", &url]].concat(), b"");
    assert!(head.starts_with(b"HTTP/2 200"), "{}", String::from_utf8_lossy(&head));
}

/// curl 7.88 takes a reset after a complete response for a failure: error 92, and no status.
#[test]
fn curl_reads_a_response_that_comes_before_its_upload_is_over() {
    if !installed(&["curl"]) {
        return;
    }
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 9\r\n\r\ntoo large");
        conn.rest();
    });
    let proxy = before(&[endpoint.addr]);
    let content = noise(3_000_000);
    let url = format!("http://{}/", proxy.addr());
    for _ in 0..5 {
        let curl = ["-s", "--max-time", "60", "--http2-prior-knowledge", "-H", "Expect:", "-w", " %{http_code}"];
        let got = run("curl", &[&curl[..], &["--data-binary", "@-", &url]].concat(), &content);
        assert_eq!(String::from_utf8_lossy(&got), "too large 413");
    }
}

#[test]
fn nghttp_and_h2load_are_served() {
    if !installed(&["nghttp", "h2load"]) {
        return;
    }
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let url = format!("http://{}/", proxy.addr());
    assert_eq!(run("nghttp", &[&url], b""), b"hello");
    let said = run("h2load", &["-n", "2000", "-c", "4", "-m", "32", &url], b"");
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("2000 done, 2000 succeeded, 0 failed"), "{said}");
}

/// Each reload has other endpoints; then the worker drains, and clients that reconnect are not served.
#[test]
fn no_request_is_lost_while_the_configuration_changes() {
    if !installed(&["h2load"]) {
        return;
    }
    let endpoints = [Endpoint::saying("a"), Endpoint::saying("b")];
    let lines = |n: usize| {
        format!(
            "[runtime]\nworkers = 2\n[listener.web]\nbind = [\"$BIND\"]\nh2c = true\n[pool.web]\nendpoints = [\"{}\"]\n",
            endpoints[n % 2].addr
        )
    };
    let mut proxy = Proxy::start(&lines(0));
    let url = format!("http://{}/", proxy.addr());
    let load = std::thread::spawn(move || run("h2load", &["-n", "5000", "-c", "8", "-m", "16", &url], b""));
    for n in 1.. {
        proxy.reload(&lines(n)).expect("nothing fails");
        if load.is_finished() {
            break;
        }
    }
    let said = String::from_utf8_lossy(&load.join().expect("it ends")).into_owned();
    assert!(said.contains("5000 done, 5000 succeeded, 0 failed"), "{said}");
}

//! Requests over TCP, Unix sockets and TLS, to servers that behave well and badly.

use evenkeel_fetch::{Client, Lines, Server, Unreachable};
use hyper::Request;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};

/// Reads the head of a request.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(read).ok()
}

/// Answers requests of a connection with their first line, until `answers` are given.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, answers: usize) {
    for _ in 0..answers {
        let Some(head) = head(&mut stream).await else { return };
        let line = head.lines().next().unwrap_or_default();
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{line}", line.len());
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn get(path: &str) -> Request<http_body_util::Full<bytes::Bytes>> {
    Request::get(path).body(Default::default()).expect("a path")
}

async fn listener() -> (TcpListener, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/base/", listener.local_addr().expect("it is bound"));
    (listener, Client::new(Server::at(&url).expect("a URL")))
}

#[tokio::test]
async fn requests_go_below_the_base_over_one_connection() {
    let (listener, mut client) = listener().await;
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        answer(stream, 2).await;
    });
    for _ in 0..2 {
        let response = client.whole(get("/a?b=c"), 1024).await.expect("an answer");
        assert_eq!(response.body(), "GET /base/a?b=c HTTP/1.1");
    }
    serving.await.expect("both came over one connection");
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced() {
    let (listener, mut client) = listener().await;
    tokio::spawn(async move {
        // Each closes without a word after an answer, although the client may send more.
        while let Ok((stream, _)) = listener.accept().await {
            answer(stream, 1).await;
        }
    });
    for _ in 0..20 {
        client.whole(get("/"), 1024).await.expect("an answer");
    }
}

#[tokio::test]
async fn answers_that_are_too_large_or_break_off_are_errors() {
    let (listener, mut client) = listener().await;
    tokio::spawn(async move {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na",
            "nonsense\r\n\r\n",
        ] {
            let (mut stream, _) = listener.accept().await.expect("a client");
            head(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.expect("it takes it");
            if answer.contains("5000") {
                let _ = stream.write_all(&[b'a'; 5000]).await;
            }
        }
    });
    let mut errors = Vec::new();
    for _ in 0..3 {
        errors.push(client.whole(get("/"), 4096).await.expect_err("it is none").to_string());
    }
    assert_eq!(errors[0], "the answer is larger than 4 KiB");
    assert_eq!(errors[1], "the server closed the connection");
    assert!(errors[2].contains("invalid HTTP"), "{}", errors[2]);
    assert!(client.whole(get("/"), 4096).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_connection_that_the_server_resets_is_called_closed() {
    let (listener, mut client) = listener().await;
    tokio::spawn(async move {
        for has_head in [false, true] {
            let (mut stream, _) = listener.accept().await.expect("a client");
            if has_head {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na").await.expect("it takes it");
            }
            stream.set_zero_linger().expect("a socket");
        }
    });
    for _ in 0..2 {
        let error = client.whole(get("/"), 4096).await.expect_err("it is reset").to_string();
        assert_eq!(error, "the server closed the connection");
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_connected_to_is_named() {
    let (listener, mut client) = listener().await;
    let addr = listener.local_addr().expect("it is bound");
    drop(listener);
    let error = client.whole(get("/"), 1024).await.expect_err("nobody listens");
    let cause = error.downcast_ref().and_then(Unreachable::io).map(io::Error::kind);
    assert_eq!(cause, Some(io::ErrorKind::ConnectionRefused));
    let error = error.to_string();
    assert!(error.starts_with(&format!("cannot connect to {addr}: Connection refused")), "{error}");
    let mut client = Client::new(Server::at("unix:/nowhere/a.sock").expect("a socket"));
    let error = client.whole(get("/"), 1024).await.expect_err("nobody listens").to_string();
    assert!(error.starts_with("cannot connect to unix:/nowhere/a.sock: No such file"), "{error}");
}

#[tokio::test]
async fn lines_come_as_they_are_sent() {
    let (listener, mut client) = listener().await;
    let (next, mut go) = tokio::sync::mpsc::channel::<&'static str>(1);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.expect("it takes it");
        while let Some(part) = go.recv().await {
            let chunk = format!("{:x}\r\n{part}\r\n", part.len());
            stream.write_all(chunk.as_bytes()).await.expect("it takes it");
        }
        stream.write_all(b"0\r\n\r\n").await.expect("it takes it");
    });
    let response = client.streamed(get("/events")).await.expect("an answer");
    let mut lines = Lines::of(response.into_body(), 16);
    next.send("{\"a\":").await.expect("it serves");
    assert!(tokio::time::timeout(Duration::from_millis(20), lines.next()).await.is_err(), "it is not complete");
    next.send("1}\r\n\r\n{\"b\":2}\n{").await.expect("it serves");
    assert_eq!(lines.next().await.expect("a line").as_deref(), Some(&b"{\"a\":1}"[..]));
    assert_eq!(lines.next().await.expect("a line").as_deref(), Some(&b"{\"b\":2}"[..]));
    next.send("}").await.expect("it serves");
    drop(next);
    assert_eq!(lines.next().await.expect("a line").as_deref(), Some(&b"{}"[..]));
    assert_eq!(lines.next().await.expect("the end"), None);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_an_error() {
    let (listener, mut client) = listener().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'a'; 1024]).await.is_ok() {}
    });
    let response = client.streamed(get("/")).await.expect("an answer");
    let error = Lines::of(response.into_body(), 64 * 1024).next().await.expect_err("it is endless");
    assert_eq!(error.to_string(), "a line is longer than 64 KiB");
}

#[tokio::test]
async fn unix_sockets_are_servers_too() {
    let path = std::env::temp_dir().join(format!("evenkeel-fetch-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a socket");
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        answer(stream, 1).await;
    });
    let mut client = Client::new(Server::at(&format!("unix:{}", path.display())).expect("a socket"));
    let response = client.whole(get("/events"), 1024).await.expect("an answer");
    assert_eq!(response.body(), "GET /events HTTP/1.1");
    std::fs::remove_file(&path).expect("it is there");
}

#[tokio::test]
async fn servers_prove_who_they_are_and_clients_too() {
    let folder = std::env::temp_dir().join(format!("evenkeel-fetch-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let pair = || {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        (made.cert.pem(), made.signing_key.serialize_pem(), made.cert.der().clone(), made.signing_key.serialize_der())
    };
    let (server, client) = (pair(), pair());
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("it can be written");
        path
    };
    let (ca, cert, key) = (write("ca.pem", &server.0), write("a.pem", &client.0), write("a.key", &client.1));
    let mut roots = tokio_rustls::rustls::RootCertStore::empty();
    roots.add(client.2.clone()).expect("a certificate");
    let provider = tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
    let verifier =
        tokio_rustls::rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), provider().into());
    let config = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(vec![server.2.clone()], server.3.clone().try_into().expect("a key"))
        .expect("a pair");
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://localhost:{}", listener.local_addr().expect("it is bound").port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                answer(stream, 1).await;
            }
        }
    });
    let at = || Server::at(&url).expect("a URL");
    let ask = async |server: Server| Client::new(server).whole(get("/"), 1024).await.map(|answer| answer.into_body());
    assert!(ask(at()).await.is_err(), "its authority is not trusted");
    assert!(ask(at().trusting(Some(ca.clone()))).await.is_err(), "the client has to prove who it is");
    let proven = at().trusting(Some(ca.clone())).presenting(Some((cert, key)));
    assert_eq!(ask(proven).await.expect("both are trusted"), "GET / HTTP/1.1");
    let missing = at().trusting(Some(folder.join("none.pem")));
    let error = ask(missing).await.expect_err("there is no such file").to_string();
    assert!(error.contains("none.pem"), "{error}");
    std::fs::remove_dir_all(&folder).expect("it is there");
}

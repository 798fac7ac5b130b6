//! Responses that an endpoint cuts by a reset: the bytes before it reach the client, and the client learns of the cut.

use crate::support::{Endpoint, Proxy, noise, text, wait_until};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Bytes in the send buffer that the peer's kernel has not acknowledged.
fn unsent(stream: &TcpStream) -> libc::c_int {
    let mut bytes: libc::c_int = -1;
    // SAFETY: the descriptor is open for the call, and the pointer is to an integer that outlives it.
    let asked = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    assert_eq!(asked, 0, "{}", std::io::Error::last_os_error());
    bytes
}

/// Resets counted as errors of the first endpoint.
fn resets(proxy: &Proxy) -> u64 {
    proxy.endpoint(0, |e| e.errors[evenkeel_proxy::stats::ErrorKind::Reset as usize].get())
}

#[test]
fn what_came_before_a_reset_reaches_the_client() {
    for framing in ["Content-Length: 1000000\r\n", "Transfer-Encoding: chunked\r\n", ""] {
        for len in [1, 1000, 30_000, 60_000, 150_000] {
            let content = noise(len);
            let body = match framing.starts_with("Transfer") {
                true => [format!("{len:x}\r\n").as_bytes(), &content, b"\r\n"].concat(),
                false => content,
            };
            let sent = body.clone();
            let endpoint = Endpoint::start(move |conn| {
                conn.request();
                conn.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\n"));
                conn.send(&sent);
                // A reset would discard bytes that were not sent yet.
                wait_until("all has left", || unsent(&conn.stream) == 0);
                conn.reset_at_end();
            });
            let proxy = Proxy::with(&[endpoint.addr], "", "retry = { attempts = 0 }\noutlier = 'off'", "");
            for round in 0..20 {
                let mut client = proxy.client();
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                let head = client.head();
                assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
                let came = client.rest();
                let shown = (framing, len, round, came.len());
                assert!(came == body, "{shown:?}: {}", text(&came[..came.len().min(100)]));
            }
            wait_until("each is counted", || resets(&proxy) == 20);
        }
    }
}

/// A response that ends with the close is cut by a reset, which must not discard bytes that the client has not read.
#[test]
fn a_client_that_reads_late_gets_what_came_before_a_reset() {
    let body = noise(150_000);
    let sent = body.clone();
    let endpoint = Endpoint::start(move |conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\n\r\n");
        conn.send(&sent);
        wait_until("all has left", || unsent(&conn.stream) == 0);
        conn.reset_at_end();
    });
    let proxy = Proxy::with(&[endpoint.addr], "", "retry = { attempts = 0 }", "");
    let mut client = proxy.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the proxy knows of the reset", || resets(&proxy) == 1);
    client.head();
    assert!(client.rest() == body, "it is cut");
    let mut silent = proxy.client();
    silent.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("one that never reads is let go of", || resets(&proxy) == 2 && proxy.listener(|l| l.active.get()) == 0);
}

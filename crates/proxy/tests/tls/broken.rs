//! Broken handshakes: each costs its connection, and is counted.

use crate::support::tls::{Authority, BOTH, TlsClient, V13, at_listener, proxy};
use crate::support::{Endpoint, SOON, noise, wait_until};
use evenkeel_proxy::stats::Unsecured;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    stream.set_read_timeout(Some(SOON)).unwrap();
    // The end may be a reset.
    let _ = stream.read_to_end(&mut rest);
    rest
}

#[test]
fn half_handshakes_time_out_and_are_counted() {
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::saying("hello"));
    let secured = at_listener(ca.server("a.test", &[], |_| ()), Duration::from_millis(150));
    let proxy = proxy(endpoint.addr, secured, "", "");
    // Nothing, a part of a record, and a whole record with a part of a message.
    let halves = [&b""[..], b"\x16\x03\x01", b"\x16\x03\x01\x00\x05\x01\x00\x10\x00\x03"];
    let mut clients: Vec<TcpStream> = halves
        .iter()
        .map(|half| {
            let mut stream = TcpStream::connect(proxy.addr()).unwrap();
            stream.write_all(half).unwrap();
            stream
        })
        .collect();
    clients.iter_mut().for_each(|client| assert!(read_to_end(client).is_empty()));
    // A silent client may stay in the kernel for a while (TCP_DEFER_ACCEPT).
    wait_until("they are counted", || proxy.listener(|l| l.tls.failed[Unsecured::Timeout as usize].get()) == 3);
    wait_until("none is under way", || proxy.listener(|l| l.tls.active.get()) == 0);
}

#[test]
fn bytes_that_are_not_tls_cost_their_connection_alone() {
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::saying("hello"));
    let proxy = proxy(endpoint.addr, at_listener(ca.server("a.test", &[], |_| ()), SOON), "", "");
    let mut steady = TlsClient::connect(proxy.addr(), ca.client(BOTH), "a.test").unwrap();
    let wrong: [(&[u8], Unsecured); 4] = [
        (b"\0\0\0\0\0\0", Unsecured::NotTls),
        (b"\x16\x03\x01\xff\xff\x01\x00\x00\x00", Unsecured::TooLarge),
        (b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00", Unsecured::Malformed),
        (b"\x16\x03\x01\x00", Unsecured::Closed),
    ];
    for (bytes, cause) in wrong {
        let mut stream = TcpStream::connect(proxy.addr()).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        read_to_end(&mut stream);
        wait_until(cause.text(), || proxy.listener(|l| l.tls.failed[cause as usize].get()) == 1);
    }
    // Random bytes, in many pieces.
    let mut stream = TcpStream::connect(proxy.addr()).unwrap();
    let _ = stream.write_all(&noise(200_000));
    read_to_end(&mut stream);
    assert_eq!(steady.get("/").body_text(), "hello");
}

#[test]
fn a_broken_record_behind_the_handshake_costs_its_connection_alone() {
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::saying("hello"));
    let proxy = proxy(endpoint.addr, at_listener(ca.server("a.test", &[], |_| ()), SOON), "", "");
    let mut steady = TlsClient::connect(proxy.addr(), ca.client(BOTH), "a.test").unwrap();
    for bytes in [&[23, 3, 3, 0, 20][..], &[23, 3, 3, 0xff, 0xff], &[99, 3, 3, 0, 20], &[20, 3, 3, 0, 1, 1]] {
        let mut client = TlsClient::connect(proxy.addr(), ca.client(V13), "a.test").unwrap();
        let socket = &mut client.stream().sock;
        socket.write_all(bytes).unwrap();
        socket.write_all(&[0; 20]).unwrap();
        let mut rest = Vec::new();
        let ended = client.stream().read_to_end(&mut rest);
        assert!(ended.is_err() && rest.is_empty(), "{ended:?}");
    }
    assert_eq!(steady.get("/").body_text(), "hello");
}

/// Every byte of the handshake and of the request is sent by itself.
#[test]
fn a_client_may_send_byte_by_byte() {
    let (ca, endpoint) = (Authority::new("ca"), Endpoint::saying("hello"));
    let proxy = proxy(endpoint.addr, at_listener(ca.server("a.test", &[], |_| ()), SOON), "", "");
    let mut stream = TcpStream::connect(proxy.addr()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let name = rustls::pki_types::ServerName::try_from("a.test").unwrap();
    let mut connection = rustls::ClientConnection::new(ca.client(BOTH), name).unwrap();
    let mut go = |connection: &mut rustls::ClientConnection, reads: bool| {
        let mut bytes = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut bytes).unwrap();
        }
        bytes.iter().for_each(|byte| stream.write_all(&[*byte]).unwrap());
        if reads {
            connection.read_tls(&mut stream).unwrap();
            connection.process_new_packets().unwrap();
        }
    };
    while connection.is_handshaking() {
        go(&mut connection, true);
    }
    go(&mut connection, false);
    connection.writer().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = [0; 1000];
    let n = loop {
        go(&mut connection, true);
        if let Ok(n) = connection.reader().read(&mut answer) {
            break n;
        }
    };
    assert!(answer[..n].starts_with(b"HTTP/1.1 200"));
}

//! TCP sessions with TLS that ends at the proxy, on either side.

use crate::support::tls::{Authority, BOTH, TlsClient, V12, V13, at_listener, endpoint, to_pool};
use crate::support::{Endpoint, Proxy, SOON, noise, wait_until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

/// An endpoint that reads to the end, and then sends everything back.
fn echo() -> Endpoint {
    Endpoint::start(|conn| {
        let all = conn.rest();
        conn.send(all);
    })
}

#[test]
fn bytes_pass_decrypted_and_each_end_is_passed_on() {
    for versions in [V12, V13] {
        let (ca, endpoint) = (Authority::new("ca"), echo());
        let config = format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nmode = \"tcp\"\npool = \"web\"\n\
             [pool.web]\nendpoints = [\"{}\"]\n",
            endpoint.addr
        );
        let proxy = Proxy::start_secured(&config, &at_listener(ca.server("a.test", &[], |_| ()), SOON));
        let mut client = TlsClient::connect(proxy.addr(), ca.client(versions), "a.test").unwrap();
        let sent = noise(1_000_000);
        client.send(&sent);
        let stream = client.stream();
        stream.conn.send_close_notify();
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut stream.sock).unwrap();
        }
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        assert!(back == sent);
        drop(client);
        wait_until("the session has ended", || proxy.listener(|l| l.ends[0].get()) == 1);
    }
}

#[test]
fn a_session_goes_where_its_handshake_asks_for() {
    let ca = Authority::new("ca");
    let named = |name: &'static str| {
        Endpoint::start(move |conn| {
            conn.send(name);
            conn.rest();
        })
    };
    let (one, two) = (named("one"), named("two"));
    let config = format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nmode = \"tcp\"\npool = \"one\"\n\
         [[route]]\nmatch = {{ listener = [\"web\"], host = [\"*.test\"] }}\npool = \"two\"\n\
         [pool.one]\nendpoints = [\"{}\"]\n[pool.two]\nendpoints = [\"{}\"]\n",
        one.addr, two.addr
    );
    let any = ca.server("a.test", &[], |params| {
        params.subject_alt_names.push(rcgen::SanType::DnsName("b.example".try_into().unwrap()));
    });
    let proxy = Proxy::start_secured(&config, &at_listener(any, SOON));
    for (name, wanted) in [("a.test", "two"), ("b.example", "one")] {
        // The endpoint sends first.
        let mut client = TlsClient::connect(proxy.addr(), ca.client(BOTH), name).unwrap();
        let mut said = [0; 3];
        client.reader.read_exact(&mut said).unwrap();
        assert_eq!(said, wanted.as_bytes());
    }
}

#[test]
fn a_plain_session_may_end_at_an_endpoint_over_tls_that_speaks_first() {
    let ca = Authority::new("ca");
    let endpoint = endpoint(ca.server("b.test", &[], |_| ()), |conn| {
        conn.get_mut().write_all(b"hello").unwrap();
        let mut all = Vec::new();
        conn.read_to_end(&mut all).unwrap();
        conn.get_mut().write_all(&all).unwrap();
        conn.get_mut().conn.send_close_notify();
        conn.get_mut().flush().unwrap();
    });
    let config = format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nmode = \"tcp\"\npool = \"web\"\n\
         [pool.web]\nendpoints = [\"{}\"]\n",
        endpoint.addr
    );
    let proxy = Proxy::start_secured(&config, &to_pool(ca.client(BOTH), "b.test"));
    let mut client = TcpStream::connect(proxy.addr()).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    let mut said = [0; 5];
    client.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"hello");
    let sent = noise(1_000_000);
    let mut sending = client.try_clone().unwrap();
    let bytes = sent.clone();
    let sending = std::thread::spawn(move || {
        sending.write_all(&bytes).unwrap();
        sending.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    client.read_to_end(&mut back).unwrap();
    sending.join().unwrap();
    assert!(back == sent);
}

//! Reloads, shutdowns and panics while responses are arriving: clients get whole bodies or see that they are cut off.

use super::stepped::{FRESH, Reads, Step, Stepped, VERSIONS, Version, metric};
use crate::cached::basics::get;
use crate::support::{Proxy, wait_until};

/// A client that has read the first half of a response with ten bytes.
fn half(stepped: &Stepped, proxy: &Proxy, version: Version) -> Reads {
    let mut reads = Reads::new(proxy, version, &[]);
    stepped.has_requests(1);
    stepped.send(format!("{FRESH}Content-Length: 10\r\n\r\n01234"));
    reads.head();
    assert_eq!(reads.bytes(5), b"01234");
    reads
}

#[test]
fn a_reload_leaves_what_is_arriving_to_clients_of_both_plans() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let mut proxy = stepped.proxy("true", "");
        let mut before = half(&stepped, &proxy, version);
        proxy.reload(&stepped.config("{ stale_if_error = '1m' }", "")).expect("a good plan");
        let mut after = Reads::new(&proxy, version, &[]);
        after.head();
        assert_eq!(after.bytes(5), b"01234");
        stepped.send("56789");
        stepped.step(Step::Next);
        assert_eq!((before.bytes(5), after.bytes(5)), (b"56789".to_vec(), b"56789".to_vec()));
        assert!(get(&mut proxy.client(), "/p", "").1.starts_with("hit"));
        assert_eq!((stepped.requests(), metric(&proxy, "evenkeel_cache_fills")), (1, 0), "{version:?}");
    }
}

#[test]
fn a_reload_that_replaces_the_cache_lets_its_readers_finish() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let mut proxy = stepped.proxy("true", "");
        let mut before = half(&stepped, &proxy, version);
        proxy.reload(&stepped.config("true", "[cache]\nmemory = '100MiB'\n")).expect("a good plan");
        let mut after = Reads::new(&proxy, version, &[]);
        stepped.has_requests(2);
        stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nnew"));
        after.head();
        assert_eq!(after.bytes(3), b"new");
        stepped.step_of(0, Step::Send(b"56789".into()));
        assert_eq!(before.bytes(5), b"56789");
        assert_eq!(get(&mut proxy.client(), "/p", "").2, "new");
        assert_eq!(metric(&proxy, "evenkeel_cache_fills"), 0, "{version:?}");
    }
}

/// Clients of other workers read a body whose first client has left: the worker that fetches it waits for them.
#[test]
fn a_graceful_shutdown_waits_for_what_is_arriving() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let mut proxy = Proxy::start(&stepped.config("true", "").replace("workers = 1", "workers = 2"));
        let first = half(&stepped, &proxy, version);
        let mut clients: Vec<Reads> = (0..16).map(|at| Reads::new(&proxy, VERSIONS[at % 2], &[])).collect();
        for client in &mut clients {
            client.head();
            client.bytes(5);
        }
        first.leave();
        proxy.drain();
        stepped.send("56789");
        for mut client in clients {
            assert_eq!(client.rest(5), (b"56789".to_vec(), true), "{version:?}");
        }
        assert_eq!((stepped.requests(), metric(&proxy, "evenkeel_cache_fills")), (1, 0), "{version:?}");
        proxy.stop();
    }
}

#[test]
fn a_stop_never_ends_a_short_body() {
    for version in VERSIONS {
        for framing in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
            let stepped = Stepped::new();
            let mut proxy = stepped.proxy("true", "");
            let mut clients = vec![Reads::new(&proxy, version, &[])];
            stepped.has_requests(1);
            clients.extend((0..4).map(|_| Reads::new(&proxy, version, &[])));
            proxy.has_heard();
            let is_chunked = framing.contains("chunked");
            stepped.send(format!("{FRESH}{framing}\r\n\r\n{}", if is_chunked { "5\r\n01234\r\n" } else { "01234" }));
            for client in &mut clients {
                client.head();
                client.bytes(1);
            }
            proxy.stop();
            for mut client in clients {
                let (rest, is_whole) = client.rest(if is_chunked { 14 } else { 9 });
                let rest = String::from_utf8(rest).expect("text");
                assert!(!rest.contains("\r\n0\r\n") && !is_whole, "{framing}, {version:?}: {rest}");
            }
        }
    }
}

/// The task of a client panics, whether it is the first or a later client; the others read on.
#[test]
fn a_panic_of_a_client_ends_only_its_own_response() {
    for version in VERSIONS {
        for is_first in [true, false] {
            let stepped = Stepped::new();
            let proxy = Proxy::start(&stepped.config("true", "").replace("listener.web", "listener.panics"));
            // Without a body, if it is not to panic.
            let condition = if is_first { &[][..] } else { &[("if-none-match", "\"a\"")] };
            let mut first = Reads::new(&proxy, version, condition);
            stepped.has_requests(1);
            stepped.send(format!("{FRESH}Content-Length: 10\r\n\r\n012"));
            assert_eq!(first.head().contains("304"), !is_first);
            let mut good = Reads::new(&proxy, version, &[("range", "bytes=1-2")]);
            good.head();
            assert_eq!(good.bytes(2), b"12");
            let mut later = Reads::new(&proxy, version, &[("range", "bytes=6-9")]);
            let mut bad = if is_first { first } else { Reads::new(&proxy, version, &[]) };
            if !is_first {
                bad.head();
            }
            stepped.send("34!");
            let (rest, is_whole) = bad.rest(10);
            assert!(!is_whole && !rest.contains(&b'!'), "{version:?}");
            later.head();
            stepped.send("6789");
            stepped.step(Step::Next);
            assert_eq!(later.bytes(4), b"6789", "{version:?}");
            wait_until("it is stored", || metric(&proxy, "evenkeel_cache_objects") == 1);
            let counts = ["evenkeel_cache_fills", "evenkeel_cache_unattended_fetches"].map(|name| metric(&proxy, name));
            assert_eq!((counts, stepped.requests()), ([0; 2], 1), "{version:?}");
        }
    }
}

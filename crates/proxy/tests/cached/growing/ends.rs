//! Ends of responses that are arriving: clients leave, the endpoint cuts them off, they are purged or too large.

use super::stepped::{FRESH, Reads, Step, Stepped, VERSIONS, Version, metric};
use crate::cached::basics::get;
use crate::cached::operators::purge;
use crate::support::wait_until;
use evenkeel_view::cache::Purge;

#[test]
fn a_response_is_stored_although_all_clients_have_left() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("true", "");
        let mut clients: Vec<Reads> = (0..5).map(|_| Reads::new(&proxy, version, &[])).collect();
        stepped.has_requests(1);
        proxy.has_heard();
        stepped.send(format!("{FRESH}Content-Length: 10\r\n\r\n01234"));
        for client in &mut clients {
            client.head();
            client.bytes(5);
        }
        clients.into_iter().for_each(Reads::leave);
        wait_until("all have left", || metric(&proxy, "evenkeel_cache_unattended_fetches") == 1);
        stepped.send("56789");
        stepped.step(Step::Next);
        wait_until("it is stored", || metric(&proxy, "evenkeel_cache_objects") == 1);
        assert_eq!(get(&mut proxy.client(), "/p", ""), (200, "hit; ttl=60".into(), "0123456789".into()));
        assert_eq!((stepped.requests(), metric(&proxy, "evenkeel_cache_unattended_fetches")), (1, 0));
    }
}

#[test]
fn a_fetch_ends_with_its_last_client_if_too_many_have_none() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("true", "[cache]\nunattended_fetches_max = 0\n");
        let mut client = Reads::new(&proxy, version, &[]);
        stepped.has_requests(1);
        stepped.send(format!("{FRESH}Content-Length: 10\r\n\r\n01234"));
        client.head();
        client.bytes(5);
        client.leave();
        wait_until("it has ended", || metric(&proxy, "evenkeel_cache_fills") == 0 && proxy.in_flight() == 0);
        stepped.step(Step::Close);
        let mut next = Reads::new(&proxy, version, &[]);
        stepped.has_requests(2);
        stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nnew"));
        next.head();
        assert_eq!(next.bytes(3), b"new");
    }
}

#[test]
fn all_are_cut_off_where_the_endpoint_cuts_the_response_off() {
    for version in VERSIONS {
        for framing in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
            let stepped = Stepped::new();
            let proxy = stepped.proxy("true", "");
            let first = Reads::new(&proxy, version, &[]);
            stepped.has_requests(1);
            let mut clients = vec![first];
            clients.extend((0..4).map(|_| Reads::new(&proxy, version, &[])));
            proxy.has_heard();
            let is_chunked = framing.contains("chunked");
            stepped.send(format!("{FRESH}{framing}\r\n\r\n{}", if is_chunked { "5\r\n01234\r\n" } else { "01234" }));
            clients.iter_mut().for_each(|client| _ = client.head());
            stepped.step(Step::Close);
            for mut client in clients {
                let (rest, is_whole) = client.rest(if is_chunked { 15 } else { 10 });
                let rest = String::from_utf8(rest).expect("text");
                assert!(
                    rest.contains("01234") && !rest.contains("\r\n0\r\n") && !is_whole,
                    "{framing}, {version:?}: {rest}"
                );
            }
            let mut next = Reads::new(&proxy, version, &[]);
            stepped.has_requests(2);
            stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nnew"));
            next.head();
            assert_eq!(next.bytes(3), b"new", "{framing}, {version:?}");
        }
    }
}

#[test]
fn a_purge_ends_the_sharing_of_a_response_that_is_arriving() {
    let stepped = Stepped::new();
    let proxy = stepped.proxy("true", "");
    let mut before = Reads::new(&proxy, Version::H1, &[]);
    stepped.has_requests(1);
    stepped.send(format!("{FRESH}Content-Length: 6\r\n\r\nold"));
    before.head();
    before.bytes(3);
    purge(&proxy, &Purge { all: true, ..Purge::default() });
    let mut after = Reads::new(&proxy, Version::H1, &[]);
    stepped.has_requests(2);
    stepped.step_of(1, Step::Send(format!("{FRESH}Content-Length: 3\r\n\r\nnew").into()));
    after.head();
    assert_eq!(after.bytes(3), b"new");
    stepped.step_of(0, Step::Send(b"old".into()));
    assert_eq!(before.bytes(3), b"old", "those who have begun get all of it");
    wait_until("both have ended", || metric(&proxy, "evenkeel_cache_fills") == 0);
    assert_eq!(get(&mut proxy.client(), "/p", "").2, "new");
}

/// Its length is not known, so that it turns out late.
#[test]
fn a_response_that_turns_out_too_large_reaches_those_who_read_it_and_is_not_stored() {
    const PIECE: usize = 1 << 20;
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("true", "[cache]\nobject_max = '2MiB'\n");
        let first = Reads::new(&proxy, version, &[]);
        stepped.has_requests(1);
        let mut clients = vec![first, Reads::new(&proxy, version, &[])];
        proxy.has_heard();
        stepped.send(format!("{FRESH}Transfer-Encoding: chunked\r\n\r\n"));
        clients.iter_mut().for_each(|client| _ = client.head());
        let readers: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                std::thread::spawn(move || match &mut client {
                    Reads::H1(http1) => {
                        let mut all = 0;
                        loop {
                            let mut size = Vec::new();
                            while !size.ends_with(b"\r\n") {
                                size.extend(http1.bytes(1));
                            }
                            let size = std::str::from_utf8(&size).expect("text").trim();
                            let size = usize::from_str_radix(size, 16).expect("a size");
                            http1.bytes(size + 2);
                            all += size;
                            if size == 0 {
                                return all;
                            }
                        }
                    }
                    Reads::H2(_) => {
                        let (rest, is_whole) = client.rest(0);
                        assert!(is_whole);
                        rest.len()
                    }
                })
            })
            .collect();
        for _ in 0..8 {
            stepped.send(format!("{PIECE:x}\r\n"));
            stepped.send(vec![b'x'; PIECE]);
            stepped.send("\r\n");
        }
        stepped.send("0\r\n\r\n");
        stepped.step(Step::Next);
        for reader in readers {
            assert_eq!(reader.join().expect("it has read"), 8 * PIECE, "{version:?}");
        }
        assert_eq!((metric(&proxy, "evenkeel_cache_objects"), stepped.requests()), (0, 1), "{version:?}");
    }
}

#[test]
fn if_too_many_have_no_client_the_oldest_who_waits_fetches_the_response_next() {
    for version in VERSIONS {
        let stepped = Stepped::new();
        let proxy = stepped.proxy("{ collapse = '1h' }", "[cache]\nunattended_fetches_max = 0\n");
        let first = Reads::new(&proxy, version, &[]);
        stepped.has_requests(1);
        let mut others: Vec<Reads> = (0..5).map(|_| Reads::new(&proxy, version, &[])).collect();
        proxy.has_heard();
        first.leave();
        stepped.has_requests(2);
        stepped.send(format!("{FRESH}Content-Length: 3\r\n\r\nnew"));
        for client in &mut others {
            client.head();
            assert_eq!(client.bytes(3), b"new", "{version:?}");
        }
        assert_eq!(stepped.requests(), 2, "{version:?}");
    }
}

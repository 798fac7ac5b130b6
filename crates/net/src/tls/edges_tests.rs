//! Edge cases of buffers and records: more waits than fits, no room for the end, and half a record.

use super::tests::{configs, shaken};
use crate::buffer::Buf;
use crate::event_loop::{run, spawn};
use crate::transport::Transport;
use rustls::server::ProducesTickets;
use rustls::version::{TLS12, TLS13};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::sync::Arc;
use std::task::Poll;

/// Issues tickets of 30 KB, as for clients with long certificate chains, and accepts none.
#[derive(Debug)]
struct Long;

impl ProducesTickets for Long {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        60
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        Some(vec![7; 30_000])
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

async fn read_all(from: &Transport) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let buf = from.read_some().await?;
        if buf.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(buf.filled());
    }
}

/// Tickets are sent with the first data, and all later records depend on them.
#[test]
fn tickets_that_fill_several_buffers_come_before_the_data() {
    run(async {
        for (tickets, text) in [(1, "short"), (2, "two buffers"), (4, "four"), (4, "")] {
            let mut configs = configs("a.test", &[&TLS13]);
            let server = Arc::make_mut(&mut configs.server);
            (server.ticketer, server.send_tls13_tickets) = (Arc::new(Long), tickets);
            let [server, client] = shaken(&configs).await;
            spawn(async move {
                if !text.is_empty() {
                    server.write_all(&mut Buf::holding(text.as_bytes())).await.unwrap();
                }
                server.shutdown_write();
                // Bytes that the kernel did not accept are sent while this waits.
                assert_eq!(read_all(&server).await.unwrap(), b"thanks");
            });
            assert_eq!(read_all(&client).await.unwrap(), text.as_bytes(), "{tickets} tickets");
            client.write(&mut Buf::holding(b"thanks"), true).await.unwrap();
        }
    })
    .unwrap();
}

/// The data leaves any amount of room after it, even too little for the `close_notify`.
#[test]
fn the_end_comes_behind_data_of_any_length() {
    run(async {
        for versions in [&[&TLS12], &[&TLS13]] {
            let mut lens: Vec<usize> = (34_700..34_830).step_by(7).collect();
            lens.extend(34_740..34_770);
            for len in lens {
                let [server, client] = shaken(&configs("a.test", versions)).await;
                let mut data = Buf::take_whole();
                data.fill(len);
                let len = data.len();
                spawn(async move { server.write(&mut data, true).await.unwrap() });
                assert_eq!(read_all(&client).await.unwrap().len(), len);
            }
        }
    })
    .unwrap();
}

/// Bytes that arrive between requests were sent before the next request, so they cannot be its response.
#[test]
fn an_idle_connection_with_the_front_of_a_record_is_not_quiet() {
    run(async {
        for versions in [&[&TLS12], &[&TLS13]] {
            for front in [&[23][..], &[23, 3, 3, 0, 40], &[23, 3, 3, 0, 40, 1, 2, 3]] {
                let [server, client] = shaken(&configs("a.test", versions)).await;
                server.write_all(&mut Buf::holding(b"an answer, with tickets before it")).await.unwrap();
                assert_eq!(client.read_some().await.unwrap().len(), 33);
                assert!(client.is_quiet());
                let [below, peer] = [&client, &server].map(|side| side.as_tls().unwrap().socket());
                assert_eq!(peer.send_now(front), front.len());
                poll_fn(|cx| below.poll_peek(cx)).await.unwrap();
                assert!(!client.is_quiet(), "{front:?}");
                // Still true once the socket is empty.
                assert!(!client.is_quiet(), "{front:?}");
            }
        }
    })
    .unwrap();
}

/// A ticket that does not fit into the reader's buffer is opened in another. The data after it has already
/// arrived, and nothing more may come.
#[test]
fn data_behind_tickets_is_read_however_little_room_there_is() {
    run(async {
        for room in [1, 10, 40, 100] {
            let [server, client] = shaken(&configs("a.test", &[&TLS13])).await;
            server.write_all(&mut Buf::holding(b"behind the tickets")).await.unwrap();
            let below = client.as_tls().unwrap().socket();
            poll_fn(|cx| below.poll_peek(cx)).await.unwrap();
            let mut buf = Buf::take();
            let taken = buf.spare().len() - room;
            buf.fill(taken);
            let read = poll_fn(|cx| Poll::Ready(client.poll_read(cx, &mut buf))).await;
            assert!(matches!(read, Poll::Ready(Ok(n)) if n == room.min(18)), "{room} bytes of room: {read:?}");
        }
    })
    .unwrap();
}

/// RFC 8446 section 6.2: after a fatal alert both sides close the connection.
#[test]
fn nothing_follows_a_fatal_alert() {
    run(async {
        let [server, client] = shaken(&configs("a.test", &[&TLS13])).await;
        let peer = client.as_tls().unwrap().socket();
        peer.send_now(&[[23, 3, 3, 0, 40].as_slice(), &[7; 40]].concat());
        assert_eq!(server.read_some().await.unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(server.write_some(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        server.shutdown_write();
        assert_eq!(client.read_some().await.unwrap_err().kind(), ErrorKind::ConnectionAborted);
        assert_eq!(client.write_some(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        drop(client);
        // Neither side has sent a close_notify after it.
        let mut left = Buf::take();
        assert_eq!(server.as_tls().unwrap().socket().read(&mut left).await.unwrap(), 0);
    })
    .unwrap();
}

//! Bytes held for a side that does not read: no more than the window of the other side.

use crate::support::endpoint::{Conn, Endpoint};
use crate::support::h2_client::{
    ACK, DATA, END_HEADERS, END_STREAM, Frame, H2Client, HEADERS, PING, SETTINGS, WINDOW_UPDATE, block,
};
use crate::support::{Proxy, SOON};
use evenkeel_wire::h2::PREFACE;

const WINDOW: usize = 64 << 10;

fn exactly(conn: &mut Conn, n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < n {
        let some = conn.some(n - bytes.len());
        assert!(!some.is_empty(), "the proxy has not closed");
        bytes.extend(some);
    }
    bytes
}

fn frame(conn: &mut Conn) -> Frame {
    let front = exactly(conn, 9);
    let len = u32::from_be_bytes([0, front[0], front[1], front[2]]) as usize;
    let stream = u32::from_be_bytes([front[5], front[6], front[7], front[8]]);
    Frame { kind: front[3], flags: front[4], stream, payload: exactly(conn, len) }
}

/// Returns how far a stream's window opens until the last of three pings is answered. By then, the tasks that earlier
/// bytes have woken had their turns, and their output is written.
fn opened_by(conn: &mut Conn, stream: u32) -> usize {
    let mut opened = 0;
    for _ in 0..3 {
        conn.send(Frame::new(PING, 0, 0, [7; 8]).bytes());
        loop {
            let frame = frame(conn);
            match frame.kind {
                PING if frame.flags & ACK != 0 => break,
                WINDOW_UPDATE if frame.stream == stream => {
                    opened += u32::from_be_bytes(frame.payload.try_into().expect("4 bytes")) as usize;
                }
                _ => {}
            }
        }
    }
    opened
}

#[test]
fn a_response_that_its_client_does_not_take_takes_no_more_than_the_window_of_its_endpoint() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let endpoint = Endpoint::start(move |conn| {
        assert_eq!(conn.bytes(PREFACE.len()), PREFACE);
        conn.send(Frame::new(SETTINGS, 0, 0, "").bytes());
        let head = std::iter::repeat_with(|| frame(conn)).find(|frame| frame.kind == HEADERS).expect("a request");
        conn.send(Frame::new(HEADERS, END_HEADERS, head.stream, block(&[(":status", "200")])).bytes());
        for part in vec![b'x'; WINDOW].chunks(16 << 10) {
            conn.send(Frame::new(DATA, 0, head.stream, part).bytes());
        }
        assert_eq!(opened_by(conn, head.stream), 0, "the client takes nothing");
        let _ = tell.send(());
        let mut opened = 0;
        while opened < WINDOW / 2 {
            opened += opened_by(conn, head.stream);
        }
        conn.send(Frame::new(DATA, END_STREAM, head.stream, "").bytes());
        conn.rest();
    });
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "protocol = 'h2'\nhttp2 = { stream_window = '64KiB' }", "");
    let mut client = H2Client::connect(proxy.addr());
    client.send(&Frame::new(SETTINGS, 0, 0, [0, 4, 0, 0, 0, 0]));
    client.get(1, "/");
    client.next(HEADERS).expect("the head");
    told.recv_timeout(SOON).expect("the endpoint has looked");
    client.send(&Frame::new(SETTINGS, 0, 0, [0, 4, 0x7f, 0xff, 0xff, 0xff]));
    client.give(0, 1 << 20);
    assert_eq!(client.answer(1).body.len(), WINDOW);
}

//! An endpoint that sends and reads HTTP/2 frame by frame, valid or not.

use super::h2_client::{
    ACK, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, PREFACE, SETTINGS, block, take_frame,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A listening server. Its threads end when the proxy closes their connections.
pub struct H2Frames {
    pub addr: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

/// A connection, after the preface.
pub struct FrameConn {
    pub stream: TcpStream,
    came: Vec<u8>,
    /// Number of requests so far, including the current one.
    pub requests: u32,
}

impl FrameConn {
    /// Sends frames in one write, ignoring errors: the proxy may have closed.
    pub fn send(&mut self, frames: &[Frame]) {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
        let _ = self.stream.write_all(&bytes);
    }

    fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = take_frame(&mut self.came) {
                return Some(frame);
            }
            let mut room = [0; 16_384];
            match self.stream.read(&mut room) {
                Ok(n @ 1..) => self.came.extend(&room[..n]),
                _ => return None,
            }
        }
    }
}

impl H2Frames {
    /// Calls `on` with each frame that comes. SETTINGS and PING are acknowledged before.
    pub fn start(on: impl Fn(&mut FrameConn, &Frame) + Send + Sync + 'static) -> H2Frames {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("it is bound");
        let (accepted, on) = (Arc::new(AtomicUsize::new(0)), Arc::new(on));
        let counted = accepted.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                counted.fetch_add(1, SeqCst);
                let on = on.clone();
                std::thread::spawn(move || serve(stream, &*on));
            }
        });
        H2Frames { addr, accepted }
    }

    /// Number of connections accepted.
    pub fn accepted(&self) -> usize {
        self.accepted.load(SeqCst)
    }
}

fn serve(mut stream: TcpStream, on: &dyn Fn(&mut FrameConn, &Frame)) {
    let _ = stream.set_nodelay(true);
    let mut preface = [0; PREFACE.len()];
    if stream.read_exact(&mut preface).is_err() || preface != PREFACE {
        return;
    }
    let mut conn = FrameConn { stream, came: Vec::new(), requests: 0 };
    conn.send(&[Frame::new(SETTINGS, 0, 0, "")]);
    while let Some(frame) = conn.next() {
        match frame.kind {
            SETTINGS if frame.flags & ACK == 0 => conn.send(&[Frame::new(SETTINGS, ACK, 0, "")]),
            PING if frame.flags & ACK == 0 => conn.send(&[Frame::new(PING, ACK, 0, frame.payload.clone())]),
            HEADERS => conn.requests += 1,
            _ => {}
        }
        on(&mut conn, &frame);
    }
}

/// HEADERS with a status and more fields. `ends`: it ends the stream.
pub fn head(stream: u32, status: &str, fields: &[(&str, &str)], ends: bool) -> Frame {
    let all: Vec<_> = [(":status", status)].iter().chain(fields).copied().collect();
    Frame::new(HEADERS, END_HEADERS | if ends { END_STREAM } else { 0 }, stream, block(&all))
}

/// DATA with a part of a body.
pub fn data(stream: u32, body: &str, ends: bool) -> Frame {
    Frame::new(DATA, if ends { END_STREAM } else { 0 }, stream, body)
}

/// GOAWAY: streams up to `last` are processed.
pub fn go_away(last: u32, code: u32) -> Frame {
    Frame::new(GOAWAY, 0, 0, [last.to_be_bytes(), code.to_be_bytes()].concat())
}

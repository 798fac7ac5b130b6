//! A connection: driven by its [endpoint](super::endpoint), and used by the tasks of its streams.

use super::tls::Shaken;
use bytes::Bytes;
use quinn_proto::{ConnectionHandle, Dir, ReadError, ReadableError, StreamId, VarInt, WriteError, Written};
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Instant;

/// Connections of an endpoint that have something to do, and the waker of the endpoint's task.
#[derive(Debug, Default)]
pub(super) struct Ready {
    waiting: RefCell<Vec<ConnectionHandle>>,
    waker: RefCell<Option<Waker>>,
}

impl Ready {
    pub(super) fn push(&self, connection: ConnectionHandle) {
        self.waiting.borrow_mut().push(connection);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the connections that are waiting.
    pub(super) fn take(&self, into: &mut Vec<ConnectionHandle>) {
        into.append(&mut self.waiting.borrow_mut());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    pub(super) fn note(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }
}

/// A connection of an endpoint.
pub struct Connection {
    pub(super) proto: RefCell<quinn_proto::Connection>,
    pub(super) handle: ConnectionHandle,
    pub(super) ready: Rc<Ready>,
    /// True while the connection is among those that have something to do.
    pub(super) is_ready: Cell<bool>,
    pub(super) is_v2: bool,
    /// Time of its entry in the endpoint's timers.
    pub(super) scheduled: Cell<Option<Instant>>,
    /// Time at which the user of the connection is called.
    pub(super) alarm: Cell<Option<Instant>>,
    /// Address of the client in the last turn, and the number of times that it has changed.
    pub(super) last_remote: Cell<SocketAddr>,
    pub(super) migrations: Cell<u32>,
}

/// Packets of a connection so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    pub sent: u64,
    /// Packets that the client did not receive, as far as is known.
    pub lost: u64,
}

/// Result of [`Connection::read`].
#[derive(Debug)]
pub enum Read {
    /// Bytes of the stream, in order.
    Data(Bytes),
    /// Nothing has arrived yet; `Session::readable` follows.
    Pending,
    /// The client has ended the stream.
    End,
    /// The client has reset the stream with this code, or the stream is closed.
    Reset(u64),
}

/// Result of [`Connection::write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    All,
    /// Chunks are left; `Session::writable` follows.
    Blocked,
    /// The client has stopped the stream with this code, or the stream is closed.
    Stopped(u64),
}

/// Code of streams that are closed without a code from the client.
const CLOSED: u64 = 0;

impl Connection {
    /// Has the endpoint drive the connection in its next turn.
    pub(super) fn wake(&self) {
        if !self.is_ready.replace(true) {
            self.ready.push(self.handle);
        }
    }

    /// Time at which a timer of the connection or of its user passes.
    pub(super) fn due(&self) -> Option<Instant> {
        let due = self.proto.borrow_mut().poll_timeout();
        [due, self.alarm.get()].into_iter().flatten().min()
    }

    /// Sets the time at which the session is [called](super::endpoint::Session::alarm), once.
    pub fn set_alarm(&self, at: Option<Instant>) {
        self.alarm.set(at);
        if at.is_some_and(|at| self.scheduled.get().is_none_or(|scheduled| at < scheduled)) {
            self.wake();
        }
    }

    /// True if the connection speaks version 2 of QUIC.
    pub fn is_v2(&self) -> bool {
        self.is_v2
    }

    /// Takes the next stream that the client has opened.
    pub fn accept(&self, dir: Dir) -> Option<StreamId> {
        self.proto.borrow_mut().streams().accept(dir)
    }

    /// Opens a stream to the client; `None` if the client allows no more.
    pub fn open(&self, dir: Dir) -> Option<StreamId> {
        self.proto.borrow_mut().streams().open(dir)
    }

    /// Takes up to `most` bytes of a stream.
    pub fn read(&self, stream: StreamId, most: usize) -> Read {
        let mut proto = self.proto.borrow_mut();
        let mut receiving = proto.recv_stream(stream);
        let mut chunks = match receiving.read(true) {
            Ok(chunks) => chunks,
            Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => return Read::Reset(CLOSED),
        };
        let read = match chunks.next(most) {
            Ok(Some(chunk)) => Read::Data(chunk.bytes),
            Ok(None) => Read::End,
            Err(ReadError::Blocked) => Read::Pending,
            Err(ReadError::Reset(code)) => Read::Reset(code.into_inner()),
        };
        let sends = chunks.finalize().should_transmit();
        drop(proto);
        if sends {
            self.wake();
        }
        read
    }

    /// Writes chunks to a stream, in order, and removes them as they are taken.
    pub fn write(&self, stream: StreamId, chunks: &mut Vec<Bytes>) -> Write {
        let mut proto = self.proto.borrow_mut();
        let mut sending = proto.send_stream(stream);
        let mut has_written = false;
        // Only a write that finds no room at all is reported later.
        let write = loop {
            if chunks.is_empty() {
                break Write::All;
            }
            match sending.write_chunks(chunks) {
                Ok(Written { chunks: taken, .. }) => {
                    chunks.drain(..taken);
                    has_written = true;
                }
                Err(WriteError::Blocked) => break Write::Blocked,
                Err(WriteError::Stopped(code)) => break Write::Stopped(code.into_inner()),
                Err(WriteError::ClosedStream) => break Write::Stopped(CLOSED),
            }
        };
        drop(proto);
        if has_written {
            self.wake();
        }
        write
    }

    /// Ends a stream behind the bytes that were written.
    pub fn finish(&self, stream: StreamId) {
        // A stream that is closed or was stopped has ended already.
        let _ = self.proto.borrow_mut().send_stream(stream).finish();
        self.wake();
    }

    /// Resets the sending half of a stream.
    pub fn reset(&self, stream: StreamId, code: u64) {
        let _ = self.proto.borrow_mut().send_stream(stream).reset(code_of(code));
        self.wake();
    }

    /// Asks the client to send no more on a stream.
    pub fn stop(&self, stream: StreamId, code: u64) {
        let _ = self.proto.borrow_mut().recv_stream(stream).stop(code_of(code));
        self.wake();
    }

    /// Sets which streams are sent first: those with a higher number.
    pub fn set_priority(&self, stream: StreamId, priority: i32) {
        let _ = self.proto.borrow_mut().send_stream(stream).set_priority(priority);
    }

    /// Closes the connection with a code of the application.
    pub fn close(&self, code: u64, reason: &'static [u8]) {
        self.proto.borrow_mut().close(Instant::now(), code_of(code), Bytes::from_static(reason));
        self.wake();
    }

    /// Address of the client, which may change.
    pub fn remote(&self) -> SocketAddr {
        self.proto.borrow().remote_address()
    }

    /// Number of times that the address of the client has changed.
    pub fn migrations(&self) -> u32 {
        self.migrations.get()
    }

    pub fn packets(&self) -> Packets {
        let path = self.proto.borrow().stats().path;
        Packets { sent: path.sent_packets, lost: path.lost_packets }
    }

    /// Address of this machine that the client uses, if the socket is bound to all of them.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.proto.borrow().local_ip()
    }

    /// Parameters of the TLS session, once the handshake is complete or early data is accepted.
    pub fn tls(&self) -> Option<Shaken> {
        let data = self.proto.borrow().crypto_session().handshake_data()?;
        data.downcast().ok().map(|shaken| *shaken)
    }

    /// True if early data of the client was accepted.
    pub fn has_early_data(&self) -> bool {
        self.proto.borrow().has_0rtt()
    }
}

fn code_of(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

//! Pending bytes of a TLS connection: received records not opened, opened data not taken, and sealed records
//! not sent. An idle connection has none.

use super::error::alert_name;
use super::session::{End, Session};
use crate::buffer::Buf;
use crate::stream::Stream;
use rustix::net::SendFlags;
use std::io;
use std::task::{Context, Poll, ready};

/// A connection after its handshake, without its socket.
pub(super) struct State {
    pub(super) session: Session,
    /// Received bytes not opened yet, usually part of a record.
    pub(super) held: Buf,
    /// Opened data not taken yet.
    pub(super) rest: Buf,
    /// Sealed records not sent yet.
    pub(super) out: Buf,
    /// True once this side has ended its direction.
    pub(super) ended: bool,
    /// True while the `close_notify` for that is not sealed because `out` was full. `out` is not empty then.
    pub(super) end_due: bool,
    /// True if the socket is to be shut down once `out` is sent.
    pub(super) shuts: bool,
}

impl State {
    /// Takes available data into the buffer, and returns its length, 0 at the end. `None` if more must be
    /// received first.
    pub(super) fn take(&mut self, socket: &Stream, buf: &mut Buf) -> Option<io::Result<usize>> {
        if buf.spare().is_empty() {
            return Some(Ok(0));
        }
        if !self.rest.is_empty() {
            let n = buf.extend_some(self.rest.filled());
            self.rest.consume(n);
            if self.rest.is_empty() {
                self.rest = Buf::none();
            }
            return Some(Ok(n));
        }
        if !self.held.is_empty() {
            let before = buf.len();
            self.open(socket, buf);
            let n = buf.len() - before;
            if n > 0 {
                return Some(Ok(n));
            }
        }
        self.ended()
    }

    /// Opens received records as far as the buffer has room.
    pub(super) fn open(&mut self, socket: &Stream, buf: &mut Buf) {
        self.session.open(&mut self.held, buf, &mut self.rest);
        if self.held.is_empty() {
            self.held = Buf::none();
        }
        if let End::Failed(_) = self.session.end {
            self.tell(socket);
        }
    }

    /// Result of a read at the end of the peer's direction; `None` before the end.
    pub(super) fn ended(&self) -> Option<io::Result<usize>> {
        match self.session.end {
            End::Open => None,
            End::Closed => Some(Ok(0)),
            End::Truncated => {
                let why = "the connection ended without close_notify: data may be missing";
                Some(Err(io::Error::new(io::ErrorKind::UnexpectedEof, why)))
            }
            End::Failed(fault) => Some(Err(io::Error::new(io::ErrorKind::InvalidData, fault.text()))),
            End::Alerted(alert) => {
                let why = format!("the peer closed TLS with an alert: {}", alert_name(alert));
                Some(Err(io::Error::new(io::ErrorKind::ConnectionAborted, why)))
            }
        }
    }

    /// True if a read would return data or an end without the socket.
    pub(super) fn has_come(&self) -> bool {
        !self.rest.is_empty() || !self.held.is_empty() || self.session.end != End::Open
    }

    /// Takes the result of a read from the socket; `n` is 0 at its end.
    pub(super) fn came(&mut self, n: usize, wire: Buf) {
        if n > 0 {
            self.held = wire;
        } else if self.session.end == End::Open {
            self.session.end = End::Truncated;
        }
    }

    /// Sends pending records if that is possible at once and nothing precedes them. Bytes that the kernel does not
    /// accept stays in `out`.
    #[cold]
    pub(super) fn tell(&mut self, socket: &Stream) {
        let mut is_all = false;
        while self.out.is_empty() && !is_all {
            let mut out = Buf::take_whole();
            is_all = self.session.seal_nothing(&mut out);
            if is_all && self.end_due {
                is_all = self.session.seal_end(&mut out);
                self.end_due = !is_all;
            }
            out.consume(socket.send_now(out.filled()));
            if !out.is_empty() {
                self.out = out;
            }
        }
    }

    /// Sends the bytes that the peer waits for, if any, before any data.
    #[cold]
    pub(super) fn say_awaited(&mut self, socket: &Stream) {
        if self.session.is_awaited() {
            self.tell(socket);
        }
    }

    /// Buffer for the next read, starting with the partial record received so far.
    pub(super) fn room(&self) -> Buf {
        let mut wire = Buf::take_whole();
        let held = wire.extend_some(self.held.filled());
        debug_assert!(held == self.held.len() && !wire.spare().is_empty());
        wire
    }

    /// Reduces a partial record to the memory it needs while the rest is awaited.
    #[inline]
    pub(super) fn wait(&mut self) {
        if !self.held.is_empty() {
            self.held.shrink();
        }
    }

    /// True if no part of a record or message has been received. Such a part may be the beginning of data.
    pub(super) fn is_between_records(&self) -> bool {
        self.held.is_empty() && !self.session.is_within_message()
    }

    pub(super) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Stream,
        flags: SendFlags,
    ) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let sent = ready!(socket.poll_io_write(cx, |fd| rustix::net::send(fd, self.out.filled(), flags)))?;
            self.out.consume(sent);
            if self.out.is_empty() {
                self.out = Buf::none();
                if self.end_due {
                    self.tell(socket);
                }
                if self.shuts && self.out.is_empty() {
                    socket.shutdown_write();
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends `close_notify` if it may be sent: at once if the kernel accepts it, otherwise after what is
    /// still to be sent.
    pub(super) fn end(&mut self, socket: &Stream) {
        if !std::mem::replace(&mut self.ended, true) && self.session.may_send() {
            self.end_due = true;
            self.tell(socket);
        }
    }
}

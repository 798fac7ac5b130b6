//! What waits on a connection over TLS? Records that came and were not opened, data that was opened and not taken, records that
//! were sealed and not sent. None of it on one that is idle.

use super::error::alert_name;
use super::session::{End, Session};
use crate::buffer::Buf;
use crate::stream::Stream;
use rustix::net::SendFlags;
use std::io;
use std::task::{Context, Poll, ready};

/// A connection behind its handshake, without its socket.
pub(super) struct State {
    pub(super) session: Session,
    /// What came and was not opened yet: part of a record mostly.
    pub(super) held: Buf,
    /// What was opened and not taken yet.
    pub(super) rest: Buf,
    /// What was sealed and not sent yet.
    pub(super) out: Buf,
    /// True once this side sends no more data.
    pub(super) ended: bool,
    /// True while the `close_notify` of that is not sealed: `out` was full. Then `out` is not empty.
    pub(super) end_due: bool,
    /// Whether the socket is to be shut down once `out` is sent.
    pub(super) shuts: bool,
}

impl State {
    /// Takes what there is into the buffer: how much, 0 at the end. `None`: something must come first.
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

    /// Opens what came, as far as the buffer has room.
    pub(super) fn open(&mut self, socket: &Stream, buf: &mut Buf) {
        self.session.open(&mut self.held, buf, &mut self.rest);
        if self.held.is_empty() {
            self.held = Buf::none();
        }
        if let End::Failed(_) = self.session.end {
            self.tell(socket);
        }
    }

    /// How it has ended, if it has.
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

    /// Whether a read has something to take or to tell.
    pub(super) fn has_come(&self) -> bool {
        !self.rest.is_empty() || !self.held.is_empty() || self.session.end != End::Open
    }

    /// Takes in what the socket has brought.
    pub(super) fn came(&mut self, n: usize, wire: Buf) {
        if n > 0 {
            self.held = wire;
        } else if self.session.end == End::Open {
            self.session.end = End::Truncated;
        }
    }

    /// Sends what waits, if that can be done at once and nothing is before it. What the kernel does not take stays in `out`.
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

    /// Has what the peer waits for sent before anything is written, if there is such.
    #[cold]
    pub(super) fn say_awaited(&mut self, socket: &Stream) {
        if self.session.is_awaited() {
            self.tell(socket);
        }
    }

    /// Room for what comes, behind what came: part of a record, or reading would have opened it.
    pub(super) fn room(&self) -> Buf {
        let mut wire = Buf::take_whole();
        let held = wire.extend_some(self.held.filled());
        debug_assert!(held == self.held.len() && !wire.spare().is_empty());
        wire
    }

    /// Keeps the front of a record, while the rest of it is to come, in no more memory than it needs.
    #[inline]
    pub(super) fn wait(&mut self) {
        if !self.held.is_empty() {
            self.held.shrink();
        }
    }

    /// True if no part of a record or message has come from the peer. Such a part may be the front of data.
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

    /// Sends the `close_notify`, if one may be sent: at once if the kernel takes it, or else behind what is still to be sent.
    pub(super) fn end(&mut self, socket: &Stream) {
        if !std::mem::replace(&mut self.ended, true) && self.session.may_send() {
            self.end_due = true;
            self.tell(socket);
        }
    }
}

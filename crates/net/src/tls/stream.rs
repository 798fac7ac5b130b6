//! How does a connection over TLS look to those who read and write it? As one without. Before its handshake it is plain, so
//! that what comes in front of TLS can be read, and what is not TLS can be answered.
//!
//! A read takes what came, two full records at least, and opens it straight into the reader's buffer; a write seals straight
//! into a buffer that one send takes. What the kernel does not take is kept, and goes before anything else. An idle
//! connection has no buffer.

use super::error::HandshakeError;
use super::handshake::{self, Done};
use super::info::Info;
use super::session::{End, Session};
use crate::buffer::Buf;
use crate::stream::Stream;
use rustix::net::SendFlags;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A connection over TLS. Its methods are those of [`Transport`](crate::transport::Transport).
pub struct TlsStream {
    socket: Stream,
    state: RefCell<Option<State>>,
    info: OnceCell<Box<Info>>,
    /// Whether closing tells that something went wrong.
    resets: Cell<bool>,
}

/// Behind the handshake.
struct State {
    session: Session,
    /// What came and was not opened yet: part of a record mostly.
    held: Buf,
    /// What was opened and not taken yet.
    rest: Buf,
    /// What was sealed and not sent yet.
    out: Buf,
    /// Whether the peer was told that this side has sent all.
    ended: bool,
    /// Whether the socket is to be shut down once `out` is sent.
    shuts: bool,
}

impl std::fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsStream").field("socket", &self.socket).field("info", &self.info).finish_non_exhaustive()
    }
}

impl State {
    /// Takes what there is into the buffer: how much, 0 at the end. `None`: something must come first.
    fn take(&mut self, socket: &Stream, buf: &mut Buf) -> Option<io::Result<usize>> {
        if buf.spare().is_empty() {
            return Some(Ok(0));
        }
        if !self.rest.is_empty() {
            let n = self.rest.len().min(buf.spare().len());
            buf.extend(&self.rest.filled()[..n]);
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
    fn open(&mut self, socket: &Stream, buf: &mut Buf) {
        self.session.open(&mut self.held, buf, &mut self.rest);
        if self.held.is_empty() {
            self.held = Buf::none();
        }
        if let End::Failed(_) = self.session.end {
            self.tell(socket);
        }
    }

    /// How it has ended, if it has.
    fn ended(&self) -> Option<io::Result<usize>> {
        match self.session.end {
            End::Open => None,
            End::Closed => Some(Ok(0)),
            End::Truncated => {
                let why = "the connection ended without the close_notify of TLS: data may be missing";
                Some(Err(io::Error::new(io::ErrorKind::UnexpectedEof, why)))
            }
            End::Failed(fault) => Some(Err(io::Error::new(io::ErrorKind::InvalidData, fault.text()))),
            End::Alerted(alert) => {
                Some(Err(io::Error::new(io::ErrorKind::ConnectionAborted, format!("the peer sent TLS alert {alert}"))))
            }
        }
    }

    /// Whether a read has something to take or to tell.
    fn has_come(&self) -> bool {
        !self.rest.is_empty() || !self.held.is_empty() || self.session.end != End::Open
    }

    /// Takes in what the socket has brought.
    fn came(&mut self, n: usize, wire: Buf) {
        if n > 0 {
            self.held = wire;
        } else if self.session.end == End::Open {
            self.session.end = End::Truncated;
        }
    }

    /// Sends what waits, if that can be done at once and nothing is before it.
    #[cold]
    fn tell(&mut self, socket: &Stream) {
        if self.out.is_empty() {
            let mut out = Buf::take_whole();
            self.session.seal_nothing(&mut out);
            if !out.is_empty() {
                socket.send_now(out.filled());
            }
        }
    }

    /// Has what the peer waits for sent before anything is written, if there is such.
    #[cold]
    fn say_awaited(&mut self, socket: &Stream) {
        if self.session.is_awaited() && self.out.is_empty() {
            let mut out = Buf::take_whole();
            self.session.seal_nothing(&mut out);
            out.consume(socket.send_now(out.filled()));
            self.out = if out.is_empty() { Buf::none() } else { out };
        }
    }

    /// Room for what comes, behind what came.
    fn room(&self) -> Buf {
        let mut wire = Buf::take_whole();
        wire.extend(self.held.filled());
        wire
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, socket: &Stream, flags: SendFlags) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let sent = ready!(socket.poll_io_write(cx, |fd| rustix::net::send(fd, self.out.filled(), flags)))?;
            self.out.consume(sent);
            if self.out.is_empty() {
                self.out = Buf::none();
                if self.shuts {
                    socket.shutdown_write();
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Tells the peer that this side has sent all, if that can be done at once.
    fn end(&mut self, socket: &Stream) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let mut out = Buf::take_whole();
        self.session.seal_end(&mut out);
        if self.out.is_empty() {
            out.consume(socket.send_now(out.filled()));
            self.out = if out.is_empty() { Buf::none() } else { out };
        } else if !self.out.extend(out.filled()) {
            let mut all = Buf::take_whole();
            // A buffer that is full of what was sealed for one write has room for this behind it, once it begins at its front;
            // and if not, the end is not told.
            all.extend(self.out.filled());
            all.extend(out.filled());
            self.out = all;
        }
    }
}

impl TlsStream {
    /// Takes over a socket, which is plain until its handshake.
    pub fn new(socket: Stream) -> TlsStream {
        TlsStream { socket, state: RefCell::new(None), info: OnceCell::new(), resets: Cell::new(false) }
    }

    /// Shakes hands as a server. `early`: what was read already. Configured with `enable_secret_extraction`. If it fails as no
    /// TLS came, the connection is as plain as before.
    ///
    /// # Errors
    /// Why it failed; the peer was told, where TLS has a word for it.
    pub async fn accept(&self, config: Arc<ServerConfig>, early: Option<Buf>) -> Result<&Info, HandshakeError> {
        let done = handshake::accept(&self.socket, config, early).await?;
        Ok(self.begin(done))
    }

    /// Shakes hands as a client of the server of this name. Configured with `enable_secret_extraction`.
    ///
    /// # Errors
    /// Why it failed; the peer was told, where TLS has a word for it.
    pub async fn connect(&self, config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<&Info, HandshakeError> {
        let done = handshake::connect(&self.socket, config, name).await?;
        Ok(self.begin(done))
    }

    fn begin(&self, Done { session, info, held }: Done) -> &Info {
        let held = if held.is_empty() { Buf::none() } else { held };
        let state = State { session, held, rest: Buf::none(), out: Buf::none(), ended: false, shuts: false };
        self.state.replace(Some(state));
        self.info.get_or_init(|| Box::new(info))
    }

    /// What was agreed; `None` before.
    pub fn info(&self) -> Option<&Info> {
        self.info.get().map(|info| &**info)
    }

    /// The socket, for what is not read or written.
    pub fn socket(&self) -> &Stream {
        &self.socket
    }

    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, buf: &mut Buf) -> Poll<io::Result<usize>> {
        let mut state = self.state.borrow_mut();
        let Some(state) = &mut *state else { return self.socket.poll_read(cx, buf) };
        loop {
            if let Some(taken) = state.take(&self.socket, buf) {
                return Poll::Ready(taken);
            }
            ready!(self.poll_fill(cx, state))?;
        }
    }

    pub(crate) fn poll_read_into(
        &self,
        cx: &mut Context<'_>,
        room: impl Fn() -> Buf,
    ) -> Poll<io::Result<(usize, Buf)>> {
        let mut state = self.state.borrow_mut();
        let Some(state) = &mut *state else { return self.socket.poll_read_into(cx, room) };
        loop {
            if state.has_come() {
                let mut buf = room();
                if let Some(taken) = state.take(&self.socket, &mut buf) {
                    return Poll::Ready(taken.map(|n| (n, buf)));
                }
            }
            ready!(self.poll_fill(cx, state))?;
        }
    }

    pub(crate) fn read_ready(&self, room: impl Fn() -> Buf) -> Option<io::Result<(usize, Buf)>> {
        let mut state = self.state.borrow_mut();
        let Some(state) = &mut *state else { return self.socket.read_ready(room) };
        loop {
            if state.has_come() {
                let mut buf = room();
                if let Some(taken) = state.take(&self.socket, &mut buf) {
                    return Some(taken.map(|n| (n, buf)));
                }
            }
            match self.socket.read_ready(|| state.room())? {
                Ok((n, wire)) => state.came(n, wire),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Reads what came from the socket. What is still to be sent goes meanwhile.
    #[inline]
    fn poll_fill(&self, cx: &mut Context<'_>, state: &mut State) -> Poll<io::Result<()>> {
        if state.session.is_awaited() {
            state.say_awaited(&self.socket);
        }
        if !state.out.is_empty() {
            // What ails the socket is met when it is read.
            let _ = state.poll_flush(cx, &self.socket, SendFlags::NOSIGNAL);
        }
        let (n, wire) = ready!(self.socket.poll_read_into(cx, || state.room()))?;
        state.came(n, wire);
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_peek(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut state = self.state.borrow_mut();
        let Some(state) = &mut *state else { return self.socket.poll_peek(cx) };
        loop {
            if !state.rest.is_empty() {
                return Poll::Ready(Ok(state.rest.len()));
            }
            if state.has_come() {
                let mut opened = Buf::take();
                match state.take(&self.socket, &mut opened) {
                    Some(Ok(1..)) => {
                        // `rest` is empty: it takes only what the buffer has no room for, and that was all empty.
                        state.rest = opened;
                        continue;
                    }
                    Some(ended) => return Poll::Ready(ended),
                    None => {}
                }
            }
            ready!(self.poll_fill(cx, state))?;
        }
    }

    pub(crate) fn poll_write_before(&self, cx: &mut Context<'_>, bytes: &[u8], last: bool) -> Poll<io::Result<usize>> {
        let mut state = self.state.borrow_mut();
        let Some(state) = &mut *state else { return self.socket.poll_write_before(cx, bytes, last) };
        ready!(state.poll_flush(cx, &self.socket, SendFlags::NOSIGNAL))?;
        if bytes.is_empty() {
            state.say_awaited(&self.socket);
            return Poll::Ready(Ok(0));
        }
        if state.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let mut out = Buf::take_whole();
        let taken = state.session.seal(bytes, &mut out).map_err(|fault| io::Error::other(fault.text()))?;
        let mut flags = SendFlags::NOSIGNAL;
        if last && taken == bytes.len() {
            state.session.seal_end(&mut out);
            state.ended = true;
            flags |= SendFlags::MORE;
        }
        state.out = out;
        match state.poll_flush(cx, &self.socket, flags) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // What is not sent yet goes before all else.
            _ => Poll::Ready(Ok(taken)),
        }
    }

    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.state.borrow_mut() {
            Some(state) => state.poll_flush(cx, &self.socket, SendFlags::NOSIGNAL),
            None => Poll::Ready(Ok(())),
        }
    }

    pub(crate) async fn write(&self, buf: &mut Buf, last: bool) -> io::Result<()> {
        poll_fn(|cx| {
            while !buf.is_empty() {
                let n = ready!(self.poll_write_before(cx, buf.filled(), last))?;
                buf.consume(n);
            }
            self.poll_flush(cx)
        })
        .await
    }

    /// Tickets and new keys may come at any time.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let Some(state) = &mut *state else { return self.socket.is_quiet() };
        loop {
            if !state.rest.is_empty() || state.session.end != End::Open {
                return false;
            }
            if !state.held.is_empty() {
                let mut opened = Buf::take();
                state.open(&self.socket, &mut opened);
                if !opened.is_empty() {
                    state.rest = opened;
                }
                if !state.rest.is_empty() || state.session.end != End::Open {
                    return false;
                }
            }
            if self.socket.is_quiet() {
                return true;
            }
            match self.socket.read_ready(|| state.room()) {
                Some(Ok((n, wire))) => state.came(n, wire),
                Some(Err(_)) => return false,
                None => return true,
            }
        }
    }

    pub(crate) fn is_read_closed(&self) -> bool {
        match &*self.state.borrow() {
            Some(state) => state.session.end != End::Open || self.socket.is_read_closed(),
            None => self.socket.is_read_closed(),
        }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        match &*self.state.borrow() {
            Some(state) => state.session.end == End::Closed && state.rest.is_empty(),
            None => self.socket.is_at_end(),
        }
    }

    pub(crate) fn reset_on_close(&self, resets: bool) {
        self.resets.set(resets);
        self.socket.reset_on_close(resets);
    }

    pub(crate) fn shutdown_write(&self) {
        let mut state = self.state.borrow_mut();
        if let Some(state) = &mut *state {
            state.end(&self.socket);
            state.shuts = true;
            if !state.out.is_empty() {
                return;
            }
        }
        self.socket.shutdown_write();
    }
}

/// The peer is told of an end that is meant; one that is not looks like none.
impl Drop for TlsStream {
    fn drop(&mut self) {
        if let Some(state) = self.state.get_mut()
            && !self.resets.get()
            && matches!(state.session.end, End::Open | End::Closed)
            && state.out.is_empty()
        {
            state.end(&self.socket);
        }
    }
}

//! TLS connections with the interface of plain connections. Before its handshake a connection is plain, so that a
//! preamble before TLS can be read and plaintext can be answered.
//!
//! A read has room for at least two full records, and opens them directly into the reader's buffer; a write seals
//! directly into a buffer for a single send. The part that the kernel does not accept is kept, and precedes
//! everything else. An idle connection has no buffer.

use super::error::HandshakeError;
use super::handshake::{self, Done};
use super::info::{Info, Note};
use super::session::End;
use super::state::State;
use crate::buffer::Buf;
use crate::event_loop::budget::{charge_bytes, poll_proceed};
use crate::stream::Stream;
use rustix::net::SendFlags;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use std::cell::{OnceCell, RefCell};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A TLS connection. Methods correspond to the methods of [`Transport`](crate::transport::Transport).
pub struct TlsStream {
    socket: Stream,
    state: RefCell<Option<State>>,
    info: OnceCell<Box<Info>>,
}

impl std::fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsStream").field("socket", &self.socket).field("info", &self.info).finish_non_exhaustive()
    }
}

impl TlsStream {
    /// Takes ownership of a socket, which stays plain until the handshake.
    pub fn new(socket: Stream) -> TlsStream {
        TlsStream { socket, state: RefCell::new(None), info: OnceCell::new() }
    }

    /// Runs the handshake as a server. `early` holds bytes that were read already. `begins` is called when
    /// the ClientHello is complete, before the expensive part, and may refuse it. `note` builds the texts
    /// kept with the result. `config` must have `enable_secret_extraction`. If it fails because the peer does
    /// not speak TLS, the connection stays plain.
    ///
    /// # Errors
    /// The cause. The peer was sent an alert if it has any.
    pub async fn accept(
        &self,
        config: Arc<ServerConfig>,
        early: Option<Buf>,
        begins: impl FnOnce() -> Result<(), HandshakeError>,
        note: impl FnOnce(&Info) -> Note,
    ) -> Result<&Info, HandshakeError> {
        let mut done = handshake::accept(&self.socket, config, early, begins).await?;
        done.info.note = note(&done.info);
        if done.held.is_empty() {
            // Nothing is sent now that would carry an ACK for the client's last message, and many clients
            // delay their request until it arrives (Nagle's algorithm): 40 ms.
            self.socket.acknowledge();
        }
        Ok(self.begin(done))
    }

    /// Runs the handshake as a client of the server of this name. `config` must have
    /// `enable_secret_extraction`.
    ///
    /// # Errors
    /// The cause. The peer was sent an alert if it has any.
    pub async fn connect(&self, config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<&Info, HandshakeError> {
        let done = handshake::connect(&self.socket, config, name).await?;
        Ok(self.begin(done))
    }

    fn begin(&self, Done { session, info, held }: Done) -> &Info {
        let held = if held.is_empty() { Buf::none() } else { held };
        let [rest, out] = [Buf::none(), Buf::none()];
        let state = State { session, held, rest, out, ended: false, end_due: false, shuts: false };
        self.state.replace(Some(state));
        self.info.get_or_init(|| Box::new(info))
    }

    /// Parameters negotiated; `None` before the handshake.
    pub fn info(&self) -> Option<&Info> {
        self.info.get().map(|info| &**info)
    }

    /// Fatal alert with which the peer has ended the connection.
    pub fn alert(&self) -> Option<u8> {
        match self.state.borrow().as_ref()?.session.end {
            End::Alerted(alert) => Some(alert),
            _ => None,
        }
    }

    /// The socket, for operations other than reads and writes.
    pub fn socket(&self) -> &Stream {
        &self.socket
    }

    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, buf: &mut Buf) -> Poll<io::Result<usize>> {
        let mut state = self.state.borrow_mut();
        let Some(state) = &mut *state else { return self.socket.poll_read(cx, buf) };
        ready!(poll_proceed(cx));
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
        ready!(poll_proceed(cx));
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

    /// Reads from the socket. Pending output is sent meanwhile.
    #[inline]
    fn poll_fill(&self, cx: &mut Context<'_>, state: &mut State) -> Poll<io::Result<()>> {
        if state.session.is_awaited() {
            state.say_awaited(&self.socket);
        }
        if !state.out.is_empty() {
            // An error of the socket shows up when it is read.
            let _ = state.poll_flush(cx, &self.socket, SendFlags::NOSIGNAL);
        }
        let Poll::Ready(read) = self.socket.poll_read_into(cx, || state.room()) else {
            state.wait();
            return Poll::Pending;
        };
        let (n, wire) = read?;
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
                        // `rest` is empty: it only takes bytes that do not fit into the buffer, and that was
                        // empty.
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
        if state.ended || !state.session.may_send() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        loop {
            let mut out = Buf::take_whole();
            let taken = state.session.seal(bytes, &mut out).map_err(|fault| io::Error::other(fault.text()))?;
            charge_bytes(taken);
            let mut flags = SendFlags::NOSIGNAL;
            if last && taken == bytes.len() {
                state.ended = true;
                state.end_due = !state.session.seal_end(&mut out);
                flags |= SendFlags::MORE;
            }
            state.out = out;
            match state.poll_flush(cx, &self.socket, flags) {
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                // Unsent records precede everything else.
                _ if taken > 0 => return Poll::Ready(Ok(taken)),
                // Pending records have filled the buffer, and more may be pending.
                Poll::Ready(Ok(())) => {}
                Poll::Pending => return Poll::Pending,
            }
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

    /// Tickets and key updates may arrive at any time; a connection stays quiet after complete records.
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
                return state.is_between_records();
            }
            match self.socket.read_ready(|| state.room()) {
                Some(Ok((n, wire))) => state.came(n, wire),
                Some(Err(_)) => return false,
                None => return state.is_between_records(),
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

/// Sends `close_notify` on an orderly end; without it the peer would detect a truncation.
impl Drop for TlsStream {
    fn drop(&mut self) {
        if let Some(state) = self.state.get_mut()
            && !self.socket.resets_on_close()
            && matches!(state.session.end, End::Open | End::Closed)
            && state.out.is_empty()
        {
            state.end(&self.socket);
        }
    }
}

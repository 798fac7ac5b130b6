//! Byte streams of connections: [`Transport`] is an enum instead of a trait object, so that plain TCP stays a
//! direct call and splice can get at the socket ([`Transport::as_plain`]).

use crate::buffer::Buf;
use crate::stream::Stream;
use crate::tls::TlsStream;
use evenkeel_wire::proxy_protocol::Addresses;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

/// A connection as its users see it, whether plain or encrypted.
#[derive(Debug)]
pub enum Transport {
    /// TCP, or a Unix stream socket.
    Plain(Stream),
    /// TLS over such a socket; plain until its handshake.
    Tls(Box<TlsStream>),
}

impl From<Stream> for Transport {
    fn from(stream: Stream) -> Transport {
        Transport::Plain(stream)
    }
}

/// Evaluates the same expression for either variant.
macro_rules! each {
    ($transport:expr, $stream:ident => $work:expr) => {
        match $transport {
            Transport::Plain($stream) => $work,
            Transport::Tls($stream) => $work,
        }
    };
}

impl Transport {
    /// The socket, if its bytes are the bytes of the connection.
    #[inline]
    pub fn as_plain(&self) -> Option<&Stream> {
        match self {
            Transport::Plain(stream) => Some(stream),
            Transport::Tls(_) => None,
        }
    }

    /// The TLS connection; `None` if it is plain.
    #[inline]
    pub fn as_tls(&self) -> Option<&TlsStream> {
        match self {
            Transport::Plain(_) => None,
            Transport::Tls(stream) => Some(stream),
        }
    }

    /// The socket of either variant, not to be read or written.
    #[inline]
    fn socket(&self) -> &Stream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(stream) => stream.socket(),
        }
    }

    /// See [`Stream::send_at_once`].
    #[inline]
    pub fn send_at_once(&self) {
        self.socket().send_at_once();
    }

    /// See [`Stream::watch`].
    ///
    /// # Errors
    /// If the event loop cannot register it.
    pub fn watch(&self) -> io::Result<()> {
        self.socket().watch()
    }

    /// Reads into the buffer's room. Returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// Errors of `recv(2)`.
    #[inline]
    pub fn poll_read(&self, cx: &mut Context<'_>, buf: &mut Buf) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_read(cx, buf))
    }

    /// Reads into a buffer from `room`, which is called only when something may be there; see
    /// [`Stream::poll_read_into`].
    ///
    /// # Errors
    /// Errors of `recv(2)`.
    #[inline]
    pub fn poll_read_into(&self, cx: &mut Context<'_>, room: impl Fn() -> Buf) -> Poll<io::Result<(usize, Buf)>> {
        each!(self, stream => stream.poll_read_into(cx, room))
    }

    /// Like [`poll_read_into`](Self::poll_read_into) without waiting; see [`Stream::read_ready`].
    pub fn read_ready(&self, room: impl Fn() -> Buf) -> Option<io::Result<(usize, Buf)>> {
        each!(self, stream => stream.read_ready(room))
    }

    /// Writes part of `bytes`, and returns the number of bytes taken.
    ///
    /// # Errors
    /// Errors of `send(2)`.
    #[inline]
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_before(cx, bytes, false)
    }

    /// Like [`poll_write`](Self::poll_write), with `last` as for [`write`](Self::write).
    ///
    /// # Errors
    /// Errors of `send(2)`.
    #[inline]
    pub fn poll_write_before(&self, cx: &mut Context<'_>, bytes: &[u8], last: bool) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write_before(cx, bytes, last))
    }

    /// Waits until everything taken was passed to the kernel. [`write`](Self::write) does that itself; a
    /// partial write may leave sealed records behind, which are sent before the next, or while the connection
    /// is read.
    ///
    /// # Errors
    /// Errors of `send(2)`.
    #[inline]
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(_) => Poll::Ready(Ok(())),
            Transport::Tls(stream) => stream.poll_flush(cx),
        }
    }

    /// Waits until something can be read, and leaves it there. Returns 0 at the end.
    ///
    /// # Errors
    /// Errors of `recv(2)`.
    pub fn poll_peek(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_peek(cx))
    }

    /// Waits until the peer has reset the connection; see [`Stream::poll_reset`].
    pub fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.socket().poll_reset(cx)
    }

    /// Reads some bytes. Returns their number, 0 at the end.
    ///
    /// # Errors
    /// Errors of `recv(2)`.
    pub async fn read(&self, buf: &mut Buf) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buf)).await
    }

    /// Reads into a buffer that is taken only when something is there, so that waiting holds none. Empty at
    /// the end.
    ///
    /// # Errors
    /// Errors of `recv(2)`.
    #[inline]
    pub async fn read_some(&self) -> io::Result<Buf> {
        poll_fn(|cx| self.poll_read_into(cx, Buf::take)).await.map(|(_, buf)| buf)
    }

    /// Writes as much as is taken at once, waiting only until something is. Returns the number of bytes.
    ///
    /// # Errors
    /// Errors of `send(2)`; for a connection in progress, the reason why it was not established.
    #[inline]
    pub async fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_write(cx, bytes)).await
    }

    /// Writes all bytes of the buffer, which is empty afterwards.
    ///
    /// # Errors
    /// Errors of `send(2)`.
    #[inline]
    pub async fn write_all(&self, buf: &mut Buf) -> io::Result<()> {
        self.write(buf, false).await
    }

    /// Like [`write_all`](Self::write_all). With `last`, the connection ends after these bytes; see
    /// [`Stream::write`].
    ///
    /// # Errors
    /// Errors of `send(2)`.
    #[inline]
    pub async fn write(&self, buf: &mut Buf, last: bool) -> io::Result<()> {
        each!(self, stream => stream.write(buf, last).await)
    }

    /// True if nothing has arrived on a connection that should be silent: no relevant bytes, no end, no
    /// error.
    pub fn is_quiet(&self) -> bool {
        each!(self, stream => stream.is_quiet())
    }

    /// True if the event loop knows that the peer sends nothing after the bytes that wait to be read.
    pub fn is_read_closed(&self) -> bool {
        each!(self, stream => stream.is_read_closed())
    }

    /// True if a short read took the last bytes of the peer, so that its end needs no separate read.
    pub fn is_at_end(&self) -> bool {
        each!(self, stream => stream.is_at_end())
    }

    /// Addresses of the peer and of this side; `None` if the connection has failed.
    pub fn addresses(&self) -> Option<Addresses> {
        self.socket().addresses()
    }

    /// Bytes that the peer's kernel has not acknowledged, and that a reset would discard.
    pub fn unacknowledged(&self) -> usize {
        self.socket().unacknowledged()
    }

    /// Sets whether closing resets the connection, so that the peer does not take a truncated message for
    /// complete.
    pub fn reset_on_close(&self, resets: bool) {
        self.socket().reset_on_close(resets);
    }

    /// True if closing resets the connection.
    pub fn resets_on_close(&self) -> bool {
        self.socket().resets_on_close()
    }

    /// Makes the kernel probe the peer after this much silence; see [`Stream::keep_alive`].
    pub fn keep_alive(&self, after: Duration) {
        self.socket().keep_alive(after);
    }

    /// Makes the kernel end the connection when sent bytes stay unacknowledged for this long.
    pub fn limit_unacknowledged(&self, most: Duration) {
        self.socket().limit_unacknowledged(most);
    }

    /// Discards received bytes, whatever they mean. Returns their number, 0 at the end. Nothing can be read
    /// afterwards.
    ///
    /// # Errors
    /// Errors of `recv(2)`.
    pub fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.socket().poll_discard(cx)
    }

    /// Ends this side's direction, over TLS with a `close_notify`.
    pub fn shutdown_write(&self) {
        each!(self, stream => stream.shutdown_write());
    }
}

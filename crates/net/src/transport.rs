//! What carries a connection's bytes? A [`Transport`]: an enum and not a trait object, so that plain TCP stays a direct call
//! and splice can ask for the socket itself ([`Transport::as_plain`]).

use crate::buffer::Buf;
use crate::stream::Stream;
use crate::tls::TlsStream;
use evenkeel_wire::proxy_protocol::Addresses;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

/// One connection, as those who read and write it see it. What the methods say holds whatever carries it.
#[derive(Debug)]
pub enum Transport {
    /// TCP, or a stream socket of the same machine.
    Plain(Stream),
    /// TLS over that, once it has shaken hands.
    Tls(Box<TlsStream>),
}

impl From<Stream> for Transport {
    fn from(stream: Stream) -> Transport {
        Transport::Plain(stream)
    }
}

/// Does the same with whatever carries it.
macro_rules! each {
    ($transport:expr, $stream:ident => $work:expr) => {
        match $transport {
            Transport::Plain($stream) => $work,
            Transport::Tls($stream) => $work,
        }
    };
}

impl Transport {
    /// The socket, where its bytes are those of the connection.
    #[inline]
    pub fn as_plain(&self) -> Option<&Stream> {
        match self {
            Transport::Plain(stream) => Some(stream),
            Transport::Tls(_) => None,
        }
    }

    /// The connection as one over TLS, if it is one.
    #[inline]
    pub fn as_tls(&self) -> Option<&TlsStream> {
        match self {
            Transport::Plain(_) => None,
            Transport::Tls(stream) => Some(stream),
        }
    }

    /// The socket, whatever it carries: not to be read or written.
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
    /// The event loop cannot take it.
    pub fn watch(&self) -> io::Result<()> {
        self.socket().watch()
    }

    /// Reads into the buffer's room: the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// As `recv(2)`.
    #[inline]
    pub fn poll_read(&self, cx: &mut Context<'_>, buf: &mut Buf) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_read(cx, buf))
    }

    /// Reads into what `room` takes, which is asked for only when something may be there; see [`Stream::poll_read_into`].
    ///
    /// # Errors
    /// As `recv(2)`.
    #[inline]
    pub fn poll_read_into(&self, cx: &mut Context<'_>, room: impl Fn() -> Buf) -> Poll<io::Result<(usize, Buf)>> {
        each!(self, stream => stream.poll_read_into(cx, room))
    }

    /// The same without waiting; see [`Stream::read_ready`].
    pub fn read_ready(&self, room: impl Fn() -> Buf) -> Option<io::Result<(usize, Buf)>> {
        each!(self, stream => stream.read_ready(room))
    }

    /// Writes some of `bytes`: how many.
    ///
    /// # Errors
    /// As `send(2)`.
    #[inline]
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_before(cx, bytes, false)
    }

    /// The same. `last`: as for [`write`](Self::write).
    ///
    /// # Errors
    /// As `send(2)`.
    #[inline]
    pub fn poll_write_before(&self, cx: &mut Context<'_>, bytes: &[u8], last: bool) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write_before(cx, bytes, last))
    }

    /// Waits until what was taken has been given to the kernel. [`write`](Self::write) does so itself; a write of some bytes
    /// may leave sealed ones behind, which go before the next, or while the connection is read.
    ///
    /// # Errors
    /// As `send(2)`.
    #[inline]
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(_) => Poll::Ready(Ok(())),
            Transport::Tls(stream) => stream.poll_flush(cx),
        }
    }

    /// Waits until something can be read, without reading it: 0 at the end.
    ///
    /// # Errors
    /// As `recv(2)`.
    pub fn poll_peek(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_peek(cx))
    }

    /// Whether the peer has reset the connection; see [`Stream::poll_reset`].
    pub fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.socket().poll_reset(cx)
    }

    /// Reads some bytes: how many, 0 at the end.
    ///
    /// # Errors
    /// As `recv(2)`.
    pub async fn read(&self, buf: &mut Buf) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buf)).await
    }

    /// Reads into a buffer that is taken only when something is there, so that waiting holds none. Empty at the end.
    ///
    /// # Errors
    /// As `recv(2)`.
    #[inline]
    pub async fn read_some(&self) -> io::Result<Buf> {
        poll_fn(|cx| self.poll_read_into(cx, Buf::take)).await.map(|(_, buf)| buf)
    }

    /// Writes what is taken at once, waiting only until anything is.
    ///
    /// # Errors
    /// As `send(2)`; on a connection under way, why it was not established.
    #[inline]
    pub async fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_write(cx, bytes)).await
    }

    /// Writes all bytes of the buffer, which is empty afterwards.
    ///
    /// # Errors
    /// As `send(2)`.
    #[inline]
    pub async fn write_all(&self, buf: &mut Buf) -> io::Result<()> {
        self.write(buf, false).await
    }

    /// As [`write_all`](Self::write_all). `last`: the connection ends behind these bytes; see [`Stream::write`].
    ///
    /// # Errors
    /// As `send(2)`.
    #[inline]
    pub async fn write(&self, buf: &mut Buf, last: bool) -> io::Result<()> {
        each!(self, stream => stream.write(buf, last).await)
    }

    /// Whether nothing came on a connection that should be silent: no bytes that matter, no end, no error.
    pub fn is_quiet(&self) -> bool {
        each!(self, stream => stream.is_quiet())
    }

    /// Whether the event loop knows that the peer sends no more than what waits to be read.
    pub fn is_read_closed(&self) -> bool {
        each!(self, stream => stream.is_read_closed())
    }

    /// Whether a read that was short took the last that the peer sends: its end needs no read of its own.
    pub fn is_at_end(&self) -> bool {
        each!(self, stream => stream.is_at_end())
    }

    /// The addresses of the peer and of this side; `None` when the connection has failed.
    pub fn addresses(&self) -> Option<Addresses> {
        self.socket().addresses()
    }

    /// Bytes that the peer's kernel has not acknowledged: a close with a reset discards them.
    pub fn unacknowledged(&self) -> usize {
        self.socket().unacknowledged()
    }

    /// Sets whether closing resets the connection, so that the peer does not take what it got for whole.
    pub fn reset_on_close(&self, resets: bool) {
        self.socket().reset_on_close(resets);
    }

    /// True if closing resets the connection.
    pub fn resets_on_close(&self) -> bool {
        self.socket().resets_on_close()
    }

    /// Has the kernel ask the peer for a sign of life after each `after` of silence.
    pub fn keep_alive(&self, after: Duration) {
        self.socket().keep_alive(after);
    }

    /// Has the kernel end the connection when sent bytes stay unacknowledged for this long.
    pub fn limit_unacknowledged(&self, most: Duration) {
        self.socket().limit_unacknowledged(most);
    }

    /// Discards bytes that have arrived, whatever they mean. Returns their number, 0 at the end. Nothing can be read afterwards.
    ///
    /// # Errors
    /// The errors of `recv(2)`.
    pub fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.socket().poll_discard(cx)
    }

    /// Says that no more bytes will be written. Over TLS the peer is told by a `close_notify`, too.
    pub fn shutdown_write(&self) {
        each!(self, stream => stream.shutdown_write());
    }
}

//! How are bytes read from and written to a socket? Directly; the event loop hears of it only when that would block.
//!
//! A client that sends one request and gets its answer may never be registered with the event loop: no `epoll_ctl`, no
//! wakeup (measured: 21.5 -> 15.7 us a request where the client closes). All methods take `&self`, so that both
//! directions of a connection can be under way in one task.

use crate::buffer::Buf;
use crate::proxy_protocol::Addresses;
use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use socket2::{SockRef, TcpKeepalive};
use std::cell::{Cell, OnceCell};
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// A non-blocking TCP socket.
#[derive(Debug)]
pub struct Stream {
    /// Before `fd`: it must be deregistered while the descriptor is open.
    registered: OnceCell<AsyncFd<RawFd>>,
    fd: OwnedFd,
    /// Whether the kernel was told to send small writes at once.
    at_once: Cell<bool>,
}

impl Stream {
    /// Takes over a non-blocking socket.
    pub fn new(fd: OwnedFd) -> Stream {
        Stream { registered: OnceCell::new(), fd, at_once: Cell::new(false) }
    }

    /// From now on a small write does not wait for the acknowledgement of the one before (`TCP_NODELAY`). Not needed for
    /// the first write, and so not done for a connection that sees only one. An error does not matter: it is slower then.
    pub fn send_at_once(&self) {
        if !self.at_once.replace(true) {
            let _ = rustix::net::sockopt::set_tcp_nodelay(&self.fd, true);
        }
    }

    /// Has the event loop watch the socket at once: the next read would find nothing there yet.
    ///
    /// # Errors
    /// The event loop cannot take it.
    pub fn watch(&self) -> io::Result<()> {
        self.registered().map(|_| ())
    }

    #[inline]
    fn registered(&self) -> io::Result<&AsyncFd<RawFd>> {
        match self.registered.get() {
            Some(registered) => Ok(registered),
            None => self.register(),
        }
    }

    #[cold]
    fn register(&self) -> io::Result<&AsyncFd<RawFd>> {
        // SAFETY: the descriptor is owned by this stream, and closed only after the registration is gone: fields drop in
        // the order of their declaration.
        let registered = unsafe { AsyncFd::register(self.fd.as_raw_fd()) }?;
        Ok(self.registered.get_or_init(|| registered))
    }

    /// Reads into the buffer's room: the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// As `recv(2)`.
    #[inline]
    pub fn poll_read(&self, cx: &mut Context<'_>, buf: &mut Buf) -> Poll<io::Result<usize>> {
        if self.registered.get().is_none() {
            match recv(&self.fd, buf) {
                Err(Errno::AGAIN) => {}
                result => return Poll::Ready(result.map_err(Into::into)),
            }
        }
        let registered = self.registered()?;
        loop {
            let mut guard = ready!(registered.poll_read_ready(cx))?;
            let room = buf.spare().len();
            match recv(&self.fd, buf) {
                Err(Errno::AGAIN) => guard.clear_ready(),
                Ok(n) => {
                    // A short read has emptied the socket: do not come back just to hear EAGAIN. The mark of a closed
                    // peer survives this.
                    if 0 < n && n < room {
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(n));
                }
                Err(e) => return Poll::Ready(Err(e.into())),
            }
        }
    }

    /// Writes some of `bytes`: how many.
    ///
    /// # Errors
    /// As `send(2)`.
    #[inline]
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, bytes, SendFlags::NOSIGNAL)
    }

    /// The same. `last`: as for [`write`](Self::write).
    ///
    /// # Errors
    /// As `send(2)`.
    #[inline]
    pub fn poll_write_before(&self, cx: &mut Context<'_>, bytes: &[u8], last: bool) -> Poll<io::Result<usize>> {
        self.poll_send(cx, bytes, if last { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL })
    }

    /// Whether the event loop knows that the peer sends no more than what waits to be read.
    pub fn is_read_closed(&self, cx: &mut Context<'_>) -> bool {
        let Some(registered) = self.registered.get() else { return false };
        matches!(registered.poll_read_ready(cx), Poll::Ready(Ok(guard)) if guard.ready().is_read_closed())
    }

    #[inline]
    fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8], flags: SendFlags) -> Poll<io::Result<usize>> {
        self.poll_io_write(cx, |fd| rustix::net::send(fd, bytes, flags))
    }

    /// Waits until something can be read, without reading it: 0 at the end.
    ///
    /// # Errors
    /// As `recv(2)`.
    pub fn poll_peek(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.poll_io_read(cx, |fd| rustix::net::recv(fd, &mut [0u8; 1], RecvFlags::PEEK).map(|(n, _)| n))
    }

    /// Does something that reads from the socket, as soon as it does not block.
    ///
    /// # Errors
    /// As the operation's; an interrupted one is done again.
    pub fn poll_io_read(
        &self,
        cx: &mut Context<'_>,
        mut io: impl FnMut(&OwnedFd) -> Result<usize, Errno>,
    ) -> Poll<io::Result<usize>> {
        let registered = self.registered()?;
        loop {
            let mut guard = ready!(registered.poll_read_ready(cx))?;
            match io(&self.fd) {
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(Errno::INTR) => {}
                result => return Poll::Ready(result.map_err(Into::into)),
            }
        }
    }

    /// Does something that writes to the socket, as soon as it does not block.
    ///
    /// # Errors
    /// As the operation's; an interrupted one is done again.
    #[inline]
    pub fn poll_io_write(
        &self,
        cx: &mut Context<'_>,
        mut io: impl FnMut(&OwnedFd) -> Result<usize, Errno>,
    ) -> Poll<io::Result<usize>> {
        // First without asking: a socket is nearly always writable, and one just connected may already be.
        loop {
            match io(&self.fd) {
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                result => return Poll::Ready(result.map_err(Into::into)),
            }
        }
        let registered = self.registered()?;
        loop {
            let mut guard = ready!(registered.poll_write_ready(cx))?;
            match io(&self.fd) {
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(Errno::INTR) => {}
                result => return Poll::Ready(result.map_err(Into::into)),
            }
        }
    }

    /// Reads some bytes: how many, 0 at the end.
    ///
    /// # Errors
    /// As `recv(2)`.
    pub async fn read(&self, buf: &mut Buf) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buf)).await
    }

    /// Writes all bytes of the buffer, which is empty afterwards.
    ///
    /// # Errors
    /// As `send(2)`.
    #[inline]
    pub async fn write_all(&self, buf: &mut Buf) -> io::Result<()> {
        self.write(buf, false).await
    }

    /// As [`write_all`](Self::write_all). `last`: the stream ends behind these bytes, and the kernel may wait with them for
    /// its end, which then travels in the same packet. Whoever says so must close, shut down or write on at once.
    ///
    /// # Errors
    /// As `send(2)`.
    #[inline]
    pub async fn write(&self, buf: &mut Buf, last: bool) -> io::Result<()> {
        let flags = if last { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
        poll_fn(|cx| {
            while !buf.is_empty() {
                let n = ready!(self.poll_send(cx, buf.filled(), flags))?;
                buf.consume(n);
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Whether nothing came on a connection that should be silent: no bytes, no end, no error. Asks the event loop's
    /// notes, and the socket only if those say that something is there, or if there are none.
    pub fn is_quiet(&self, cx: &mut Context<'_>) -> bool {
        if self.registered.get().is_none() {
            return self.peek() == Err(Errno::AGAIN);
        }
        let Ok(registered) = self.registered() else { return false };
        loop {
            match registered.poll_read_ready(cx) {
                Poll::Pending => return true,
                Poll::Ready(Err(_)) => return false,
                // A read that filled its buffer left the mark standing although nothing more was there.
                Poll::Ready(Ok(mut guard)) if self.peek() == Err(Errno::AGAIN) => guard.clear_ready(),
                Poll::Ready(Ok(_)) => return false,
            }
        }
    }

    fn peek(&self) -> Result<usize, Errno> {
        rustix::net::recv(&self.fd, &mut [0u8; 1][..], RecvFlags::PEEK).map(|(n, _)| n)
    }

    /// Whether the peer has reset the connection: it can neither send nor take anything more. A peer that only says that it
    /// will send no more may still wait for an answer.
    pub fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Ok(registered) = self.registered() else { return Poll::Pending };
        loop {
            let Ok(mut guard) = ready!(registered.poll_write_ready(cx)) else { return Poll::Pending };
            if guard.ready().is_write_closed() {
                return Poll::Ready(());
            }
            // Whoever writes tries first and asks then, so nobody misses this mark.
            guard.clear_ready();
        }
    }

    /// The addresses of the peer and of this side; `None` when the connection has failed, and then nobody needs them.
    pub fn addresses(&self) -> Option<Addresses> {
        let peer = rustix::net::getpeername(&self.fd).ok()??;
        let (source, here) = (peer.try_into().ok()?, rustix::net::getsockname(&self.fd).ok()?);
        Some(Addresses { source, destination: here.try_into().ok()? })
    }

    /// Whether closing tells the peer that something went wrong. An error does not matter: then it is not told.
    pub fn reset_on_close(&self, resets: bool) {
        let linger = resets.then_some(Duration::ZERO);
        let _ = rustix::net::sockopt::set_socket_linger(&self.fd, linger);
    }

    /// Has the kernel ask the peer for a sign of life after each `after` of silence. An error does not matter: then silence
    /// ends by a timeout.
    pub fn keep_alive(&self, after: Duration) {
        let every = TcpKeepalive::new().with_time(after).with_interval(after);
        let _ = SockRef::from(&self.fd).set_tcp_keepalive(&every);
    }

    /// Says that no more bytes will be written. Errors do not matter: the peer may be gone.
    pub fn shutdown_write(&self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
    }
}

#[inline]
fn recv(fd: &OwnedFd, buf: &mut Buf) -> Result<usize, Errno> {
    loop {
        match rustix::net::recv(fd, buf.spare(), RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
            Ok((n, _)) => {
                buf.fill(n);
                return Ok(n);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::task::Waker;

    /// A connection that was read without waiting was never registered, and the event loop has no notes of it.
    #[test]
    fn what_came_is_noticed_whether_the_event_loop_watches_or_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let _in_it = runtime.enter();
        let quiet = |stream: &Stream| stream.is_quiet(&mut Context::from_waker(Waker::noop()));
        for closes in [false, true] {
            let (mut peer, ours) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let stream = Stream::new(ours.into());
            assert!(quiet(&stream));
            if closes {
                drop(peer)
            } else {
                peer.write_all(b"x").unwrap()
            }
            assert!(!quiet(&stream));
        }
    }
}

//! tokio's I/O traits for [`Transport`], for crates that need them. The event loop is still that of this
//! crate.

use crate::buffer::Buf;
use crate::transport::Transport;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Transport>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let Transport::Plain(stream) = &*self else {
            let room = buf.remaining();
            let limited = || {
                let mut taken = Buf::take();
                taken.limit(room);
                taken
            };
            let (_, taken) = ready!(Transport::poll_read_into(&self, cx, limited))?;
            buf.put_slice(taken.filled());
            return Poll::Ready(Ok(()));
        };
        // SAFETY: nothing in it is de-initialised: the kernel only writes to its front.
        let room = unsafe { buf.unfilled_mut() };
        let n = ready!(stream.poll_read_slice(cx, room))?;
        // SAFETY: `n` bytes were written there.
        unsafe { buf.assume_init(n) };
        buf.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Transport>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Transport::poll_write(&self, cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Transport>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Transport::poll_flush(&self, cx)
    }

    fn poll_shutdown(self: Pin<&mut Transport>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shutdown_write();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::{run, spawn};
    use crate::stream::Stream;
    use std::os::unix::net::UnixStream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn bytes_go_both_ways_until_each_says_its_end() {
        let [mut one, mut other] = {
            let (one, other) = UnixStream::pair().unwrap();
            [one, other].map(|socket| {
                socket.set_nonblocking(true).unwrap();
                Transport::from(Stream::new(socket.into()))
            })
        };
        // More than the sockets hold, so that both have to wait.
        let sent: Vec<u8> = (0..2_000_000_u32).map(|n| (n / 7) as u8).collect();
        let expected = sent.clone();
        run(async move {
            let (done, is_done) = tokio::sync::oneshot::channel();
            spawn(async move {
                let mut came = Vec::new();
                other.read_to_end(&mut came).await.unwrap();
                assert!(came == expected);
                AsyncWriteExt::write_all(&mut other, b"all of it").await.unwrap();
                other.shutdown().await.unwrap();
                done.send(()).unwrap();
            });
            AsyncWriteExt::write_all(&mut one, &sent).await.unwrap();
            one.flush().await.unwrap();
            one.shutdown().await.unwrap();
            let mut answer = String::new();
            assert_eq!(AsyncReadExt::read(&mut one, &mut []).await.unwrap(), 0);
            one.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "all of it");
            is_done.await.unwrap();
        })
        .unwrap();
    }
}

//! A connection that fails when its client does not read: an answer is kept in memory until it was taken.

use crate::numbers::{Reason, SocketNumbers};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Time that a client has for [`PROGRESS`] bytes of an answer.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes that begin the time anew. Less, and a client could hold an answer by taking a byte now and then.
const PROGRESS: usize = 16 << 10;

/// A stream whose writes time out.
pub struct Stalled<S> {
    stream: S,
    /// Runs while the client does not take written bytes.
    timeout: Option<Pin<Box<Sleep>>>,
    /// Bytes written since it runs.
    moved: usize,
    numbers: Arc<SocketNumbers>,
}

impl<S> Stalled<S> {
    /// Counts clients that stalled in `numbers`.
    pub fn new(stream: S, numbers: Arc<SocketNumbers>) -> Stalled<S> {
        Stalled { stream, timeout: None, moved: 0, numbers }
    }

    fn written(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let Poll::Pending = written else {
            if let Poll::Ready(Ok(n)) = &written {
                self.moved = self.moved.saturating_add(*n);
                if self.moved >= PROGRESS {
                    self.timeout = None;
                }
            }
            return written;
        };
        let timeout = self.timeout.get_or_insert_with(|| {
            self.moved = 0;
            Box::pin(sleep(WRITE_TIMEOUT))
        });
        ready!(timeout.as_mut().poll(cx));
        self.numbers.count(Reason::Stalled);
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalled<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called once all is written, so nothing stalls any more.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.timeout = None;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    fn paused() -> tokio::runtime::Runtime {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().expect("a runtime")
    }

    #[test]
    fn a_client_that_does_not_read_is_gone_after_a_while() {
        paused().block_on(async {
            let (ours, _theirs) = duplex(1 << 10);
            let numbers = Arc::<SocketNumbers>::default();
            let mut stalled = Stalled::new(ours, numbers.clone());
            let began = tokio::time::Instant::now();
            let error = stalled.write_all(&[0; 4 << 10]).await.expect_err("nothing is read");
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert!(began.elapsed() >= WRITE_TIMEOUT && began.elapsed() < WRITE_TIMEOUT * 2);
            assert_eq!(numbers.counted(Reason::Stalled), 1);
        });
    }

    #[test]
    fn a_byte_now_and_then_is_not_reading() {
        paused().block_on(async {
            let (ours, mut theirs) = duplex(1 << 10);
            let mut stalled = Stalled::new(ours, Arc::default());
            let drip = async {
                loop {
                    tokio::time::sleep(WRITE_TIMEOUT / 10).await;
                    if theirs.read_u8().await.is_err() {
                        break;
                    }
                }
            };
            tokio::select! {
                written = stalled.write_all(&[0; 4 << 10]) => assert!(written.is_err()),
                () = drip => unreachable!("it reads as long as there is something"),
            }
        });
    }

    #[test]
    fn a_slow_client_and_a_quiet_stream_are_served() {
        paused().block_on(async {
            let (ours, mut theirs) = duplex(8 << 10);
            let mut stalled = Stalled::new(ours, Arc::default());
            let read = async {
                let mut part = [0; 8 << 10];
                for _ in 0..32 {
                    tokio::time::sleep(WRITE_TIMEOUT / 4).await;
                    theirs.read_exact(&mut part).await.expect("it is written");
                }
            };
            let write = async {
                stalled.write_all(&vec![0; 256 << 10]).await.expect("it is read");
                stalled.flush().await.expect("all was written");
            };
            tokio::join!(read, write);
            tokio::time::sleep(WRITE_TIMEOUT * 10).await;
            stalled.write_all(b"later").await.expect("the time runs only while it waits");
        });
    }
}

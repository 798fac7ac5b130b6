//! Transfer of large bodies without copying, through a kernel pipe: splice(2) moves references to pages from
//! a socket to another.
//!
//! Measured on a busy machine, interleaved, medians of five: 501 us of CPU time for 1 MB, against 579 copied.
//!
//! For HTTP this applies only to the rest of a body of known length: chunks must be read to find their end.
//! Small bodies arrive with their head in a single read, and copying a few kilobytes is cheaper than the detour.

use crate::memory::pages;
use crate::stream::Stream;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::io::retry_on_intr;
use rustix::pipe::{
    IoSliceRaw, PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice, vmsplice,
};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

/// Remaining bytes of a body from which on it is spliced.
pub const SPLICE_MIN: u64 = 16 * 1024;

/// Preferred pipe sizes, in bytes: the more passes at once, the fewer ACKs and wakeups. Measured for 1 MB
/// over TCP, interleaved, as a share of HAProxy's time: 0.97 with 64 KiB, 0.85 with 256 KiB, 0.82 with 1 MiB.
const PIPE_SIZES: [usize; 2] = [1024 * 1024, 256 * 1024];

/// Smallest useful pipe, in bytes. The kernel limits each user's pipes, and beyond that they hold a page or
/// two: a copy is then cheaper.
const PIPE_SIZE_MIN: usize = 64 * 1024;

/// Most pipes of a worker; further transfers are copied. A slow reader may keep its pipe full for long, and
/// pipes are kernel memory.
const PIPES_MAX: usize = 64;

thread_local! {
    static FREE: RefCell<Vec<(OwnedFd, OwnedFd, usize)>> = const { RefCell::new(Vec::new()) };
    static MADE: Cell<usize> = const { Cell::new(0) };
}

/// A pipe. Returns to its worker when dropped, unless bytes are left in it.
#[derive(Debug)]
pub struct Pipe {
    /// Read end, write end and size; `Some` until it is dropped.
    ends: Option<(OwnedFd, OwnedFd, usize)>,
    held: usize,
}

impl Pipe {
    /// Takes a pipe; `None` if the worker has too many or the kernel refuses.
    pub fn take() -> Option<Pipe> {
        let free = FREE.with_borrow_mut(Vec::pop);
        let ends = match free {
            Some(ends) => ends,
            None if MADE.get() >= PIPES_MAX => return None,
            None => {
                let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).ok()?;
                let enlarged = PIPE_SIZES.iter().find_map(|&size| fcntl_setpipe_size(&write, size).ok());
                let size = enlarged.or_else(|| fcntl_getpipe_size(&write).ok())?;
                if size < PIPE_SIZE_MIN {
                    return None;
                }
                MADE.set(MADE.get() + 1);
                (read, write, size)
            }
        };
        Some(Pipe { ends: Some(ends), held: 0 })
    }

    /// Moves up to `most` bytes from `from` into the pipe, which must be empty. Returns their number, 0 at
    /// the end of the stream.
    ///
    /// # Errors
    /// Errors of `splice(2)`.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>, from: &Stream, most: u64) -> Poll<io::Result<usize>> {
        let Pipe { ends: Some((_, write, size)), held } = self else { return Poll::Ready(Ok(0)) };
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(*size);
        *held = ready!(from.poll_io_read(cx, |fd| transfer(fd, write, most)))?;
        Poll::Ready(Ok(*held))
    }

    /// Makes the pipe, which must be empty, refer to the first of these bytes. Returns how many.
    ///
    /// # Errors
    /// Errors of `vmsplice(2)`, or that the bytes are not in separate pages.
    pub fn fill_from(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Pipe { ends: Some((_, write, size)), held } = self else { return Ok(0) };
        if !pages::are_own(bytes) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes = &bytes[..bytes.len().min(*size)];
        let all = [IoSliceRaw::from_slice(bytes)];
        // SAFETY: this is the write end, so the kernel only reads. Separate pages do not change, even once they are
        // dropped here.
        *held = retry_on_intr(|| unsafe { vmsplice(&*write, &all, SpliceFlags::NONBLOCK) })?;
        Ok(*held)
    }

    /// Moves bytes out of the pipe, as many as `to` takes at once. Returns their number, 0 if the pipe is empty.
    ///
    /// # Errors
    /// Errors of `splice(2)`.
    pub fn poll_drain(&mut self, cx: &mut Context<'_>, to: &Stream) -> Poll<io::Result<usize>> {
        let Pipe { ends: Some((read, ..)), held } = self else { return Poll::Ready(Ok(0)) };
        if *held == 0 {
            return Poll::Ready(Ok(0));
        }
        let moved = ready!(to.poll_io_write(cx, |fd| transfer(read, fd, *held)))?;
        *held -= moved;
        Poll::Ready(Ok(moved))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let Some(ends) = self.ends.take() else { return };
        if self.held > 0 {
            return MADE.set(MADE.get() - 1);
        }
        // During thread teardown a pipe is simply closed.
        let _ = FREE.try_with(|free| free.borrow_mut().push(ends));
    }
}

/// Side that ended a transfer early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Source: it failed, or closed before all bytes had arrived.
    From,
    /// Destination: it failed or was reset.
    To,
}

/// Moves `left` bytes between two sockets, and calls `moved` with the size of each part that was written.
/// `to_due` is incremented while the transfer waits for the destination.
///
/// # Errors
/// The side that ended it early. Bytes in the pipe are lost, and so is the connection.
pub async fn relay(
    mut pipe: Pipe,
    from: &Stream,
    to: &Stream,
    left: &mut u64,
    to_due: &Cell<u8>,
    moved: impl Fn(usize),
) -> Result<(), Side> {
    while *left > 0 {
        let all = match poll_fn(|cx| pipe.poll_fill(cx, from, *left)).await {
            Ok(n) if n > 0 => n,
            _ => return Err(Side::From),
        };
        *left -= all as u64;
        to_due.update(|n| n + 1);
        while let n @ 1.. = poll_fn(|cx| pipe.poll_drain(cx, to)).await.map_err(|_| Side::To)? {
            moved(n);
        }
        to_due.update(|n| n - 1);
    }
    Ok(())
}

fn transfer(from: &OwnedFd, to: &OwnedFd, len: usize) -> Result<usize, Errno> {
    // Without MORE, which was measured to cost a little instead of saving anything.
    splice(from, None, to, None, len, SpliceFlags::NONBLOCK | SpliceFlags::MOVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_so_many_pipes_and_no_more() {
        let mut taken: Vec<_> = std::iter::from_fn(Pipe::take).collect();
        assert_eq!(taken.len(), PIPES_MAX);
        let mut full = taken.remove(0);
        full.held = 1;
        drop(full);
        drop(taken);
        assert_eq!(FREE.with_borrow(Vec::len), PIPES_MAX - 1, "a pipe that is not empty is not used again");
        assert_eq!(std::iter::from_fn(Pipe::take).collect::<Vec<_>>().len(), PIPES_MAX);
    }
}

//! How does a large body pass without being copied? Through a pipe inside the kernel: splice(2) moves references to
//! the pages from one socket to the other.
//!
//! Only for what is left of a body whose length is known: chunks must be read to know where they end. Small bodies come
//! with their head in one read, and a copy of a few kilobytes costs less than the detour.

use crate::stream::Stream;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::task::{Poll, ready};

/// Bytes left of a body from which on it is spliced.
pub const SPLICE_MIN: u64 = 16 * 1024;

/// What a pipe should hold. The kernel gives each process a budget for pipes above 64 KiB; one over it keeps that size.
const PIPE_SIZE: usize = 256 * 1024;

/// Empty pipes that an idle worker keeps.
const KEPT_MAX: usize = 16;

thread_local! {
    static FREE: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

/// A pipe, which is empty whenever it is kept.
#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    size: usize,
}

impl Pipe {
    fn take() -> io::Result<Pipe> {
        if let Some(pipe) = FREE.with_borrow_mut(Vec::pop) {
            return Ok(pipe);
        }
        let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        let size = fcntl_setpipe_size(&write, PIPE_SIZE).unwrap_or(64 * 1024);
        Ok(Pipe { read, write, size })
    }

    fn give_back(self) {
        FREE.with_borrow_mut(|free| {
            if free.len() < KEPT_MAX {
                free.push(self);
            }
        });
    }
}

/// Which side ended a transfer early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one read from: it failed, or closed before all had come.
    From,
    /// The one written to.
    To,
}

/// Moves `left` bytes from one socket to the other, and calls `moved` with the number of each part that has arrived.
///
/// # Errors
/// Which side ended it early. What was in the pipe is lost with it, as is the connection.
pub async fn relay(from: &Stream, to: &Stream, left: &mut u64, moved: impl Fn(usize)) -> Result<(), Side> {
    let pipe = Pipe::take().map_err(|_| Side::From)?;
    while *left > 0 {
        let want = usize::try_from(*left).unwrap_or(usize::MAX).min(pipe.size);
        let mut held = match poll_fn(|cx| from.poll_io_read(cx, |fd| transfer(fd, &pipe.write, want))).await {
            Ok(n) if n > 0 => n,
            _ => return Err(Side::From),
        };
        *left -= held as u64;
        let all = held;
        poll_fn(|cx| {
            while held > 0 {
                held -= ready!(to.poll_io_write(cx, |fd| transfer(&pipe.read, fd, held)))?;
            }
            Poll::Ready(io::Result::Ok(()))
        })
        .await
        .map_err(|_| Side::To)?;
        moved(all);
    }
    pipe.give_back();
    Ok(())
}

fn transfer(from: &OwnedFd, to: &OwnedFd, len: usize) -> Result<usize, Errno> {
    // Without MORE: it was measured to cost a little, not to save.
    splice(from, None, to, None, len, SpliceFlags::NONBLOCK | SpliceFlags::MOVE)
}

//! What does a worker's thread do all day? It runs the tasks that can go on, and when none can, sleeps until the kernel has
//! something for one. Read the files in this order:
//!
//! 1. [`tasks`] knows which tasks can go on, and whose turn it is. A [`task_waker`] is what a turn lends, and what others keep;
//!    a [`waker_slot`] is what something on this thread keeps instead.
//!    The [`budget`] of a turn is what it may do before the others have theirs.
//! 2. [`reactor`] knows what sockets they wait for: one epoll, of which a connection is a slot, and any other
//!    descriptor a [`source`].
//! 3. An [`alarm`] wakes a task after some milliseconds. A [`remote_waker`] lets another thread wake one. `kernel` makes
//!    the descriptors that they watch.
//!
//! It is our own as it is on the way of each request: one epoll, wakers that cost a few instructions, no timeout that the
//! kernel would set and clear for each sleep. Beside tokio's loop and sockets a relay took 0.90 of the processor time where
//! the client closes, and over kept connections no less that could be seen (docs/measurements/2026-11-23-event-loop.md).

pub mod alarm;
pub mod budget;
#[cfg(miri)]
mod fake_clock;
mod kernel;
mod reactor;
#[cfg(test)]
mod reentrance;
mod remote_waker;
mod rest;
mod source;
mod task_waker;
mod tasks;
mod units;
mod waker_slot;

pub use reactor::Watched;
pub use rest::rest;
pub use source::Source;
pub use tasks::{Task, spawn, spawn_essential, spawn_made, yield_now};
pub use waker_slot::WakerSlot;

use crate::clock;
use remote_waker::RemoteWaker;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::Poll;
use task_waker::TaskWaker;

/// Tasks that have their turn between two looks at what the kernel has.
const TURNS_PER_LOOK: usize = 64;

/// Runs `future` on this thread, and all that it spawns, until it ends; what is left of the others then ends with it. A
/// thread runs one event loop at a time.
///
/// # Errors
/// The kernel has no descriptors left to give.
pub fn run<F: Future>(future: F) -> io::Result<F::Output> {
    let remote = RemoteWaker::new(tasks::wake)?;
    reactor::watch_remote(&remote)?;
    let _running = tasks::begin(&remote);
    alarm::start()?;
    let waker = TaskWaker::new(tasks::ROOT, &remote);
    let mut root = pin!(future);
    loop {
        for _ in 0..TURNS_PER_LOOK {
            match tasks::next() {
                Some(tasks::ROOT) => {
                    if let Poll::Ready(output) = TaskWaker::lend(&waker, |cx| root.as_mut().poll(cx)) {
                        return Ok(output);
                    }
                }
                Some(key) => tasks::poll(key, &remote),
                None => break,
            }
            // What the kernel has by now goes before a task that has used up its turn.
            if budget::is_spent() {
                break;
            }
        }
        if reactor::look(tasks::are_all_waiting())? {
            remote.drain();
        }
        tasks::after_look();
        clock::expire();
    }
}

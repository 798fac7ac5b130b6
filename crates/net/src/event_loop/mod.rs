//! Event loop of a worker thread: runs the tasks that are ready, and sleeps in epoll when there are none.
//! Read the files in this order:
//!
//! 1. [`tasks`]: the tasks that are ready, and their order. A turn lends a [`task_waker`], which others may keep; code
//!    on this thread stores a [`waker_slot`] instead. The [`budget`] limits a turn, and an [`allowance`] the turns of
//!    many tasks of a client.
//! 2. [`reactor`]: the sockets that tasks wait for, an epoll per thread. A connection is a slot in it, any other
//!    descriptor a [`source`].
//! 3. [`alarm`]: wakes a task after some milliseconds. [`remote_waker`]: lets another thread wake a task. `kernel`
//!    creates the descriptors that these watch.
//!
//! This is our own because every request passes through it: a single epoll, wakers that cost a few instructions,
//! and no kernel timeout to set and clear for each sleep. Compared with tokio's loop and sockets, a relay
//! took 0.90 of the CPU time where the client closes, with no measurable difference over kept-alive connections
//! (docs/measurements/2026-11-23-event-loop.md).

// Order: allowance, rest, alarm, source, reactor, budget, tasks & waker_slot, units, task_waker, remote_waker,
// fake_clock & kernel
pub mod alarm;
pub mod allowance;
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

/// Turns between two polls of the kernel.
const TURNS_PER_LOOK: usize = 64;

/// Runs `future` on this thread, with all tasks that it spawns, until it completes; the remaining tasks are
/// then dropped. A thread runs a single event loop at a time.
///
/// # Errors
/// If no descriptor is left.
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
            // Events in the kernel take precedence over a task that has used up its turn.
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

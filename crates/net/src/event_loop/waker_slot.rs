//! A waker that waits on its own thread. For a task of this event loop it is the task's key: cheap to copy and to drop.
//!
//! Waking, cloning or dropping any other waker runs code of others, which may open sockets, set timers or spawn tasks. So none
//! of these happens while a table of this thread is borrowed.

use super::task_waker::TaskWaker;
use super::tasks;
use evenkeel_balance::slab::Key;
use std::rc::Rc;
use std::task::{Context, Waker};

/// What is to be woken on this thread. Cloning one runs no code of others; dropping one may.
#[derive(Clone, Debug)]
pub enum WakerSlot {
    /// A task of this event loop.
    Task(Key),
    /// The waker of something that is polled by other means. Counted, as it is rare, and many sleep.
    Other(Rc<Waker>),
}

impl WakerSlot {
    /// The waker of `cx`. May run code of others.
    #[inline]
    pub fn of(cx: &Context<'_>) -> WakerSlot {
        match TaskWaker::key_here(cx.waker()) {
            Some(key) => WakerSlot::Task(key),
            None => WakerSlot::other(cx),
        }
    }

    /// Keeps the waker of `cx`, if it and the one before it are of tasks of this event loop. Runs no code of others.
    #[inline]
    pub fn note_task(slot: &mut Option<WakerSlot>, cx: &Context<'_>) -> bool {
        let key = TaskWaker::key_here(cx.waker());
        match (key, &mut *slot) {
            (Some(key), None | Some(WakerSlot::Task(_))) => *slot = Some(WakerSlot::Task(key)),
            _ => return false,
        }
        true
    }

    #[cold]
    fn other(cx: &Context<'_>) -> WakerSlot {
        WakerSlot::Other(Rc::new(cx.waker().clone()))
    }

    /// Wakes a task of this event loop, and puts any other waker into `others`. Runs no code of others.
    #[inline]
    pub fn wake_task_or_leave(self, others: &mut Vec<WakerSlot>) {
        match self {
            WakerSlot::Task(key) => tasks::wake(key),
            WakerSlot::Other(_) => others.push(self),
        }
    }

    /// Wakes it. May run code of others.
    #[inline]
    pub fn wake(&self) {
        match self {
            WakerSlot::Task(key) => tasks::wake(*key),
            WakerSlot::Other(waker) => waker.wake_by_ref(),
        }
    }
}

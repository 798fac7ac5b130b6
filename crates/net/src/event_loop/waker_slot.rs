//! A waker stored on its own thread. For a task of this event loop it is the task's key, which is cheap to
//! copy and drop.
//!
//! Waking, cloning or dropping any other waker runs foreign code, which may open sockets, set timers or spawn
//! tasks. So none of that happens while a table of this thread is borrowed.

use super::task_waker::TaskWaker;
use super::tasks;
use evenkeel_balance::slab::Key;
use std::rc::Rc;
use std::task::{Context, Waker};

/// A waker of this thread. Cloning runs no foreign code; dropping may.
#[derive(Clone, Debug)]
pub enum WakerSlot {
    /// Task of this thread's event loop, by key.
    Task(Key),
    /// Waker of a future that is polled by other means. In an `Rc`, which keeps slots small; such wakers are rare.
    Other(Rc<Waker>),
}

impl WakerSlot {
    /// The waker of `cx`. May run foreign code.
    #[inline]
    pub fn of(cx: &Context<'_>) -> WakerSlot {
        match TaskWaker::key_here(cx.waker()) {
            Some(key) => WakerSlot::Task(key),
            None => WakerSlot::other(cx),
        }
    }

    /// Stores the waker of `cx` if it and the previous waker belong to tasks of this event loop; false
    /// otherwise. Runs no foreign code.
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

    /// Wakes a task of this event loop, or moves any other waker to `others`. Runs no foreign code.
    #[inline]
    pub fn wake_task_or_leave(self, others: &mut Vec<WakerSlot>) {
        match self {
            WakerSlot::Task(key) => tasks::wake(key),
            WakerSlot::Other(_) => others.push(self),
        }
    }

    /// Wakes the task. May run foreign code.
    #[inline]
    pub fn wake(&self) {
        match self {
            WakerSlot::Task(key) => tasks::wake(*key),
            WakerSlot::Other(waker) => waker.wake_by_ref(),
        }
    }
}

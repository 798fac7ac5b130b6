//! Wakers of tasks. A task has a single waker, which its turns lend; a clone increments its count. So
//! `will_wake` is exact, and any thread may keep and use it.

use super::remote_waker::RemoteWaker;
use evenkeel_balance::slab::Key;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

/// Its address identifies wakers of event loops.
static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

/// Waker of a task, usable from any thread.
#[derive(Debug)]
pub struct TaskWaker {
    /// Key of the task in bits. Changes only while the event loop is the sole holder.
    key: AtomicU64,
    remote: Arc<RemoteWaker>,
}

impl TaskWaker {
    /// Waker of a task of the event loop that `remote` belongs to.
    pub fn new(key: Key, remote: &Arc<RemoteWaker>) -> Arc<TaskWaker> {
        Arc::new(TaskWaker { key: AtomicU64::new(key.to_bits()), remote: remote.clone() })
    }

    /// Reuses the waker for the next task of its slot. False if others still hold it, for the task that is
    /// gone.
    pub fn reassign(this: &Arc<TaskWaker>, key: Key) -> bool {
        // There are no weak handles, and only a holder can clone it. `Arc::get_mut` would take a locked
        // instruction.
        if Arc::strong_count(this) != 1 {
            return false;
        }
        // Pairs with the Release of the last holder's drop, after which the key is not read any more.
        fence(Ordering::Acquire);
        this.key.store(key.to_bits(), Ordering::Relaxed);
        true
    }

    /// Lends the waker for a turn.
    #[inline]
    pub fn lend<T>(this: &Arc<TaskWaker>, work: impl FnOnce(&mut Context<'_>) -> T) -> T {
        // SAFETY: the functions of `VTABLE` take the pointer of an `Arc<TaskWaker>`. This waker owns no
        // count: it is not dropped, and does not outlive `this`.
        let waker = ManuallyDrop::new(unsafe { Waker::new(Arc::as_ptr(this).cast(), &VTABLE) });
        work(&mut Context::from_waker(&waker))
    }

    /// Key of the task that a waker wakes, if it belongs to this thread's event loop.
    #[inline]
    pub fn key_here(waker: &Waker) -> Option<Key> {
        if !ptr::eq(waker.vtable(), &raw const VTABLE) {
            return None;
        }
        // SAFETY: only wakers of this type have that table, and this waker keeps its data alive.
        let this = unsafe { &*waker.data().cast::<TaskWaker>() };
        this.remote.is_here().then(|| this.key())
    }

    #[inline]
    fn key(&self) -> Key {
        // Relaxed: the key does not change while a waker is held, and handing the waker over synchronises.
        Key::from_bits(self.key.load(Ordering::Relaxed))
    }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: points to an `Arc`, as stated in `lend`.
    unsafe { Arc::increment_strong_count(data.cast::<TaskWaker>()) };
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: as above; a waker woken by value is a clone, and gives its count back.
    let this = unsafe { Arc::from_raw(data.cast::<TaskWaker>()) };
    this.remote.wake(this.key());
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: as above, and the caller holds the waker.
    let this = unsafe { &*data.cast::<TaskWaker>() };
    this.remote.wake(this.key());
}

unsafe fn release(data: *const ()) {
    // SAFETY: as above; a waker that is dropped is a clone.
    unsafe { Arc::decrement_strong_count(data.cast::<TaskWaker>()) };
}

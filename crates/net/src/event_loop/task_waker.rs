//! The waker of a task. Each task has one, which its turns lend: a clone counts one more holder of the same, so that
//! `will_wake` says what it should, and any thread may keep and use it.

use super::remote_waker::RemoteWaker;
use evenkeel_balance::slab::Key;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

/// By its address the wakers of event loops are known from others.
static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

/// What wakes a task, from any thread.
#[derive(Debug)]
pub struct TaskWaker {
    /// The task's key, as a number. Changes only while the event loop alone has this.
    key: AtomicU64,
    remote: Arc<RemoteWaker>,
}

impl TaskWaker {
    /// The waker of a task of the event loop that `remote` belongs to.
    pub fn new(key: Key, remote: &Arc<RemoteWaker>) -> Arc<TaskWaker> {
        Arc::new(TaskWaker { key: AtomicU64::new(key.to_bits()), remote: remote.clone() })
    }

    /// Makes it the waker of the next task of its slot, unless others still have it: they have that of a task that is gone.
    pub fn reassign(this: &Arc<TaskWaker>, key: Key) -> bool {
        // Nothing makes weak ones, and only who has one can clone it. `Arc::get_mut` would take a locked instruction.
        if Arc::strong_count(this) != 1 {
            return false;
        }
        // Pairs with the Release of the last holder's drop: it has read the key by now.
        fence(Ordering::Acquire);
        this.key.store(key.to_bits(), Ordering::Relaxed);
        true
    }

    /// Lends the waker for a turn.
    #[inline]
    pub fn lend<T>(this: &Arc<TaskWaker>, work: impl FnOnce(&mut Context<'_>) -> T) -> T {
        // SAFETY: the functions of `VTABLE` take the pointer of an `Arc<TaskWaker>`. This waker has no count of its own:
        // it is not dropped, and lives no longer than `this`.
        let waker = ManuallyDrop::new(unsafe { Waker::new(Arc::as_ptr(this).cast(), &VTABLE) });
        work(&mut Context::from_waker(&waker))
    }

    /// The key of the task that a waker wakes, if that is one of the event loop of this thread.
    #[inline]
    pub fn key_here(waker: &Waker) -> Option<Key> {
        if !ptr::eq(waker.vtable(), &raw const VTABLE) {
            return None;
        }
        // SAFETY: only wakers of this type have that table, and this one holds it.
        let this = unsafe { &*waker.data().cast::<TaskWaker>() };
        this.remote.is_here().then(|| this.key())
    }

    #[inline]
    fn key(&self) -> Key {
        // Relaxed: it does not change while a waker is held, and that was handed over by other means.
        Key::from_bits(self.key.load(Ordering::Relaxed))
    }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: of an `Arc`, as said where it is lent.
    unsafe { Arc::increment_strong_count(data.cast::<TaskWaker>()) };
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: as above; a waker that is woken by value is a clone, and gives its count back.
    let this = unsafe { Arc::from_raw(data.cast::<TaskWaker>()) };
    this.remote.wake(this.key());
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: as above, and the waker is held by the caller.
    let this = unsafe { &*data.cast::<TaskWaker>() };
    this.remote.wake(this.key());
}

unsafe fn release(data: *const ()) {
    // SAFETY: as above; a waker that is dropped is a clone.
    unsafe { Arc::decrement_strong_count(data.cast::<TaskWaker>()) };
}

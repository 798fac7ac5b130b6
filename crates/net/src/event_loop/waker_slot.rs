//! Who is to be woken? Whatever waits on its own thread notes its task's key ([`WakerSlot`]), which costs nothing to take and
//! to forget. A waker that counts who has it, as one that goes to another thread must, is made when somebody keeps one.

use super::remote_waker::RemoteWaker;
use super::tasks::Key;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, RawWaker, RawWakerVTable, Wake, Waker};

/// Of the wakers that are lent out for a turn.
static LENT: RawWakerVTable = RawWakerVTable::new(keep, call, call, |_| {});

/// A task's turn.
pub struct Turn<'t> {
    key: Key,
    bell: &'t Arc<RemoteWaker>,
}

impl Turn<'_> {
    /// Of a task of the event loop that hears `bell`.
    pub fn new(key: Key, bell: &Arc<RemoteWaker>) -> Turn<'_> {
        Turn { key, bell }
    }

    /// Does what the task does in its turn.
    #[inline]
    pub fn take<T>(&self, work: impl FnOnce(&mut Context<'_>) -> T) -> T {
        // SAFETY: the functions of `LENT` take the data for a turn, as which it is here until the waker is gone: others get
        // that by reference, and whoever clones it gets one of another kind.
        let waker = unsafe { Waker::new(ptr::from_ref(self).cast(), &LENT) };
        work(&mut Context::from_waker(&waker))
    }
}

/// A clone of a lent waker: one that stays.
unsafe fn keep(turn: *const ()) -> RawWaker {
    // SAFETY: as said where it is lent.
    let turn = unsafe { &*turn.cast::<Turn<'_>>() };
    let waker = ManuallyDrop::new(Waker::from(Arc::new(Call { key: turn.key, bell: turn.bell.clone() })));
    RawWaker::new(waker.data(), waker.vtable())
}

unsafe fn call(turn: *const ()) {
    // SAFETY: as said where it is lent.
    let turn = unsafe { &*turn.cast::<Turn<'_>>() };
    turn.bell.wake(turn.key);
}

/// What wakes a task, from wherever.
struct Call {
    key: Key,
    bell: Arc<RemoteWaker>,
}

impl Wake for Call {
    fn wake(self: Arc<Call>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Call>) {
        self.bell.wake(self.key);
    }
}

/// Who waits for something on this thread.
#[derive(Debug)]
pub enum WakerSlot {
    /// A task.
    Task(Key),
    /// Something that is polled by other means. Boxed, as it is rare, and many sleep.
    Other(Box<Waker>),
}

impl WakerSlot {
    /// Whoever is polled with `cx`.
    #[inline]
    pub fn of(cx: &Context<'_>) -> WakerSlot {
        let waker = cx.waker();
        if ptr::eq(waker.vtable(), &raw const LENT) {
            // SAFETY: only the waker of a turn has these functions.
            WakerSlot::Task(unsafe { &*waker.data().cast::<Turn<'_>>() }.key)
        } else {
            WakerSlot::Other(Box::new(waker.clone()))
        }
    }

    /// It can go on.
    #[inline]
    pub fn wake(&self) {
        match self {
            WakerSlot::Task(key) => super::tasks::wake(*key),
            WakerSlot::Other(waker) => waker.wake_by_ref(),
        }
    }
}

//! Tasks of a thread and the queue of ready tasks. They are spawned, run and woken on a single thread,
//! without locks or atomic operations; other threads use the [`RemoteWaker`].

use super::remote_waker::RemoteWaker;
use super::task_waker::TaskWaker;
use super::units;
use super::waker_slot::WakerSlot;
use crate::boxed::boxed;
use evenkeel_balance::slab::{Key, SlotTable};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Polls of the kernel after which a task that has used up its turn continues although others are ready.
/// Those may never end, and up to 64 of their turns precede each poll.
const LOOKS_MAX: u32 = 4;

/// Key of the future that the event loop was started for.
pub const ROOT: Key = Key::NONE;

thread_local! {
    static TASKS: Tasks = const { Tasks::new() };
}

type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Scheduler state of a thread.
struct Tasks {
    slots: RefCell<SlotTable<Slot>>,
    /// Tasks that are ready, in order.
    ready: RefCell<VecDeque<Key>>,
    /// Tasks to wake after the next poll of the kernel.
    after_look: RefCell<Vec<WakerSlot>>,
    is_root_ready: Cell<bool>,
    /// Tasks that have used up their turns. Such a task continues whenever no other task is ready, so a task that is
    /// woken waits for a single turn of theirs, however many there are.
    spent: RefCell<VecDeque<Key>>,
    is_root_spent: Cell<bool>,
    /// Polls of the kernel since such a task continued.
    looks: Cell<u32>,
    /// Task that precedes all others after the next poll, if any.
    first: Cell<Option<Key>>,
    /// Number of the round, see [`allowance`](super::allowance).
    round: Cell<u32>,
    /// The turn of a member of a group, if any, and whether it waits for another.
    member: Cell<Option<bool>>,
}

#[derive(Default)]
struct Slot {
    is_ready: bool,
    /// True while the task is in [`Tasks::spent`].
    is_spent: bool,
    /// True if the task ends after its turn.
    is_aborted: bool,
    /// True if its panic ends the event loop.
    is_essential: bool,
    /// `None` during the task's turn.
    work: Option<Work>,
    /// Created at the first turn, `None` during a turn. Kept for the next task of the slot unless others hold
    /// it.
    waker: Option<Arc<TaskWaker>>,
}

/// Handle of a spawned task, which continues when this is dropped.
#[derive(Debug)]
pub struct Task(Key);

/// A running event loop. Dropping it ends all its tasks.
pub struct Running {
    remote: Arc<RemoteWaker>,
}

/// Starts an event loop on this thread, with its root ready.
pub fn begin(remote: &Arc<RemoteWaker>) -> Running {
    remote.enter();
    wake(ROOT);
    Running { remote: remote.clone() }
}

impl Drop for Running {
    fn drop(&mut self) {
        TASKS.with(|tasks| {
            // Dropping a task or a waker may wake, end or spawn others.
            loop {
                let (left, wakers) = (tasks.take_all(), tasks.after_look.take());
                if left.is_empty() && wakers.is_empty() {
                    break;
                }
            }
            tasks.ready.take();
            tasks.spent.take();
            tasks.is_root_ready.set(false);
            tasks.is_root_spent.set(false);
            tasks.first.set(None);
            // Wakers belong to this event loop.
            tasks.slots.borrow_mut().iter_mut().for_each(|(_, slot)| slot.waker = None);
        });
        self.remote.leave();
    }
}

/// Spawns a task on this thread, which must run an event loop. A panic ends only the task.
pub fn spawn(future: impl Future<Output = ()> + 'static) -> Task {
    start(Box::pin(future), false)
}

/// Like [`spawn`], for a future built on the heap.
pub fn spawn_made<F: Future<Output = ()> + 'static>(make: impl FnOnce() -> F) -> Task {
    start(boxed(make), false)
}

/// Like [`spawn`], for a task without which the event loop would serve nothing: its panic ends the event
/// loop.
pub fn spawn_essential(future: impl Future<Output = ()> + 'static) -> Task {
    start(Box::pin(future), true)
}

fn start(work: Work, is_essential: bool) -> Task {
    assert!(RemoteWaker::is_running(), "tasks are spawned by what an event loop runs");
    TASKS.with(|tasks| {
        let mut slots = tasks.slots.borrow_mut();
        let (key, slot) = slots.occupy();
        slot.work = Some(work);
        slot.is_essential = is_essential;
        slot.waker.take_if(|waker| !TaskWaker::reassign(waker, key));
        drop(slots);
        wake(key);
        Task(key)
    })
}

impl Task {
    /// Ends the task, unless it has completed.
    pub fn abort(&self) {
        let work = TASKS.with(|tasks| {
            let mut slots = tasks.slots.borrow_mut();
            let slot = slots.get_mut(self.0)?;
            slot.is_aborted = true;
            let work = slot.work.take()?;
            vacate_task(&mut slots, self.0.slot());
            Some(work)
        });
        // Outside the borrow: dropping values of the task may use other tasks.
        drop(work);
    }
}

/// Next task in the queue. Starts its turn with a full budget.
#[inline]
pub fn next() -> Option<Key> {
    TASKS.with(|tasks| {
        let key = tasks.ready.borrow_mut().pop_front()?;
        units::renew();
        if key == ROOT {
            tasks.is_root_ready.set(false);
        }
        Some(key)
    })
}

/// Polls a task of the event loop that `remote` belongs to.
pub fn poll(key: Key, remote: &Arc<RemoteWaker>) {
    TASKS.with(|tasks| {
        let (mut work, waker) = {
            let mut slots = tasks.slots.borrow_mut();
            let Some(slot) = slots.get_mut(key) else { return };
            slot.is_ready = false;
            let Some(work) = slot.work.take() else { return };
            (work, slot.waker.take())
        };
        let waker = waker.unwrap_or_else(|| TaskWaker::new(key, remote));
        // A panic usually ends only the task; its values are dropped as at any other end.
        let polled = catch_unwind(AssertUnwindSafe(|| TaskWaker::lend(&waker, |cx| work.as_mut().poll(cx))));
        let mut slots = tasks.slots.borrow_mut();
        let slot = slots.at_mut(key.slot());
        slot.waker = Some(waker);
        if let Ok(Poll::Pending) = polled
            && !slot.is_aborted
        {
            slot.work = Some(work);
            return;
        }
        let is_essential = slot.is_essential;
        vacate_task(&mut slots, key.slot());
        drop(slots);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
        if let (Err(panic), true) = (polled, is_essential) {
            resume_unwind(panic);
        }
    });
}

/// True if no task can continue before an event arrives.
pub fn are_all_waiting() -> bool {
    TASKS.with(|tasks| {
        tasks.ready.borrow().is_empty() && tasks.after_look.borrow().is_empty() && tasks.spent.borrow().is_empty()
    })
}

/// Wakes the tasks that wait for the poll of the kernel that has just been done. If no other task is ready,
/// continues the oldest of those that have used up their turns.
#[inline]
pub fn after_look() {
    TASKS.with(|tasks| {
        if let Some(key) = tasks.first.take() {
            wake_first(key);
        }
        tasks.continue_spent();
        if tasks.after_look.borrow().is_empty() {
            return;
        }
        let mut wakers = tasks.after_look.take();
        wakers.drain(..).for_each(|waker| waker.wake());
        // Keeps the memory, unless waking has queued something new.
        let mut now = tasks.after_look.borrow_mut();
        if now.is_empty() {
            *now = wakers;
        }
    });
}

/// Queues a task as ready, unless it is.
#[inline]
pub fn wake(key: Key) {
    // During thread teardown there may be no tasks.
    let _ = TASKS.try_with(|tasks| {
        if tasks.set_ready(key) {
            tasks.ready.borrow_mut().push_back(key);
        }
    });
}

/// Marks a task as ready, ahead of all others.
fn wake_first(key: Key) {
    TASKS.with(|tasks| {
        if tasks.set_ready(key) {
            tasks.ready.borrow_mut().push_front(key);
        }
    });
}

/// Wakes the task of `cx` after others have had their turns.
#[cold]
pub fn wait_for_turn(cx: &Context<'_>) {
    TASKS.with(|tasks| match WakerSlot::of(cx) {
        // Its group has a place for it.
        WakerSlot::Task(_) if tasks.member.get().is_some() => tasks.member.set(Some(true)),
        // However many futures of the task wait, it is queued once.
        WakerSlot::Task(key) => tasks.spend(key),
        other => tasks.after_look.borrow_mut().push(other),
    });
}

/// Puts a task among those that have used up their turns.
pub fn spend(key: Key) {
    TASKS.with(|tasks| tasks.spend(key));
}

/// True if a task waits among those that have used up their turns.
pub fn is_spent(key: Key) -> bool {
    TASKS.with(|tasks| tasks.slots.borrow_mut().get_mut(key).is_some_and(|slot| slot.is_spent))
}

/// Number of the round, which ends when a task that has used up its turn continues, or with a poll of the kernel while
/// there is none.
#[inline]
pub fn round() -> u32 {
    TASKS.with(|tasks| tasks.round.get())
}

/// Does a part of the work of a member of a group. Returns true, too, if it waits for another turn.
#[inline]
pub fn as_member<T>(work: impl FnOnce() -> T) -> (T, bool) {
    /// Ends the part of the work, also by a panic.
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            TASKS.with(|tasks| tasks.member.set(None));
        }
    }
    TASKS.with(|tasks| tasks.member.set(Some(false)));
    let ends = Ends;
    let done = work();
    let wants_turn = TASKS.with(|tasks| tasks.member.get() == Some(true));
    drop(ends);
    (done, wants_turn)
}

/// Puts the task of `cx` before all others after the next poll of the kernel. Only a single task of a thread may
/// use it.
pub fn go_first(cx: &Context<'_>) {
    if let WakerSlot::Task(key) = WakerSlot::of(cx) {
        TASKS.with(|tasks| tasks.first.set(Some(key)));
    }
}

/// Lets other tasks run first, including those that the kernel has events for.
pub async fn yield_now() {
    let mut waited = false;
    poll_fn(|cx| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        TASKS.with(|tasks| tasks.wait_for_look(cx));
        Poll::Pending
    })
    .await;
}

impl Tasks {
    const fn new() -> Tasks {
        Tasks {
            slots: RefCell::new(SlotTable::new()),
            ready: RefCell::new(VecDeque::new()),
            after_look: RefCell::new(Vec::new()),
            is_root_ready: Cell::new(false),
            spent: RefCell::new(VecDeque::new()),
            is_root_spent: Cell::new(false),
            looks: Cell::new(0),
            first: Cell::new(None),
            round: Cell::new(0),
            member: Cell::new(None),
        }
    }

    fn wait_for_look(&self, cx: &Context<'_>) {
        let waker = WakerSlot::of(cx);
        self.after_look.borrow_mut().push(waker);
    }

    /// Marks a task as ready; returns true if it was not.
    #[inline]
    fn set_ready(&self, key: Key) -> bool {
        if key == ROOT {
            return !self.is_root_ready.replace(true);
        }
        match self.slots.borrow_mut().get_mut(key) {
            Some(slot) if !slot.is_ready => {
                slot.is_ready = true;
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn continue_spent(&self) {
        if self.spent.borrow().is_empty() {
            self.round.set(self.round.get().wrapping_add(1));
            return;
        }
        let looks = self.looks.get() + 1;
        let is_due = looks >= LOOKS_MAX || self.ready.borrow().is_empty();
        self.looks.set(if is_due { 0 } else { looks });
        let next = if is_due { self.spent.borrow_mut().pop_front() } else { None };
        if let Some(key) = next {
            self.round.set(self.round.get().wrapping_add(1));
            self.set_spent(key, false);
            wake(key);
        }
    }

    fn spend(&self, key: Key) {
        if self.set_spent(key, true) {
            self.spent.borrow_mut().push_back(key);
        }
    }

    /// Sets whether a task has used up its turn; returns true if that changed.
    fn set_spent(&self, key: Key, is_spent: bool) -> bool {
        let before = if key == ROOT {
            self.is_root_spent.replace(is_spent)
        } else {
            match self.slots.borrow_mut().get_mut(key) {
                Some(slot) => std::mem::replace(&mut slot.is_spent, is_spent),
                None => return false,
            }
        };
        before != is_spent
    }

    /// Removes all remaining tasks, and returns their futures.
    fn take_all(&self) -> Vec<Work> {
        let mut slots = self.slots.borrow_mut();
        let mut all = Vec::new();
        let left: Vec<u32> =
            slots.iter_mut().filter(|(_, slot)| slot.work.is_some()).map(|(number, _)| number).collect();
        for number in left {
            all.extend(slots.at_mut(number).work.take());
            vacate_task(&mut slots, number);
        }
        all
    }
}

/// Vacates the slot of a task whose future was taken. Its waker stays.
fn vacate_task(slots: &mut SlotTable<Slot>, number: u32) {
    let slot = slots.at_mut(number);
    (slot.is_ready, slot.is_spent, slot.is_aborted, slot.is_essential) = (false, false, false, false);
    slots.vacate(number);
}

#[cfg(test)]
#[path = "tasks_tests.rs"]
mod tests;

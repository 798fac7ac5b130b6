//! Tasks of a thread and the queue of those that are ready. They are spawned, run and woken on one thread,
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
    /// Tasks that have used up their turns. One continues whenever no other task is ready, so a task that is
    /// woken waits for one of them, however many there are.
    spent: RefCell<VecDeque<Key>>,
    is_root_spent: Cell<bool>,
    /// Polls of the kernel since one of them continued.
    looks: Cell<u32>,
    /// Task that precedes all others after the next poll, if any.
    first: Cell<Option<Key>>,
    /// Number of the round, see [`allowance`](super::allowance).
    round: Cell<u32>,
    /// The turn of a member of a group, if there is one, and whether it waits for another.
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
    /// Created at the first turn, `None` during one. Kept for the next task of the slot unless others hold
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
        // Outside the borrow: dropping what the task holds may use other tasks.
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
        // A panic usually ends only the task; what it held is dropped as at any other end.
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

/// Puts the task of `cx` before all others after the next poll of the kernel. Only one task of a thread may
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
mod tests {
    use super::super::run;
    use super::*;
    use std::rc::Rc;
    use std::task::Waker;
    use std::thread;
    use tokio::sync::{Notify, oneshot};

    #[test]
    fn tasks_go_on_in_the_order_they_were_woken() {
        let said = Rc::new(RefCell::new(Vec::new()));
        run(async {
            let tell = Rc::new(Notify::new());
            for n in 0..4 {
                let (said, tell) = (said.clone(), tell.clone());
                spawn(async move {
                    said.borrow_mut().push(n);
                    tell.notified().await;
                    said.borrow_mut().push(10 + n);
                });
            }
            yield_now().await;
            tell.notify_waiters();
            yield_now().await;
        })
        .unwrap();
        assert_eq!(*said.borrow(), [0, 1, 2, 3, 10, 11, 12, 13]);
    }

    #[test]
    fn another_thread_wakes_a_task_and_the_root() {
        for _ in 0..if cfg!(miri) { 3 } else { 100 } {
            let (to_task, of_task) = oneshot::channel();
            let (to_root, of_root) = oneshot::channel();
            let other = thread::spawn(move || to_task.send(7).unwrap());
            let received = run(async {
                spawn(async move { to_root.send(of_task.await.unwrap()).unwrap() });
                of_root.await
            });
            assert_eq!(received.unwrap(), Ok(7));
            other.join().unwrap();
        }
    }

    #[test]
    fn a_task_that_panics_ends_alone() {
        run(async {
            let (tell, told) = oneshot::channel::<()>();
            spawn(async move {
                let _tell = tell;
                panic!("as it should in this test");
            });
            assert!(told.await.is_err(), "what it held is dropped");
            let (tell, told) = oneshot::channel();
            spawn(async move { tell.send(()).unwrap() });
            told.await.unwrap();
        })
        .unwrap();
    }

    #[test]
    fn an_essential_task_that_panics_takes_the_event_loop_with_it() {
        let held = Rc::new(());
        let root = held.clone();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            run(async move {
                let other = root.clone();
                spawn(async move {
                    let _other = other;
                    std::future::pending::<()>().await;
                });
                spawn_essential(async { panic!("as it should in this test") });
                std::future::pending::<()>().await;
                drop(root);
            })
        }));
        let panic = ended.expect_err("the root waits for ever");
        assert_eq!(panic.downcast_ref(), Some(&"as it should in this test"));
        assert_eq!(Rc::strong_count(&held), 1, "what the others hold is dropped");
        // An aborted task ends alone, and the thread can run another event loop.
        run(async {
            spawn_essential(std::future::pending()).abort();
            spawn_essential(async {});
            yield_now().await;
        })
        .unwrap();
    }

    #[test]
    fn abort_ends_one_task_also_from_within() {
        run(async {
            let held = Rc::new(());
            let waits = |held: Rc<()>| async move {
                let _held = held;
                std::future::pending::<()>().await;
            };
            let task = spawn(waits(held.clone()));
            yield_now().await;
            task.abort();
            assert_eq!(Rc::strong_count(&held), 1);
            let next = spawn(waits(held.clone()));
            task.abort();
            yield_now().await;
            assert_eq!(Rc::strong_count(&held), 2, "the one in its slot goes on");
            next.abort();

            let (own, to_abort) = (Rc::new(RefCell::new(None::<Task>)), held.clone());
            let task = {
                let own = own.clone();
                spawn(async move {
                    let _held = to_abort;
                    own.borrow().as_ref().unwrap().abort();
                    std::future::pending::<()>().await;
                })
            };
            own.replace(Some(task));
            yield_now().await;
            assert_eq!(Rc::strong_count(&held), 1);
        })
        .unwrap();
    }

    #[test]
    fn what_is_left_ends_with_the_root() {
        struct Spawns(Rc<()>);
        impl Drop for Spawns {
            fn drop(&mut self) {
                let held = self.0.clone();
                spawn(async move {
                    let _held = held;
                    std::future::pending::<()>().await;
                });
            }
        }
        let held = Rc::new(());
        run(async {
            let spawns = Spawns(held.clone());
            spawn(async move {
                let _spawns = spawns;
                std::future::pending::<()>().await;
            });
            yield_now().await;
        })
        .unwrap();
        assert_eq!(Rc::strong_count(&held), 1);
        run(async {}).unwrap();
    }

    #[test]
    fn a_waker_that_outlives_its_task_wakes_no_other() {
        run(async {
            let kept = Rc::new(RefCell::new(None));
            let keeps = kept.clone();
            spawn(poll_fn(move |cx| {
                keeps.replace(Some(cx.waker().clone()));
                Poll::Ready(())
            }));
            yield_now().await;
            let turns = Rc::new(Cell::new(0));
            let counts = turns.clone();
            spawn(poll_fn(move |_| {
                counts.set(counts.get() + 1);
                Poll::Pending
            }));
            yield_now().await;
            kept.take().unwrap().wake();
            yield_now().await;
            assert_eq!(turns.get(), 1);
        })
        .unwrap();
    }

    #[test]
    fn a_task_has_one_waker_for_life_and_the_next_of_its_slot_another_if_that_is_kept() {
        /// Spawns a task of two turns that keeps a clone of its waker in each.
        async fn kept() -> Vec<Waker> {
            let kept = Rc::new(RefCell::new(Vec::new()));
            let keeps = kept.clone();
            spawn(async move {
                for _ in 0..2 {
                    poll_fn(|cx| {
                        keeps.borrow_mut().push(cx.waker().clone());
                        assert!(keeps.borrow().iter().all(|kept| cx.waker().will_wake(kept)));
                        Poll::Ready(())
                    })
                    .await;
                    yield_now().await;
                }
            });
            while Rc::strong_count(&kept) > 1 {
                yield_now().await;
            }
            kept.take()
        }
        run(async {
            let first = kept().await;
            assert_eq!(first.len(), 2);
            let second = kept().await;
            assert!(first[0].will_wake(&first[1]) && !first[0].will_wake(&second[0]));
            let at = second[0].data();
            drop((first, second));
            assert_eq!(kept().await[0].data(), at, "nothing is allocated where no other has it");
        })
        .unwrap();
    }

    /// Another thread may poll a future with a waker of this one, which there is a foreign waker.
    #[test]
    fn a_waker_of_another_threads_event_loop_is_not_taken_for_one_of_here() {
        let woken = run(async {
            let mut other = None;
            poll_fn(|cx| {
                if other.is_some() {
                    return Poll::Ready(());
                }
                let waker = cx.waker().clone();
                other = Some(thread::spawn(move || {
                    run(async {
                        assert!(matches!(WakerSlot::of(&Context::from_waker(&waker)), WakerSlot::Other(_)));
                        let mut yields = std::pin::pin!(yield_now());
                        assert!(yields.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                        yield_now().await;
                    })
                }));
                Poll::Pending
            })
            .await;
            other.unwrap().join().unwrap()
        });
        woken.unwrap().unwrap();
    }
}

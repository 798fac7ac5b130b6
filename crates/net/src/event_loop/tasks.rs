//! Which of a worker's tasks can go on? Those that were woken, in that order. They are made and run on one thread, which
//! wakes them without a lock or an atomic operation; another thread rings the [`RemoteWaker`].

use super::remote_waker::RemoteWaker;
use super::waker_slot::{Turn, WakerSlot};
use crate::boxed::boxed;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Reads and writes of one task before others get their turn.
const BUDGET: u8 = 128;

/// The future that the event loop was started for.
pub const ROOT: Key = Key { index: u32::MAX, generation: 0 };

thread_local! {
    static TASKS: Tasks = const { Tasks::new() };
}

/// What a task does.
type Work = Pin<Box<dyn Future<Output = ()>>>;

/// A task, or one that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    index: u32,
    /// Counts the tasks that had the slot: who wakes one that is over means nobody.
    generation: u32,
}

/// The tasks of a thread.
struct Tasks {
    slots: RefCell<Vec<Slot>>,
    /// Slots of nobody.
    free: RefCell<Vec<u32>>,
    /// Those that can go on.
    ready: RefCell<VecDeque<Key>>,
    /// Those that go on when the kernel was asked what else there is.
    after_look: RefCell<Vec<WakerSlot>>,
    is_root_ready: Cell<bool>,
    /// What is left to the task that has its turn.
    budget: Cell<u8>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    is_ready: bool,
    /// To be ended when its turn is over.
    is_aborted: bool,
    /// A panic of it ends the event loop.
    is_essential: bool,
    /// Not there while it has its turn.
    task: Option<Work>,
}

/// A task that was spawned. It goes on without this.
#[derive(Debug)]
pub struct Task(Key);

/// An event loop runs on this thread, until dropped.
pub struct Open;

/// An event loop begins on this thread. Its root is ready.
pub fn open(bell: &Arc<RemoteWaker>) -> Open {
    RemoteWaker::hang(Some(bell));
    wake(ROOT);
    Open
}

impl Drop for Open {
    fn drop(&mut self) {
        TASKS.with(|tasks| {
            // One that ends may wake, end or spawn others.
            loop {
                let left = tasks.take_all();
                if left.is_empty() {
                    break;
                }
            }
            tasks.ready.take();
            tasks.after_look.take();
            tasks.is_root_ready.set(false);
        });
        RemoteWaker::hang(None);
    }
}

/// Starts a task on this thread, which must run an event loop. If it panics, it ends alone.
pub fn spawn(future: impl Future<Output = ()> + 'static) -> Task {
    start(Box::pin(future), false)
}

/// The same, of one that is made where it stays.
pub fn spawn_made<F: Future<Output = ()> + 'static>(make: impl FnOnce() -> F) -> Task {
    start(boxed(make), false)
}

/// As [`spawn`], a task that others wait for: without it the event loop would go on and serve nobody, so that ends, too.
pub fn spawn_essential(future: impl Future<Output = ()> + 'static) -> Task {
    start(Box::pin(future), true)
}

fn start(future: Work, is_essential: bool) -> Task {
    assert!(RemoteWaker::hangs(), "tasks are spawned by what an event loop runs");
    TASKS.with(|tasks| {
        let mut slots = tasks.slots.borrow_mut();
        let index = tasks.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(Slot::default());
            slots.len() as u32 - 1
        });
        let slot = &mut slots[index as usize];
        let key = Key { index, generation: slot.generation };
        slot.task = Some(future);
        slot.is_essential = is_essential;
        drop(slots);
        wake(key);
        Task(key)
    })
}

impl Task {
    /// Ends the task, unless it is over.
    pub fn abort(&self) {
        let task = TASKS.with(|tasks| {
            let mut slots = tasks.slots.borrow_mut();
            let slot = slots.get_mut(self.0.index as usize).filter(|slot| slot.generation == self.0.generation)?;
            slot.is_aborted = true;
            let task = slot.task.take()?;
            tasks.vacate(self.0.index, slot);
            Some(task)
        });
        // What it holds may want to look at the tasks too.
        drop(task);
    }
}

/// The task whose turn it is, which then has it, with what a turn allows.
#[inline]
pub fn next() -> Option<Key> {
    TASKS.with(|tasks| {
        let key = tasks.ready.borrow_mut().pop_front()?;
        tasks.budget.set(BUDGET);
        if key == ROOT {
            tasks.is_root_ready.set(false);
        }
        Some(key)
    })
}

/// Gives a task of the event loop with this bell its turn.
pub fn poll(key: Key, bell: &Arc<RemoteWaker>) {
    TASKS.with(|tasks| {
        let taken = {
            let mut slots = tasks.slots.borrow_mut();
            let slot = &mut slots[key.index as usize];
            if slot.generation != key.generation {
                return;
            }
            slot.is_ready = false;
            slot.task.take()
        };
        let Some(mut future) = taken else { return };
        // A panic ends one task, mostly; what it had in hand is dropped as at any other end.
        let polled = catch_unwind(AssertUnwindSafe(|| Turn::new(key, bell).take(|cx| future.as_mut().poll(cx))));
        let mut slots = tasks.slots.borrow_mut();
        let slot = &mut slots[key.index as usize];
        if let Ok(Poll::Pending) = polled
            && !slot.is_aborted
        {
            slot.task = Some(future);
            return;
        }
        let is_essential = slot.is_essential;
        tasks.vacate(key.index, slot);
        drop(slots);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
        if let (Err(panic), true) = (polled, is_essential) {
            resume_unwind(panic);
        }
    });
}

/// Whether none can go on before something comes.
pub fn are_all_waiting() -> bool {
    TASKS.with(|tasks| tasks.ready.borrow().is_empty() && tasks.after_look.borrow().is_empty())
}

/// The kernel was asked what there is: those who waited for that go on.
#[inline]
pub fn after_look() {
    TASKS.with(|tasks| tasks.after_look.borrow_mut().drain(..).for_each(|slot| slot.wake()));
}

/// A task can go on.
#[inline]
pub fn wake(key: Key) {
    // At the end of its thread there may be no tasks any more.
    let _ = TASKS.try_with(|tasks| {
        if key == ROOT {
            if tasks.is_root_ready.replace(true) {
                return;
            }
        } else {
            let mut slots = tasks.slots.borrow_mut();
            match slots.get_mut(key.index as usize) {
                Some(slot) if slot.generation == key.generation && !slot.is_ready => slot.is_ready = true,
                _ => return,
            }
        }
        tasks.ready.borrow_mut().push_back(key);
    });
}

/// Takes one from what the turn of a task allows. Pending: that is used up, and it goes on after the others.
#[inline]
pub fn poll_proceed(cx: &Context<'_>) -> Poll<()> {
    TASKS.with(|tasks| match tasks.budget.get() {
        0 => {
            tasks.after_look.borrow_mut().push(WakerSlot::of(cx));
            Poll::Pending
        }
        left => {
            tasks.budget.set(left - 1);
            Poll::Ready(())
        }
    })
}

/// Lets others have their turn first, also those for whom the kernel has something by now.
pub async fn yield_now() {
    let mut waited = false;
    poll_fn(|cx| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        TASKS.with(|tasks| tasks.after_look.borrow_mut().push(WakerSlot::of(cx)));
        Poll::Pending
    })
    .await;
}

impl Tasks {
    const fn new() -> Tasks {
        Tasks {
            slots: RefCell::new(Vec::new()),
            free: RefCell::new(Vec::new()),
            ready: RefCell::new(VecDeque::new()),
            after_look: RefCell::new(Vec::new()),
            is_root_ready: Cell::new(false),
            budget: Cell::new(BUDGET),
        }
    }

    fn vacate(&self, index: u32, slot: &mut Slot) {
        *slot = Slot { generation: slot.generation.wrapping_add(1), ..Slot::default() };
        self.free.borrow_mut().push(index);
    }

    /// Takes out the tasks that are left.
    fn take_all(&self) -> Vec<Work> {
        let mut slots = self.slots.borrow_mut();
        let take = |(index, slot): (usize, &mut Slot)| {
            let future = slot.task.take()?;
            self.vacate(index as u32, slot);
            Some(future)
        };
        slots.iter_mut().enumerate().filter_map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::run;
    use super::*;
    use std::rc::Rc;
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
        for _ in 0..100 {
            let (to_task, of_task) = oneshot::channel();
            let (to_root, of_root) = oneshot::channel();
            let other = thread::spawn(move || to_task.send(7).unwrap());
            let heard = run(async {
                spawn(async move { to_root.send(of_task.await.unwrap()).unwrap() });
                of_root.await
            });
            assert_eq!(heard.unwrap(), Ok(7));
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
        // Who is told to end does so alone, and the thread can run another.
        run(async {
            spawn_essential(std::future::pending()).abort();
            spawn_essential(async {});
            yield_now().await;
        })
        .unwrap();
    }

    #[test]
    fn a_task_ends_when_told_also_by_itself_and_only_that_one() {
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
    fn a_waker_that_outlives_its_task_wakes_nobody() {
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
}

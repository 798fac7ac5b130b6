//! Tests of the order in which tasks run, and of their ends.

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

/// Another thread may poll a future with a waker of this thread, which there is a foreign waker.
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

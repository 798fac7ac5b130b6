//! Does what other threads leave for the event loop arrive, in every order that the memory model allows? Models for loom, a
//! model checker; run by `make loom`.
//!
//! The orderings matter: with Relaxed in the place of Release in `RemoteQueue::push`, or of Acquire where the list is taken,
//! `a_value_arrives_with_what_was_written_before` fails ("Causality violation"). With `push` returning true only for a list
//! that has something, `a_reader_that_sleeps_is_notified` ends in a deadlock.
#![cfg(loom)]

use evenkeel_net::event_loop::remote_queue::RemoteQueue;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
use loom::thread;
use std::cell::Cell;

/// Written by the thread that pushes it and read by the one that takes it; loom sees if these could happen at once.
struct Written(UnsafeCell<u32>);

impl Written {
    fn new(value: u32) -> Written {
        let written = Written(UnsafeCell::new(0));
        // SAFETY: no other thread has it yet.
        written.0.with_mut(|at| unsafe { *at = value });
        written
    }

    fn read(&self) -> u32 {
        // SAFETY: loom ends the test if the write did not happen before.
        self.0.with(|at| unsafe { *at })
    }
}

/// Searches all orders with at most three preemptions, as more cost minutes.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

#[test]
fn a_value_arrives_with_what_was_written_before() {
    model(|| {
        let queue = Arc::new(RemoteQueue::new());
        let pushing = [1, 2].map(|value| {
            let queue = queue.clone();
            thread::spawn(move || queue.push(Written::new(value)))
        });
        let sum = Cell::new(0);
        let take = |written: Written| sum.set(sum.get() + written.read());
        queue.drain(take);
        let notified = pushing.into_iter().map(|thread| thread.join().unwrap()).filter(|notifies| *notifies).count();
        assert!(notified > 0);
        queue.drain(take);
        assert_eq!(sum.get(), 3, "each once");
    });
}

/// `Notify` stands for the descriptor that the event loop sleeps on. A wake-up that is lost shows as a deadlock.
#[test]
fn a_reader_that_sleeps_is_notified() {
    model(|| {
        let (queue, signal) = (Arc::new(RemoteQueue::new()), Arc::new(Notify::new()));
        let pushing = [1, 2].map(|value| {
            let (queue, signal) = (queue.clone(), signal.clone());
            thread::spawn(move || {
                let notifies = queue.push(value);
                if notifies {
                    signal.notify();
                }
                u32::from(notifies)
            })
        });
        let (mut sum, mut found) = (0, 0);
        while sum < 3 {
            signal.wait();
            let before = sum;
            queue.drain(|value| sum += value);
            found += u32::from(sum > before);
        }
        let notified: u32 = pushing.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(notified, found, "one notification for each list that was taken");
    });
}

#[test]
fn a_queue_that_closes_keeps_nothing() {
    model(|| {
        let (queue, held) = (Arc::new(RemoteQueue::new()), Arc::new(()));
        let pushing = {
            let (queue, held) = (queue.clone(), held.clone());
            thread::spawn(move || queue.push(held))
        };
        queue.close();
        let _notifies = pushing.join().unwrap();
        assert_eq!(Arc::strong_count(&held), 1);
    });
}

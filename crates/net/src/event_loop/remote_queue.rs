//! What do other threads leave for the event loop? A list that each adds to with one compare-and-swap, and that the event
//! loop takes as a whole. `tests/loom.rs` runs it through the orders that the memory model allows.

#[cfg(loom)]
use loom::sync::atomic::AtomicPtr;
use std::ptr;
#[cfg(not(loom))]
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Values on their way from any thread to one.
#[derive(Debug)]
pub struct RemoteQueue<T> {
    /// The value pushed last, null when there is none, or [`closed`].
    head: AtomicPtr<Node<T>>,
}

// SAFETY: values are moved from thread to thread, and none is looked at by two.
unsafe impl<T: Send> Sync for RemoteQueue<T> {}

#[derive(Debug)]
struct Node<T> {
    value: T,
    /// The value pushed before, or null.
    next: *mut Node<T>,
}

/// Stands for a queue that takes nothing any more. Never the address of a node, and never read.
fn closed<T>() -> *mut Node<T> {
    ptr::dangling_mut()
}

impl<T> RemoteQueue<T> {
    /// A queue with nothing in it.
    pub fn new() -> RemoteQueue<T> {
        RemoteQueue { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Adds a value, unless the queue is closed. Returns whether the queue was empty: only then must the reader be notified,
    /// as it will find this value together with those before.
    pub fn push(&self, value: T) -> bool {
        let node = Box::into_raw(Box::new(Node { value, next: ptr::null_mut() }));
        let mut head = self.head.load(Relaxed);
        loop {
            if head == closed() {
                // SAFETY: it was made above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(node) });
                return false;
            }
            // SAFETY: as above.
            unsafe { (*node).next = head };
            // Release: the thread that takes the list sees what is in the node, and what this thread did before.
            match self.head.compare_exchange_weak(head, node, Release, Relaxed) {
                Ok(_) => return head.is_null(),
                Err(now) => head = now,
            }
        }
    }

    /// Takes all values out, in the order in which they were pushed.
    pub fn drain(&self, take: impl FnMut(T)) {
        self.replace(ptr::null_mut(), take);
    }

    /// Drops what is there, and takes nothing any more. Nothing may be drained after this.
    pub fn close(&self) {
        self.replace(closed(), drop);
    }

    fn replace(&self, head: *mut Node<T>, mut take: impl FnMut(T)) {
        // Acquire: pairs with the Release of each push, as all of them swap the same pointer one after the other.
        let mut last = self.head.swap(head, Acquire);
        if last == closed() {
            return;
        }
        let mut first: Option<Box<Node<T>>> = None;
        while !last.is_null() {
            // SAFETY: a pushed node, made by `Box::into_raw`. The swap has given the list to this thread alone, and each
            // node is in it once.
            let mut node = unsafe { Box::from_raw(last) };
            last = std::mem::replace(&mut node.next, first.take().map_or(ptr::null_mut(), Box::into_raw));
            first = Some(node);
        }
        while let Some(node) = first {
            let Node { value, next } = *node;
            // SAFETY: made by `Box::into_raw` when the list was turned around; null at its end.
            first = (!next.is_null()).then(|| unsafe { Box::from_raw(next) });
            take(value);
        }
    }
}

impl<T> Drop for RemoteQueue<T> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn what_is_pushed_comes_out_once_and_in_order_and_the_first_is_told_to_notify() {
        let queue = RemoteQueue::new();
        assert_eq!([queue.push(1), queue.push(2), queue.push(3)], [true, false, false]);
        let mut taken = Vec::new();
        queue.drain(|value| taken.push(value));
        assert!(queue.push(4));
        queue.drain(|value| taken.push(value));
        assert_eq!(taken, [1, 2, 3, 4]);
    }

    #[test]
    fn a_queue_that_is_closed_or_gone_keeps_nothing() {
        let (held, queue) = (Arc::new(()), RemoteQueue::new());
        queue.push(held.clone());
        queue.push(held.clone());
        queue.close();
        assert!(!queue.push(held.clone()));
        queue.close();
        let other = RemoteQueue::new();
        other.push(held.clone());
        drop((queue, other));
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let (queue, each) = (Arc::new(RemoteQueue::new()), if cfg!(miri) { 50 } else { 5_000 });
        let pushing = [1, 2].map(|of| {
            let queue = queue.clone();
            thread::spawn(move || (0..each).map(|n| queue.push((of, n))).filter(|notifies| *notifies).count())
        });
        let mut next = [0; 3];
        while next != [0, each, each] {
            queue.drain(|(of, n)| {
                assert_eq!(n, next[of], "in the order of its thread");
                next[of] += 1;
            });
        }
        let notified: i32 = pushing.into_iter().map(|thread| thread.join().unwrap() as i32).sum();
        assert!((1..=2 * each).contains(&notified));
    }
}

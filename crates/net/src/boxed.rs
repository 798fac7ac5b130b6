//! Heap allocation of large futures in place. `Box::pin` builds a future on the stack and copies all of it,
//! although a new future contains little more than its arguments. Keep arguments at the size of a word: a
//! larger future is copied together with its neighbours in the future.
//!
//! The future of a request reuses the memory of an earlier future, which saves 3 % of a request's instructions.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// Most spare allocations of a thread.
const SPARE_MAX: usize = 64;

thread_local! {
    static SPARE: RefCell<Vec<Allocation>> = const { RefCell::new(Vec::new()) };
}

/// Boxes the future that `make` returns, built in place.
#[inline(always)]
pub fn boxed<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}

/// Boxes the future that `make` returns, reusing memory of an earlier future of the same layout if there is any.
#[inline(always)]
pub fn reused<F: Future>(make: impl FnOnce() -> F) -> Reused<F> {
    const { assert!(size_of::<F>() > 0, "the allocator gives nothing of no size") };
    let allocation = Allocation::take(Layout::new::<F>());
    let future = allocation.at.cast::<F>();
    // SAFETY: the allocation has this layout, and nothing else uses it.
    unsafe { future.write(make()) };
    Reused { future, _allocation: allocation }
}

/// A boxed future whose memory is recycled on drop.
pub struct Reused<F> {
    /// Initialised, and not moved until dropped.
    future: NonNull<F>,
    _allocation: Allocation,
}

impl<F: Future> Future for Reused<F> {
    type Output = F::Output;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future lives as long as `self`, its only owner, and never moves.
        unsafe { Pin::new_unchecked(self.future.as_mut()) }.poll(cx)
    }
}

impl<F> Drop for Reused<F> {
    fn drop(&mut self) {
        // SAFETY: the future is initialised, and nothing uses it afterwards.
        unsafe { self.future.drop_in_place() };
    }
}

/// Memory from the allocator, owned exclusively.
struct Allocation {
    at: NonNull<u8>,
    layout: Layout,
}

impl Allocation {
    fn take(layout: Layout) -> Allocation {
        if let Some(spare) = SPARE.with_borrow_mut(|spare| spare.pop_if(|last| last.layout == layout)) {
            return spare;
        }
        // SAFETY: `reused` asserts a size above 0.
        let Some(at) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        Allocation { at, layout }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Allocation { at, layout } = *self;
        // During thread teardown there is no list to return it to.
        let kept = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            let keeps = spare.len() < SPARE_MAX;
            if keeps {
                spare.push(Allocation { at, layout });
            }
            keeps
        });
        if kept != Ok(true) {
            // SAFETY: allocated with this layout, and not used afterwards.
            unsafe { dealloc(at.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use std::task::Waker;

    /// Holds a value until the second poll, which completes.
    async fn waits(held: Rc<()>, padding: &[u8; 2000]) -> usize {
        let mut polled = false;
        std::future::poll_fn(|_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending })
            .await;
        Rc::strong_count(&held) + padding.len()
    }

    fn poll<F: Future>(future: &mut Reused<F>) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn an_allocation_is_used_again_when_its_future_is_gone_however_it_went() {
        let (held, padding) = (Rc::new(()), &[0; 2000]);
        let make = || reused(|| waits(held.clone(), padding));
        let mut addresses: Vec<NonNull<u8>> = Vec::new();
        for polls in [0, 1, 2, 2] {
            let mut future = make();
            addresses.push(future.future.cast());
            let polled: Vec<_> = (0..polls).map(|_| poll(&mut future)).collect();
            assert!(polled.get(1).is_none_or(|last| *last == Poll::Ready(2002)), "{polled:?}");
        }
        assert!(addresses.iter().all(|address| *address == addresses[0]));
        let (one, other) = (make(), make());
        assert_ne!(one.future, other.future);
        drop((one, other));
        assert_eq!(Rc::strong_count(&held), 1, "each was dropped once");
    }

    #[test]
    fn of_more_than_are_kept_the_rest_goes_back_and_another_layout_gets_its_own() {
        let many: Vec<_> = (0..SPARE_MAX + 5).map(|_| reused(|| waits(Rc::new(()), &[0; 2000]))).collect();
        drop(many);
        assert_eq!(SPARE.with_borrow(Vec::len), SPARE_MAX);
        let mut other = reused(|| async { [7_u8; 100] });
        assert_eq!(poll(&mut other), Poll::Ready([7; 100]));
        assert!(std::panic::catch_unwind(|| reused(|| -> std::future::Ready<()> { panic!("not made") })).is_err());
    }
}

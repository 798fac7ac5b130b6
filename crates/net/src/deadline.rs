//! When has something taken too long? A coarse timer wheel, one per worker: setting a deadline is a store, and nothing is
//! done per request until one passes.
//!
//! A deadline that moves later leaves its entry where it is; the entry is moved when the wheel gets there. One that
//! moves earlier adds an entry, and the old one is dropped when found. Deadlines pass up to one [`TICK`] late.

use crate::event_loop::WakerSlot;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The precision of deadlines.
pub const TICK: Duration = Duration::from_millis(50);

const TICKS_PER_SECOND: u64 = 1000 / TICK.as_millis() as u64;

/// 3.4 minutes ahead; what is due later goes around again.
const BUCKETS: u64 = 4096;

const NEVER: u64 = u64::MAX;

/// A worker's deadlines.
#[derive(Debug)]
pub struct Wheel {
    tick: Cell<u64>,
    entries: RefCell<Vec<Entry>>,
    free: RefCell<Vec<u32>>,
    buckets: RefCell<Vec<Vec<u32>>>,
}

#[derive(Debug)]
struct Entry {
    due: u64,
    /// The tick in whose bucket it is, or [`NEVER`].
    placed: u64,
    fired: bool,
    waker: Option<WakerSlot>,
}

/// The deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// One movable deadline of one task.
#[derive(Debug)]
pub struct Timer {
    wheel: Rc<Wheel>,
    index: u32,
}

impl Wheel {
    /// A wheel at tick 0.
    pub fn new() -> Rc<Wheel> {
        Rc::new(Wheel {
            tick: Cell::new(0),
            entries: RefCell::default(),
            free: RefCell::default(),
            buckets: RefCell::new(vec![Vec::new(); BUCKETS as usize]),
        })
    }

    /// A timer without a deadline.
    pub fn timer(self: &Rc<Wheel>) -> Timer {
        let blank = Entry { due: NEVER, placed: NEVER, fired: false, waker: None };
        let mut entries = self.entries.borrow_mut();
        let index = match self.free.borrow_mut().pop() {
            Some(index) => {
                // Whatever bucket still lists this index finds that it is not placed there, or that it is not due.
                let placed = entries[index as usize].placed;
                entries[index as usize] = Entry { placed, ..blank };
                index
            }
            None => {
                entries.push(blank);
                entries.len() as u32 - 1
            }
        };
        Timer { wheel: self.clone(), index }
    }

    /// Moves on to the tick of `now`, since the worker's start, and wakes all whose deadline has passed.
    pub fn advance(&self, now: Duration) {
        let target = (now.as_nanos() / TICK.as_nanos()) as u64;
        while self.tick.get() < target {
            self.tick.set(self.tick.get() + 1);
            self.turn(self.tick.get());
        }
    }

    fn turn(&self, tick: u64) {
        let mut buckets = self.buckets.borrow_mut();
        let due = std::mem::take(&mut buckets[(tick % BUCKETS) as usize]);
        let mut entries = self.entries.borrow_mut();
        for index in due {
            let entry = &mut entries[index as usize];
            if entry.placed != tick {
                continue;
            }
            entry.placed = NEVER;
            if entry.due <= tick {
                entry.fired = true;
                entry.waker.iter().for_each(WakerSlot::wake);
            } else if entry.due != NEVER {
                place(entry, index, tick, &mut buckets);
            }
        }
    }

    /// Wakes every task that has a timer, without its deadline having passed: something for all has changed.
    pub fn wake_all(&self) {
        self.entries.borrow().iter().filter_map(|e| e.waker.as_ref()).for_each(WakerSlot::wake);
    }
}

fn place(entry: &mut Entry, index: u32, tick: u64, buckets: &mut [Vec<u32>]) {
    entry.placed = entry.due.clamp(tick + 1, tick + BUCKETS - 1);
    buckets[(entry.placed % BUCKETS) as usize].push(index);
}

impl Timer {
    /// The tick that is `after` from now.
    #[inline]
    pub fn tick_after(&self, after: Duration) -> u64 {
        let whole_seconds = after.as_secs().saturating_mul(TICKS_PER_SECOND);
        let rest = u64::from(after.subsec_nanos().div_ceil(TICK.subsec_nanos()));
        // One more: the current tick is partly over, and a deadline must not pass early.
        whole_seconds.saturating_add(self.wheel.tick.get() + rest + 1)
    }

    /// Nanoseconds from now to a tick; `None` for one that never comes.
    pub fn left_ns(&self, tick: u64) -> Option<u64> {
        (tick != NEVER).then(|| tick.saturating_sub(self.wheel.tick.get()).saturating_mul(TICK.as_nanos() as u64))
    }

    /// Sets the deadline.
    #[inline]
    pub fn set(&self, tick: u64) {
        let mut entries = self.wheel.entries.borrow_mut();
        let entry = &mut entries[self.index as usize];
        entry.due = tick;
        entry.fired = false;
        if tick < entry.placed {
            place(entry, self.index, self.wheel.tick.get(), &mut self.wheel.buckets.borrow_mut());
        }
    }

    /// Runs `future` until it ends or the deadline passes. The future gets the first word: one that is ready counts
    /// even after the deadline. It comes pinned, as a future that takes another by value holds it twice.
    ///
    /// # Errors
    /// The deadline passed first.
    #[inline]
    pub async fn limit<F: Future>(&self, mut future: Pin<&mut F>) -> Result<F::Output, Elapsed> {
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => self.poll_elapsed(cx).map(Err),
        })
        .await
    }

    /// The same, with a deadline that is set if the future has to wait, which most need not.
    ///
    /// # Errors
    /// It passed first.
    #[inline]
    pub async fn limit_by<F: Future>(&self, tick: u64, mut future: Pin<&mut F>) -> Result<F::Output, Elapsed> {
        let mut is_set = false;
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => {
                if !std::mem::replace(&mut is_set, true) {
                    self.set(tick);
                }
                self.poll_elapsed(cx).map(Err)
            }
        })
        .await
    }

    #[inline]
    fn poll_elapsed(&self, cx: &Context<'_>) -> Poll<Elapsed> {
        let mut entries = self.wheel.entries.borrow_mut();
        let entry = &mut entries[self.index as usize];
        if entry.fired {
            return Poll::Ready(Elapsed);
        }
        // A timer belongs to one task, which stays the same.
        if entry.waker.is_none() {
            entry.waker = Some(WakerSlot::of(cx));
        }
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let entry = &mut self.wheel.entries.borrow_mut()[self.index as usize];
        entry.due = NEVER;
        entry.waker = None;
        self.wheel.free.borrow_mut().push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Waker;

    fn fired(timer: &Timer) -> bool {
        let never = pin!(std::future::pending::<()>());
        let mut never = pin!(timer.limit(never));
        never.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn at(wheel: &Wheel, ms: u64) {
        wheel.advance(Duration::from_millis(ms));
    }

    #[test]
    fn a_deadline_that_moves_later_passes_later() {
        let wheel = Wheel::new();
        let timer = wheel.timer();
        timer.set(timer.tick_after(Duration::from_secs(1)));
        at(&wheel, 500);
        timer.set(timer.tick_after(Duration::from_secs(1)));
        at(&wheel, 1400);
        assert!(!fired(&timer));
        at(&wheel, 1600);
        assert!(fired(&timer));
    }

    #[test]
    fn a_deadline_that_moves_earlier_passes_earlier() {
        let wheel = Wheel::new();
        let timer = wheel.timer();
        timer.set(timer.tick_after(Duration::from_secs(3600)));
        timer.set(timer.tick_after(Duration::from_millis(100)));
        at(&wheel, 90);
        assert!(!fired(&timer));
        at(&wheel, 200);
        assert!(fired(&timer));
        timer.set(timer.tick_after(Duration::from_secs(3600)));
        at(&wheel, 3_500_000);
        assert!(!fired(&timer), "beyond one turn of the wheel");
        at(&wheel, 3_700_000);
        assert!(fired(&timer));
    }

    #[test]
    fn a_dropped_timer_leaves_nothing_to_the_next() {
        let wheel = Wheel::new();
        let timer = wheel.timer();
        timer.set(timer.tick_after(Duration::from_millis(100)));
        drop(timer);
        let next = wheel.timer();
        at(&wheel, 1000);
        assert!(!fired(&next));
        next.set(next.tick_after(Duration::from_millis(100)));
        at(&wheel, 2000);
        assert!(fired(&next));
    }
}

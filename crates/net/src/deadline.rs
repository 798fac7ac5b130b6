//! Deadlines on a coarse timer wheel of each worker. Setting a deadline is a store, and a request costs
//! nothing more until a deadline passes. No table is borrowed while a waker is woken, cloned or dropped, because
//! foreign wakers may set timers.
//!
//! A deadline that moves later leaves its entry in place, to be moved when the wheel gets there. A deadline
//! that moves earlier adds an entry, and the old entry is dropped when found. Deadlines pass up to a [`TICK`]
//! late.

use crate::event_loop::WakerSlot;
use evenkeel_balance::slab::SlotTable;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Precision of deadlines: 50 ms.
pub const TICK: Duration = Duration::from_millis(50);

const TICKS_PER_SECOND: u64 = 1000 / TICK.as_millis() as u64;

/// Covers 3.4 minutes; later deadlines go around again.
const BUCKETS: u64 = 4096;

/// Words of the bitmap with a bit per bucket.
const WORDS: usize = BUCKETS as usize / 64;

const NEVER: u64 = u64::MAX;

/// Timer wheel with the deadlines of a worker.
#[derive(Debug)]
pub struct Wheel {
    tick: Cell<u64>,
    entries: RefCell<SlotTable<Entry>>,
    buckets: RefCell<Vec<Vec<u32>>>,
    /// Bitmap of the buckets that are not empty.
    occupied: [Cell<u64>; WORDS],
}

#[derive(Debug)]
struct Entry {
    due: u64,
    /// Tick whose bucket holds the entry, or [`NEVER`].
    placed: u64,
    fired: bool,
    waker: Option<WakerSlot>,
}

impl Default for Entry {
    fn default() -> Entry {
        Entry { due: NEVER, placed: NEVER, fired: false, waker: None }
    }
}

/// Error: the deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// A movable deadline of a task.
#[derive(Debug)]
pub struct Timer {
    wheel: Rc<Wheel>,
    slot: u32,
}

impl Wheel {
    /// A wheel at tick 0, without timers.
    pub fn new() -> Rc<Wheel> {
        Rc::new(Wheel {
            tick: Cell::new(0),
            entries: RefCell::new(SlotTable::new()),
            buckets: RefCell::new(vec![Vec::new(); BUCKETS as usize]),
            occupied: [const { Cell::new(0) }; WORDS],
        })
    }

    /// A new timer without a deadline.
    pub fn timer(self: &Rc<Wheel>) -> Timer {
        let mut entries = self.entries.borrow_mut();
        // A bucket may still list a slot that another timer had. The placement is kept and serves the new
        // timer; otherwise connections that come and go would fill the buckets.
        let (key, entry) = entries.occupy();
        entry.fired = false;
        Timer { wheel: self.clone(), slot: key.slot() }
    }

    /// Advances to the tick of `now`, a time since the worker's start, and wakes all timers whose deadline
    /// has passed.
    pub fn advance(&self, now: Duration) {
        let target = (now.as_nanos() / TICK.as_nanos()) as u64;
        // Empty ticks are skipped: a worker may have slept for days.
        while let Some(tick) = self.next_tick().filter(|tick| *tick <= target) {
            self.tick.set(tick);
            self.turn(tick);
        }
        self.tick.set(target.max(self.tick.get()));
    }

    /// Time since the worker's start at which the wheel must advance next; `None` without deadlines. A
    /// deadline may pass then, or turn out to have been moved.
    pub fn next_due(&self) -> Option<Duration> {
        self.next_tick().map(|tick| TICK.saturating_mul(u32::try_from(tick).unwrap_or(u32::MAX)))
    }

    /// Next tick whose bucket is not empty.
    fn next_tick(&self) -> Option<u64> {
        let tick = self.tick.get();
        let (word, bit) = (((tick + 1) % BUCKETS) as usize / 64, (tick + 1) % 64);
        // The first word is checked twice: from its bit on, and at the end below that bit.
        (0..=WORDS).find_map(|ahead| {
            let at = (word + ahead) % WORDS;
            let mut bits = self.occupied[at].get();
            match ahead {
                0 => bits &= u64::MAX << bit,
                WORDS => bits &= !(u64::MAX << bit),
                _ => {}
            }
            let bucket = at as u64 * 64 + u64::from(bits.trailing_zeros());
            (bits != 0).then(|| tick + 1 + (bucket + BUCKETS - (tick + 1) % BUCKETS) % BUCKETS)
        })
    }

    fn turn(&self, tick: u64) {
        let bucket = (tick % BUCKETS) as usize;
        let due = std::mem::take(&mut self.buckets.borrow_mut()[bucket]);
        self.occupied[bucket / 64].update(|bits| bits & !(1 << (bucket % 64)));
        for slot in due {
            if let Some(waker) = self.pass(slot, tick) {
                waker.wake();
            }
        }
    }

    /// Handles an entry whose tick has come. Returns the waker if its deadline has passed.
    fn pass(&self, slot: u32, tick: u64) -> Option<WakerSlot> {
        let mut entries = self.entries.borrow_mut();
        let entry = entries.at_mut(slot);
        if entry.placed != tick {
            return None;
        }
        entry.placed = NEVER;
        if entry.due <= tick {
            entry.fired = true;
            return entry.waker.clone();
        }
        if entry.due != NEVER {
            self.place(entry, slot);
        }
        None
    }

    fn place(&self, entry: &mut Entry, slot: u32) {
        let tick = self.tick.get();
        entry.placed = entry.due.clamp(tick + 1, tick + BUCKETS - 1);
        let bucket = (entry.placed % BUCKETS) as usize;
        self.buckets.borrow_mut()[bucket].push(slot);
        self.occupied[bucket / 64].update(|bits| bits | 1 << (bucket % 64));
    }

    /// Wakes every task with a timer before its deadline, because something that concerns all has changed.
    pub fn wake_all(&self) {
        let wakers: Vec<WakerSlot> =
            self.entries.borrow_mut().iter_mut().filter_map(|(_, entry)| entry.waker.clone()).collect();
        wakers.iter().for_each(WakerSlot::wake);
    }
}

impl Timer {
    /// Tick at which `after` will have passed.
    #[inline]
    pub fn tick_after(&self, after: Duration) -> u64 {
        let whole_seconds = after.as_secs().saturating_mul(TICKS_PER_SECOND);
        let rest = u64::from(after.subsec_nanos().div_ceil(TICK.subsec_nanos()));
        // Plus 1, because the current tick is partly over and a deadline must not pass early.
        whole_seconds.saturating_add(self.wheel.tick.get() + rest + 1)
    }

    /// Nanoseconds from now to a tick; `None` for [`NEVER`].
    pub fn left_ns(&self, tick: u64) -> Option<u64> {
        (tick != NEVER).then(|| tick.saturating_sub(self.wheel.tick.get()).saturating_mul(TICK.as_nanos() as u64))
    }

    /// Sets the deadline to a tick.
    #[inline]
    pub fn set(&self, tick: u64) {
        let mut entries = self.wheel.entries.borrow_mut();
        let entry = entries.at_mut(self.slot);
        entry.due = tick;
        entry.fired = false;
        if tick < entry.placed {
            self.wheel.place(entry, self.slot);
        }
    }

    /// Runs `future` until it completes or the deadline passes. The future is polled first, so a future that is
    /// ready wins even after the deadline. Takes it pinned, because a future that takes another by value
    /// stores it twice. No `async fn`, for the same reason.
    ///
    /// # Errors
    /// If the deadline passes first.
    #[inline]
    pub fn limit<F: Future>(&self, mut future: Pin<&mut F>) -> impl Future<Output = Result<F::Output, Elapsed>> {
        poll_fn(move |cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => self.poll_elapsed(cx).map(Err),
        })
    }

    /// Like [`limit`](Self::limit), but sets the deadline only when the future has to wait, which most need
    /// not.
    ///
    /// # Errors
    /// If the deadline passes first.
    #[inline]
    pub fn limit_by<F: Future>(
        &self,
        tick: u64,
        mut future: Pin<&mut F>,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> {
        let mut is_set = false;
        poll_fn(move |cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => {
                if !std::mem::replace(&mut is_set, true) {
                    self.set(tick);
                }
                self.poll_elapsed(cx).map(Err)
            }
        })
    }

    #[inline]
    fn poll_elapsed(&self, cx: &Context<'_>) -> Poll<Elapsed> {
        let mut entries = self.wheel.entries.borrow_mut();
        let entry = entries.at_mut(self.slot);
        if entry.fired {
            return Poll::Ready(Elapsed);
        }
        if !WakerSlot::note_task(&mut entry.waker, cx) {
            drop(entries);
            self.keep_waker(cx);
        }
        Poll::Pending
    }

    /// Stores the waker of `cx`, replacing the previous waker.
    #[cold]
    fn keep_waker(&self, cx: &Context<'_>) {
        let new = WakerSlot::of(cx);
        let old = self.wheel.entries.borrow_mut().at_mut(self.slot).waker.replace(new);
        drop(old);
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let waker = {
            let mut entries = self.wheel.entries.borrow_mut();
            let entry = entries.at_mut(self.slot);
            entry.due = NEVER;
            let waker = entry.waker.take();
            entries.vacate(self.slot);
            waker
        };
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::task::{Wake, Waker};

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

    #[test]
    fn the_next_tick_is_that_of_the_first_deadline_wherever_the_wheel_stands() {
        for start in [0, 1, 62, 63, 64, 4031, 4032, 4095, 4096, 100_000] {
            for ahead in [1, 2, 63, 64, 65, 2000, 4094] {
                let wheel = Wheel::new();
                let (first, later) = (wheel.timer(), wheel.timer());
                let at = |tick: u64| TICK * u32::try_from(tick).unwrap();
                wheel.advance(at(start));
                assert_eq!(wheel.next_due(), None);
                later.set(start + ahead + 1);
                first.set(start + ahead);
                assert_eq!(wheel.next_due(), Some(at(start + ahead)), "{start} {ahead}");
                wheel.advance(at(start + ahead - 1));
                assert_eq!(wheel.next_due(), Some(at(start + ahead)), "{start} {ahead}");
                wheel.advance(at(start + ahead));
                assert_eq!(wheel.next_due(), Some(at(start + ahead + 1)), "{start} {ahead}");
                // A jump as after weeks of suspension, which must not visit each tick.
                wheel.advance(at(start + 40_000_000));
                assert_eq!(wheel.next_due(), None);
            }
        }
    }

    #[test]
    fn a_deadline_further_than_the_wheel_goes_around_passes_after_a_long_sleep_too() {
        let wheel = Wheel::new();
        let timer = wheel.timer();
        timer.set(3 * BUCKETS);
        wheel.advance(TICK * (3 * BUCKETS as u32 - 1));
        assert!(!fired(&timer));
        wheel.advance(TICK * (3 * BUCKETS as u32));
        assert!(fired(&timer));
    }

    #[test]
    fn the_waker_of_the_last_poll_is_woken() {
        struct Counts(AtomicU32);
        impl Wake for Counts {
            fn wake(self: Arc<Counts>) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let (wheel, wakers) = (Wheel::new(), [0; 2].map(|_| Arc::new(Counts(AtomicU32::new(0)))));
        let timer = wheel.timer();
        timer.set(timer.tick_after(Duration::from_millis(100)));
        let never = pin!(std::future::pending::<()>());
        let mut limited = pin!(timer.limit(never));
        for waker in &wakers {
            assert!(limited.as_mut().poll(&mut Context::from_waker(&waker.clone().into())).is_pending());
        }
        at(&wheel, 1000);
        assert_eq!(wakers.each_ref().map(|waker| waker.0.load(Relaxed)), [0, 1]);
    }
}

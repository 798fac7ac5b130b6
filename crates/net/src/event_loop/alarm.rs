//! When does a task go on that waits for some milliseconds? A clock of the kernel's says so, which is watched like a socket:
//! so the event loop neither asks for the time nor sets a timeout when it sleeps. For what mostly does not come to pass,
//! as the timeouts of requests, [`deadline`](crate::deadline) is cheaper.

use super::source::Source;
use super::tasks::spawn;
use super::waker_slot::WakerSlot;
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

thread_local! {
    static ALARMS: RefCell<Alarms> = const { RefCell::new(Alarms { clock: None, waiting: BTreeMap::new(), count: 0, set: None }) };
}

/// Those who sleep on this thread.
struct Alarms {
    clock: Option<Rc<Source<OwnedFd>>>,
    /// By the time to wake, and the order in which they fell asleep.
    waiting: BTreeMap<(Instant, u64), WakerSlot>,
    count: u64,
    /// When the clock tells.
    set: Option<Instant>,
}

/// Sets up the clock of the event loop of this thread.
///
/// # Errors
/// The kernel has no descriptor to give.
pub fn start() -> io::Result<()> {
    let clock = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let clock = Rc::new(Source::new(clock)?);
    ALARMS.set(Alarms { clock: Some(clock.clone()), waiting: BTreeMap::new(), count: 0, set: None });
    spawn(async move {
        loop {
            clock.readable().await;
            clock.note_empty();
            ALARMS.with_borrow_mut(Alarms::ring);
        }
    });
    Ok(())
}

impl Alarms {
    /// Wakes all whose time has come.
    fn ring(&mut self) {
        let now = Instant::now();
        self.set = None;
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= now) {
            // Waking only puts a task into its queue.
            first.remove().wake();
        }
        if let Some((&(at, _), _)) = self.waiting.first_key_value() {
            self.set(at, now);
        }
    }

    /// Has the clock tell at `at`, or earlier.
    fn set(&mut self, at: Instant, now: Instant) {
        let Some(clock) = self.clock.as_deref().filter(|_| self.set.is_none_or(|set| at < set)) else { return };
        // Zero would unset it.
        let after = at.saturating_duration_since(now).max(Duration::from_nanos(1));
        let value = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let set =
            timerfd_settime(&**clock, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: never, it_value: value });
        debug_assert!(set.is_ok(), "a clock of ours, and a time within its range");
        self.set = Some(at);
    }
}

/// Waits until a time has come. Made by [`sleep`] and [`sleep_until`].
#[derive(Debug)]
pub struct Sleep {
    at: Instant,
    /// Where it waits.
    key: Option<u64>,
}

/// Waits for some time.
pub fn sleep(duration: Duration) -> Sleep {
    let now = Instant::now();
    // Times that no clock reaches are as good as a year.
    sleep_until(now.checked_add(duration).unwrap_or(now + Duration::from_secs(365 * 86_400)))
}

/// Waits until `at`.
pub fn sleep_until(at: Instant) -> Sleep {
    Sleep { at, key: None }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Sleep>, cx: &mut Context<'_>) -> Poll<()> {
        ALARMS.with_borrow_mut(|alarms| {
            if let Some(key) = self.key {
                return match alarms.waiting.get_mut(&(self.at, key)) {
                    Some(waker_slot) => {
                        *waker_slot = WakerSlot::of(cx);
                        Poll::Pending
                    }
                    None => Poll::Ready(()),
                };
            }
            let now = Instant::now();
            if self.at <= now {
                return Poll::Ready(());
            }
            alarms.count += 1;
            self.key = Some(alarms.count);
            alarms.waiting.insert((self.at, alarms.count), WakerSlot::of(cx));
            alarms.set(self.at, now);
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            // At the end of its thread there may be no alarms any more.
            let waker = ALARMS.try_with(|alarms| alarms.borrow_mut().waiting.remove(&(self.at, key)));
            drop(waker);
        }
    }
}

/// Runs `future`, but no longer than `limit`: `None` if that was too short. Costs an alarm each time.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let (mut future, mut over) = (pin!(future), pin!(sleep(limit)));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => over.as_mut().poll(cx).map(|()| None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::super::run;
    use super::*;
    use std::future::{pending, ready};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn who_sleeps_shorter_is_woken_first_whatever_the_order_they_fell_asleep() {
        let woken = Rc::new(RefCell::new(Vec::new()));
        run(async {
            for ms in [30, 10, 20] {
                let woken = woken.clone();
                spawn(async move {
                    let (before, time) = (Instant::now(), ms * MS);
                    sleep(time).await;
                    assert!(before.elapsed() >= time);
                    woken.borrow_mut().push(ms);
                });
            }
            sleep(40 * MS).await;
        })
        .unwrap();
        assert_eq!(*woken.borrow(), [10, 20, 30]);
    }

    #[test]
    fn a_timeout_ends_what_takes_too_long() {
        run(async {
            assert_eq!(timeout(MS, pending::<()>()).await, None);
            assert_eq!(timeout(Duration::MAX, ready(1)).await, Some(1));
            ALARMS.with_borrow(|alarms| assert!(alarms.waiting.is_empty()));
        })
        .unwrap();
    }
}

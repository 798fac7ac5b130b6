//! When does a task go on that waits for some milliseconds? When a clock of the kernel says so, which is watched like a
//! socket: the event loop neither asks for the time nor sets a timeout when it sleeps. For what mostly does not happen, such
//! as the timeout of a request, [`deadline`](crate::deadline) is cheaper.

use super::kernel::AlarmClock;
use super::source::Source;
use super::tasks::spawn;
use super::waker_slot::WakerSlot;
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

/// The alarms of this thread.
struct Alarms {
    clock: Option<Rc<Source<AlarmClock>>>,
    /// By their time, and the order in which they began to wait.
    waiting: BTreeMap<(Instant, u64), WakerSlot>,
    count: u64,
    /// The time that the clock is set to.
    set: Option<Instant>,
}

/// Sets up the clock of the event loop of this thread.
///
/// # Errors
/// The kernel has no descriptor to give.
pub fn start() -> io::Result<()> {
    let clock = Rc::new(Source::new(AlarmClock::new()?)?);
    let next = Alarms { clock: Some(clock.clone()), waiting: BTreeMap::new(), count: 0, set: None };
    // Outside of the borrow: those of an event loop that has ended may hold wakers of others.
    drop(ALARMS.replace(next));
    spawn(async move {
        loop {
            clock.readable().await;
            clock.note_empty();
            ring(Instant::now());
        }
    });
    Ok(())
}

/// Wakes all whose time has come by `now`.
pub(super) fn ring(now: Instant) {
    ALARMS.with_borrow_mut(|alarms| alarms.set = None);
    while let Some(waker) = ALARMS.with_borrow_mut(|alarms| alarms.take_due(now)) {
        // Outside of the borrow: a waker of others may set alarms.
        waker.wake();
    }
    ALARMS.with_borrow_mut(|alarms| {
        if let Some((&(at, _), _)) = alarms.waiting.first_key_value() {
            alarms.set(at, now);
        }
    });
}

impl Alarms {
    fn take_due(&mut self, now: Instant) -> Option<WakerSlot> {
        self.waiting.first_entry().filter(|first| first.key().0 <= now).map(|first| first.remove())
    }

    /// Has the clock ring at `at`, or earlier.
    fn set(&mut self, at: Instant, now: Instant) {
        let Some(clock) = self.clock.as_deref().filter(|_| self.set.is_none_or(|set| at < set)) else { return };
        clock.set(at.saturating_duration_since(now));
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
        let now = match self.key {
            Some(key) if !ALARMS.with_borrow(|alarms| alarms.waiting.contains_key(&(self.at, key))) => {
                return Poll::Ready(());
            }
            Some(_) => None,
            None => Some(Instant::now()),
        };
        if now.is_some_and(|now| self.at <= now) {
            return Poll::Ready(());
        }
        let waker = WakerSlot::of(cx);
        let old = ALARMS.with_borrow_mut(|alarms| {
            let key = *self.key.get_or_insert_with(|| {
                alarms.count += 1;
                alarms.count
            });
            let old = alarms.waiting.insert((self.at, key), waker);
            if let Some(now) = now {
                alarms.set(self.at, now);
            }
            old
        });
        // Outside of the borrow, as its clone: a waker of others may set alarms.
        drop(old);
        Poll::Pending
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
    fn the_earlier_alarm_rings_first_whatever_the_order_in_which_they_were_set() {
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

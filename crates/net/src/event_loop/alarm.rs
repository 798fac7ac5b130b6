//! Alarms of a few milliseconds, on a timerfd that is watched like a socket: the event loop itself neither
//! reads the time nor sets a timeout when it sleeps. For timeouts that rarely pass, such as the timeout of a
//! request, [`deadline`](crate::deadline) is cheaper.

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

struct Alarms {
    clock: Option<Rc<Source<AlarmClock>>>,
    /// Keyed by time and by order of arrival.
    waiting: BTreeMap<(Instant, u64), WakerSlot>,
    count: u64,
    /// Time that the clock is set to.
    set: Option<Instant>,
}

/// Sets up the alarms of this thread's event loop.
///
/// # Errors
/// If no descriptor is left.
pub fn start() -> io::Result<()> {
    let clock = Rc::new(Source::new(AlarmClock::new()?)?);
    let next = Alarms { clock: Some(clock.clone()), waiting: BTreeMap::new(), count: 0, set: None };
    // Outside the borrow: alarms of an earlier event loop may hold foreign wakers.
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

/// Wakes all tasks whose time has come by `now`.
pub(super) fn ring(now: Instant) {
    ALARMS.with_borrow_mut(|alarms| alarms.set = None);
    while let Some(waker) = ALARMS.with_borrow_mut(|alarms| alarms.take_due(now)) {
        // Outside the borrow: a foreign waker may set alarms.
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

    /// Sets the clock to `at`, unless it is set earlier.
    fn set(&mut self, at: Instant, now: Instant) {
        let Some(clock) = self.clock.as_deref().filter(|_| self.set.is_none_or(|set| at < set)) else { return };
        clock.set(at.saturating_duration_since(now));
        self.set = Some(at);
    }
}

/// Future that waits for a time. Returned by [`sleep`] and [`sleep_until`].
#[derive(Debug)]
pub struct Sleep {
    at: Instant,
    /// Order of arrival while it waits.
    key: Option<u64>,
}

/// Waits for `duration`.
pub fn sleep(duration: Duration) -> Sleep {
    let now = Instant::now();
    // Times beyond the clock's range become a year.
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
        // Outside the borrow, like the clone: a foreign waker may set alarms.
        drop(old);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            // During thread teardown the alarms may be gone.
            let waker = ALARMS.try_with(|alarms| alarms.borrow_mut().waiting.remove(&(self.at, key)));
            drop(waker);
        }
    }
}

/// Runs `future` for at most `limit`; `None` if the time runs out first. Sets an alarm each time.
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

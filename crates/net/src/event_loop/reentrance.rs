//! Tests that foreign wakers may use the event loop when they are woken or dropped, for every kind of wait
//! and every end of a wait. Regression: such wakers were woken and dropped while the table was borrowed that
//! they then borrowed, which panics.

use super::{Watched, alarm, run, spawn, yield_now};
use crate::deadline::{Timer, Wheel};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

thread_local! {
    static WHEEL: RefCell<Option<Rc<Wheel>>> = const { RefCell::new(None) };
    /// Number of times that a [`Reentrant`] was woken, and dropped.
    static WOKEN: Cell<u32> = const { Cell::new(0) };
    static DROPPED: Cell<u32> = const { Cell::new(0) };
    /// Guards against recursion: waking all timers may wake this timer.
    static IS_USING: Cell<bool> = const { Cell::new(false) };
}

/// A waker that uses every part of the event loop when woken and when dropped.
struct Reentrant;

impl Wake for Reentrant {
    fn wake(self: Arc<Reentrant>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Reentrant>) {
        WOKEN.set(WOKEN.get() + 1);
        use_all();
    }
}

impl Drop for Reentrant {
    fn drop(&mut self) {
        DROPPED.set(DROPPED.get() + 1);
        use_all();
    }
}

/// Opens and closes a socket, sets a timer and an alarm, and spawns two tasks, and aborts the second.
fn use_all() {
    if IS_USING.replace(true) {
        return;
    }
    let (_peer, ours) = UnixStream::pair().unwrap();
    let cx = &mut Context::from_waker(Waker::noop());
    let watched = Watched::new(&ours).unwrap();
    assert!(watched.poll_readable(cx).is_pending());
    let timer = wheel().timer();
    timer.set(timer.tick_after(MS));
    wheel().wake_all();
    // Long, so that it does not elapse before the poll on a slow machine.
    assert!(pin!(alarm::sleep(HOUR)).poll(cx).is_pending());
    assert!(pin!(yield_now()).poll(cx).is_pending());
    spawn(async {});
    spawn(pending()).abort();
    IS_USING.set(false);
}

fn wheel() -> Rc<Wheel> {
    WHEEL.with_borrow_mut(|wheel| wheel.get_or_insert_with(Wheel::new).clone())
}

/// Polls `wait` with two reentrant wakers in turn, wakes it by `end`, and drops a second wait.
fn check<F: Future>(wait: impl Fn() -> F, end: impl AsyncFnOnce()) {
    fn poll<F: Future>(wait: Pin<&mut F>) -> Poll<F::Output> {
        wait.poll(&mut Context::from_waker(&Waker::from(Arc::new(Reentrant))))
    }
    run(async {
        WOKEN.set(0);
        DROPPED.set(0);
        let mut given_up = Box::pin(wait());
        assert!(poll(given_up.as_mut()).is_pending());
        drop(given_up);
        let mut kept = pin!(wait());
        assert!(poll(kept.as_mut()).is_pending());
        assert!(poll(kept.as_mut()).is_pending());
        // Dropping the first waker has woken all timers.
        WOKEN.set(0);
        end().await;
        while WOKEN.get() == 0 {
            yield_now().await;
        }
        assert!(poll(kept).is_ready());
    })
    .unwrap();
    WHEEL.take();
    assert!(DROPPED.get() >= 3, "{}", DROPPED.get());
}

#[test]
fn a_socket_wakes_and_drops_it() {
    let peers = RefCell::new(Vec::new());
    let wait = || {
        let (peer, ours) = UnixStream::pair().unwrap();
        peers.borrow_mut().push(peer);
        let watched = Watched::new(&ours).unwrap();
        async move {
            // The watch must end before the descriptor is closed.
            let (_ours, watched) = (ours, watched);
            poll_fn(|cx| watched.poll_readable(cx)).await;
        }
    };
    // `write_all` would call `send(2)`, which Miri refuses for a socket pair.
    check(wait, async || assert_eq!(rustix::io::write(&peers.borrow()[1], b"x"), Ok(1)));
}

#[test]
fn a_timer_wakes_and_drops_it() {
    async fn wait() {
        let timer = wheel().timer();
        timer.set(timer.tick_after(MS));
        assert!(timer.limit(pin!(pending::<()>())).await.is_err());
    }
    check(wait, async || wheel().advance(Duration::from_secs(1)));
}

#[test]
fn waking_all_timers_wakes_it() {
    let over = Cell::new(false);
    let wait = || async {
        let timer: Timer = wheel().timer();
        let over = poll_fn(|_| if over.get() { Poll::Ready(()) } else { Poll::Pending });
        timer.limit(pin!(over)).await.unwrap();
    };
    check(wait, async || {
        over.set(true);
        wheel().wake_all();
    });
}

#[test]
fn an_alarm_wakes_and_drops_it() {
    check(|| alarm::sleep(HOUR), async || alarm::ring(Instant::now() + 2 * HOUR));
}

#[test]
fn what_waits_for_others_wakes_and_drops_it() {
    // Registers once; the second poll of `yield_now` would be ready.
    let wait = || {
        let mut polls = 0;
        async move {
            poll_fn(|cx| {
                polls += 1;
                let _ = pin!(yield_now()).poll(cx);
                if polls < 3 { Poll::Pending } else { Poll::Ready(()) }
            })
            .await
        }
    };
    check(wait, async || yield_now().await);
}

#[test]
fn an_event_loop_that_ends_drops_it() {
    let wait = |cx: &mut Context<'_>| assert!(pin!(yield_now()).poll(cx).is_pending());
    run(async { wait(&mut Context::from_waker(&Waker::from(Arc::new(Reentrant)))) }).unwrap();
    WHEEL.take();
    assert_eq!(DROPPED.get(), 1);
}

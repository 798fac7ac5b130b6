//! A bounded queue per pool for requests that find every endpoint full: first in, first out over all workers.
//!
//! A free place is not handed to a waiter. The waiter at the front gets a *grant*, which wakes it and gives it a turn
//! to try; then the algorithm of its worker picks. Three rules keep a free place and a waiter that could use it
//! from missing each other:
//!
//! - A thread that frees a place grants the longest waiter that has no grant yet. A grant is used up before the try,
//!   so a place freed during a try leads to a new grant.
//! - A waiter whose try fails because it must not go where the place is, or that leaves with a grant, passes the
//!   grant to the next waiter behind. A waiter that could have gone anywhere and found every endpoint full passes
//!   nothing on: no place is free.
//! - Places may be free that no waiter could use so far. So a waiter that enters, and every waiter after a new set
//!   was published, is offered a try: in order, never two at once, and only while no other waiter has a grant.
//!
//! So each free place wakes a single waiter, not all of them. Grants are given in order; of waiters that have one at
//! the same time, the first to run is the first to try.
//!
//! Only this file and `published` lock. The lock here is taken only while a request waits.

#[expect(
    clippy::disallowed_types,
    reason = "taken by waiters and by threads that wake them, and not without waiters"
)]
use crate::structures::atomics::Mutex;
use crate::structures::atomics::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

/// Length of the queue, and the longest wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Requests that may wait at once, all workers together; 0 = none waits.
    pub max: u32,
    /// Longest wait of a request, nanoseconds.
    pub timeout_ns: u64,
}

/// The queue of a pool, shared by its workers.
#[derive(Debug)]
pub struct Queue {
    /// Number of waiters. Outside the lock, so that no thread locks while it is 0.
    waiting: AtomicU32,
    #[expect(clippy::disallowed_types, reason = "as above")]
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    max: u32,
    /// Number of waiters that have entered so far, which is the number of the next waiter.
    entered: u64,
    waiters: BTreeMap<u64, Waker>,
    /// Numbers of the waiters without a grant.
    ungranted: BTreeSet<u64>,
    /// Number of turns in progress.
    trying: u32,
    /// Waiters from this number on have not been offered a try.
    unoffered: u64,
    /// Times that all waiters were offered a try.
    offers: u64,
}

/// A waiting request. Leaves the queue when dropped, and passes on its grant if it had any.
#[derive(Debug)]
#[must_use = "dropped, it leaves the queue"]
pub struct Waiting {
    queue: Arc<Queue>,
    number: u64,
}

/// Error of [`Queue::enter`]: the queue has its maximum of waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is full")
    }
}

impl std::error::Error for Full {}

impl Queue {
    /// Returns an empty queue for at most `max` waiters.
    #[expect(clippy::disallowed_types, reason = "as above")]
    pub fn new(max: u32) -> Queue {
        Queue { waiting: AtomicU32::new(0), state: Mutex::new(State { max, ..State::default() }) }
    }

    /// Changes how many may wait. Requests that already wait stay.
    pub fn set_max(&self, max: u32) {
        self.change(|s| {
            s.max = max;
            None
        });
    }

    /// Number of waiters over all workers. May be some nanoseconds old.
    #[inline]
    pub fn depth(&self) -> u32 {
        self.waiting.load(Relaxed)
    }

    /// Enters at the back. The caller then tries at once with
    /// [`Balancer::start_waited`](crate::Balancer::start_waited), and again each time `waker` is woken, until it has a
    /// ticket or drops the [`Waiting`].
    ///
    /// # Errors
    /// [`Full`] if `max` requests wait already.
    pub fn enter(self: &Arc<Queue>, waker: Waker) -> Result<Waiting, Full> {
        let mut number = None;
        self.change(|s| {
            if s.waiters.len() < s.max as usize {
                s.waiters.insert(s.entered, waker);
                s.ungranted.insert(s.entered);
                number = Some(s.entered);
                s.entered += 1;
            }
            // An offer here can only go to the newcomer, which is awake.
            s.offer();
            None
        });
        // Pairs with the fence of `freed`. Of a waiter that counts itself and then looks for a place, and a thread that
        // frees a place and then looks for waiters, either sees the other.
        fence(SeqCst);
        let number = number.ok_or(Full)?;
        Ok(Waiting { queue: self.clone(), number })
    }

    /// Grants the longest waiter a try, if any waits. To be called after a place became free. `alone`: the caller is
    /// the pool's only worker, so its waiters are on the same thread and no fence is needed.
    #[inline]
    pub(crate) fn freed(&self, alone: bool) {
        if !alone {
            fence(SeqCst); // pairs with the fence of `enter`
        }
        if self.waiting.load(Relaxed) != 0 {
            self.grant();
        }
    }

    #[cold]
    fn grant(&self) {
        self.change(|s| s.grant(0));
    }

    /// Offers each waiter a try, the longest first. To be called after limits rose or endpoints came back.
    pub fn grant_all(&self) {
        // The lock orders this with `enter`: a waiter that enters later sees everything published before.
        self.change(|s| {
            s.unoffered = 0;
            s.offers += 1;
            s.offer()
        });
    }

    /// Changes the state under the lock, and wakes the waiter that got a grant after releasing it, as a waker is
    /// foreign code.
    fn change(&self, change: impl FnOnce(&mut State) -> Option<Waker>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let woken = change(&mut state);
        let waiting = state.waiters.len() as u32;
        // Written only under the lock, and only on a change, as all workers keep it in their caches.
        if self.waiting.load(Relaxed) != waiting {
            self.waiting.store(waiting, Relaxed);
        }
        drop(state);
        if let Some(waker) = woken {
            waker.wake();
        }
    }
}

impl State {
    /// Grants the first waiter from `number` on that has no grant.
    fn grant(&mut self, number: u64) -> Option<Waker> {
        let first = *self.ungranted.range(number..).next()?;
        self.ungranted.remove(&first);
        self.waiters.get(&first).cloned()
    }

    /// Grants the first waiter that was not offered a try, unless another has a grant or is trying: that waiter comes
    /// first.
    fn offer(&mut self) -> Option<Waker> {
        if self.trying > 0 || self.ungranted.len() < self.waiters.len() {
            return None;
        }
        let first = *self.ungranted.range(self.unoffered..).next()?;
        self.unoffered = first + 1;
        self.grant(first)
    }

    /// Removes a waiter. If it had a grant, the next waiter behind gets it.
    fn leave(&mut self, number: u64) -> Option<Waker> {
        let left = self.waiters.remove(&number).is_some();
        let granted = left && !self.ungranted.remove(&number);
        if granted { self.grant(number) } else { None }
    }
}

impl Waiting {
    /// Number of requests that entered the queue before this request, since its creation. The lowest number is served
    /// first.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Sets the waker for grants from now on. The caller must try once afterwards, as the previous waker may already
    /// have been woken.
    pub fn set_waker(&mut self, waker: &Waker) {
        self.queue.change(|s| {
            if let Some(old) = s.waiters.get_mut(&self.number) {
                old.clone_from(waker);
            }
            None
        });
    }

    /// Uses up the grant; `None` if there is none.
    pub(crate) fn turn(&mut self) -> Option<Turn<'_>> {
        let mut offers = None;
        self.queue.change(|s| {
            // Not after the waiter has left the queue with a ticket.
            if s.waiters.contains_key(&self.number) && s.ungranted.insert(self.number) {
                s.trying += 1;
                offers = Some(s.offers);
            }
            None
        });
        offers.map(|offers| Turn { waiting: self, offers, ended: Ended::Missed })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queue.change(|s| s.leave(self.number).or_else(|| s.offer()));
    }
}

/// A waiter's turn to try. If dropped, it has failed and is passed on.
#[derive(Debug)]
pub(crate) struct Turn<'w> {
    waiting: &'w mut Waiting,
    /// Value of [`State::offers`] when the turn began.
    offers: u64,
    ended: Ended,
}

#[derive(Clone, Copy, Debug)]
enum Ended {
    /// The waiter got a ticket and leaves.
    Took,
    /// The waiter could have gone anywhere, and every endpoint was full.
    AllFull,
    /// The waiter could not use the place that is free.
    Missed,
}

impl Turn<'_> {
    /// Ends the turn with a ticket: the waiter leaves the queue.
    pub(crate) fn took(mut self) {
        self.ended = Ended::Took;
    }

    /// Ends the turn without a place: the try could have gone anywhere, and every place was taken.
    pub(crate) fn all_full(mut self) {
        self.ended = Ended::AllFull;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let number = self.waiting.number;
        self.waiting.queue.change(|s| {
            s.trying -= 1;
            let woken = match self.ended {
                Ended::Took => s.leave(number),
                Ended::Missed => s.grant(number + 1),
                Ended::AllFull => {
                    // Nothing is left to offer either, unless all were offered a try since: this turn may not have seen
                    // the new set. Places freed since have led to grants, which stay.
                    if self.offers == s.offers {
                        s.unoffered = s.entered;
                    }
                    None
                }
            };
            woken.or_else(|| s.offer())
        });
    }
}

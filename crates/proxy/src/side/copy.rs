//! Copies of clients' requests for another pool. A copy holds its body in memory, up to a limit, until the pool has
//! answered; the number of copies at once is limited, too. No client waits for one.

use super::attempt::{self, Terms};
use super::request::SideRequest;
use crate::load::probe::Prober;
use crate::observe::stats::MirrorDrop;
use crate::upstream::pick::InFlight;
use crate::upstream::pool::WorkerPool;
use evenkeel_balance::Request;
use evenkeel_net::event_loop::spawn;
use std::rc::Rc;
use std::time::Duration;

/// Most bytes of the body of an answer that are read, so that the connection can carry another request.
const ANSWER_MAX: u64 = 1 << 20;

/// Pool that gets copies, and their limits.
pub struct Mirror {
    pub pool: Rc<WorkerPool>,
    pub prober: Rc<Prober>,
    /// Most bytes of a body.
    pub body_max: u64,
    /// Most copies at once on this worker.
    pub in_flight_max: usize,
    /// Longest time from sending a copy to the end of the answer.
    pub timeout: Duration,
}

/// Copy of a request, as far as its body has come. Dropped before it was sent, it counts as incomplete.
pub struct RequestCopy {
    mirror: Rc<Mirror>,
    request: SideRequest,
    /// Hash key for the pool's algorithm.
    key: Option<u64>,
    /// True once its end was counted.
    is_counted: bool,
}

impl Mirror {
    /// Counts a request that is not copied.
    pub fn drop_for(&self, why: MirrorDrop) {
        self.pool.stats.mirrors.dropped[why as usize].add(1);
    }

    /// True if another copy may be made.
    pub fn has_room(&self) -> bool {
        self.pool.mirrored.get() < self.in_flight_max
    }

    /// Makes a copy of a request, whose body follows by [`RequestCopy::push`]. `key` is its hash key for the pool's
    /// algorithm.
    pub fn copy(self: &Rc<Mirror>, request: SideRequest, key: Option<u64>) -> RequestCopy {
        self.pool.mirrored.set(self.pool.mirrored.get() + 1);
        RequestCopy { mirror: self.clone(), request, key, is_counted: false }
    }
}

impl RequestCopy {
    /// Adds bytes of the body. Returns false, and counts the copy as too large, if it would exceed the limit.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let body = &mut self.request.message.kept;
        let fits = (body.len() + bytes.len()) as u64 <= self.mirror.body_max;
        if fits {
            body.extend_from_slice(bytes);
        } else {
            self.count(MirrorDrop::TooLarge);
        }
        fits
    }

    /// Sends the copy, in a task of its own, and drops the answer.
    pub fn send(mut self) {
        self.is_counted = true;
        spawn(async move {
            let RequestCopy { mirror, request, key, .. } = &mut self;
            let (core, pool) = (mirror.prober.core(), &*mirror.pool);
            let timer = core.wheel.timer();
            let deadline = timer.tick_after(mirror.timeout);
            // Without waiting in the queue: copies must not take the places of requests there.
            let Ok(ticket) = InFlight::start(&core.clock, pool, &Request { key: *key, ..Request::default() }) else {
                return mirror.drop_for(MirrorDrop::NoEndpoint);
            };
            mirror.prober.after_start(&mirror.pool);
            pool.stats.mirrors.sent.add(1);
            let terms = Terms { core, timer: &timer, deadline, answer_max: ANSWER_MAX, keeps_body: false };
            if attempt::run(terms, pool, ticket, request).await.is_err() {
                pool.stats.mirrors.failed.add(1);
            }
        });
    }

    fn count(&mut self, why: MirrorDrop) {
        self.is_counted = true;
        self.mirror.drop_for(why);
    }
}

impl Drop for RequestCopy {
    fn drop(&mut self) {
        if !self.is_counted {
            self.count(MirrorDrop::Incomplete);
        }
        let pool = &self.mirror.pool;
        pool.mirrored.set(pool.mirrored.get() - 1);
    }
}

//! Copies of clients' requests for another pool. A copy holds its body in memory, up to a limit, until the pool has
//! answered. The number of copies at once is limited by route, too. No client waits for a copy. A copy whose body does
//! not come gives its place back once others need it.

use super::attempt::{self, Reads, Terms};
use super::request::SideRequest;
use crate::load::probe::Prober;
use crate::observe::stats::MirrorDrop;
use crate::upstream::pick::InFlight;
use crate::upstream::pool::WorkerPool;
use evenkeel_balance::{Clock, Instant, Request};
use evenkeel_config::plan;
use evenkeel_net::event_loop::spawn;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of the body of a response that are read, so that the connection can carry another request.
const ANSWER_MAX: u64 = 1 << 20;

/// Part of the timeout after which a body without another byte has stalled.
const STALLED: u32 = 5;

/// Least time between two searches for stalled bodies, in nanoseconds.
const SEARCH_EVERY_NS: u64 = 10_000_000;

/// Bytes in front of each message of a gRPC call: a flag and its length.
const GRPC_PREFIX: usize = 5;

/// Pool that gets copies, and their limits.
pub struct Mirror {
    pub pool: Rc<WorkerPool>,
    pub prober: Rc<Prober>,
    /// Most bytes of a body.
    pub body_max: u64,
    /// Most copies of the route at once on this worker.
    in_flight_max: usize,
    /// Time limit from sending a copy to the end of the response. Also the time in which its body has to come, if
    /// others need its place.
    timeout: Duration,
    /// Copies of the route for the pool.
    in_flight: Rc<Cell<usize>>,
    /// Copies whose bodies are still coming, in order of age, and others that have ended.
    coming: RefCell<VecDeque<Weak<Coming>>>,
    searched: Cell<Instant>,
}

/// Copy whose body is still coming; empty once it was sent or given up.
pub struct Coming {
    copy: RefCell<Option<RequestCopy>>,
    began: Instant,
    /// Time of the last bytes.
    last: Cell<Instant>,
    /// True if it is a gRPC call.
    is_call: bool,
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

    /// Creates a mirror of a route.
    pub fn new(pool: &Rc<WorkerPool>, route: &Arc<str>, prober: &Rc<Prober>, plan: &plan::Mirror) -> Mirror {
        Mirror {
            pool: pool.clone(),
            prober: prober.clone(),
            body_max: plan.body_max,
            in_flight_max: plan.in_flight_max as usize,
            timeout: plan.timeout,
            in_flight: pool.mirrored_of(route),
            coming: RefCell::default(),
            searched: Cell::new(Instant(0)),
        }
    }

    /// True if another copy may be made. A copy whose body does not come may give up its place for it.
    pub fn has_room(&self) -> bool {
        self.in_flight.get() < self.in_flight_max || self.give_back()
    }

    /// Gives up the oldest copy whose body has stalled. Returns false if there is none.
    #[cold]
    fn give_back(&self) -> bool {
        let now = self.prober.core().clock.now();
        if now.since(self.searched.get()) < SEARCH_EVERY_NS {
            return false;
        }
        let stalled = {
            let mut coming = self.coming.borrow_mut();
            coming.retain(|copy| copy.strong_count() > 0);
            coming.iter().filter_map(Weak::upgrade).find(|copy| copy.has_stalled(now, self.timeout))
        };
        let copy = stalled.and_then(|stalled| stalled.copy.take());
        match copy {
            Some(mut copy) => copy.count(MirrorDrop::Stalled),
            None => {
                self.searched.set(now);
                return false;
            }
        }
        true
    }

    /// Keeps a copy until its body has come.
    pub fn await_body(&self, copy: RequestCopy, is_call: bool) -> Rc<Coming> {
        let now = self.prober.core().clock.now();
        let coming = Rc::new(Coming { copy: Some(copy).into(), began: now, last: now.into(), is_call });
        let mut all = self.coming.borrow_mut();
        if all.len() == all.capacity() {
            all.retain(|copy| copy.strong_count() > 0);
        }
        all.push_back(Rc::downgrade(&coming));
        coming
    }

    /// Makes a copy of a request, whose body follows by [`RequestCopy::push`]. `key` is its hash key for the pool's
    /// algorithm.
    pub fn copy(self: &Rc<Mirror>, request: SideRequest, key: Option<u64>) -> RequestCopy {
        self.in_flight.update(|n| n + 1);
        RequestCopy { mirror: self.clone(), request, key, is_counted: false }
    }
}

impl Coming {
    /// Adds bytes of the body. Returns false if the copy was given up, before or now, and counted.
    pub fn push(&self, bytes: &[u8]) -> bool {
        let mut place = self.copy.borrow_mut();
        let Some(copy) = &mut *place else { return false };
        self.last.set(copy.mirror.prober.core().clock.now());
        let body = &mut copy.request.message.kept;
        let fits = (body.len() + bytes.len()) as u64 <= copy.mirror.body_max;
        if fits {
            body.extend_from_slice(bytes);
        }
        let is_stream = self.is_call && has_second_message(body);
        if fits && !is_stream {
            return true;
        }
        copy.count(if fits { MirrorDrop::Stream } else { MirrorDrop::TooLarge });
        *place = None;
        false
    }

    /// Sends the copy, as its body has come.
    pub fn send(&self) {
        if let Some(copy) = self.copy.take() {
            copy.send();
        }
    }

    fn has_stalled(&self, now: Instant, timeout: Duration) -> bool {
        let longer = |since: Instant, time: Duration| u128::from(now.since(since)) >= time.as_nanos();
        self.copy.borrow().is_some() && (longer(self.last.get(), timeout / STALLED) || longer(self.began, timeout))
    }
}

/// True if a body of gRPC has bytes behind its first message.
fn has_second_message(body: &[u8]) -> bool {
    let Some(&[_, a, b, c, d]) = body.first_chunk::<GRPC_PREFIX>() else { return false };
    body.len() - GRPC_PREFIX > u32::from_be_bytes([a, b, c, d]) as usize
}

impl RequestCopy {
    /// Sends the copy in a separate task, and drops the response.
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
            let reads = Reads::Nothing(ANSWER_MAX);
            let terms = Terms { core, pool: &mirror.pool, timer: &timer, deadline, reads };
            match attempt::run(terms, ticket, request).await {
                Ok((_, rest)) => rest.end(),
                Err(_) => pool.stats.mirrors.failed.add(1),
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
        self.mirror.in_flight.update(|n| n - 1);
    }
}

//! State of a worker that does not depend on the plan: the clock, the timers, the log, scratch buffers, and the
//! command. Used by a single thread, so nothing is locked; [`handoff`] shares connection counts with the other workers.
//! [`idle_limit`] bounds the idle connections; [`linger`] closes a connection so that its last response arrives.

pub mod handoff;
pub mod idle_limit;
pub mod linger;

use crate::observe::access_log::AccessLog;
use crate::observe::explanations::Explanations;
use crate::observe::request_id::{RequestId, RequestIds};
use crate::observe::taps::Taps;
use crate::observe::traces::Traces;
use evenkeel_balance::Rng;
use evenkeel_net::clock::{Base, CachedClock};
use evenkeel_net::deadline::Wheel;
pub use evenkeel_net::workers::Command;
use evenkeel_wire::head::Room;
use handoff::Peers;
use idle_limit::IdleLimit;
use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;

/// Scratch vectors that a worker keeps for reuse.
const SCRATCH_KEPT: usize = 64;

/// State of a worker that does not depend on the plan.
pub struct Core {
    pub index: usize,
    pub clock: CachedClock,
    pub wheel: Rc<Wheel>,
    pub log: RefCell<Option<AccessLog>>,
    pub command: Cell<Command>,
    /// Sampler of requests to explain, and the explanations kept.
    pub explanations: Explanations,
    pub taps: Taps,
    /// Rules for tracing, and the exporter.
    pub traces: Traces,
    scratch: RefCell<Vec<Vec<u8>>>,
    /// Memory for the fields of the response head being read.
    pub room: RefCell<Room>,
    rows: RefCell<Vec<Room>>,
    ids: RequestIds,
    draws: RefCell<Rng>,
    /// State shared with the other workers.
    pub peers: Arc<Peers>,
    /// Limit of idle connections to endpoints.
    pub idle: IdleLimit,
    /// Notified when the last connection or flow ends while the worker is stopping.
    pub closed: Notify,
    /// Number of open UDP flows, and of fetches of the cache that clients of other workers may read.
    flows: Cell<usize>,
}

impl Core {
    /// Creates the state of worker `index`, whose clock counts from `base`.
    pub fn new(index: usize, base: Base, peers: Arc<Peers>) -> Core {
        Core {
            index,
            clock: CachedClock::new(base),
            wheel: Wheel::new(),
            log: RefCell::default(),
            command: Cell::new(Command::Run),
            explanations: Explanations::new(index),
            taps: Taps::new(index),
            traces: Traces::default(),
            scratch: RefCell::default(),
            room: RefCell::default(),
            rows: RefCell::default(),
            ids: RequestIds::random(),
            // `RandomState` has new keys each time.
            draws: RefCell::new(Rng::new(RandomState::new().hash_one(index))),
            peers,
            idle: IdleLimit::default(),
            closed: Notify::new(),
            flows: Cell::new(0),
        }
    }

    /// Draws a random number, evenly from all of 64 bits. Not for secrets.
    pub fn draw(&self) -> u64 {
        self.draws.borrow_mut().next_u64()
    }

    /// Returns an empty vector with some capacity, to be passed to [`give_back`](Self::give_back) after use.
    pub fn scratch(&self) -> Vec<u8> {
        self.scratch.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(1024))
    }

    /// Returns a scratch vector for reuse.
    #[inline]
    pub fn give_back(&self, vec: Vec<u8>) {
        if vec.capacity() > 0 {
            self.keep(vec);
        }
    }

    /// Like [`give_back`](Self::give_back), leaving an empty vector.
    #[inline]
    pub fn take_back(&self, vec: &mut Vec<u8>) {
        if vec.capacity() > 0 {
            self.keep(std::mem::take(vec));
        }
    }

    #[inline]
    fn keep(&self, mut vec: Vec<u8>) {
        let mut scratch = self.scratch.borrow_mut();
        // A vector that has grown large would keep its memory forever.
        if scratch.len() < SCRATCH_KEPT && vec.capacity() <= 16 * 1024 {
            vec.clear();
            scratch.push(vec);
        }
    }

    /// Returns memory for the fields of a request head, to be passed to [`give_back_rows`](Self::give_back_rows) after
    /// use.
    pub fn rows(&self) -> Room {
        self.rows.borrow_mut().pop().unwrap_or_default()
    }

    /// Returns header rows for reuse.
    pub fn give_back_rows(&self, rows: Room) {
        let mut kept = self.rows.borrow_mut();
        if kept.len() < SCRATCH_KEPT && rows.capacity() > 0 {
            kept.push(rows);
        }
    }

    /// Generates an id for a request.
    pub fn next_request_id(&self) -> RequestId {
        self.ids.make()
    }

    /// Counts a connection accepted by this worker.
    pub fn connection_opened(&self) {
        self.peers.opened(self.index);
    }

    /// Counts a closed connection. Notifies `closed` if it was the last connection and the worker is stopping.
    pub fn connection_closed(&self) {
        if self.peers.closed(self.index) && self.command.get() != Command::Run {
            self.closed.notify_one();
        }
    }

    /// Counts a UDP flow, or a fetch of the cache with readers, that has begun on this worker.
    pub fn flow_opened(&self) {
        self.flows.set(self.flows.get() + 1);
    }

    /// Counts the end of what [`flow_opened`](Self::flow_opened) counts. Notifies `closed` if it was the last and the
    /// worker is stopping.
    pub fn flow_closed(&self) {
        self.flows.set(self.flows.get() - 1);
        if self.flows.get() == 0 && self.command.get() != Command::Run {
            self.closed.notify_one();
        }
    }

    /// True if the worker has open UDP flows.
    pub fn has_flows(&self) -> bool {
        self.flows.get() > 0
    }

    /// True if log lines were not handed to the writer yet.
    pub fn holds_lines(&self) -> bool {
        self.log.borrow().as_ref().is_some_and(AccessLog::holds_lines)
    }

    /// True if the worker has neither open connections nor UDP flows.
    pub fn serves_none(&self) -> bool {
        self.peers.open(self.index) == 0 && self.flows.get() == 0
    }

    /// Returns the worker that should serve a new connection instead of this worker, if any has clearly fewer.
    pub fn less_loaded(&self) -> Option<usize> {
        self.peers.less_loaded(self.index)
    }

    /// Hands the log lines so far to the writer.
    pub fn flush_log(&self) {
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.hand_over();
        }
    }
}

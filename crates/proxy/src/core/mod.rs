//! Thread state that serving needs: the clock, the timers, the log, scratch buffers, and the worker's command. All
//! of it of one worker, so nothing is locked. [`idle_limit`] bounds the idle connections; [`linger`] ends a connection
//! so that its last response arrives.

pub mod handoff;
pub mod idle_limit;
pub mod linger;

use crate::observe::access_log::AccessLog;
use crate::observe::explanations::Explanations;
use crate::observe::request_id::{RequestId, RequestIds};
use crate::observe::taps::Taps;
use crate::observe::traces::Traces;
use evenkeel_net::clock::{Base, CachedClock};
use evenkeel_net::deadline::Wheel;
pub use evenkeel_net::workers::Command;
use evenkeel_wire::head::Room;
use handoff::Peers;
use idle_limit::IdleLimit;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;

/// Small vectors that a worker keeps for the next request.
const SCRATCH_KEPT: usize = 64;

/// State of a worker that does not depend on the plan.
pub struct Core {
    pub index: usize,
    pub clock: CachedClock,
    pub wheel: Rc<Wheel>,
    pub log: RefCell<Option<AccessLog>>,
    pub command: Cell<Command>,
    /// Explanations: the requests to explain, and those kept.
    pub explanations: Explanations,
    pub taps: Taps,
    /// Rules for tracing, and the exporter.
    pub traces: Traces,
    scratch: RefCell<Vec<Vec<u8>>>,
    /// For the head of a response at hand.
    pub room: RefCell<Room>,
    rows: RefCell<Vec<Room>>,
    ids: RequestIds,
    /// State shared with the other workers.
    pub peers: Arc<Peers>,
    /// The idle connections to endpoints.
    pub idle: IdleLimit,
    /// Notified when the last connection or flow has ended while the worker is to end too.
    pub closed: Notify,
    /// Flows of datagrams that have not ended.
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
            peers,
            idle: IdleLimit::default(),
            closed: Notify::new(),
            flows: Cell::new(0),
        }
    }

    /// An empty vector with some room; to be given back.
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

    /// Takes the memory of a vector back.
    #[inline]
    pub fn take_back(&self, vec: &mut Vec<u8>) {
        if vec.capacity() > 0 {
            self.keep(std::mem::take(vec));
        }
    }

    #[inline]
    fn keep(&self, mut vec: Vec<u8>) {
        let mut scratch = self.scratch.borrow_mut();
        // One that has grown large would keep its memory for ever.
        if scratch.len() < SCRATCH_KEPT && vec.capacity() <= 16 * 1024 {
            vec.clear();
            scratch.push(vec);
        }
    }

    /// Room for the fields of a request's head; to be given back.
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

    /// A connection was accepted here.
    pub fn connection_opened(&self) {
        self.peers.opened(self.index);
    }

    /// Counts a closed connection; wakes the worker if it was the last one of a drain.
    pub fn connection_closed(&self) {
        if self.peers.closed(self.index) && self.command.get() != Command::Run {
            self.closed.notify_one();
        }
    }

    /// A flow of datagrams has begun here.
    pub fn flow_opened(&self) {
        self.flows.set(self.flows.get() + 1);
    }

    /// Counts an ended UDP flow; wakes the worker if it was the last one of a drain.
    pub fn flow_closed(&self) {
        self.flows.set(self.flows.get() - 1);
        if self.flows.get() == 0 && self.command.get() != Command::Run {
            self.closed.notify_one();
        }
    }

    /// True if a flow has not ended.
    pub fn has_flows(&self) -> bool {
        self.flows.get() > 0
    }

    /// True if lines of the log wait to be given to its writer.
    pub fn holds_lines(&self) -> bool {
        self.log.borrow().as_ref().is_some_and(AccessLog::holds_lines)
    }

    /// True if the worker has no open connection and no flow.
    pub fn serves_none(&self) -> bool {
        self.peers.open(self.index) == 0 && self.flows.get() == 0
    }

    /// The worker that should serve another connection in this one's place, as it has clearly fewer.
    pub fn less_loaded(&self) -> Option<usize> {
        self.peers.less_loaded(self.index)
    }

    /// Gives the lines of the log so far to its writer.
    pub fn flush_log(&self) {
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.hand_over();
        }
    }
}

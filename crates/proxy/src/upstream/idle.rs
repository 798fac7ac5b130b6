//! Idle connections to an endpoint, which wait for their next request.

use super::marked::Mark;
use crate::core::Core;
use crate::core::idle_limit::IdleHolder;
use crate::observe::stats::EndpointStats;
use evenkeel_balance::Instant;
use evenkeel_net::transport::Transport;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// Idle connections to an endpoint. Each change is also counted for the endpoint and the worker.
pub struct IdleConns {
    core: Rc<Core>,
    mark: Rc<Mark>,
    stats: Arc<EndpointStats>,
    /// The connections, in the order in which they became idle.
    idle: RefCell<Vec<Idle>>,
}

/// A connection without a request.
struct Idle {
    transport: Transport,
    since: Instant,
    /// Time for which the endpoint keeps it, less a margin, in nanoseconds.
    most_ns: u64,
}

impl Idle {
    /// True if it may be reused: it was idle for less than `kept_ns`, and the endpoint has sent nothing, not even an
    /// end.
    fn is_good(&self, kept_ns: u64, now: Instant) -> bool {
        now.since(self.since) < kept_ns.min(self.most_ns) && self.transport.is_quiet()
    }
}

/// Time for which a connection is reused if its endpoint closes it after `kept_secs` (`Keep-Alive: timeout`), in
/// nanoseconds. A margin of a second, or half a second for a timeout of 1 s, is for a request that is under way when
/// the time ends. Node.js itself waits a second longer than it states.
fn most_ns(kept_secs: Option<u32>) -> u64 {
    match kept_secs {
        None => u64::MAX,
        Some(secs @ 0..2) => u64::from(secs) * 500_000_000,
        Some(secs) => u64::from(secs - 1) * 1_000_000_000,
    }
}

impl IdleConns {
    /// Creates an empty set, and registers it with the worker's total of idle connections.
    pub fn new(core: &Rc<Core>, mark: &Rc<Mark>, stats: Arc<EndpointStats>) -> Rc<IdleConns> {
        let conns = Rc::new(IdleConns { core: core.clone(), mark: mark.clone(), stats, idle: RefCell::default() });
        let holder: Weak<IdleConns> = Rc::downgrade(&conns);
        core.idle.add_holder(holder);
        conns
    }

    /// Wakes everything of the worker that waits with a timer.
    pub fn wake_all(&self) {
        self.core.wheel.wake_all();
    }

    /// Takes the connection that became idle last, if it can be reused. Its buffers are warm, and the endpoint is the
    /// least likely to close it now. `kept_ns` is the longest time that any may have been idle.
    pub fn take(&self, kept_ns: u64, now: Instant) -> Option<Transport> {
        loop {
            let idle = self.idle.borrow_mut().pop()?;
            self.count_out(1);
            // Checked here, as sweeps are too far apart: the endpoint may close it as soon as its time is over.
            if idle.is_good(kept_ns, now) {
                return Some(idle.transport);
            }
        }
    }

    /// Keeps a connection, or closes it if there are `most` already. `kept_secs` is the time in seconds after which its
    /// endpoint closes it, if it is known.
    pub fn keep(&self, transport: Transport, most: usize, kept_secs: Option<u32>, now: Instant) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < most {
            transport.send_at_once();
            idle.push(Idle { transport, since: now, most_ns: most_ns(kept_secs) });
            drop(idle);
            self.mark.set();
            self.stats.idle.add(1);
            self.core.idle.add(1);
        }
    }

    /// Closes connections that were idle for too long or that the endpoint has closed.
    pub fn sweep(&self, kept_ns: u64, now: Instant) {
        let mut idle = self.idle.borrow_mut();
        let before = idle.len();
        idle.retain(|c| c.is_good(kept_ns, now));
        self.count_out(before - idle.len());
    }

    /// True if there are idle connections.
    pub fn any(&self) -> bool {
        !self.idle.borrow().is_empty()
    }

    /// Closes all idle connections.
    pub fn close(&self) {
        self.count_out(std::mem::take(&mut *self.idle.borrow_mut()).len());
    }

    fn count_out(&self, n: usize) {
        self.stats.idle.sub(n as u64);
        self.core.idle.sub(n);
    }
}

impl IdleHolder for IdleConns {
    fn each_since(&self, add: &mut dyn FnMut(Instant)) {
        self.idle.borrow().iter().for_each(|idle| add(idle.since));
    }

    fn close_until(&self, until: Instant, most: usize) -> usize {
        let mut idle = self.idle.borrow_mut();
        let n = idle.iter().take_while(|idle| idle.since <= until).count().min(most);
        idle.drain(..n);
        self.count_out(n);
        self.stats.idle_closed.add(n as u64);
        n
    }
}

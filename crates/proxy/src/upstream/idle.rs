//! The connections to an endpoint that wait for their next request.

use super::marked::Mark;
use crate::core::Core;
use crate::core::idle_limit::IdleHolder;
use crate::observe::stats::EndpointStats;
use evenkeel_balance::Instant;
use evenkeel_net::transport::Transport;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// The connections to one endpoint that no request has now. Each change is counted, too.
pub struct IdleConns {
    core: Rc<Core>,
    mark: Rc<Mark>,
    stats: Arc<EndpointStats>,
    /// The idle connections; the last is the one that became idle last.
    idle: RefCell<Vec<Idle>>,
}

/// A connection that waits for its next request.
struct Idle {
    transport: Transport,
    since: Instant,
    /// Time for which the endpoint keeps the connection, less a margin.
    most_ns: u64,
}

impl Idle {
    /// Returns true if it may be used. `kept_ns`: the longest time that any may be idle.
    fn is_good(&self, kept_ns: u64, now: Instant) -> bool {
        now.since(self.since) < kept_ns.min(self.most_ns) && self.transport.is_quiet()
    }
}

/// Returns how long a connection is used that its endpoint closes after `kept_secs`: a second less, for a request that is on its
/// way when the time is over; half of a single second. Node.js itself waits a second longer than it states.
fn most_ns(kept_secs: Option<u32>) -> u64 {
    match kept_secs {
        None => u64::MAX,
        Some(secs @ 0..2) => u64::from(secs) * 500_000_000,
        Some(secs) => u64::from(secs - 1) * 1_000_000_000,
    }
}

impl IdleConns {
    /// Creates an empty set of connections.
    pub fn new(core: &Rc<Core>, mark: &Rc<Mark>, stats: Arc<EndpointStats>) -> Rc<IdleConns> {
        let conns = Rc::new(IdleConns { core: core.clone(), mark: mark.clone(), stats, idle: RefCell::default() });
        let holder: Weak<IdleConns> = Rc::downgrade(&conns);
        core.idle.add_holder(holder);
        conns
    }

    /// The one that became idle last, if it is still good: its buffers are warm, and it is the least likely to be closed by
    /// the endpoint just now. `kept_ns`: how long one may be idle.
    pub fn take(&self, kept_ns: u64, now: Instant) -> Option<Transport> {
        loop {
            let idle = self.idle.borrow_mut().pop()?;
            self.count_out(1);
            // Sweeps come too seldom to rely on: the endpoint may close as soon as the time is over.
            if idle.is_good(kept_ns, now) {
                return Some(idle.transport);
            }
        }
    }

    /// Keeps a connection for the next request, unless there are `most` already. `kept_secs`: seconds for which its endpoint keeps
    /// it, if they are known.
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

    /// Closes those that were idle for too long or that the endpoint has closed.
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

    /// Closes all.
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

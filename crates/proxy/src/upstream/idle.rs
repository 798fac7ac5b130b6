//! Which connections to an endpoint wait for their next request?

use crate::observe::stats::Counter;
use evenkeel_balance::Instant;
use evenkeel_net::transport::Transport;
use std::cell::RefCell;

/// The connections to one endpoint that no request has now. Each change is counted, too.
#[derive(Default)]
pub struct IdleConns {
    idle: RefCell<Vec<Idle>>,
}

/// A connection that waits for its next request.
struct Idle {
    transport: Transport,
    since: Instant,
}

impl IdleConns {
    /// The one that became idle last, if it is still good: its buffers are warm, and it is the least likely to be closed by
    /// the endpoint just now. `kept_ns`: how long one may be idle.
    pub fn take(&self, kept_ns: u64, now: Instant, count: &Counter) -> Option<Transport> {
        loop {
            let idle = self.idle.borrow_mut().pop()?;
            count.sub(1);
            // Sweeps come too seldom to rely on: the endpoint may close as soon as the time is over.
            if now.since(idle.since) < kept_ns && idle.transport.is_quiet() {
                return Some(idle.transport);
            }
        }
    }

    /// Keeps one for the next request, unless there are `most` already.
    pub fn keep(&self, transport: Transport, most: usize, now: Instant, count: &Counter) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < most {
            transport.send_at_once();
            idle.push(Idle { transport, since: now });
            count.add(1);
        }
    }

    /// Closes those that were idle for too long or that the endpoint has closed.
    pub fn sweep(&self, kept_ns: u64, now: Instant, count: &Counter) {
        let mut idle = self.idle.borrow_mut();
        let before = idle.len();
        idle.retain(|c| now.since(c.since) < kept_ns && c.transport.is_quiet());
        count.sub((before - idle.len()) as u64);
    }

    /// True if there are any.
    pub fn any(&self) -> bool {
        !self.idle.borrow().is_empty()
    }

    /// Closes all.
    pub fn close(&self, count: &Counter) {
        let closed = std::mem::take(&mut *self.idle.borrow_mut()).len();
        count.sub(closed as u64);
    }
}

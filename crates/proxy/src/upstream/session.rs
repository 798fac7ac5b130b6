//! Where was a client before, and does it go there again?

use super::pick::InFlight;
use super::pool::WorkerPool;
use super::rules::PoolRules;
use crate::core::Core;
use evenkeel_balance::{Clock, EndpointId, Instant, sticky};
use evenkeel_net::clock::CachedClock;
use evenkeel_wire::head::Request;
use std::rc::Rc;

/// The session of one request.
pub struct Session {
    rules: Rc<PoolRules>,
    /// Where its client was before.
    was: Option<EndpointId>,
}

impl WorkerPool {
    /// The session of a request, where sessions are kept.
    pub fn session(&self, request: &Request<'_, '_>, core: &Core) -> Option<Session> {
        let rules = self.peek();
        let was = rules.compiled.sticky.as_ref()?.named(request, seconds(core));
        Some(Session { rules: self.rules(), was })
    }
}

impl Session {
    /// A place where it was before, if that can be had now.
    pub fn at<'r>(&self, clock: &'r CachedClock, pool: &'r WorkerPool) -> Option<InFlight<'r>> {
        let was = self.was?;
        // An endpoint that has just come back is not yet in a set that was taken up before.
        pool.balancer.borrow_mut().refresh(clock.now());
        let slot = sticky::slot(pool.balancer.borrow().set(), was)?;
        InFlight::start_at(clock, pool, slot).ok()
    }

    /// The field that tells the client where it is, if it does not know.
    pub fn cookie_for(&self, core: &Core, ticket: &InFlight<'_>) -> Option<String> {
        let id = EndpointId::of(&ticket.endpoint.name);
        if self.was == Some(id) {
            return None;
        }
        let sticky = self.rules.compiled.sticky.as_ref()?;
        Some(sticky.field(id, seconds(core)))
    }
}

fn seconds(core: &Core) -> u32 {
    let now: Instant = core.clock.now();
    u32::try_from(core.clock.unix_ms(now) / 1000).unwrap_or(u32::MAX)
}

//! Sticky sessions of requests: the endpoint that served the client before, and the cookie that names the current
//! endpoint.

use super::pick::InFlight;
use super::pool::{Endpoint, WorkerPool};
use super::rules::PoolRules;
use crate::core::Core;
use evenkeel_balance::{Clock, EndpointId, Instant, sticky};
use evenkeel_net::clock::CachedClock;
use evenkeel_wire::head::Request;
use std::rc::Rc;

/// Sticky session of a request.
pub struct Session {
    rules: Rc<PoolRules>,
    /// The endpoint named by the client's cookie, if that is valid.
    was: Option<EndpointId>,
}

impl WorkerPool {
    /// The sticky session of a request; `None` if the pool keeps none.
    pub fn session(&self, request: &Request<'_, '_>, core: &Core) -> Option<Session> {
        let rules = self.peek();
        let was = rules.compiled.sticky.as_ref()?.named(request, seconds(core));
        Some(Session { rules: self.rules(), was })
    }
}

impl Session {
    /// Takes a place at the endpoint of the session. `None` without a session, or if the endpoint is not eligible or
    /// has no room.
    pub fn at<'r>(&self, clock: &'r CachedClock, pool: &'r WorkerPool) -> Option<InFlight<'r>> {
        let was = self.was?;
        // An endpoint that has just returned may only be in the latest set, which is not adopted yet.
        pool.balancer.borrow_mut().refresh(clock.now());
        let slot = sticky::slot(pool.balancer.borrow().set(), was)?;
        InFlight::start_at(clock, pool, slot).ok()
    }

    /// The `Set-Cookie` line that names `endpoint`; `None` if the client's cookie does so already.
    pub fn cookie_for(&self, core: &Core, endpoint: &Endpoint) -> Option<String> {
        let id = EndpointId::of(&endpoint.name);
        if self.was == Some(id) {
            return None;
        }
        let sticky = self.rules.compiled.sticky.as_ref()?;
        Some(sticky.field(id, seconds(core)))
    }

    /// True if the client's cookie names `endpoint`.
    pub fn is_at(&self, endpoint: &Endpoint) -> bool {
        self.was == Some(EndpointId::of(&endpoint.name))
    }
}

fn seconds(core: &Core) -> u32 {
    let now: Instant = core.clock.now();
    u32::try_from(core.clock.unix_ms(now) / 1000).unwrap_or(u32::MAX)
}

//! Admission to a listener: the peers that are proxies in front of it, and the limits that every other address has.

use crate::peer::forwarded::is_in;
use crate::peer::per_address::{OpenConnection, PerAddress};
use evenkeel_balance::Instant;
use evenkeel_balance::token_bucket::Rate;
use evenkeel_config::plan::{Cidr, Listener};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Trusted networks and per-address limits of a listener.
pub struct Admission {
    announcing: Vec<Cidr>,
    trusted: Vec<Cidr>,
    connections_max: Option<NonZeroUsize>,
    rate: Option<Rate>,
    per_address: Arc<PerAddress>,
}

impl Admission {
    /// Builds the admission of a listener; `per_address` is shared by all workers.
    pub fn new(plan: &Listener, per_address: &Arc<PerAddress>) -> Admission {
        let limits = plan.limits;
        let limited = limits.requests_per_address > 0.0;
        Admission {
            announcing: plan.accept_proxy_protocol.clone(),
            trusted: plan.trusted_proxies.clone(),
            connections_max: NonZeroUsize::new(limits.connections_per_address),
            rate: limited.then(|| Rate::new(limits.requests_per_address, limits.burst_per_address)),
            per_address: per_address.clone(),
        }
    }

    /// True if connections from `peer` begin with a PROXY protocol header.
    pub fn is_announcing(&self, peer: IpAddr) -> bool {
        is_in(&self.announcing, peer)
    }

    /// True if `peer` is a trusted proxy, whose `X-Forwarded-For` names the client.
    pub fn is_trusted(&self, peer: IpAddr) -> bool {
        is_in(&self.trusted, peer)
    }

    /// The networks that [`is_trusted`](Self::is_trusted) checks.
    pub fn trusted(&self) -> &[Cidr] {
        &self.trusted
    }

    /// True if the rate of requests per address is limited.
    pub fn limits_requests(&self) -> bool {
        self.rate.is_some()
    }

    /// False for proxies: many clients share a proxy's address, and each client has separate limits.
    fn is_limited(&self, client: IpAddr) -> bool {
        !self.is_trusted(client) && !self.is_announcing(client)
    }

    /// Counts a client's connection until the guard is dropped. `None` if its connections are not limited.
    ///
    /// # Errors
    /// The client has reached its limit of connections.
    pub fn open(&self, client: IpAddr) -> Result<Option<OpenConnection>, TooMany> {
        match self.connections_max {
            Some(max) if self.is_limited(client) => self.per_address.open(client, max).map(Some).ok_or(TooMany),
            _ => Ok(None),
        }
    }

    /// Takes a token for a client's request, if its rate is limited. `now` is read only then.
    ///
    /// # Errors
    /// The rate is exceeded; the value is the seconds until the next request is allowed, at least 1 (`Retry-After`).
    pub fn request(&self, client: IpAddr, now: impl FnOnce() -> Instant) -> Result<(), u64> {
        match self.rate {
            Some(rate) if self.is_limited(client) => {
                self.per_address.request(client, rate, now()).map_err(|ns| ns.div_ceil(1_000_000_000).max(1))
            }
            _ => Ok(()),
        }
    }
}

/// The client has reached its limit of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

//! Which addresses are proxies in front of a listener, and what are the limits of each other address?

use crate::peer::forwarded::is_in;
use crate::peer::per_address::{OpenConnection, PerAddress};
use evenkeel_balance::Instant;
use evenkeel_balance::token_bucket::Rate;
use evenkeel_config::plan::{Cidr, Listener};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// The admission of one listener.
pub struct Admission {
    announcing: Vec<Cidr>,
    trusted: Vec<Cidr>,
    connections_max: Option<NonZeroUsize>,
    rate: Option<Rate>,
    per_address: Arc<PerAddress>,
}

impl Admission {
    /// As planned; `per_address` is the same for all workers.
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

    /// Whether a peer begins its connections with a PROXY protocol header.
    pub fn is_announcing(&self, peer: IpAddr) -> bool {
        is_in(&self.announcing, peer)
    }

    /// Whether a peer is a trusted proxy, whose `X-Forwarded-For` names the client.
    pub fn is_trusted(&self, peer: IpAddr) -> bool {
        is_in(&self.trusted, peer)
    }

    /// The networks of [`is_trusted`](Self::is_trusted).
    pub fn trusted(&self) -> &[Cidr] {
        &self.trusted
    }

    /// True if requests of an address are limited.
    pub fn limits_requests(&self) -> bool {
        self.rate.is_some()
    }

    /// A proxy has many clients behind its one address, and they have limits of their own.
    fn is_limited(&self, client: IpAddr) -> bool {
        !self.is_trusted(client) && !self.is_announcing(client)
    }

    /// Counts a client's connection, where that is limited.
    ///
    /// # Errors
    /// It has as many as it may.
    pub fn open(&self, client: IpAddr) -> Result<Option<OpenConnection>, TooMany> {
        match self.connections_max {
            Some(max) if self.is_limited(client) => self.per_address.open(client, max).map(Some).ok_or(TooMany),
            _ => Ok(None),
        }
    }

    /// Counts a client's request, where that is limited.
    ///
    /// # Errors
    /// It is one too many: in so many seconds, at least 1, it may come again.
    pub fn request(&self, client: IpAddr, now: impl FnOnce() -> Instant) -> Result<(), u64> {
        match self.rate {
            Some(rate) if self.is_limited(client) => {
                self.per_address.request(client, rate, now()).map_err(|ns| ns.div_ceil(1_000_000_000).max(1))
            }
            _ => Ok(()),
        }
    }
}

/// A client has as many connections as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

//! Services of IPVS: an address, a scheduler, and destinations with weights.

use super::weights;
use crate::service::{Policy, Service, Source, State, Transport};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Identity of a service in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub transport: Transport,
    pub addr: SocketAddr,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.transport.name(), self.addr)
    }
}

/// Options of a service in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub scheduler: String,
    /// Flags 1 to 3 of the scheduler, as bits of the kernel.
    pub scheduler_flags: u32,
    /// Seconds for which a client's address keeps its destination.
    pub persistent_s: Option<u32>,
}

/// Destination of a service in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dest {
    /// Number of the endpoint; 0 if another program has added it.
    pub id: u32,
    pub weight: u32,
    /// True if its endpoint left the service, and only connections keep it.
    pub left: bool,
}

/// Service with its destinations, as the kernel has it or shall have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Name of evenkeel's service.
    pub name: Arc<str>,
    pub options: Options,
    /// True if endpoints see an address of this machine.
    pub masqueraded: bool,
    pub dests: BTreeMap<SocketAddr, Dest>,
}

/// Longest affinity, 24 days: the kernel multiplies seconds by up to 1000 ticks of its clock, in 32 bits.
const PERSISTENT_MAX_S: u32 = 24 * 24 * 3600;

/// Flag of `mh`: if a destination of the table has weight 0 or is gone, another destination is looked up.
pub(super) const MH_FALLBACK: u32 = 0x8;

/// Returns the scheduler of a service and its flags.
///
/// # Errors
/// IPVS has none; the reason.
pub(super) fn scheduler(service: &Service) -> Result<(&'static str, u32), &'static str> {
    match service.policy {
        // A table without a place is random, too. It may have places later, and would not change the scheduler then.
        Policy::Random { draws: 1 } if service.serving().next().is_none() => Ok(("mh", MH_FALLBACK)),
        Policy::Random { draws: 2 } => Ok(("twos", 0)),
        Policy::Random { draws: 1 } => Err("IPVS has no scheduler that draws at random without regard to load"),
        Policy::Random { .. } => Err("IPVS draws two endpoints, neither fewer nor more"),
        Policy::LeastConn => Ok(("wlc", 0)),
        Policy::RoundRobin => Ok(("wrr", 0)),
        Policy::Maglev { .. } => Ok(("mh", MH_FALLBACK)),
    }
}

/// Returns the entries of a service, for each of its addresses.
///
/// # Errors
/// IPVS does not have its policy; the reason.
pub(super) fn wanted(service: &Service) -> Result<BTreeMap<Key, Entry>, &'static str> {
    let (scheduler, scheduler_flags) = scheduler(service)?;
    let persistent_s = service.affinity.map(|time| {
        let seconds = time.as_millis().div_ceil(1000).max(1);
        u32::try_from(seconds).unwrap_or(PERSISTENT_MAX_S).min(PERSISTENT_MAX_S)
    });
    let options = Options { scheduler: scheduler.to_owned(), scheduler_flags, persistent_s };
    let entry = |addr: SocketAddr| {
        let members = || service.members.iter().filter(move |member| member.addr.is_ipv4() == addr.is_ipv4());
        let shares: Vec<u32> =
            members().map(|member| if member.state == State::Serving { member.weight } else { 0 }).collect();
        let weights = weights::scaled(scheduler, &shares);
        let dests = members()
            .zip(weights)
            // Without their destination, flows of datagrams get another destination.
            .filter(|(member, _)| service.transport == Transport::Tcp || member.state != State::Down)
            .map(|(member, weight)| (member.addr, Dest { id: member.id, weight, left: false }));
        Entry {
            name: service.name.clone(),
            options: options.clone(),
            masqueraded: service.source == Source::Own,
            dests: dests.collect(),
        }
    };
    let key = |addr: &SocketAddr| Key { transport: service.transport, addr: *addr };
    Ok(service.addrs.iter().map(|addr| (key(addr), entry(*addr))).collect())
}

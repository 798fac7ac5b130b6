//! What is answered to resolvers? [`Zone`].

use super::Cidr;
use std::net::IpAddr;
use std::sync::Arc;

/// `zone` of a listener that speaks DNS. Names are lower case, without a final dot.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// The name of the zone.
    pub name: Arc<str>,
    /// Seconds that an answer may be kept, where a record says nothing else.
    pub ttl: u32,
    /// In the order of the file; `apex`, if set, first. No name twice.
    pub records: Vec<Record>,
    /// Its name servers; empty: one that is called `ns1` in the zone.
    pub name_servers: Vec<NameServer>,
    /// The mail address of whoever looks after it, as a name; `None` = `hostmaster` in the zone.
    pub contact: Option<Arc<str>>,
    /// The serial of its SOA record.
    pub serial: u32,
    /// Whether all endpoints are named when none is well.
    pub fail_open: bool,
    /// Whether the client's network as resolvers tell it counts.
    pub client_subnet: bool,
    /// Which clients are near which endpoints.
    pub localities: Vec<ClientLocality>,
    /// Responses a second to one network, for each worker; 0 = no limit.
    pub responses_per_subnet: u32,
    /// The part of queries that is logged, 0 to 1.
    pub query_log: f64,
}

/// One name of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its part before the name of the zone; empty for the name of the zone itself.
    pub name: Arc<str>,
    /// What is said of endpoints.
    pub kind: RecordKind,
    /// The pool whose endpoints are named. It exists.
    pub pool: Arc<str>,
    /// The most that one answer names.
    pub answers: usize,
    /// Seconds that an answer may be kept; `None` = as the zone says.
    pub ttl: Option<u32>,
    /// Whether endpoints near the client go before all others.
    pub prefers_near: bool,
}

/// What an answer says of endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Their addresses: A and AAAA.
    Address,
    /// Their ports, and names for their addresses: SRV.
    Service,
}

/// A name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServer {
    /// Its whole name.
    pub name: Arc<str>,
    /// Its addresses; there if the name is in the zone.
    pub addresses: Vec<IpAddr>,
}

/// Clients that are near the endpoints of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLocality {
    /// The zone of the endpoints.
    pub zone: Arc<str>,
    /// Where the clients are.
    pub clients: Vec<Cidr>,
}

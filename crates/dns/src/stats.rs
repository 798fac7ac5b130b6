//! Counters that a worker writes and any thread may read.

use domain::base::iana::{OptRcode, Rtype};
use evenkeel_net::counter::Counter;
use evenkeel_runtime::ledger::EndpointCounts;
use evenkeel_view::timeline::Counts;

/// Query types that have a counter, and its label; all others count as `other`.
pub const TYPES: [(Rtype, &str); 7] = [
    (Rtype::A, "A"),
    (Rtype::AAAA, "AAAA"),
    (Rtype::SRV, "SRV"),
    (Rtype::SOA, "SOA"),
    (Rtype::NS, "NS"),
    (Rtype::ANY, "ANY"),
    (Rtype::HTTPS, "HTTPS"),
];

/// Response codes that are counted, with their label.
pub const CODES: [(OptRcode, &str); 7] = [
    (OptRcode::NOERROR, "NOERROR"),
    (OptRcode::NXDOMAIN, "NXDOMAIN"),
    (OptRcode::REFUSED, "REFUSED"),
    (OptRcode::FORMERR, "FORMERR"),
    (OptRcode::SERVFAIL, "SERVFAIL"),
    (OptRcode::NOTIMP, "NOTIMP"),
    (OptRcode::BADVERS, "BADVERS"),
];

/// Counters of a listener on a worker.
#[derive(Debug, Default)]
pub struct ListenerStats {
    /// Queries by type; the last counter is for all other types.
    pub queries: [Counter; TYPES.len() + 1],
    /// Responses by code, in the order of [`CODES`].
    pub responses: [Counter; CODES.len()],
    /// Queries received over TCP.
    pub over_tcp: Counter,
    /// Responses with the TC bit because they did not fit.
    pub truncated: Counter,
    /// Responses over the limit of their network: dropped, and sent empty.
    pub limited: [Counter; 2],
    /// Messages that are not queries, and get no answer.
    pub dropped: Counter,
    /// Responses that the kernel did not accept.
    pub unsent: Counter,
    /// TCP connections accepted and served.
    pub connections: Counter,
    /// TCP connections closed at once because there were too many.
    pub refused_connections: Counter,
}

impl ListenerStats {
    /// Counts a query by its type.
    pub fn query(&self, qtype: Rtype) {
        let index = TYPES.iter().position(|(of, _)| *of == qtype).unwrap_or(TYPES.len());
        self.queries[index].add(1);
    }

    /// Counts a response by its code.
    pub fn response(&self, code: OptRcode) {
        if let Some(index) = CODES.iter().position(|(of, _)| *of == code) {
            self.responses[index].add(1);
        }
    }
}

/// Counters of a pool on a worker.
#[derive(Debug, Default)]
pub struct PoolStats {
    /// Answers that name endpoints of the pool.
    pub answers: Counter,
    /// Answers that name endpoints although none, or too few, are healthy.
    pub failed_open: Counter,
}

/// Counters of an endpoint on a worker.
#[derive(Debug, Default)]
pub struct EndpointStats {
    /// Answers that name the endpoint.
    pub answers: Counter,
}

/// Counts each answer that names an endpoint as a request, because the requests of clients are not visible
/// here.
impl EndpointCounts for EndpointStats {
    fn counts(&self) -> Counts {
        Counts { requests: self.answers.get(), errors: 0, unreached: 0 }
    }
}

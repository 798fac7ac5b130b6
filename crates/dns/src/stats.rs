//! What happened, in numbers? Counters that one worker writes and any thread may read.

use domain::base::iana::{OptRcode, Rtype};
use evenkeel_net::counter::Counter;
use evenkeel_runtime::ledger::EndpointCounts;
use evenkeel_view::timeline::Counts;

/// Types that are counted apart, with their label; all others are `other`.
pub const TYPES: [(Rtype, &str); 7] = [
    (Rtype::A, "A"),
    (Rtype::AAAA, "AAAA"),
    (Rtype::SRV, "SRV"),
    (Rtype::SOA, "SOA"),
    (Rtype::NS, "NS"),
    (Rtype::ANY, "ANY"),
    (Rtype::HTTPS, "HTTPS"),
];

/// Codes of responses, with their label.
pub const CODES: [(OptRcode, &str); 7] = [
    (OptRcode::NOERROR, "NOERROR"),
    (OptRcode::NXDOMAIN, "NXDOMAIN"),
    (OptRcode::REFUSED, "REFUSED"),
    (OptRcode::FORMERR, "FORMERR"),
    (OptRcode::SERVFAIL, "SERVFAIL"),
    (OptRcode::NOTIMP, "NOTIMP"),
    (OptRcode::BADVERS, "BADVERS"),
];

/// Of one listener and worker.
#[derive(Debug, Default)]
pub struct ListenerStats {
    /// Queries by type, the last for all others.
    pub queries: [Counter; TYPES.len() + 1],
    /// Responses by code.
    pub responses: [Counter; CODES.len()],
    /// Queries that came by TCP.
    pub over_tcp: Counter,
    /// Responses that ask to come by TCP as they did not fit.
    pub truncated: Counter,
    /// Responses over the limit of their network: not sent, and sent empty.
    pub limited: [Counter; 2],
    /// Messages that are no query, and get no answer.
    pub dropped: Counter,
    /// Responses that the kernel did not take.
    pub unsent: Counter,
    /// TCP connections.
    pub connections: Counter,
    /// TCP connections closed at once, as there were too many.
    pub refused_connections: Counter,
}

impl ListenerStats {
    /// Counts a query of this type.
    pub fn query(&self, qtype: Rtype) {
        let index = TYPES.iter().position(|(of, _)| *of == qtype).unwrap_or(TYPES.len());
        self.queries[index].add(1);
    }

    /// Counts a response with this code.
    pub fn response(&self, code: OptRcode) {
        if let Some(index) = CODES.iter().position(|(of, _)| *of == code) {
            self.responses[index].add(1);
        }
    }
}

/// Of one pool and worker.
#[derive(Debug, Default)]
pub struct PoolStats {
    /// Answers that named its endpoints.
    pub answers: Counter,
    /// Answers that did so although none, or too few, are well.
    pub failed_open: Counter,
}

/// Numbers of one endpoint at one worker.
#[derive(Debug, Default)]
pub struct EndpointStats {
    /// Answers that name it.
    pub answers: Counter,
}

/// Each answer that names an endpoint counts as a request there: what clients do with it is not known here.
impl EndpointCounts for EndpointStats {
    fn counts(&self) -> Counts {
        Counts { requests: self.answers.get(), errors: 0 }
    }
}

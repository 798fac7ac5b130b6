//! DNS queries and answers of the resolver, without I/O, over the wire format of the crate `domain`.

use domain::base::iana::{Opcode, OptRcode, Rcode};
use domain::base::name::ToName;
use domain::base::{Message, MessageBuilder, Name, ParsedName, Rtype};
use domain::rdata::{A, Aaaa, Cname, Soa, Srv};
use std::net::IpAddr;
use std::time::Duration;

/// Longest chain of CNAME records that is followed.
const CNAMES_MAX: usize = 16;

/// A query, with the parts that its answer must repeat.
#[derive(Clone, Debug)]
pub struct Question {
    /// Random id, so that only a reader of the query knows it.
    pub id: u16,
    pub name: Name<Vec<u8>>,
    /// `A`, `AAAA` or `SRV`.
    pub kind: Rtype,
    /// True if it offers to accept answers above 512 bytes (EDNS, RFC 6891).
    pub edns: bool,
}

/// Largest answer to request over UDP, in bytes: fits an IPv6 packet on any path, so it is not lost with a
/// fragment (DNS flag day 2020).
pub const DATAGRAM_MAX: u16 = 1232;

/// Outcome of an answer that matches its query.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Records, with the shortest TTL among them.
    Records(Records, Duration),
    /// No records, or no such name. With the negative TTL of the answer, if any.
    Nothing(Option<Duration>),
    /// The answer is truncated; the query must be repeated over TCP.
    Truncated,
    /// The server does not support EDNS, or this version; the query must be repeated without.
    NoEdns,
    /// The server cannot or will not answer; its code.
    Refused(String),
}

/// Records of the type asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Records {
    /// Data of `A` or `AAAA` records.
    Addresses(Vec<IpAddr>),
    /// `SRV` records, and addresses from the additional section.
    Services(Vec<Service>, Vec<Beside>),
}

/// An address from the additional section.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    pub name: Name<Vec<u8>>,
    pub addr: IpAddr,
    pub ttl: Duration,
}

/// An `SRV` record (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    pub target: Name<Vec<u8>>,
}

impl Question {
    /// Encodes the query in wire format.
    pub fn message(&self) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(self.id);
        builder.header_mut().set_rd(true);
        let mut question = builder.question();
        // A vector has room for the question.
        let _ = question.push((&self.name, self.kind));
        let mut additional = question.additional();
        if self.edns {
            let _ = additional.opt(|opt| {
                opt.set_udp_payload_size(DATAGRAM_MAX);
                Ok(())
            });
        }
        additional.finish()
    }

    /// Parses a message; `None` if it does not answer this query, and the right answer may still arrive.
    pub fn read(&self, bytes: &[u8]) -> Option<Reply> {
        let message = Message::from_slice(bytes).ok()?;
        let header = message.header();
        if header.id() != self.id || !header.qr() || header.opcode() != Opcode::QUERY {
            return None;
        }
        match message.sole_question() {
            Ok(asked) if asked.qname() == &self.name && asked.qtype() == self.kind => {}
            // A server that cannot parse a question need not repeat it.
            _ if header.rcode() == Rcode::FORMERR && message.header_counts().qdcount() == 0 => {}
            _ => return None,
        }
        // A server without EDNS may omit everything or repeat the question, whatever its TC bit is.
        let refuses_edns = matches!(message.opt_rcode(), OptRcode::FORMERR | OptRcode::NOTIMP | OptRcode::BADVERS);
        if self.edns && refuses_edns {
            return Some(Reply::NoEdns);
        }
        if header.tc() {
            return Some(Reply::Truncated);
        }
        Some(match header.rcode() {
            Rcode::NOERROR => match self.records(message) {
                Some((records, ttl)) => Reply::Records(records, ttl),
                None => Reply::Nothing(negative_ttl(message)),
            },
            Rcode::NXDOMAIN => Reply::Nothing(negative_ttl(message)),
            other => Reply::Refused(other.to_string()),
        })
    }

    /// Records at the end of the CNAME chain, with the shortest TTL on the way.
    fn records(&self, message: &Message<[u8]>) -> Option<(Records, Duration)> {
        let answer = message.answer().ok()?;
        let mut ttl = Duration::MAX;
        let mut name = self.name.clone();
        for _ in 0..CNAMES_MAX {
            let mut aliases = answer.limit_to::<Cname<ParsedName<_>>>().flatten();
            let Some(alias) = aliases.find(|alias| *alias.owner() == name) else { break };
            ttl = ttl.min(lasts(alias.ttl()));
            name = alias.data().cname().to_name();
        }
        let mut addrs: Vec<IpAddr> = Vec::new();
        match self.kind {
            Rtype::A => {
                for record in answer.limit_to::<A>().flatten().filter(|r| *r.owner() == name) {
                    ttl = ttl.min(lasts(record.ttl()));
                    addrs.push(record.data().addr().into());
                }
            }
            Rtype::AAAA => {
                for record in answer.limit_to::<Aaaa>().flatten().filter(|r| *r.owner() == name) {
                    ttl = ttl.min(lasts(record.ttl()));
                    addrs.push(record.data().addr().into());
                }
            }
            _ => {
                let mut services = Vec::new();
                for record in answer.limit_to::<Srv<ParsedName<_>>>().flatten().filter(|r| *r.owner() == name) {
                    ttl = ttl.min(lasts(record.ttl()));
                    let srv = record.data();
                    let target = srv.target().to_name();
                    services.push(Service { priority: srv.priority(), weight: srv.weight(), port: srv.port(), target });
                }
                let beside = beside(message);
                return (!services.is_empty()).then_some((Records::Services(services, beside), ttl));
            }
        }
        (!addrs.is_empty()).then_some((Records::Addresses(addrs), ttl))
    }
}

/// Addresses of the additional section.
fn beside(message: &Message<[u8]>) -> Vec<Beside> {
    let Ok(additional) = message.additional() else { return Vec::new() };
    let v4 = additional.limit_to::<A>().flatten();
    let v4 = v4.map(|r| Beside { name: r.owner().to_name(), addr: r.data().addr().into(), ttl: lasts(r.ttl()) });
    let v6 = additional.limit_to::<Aaaa>().flatten();
    let v6 = v6.map(|r| Beside { name: r.owner().to_name(), addr: r.data().addr().into(), ttl: lasts(r.ttl()) });
    v4.chain(v6).collect()
}

/// TTL of a negative answer (RFC 2308, section 5).
fn negative_ttl(message: &Message<[u8]>) -> Option<Duration> {
    let mut authority = message.authority().ok()?.limit_to::<Soa<ParsedName<_>>>().flatten();
    authority.next().map(|soa| lasts(soa.ttl()).min(lasts(soa.data().minimum())))
}

/// Converts a TTL. A TTL with its highest bit set is 0 (RFC 2181, section 8).
fn lasts(ttl: domain::base::Ttl) -> Duration {
    Duration::from_secs(i32::try_from(ttl.as_secs()).map_or(0, |secs| secs as u64))
}

/// Parses a name; `None` if it is too long.
pub fn name(text: &str) -> Option<Name<Vec<u8>>> {
    Name::vec_from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::Ttl;
    use domain::base::iana::Class;
    use proptest::prelude::*;

    fn question(kind: Rtype) -> Question {
        Question { id: 7, name: name("web.internal").unwrap(), kind, edns: true }
    }

    fn answer(code: Rcode, records: &[(&str, u32, &str)]) -> Vec<u8> {
        let asked = question(Rtype::A).message();
        let asked = Message::from_octets(asked).unwrap();
        let mut answer = MessageBuilder::new_vec().start_answer(&asked, code).unwrap();
        for (owner, ttl, data) in records {
            let owner = name(owner).unwrap();
            let ttl = Ttl::from_secs(*ttl);
            match data.parse() {
                Ok(addr) => answer.push((owner, Class::IN, ttl, A::new(addr))).unwrap(),
                Err(_) => answer.push((owner, Class::IN, ttl, Cname::new(name(data).unwrap()))).unwrap(),
            }
        }
        answer.finish()
    }

    #[test]
    fn aliases_are_followed_in_any_order_and_the_shortest_time_counts() {
        let records = [
            ("b.net", 30, "10.0.0.2"),
            ("web.internal", 20, "a.net"),
            ("a.net", 25, "B.net"),
            ("c.net", 1, "10.9.9.9"),
        ];
        let reply = question(Rtype::A).read(&answer(Rcode::NOERROR, &records));
        let expected = Records::Addresses(vec![[10, 0, 0, 2].into()]);
        assert_eq!(reply, Some(Reply::Records(expected, Duration::from_secs(20))));
    }

    #[test]
    fn aliases_that_lead_in_a_circle_lead_nowhere() {
        let records = [("web.internal", 20, "a.net"), ("a.net", 25, "web.internal")];
        assert_eq!(question(Rtype::A).read(&answer(Rcode::NOERROR, &records)), Some(Reply::Nothing(None)));
    }

    #[test]
    fn what_answers_another_question_is_no_answer() {
        let good = answer(Rcode::NOERROR, &[("web.internal", 1, "10.0.0.1")]);
        let asked = question(Rtype::A);
        assert!(asked.read(&good).is_some());
        assert_eq!(Question { id: 8, ..asked.clone() }.read(&good), None);
        assert_eq!(question(Rtype::AAAA).read(&good), None);
        assert_eq!(Question { name: name("web.interna1").unwrap(), ..asked.clone() }.read(&good), None);
        assert_eq!(asked.read(&asked.message()), None, "a question is no answer");
        // Names compare without case.
        assert!(Question { name: name("WEB.Internal").unwrap(), ..asked }.read(&good).is_some());
    }

    #[test]
    fn servers_that_cannot_say_are_told_from_names_that_are_not_there() {
        let read = |code| question(Rtype::A).read(&answer(code, &[]));
        assert_eq!(read(Rcode::NXDOMAIN), Some(Reply::Nothing(None)));
        assert_eq!(read(Rcode::SERVFAIL), Some(Reply::Refused("SERVFAIL".into())));
        assert_eq!(read(Rcode::REFUSED), Some(Reply::Refused("REFUSED".into())));
    }

    #[test]
    fn an_absurd_time_to_live_is_none() {
        let reply = question(Rtype::A).read(&answer(Rcode::NOERROR, &[("web.internal", u32::MAX, "10.0.0.1")]));
        let Some(Reply::Records(_, ttl)) = reply else { panic!("{reply:?}") };
        assert_eq!(ttl, Duration::ZERO);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), at in 0usize..90) {
            let kinds = [Rtype::A, Rtype::AAAA, Rtype::SRV];
            let _ = kinds.map(|kind| question(kind).read(&bytes));
            // Random bytes are rarely a message, so some are written into a valid message.
            let mut near = answer(Rcode::NOERROR, &[("web.internal", 20, "a.net"), ("a.net", 25, "10.0.0.1")]);
            let at = at.min(near.len());
            near[at..].iter_mut().zip(&bytes).for_each(|(here, byte)| *here = *byte);
            let _ = kinds.map(|kind| question(kind).read(&near));
        }
    }
}

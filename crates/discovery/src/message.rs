//! Questions to a name server, and its answers. Sans-io, over the wire format of `domain`.

use domain::base::iana::{Opcode, OptRcode, Rcode};
use domain::base::name::ToName;
use domain::base::{Message, MessageBuilder, Name, ParsedName, Rtype};
use domain::rdata::{A, Aaaa, Cname, Soa, Srv};
use std::net::IpAddr;
use std::time::Duration;

/// Names that an answer may lead on to, one by one.
const CNAMES_MAX: usize = 16;

/// A question, with what its answer must repeat.
#[derive(Clone, Debug)]
pub struct Question {
    /// Drawn at random, so that only a reader of the question knows it.
    pub id: u16,
    /// The whole name.
    pub name: Name<Vec<u8>>,
    /// `A`, `AAAA` or `SRV`.
    pub kind: Rtype,
    /// True if it states that the answer may be longer than 512 bytes (EDNS, RFC 6891).
    pub edns: bool,
}

/// The longest datagram that is asked for: it fits a packet of IPv6 on any path, so it is not lost for a lost fragment.
/// Source: DNS flag day 2020.
pub const DATAGRAM_MAX: u16 = 1232;

/// What an answer says.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// These records, for so long.
    Records(Records, Duration),
    /// There are none, or no such name; for so long, if it says so.
    Nothing(Option<Duration>),
    /// There is more: it must be asked for by TCP.
    Truncated,
    /// The server does not understand EDNS, or not this version: it must be asked without.
    NoEdns,
    /// The server cannot or will not say; its code.
    Refused(String),
}

/// Records of the kind that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Records {
    /// Of `A` or `AAAA`.
    Addresses(Vec<IpAddr>),
    /// Records of `SRV`, and addresses that came along.
    Services(Vec<Service>, Vec<Beside>),
}

/// An address that came along with services.
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
    /// The message that asks it.
    pub fn message(&self) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(self.id);
        builder.header_mut().set_rd(true);
        let mut question = builder.question();
        // A vector takes one question.
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

    /// Reads what came. `None`: it is no answer to this question, and the right one may still come.
    pub fn read(&self, bytes: &[u8]) -> Option<Reply> {
        let message = Message::from_slice(bytes).ok()?;
        let header = message.header();
        if header.id() != self.id || !header.qr() || header.opcode() != Opcode::QUERY {
            return None;
        }
        match message.sole_question() {
            Ok(asked) if asked.qname() == &self.name && asked.qtype() == self.kind => {}
            // Who cannot even read a question need not repeat it.
            _ if header.rcode() == Rcode::FORMERR && message.header_counts().qdcount() == 0 => {}
            _ => return None,
        }
        // A server that does not know EDNS may leave out everything, or repeat the question, whatever its `tc` is.
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

    /// The records, and the shortest time to live on the way to them.
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

/// Addresses that came along with services.
fn beside(message: &Message<[u8]>) -> Vec<Beside> {
    let Ok(additional) = message.additional() else { return Vec::new() };
    let v4 = additional.limit_to::<A>().flatten();
    let v4 = v4.map(|r| Beside { name: r.owner().to_name(), addr: r.data().addr().into(), ttl: lasts(r.ttl()) });
    let v6 = additional.limit_to::<Aaaa>().flatten();
    let v6 = v6.map(|r| Beside { name: r.owner().to_name(), addr: r.data().addr().into(), ttl: lasts(r.ttl()) });
    v4.chain(v6).collect()
}

/// How long it may be believed that there is nothing (RFC 2308, section 5).
fn negative_ttl(message: &Message<[u8]>) -> Option<Duration> {
    let mut authority = message.authority().ok()?.limit_to::<Soa<ParsedName<_>>>().flatten();
    authority.next().map(|soa| lasts(soa.ttl()).min(lasts(soa.data().minimum())))
}

/// One with its highest bit set is 0 (RFC 2181, section 8).
fn lasts(ttl: domain::base::Ttl) -> Duration {
    Duration::from_secs(i32::try_from(ttl.as_secs()).map_or(0, |secs| secs as u64))
}

/// A name as the wire has it; `None` if it is too long.
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
        // Letters of either case are the same name.
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
            // Most bytes are no message at all, so some are put into one.
            let mut near = answer(Rcode::NOERROR, &[("web.internal", 20, "a.net"), ("a.net", 25, "10.0.0.1")]);
            let at = at.min(near.len());
            near[at..].iter_mut().zip(&bytes).for_each(|(here, byte)| *here = *byte);
            let _ = kinds.map(|kind| question(kind).read(&near));
        }
    }
}

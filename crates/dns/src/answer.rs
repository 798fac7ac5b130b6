//! Answers of a worker for a listener: a message in, a message out, and no I/O.
//!
//! Sources: RFC 1035 and 2308 (negative answers), RFC 2782 (SRV), RFC 6891 (EDNS), RFC 7766 (truncation and
//! TCP), RFC 7871 (client subnet), RFC 7873 and 9018 (cookies), RFC 8482 (ANY), RFC 8906 (unknown features
//! still get an answer).

use crate::cookie::Secret;
use crate::pools::{Found, WorkerPool};
use crate::query::{Edns, Name, Query, Reject, Subnet};
use crate::rate::{Allowed, Limit};
use crate::records::{Answering, Asked, Records, negative};
use crate::reply::{self, OptRecord, Owner, Reply, Section};
use crate::soa;
use crate::stats::ListenerStats;
use crate::zone::Zone;
use domain::base::iana::{Class, OptRcode, OptionCode, Rtype};
use evenkeel_balance::{Instant, Rng};
use evenkeel_net::listen::Protocol;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Largest datagram sent, and offered to clients, in bytes (DNS Flag Day 2020): usual paths do not fragment
/// it.
pub const PAYLOAD: u16 = 1232;
/// Largest datagram for a client without EDNS, in bytes (RFC 1035 section 4.2.1).
const PAYLOAD_MIN: u16 = 512;
/// Type of the record that answers ANY queries (RFC 8482 section 4.2).
const HINFO: Rtype = Rtype::HINFO;

/// Arrival time of a query, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Time on the clock of the balancers.
    pub now: Instant,
    /// Seconds since 1970 (wall clock).
    pub unix: u32,
}

/// Answers of a worker for a listener.
pub struct Answerer {
    zone: Arc<Zone>,
    records: Records,
    limit: Limit,
    secret: Secret,
    stats: Arc<ListenerStats>,
    rng: Rng,
    options: Vec<u8>,
}

impl Answerer {
    /// An answerer for a zone. `pools` are in the order of [`Zone::pools`].
    pub fn new(
        zone: Arc<Zone>,
        pools: Vec<WorkerPool>,
        secret: Secret,
        stats: Arc<ListenerStats>,
        seed: u64,
    ) -> Answerer {
        let mut rng = Rng::new(seed);
        Answerer {
            records: Records::new(&zone, pools),
            limit: Limit::new(zone.plan.responses_per_subnet, rng.next_u64()),
            secret,
            stats,
            rng,
            options: Vec::new(),
            zone,
        }
    }

    /// Counters of this worker and listener.
    pub fn stats(&self) -> &ListenerStats {
        &self.stats
    }

    /// Replaces the endpoints of pools, by pool name.
    pub fn apply_endpoints(&mut self, found: &Found) {
        self.records.apply_endpoints(&self.zone, found);
    }

    /// Switches to the newest endpoint sets, including pools that no query asks for.
    pub fn refresh(&mut self, now: Instant) {
        self.records.refresh(now);
    }

    /// Writes the answer to a message into `out`. False if there is none.
    pub fn answer(
        &mut self,
        message: &[u8],
        client: SocketAddr,
        protocol: Protocol,
        at: Moment,
        out: &mut Vec<u8>,
    ) -> bool {
        out.clear();
        let client = client.ip().to_canonical();
        let mut name = Name::room();
        let parsed = Query::parse(message, &mut name);
        let edns = parsed.as_ref().ok().and_then(|query| query.edns.as_ref());
        let is_proven = protocol == Protocol::Tcp
            || edns.and_then(|e| e.cookie.as_ref()).is_some_and(|cookie| self.secret.proves(cookie, client, at.unix));
        match parsed {
            Err(Reject::Drop) => {
                self.stats.dropped.add(1);
                return false;
            }
            Err(Reject::Code(code)) => {
                if !is_proven && self.limit.take(client, at.now) != Allowed::Yes {
                    self.stats.limited[0].add(1);
                    return false;
                }
                reply::reject(message, code.into(), out);
                self.stats.response(code.into());
                return true;
            }
            Ok(query) => {
                self.stats.query(query.qtype);
                let allowed = if is_proven { Allowed::Yes } else { self.limit.take(client, at.now) };
                if allowed == Allowed::No {
                    self.stats.limited[0].add(1);
                    return false;
                }
                self.reply(&query, client, protocol, at, allowed == Allowed::Short, out);
            }
        }
        true
    }

    fn reply(
        &mut self,
        query: &Query<'_>,
        client: IpAddr,
        protocol: Protocol,
        at: Moment,
        short: bool,
        out: &mut Vec<u8>,
    ) {
        let edns = query.edns.as_ref();
        let mut options = std::mem::take(&mut self.options);
        options.clear();
        if let Some(cookie) = edns.and_then(|e| e.cookie.as_ref()) {
            let cookie = self.secret.answer(cookie, client, at.unix);
            let server = cookie.server().map_or(&[][..], AsRef::as_ref);
            let head = [OptionCode::COOKIE.to_int(), (8 + server.len()) as u16].map(u16::to_be_bytes);
            options.extend_from_slice(head.as_flattened());
            options.extend_from_slice(&cookie.client().into_octets());
            options.extend_from_slice(server);
        }
        let told = edns.and_then(|e| e.subnet).filter(|_| self.zone.plan.client_subnet);
        let scope_at = told.map(|subnet| push_subnet(subnet, &mut options));
        let most = match (protocol, edns) {
            (Protocol::Tcp, _) => usize::from(u16::MAX),
            (Protocol::Udp, None) => PAYLOAD_MIN.into(),
            (Protocol::Udp, Some(edns)) => edns.payload.clamp(PAYLOAD_MIN, PAYLOAD).into(),
        };
        let limit = most - edns.map_or(0, |_| OptRecord::HEAD + options.len());
        let mut reply = Reply::to(query, limit, out);
        let mut answering = Answering { fits: true, used_subnet: false };
        let code = if short {
            self.stats.limited[1].add(1);
            reply.truncate();
            OptRcode::NOERROR
        } else {
            let network = || told.map_or_else(|| Subnet::around(client), Subnet::told_apart);
            let code = self.fill(query, edns, network, at.now, &mut reply, &mut answering);
            if !answering.fits {
                reply.truncate();
                self.stats.truncated.add(1);
            }
            code
        };
        reply.code(code);
        // Written once it is known if the network made a difference.
        if let (Some(at), Some(subnet), true) = (scope_at, told, answering.used_subnet) {
            options[at] = subnet.told_apart().prefix;
        }
        let dnssec_ok = edns.map(|e| e.dnssec_ok);
        reply.finish(dnssec_ok.map(|dnssec_ok| OptRecord { payload: PAYLOAD, code, dnssec_ok, options: &options }));
        self.stats.response(code);
        self.log(query, client, protocol, code, out.len());
        self.options = options;
    }

    /// Writes the records, and returns the response code.
    fn fill(
        &mut self,
        query: &Query<'_>,
        edns: Option<&Edns>,
        network: impl FnOnce() -> Subnet,
        now: Instant,
        reply: &mut Reply<'_>,
        answering: &mut Answering,
    ) -> OptRcode {
        if edns.is_some_and(|e| e.version != 0) {
            return OptRcode::BADVERS;
        }
        match query.qtype {
            Rtype::OPT => return OptRcode::FORMERR,
            Rtype::AXFR | Rtype::IXFR | Rtype::MAILA | Rtype::MAILB => return OptRcode::NOTIMP,
            _ => {}
        }
        let zone = &*self.zone;
        let Some(labels) = zone.labels_of(query.name.as_slice()).filter(|_| query.class == Class::IN) else {
            return OptRcode::REFUSED;
        };
        reply.authoritative();
        let address = [Rtype::A, Rtype::AAAA].contains(&query.qtype);
        let Some(node) = zone.find(labels) else {
            // Name of an endpoint, as given by an SRV record.
            let ip = zone.address_in(labels).filter(|ip| self.records.name(zone, *ip));
            return match ip {
                Some(ip) if address && (query.qtype == Rtype::A) == ip.is_ipv4() => {
                    reply.push_address(Section::Answer, Owner::Asked, zone.plan.ttl, ip);
                    OptRcode::NOERROR
                }
                Some(_) if query.qtype == Rtype::ANY => minimal(zone, reply),
                Some(_) => negative(zone, reply, OptRcode::NOERROR, answering),
                None => negative(zone, reply, OptRcode::NXDOMAIN, answering),
            };
        };
        match query.qtype {
            Rtype::ANY => minimal(zone, reply),
            Rtype::SOA if labels.is_empty() => {
                answering.fits = soa::push(zone, Section::Answer, zone.plan.ttl, reply);
                OptRcode::NOERROR
            }
            Rtype::NS if labels.is_empty() => {
                for (server, _) in &zone.name_servers {
                    answering.fits &= reply.push(Section::Answer, Owner::Asked, Rtype::NS, zone.plan.ttl, |out| {
                        out.extend_from_slice(server);
                    });
                }
                // Glue that does not fit can be queried.
                for (server, addresses) in zone.name_servers.iter().filter(|_| answering.fits) {
                    for ip in addresses {
                        reply.push_address(Section::Additional, Owner::Other(server), zone.plan.ttl, *ip);
                    }
                }
                OptRcode::NOERROR
            }
            qtype => self.records.write(&Asked { zone, node, qtype }, network, now, reply, answering),
        }
    }

    fn log(&mut self, query: &Query<'_>, client: IpAddr, protocol: Protocol, code: OptRcode, bytes: usize) {
        let part = self.zone.plan.query_log;
        if part > 0.0 && self.rng.unit() < part {
            let (name, qtype) = (&query.name, query.qtype);
            tracing::info!(%client, ?name, %qtype, transport = ?protocol, %code, bytes, "query");
        }
    }
}

/// Answers `ANY` with a single record set instead of all (RFC 8482). Only amplification attacks need all of them.
fn minimal(zone: &Zone, reply: &mut Reply<'_>) -> OptRcode {
    reply.push(Section::Answer, Owner::Asked, HINFO, zone.plan.ttl, |out| out.extend_from_slice(b"\x07RFC8482\x00"));
    OptRcode::NOERROR
}

/// Writes a client subnet option with scope 0, and returns the position of the scope.
fn push_subnet(subnet: Subnet, options: &mut Vec<u8>) -> usize {
    let (family, bytes) = match subnet.address {
        IpAddr::V4(ip) => (1u16, ip.to_ipv6_mapped().octets()),
        IpAddr::V6(ip) => (2, ip.octets()),
    };
    let address = if family == 1 { &bytes[12..] } else { &bytes[..] };
    let address = &address[..usize::from(subnet.prefix).div_ceil(8)];
    let head = [OptionCode::CLIENT_SUBNET.to_int(), (4 + address.len()) as u16, family].map(u16::to_be_bytes);
    options.extend_from_slice(head.as_flattened());
    options.extend_from_slice(&[subnet.prefix, 0]);
    options.extend_from_slice(address);
    options.len() - address.len() - 1
}

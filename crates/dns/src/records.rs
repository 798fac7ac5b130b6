//! Records of names that stand for a pool or a name server: endpoints picked by the pool's balancer, or fixed
//! addresses.

use crate::client::Localities;
use crate::https;
use crate::pools::{Choice, Family, Found, WorkerPool};
use crate::query::Subnet;
use crate::reply::{Owner, Reply, Section};
use crate::soa;
use crate::zone::{Node, Zone};
use domain::base::iana::{OptRcode, Rtype};
use evenkeel_balance::Instant;
use evenkeel_config::plan::{Record, RecordKind};
use std::net::IpAddr;

/// Question about an existing name.
pub(crate) struct Asked<'z> {
    pub zone: &'z Zone,
    pub node: &'z Node,
    pub qtype: Rtype,
}

/// Results of writing the records.
pub(crate) struct Answering {
    /// True if everything asked for fits.
    pub fits: bool,
    /// True if another client network could have got another answer.
    pub used_subnet: bool,
}

/// Pools of a zone on a worker.
pub(crate) struct Records {
    /// In the order of [`Zone::pools`].
    pools: Vec<WorkerPool>,
    /// Index of the pool, by record of the zone.
    pool_of: Vec<usize>,
    localities: Localities,
    /// Addresses already in the current answer.
    named: Vec<IpAddr>,
}

impl Records {
    /// Builds the records of a zone. `pools` are in the order of [`Zone::pools`].
    pub fn new(zone: &Zone, pools: Vec<WorkerPool>) -> Records {
        let names = zone.pools();
        let index =
            |r: &Record| names.iter().position(|name| *name == r.pool).expect("pools() has that of each record");
        Records {
            pools,
            pool_of: zone.plan.records.iter().map(index).collect(),
            localities: Localities::new(&zone.plan.localities),
            named: Vec::new(),
        }
    }

    /// Replaces the endpoints of pools, by pool name.
    pub fn apply_endpoints(&mut self, zone: &Zone, found: &Found) {
        for (name, pool) in zone.pools().iter().zip(&mut self.pools) {
            if let Some(endpoints) = found.get(name) {
                pool.change(endpoints);
            }
        }
    }

    /// Switches to the newest endpoint sets, including pools that no query asks for.
    pub fn refresh(&mut self, now: Instant) {
        self.pools.iter_mut().for_each(|pool| pool.refresh(now));
    }

    /// True if an SRV record may name this address.
    pub fn name(&self, zone: &Zone, ip: IpAddr) -> bool {
        let mut records = zone.plan.records.iter().zip(&self.pool_of);
        records.any(|(record, pool)| record.kind == RecordKind::Service && self.pools[*pool].has_address(ip))
    }

    /// Writes the addresses or services of a name, and returns the response code. `network` yields the
    /// client's network, which few answers need.
    pub fn write(
        &mut self,
        asked: &Asked<'_>,
        network: impl FnOnce() -> Subnet,
        now: Instant,
        reply: &mut Reply<'_>,
        answering: &mut Answering,
    ) -> OptRcode {
        let Asked { zone, node, qtype } = *asked;
        let kinds = match qtype {
            Rtype::A => Some((RecordKind::Address, Family::V4)),
            Rtype::AAAA => Some((RecordKind::Address, Family::V6)),
            Rtype::SRV => Some((RecordKind::Service, Family::Both)),
            Rtype::HTTPS => Some((RecordKind::Address, Family::Both)),
            _ => None,
        };
        let of_pool = node.record.zip(kinds).and_then(|(index, (kind, family))| {
            let (record, pool) = (&zone.plan.records[index], &mut self.pools[self.pool_of[index]]);
            let answers = qtype != Rtype::HTTPS || record.https.is_some();
            let has_family = kind == RecordKind::Service || pool.has(family);
            (record.kind == kind && answers && has_family).then_some((record, pool, family))
        });
        let Some((record, pool, family)) = of_pool else { return fixed(asked, reply, answering) };
        answering.used_subnet = record.prefers_near || pool.goes_by_key();
        let network = answering.used_subnet.then(network);
        let near = network.filter(|_| record.prefers_near).and_then(|network| self.localities.of(network));
        let choice = Choice {
            family,
            answers: record.answers,
            key: network.map(|network| network.key()),
            near: near.map(|zone| &**zone),
            fail_open: zone.plan.fail_open,
        };
        let ttl = record.ttl.unwrap_or(zone.plan.ttl);
        let named = &mut self.named;
        named.clear();
        for endpoint in pool.choose(&choice, now) {
            let ip = endpoint.addr.ip();
            if record.kind == RecordKind::Address {
                // Endpoints that differ only in their port share an address record.
                if named.contains(&ip) {
                    continue;
                }
                if family != Family::Both {
                    answering.fits &= reply.push_address(Section::Answer, Owner::Asked, ttl, ip);
                }
            } else {
                answering.fits &= reply.push(Section::Answer, Owner::Asked, Rtype::SRV, ttl, |out| {
                    let head = [u16::from(endpoint.priority), endpoint.weight, endpoint.addr.port()];
                    out.extend_from_slice(head.map(u16::to_be_bytes).as_flattened());
                    zone.write_endpoint(ip, out);
                });
            }
            if !answering.fits {
                return OptRcode::NOERROR;
            }
            named.push(ip);
        }
        if named.is_empty() {
            return OptRcode::SERVFAIL;
        }
        if let Some(https) = record.https.as_ref().filter(|_| qtype == Rtype::HTTPS) {
            answering.fits &= reply.push(Section::Answer, Owner::Asked, Rtype::HTTPS, ttl, |out| {
                https::write(https, named, out);
            });
        } else if family == Family::Both {
            let mut name = Vec::new();
            for (_, ip) in named.iter().enumerate().filter(|(i, ip)| !named[..*i].contains(ip)) {
                name.clear();
                zone.write_endpoint(*ip, &mut name);
                reply.push_address(Section::Additional, Owner::Other(&name), ttl, *ip);
            }
        }
        OptRcode::NOERROR
    }
}

/// Writes the addresses of a name server.
fn fixed(asked: &Asked<'_>, reply: &mut Reply<'_>, answering: &mut Answering) -> OptRcode {
    let Asked { zone, node, qtype } = *asked;
    let of_type = |ip: &&IpAddr| matches!((qtype, ip), (Rtype::A, IpAddr::V4(_)) | (Rtype::AAAA, IpAddr::V6(_)));
    let mut any = false;
    for ip in node.fixed.iter().filter(of_type) {
        any = true;
        answering.fits &= reply.push_address(Section::Answer, Owner::Asked, zone.plan.ttl, *ip);
    }
    if any { OptRcode::NOERROR } else { negative(zone, reply, OptRcode::NOERROR, answering) }
}

/// Writes the SOA record of a negative answer, which limits its caching.
pub(crate) fn negative(zone: &Zone, reply: &mut Reply<'_>, code: OptRcode, answering: &mut Answering) -> OptRcode {
    answering.fits &= soa::push(zone, Section::Authority, zone.negative_ttl(), reply);
    code
}

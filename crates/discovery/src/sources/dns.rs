//! The source `dns`: endpoints from the addresses of a name, or from its SRV records.

use crate::ask::ask;
use crate::context::Context;
use crate::kept::{Answer, List};
use crate::message::{Beside, Records, Reply, Service};
use crate::out::Out;
use crate::polling::{Look, Pace, poll};
use crate::system::{Conf, hosts};
use domain::base::Rtype;
use evenkeel_config::plan::{self, Address, Dns, Endpoint, Resolve, Resolver};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Time that entries of `/etc/hosts` are used: they have no TTL, and reading them is cheap.
const HOSTS_TTL: Duration = Duration::from_secs(5);

/// Longest time that the absence of records is believed. Zones may state an hour, but a service that starts,
/// or whose name was briefly gone, must be found within seconds.
const NOTHING_TTL: Duration = Duration::from_secs(5);

/// Number of tiers of a pool.
const TIERS: usize = 16;

struct Name {
    dns: Dns,
    resolver: Resolver,
}

/// Follows the endpoints of a name, forever.
pub(super) async fn run(dns: Dns, context: Context, out: Out) -> ! {
    let resolver = context.resolver;
    let pace = Pace {
        min: dns.min_ttl,
        max: resolver.max_ttl,
        retry: dns.min_ttl,
        retry_max: Duration::from_secs(30).max(dns.min_ttl),
        spread: 0.1,
    };
    poll(Name { dns, resolver }, pace, out).await
}

impl Look for Name {
    async fn look(&mut self) -> Answer {
        let mut conf = Conf::read();
        if !self.resolver.nameservers.is_empty() {
            conf.nameservers.clone_from(&self.resolver.nameservers);
        }
        if !self.resolver.search {
            conf.search.clear();
        }
        let found = match self.dns.records {
            plan::Records::Srv => self.services(&conf).await,
            _ => self.addresses(&conf).await,
        };
        match found {
            Ok((list, ttl)) => Answer::List(List { ttl: Some(ttl), ..list }),
            Err(why) => Answer::Failed(why),
        }
    }
}

type Found<T> = Result<(T, Duration), String>;

impl Name {
    async fn addresses(&self, conf: &Conf) -> Found<List> {
        let (mut addrs, ttl) = addresses(conf, &self.dns.name, self.dns.records).await?;
        // Servers rotate their answers, while all balancers should agree on the first address.
        addrs.sort_unstable();
        let endpoints = addrs.into_iter().map(|ip| endpoint(SocketAddr::new(ip, self.dns.port), 1, 0));
        Ok((endpoints.collect::<Vec<_>>().into(), ttl))
    }

    async fn services(&self, conf: &Conf) -> Found<List> {
        for name in conf.candidates(&self.dns.name) {
            let (services, beside, ttl) = match ask(conf, &name, Rtype::SRV).await? {
                Reply::Records(Records::Services(services, beside), ttl) => (services, beside, ttl),
                _ => continue,
            };
            let mut found = Vec::new();
            let mut targets = Targets { beside, known: BTreeMap::new(), shortest: ttl };
            // A root target means that there is no such service (RFC 2782).
            for service in services.iter().filter(|service| !service.target.is_root()) {
                let addrs = targets.addresses(conf, service).await?;
                found.extend(addrs.iter().map(|ip| (service, SocketAddr::new(*ip, service.port))));
            }
            let shortest = targets.shortest;
            return Ok((by_priority(found), shortest));
        }
        Ok((List::default(), NOTHING_TTL))
    }
}

/// Addresses of the targets of SRV records.
struct Targets {
    /// Addresses from the additional section.
    beside: Vec<Beside>,
    /// Resolved addresses by target, which several records may share.
    known: BTreeMap<String, Vec<IpAddr>>,
    /// Shortest TTL of anything that was used.
    shortest: Duration,
}

impl Targets {
    /// Addresses of a single family, IPv4 if there are any, because a machine with both would count twice. Servers omit
    /// additional addresses that do not fit, so only IPv4 is taken from them: IPv6 alone does not show that there is no
    /// IPv4.
    async fn addresses(&mut self, conf: &Conf, service: &Service) -> Result<&[IpAddr], String> {
        let target = service.target.to_string().trim_end_matches('.').to_ascii_lowercase();
        if !self.known.contains_key(&target) {
            let along = self.beside.iter().filter(|beside| beside.name == service.target && beside.addr.is_ipv4());
            let mut ttl = along.clone().map(|beside| beside.ttl).min();
            let mut addrs: Vec<IpAddr> = along.map(|beside| beside.addr).collect();
            if addrs.is_empty() {
                // A target that cannot be resolved now fails the whole lookup, or it would look as if it had
                // been removed.
                let (resolved, lasts) = addresses(conf, &target, plan::Records::Addresses).await?;
                (addrs, ttl) = (resolved, Some(lasts));
            }
            self.shortest = self.shortest.min(ttl.unwrap_or(self.shortest));
            self.known.insert(target.clone(), addrs);
        }
        Ok(self.known.get(&target).map_or(&[], Vec::as_slice))
    }
}

/// Maps priorities, which are arbitrary numbers, to tiers from 0. Weights are kept but at least 1, because 0
/// is not a drain in SRV records (RFC 2782: "a very small chance"; equal if all are 0).
/// A service without a port is left out.
pub(super) fn by_priority(mut found: Vec<(&Service, SocketAddr)>) -> List {
    let mut priorities: Vec<u16> = found.iter().map(|(service, _)| service.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let (mut list, without) = (List::default(), found.extract_if(.., |(service, _)| service.port == 0));
    list.skipped.extend(without.map(|(_, addr)| format!("{addr}: 0 is not a port")));
    found.sort_unstable_by_key(|(service, addr)| (service.priority, *addr));
    let tier = |service: &Service| priorities.partition_point(|p| *p < service.priority).min(TIERS - 1);
    let found = found.into_iter();
    list.endpoints.extend(found.map(|(service, addr)| endpoint(addr, service.weight.max(1), tier(service) as u8)));
    list
}

fn endpoint(addr: SocketAddr, weight: u16, priority: u8) -> Endpoint {
    let name = addr.to_string().into();
    Endpoint { name, addr: Address::Ip(addr), resolve: Resolve::First, weight, priority, ..Endpoint::default() }
}

/// Addresses of a name; none if it does not exist.
async fn addresses(conf: &Conf, name: &str, records: plan::Records) -> Found<Vec<IpAddr>> {
    let kinds: &[Rtype] = match records {
        plan::Records::A => &[Rtype::A],
        plan::Records::Aaaa => &[Rtype::AAAA],
        plan::Records::Addresses | plan::Records::Srv => &[Rtype::A, Rtype::AAAA],
    };
    let here = hosts(name);
    for kind in kinds {
        let of_kind = |addr: &&IpAddr| addr.is_ipv4() == (*kind == Rtype::A);
        let of_kind: Vec<IpAddr> = here.iter().filter(of_kind).copied().collect();
        if !of_kind.is_empty() {
            return Ok((of_kind, HOSTS_TTL));
        }
    }
    let mut nothing = None;
    for name in conf.candidates(name) {
        for kind in kinds {
            match ask(conf, &name, *kind).await? {
                Reply::Records(Records::Addresses(addrs), ttl) => return Ok((addrs, ttl)),
                Reply::Nothing(ttl) => nothing = nothing.or(ttl),
                _ => {}
            }
        }
    }
    Ok((Vec::new(), nothing.unwrap_or(NOTHING_TTL).min(NOTHING_TTL)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::name;

    #[test]
    fn priorities_become_tiers_and_no_weight_a_small_one() {
        let service = |priority, weight, port| Service { priority, weight, port, target: name("t.example").unwrap() };
        let services = [service(20, 0, 80), service(10, 65_535, 80), service(65_535, 5, 80), service(10, 7, 0)];
        let found = services.iter().enumerate();
        let found = found.map(|(i, s)| (s, SocketAddr::new([10, 0, 0, i as u8].into(), s.port))).collect();
        let endpoints = by_priority(found);
        assert_eq!(endpoints.skipped, ["10.0.0.3:0: 0 is not a port"]);
        let seen: Vec<_> = endpoints.endpoints.iter().map(|e| (&*e.name, e.weight, e.priority)).collect();
        assert_eq!(seen, [("10.0.0.1:80", 65_535, 0), ("10.0.0.0:80", 1, 1), ("10.0.0.2:80", 5, 2)]);
    }

    #[test]
    fn more_priorities_than_tiers_share_the_last_one() {
        let service = |priority| Service { priority, weight: 1, port: 80, target: name("t.example").unwrap() };
        let services: Vec<Service> = (0..20).map(service).collect();
        let found =
            services.iter().map(|s| (s, SocketAddr::new([10, 0, 0, s.priority as u8].into(), s.port))).collect();
        let tiers: Vec<u8> = by_priority(found).endpoints.iter().map(|e| e.priority).collect();
        assert_eq!((tiers[14], tiers[15], tiers[19]), (14, 15, 15));
    }
}

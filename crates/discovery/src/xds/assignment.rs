//! Endpoints that are assigned to a cluster, as endpoints of a pool. See [`list`].

use super::messages::{
    AddressUnion, ClusterLoadAssignment, HealthStatus, LbEndpoint, LocalityLbEndpoints, Port, SocketAddress,
};
use crate::entries::{self, address, quoted};
use crate::kept::List;
use evenkeel_config::plan::{Address, Endpoint, Resolve};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Priorities that tiers of a pool can have, from 0.
const TIERS: u32 = 16;

/// Reasons for a refusal that are reported, at most.
const REASONS: usize = 5;

/// Endpoints of an assignment, and the parts of it that mean nothing here.
#[derive(Debug, Default)]
pub struct Assigned {
    pub list: List,
    pub ignored: Vec<String>,
}

/// Endpoint of an assignment: what becomes of it.
enum Read {
    Used(Endpoint, u32),
    /// An endpoint that its control plane has found unfit.
    Unfit,
    /// A valid endpoint that no pool can have, with the reason.
    Skipped(String),
}

/// Kinds of hosts that endpoints may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    Addresses,
    /// Names too, each of which is one endpoint.
    Names,
    /// Names too, each of whose addresses is an endpoint.
    AllOfNames,
}

/// Returns the endpoints of an assignment.
///
/// # Errors
/// The parts that are invalid, by which the assignment as a whole is to be refused.
pub fn list(assignment: &ClusterLoadAssignment) -> Result<Assigned, String> {
    list_of(assignment, Hosts::Addresses)
}

/// Returns the endpoints of an assignment whose hosts may be names.
///
/// # Errors
/// The parts that are invalid, by which the assignment as a whole is to be refused.
pub fn list_of(assignment: &ClusterLoadAssignment, hosts: Hosts) -> Result<Assigned, String> {
    let (mut list, mut weights, mut wrong, mut seen) = (List::default(), Vec::new(), Vec::new(), HashSet::new());
    for locality in &assignment.endpoints {
        if locality.leds_cluster_locality_config.is_some() {
            list.skipped.push("a locality whose endpoints would come by LEDS".to_owned());
        }
        for one in &locality.lb_endpoints {
            match read(one, locality, hosts) {
                Ok(Read::Used(endpoint, weight)) if seen.insert(endpoint.addr.clone()) => {
                    list.endpoints.push(endpoint);
                    weights.push(weight);
                }
                Ok(Read::Used(endpoint, _)) => list.skipped.push(format!("{}: it is there twice", endpoint.name)),
                Ok(Read::Unfit) => {}
                Ok(Read::Skipped(why)) => list.skipped.push(why),
                Err(why) => wrong.push(why),
            }
        }
    }
    if let more @ 1.. = wrong.len() {
        let shown = wrong[..more.min(REASONS)].join("; ");
        return Err(if more > REASONS { format!("{shown}; and {} more", more - REASONS) } else { shown });
    }
    scale(&mut list.endpoints, &weights);
    let mut ignored = Vec::new();
    if let Some(policy) = &assignment.policy {
        if !policy.drop_overloads.is_empty() {
            ignored.push("policy.drop_overloads: no share of the requests is dropped".to_owned());
        }
        let stale = policy.endpoint_stale_after.as_ref();
        list.ttl = stale.and_then(|time| u64::try_from(time.seconds).ok()).map(Duration::from_secs);
    }
    Ok(Assigned { list, ignored })
}

/// Sets weights. Those that no endpoint can have become smaller by one factor for all, so that shares stay.
fn scale(endpoints: &mut [Endpoint], weights: &[u32]) {
    let most = weights.iter().copied().max().unwrap_or_default().max(u32::from(u16::MAX));
    for (endpoint, weight) in endpoints.iter_mut().zip(weights) {
        let scaled = u64::from(*weight) * u64::from(u16::MAX) / u64::from(most);
        endpoint.weight = u16::try_from(scaled.max(1)).unwrap_or(u16::MAX);
    }
}

fn read(one: &LbEndpoint, locality: &LocalityLbEndpoints, hosts: Hosts) -> Result<Read, String> {
    let Some(found) = &one.endpoint else {
        return Ok(Read::Skipped("an endpoint by name: named_endpoints are not read".to_owned()));
    };
    let addr = match found.address.as_ref().and_then(|address| address.union.as_ref()) {
        Some(AddressUnion::Socket(socket)) => addr(socket, hosts)?,
        Some(AddressUnion::Pipe(pipe)) => {
            return Ok(Read::Skipped(format!("{}: a pipe is not an IP address", pipe.path)));
        }
        Some(AddressUnion::Internal(_)) => return Ok(Read::Skipped("a listener within Envoy".to_owned())),
        None => return Err("an endpoint has no address".to_owned()),
    };
    let weight = one.load_balancing_weight.as_ref().map_or(1, |weight| weight.value);
    if weight == 0 {
        return Err(format!("{addr}: load_balancing_weight is 0"));
    }
    let (drain, degraded) = match one.health_status() {
        HealthStatus::Unknown | HealthStatus::Healthy => (false, false),
        HealthStatus::Draining => (true, false),
        HealthStatus::Degraded => (false, true),
        HealthStatus::Unhealthy | HealthStatus::Timeout => return Ok(Read::Unfit),
    };
    if locality.priority >= TIERS {
        return Ok(Read::Skipped(format!("{addr}: priority {} is not from 0 to 15", locality.priority)));
    }
    // The second choice, beside the first of the next priority.
    let tier = (locality.priority + u32::from(degraded)).min(TIERS - 1);
    let priority = u8::try_from(tier).unwrap_or(u8::MAX);
    let is_name = matches!(addr, Address::Name { .. });
    let resolve = if is_name && hosts == Hosts::AllOfNames { Resolve::All } else { Resolve::First };
    let mut endpoint = Endpoint { name: addr.to_string().into(), addr, resolve, ..Endpoint::default() };
    let zone = match zone(locality) {
        Ok(zone) => zone,
        Err(why) => return Ok(Read::Skipped(format!("{}: {why}", endpoint.addr))),
    };
    (endpoint.weight, endpoint.priority, endpoint.drain, endpoint.zone) = (1, priority, drain, zone);
    if hosts != Hosts::Addresses && !found.hostname.is_empty() {
        if !is_authority(&found.hostname) {
            return Err(format!("{}: hostname {:?} is not a host", endpoint.addr, quoted(&found.hostname)));
        }
        endpoint.own.host = Some(found.hostname.as_str().into());
    }
    Ok(Read::Used(endpoint, weight))
}

fn addr(socket: &SocketAddress, hosts: Hosts) -> Result<Address, String> {
    let is_name = socket.address.parse::<IpAddr>().is_err() && is_host(&socket.address);
    match &socket.port {
        Some(Port::Value(port @ 1..=65_535)) if is_name && hosts != Hosts::Addresses => {
            let port = u16::try_from(*port).unwrap_or_default();
            Ok(Address::Name { host: socket.address.trim_end_matches('.').to_ascii_lowercase(), port })
        }
        _ => socket_addr(socket).map(Address::Ip),
    }
}

/// True if a text can be a host, with or without a port.
fn is_authority(text: &str) -> bool {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "1"));
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    is_host(host) && is_port(port) || text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok()
}

/// True if a text can be a host name.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let labels = text.trim_end_matches('.').split('.');
    // The last label of a name has a letter, or it would be a part of an address.
    let ends = labels.clone().next_back().is_some_and(|last| !last.bytes().all(|b| b.is_ascii_digit()));
    text.len() <= 253 && ends && labels.into_iter().all(is_label)
}

fn socket_addr(socket: &SocketAddress) -> Result<SocketAddr, String> {
    match &socket.port {
        Some(Port::Named(name)) => Err(format!("{}: {name:?} is not a number of a port", socket.address)),
        port => {
            let port = if let Some(Port::Value(port)) = port { *port } else { 0 };
            address(&socket.address, port.into()).map_err(|why| format!("{}:{port}: {why}", socket.address))
        }
    }
}

/// Zone of a locality, or its region if it has no zone.
fn zone(locality: &LocalityLbEndpoints) -> Result<Option<Arc<str>>, String> {
    let Some(place) = &locality.locality else { return Ok(None) };
    entries::zone(if place.zone.is_empty() { &place.region } else { &place.zone })
}

#[cfg(test)]
mod tests {
    use super::super::messages::{self, Locality, Pipe, Policy, Time, UInt32Value};
    use super::*;

    fn at(host: &str, port: u32) -> LbEndpoint {
        let socket = SocketAddress { address: host.into(), port: Some(Port::Value(port)) };
        let address = messages::Address { union: Some(AddressUnion::Socket(socket)) };
        LbEndpoint {
            endpoint: Some(messages::Endpoint { address: Some(address), ..messages::Endpoint::default() }),
            ..LbEndpoint::default()
        }
    }

    fn with(host: &str, status: HealthStatus, weight: u32) -> LbEndpoint {
        let load_balancing_weight = Some(UInt32Value { value: weight });
        LbEndpoint { health_status: status as i32, load_balancing_weight, ..at(host, 80) }
    }

    fn of(priority: u32, zone: &str, lb_endpoints: Vec<LbEndpoint>) -> LocalityLbEndpoints {
        let locality = Some(Locality { region: "eu".into(), zone: zone.into() });
        LocalityLbEndpoints { locality, lb_endpoints, priority, ..LocalityLbEndpoints::default() }
    }

    fn shown(endpoints: Vec<LocalityLbEndpoints>) -> (Vec<String>, Vec<String>) {
        let all = ClusterLoadAssignment { endpoints, ..ClusterLoadAssignment::default() };
        let Assigned { list, ignored } = list(&all).expect("a good one");
        assert!(ignored.is_empty(), "{ignored:?}");
        let one = |e: &Endpoint| {
            let zone = e.zone.as_deref().unwrap_or("-");
            format!("{} {} {} {zone}{}", e.addr, e.weight, e.priority, if e.drain { " drain" } else { "" })
        };
        (list.endpoints.iter().map(one).collect(), list.skipped)
    }

    #[test]
    fn health_priority_weight_and_locality_are_kept() {
        let endpoints = vec![
            of(0, "eu-1", vec![at("10.0.0.1", 80), with("10.0.0.2", HealthStatus::Healthy, 3)]),
            of(
                1,
                "",
                vec![
                    with("10.0.1.1", HealthStatus::Draining, 1),
                    with("10.0.1.2", HealthStatus::Degraded, 1),
                    with("10.0.1.3", HealthStatus::Unhealthy, 1),
                    with("10.0.1.4", HealthStatus::Timeout, 1),
                    LbEndpoint { health_status: 99, ..at("fd00::1", 80) },
                ],
            ),
            of(15, "eu-1", vec![with("10.0.2.1", HealthStatus::Degraded, 1)]),
        ];
        let wanted = [
            "10.0.0.1:80 1 0 eu-1",
            "10.0.0.2:80 3 0 eu-1",
            "10.0.1.1:80 1 1 eu drain",
            "10.0.1.2:80 1 2 eu",
            "[fd00::1]:80 1 1 eu",
            "10.0.2.1:80 1 15 eu-1",
        ];
        assert_eq!(shown(endpoints), (wanted.map(String::from).to_vec(), vec![]));
    }

    #[test]
    fn shares_stay_when_weights_are_too_large() {
        let weights = |all: &[u32]| {
            let lb_endpoints = all.iter().enumerate();
            let lb_endpoints = lb_endpoints.map(|(n, w)| with(&format!("10.0.0.{n}"), HealthStatus::Healthy, *w));
            let endpoints = vec![of(0, "a", lb_endpoints.collect())];
            let list = list(&ClusterLoadAssignment { endpoints, ..ClusterLoadAssignment::default() });
            list.expect("a good one").list.endpoints.iter().map(|e| e.weight).collect::<Vec<_>>()
        };
        assert_eq!(weights(&[1, 65_535, 7]), [1, 65_535, 7]);
        assert_eq!(weights(&[1 << 31, 1 << 30, 1]), [65_535, 32_767, 1]);
        assert_eq!(weights(&[u32::MAX]), [65_535]);
    }

    #[test]
    fn valid_endpoints_that_no_pool_can_have_are_skipped() {
        let pipe = messages::Address { union: Some(AddressUnion::Pipe(Pipe { path: "/run/a".into() })) };
        let pipe = LbEndpoint {
            endpoint: Some(messages::Endpoint { address: Some(pipe), ..messages::Endpoint::default() }),
            ..LbEndpoint::default()
        };
        let by_name = LbEndpoint::default();
        let endpoints = vec![
            of(16, "a", vec![at("10.0.0.1", 80)]),
            of(0, "a", vec![pipe, by_name, at("10.0.0.2", 80), at("10.0.0.2", 80)]),
            LocalityLbEndpoints { leds_cluster_locality_config: Some(vec![]), ..of(0, "a", vec![]) },
        ];
        let (used, skipped) = shown(endpoints);
        assert_eq!(used, ["10.0.0.2:80 1 0 a"]);
        let reasons = ["priority 16", "a pipe", "named_endpoints", "twice", "LEDS"];
        assert_eq!(skipped.len(), reasons.len());
        for (why, reason) in skipped.iter().zip(reasons) {
            assert!(why.contains(reason), "{why}: {reason}");
        }
    }

    #[test]
    fn an_invalid_assignment_is_refused_with_what_is_wrong() {
        let refused = |lb_endpoints| {
            let endpoints = vec![of(0, "a", lb_endpoints)];
            list(&ClusterLoadAssignment { endpoints, ..ClusterLoadAssignment::default() }).expect_err("it is wrong")
        };
        let named = SocketAddress { address: "10.0.0.1".into(), port: Some(Port::Named("http".into())) };
        let named = messages::Address { union: Some(AddressUnion::Socket(named)) };
        let named = LbEndpoint {
            endpoint: Some(messages::Endpoint { address: Some(named), ..messages::Endpoint::default() }),
            ..LbEndpoint::default()
        };
        let nowhere = LbEndpoint { endpoint: Some(messages::Endpoint::default()), ..LbEndpoint::default() };
        let all = vec![at("10.0.0.1", 80), at("10.0.0.1", 0), at("a.inside", 80), at("10.0.0.2", 65_536), nowhere];
        let why = refused(all);
        let reasons = ["10.0.0.1:0: 0 is not a port", "\"a.inside\" is not an IP address", "65536", "has no address"];
        assert!(reasons.iter().all(|reason| why.contains(reason)), "{why}");
        assert!(refused(vec![named]).contains("\"http\" is not a number"));
        assert!(refused(vec![with("10.0.0.1", HealthStatus::Healthy, 0)]).contains("load_balancing_weight is 0"));
        assert!(refused((0..100).map(|_| at("", 1)).collect()).ends_with("and 95 more"));
    }

    #[test]
    fn a_policy_has_a_time_to_live_and_shares_that_are_not_dropped() {
        let policy =
            Policy { drop_overloads: vec![vec![]], endpoint_stale_after: Some(Time { seconds: 60, nanos: 0 }) };
        let found = list(&ClusterLoadAssignment { policy: Some(policy), ..ClusterLoadAssignment::default() });
        let Assigned { list, ignored } = found.expect("it is empty, and good");
        assert_eq!((list.ttl, list.skipped.len(), list.endpoints.len()), (Some(Duration::from_secs(60)), 0, 0));
        assert_eq!(ignored, ["policy.drop_overloads: no share of the requests is dropped"]);
    }
}

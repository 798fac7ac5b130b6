//! Endpoints that are assigned to a cluster, as endpoints of a pool. See [`endpoints`].

use crate::node::Node;
use evenkeel_config::entry::{address, quoted, zone};
use evenkeel_config::plan::{Address, Endpoint, Resolve};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Priorities that tiers of a pool can have, from 0.
const TIERS: u64 = 16;

/// Reasons for a refusal that are reported, at most.
const REASONS: usize = 5;

/// Endpoints of an assignment, and the parts of it that mean nothing here.
#[derive(Debug, Default)]
pub struct Assigned {
    pub endpoints: Vec<Endpoint>,
    /// Time for which they are valid; `None` = until the next assignment.
    pub ttl: Option<Duration>,
    /// Endpoints that are left out, each with its name and the reason.
    pub skipped: Vec<String>,
    pub ignored: Vec<String>,
}

/// Result of reading an endpoint of an assignment.
enum Read {
    Used(Box<Endpoint>, u64),
    /// An endpoint that its control plane has found unfit.
    Unfit,
    /// A valid endpoint that no pool can have, with the reason.
    Skipped(String),
}

/// Kinds of hosts that endpoints may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    Addresses,
    /// Names too. Each name is one endpoint.
    Names,
    /// Names too. Each address of a name is an endpoint.
    AllOfNames,
}

/// Returns the endpoints of an assignment.
///
/// # Errors
/// The parts that are invalid, by which a resource as a whole is to be refused.
pub fn endpoints(assignment: &Node<'_>, hosts: Hosts) -> Result<Assigned, String> {
    let (mut all, mut weights, mut wrong, mut seen) = (Assigned::default(), Vec::new(), Vec::new(), HashSet::new());
    assignment.text("cluster_name");
    for locality in assignment.nodes("endpoints") {
        if locality.mark("leds_cluster_locality_config") {
            all.skipped.push("a locality whose endpoints would come by LEDS".to_owned());
        }
        for one in locality.nodes("lb_endpoints") {
            let skipped = match read(one, locality, hosts) {
                Ok(Read::Used(endpoint, weight)) if seen.insert(endpoint.addr.clone()) => {
                    all.endpoints.push(*endpoint);
                    weights.push(weight);
                    continue;
                }
                Ok(Read::Used(endpoint, _)) => format!("{}: it is there twice", endpoint.name),
                Ok(Read::Unfit) => {
                    one.differs("an endpoint that is not healthy is left out");
                    continue;
                }
                Ok(Read::Skipped(why)) => why,
                Err(why) => {
                    wrong.extend(one.part(Err::<(), _>(why)).err());
                    continue;
                }
            };
            all.skipped.extend(one.part(Err::<(), _>(skipped)).err());
        }
    }
    if let more @ 1.. = wrong.len() {
        let shown = wrong[..more.min(REASONS)].join("; ");
        return Err(if more > REASONS { format!("{shown}; and {} more", more - REASONS) } else { shown });
    }
    scale(&mut all.endpoints, &weights);
    if let Some(policy) = assignment.node("policy") {
        if policy.mark("drop_overloads") {
            all.ignored.push("policy.drop_overloads: no share of the requests is dropped".to_owned());
        }
        let stale = policy.node("endpoint_stale_after").map(|time| (time.number("seconds"), time.number("nanos")).0);
        // A negative number has the highest bit set.
        all.ttl = stale.filter(|seconds| i64::try_from(*seconds).is_ok()).map(Duration::from_secs);
    }
    Ok(all)
}

/// Sets weights. If some are too large for a plan, all shrink by the same factor, so that shares stay.
fn scale(endpoints: &mut [Endpoint], weights: &[u64]) {
    let most = weights.iter().copied().max().unwrap_or_default().max(u64::from(u16::MAX));
    for (endpoint, weight) in endpoints.iter_mut().zip(weights) {
        let scaled = u128::from(*weight) * u128::from(u16::MAX) / u128::from(most);
        endpoint.weight = u16::try_from(scaled.max(1)).unwrap_or(u16::MAX);
    }
}

fn read(one: &Node<'_>, locality: &Node<'_>, hosts: Hosts) -> Result<Read, String> {
    let Some(found) = one.node("endpoint") else {
        return Ok(Read::Skipped("an endpoint by name: named_endpoints are not read".to_owned()));
    };
    let place = found.node("address").ok_or("an endpoint has no address")?;
    let addr = if let Some(socket) = place.node("socket_address") {
        addr(socket, hosts)?
    } else if let Some(pipe) = place.node("pipe") {
        let path = pipe.text("path").unwrap_or_default();
        match path.starts_with(['/', '@']) && path.len() > 1 && one.is_of_file() {
            true => Address::Unix(path.into()),
            false => return Ok(Read::Skipped(format!("{path}: a pipe is not an IP address"))),
        }
    } else if place.has("envoy_internal_address") {
        return Ok(Read::Skipped("a listener within Envoy".to_owned()));
    } else {
        return Err("an endpoint has no address".to_owned());
    };
    let weight = one.wrapped("load_balancing_weight").unwrap_or(1);
    if weight == 0 {
        return Err(format!("{addr}: load_balancing_weight is 0"));
    }
    const UNHEALTHY: u64 = 2;
    const DRAINING: u64 = 3;
    const TIMEOUT: u64 = 4;
    const DEGRADED: u64 = 5;
    let status = one.number("health_status");
    if [UNHEALTHY, TIMEOUT].contains(&status) {
        return Ok(Read::Unfit);
    }
    let tier = locality.number("priority");
    if tier >= TIERS {
        return Ok(Read::Skipped(format!("{addr}: priority {tier} is not from 0 to 15")));
    }
    // A degraded endpoint is a second choice, like endpoints of the next priority.
    let tier = (tier + u64::from(status == DEGRADED)).min(TIERS - 1);
    let is_name = matches!(addr, Address::Name { .. });
    let resolve = if is_name && hosts == Hosts::AllOfNames { Resolve::All } else { Resolve::First };
    let mut endpoint = Endpoint { name: addr.to_string().into(), addr, resolve, ..Endpoint::default() };
    endpoint.zone = match zone_of(locality) {
        Ok(zone) => zone,
        Err(why) => return Ok(Read::Skipped(format!("{}: {why}", endpoint.addr))),
    };
    endpoint.weight = 1;
    endpoint.priority = u8::try_from(tier).unwrap_or(u8::MAX);
    endpoint.drain = status == DRAINING;
    let hostname = found.text("hostname").filter(|name| !name.is_empty());
    if let Some(hostname) = hostname.filter(|_| hosts != Hosts::Addresses || one.is_of_file()) {
        if !is_authority(hostname) {
            return Err(format!("{}: hostname {:?} is not a host", endpoint.addr, quoted(hostname)));
        }
        endpoint.own.host = Some(hostname.into());
    }
    Ok(Read::Used(Box::new(endpoint), weight))
}

fn addr(socket: &Node<'_>, hosts: Hosts) -> Result<Address, String> {
    let (host, port) = (socket.text("address").unwrap_or_default(), socket.number("port_value"));
    if let Some(name) = socket.text("named_port") {
        return Err(format!("{host}: {name:?} is not a number of a port"));
    }
    if hosts != Hosts::Addresses
        && host.parse::<IpAddr>().is_err()
        && is_host(host)
        && let Some(port) = u16::try_from(port).ok().filter(|port| *port > 0)
    {
        return Ok(Address::Name { host: host.trim_end_matches('.').to_ascii_lowercase(), port });
    }
    address(host, port).map(Address::Ip).map_err(|why| format!("{host}:{port}: {why}"))
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

/// Zone of a locality, or its region if it has no zone.
fn zone_of(locality: &Node<'_>) -> Result<Option<Arc<str>>, String> {
    let Some(place) = locality.node("locality") else { return Ok(None) };
    let (region, name) = (place.text("region").unwrap_or_default(), place.text("zone").unwrap_or_default());
    zone(if name.is_empty() { region } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ASSIGNMENT;
    use crate::testing::encoded;
    use crate::wire::resource;
    use serde_json::{Value, json};

    const HEALTHY: u64 = 1;
    const UNHEALTHY: u64 = 2;
    const DRAINING: u64 = 3;
    const TIMEOUT: u64 = 4;
    const DEGRADED: u64 = 5;

    fn of_address(address: &Value) -> Value {
        json!({ "endpoint": { "address": address } })
    }

    fn at(host: &str, port: u64) -> Value {
        of_address(&json!({ "socket_address": { "address": host, "port_value": port } }))
    }

    fn with(host: &str, status: u64, weight: u64) -> Value {
        let mut one = at(host, 80);
        (one["health_status"], one["load_balancing_weight"]) = (status.into(), weight.into());
        one
    }

    fn of(priority: u64, zone: &str, endpoints: &[Value]) -> Value {
        json!({ "locality": { "region": "eu", "zone": zone }, "priority": priority, "lb_endpoints": endpoints })
    }

    fn list(assignment: &Value) -> Result<Assigned, String> {
        let bytes = encoded(&ASSIGNMENT, assignment);
        endpoints(&resource(&bytes, &ASSIGNMENT).expect("a message"), Hosts::Addresses)
    }

    fn shown(endpoints: &[Value]) -> (Vec<String>, Vec<String>) {
        let Assigned { endpoints, ignored, skipped, .. } =
            list(&json!({ "endpoints": endpoints })).expect("a good one");
        assert!(ignored.is_empty(), "{ignored:?}");
        let one = |e: &Endpoint| {
            let zone = e.zone.as_deref().unwrap_or("-");
            format!("{} {} {} {zone}{}", e.addr, e.weight, e.priority, if e.drain { " drain" } else { "" })
        };
        (endpoints.iter().map(one).collect(), skipped)
    }

    #[test]
    fn health_priority_weight_and_locality_are_kept() {
        let second = [
            with("10.0.1.1", DRAINING, 1),
            with("10.0.1.2", DEGRADED, 1),
            with("10.0.1.3", UNHEALTHY, 1),
            with("10.0.1.4", TIMEOUT, 1),
            with("fd00::1", 99, 1),
        ];
        let endpoints = [
            of(0, "eu-1", &[at("10.0.0.1", 80), with("10.0.0.2", HEALTHY, 3)]),
            of(1, "", &second),
            of(15, "eu-1", &[with("10.0.2.1", DEGRADED, 1)]),
        ];
        let wanted = [
            "10.0.0.1:80 1 0 eu-1",
            "10.0.0.2:80 3 0 eu-1",
            "10.0.1.1:80 1 1 eu drain",
            "10.0.1.2:80 1 2 eu",
            "[fd00::1]:80 1 1 eu",
            "10.0.2.1:80 1 15 eu-1",
        ];
        assert_eq!(shown(&endpoints), (wanted.map(String::from).to_vec(), vec![]));
    }

    #[test]
    fn shares_stay_when_weights_are_too_large() {
        let weights = |all: &[u64]| {
            let one = |(n, weight): (usize, &u64)| with(&format!("10.0.0.{n}"), HEALTHY, *weight);
            let endpoints: Vec<Value> = all.iter().enumerate().map(one).collect();
            let list = list(&json!({ "endpoints": of(0, "a", &endpoints) }));
            list.expect("a good one").endpoints.iter().map(|e| e.weight).collect::<Vec<_>>()
        };
        assert_eq!(weights(&[1, 65_535, 7]), [1, 65_535, 7]);
        assert_eq!(weights(&[1 << 31, 1 << 30, 1]), [65_535, 32_767, 1]);
        assert_eq!(weights(&[u64::from(u32::MAX)]), [65_535]);
        assert_eq!(weights(&[u64::MAX]), [65_535]);
    }

    #[test]
    fn valid_endpoints_that_no_pool_can_have_are_skipped() {
        let pipe = of_address(&json!({ "pipe": { "path": "/run/a" } }));
        let mut elsewhere = of(0, "a", &[]);
        elsewhere["leds_cluster_locality_config"] = json!({});
        let endpoints = [
            of(16, "a", &[at("10.0.0.1", 80)]),
            of(0, "a", &[pipe, json!({}), at("10.0.0.2", 80), at("10.0.0.2", 80)]),
            elsewhere,
        ];
        let (used, skipped) = shown(&endpoints);
        assert_eq!(used, ["10.0.0.2:80 1 0 a"]);
        let reasons = ["priority 16", "a pipe", "named_endpoints", "twice", "LEDS"];
        assert_eq!(skipped.len(), reasons.len());
        for (why, reason) in skipped.iter().zip(reasons) {
            assert!(why.contains(reason), "{why}: {reason}");
        }
    }

    #[test]
    fn an_invalid_assignment_is_refused_with_what_is_wrong() {
        let refused =
            |endpoints: &[Value]| list(&json!({ "endpoints": of(0, "a", endpoints) })).expect_err("it is wrong");
        let named = of_address(&json!({ "socket_address": { "address": "10.0.0.1", "named_port": "http" } }));
        let nowhere = json!({ "endpoint": {} });
        let all = [at("10.0.0.1", 80), at("10.0.0.1", 0), at("a.inside", 80), at("10.0.0.2", 65_536), nowhere];
        let why = refused(&all);
        let reasons = ["10.0.0.1:0: 0 is not a port", "\"a.inside\" is not an IP address", "65536", "has no address"];
        assert!(reasons.iter().all(|reason| why.contains(reason)), "{why}");
        assert!(refused(&[named]).contains("\"http\" is not a number"));
        assert!(refused(&[with("10.0.0.1", HEALTHY, 0)]).contains("load_balancing_weight is 0"));
        assert!(refused(&vec![at("", 1); 100]).ends_with("and 95 more"));
    }

    #[test]
    fn a_policy_has_a_time_to_live_and_shares_that_are_not_dropped() {
        let policy = |seconds: u64| json!({ "drop_overloads": {}, "endpoint_stale_after": seconds });
        let found = list(&json!({ "policy": policy(60) })).expect("it is empty, and good");
        assert_eq!((found.ttl, found.skipped.len(), found.endpoints.len()), (Some(Duration::from_secs(60)), 0, 0));
        assert_eq!(found.ignored, ["policy.drop_overloads: no share of the requests is dropped"]);
        assert_eq!(list(&json!({ "policy": policy(u64::MAX) })).expect("good").ttl, None, "a negative time");
    }
}

//! The source `consul`: instances of a service, by a blocking query on their health.

use crate::blocking::{Query, Stale, follow};
use crate::entries::{address, endpoint, entries, weight, zone as zone_of};
use crate::kept::List;
use crate::out::Out;
use crate::registry::{encoded, never, server_of};
use evenkeel_config::plan::{Consul, Endpoint};
use evenkeel_fetch::Fault;
use serde::Deserialize;
use std::collections::HashMap;

/// Follows the instances of a service, forever.
pub(super) async fn run(consul: Consul, out: Out) -> ! {
    match query(&consul) {
        Ok(query) => follow(query, move |body| instances(body, &consul), out).await,
        Err(error) => never(error, out).await,
    }
}

fn query(consul: &Consul) -> Result<Query, Fault> {
    let server = &consul.server;
    let mut path = format!("/v1/health/service/{}", encoded(&consul.service));
    let mut before = '?';
    let mut add = |name: &str, value: &str| {
        path.push_str(&format!("{before}{name}={}", encoded(value)));
        before = '&';
    };
    consul.tags.iter().for_each(|tag| add("tag", tag));
    let named = [
        ("filter", &consul.filter),
        ("dc", &consul.datacenter),
        ("ns", &consul.namespace),
        ("partition", &consul.partition),
        ("peer", &consul.peer),
    ];
    for (name, value) in named.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        add(name, value);
    }
    Ok(Query {
        server: server_of(&server.url, &server.credentials)?,
        path,
        wait: server.wait,
        index: "x-consul-index",
        token: server.credentials.token_file.clone().map(|file| ("x-consul-token", file)),
        stale: server.max_stale.map(|max| Stale { contact: "x-consul-lastcontact", max }),
    })
}

/// Instance with its node and its checks.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Instance {
    node: Node,
    service: Service,
    #[serde(default)]
    checks: Option<Vec<Check>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    #[serde(default)]
    node: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    datacenter: String,
    #[serde(default)]
    locality: Option<Locality>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Service {
    #[serde(default, rename = "ID")]
    id: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    port: u64,
    #[serde(default)]
    tagged_addresses: Option<HashMap<String, Tagged>>,
    #[serde(default)]
    weights: Option<Weights>,
    #[serde(default)]
    locality: Option<Locality>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Tagged {
    #[serde(default)]
    address: String,
    #[serde(default)]
    port: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Weights {
    #[serde(default = "one")]
    passing: u64,
    #[serde(default = "one")]
    warning: u64,
}

fn one() -> u64 {
    1
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Locality {
    #[serde(default)]
    zone: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Check {
    #[serde(default, rename = "CheckID")]
    id: String,
    #[serde(default)]
    status: String,
}

impl Check {
    /// True for the check of a maintenance that an operator began.
    fn is_maintenance(&self) -> bool {
        self.id == "_node_maintenance" || self.id.starts_with("_service_maintenance:")
    }
}

pub(super) fn instances(body: &[u8], consul: &Consul) -> Result<List, String> {
    entries(body, |instance: Instance| one_of(instance, consul))
}

/// Endpoint of an instance; `None` if its checks fail.
fn one_of(Instance { node, service, checks }: Instance, consul: &Consul) -> Result<Option<Endpoint>, String> {
    let checks = checks.unwrap_or_default();
    let has = |status: &str| checks.iter().any(|check| !check.is_maintenance() && check.status == status);
    if has("critical") {
        return Ok(None);
    }
    let (host, port) = match &consul.address {
        Some(tag) => {
            let tagged = service.tagged_addresses.as_ref().and_then(|all| all.get(tag));
            let tagged = tagged.ok_or_else(|| format!("it has no address {tag:?}"))?;
            (&tagged.address, if tagged.port > 0 { tagged.port } else { service.port })
        }
        None if service.address.is_empty() => (&node.address, service.port),
        None => (&service.address, service.port),
    };
    let weights = service.weights.unwrap_or(Weights { passing: 1, warning: 1 });
    let zone = [service.locality, node.locality].into_iter().flatten().map(|locality| locality.zone);
    let zone = zone.chain([node.datacenter]).find(|zone| !zone.is_empty());
    let zone = zone_of(&zone.unwrap_or_default())?;
    let found = endpoint(&format!("{}/{}", node.node, service.id), address(host, port)?);
    Ok(Some(Endpoint {
        weight: weight(if has("warning") { weights.warning } else { weights.passing })?,
        drain: checks.iter().any(Check::is_maintenance),
        zone,
        ..found
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::plan::ConsulServer;

    fn consul() -> Consul {
        Consul { service: "web".into(), ..Consul::default() }
    }

    #[test]
    fn a_query_has_what_the_pool_says_and_nothing_breaks_out_of_a_parameter() {
        let asked = Consul {
            service: "we/b".into(),
            tags: vec!["v 2".into(), "a&b=c".into()],
            filter: Some("Service.Meta.v == \"2\"".into()),
            datacenter: Some("eu".into()),
            server: ConsulServer { max_stale: None, ..ConsulServer::default() },
            ..Consul::default()
        };
        let query = query(&asked).expect("a URL");
        let expected =
            "/v1/health/service/we%2Fb?tag=v%202&tag=a%26b%3Dc&filter=Service.Meta.v%20%3D%3D%20%222%22&dc=eu";
        assert_eq!(query.path, expected);
        assert!(query.stale.is_none() && query.token.is_none());
    }

    #[test]
    fn instances_have_the_address_weight_zone_and_state_that_consul_says() {
        let body = br#"[
            {"Node":{"Node":"n1","Address":"10.0.0.1","Datacenter":"eu"},
             "Service":{"ID":"web-1","Address":"10.1.0.1","Port":80,"Weights":{"Passing":10,"Warning":2}},
             "Checks":[{"CheckID":"serfHealth","Status":"passing"}]},
            {"Node":{"Node":"n2","Address":"10.0.0.2","Datacenter":"eu"},
             "Service":{"ID":"web-2","Address":"","Port":80,"Weights":{"Passing":10,"Warning":2},"Locality":{"Zone":"b"}},
             "Checks":[{"CheckID":"serfHealth","Status":"passing"},{"CheckID":"http","Status":"warning"}]},
            {"Node":{"Node":"n3","Address":"10.0.0.3"},"Service":{"ID":"web-3","Port":80},
             "Checks":[{"CheckID":"http","Status":"critical"}]},
            {"Node":{"Node":"n4","Address":"10.0.0.4"},"Service":{"ID":"web-4","Port":80},
             "Checks":[{"CheckID":"_service_maintenance:web-4","Status":"critical"}]},
            {"Node":{"Node":"n6","Address":"10.0.0.6"},"Service":{"ID":"web-6","Port":80,"Weights":{"Passing":65536,"Warning":1}}},
            {"Node":{"Node":"n5","Address":"node.inside"},"Service":{"ID":"web-5","Port":80},"Checks":null}
        ]"#;
        let list = instances(body, &consul()).expect("a list");
        let seen: Vec<_> = list
            .endpoints
            .iter()
            .map(|e| (&*e.name, e.addr.to_string(), e.weight, e.drain, e.zone.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [
                ("n1/web-1", "10.1.0.1:80".into(), 10, false, Some("eu")),
                ("n2/web-2", "10.0.0.2:80".into(), 2, false, Some("b")),
                ("n4/web-4", "10.0.0.4:80".into(), 1, true, None),
            ]
        );
        assert!(list.skipped[0].contains("weight 65536 is not from 0 to 65535"), "{:?}", list.skipped);
        assert!(list.skipped[1].contains("\"node.inside\" is not an IP address"), "{:?}", list.skipped);
    }

    #[test]
    fn a_tagged_address_is_used_where_it_is_asked_for() {
        let body = br#"[{"Node":{"Node":"n","Address":"10.0.0.1"},"Service":{"ID":"a","Port":80,
            "TaggedAddresses":{"wan":{"Address":"192.0.2.1","Port":8080}}}},
            {"Node":{"Node":"n","Address":"10.0.0.1"},"Service":{"ID":"b","Port":80}}]"#;
        let list = instances(body, &Consul { address: Some("wan".into()), ..consul() }).expect("a list");
        assert_eq!(list.endpoints[0].addr.to_string(), "192.0.2.1:8080");
        assert!(list.skipped[0].ends_with("it has no address \"wan\""), "{:?}", list.skipped);
    }
}

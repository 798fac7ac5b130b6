//! Hostile resources of a control plane, beside innocent resources: the innocent listener, its routes and its cluster
//! stay.

use super::catalog::{Catalog, PATIENCE};
use super::part;
use crate::hostile::{Dice, odd, seeds};
use crate::providers::merge::{Merged, Unwanted, merge};
use crate::xds::consumer::{Kind, Received};
use evenkeel_config::Plan;
use evenkeel_config::plan::{Listener, Pool, Providers, Route, XdsProvider, XdsServer};
use evenkeel_envoy::schema::{CLUSTER, LISTENER, ROUTE_CONFIGURATION};
use evenkeel_envoy::testing::encoded;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::Instant;

/// Control planes of the test of every day.
const PLANES: u64 = 200;

const EDS: u64 = 3;

fn cluster(name: &str) -> Value {
    json!({
        "name": name, "type": EDS, "eds_cluster_config": { "eds_config": { "ads": {} } },
        "connect_timeout": 2, "lb_policy": 1,
    })
}

fn listener(name: &str, port: u64, routes: &str) -> Value {
    let rds = json!({ "route_config_name": routes, "config_source": { "ads": {} } });
    let manager = json!({ "name": "http", "typed_config": { "@type": "HttpConnectionManager", "rds": rds } });
    let address = json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } });
    json!({ "name": name, "address": address, "filter_chains": [{ "name": "all", "filters": [manager] }] })
}

fn routes(name: &str, cluster: &str) -> Value {
    let paths = [json!({ "prefix": "/" }), json!({ "path": "/a" }), json!({ "safe_regex": { "regex": "/b+" } })];
    let all = paths.map(|path| json!({ "match": path, "route": { "cluster": cluster, "timeout": 3 } }));
    json!({ "name": name, "virtual_hosts": [{ "name": "all", "domains": ["*", "evil.example"], "routes": all }] })
}

fn innocent(kind: Kind) -> Value {
    match kind {
        Kind::Cluster => cluster("web"),
        Kind::Listener => listener("main", 80, "main"),
        _ => routes("main", "web"),
    }
}

/// A resource of another name and port, harmed.
fn hostile(dice: &mut Dice, kind: Kind) -> Value {
    let n = dice.below(6);
    let at = dice.below(30);
    let name = match dice.below(3) {
        0 => odd(at).as_str().unwrap_or_default().to_owned(),
        _ => format!("evil-{n}"),
    };
    let mut one = match kind {
        Kind::Cluster => cluster(&name),
        Kind::Listener => listener(&name, 9000 + n as u64, &format!("evil-{}", dice.below(6))),
        _ => routes(&name, &format!("evil-{}", dice.below(6))),
    };
    for _ in 0..dice.below(3) {
        let depth = 1 + dice.below(9);
        dice.harm(&mut one, depth);
    }
    match one.get("name").and_then(Value::as_str) {
        Some("web" | "main") | None => {
            one["name"] = format!("evil-{n}").into();
            one
        }
        Some(_) => one,
    }
}

fn bytes(kind: Kind, one: &Value) -> Vec<u8> {
    let message = match kind {
        Kind::Cluster => &CLUSTER,
        Kind::Listener => &LISTENER,
        _ => &ROUTE_CONFIGURATION,
    };
    encoded(message, one)
}

/// Delivers a response, and puts the accepted resources into use.
fn give(catalog: &mut Catalog, kind: Kind, resources: Vec<Vec<u8>>, now: Instant) -> bool {
    let resources = resources.into_iter().map(Ok).collect();
    let is_whole = kind != Kind::Routes;
    let received = Received { kind, is_first: false, is_whole, resources, removed: &[] };
    let taken = catalog.take(&received, now);
    catalog.advance(now, |cluster| cluster == "web");
    taken.is_ok()
}

/// Pieces by which clients of the innocent are served.
#[derive(Debug, PartialEq)]
struct Served {
    listener: Option<Arc<Listener>>,
    routes: Vec<Route>,
    pool: Option<Arc<Pool>>,
}

fn served(merged: &Merged) -> Served {
    let plan = &merged.plan;
    let listener = plan.listeners.iter().find(|one| one.bind.iter().any(|addr| addr.port() == 80)).cloned();
    let name = listener.as_ref().map(|one| one.name.clone());
    let here = |route: &&Route| name.as_ref().is_some_and(|name| route.listeners.contains(name));
    // The order of the routes depends on other listeners, too.
    let routes = plan.routes.iter().filter(here).map(|route| Route { order: 0, ..route.clone() }).collect();
    let pool = plan.pools.iter().find(|pool| &*pool.name == "web").cloned();
    Served { listener, routes, pool }
}

fn merged(catalog: &Catalog, running: Option<&Plan>) -> Merged {
    let (part, _) = part(catalog.in_use());
    let providers = Providers { xds: Some(XdsProvider::default()), kubernetes: None };
    let base = Plan::builder().providers(providers).build("test").plan.expect("an empty plan");
    merge(&base, &[("xds", Arc::new(part))], &Unwanted::new(), running.unwrap_or(&base))
}

#[test]
fn resources_that_mean_harm_change_nothing_of_others() {
    let kinds = [Kind::Cluster, Kind::Listener, Kind::Routes];
    let mut counts = [0; 2];
    seeds(PLANES, |seed| {
        let (mut dice, mut now) = (Dice::new(seed), Instant::now());
        let mut catalog = Catalog::new(XdsServer::default());
        for kind in kinds {
            assert!(give(&mut catalog, kind, vec![bytes(kind, &innocent(kind))], now), "{kind:?}");
        }
        let before = merged(&catalog, None);
        let wanted = served(&before);
        assert!(wanted.listener.is_some() && !wanted.routes.is_empty() && wanted.pool.is_some(), "{wanted:?}");
        for _ in 0..3 {
            let mut sent = String::new();
            for kind in kinds {
                // Often a single resource. Otherwise hardly any response would be accepted.
                let count = if dice.once_in(2) { 1 } else { dice.below(5) };
                let all: Vec<Value> = (0..count).map(|_| hostile(&mut dice, kind)).collect();
                all.iter().for_each(|one| sent += &format!("{kind:?}: {one}\n"));
                let mut all: Vec<Vec<u8>> = all.iter().map(|one| bytes(kind, one)).collect();
                if let Some(one) = all.first_mut().filter(|one| !one.is_empty() && dice.once_in(6)) {
                    let at = dice.below(one.len());
                    one[at] ^= 1 << dice.below(8);
                }
                all.insert(dice.below(all.len() + 1), bytes(kind, &innocent(kind)));
                counts[usize::from(give(&mut catalog, kind, all, now))] += 1;
            }
            now += PATIENCE;
            catalog.advance(now, |cluster| cluster == "web");
            let after = merged(&catalog, Some(&before.plan));
            assert_eq!(served(&after), wanted, "seed {seed}\n{sent}{:?}", after.refused);
        }
    });
    assert!(counts.iter().all(|count| *count > 100), "refused and accepted: {counts:?}");
}

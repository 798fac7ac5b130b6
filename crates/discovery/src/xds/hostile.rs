//! Endpoints of hostile clusters: they cost only their cluster.

use super::messages::{ASSIGNMENT, Any, DiscoveryRequest, DiscoveryResponse, Node};
use super::session::Session;
use super::topics::{Seen, Topics};
use super::world::World;
use crate::hostile::{Dice, odd, seeds};
use evenkeel_config::{endpoints_from_toml, endpoints_to_toml};
use evenkeel_envoy::assignment::{Hosts, endpoints};
use evenkeel_envoy::schema;
use evenkeel_envoy::testing::encoded;
use evenkeel_envoy::wire::resource;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Responses of the test of every day.
const RESPONSES: u64 = 400;

const NUMBERS: [u64; 11] = [0, 1, 2, 15, 16, 80, 65_535, 65_536, 1 << 31, u32::MAX as u64, u64::MAX];

const ADDRESSES: [&str; 10] = [
    "10.6.6.6",
    "::ffff:10.6.6.7",
    "fd00::6",
    "",
    "0.0.0.0",
    "255.255.255.255",
    "ff02::1",
    "fe80::1%lo",
    "evil.example",
    "10.6.6",
];

fn text(dice: &mut Dice) -> String {
    let at = dice.below(30);
    match dice.once_in(3) {
        true => odd(at).as_str().unwrap_or_default().to_owned(),
        false => "a".to_owned(),
    }
}

fn good(ip: &str) -> Value {
    json!({ "endpoint": { "address": { "socket_address": { "address": ip, "port_value": 80 } } } })
}

fn hostile_endpoint(dice: &mut Dice, n: usize) -> Value {
    let mut one = good(&format!("10.6.{n}.1"));
    let socket = |dice: &mut Dice| {
        let address = dice.pick(&ADDRESSES);
        match dice.below(4) {
            0 => json!({ "socket_address": { "address": address, "named_port": text(dice) } }),
            1 => json!({ "socket_address": { "address": address } }),
            _ => json!({ "socket_address": { "address": address, "port_value": dice.pick(&NUMBERS) } }),
        }
    };
    if dice.once_in(2) {
        let address = match dice.below(5) {
            0 => json!({}),
            1 => json!({ "pipe": { "path": text(dice) } }),
            2 => json!({ "envoy_internal_address": "\u{1}\u{2}" }),
            _ => socket(dice),
        };
        one["endpoint"] = json!({ "address": address, "hostname": text(dice) });
    }
    one["health_status"] = dice.pick(&[0, 1, 2, 3, 4, 5, 6, u64::MAX, 0x7fff_ffff]).into();
    if dice.once_in(2) {
        one["load_balancing_weight"] = dice.pick(&NUMBERS).into();
    }
    one
}

fn hostile(dice: &mut Dice) -> Value {
    let localities = (0..dice.below(4)).map(|_| {
        let endpoints: Vec<Value> = (0..dice.below(5)).map(|n| hostile_endpoint(dice, n)).collect();
        let mut one = json!({ "lb_endpoints": endpoints });
        if dice.once_in(2) {
            one["locality"] = json!({ "region": text(dice), "zone": text(dice) });
        }
        if dice.once_in(3) {
            one["priority"] = dice.pick(&NUMBERS).into();
        }
        if dice.once_in(9) {
            one["leds_cluster_locality_config"] = json!({});
        }
        one
    });
    let localities: Vec<Value> = localities.collect();
    let name = if dice.once_in(3) { text(dice) } else { "evil".to_owned() };
    let mut assignment = json!({ "cluster_name": name, "endpoints": localities });
    if dice.once_in(3) {
        let seconds = dice.pick(&[0, 60, u64::MAX, i64::MAX as u64, i64::MIN as u64]);
        let stale = json!({ "seconds": seconds, "nanos": u64::MAX });
        assignment["policy"] = json!({ "drop_overloads": "\u{7}", "endpoint_stale_after": stale });
    }
    assignment
}

fn bytes(assignment: &Value) -> Vec<u8> {
    encoded(&schema::ASSIGNMENT, assignment)
}

fn any(assignment: &Value, dice: &mut Dice) -> Any {
    let mut value = bytes(assignment);
    if dice.once_in(4) && !value.is_empty() {
        let at = dice.below(value.len());
        value[at] ^= 1 << dice.below(8);
    }
    let type_url = if dice.once_in(12) { text(dice) } else { ASSIGNMENT.to_owned() };
    Any { type_url, value }
}

/// Name of the cluster of an assignment; `None` if the bytes are none.
fn named(bytes: &[u8]) -> Option<String> {
    resource(bytes, &schema::ASSIGNMENT).ok()?.text("cluster_name").map(str::to_owned)
}

/// Checks that a pool can have each endpoint of an assignment.
fn check(assignment: &Value, seed: u64) {
    let bytes = bytes(assignment);
    for hosts in [Hosts::Addresses, Hosts::Names, Hosts::AllOfNames] {
        let node = resource(&bytes, &schema::ASSIGNMENT).expect("a message");
        let Ok(assigned) = endpoints(&node, hosts) else { continue };
        let all: usize = node.nodes("endpoints").map(|locality| locality.nodes("lb_endpoints").count() + 1).sum();
        assert!(assigned.endpoints.len() + assigned.skipped.len() <= all, "seed {seed}");
        for one in &assigned.endpoints {
            let again = endpoints_from_toml(&endpoints_to_toml(std::slice::from_ref(one)));
            assert_eq!(again, std::slice::from_ref(one), "seed {seed}: {assignment:?}");
        }
    }
}

fn addresses(seen: &Seen) -> Vec<String> {
    let assigned = seen.assigned.iter().flat_map(|assigned| &assigned.list.endpoints);
    assigned.map(|one| format!("{} {} {}", one.addr, one.weight, one.priority)).collect()
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_mean_harm_cost_their_own_cluster() {
    let endpoints = json!({ "lb_endpoints": [good("10.0.0.1"), good("10.0.0.2")] });
    let innocent = bytes(&json!({ "cluster_name": "web", "endpoints": endpoints }));
    let wanted = ["10.0.0.1:80 1 0", "10.0.0.2:80 1 0"];
    seeds(RESPONSES, |seed| {
        let mut dice = Dice::new(seed);
        let topics = Arc::<Topics>::default();
        let (sender, mut requests) = mpsc::channel::<DiscoveryRequest>(64);
        let mut session = Session::new(&topics, World::default(), sender, Node::default(), Duration::from_secs(60));
        let (mut web, mut evil) = (topics.subscribe("web"), topics.subscribe("evil"));
        session.subscribe().expect("room");
        for n in 0..4 {
            let mut resources: Vec<Any> = Vec::new();
            for _ in 0..=dice.below(5) {
                let mut assignment = hostile(&mut dice);
                if assignment["cluster_name"] == "web" {
                    assignment["cluster_name"] = "".into();
                }
                let mut one = any(&assignment, &mut dice);
                // The control plane itself may change its name, and then it is that cluster's.
                if named(&one.value).as_deref() == Some("web") {
                    one.value.clear();
                }
                resources.push(one);
                check(&assignment, seed);
            }
            if n == 0 || dice.once_in(2) {
                let at = dice.below(resources.len() + 1);
                resources.insert(at, Any { type_url: ASSIGNMENT.into(), value: innocent.clone() });
            }
            let (nonce, type_url) = (n.to_string(), ASSIGNMENT.to_owned());
            let response = DiscoveryResponse { version_info: nonce.clone(), resources, type_url, nonce };
            session.take(&response).expect("room");
            let seen = web.latest();
            assert_eq!(
                (addresses(&seen), seen.trouble),
                (wanted.map(String::from).to_vec(), None),
                "seed {seed}: {response:?}"
            );
            let _ = evil.latest();
            while requests.try_recv().is_ok() {}
        }
    });
}

//! Endpoints of clusters that mean harm: what they are costs their own cluster.

use super::assignment::{Hosts, list_of};
use super::messages::{
    ASSIGNMENT, Address, AddressUnion, Any, ClusterLoadAssignment, DiscoveryRequest, DiscoveryResponse, Endpoint,
    LbEndpoint, Locality, LocalityLbEndpoints, Node, Pipe, Policy, Port, SocketAddress, Time, UInt32Value,
};
use super::session::Session;
use super::topics::{Seen, Topics};
use super::world::World;
use crate::hostile::{Dice, odd, seeds};
use evenkeel_config::{endpoints_from_toml, endpoints_to_toml};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Responses of the test of every day.
const RESPONSES: u64 = 400;

const NUMBERS: [u32; 10] = [0, 1, 2, 15, 16, 80, 65_535, 65_536, 1 << 31, u32::MAX];

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

fn good(ip: &str) -> LbEndpoint {
    let socket = SocketAddress { address: ip.into(), port: Some(Port::Value(80)) };
    let address = Some(Address { union: Some(AddressUnion::Socket(socket)) });
    LbEndpoint { endpoint: Some(Endpoint { address, ..Endpoint::default() }), ..LbEndpoint::default() }
}

fn hostile_endpoint(dice: &mut Dice, n: usize) -> LbEndpoint {
    let mut one = good(&format!("10.6.{n}.1"));
    let socket = |dice: &mut Dice| {
        let port = match dice.below(4) {
            0 => Some(Port::Named(text(dice))),
            1 => None,
            _ => Some(Port::Value(dice.pick(&NUMBERS))),
        };
        AddressUnion::Socket(SocketAddress { address: dice.pick(&ADDRESSES).into(), port })
    };
    if dice.once_in(2) {
        let union = match dice.below(5) {
            0 => None,
            1 => Some(AddressUnion::Pipe(Pipe { path: text(dice) })),
            2 => Some(AddressUnion::Internal(vec![1, 2])),
            _ => Some(socket(dice)),
        };
        one.endpoint = Some(Endpoint { address: Some(Address { union }), hostname: text(dice) });
    }
    one.health_status = dice.pick(&[0, 1, 2, 3, 4, 5, 6, -1, i32::MAX]);
    one.load_balancing_weight = dice.once_in(2).then(|| UInt32Value { value: dice.pick(&NUMBERS) });
    one
}

fn hostile(dice: &mut Dice) -> ClusterLoadAssignment {
    let endpoints = (0..dice.below(4)).map(|_| LocalityLbEndpoints {
        locality: dice.once_in(2).then(|| Locality { region: text(dice), zone: text(dice) }),
        lb_endpoints: (0..dice.below(5)).map(|n| hostile_endpoint(dice, n)).collect(),
        priority: if dice.once_in(3) { dice.pick(&NUMBERS) } else { 0 },
        leds_cluster_locality_config: dice.once_in(9).then(Vec::new),
    });
    let endpoints = endpoints.collect();
    let seconds = dice.pick(&[0, 60, -1, i64::MAX, i64::MIN]);
    let policy = Policy { drop_overloads: vec![vec![7]], endpoint_stale_after: Some(Time { seconds, nanos: -1 }) };
    let cluster_name = if dice.once_in(3) { text(dice) } else { "evil".to_owned() };
    ClusterLoadAssignment { cluster_name, endpoints, policy: dice.once_in(3).then_some(policy) }
}

fn resource(assignment: &ClusterLoadAssignment, dice: &mut Dice) -> Any {
    let mut value = assignment.encode_to_vec();
    if dice.once_in(4) && !value.is_empty() {
        let at = dice.below(value.len());
        value[at] ^= 1 << dice.below(8);
    }
    let type_url = if dice.once_in(12) { text(dice) } else { ASSIGNMENT.to_owned() };
    Any { type_url, value }
}

fn addresses(seen: &Seen) -> Vec<String> {
    let assigned = seen.assigned.iter().flat_map(|assigned| &assigned.list.endpoints);
    assigned.map(|one| format!("{} {} {}", one.addr, one.weight, one.priority)).collect()
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_mean_harm_cost_their_own_cluster() {
    let innocent = ClusterLoadAssignment {
        cluster_name: "web".into(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: vec![good("10.0.0.1"), good("10.0.0.2")],
            ..LocalityLbEndpoints::default()
        }],
        policy: None,
    };
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
                if assignment.cluster_name == "web" {
                    assignment.cluster_name.clear();
                }
                let mut one = resource(&assignment, &mut dice);
                // The control plane itself may change its name, and then it is that cluster's.
                if ClusterLoadAssignment::decode(&*one.value).is_ok_and(|read| read.cluster_name == "web") {
                    one.value.clear();
                }
                resources.push(one);
                for hosts in [Hosts::Addresses, Hosts::Names, Hosts::AllOfNames] {
                    let Ok(assigned) = list_of(&assignment, hosts) else { continue };
                    let all: usize = assignment.endpoints.iter().map(|locality| locality.lb_endpoints.len() + 1).sum();
                    assert!(assigned.list.endpoints.len() + assigned.list.skipped.len() <= all, "seed {seed}");
                    for one in &assigned.list.endpoints {
                        let again = endpoints_from_toml(&endpoints_to_toml(std::slice::from_ref(one)));
                        assert_eq!(again, std::slice::from_ref(one), "seed {seed}: {assignment:?}");
                    }
                }
            }
            if n == 0 || dice.once_in(2) {
                let at = dice.below(resources.len() + 1);
                resources.insert(at, Any { type_url: ASSIGNMENT.into(), value: innocent.encode_to_vec() });
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

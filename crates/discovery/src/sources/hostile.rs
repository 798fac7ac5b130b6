//! Responses of registries with hostile entries. Each entry costs only itself, and entries that are used can be in a
//! plan.

use super::{consul, dns, docker, http, nomad};
use crate::engine::Container;
use crate::hostile::{Dice, seeds};
use crate::kept::{Answer, Kept, List};
use crate::message::{Service, name};
use bytes::Bytes;
use evenkeel_config::plan::{Consul, Docker, Endpoint, Nomad};
use evenkeel_config::{endpoints_from_toml, endpoints_to_toml};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// Responses of a registry in the daily test.
const ANSWERS: u64 = 400;

/// Most hostile entries in a response.
const AT_ONCE: usize = 12;

/// Registry with entries in JSON.
struct Registry {
    name: &'static str,
    /// Good entry at an address, with a name.
    entry: fn(&str, &str) -> Value,
    read: fn(&[u8]) -> Result<List, String>,
}

const REGISTRIES: [Registry; 5] = [
    Registry {
        name: "http",
        entry: |name, ip| json!({ "name": name, "addr": format!("{ip}:80"), "weight": 3, "zone": "a", "priority": 1, "drain": false }),
        read: |body| http::read(&Bytes::copy_from_slice(body)),
    },
    Registry {
        name: "http of Prometheus",
        entry: |_, ip| json!({ "targets": [format!("{ip}:80")], "labels": { "zone": "a", "weight": "3" } }),
        read: |body| http::read(&Bytes::copy_from_slice(body)),
    },
    Registry {
        name: "consul",
        entry: |name, ip| {
            json!({
                "Node": { "Node": "n", "Address": ip, "Datacenter": "eu", "Locality": { "Zone": "a" } },
                "Service": { "ID": name, "Address": "", "Port": 80, "Weights": { "Passing": 3, "Warning": 1 }, "TaggedAddresses": {} },
                "Checks": [{ "CheckID": "http", "Status": "passing" }],
            })
        },
        read: |body| consul::instances(body, &Consul::default()),
    },
    Registry {
        name: "nomad",
        entry: |name, ip| json!({ "ID": name, "Address": ip, "Port": 80, "Tags": ["v2"], "Datacenter": "eu" }),
        read: |body| nomad::registrations(body, &Nomad::default()),
    },
    Registry {
        name: "docker",
        entry: |name, ip| {
            json!({
                "Id": name, "Names": [format!("/{name}")], "State": "running", "Status": "Up 1 minute",
                "Labels": { "evenkeel.weight": "3", "evenkeel.zone": "a", "evenkeel.drain": "false", "evenkeel.port": "80", "evenkeel.priority": "1" },
                "Ports": [{ "PrivatePort": 80, "Type": "tcp" }],
                "NetworkSettings": { "Networks": { "front": { "IPAddress": ip } } },
            })
        },
        read: |body| {
            let containers: Vec<Container> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
            Ok(docker::list(&containers, &Docker::default()))
        },
    },
];

/// Asserts that a plan can have endpoints, as those that are kept over an upgrade are read again.
fn can_be_in_a_plan(endpoints: &[Endpoint], context: &str) {
    for endpoint in endpoints {
        let again = endpoints_from_toml(&endpoints_to_toml(std::slice::from_ref(endpoint)));
        assert_eq!(again, std::slice::from_ref(endpoint), "{context}");
    }
}

impl Registry {
    fn list(&self, entries: &[Value]) -> List {
        let body = Value::from(entries.to_vec()).to_string();
        (self.read)(body.as_bytes()).unwrap_or_else(|why| panic!("{}: {why}\n{body}", self.name))
    }

    /// An entry that means harm. The API of an engine has types: only its texts may be hostile.
    fn hostile(&self, dice: &mut Dice, n: usize) -> Value {
        let mut entry = (self.entry)(&format!("evil-{n}"), &format!("10.6.6.{n}"));
        if self.name == "docker" {
            for text in entry["Labels"].as_object_mut().expect("labels").values_mut() {
                let at = dice.below(60);
                if at < 30 {
                    *text = crate::hostile::odd(at).as_str().unwrap_or("-1").into();
                }
            }
            return entry;
        }
        for _ in 0..=dice.below(3) {
            let depth = dice.below(5);
            dice.harm(&mut entry, depth);
        }
        entry
    }

    fn check(&self, seed: u64) {
        let mut dice = Dice::new(seed);
        let innocent = [(self.entry)("web-1", "10.0.0.1"), (self.entry)("web-2", "10.0.0.2")];
        let before = self.list(&innocent);
        assert_eq!((before.endpoints.len(), before.skipped.len()), (2, 0), "{}", self.name);
        let mut entries = innocent.to_vec();
        let (mut used, mut skipped) = (2, 0);
        for n in 0..=dice.below(AT_ONCE) {
            let entry = self.hostile(&mut dice, n);
            let alone = self.list(std::slice::from_ref(&entry));
            (used, skipped) = (used + alone.endpoints.len(), skipped + alone.skipped.len());
            let at = dice.below(entries.len() + 1);
            entries.insert(at, entry);
        }
        let context = format!("seed {seed} of {}: {}", self.name, Value::from(entries.clone()));
        let list = self.list(&entries);
        assert_eq!((list.endpoints.len(), list.skipped.len()), (used, skipped), "{context}");
        can_be_in_a_plan(&list.endpoints, &context);
        let mut kept = Kept::default();
        kept.take(Answer::List(before.clone()), Duration::ZERO, false);
        kept.take(Answer::List(list), Duration::ZERO, false);
        assert_eq!(kept.endpoints().get(..2), Some(&before.endpoints[..]), "{context}");
    }
}

#[test]
fn entries_that_mean_harm_cost_themselves() {
    seeds(ANSWERS, |seed| REGISTRIES.iter().for_each(|registry| registry.check(seed)));
}

#[test]
fn answers_that_are_no_lists_are_errors() {
    seeds(ANSWERS, |seed| {
        let mut dice = Dice::new(seed);
        for registry in &REGISTRIES {
            let mut answer = json!({ "endpoints": [(registry.entry)("web", "10.0.0.1")] });
            let depth = dice.below(3);
            dice.harm(&mut answer, depth);
            let mut body = answer.to_string().into_bytes();
            let cut = dice.below(body.len());
            body.truncate(cut);
            let _ = (registry.read)(answer.to_string().as_bytes());
            assert!(
                (registry.read)(&body).is_err(),
                "seed {seed} of {}: {}",
                registry.name,
                String::from_utf8_lossy(&body)
            );
        }
    });
}

#[test]
fn records_that_mean_harm_cost_themselves() {
    let numbers = [0, 1, 2, 9, 16, 80, 255, 256, 32_768, 65_535];
    seeds(ANSWERS, |seed| {
        let mut dice = Dice::new(seed);
        let target = name("t.example").expect("a name");
        let innocent = Service { priority: 0, weight: 7, port: 80, target: target.clone() };
        let mut services = vec![innocent];
        for _ in 0..dice.below(60) {
            let (priority, weight, port) = (dice.pick(&numbers), dice.pick(&numbers), dice.pick(&numbers));
            services.push(Service { priority, weight, port, target: target.clone() });
        }
        let at = |(n, service): (usize, &Service)| SocketAddr::new([10, 0, 0, n as u8].into(), service.port);
        let found: Vec<_> = services.iter().enumerate().map(|(n, service)| (service, at((n, service)))).collect();
        let list = dns::by_priority(found);
        assert_eq!(list.endpoints.len() + list.skipped.len(), services.len(), "seed {seed}");
        can_be_in_a_plan(&list.endpoints, &format!("seed {seed}"));
        let first = list.endpoints.iter().find(|one| &*one.name == "10.0.0.0:80").expect("it stays");
        assert_eq!((first.weight, first.priority), (7, 0), "seed {seed}");
    });
}

//! Statuses of objects: their intended contents, and how these are merged with the entries of other controllers. See
//! [`Wanted`].

use crate::providers::kubernetes::world::objects::{Key, Reference};
use crate::providers::kubernetes::world::store::Kind;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Condition of Routes with rules that are not kept. It exists only while it holds (Gateway API, `RouteStatus`).
pub const PARTIALLY_INVALID: &str = "PartiallyInvalid";

/// Conditions that are faults if they hold.
const FAULTS: [&str; 3] = ["Conflicted", "InsecureFrontendValidationMode", PARTIALLY_INVALID];

/// Condition of an object, of a listener, or of a Route at a parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `type`, such as `Accepted`.
    pub of: &'static str,
    pub holds: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Condition {
    pub fn yes(of: &'static str, reason: &'static str) -> Condition {
        Condition { of, holds: true, reason, message: String::new() }
    }

    pub fn no(of: &'static str, reason: &'static str, message: impl Into<String>) -> Condition {
        Condition { of, holds: false, reason, message: message.into() }
    }

    /// True if it reports a fault: most conditions do if they do not hold, and some if they hold.
    pub fn is_fault(&self) -> bool {
        self.holds == FAULTS.contains(&self.of)
    }
}

/// Statuses that objects should have.
pub type Statuses = BTreeMap<(Kind, Key), Wanted>;

/// Status that an object should have.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Generation of the object that it is about.
    pub generation: i64,
    pub says: Says,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Says {
    Class {
        conditions: Vec<Condition>,
        features: Vec<&'static str>,
    },
    Gateway {
        addresses: Vec<String>,
        conditions: Vec<Condition>,
        listeners: Vec<ListenerStatus>,
        sets: usize,
    },
    ListenerSet {
        conditions: Vec<Condition>,
        listeners: Vec<ListenerStatus>,
    },
    /// Conditions of a Route for each parent, or of a policy for each Gateway that it has an effect on.
    Parents(Vec<Parent>),
    Ancestors(Vec<Parent>),
    /// Addresses and host names of an Ingress, with the ports that it is served at, if they are known.
    Ingress {
        points: Vec<String>,
        ports: Vec<u16>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct ListenerStatus {
    pub name: String,
    pub kinds: Vec<&'static str>,
    pub attached: usize,
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Parent {
    pub to: Reference,
    pub conditions: Vec<Condition>,
}

/// Most ancestors of a policy's status, and most parents of a Route's.
const PARENTS_MAX: usize = 32;
const ANCESTORS_MAX: usize = 16;

/// Most characters of a message.
const MESSAGE_MAX: usize = 1024;

impl Wanted {
    /// Returns the new status of an object with the status `now`; `None` if nothing differs. `controller`: name of this
    /// controller; `time`: now, in RFC 3339.
    pub fn over(&self, now: &Value, controller: &str, time: &str) -> Option<Value> {
        let writer = Writer { generation: self.generation, controller, time };
        let mut status = now.as_object().cloned().unwrap_or_default();
        match &self.says {
            Says::Class { conditions, features } => {
                status.insert("conditions".into(), writer.conditions(conditions, now));
                let features: Vec<Value> = features.iter().map(|name| json!({ "name": name })).collect();
                status.insert("supportedFeatures".into(), features.into());
            }
            Says::Gateway { addresses, conditions, listeners, sets } => {
                status.insert("conditions".into(), writer.conditions(conditions, now));
                status.insert("listeners".into(), writer.listeners(listeners, now));
                put_or_remove(&mut status, "addresses", addresses.iter().map(|text| address(text)).collect());
                match sets {
                    0 => drop(status.remove("attachedListenerSets")),
                    sets => drop(status.insert("attachedListenerSets".into(), (*sets).into())),
                }
            }
            Says::ListenerSet { conditions, listeners } => {
                status.insert("conditions".into(), writer.conditions(conditions, now));
                status.insert("listeners".into(), writer.listeners(listeners, now));
            }
            Says::Parents(parents) => {
                let parents = writer.parents(parents, &now["parents"], "parentRef", PARENTS_MAX);
                if now["parents"].is_null() && parents.as_array().is_some_and(Vec::is_empty) {
                    return None;
                }
                status.insert("parents".into(), parents);
            }
            Says::Ancestors(ancestors) => {
                let ancestors = writer.parents(ancestors, &now["ancestors"], "ancestorRef", ANCESTORS_MAX);
                if now["ancestors"].is_null() && ancestors.as_array().is_some_and(Vec::is_empty) {
                    return None;
                }
                status.insert("ancestors".into(), ancestors);
            }
            Says::Ingress { points, ports } => {
                let ports: Vec<Value> = ports.iter().map(|port| json!({ "port": port, "protocol": "TCP" })).collect();
                let point = |text: &String| {
                    let kind = if text.parse::<std::net::IpAddr>().is_ok() { "ip" } else { "hostname" };
                    match ports.is_empty() {
                        true => json!({ kind: text }),
                        false => json!({ kind: text, "ports": ports }),
                    }
                };
                let points: Vec<Value> = points.iter().map(point).collect();
                if now["loadBalancer"]["ingress"].is_null() && points.is_empty() {
                    return None;
                }
                status.insert("loadBalancer".into(), json!({ "ingress": points }));
            }
        }
        let status = Value::Object(status);
        (status != *now).then_some(status)
    }
}

fn put_or_remove(status: &mut Map<String, Value>, key: &str, list: Vec<Value>) {
    match list.is_empty() {
        true => drop(status.remove(key)),
        false => drop(status.insert(key.into(), list.into())),
    }
}

fn address(text: &str) -> Value {
    let kind = if text.parse::<std::net::IpAddr>().is_ok() { "IPAddress" } else { "Hostname" };
    json!({ "type": kind, "value": text })
}

struct Writer<'a> {
    generation: i64,
    controller: &'a str,
    time: &'a str,
}

impl Writer<'_> {
    /// The conditions of `now`, each replaced by the wanted condition of the same type. Conditions of other types stay,
    /// except `PartiallyInvalid`, which exists only while it holds.
    fn conditions(&self, wanted: &[Condition], now: &Value) -> Value {
        let there = now["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        let of = |one: &Value| wanted.iter().find(|wanted| one["type"] == wanted.of);
        let stays = |one: &&Value| one["type"] != PARTIALLY_INVALID || of(one).is_some();
        let mut all: Vec<Value> = there
            .iter()
            .filter(stays)
            .map(|one| of(one).map_or_else(|| one.clone(), |wanted| self.condition(wanted, Some(one))))
            .collect();
        let new = wanted.iter().filter(|wanted| !there.iter().any(|one| one["type"] == wanted.of));
        all.extend(new.map(|wanted| self.condition(wanted, None)));
        all.into()
    }

    fn condition(&self, wanted: &Condition, before: Option<&Value>) -> Value {
        let status = if wanted.holds { "True" } else { "False" };
        // Only a change of the status is a transition.
        let since =
            before.filter(|before| before["status"] == status).map(|before| before["lastTransitionTime"].clone());
        json!({
            "type": wanted.of, "status": status, "reason": wanted.reason,
            "message": wanted.message.chars().take(MESSAGE_MAX).collect::<String>(),
            "observedGeneration": self.generation,
            "lastTransitionTime": since.filter(Value::is_string).unwrap_or_else(|| self.time.into()),
        })
    }

    fn listeners(&self, wanted: &[ListenerStatus], now: &Value) -> Value {
        let there = now["listeners"].as_array().map_or(&[][..], Vec::as_slice);
        let one = |wanted: &ListenerStatus| {
            let before = there.iter().find(|one| one["name"] == wanted.name).unwrap_or(&Value::Null);
            let kinds: Vec<Value> = wanted
                .kinds
                .iter()
                .map(|kind| json!({ "group": crate::providers::kubernetes::world::objects::GATEWAY_GROUP, "kind": kind }))
                .collect();
            // Kinds of listeners have no conditions of others.
            let conditions: Vec<Value> = wanted
                .conditions
                .iter()
                .map(|condition| {
                    let before = before["conditions"]
                        .as_array()
                        .and_then(|all| all.iter().find(|one| one["type"] == condition.of));
                    self.condition(condition, before)
                })
                .collect();
            json!({ "name": wanted.name, "supportedKinds": kinds, "attachedRoutes": wanted.attached, "conditions": conditions })
        };
        wanted.iter().map(one).collect()
    }

    /// Entries of other controllers, then those that are wanted.
    fn parents(&self, wanted: &[Parent], now: &Value, key: &str, max: usize) -> Value {
        let there = now.as_array().map_or(&[][..], Vec::as_slice);
        let (ours, theirs): (Vec<&Value>, Vec<&Value>) =
            there.iter().partition(|one| one["controllerName"] == self.controller);
        let mut all: Vec<Value> = theirs.into_iter().cloned().collect();
        for parent in wanted.iter().take(max.saturating_sub(all.len())) {
            let to = reference(&parent.to);
            let before = ours.iter().find(|one| same_reference(&one[key], &to)).copied().unwrap_or(&Value::Null);
            all.push(json!({ key: to, "controllerName": self.controller, "conditions": self.conditions(&parent.conditions, before) }));
        }
        all.into()
    }
}

/// True if two references in JSON mean the same.
fn same_reference(a: &Value, b: &Value) -> bool {
    ["group", "kind", "namespace", "name", "sectionName", "port"].iter().all(|key| a[*key] == b[*key])
}

fn reference(to: &Reference) -> Value {
    let mut all = Map::new();
    let text = |value: &Option<String>| value.clone().map(Value::from);
    let parts = [
        ("group", text(&to.group)),
        ("kind", text(&to.kind)),
        ("namespace", text(&to.namespace)),
        ("name", Some(to.name.clone().into())),
        ("sectionName", text(&to.section_name)),
        ("port", to.port.map(Value::from)),
    ];
    all.extend(parts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROLLER: &str = "evenkeel.dev/controller";

    fn parents(conditions: Vec<Condition>) -> Wanted {
        let to = Reference { name: "web".into(), namespace: Some("infra".into()), ..Reference::default() };
        Wanted { generation: 3, says: Says::Parents(vec![Parent { to, conditions }]) }
    }

    #[test]
    fn entries_of_other_controllers_and_their_conditions_stay() {
        let other = json!({ "parentRef": { "name": "other" }, "controllerName": "other.dev/x", "conditions": [] });
        let foreign = json!({ "type": "Foreign", "status": "True", "reason": "X", "message": "", "observedGeneration": 1, "lastTransitionTime": "then" });
        let wanted = parents(vec![Condition::yes("Accepted", "Accepted")]);
        let first = wanted.over(&json!({ "parents": [other] }), CONTROLLER, "now").expect("it is new");
        assert_eq!(first["parents"][0], other);
        assert_eq!(first["parents"][1]["parentRef"], json!({ "name": "web", "namespace": "infra" }));
        assert_eq!(wanted.over(&first, CONTROLLER, "later"), None, "it says all of that");
        let mut with_foreign = first.clone();
        with_foreign["parents"][1]["conditions"].as_array_mut().expect("a list").push(foreign.clone());
        let changed = parents(vec![Condition::no("Accepted", "NoMatchingParent", "why")]);
        let changed = changed.over(&with_foreign, CONTROLLER, "later").expect("it differs");
        assert_eq!(changed["parents"][1]["conditions"][1], foreign);
        assert_eq!(changed["parents"][1]["conditions"][0]["lastTransitionTime"], "later");
        let partly = Condition { of: PARTIALLY_INVALID, ..Condition::yes("", "UnsupportedValue") };
        let partly = parents(vec![Condition::yes("Accepted", "Accepted"), partly]);
        let partly = partly.over(&first, CONTROLLER, "later").expect("it differs");
        assert_eq!(partly["parents"][1]["conditions"].as_array().map(Vec::len), Some(2));
        let whole = wanted.over(&partly, CONTROLLER, "later").expect("it differs");
        assert_eq!(whole["parents"][1]["conditions"].as_array().map(Vec::len), Some(1));
        let gone = Wanted { generation: 3, says: Says::Parents(Vec::new()) };
        assert_eq!(gone.over(&first, CONTROLLER, "later").expect("it differs")["parents"], json!([other]));
        assert_eq!(gone.over(&Value::Null, CONTROLLER, "later"), None);
    }

    #[test]
    fn a_transition_is_a_change_of_status_and_nothing_else() {
        let wanted = |generation, reason| Wanted {
            generation,
            says: Says::Class { conditions: vec![Condition::yes("Accepted", reason)], features: vec![] },
        };
        let first = wanted(1, "Accepted").over(&Value::Null, CONTROLLER, "first").expect("it is new");
        let second = wanted(2, "Other").over(&first, CONTROLLER, "second").expect("it differs");
        let condition = &second["conditions"][0];
        assert_eq!((&condition["lastTransitionTime"], &condition["observedGeneration"]), (&json!("first"), &json!(2)));
    }
}

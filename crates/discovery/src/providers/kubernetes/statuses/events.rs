//! Events about objects: each text once, and again at most every few minutes. See [`Event`] and [`Posted`].

use super::status::{Condition, Says, Statuses};
use crate::providers::kubernetes::world::objects::Key;
use crate::providers::kubernetes::world::store::Kind;
use crate::providers::kubernetes::world::watch::resource;
use evenkeel_fetch::reason;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

pub const IGNORED: &str = "Ignored";
pub const REFUSED: &str = "Refused";
pub const UNAVAILABLE: &str = "BackendUnavailable";

/// Time for which a text that is gone is not posted again.
const PAUSE: Duration = Duration::from_secs(300);

/// Most bytes of the note of an event (its API).
const NOTE_MAX: usize = 1024;

/// Something about an object that its owner should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    pub kind: Kind,
    pub key: Key,
    pub reason: &'static str,
    pub is_warning: bool,
    pub message: String,
}

/// An event with the data about its object that the API server needs.
#[derive(Clone, Debug)]
pub struct Due {
    pub event: Event,
    /// Version in which the kind is read.
    pub version: &'static str,
    pub uid: String,
}

/// Events that were posted, with the time.
#[derive(Debug, Default)]
pub struct Posted(BTreeMap<Event, Instant>);

impl Event {
    pub fn warning(kind: Kind, key: &Key, reason: &'static str, message: impl Into<String>) -> Event {
        Event { kind, key: key.clone(), reason, is_warning: true, message: message.into() }
    }
}

/// Events about conditions that report a fault.
pub fn of_statuses(statuses: &Statuses) -> Vec<Event> {
    let mut events = Vec::new();
    for ((kind, key), wanted) in statuses {
        let mut texts = BTreeSet::new();
        let mut add = |prefix: &str, conditions: &[Condition]| {
            for condition in conditions.iter().filter(|one| one.is_fault() && !one.message.is_empty()) {
                let message = format!("{prefix}{}", condition.message);
                // Conditions repeat the fault of others.
                if texts.insert(message.clone()) {
                    events.push(Event::warning(*kind, key, condition.reason, message));
                }
            }
        };
        match &wanted.says {
            Says::Class { conditions, .. } => add("", conditions),
            Says::Gateway { conditions, listeners, .. } | Says::ListenerSet { conditions, listeners } => {
                add("", conditions);
                for listener in listeners {
                    add(&format!("listener {}: ", listener.name), &listener.conditions);
                }
            }
            Says::Parents(parents) | Says::Ancestors(parents) => {
                parents.iter().for_each(|parent| add("", &parent.conditions));
            }
            Says::Ingress { .. } => {}
        }
    }
    events
}

impl Posted {
    /// Events that are to be posted now, of all that there are.
    pub fn due(&mut self, all: &[Due], now: Instant) -> Vec<Due> {
        let current: BTreeSet<&Event> = all.iter().map(|due| &due.event).collect();
        self.0.retain(|event, at| current.contains(event) || now.duration_since(*at) < PAUSE);
        all.iter().filter(|due| !self.0.contains_key(&due.event)).cloned().collect()
    }

    /// Notes that an event was posted.
    pub fn note(&mut self, event: Event, now: Instant) {
        self.0.insert(event, now);
    }
}

/// Posts an event. `controller`: name of this controller; `process`: name of this process.
///
/// # Errors
/// The API server does not take it.
pub async fn post(client: &Client, due: &Due, controller: &str, process: &str) -> Result<(), String> {
    let Due { event, version, uid } = due;
    let of = resource(event.kind, version);
    // Events about objects without a namespace are in the namespace `default`.
    let namespace = if event.key.namespace.is_empty() { "default" } else { &event.key.namespace };
    let regarding = ObjectReference {
        api_version: Some(of.api_version),
        kind: Some(of.kind),
        name: Some(event.key.name.clone()),
        namespace: (!event.key.namespace.is_empty()).then(|| event.key.namespace.clone()),
        uid: Some(uid.clone()),
        ..ObjectReference::default()
    };
    let object = v1::Event {
        metadata: ObjectMeta {
            generate_name: Some(beginning(&event.key.name)),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some("Translate".to_owned()),
        event_time: Some(MicroTime(Timestamp::now())),
        note: Some(cut(&event.message, NOTE_MAX)),
        reason: Some(event.reason.to_owned()),
        regarding: Some(regarding),
        reporting_controller: Some(controller.to_owned()),
        reporting_instance: Some(cut(process, 128)),
        type_: Some(if event.is_warning { "Warning" } else { "Normal" }.to_owned()),
        ..v1::Event::default()
    };
    let api: Api<v1::Event> = Api::namespaced(client.clone(), namespace);
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        // The namespace has gone, or is about to go.
        Err(kube::Error::Api(status)) if status.code == 404 || status.reason == "NamespaceTerminating" => Ok(()),
        Err(error) => Err(format!("event about {} {}: {}", event.kind.name(), event.key, reason(&error))),
    }
}

/// Beginning of the name of an event. The API server adds some letters, and checks the name without them, too.
fn beginning(name: &str) -> String {
    format!("{}-", cut(name, 200).trim_end_matches(|c: char| !c.is_ascii_alphanumeric()))
}

fn cut(text: &str, max: usize) -> String {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::kubernetes::statuses::status::{ListenerStatus, Wanted};

    fn due(message: &str) -> Due {
        let event = Event::warning(Kind::Ingress, &Key::new("shop", "web"), IGNORED, message);
        Due { event, version: "v1", uid: "1".into() }
    }

    #[test]
    fn a_text_is_posted_once_and_again_only_after_a_pause() {
        let mut posted = Posted::default();
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let texts = |all: Vec<Due>| all.into_iter().map(|due| due.event.message).collect::<Vec<_>>();
        assert_eq!(texts(posted.due(&[due("a"), due("b")], start)), ["a", "b"]);
        posted.note(due("a").event, start);
        assert_eq!(texts(posted.due(&[due("a"), due("b")], later(1))), ["b"], "it was not posted yet");
        posted.note(due("b").event, later(1));
        assert!(posted.due(&[due("a"), due("b")], later(900)).is_empty(), "they stay");
        assert!(posted.due(&[due("b")], later(901)).is_empty());
        assert_eq!(texts(posted.due(&[due("a"), due("b")], later(902))), ["a"], "it had gone for long");
        posted.note(due("a").event, later(902));
        assert!(posted.due(&[], later(903)).is_empty());
        assert!(posted.due(&[due("a")], later(904)).is_empty(), "it comes and goes");
    }

    #[test]
    fn conditions_that_do_not_hold_are_told_once() {
        let fault = |of| Condition::no(of, "Invalid", "the key is wrong");
        let listeners = vec![ListenerStatus {
            name: "web".into(),
            kinds: vec![],
            attached: 0,
            conditions: vec![
                fault("ResolvedRefs"),
                fault("Programmed"),
                Condition::no("Conflicted", "NoConflicts", "none"),
            ],
        }];
        let conditions = vec![Condition::yes("Accepted", "Accepted"), Condition::no("Programmed", "Pending", "")];
        let says = Says::Gateway { addresses: vec![], conditions, listeners, sets: 0 };
        let statuses = Statuses::from([((Kind::Gateway, Key::new("a", "b")), Wanted { generation: 1, says })]);
        let events = of_statuses(&statuses);
        let shown: Vec<_> = events.iter().map(|event| (event.reason, &*event.message)).collect();
        assert_eq!(shown, [("Invalid", "listener web: the key is wrong")]);
    }

    #[test]
    fn a_note_is_cut_between_characters() {
        assert_eq!(cut("aä", 2), "a");
        assert_eq!(cut("ab", 2), "ab");
        assert_eq!(beginning("web"), "web-");
        assert_eq!(beginning(&format!("{}.b", "a".repeat(199))), format!("{}-", "a".repeat(199)));
    }
}

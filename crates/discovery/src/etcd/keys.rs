//! Keys below a prefix, with the endpoints in their values. See [`Keys`].

use super::messages::{EventType, KeyValue, WatchResponse};
use crate::entries::{is_name, of_pool, quoted};
use crate::kept::List;
use evenkeel_config::plan::Endpoint;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Keys with a common prefix. Only changed keys are read again.
#[derive(Debug)]
pub struct Keys {
    prefix: Vec<u8>,
    found: BTreeMap<Vec<u8>, Result<Endpoint, String>>,
}

/// Consequence of a message of a watch.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Changed,
    /// A message without events.
    Same,
    /// More events of the same revision follow.
    Partial,
    /// Events are missing: the keys have to be read again.
    Lost,
    /// The watch has ended, for this reason.
    Ended(String),
}

impl Keys {
    pub fn of(prefix: &[u8], all: Vec<KeyValue>) -> Keys {
        let mut keys = Keys { prefix: prefix.to_vec(), found: BTreeMap::new() };
        all.into_iter().for_each(|kv| keys.put(kv));
        keys
    }

    /// Applies a message of the watch.
    pub fn apply(&mut self, response: WatchResponse) -> Step {
        if response.canceled {
            return match response.compact_revision > 0 {
                true => Step::Lost,
                false => Step::Ended(response.cancel_reason),
            };
        }
        let step = match (response.fragment, response.events.is_empty()) {
            (true, _) => Step::Partial,
            (false, true) => Step::Same,
            (false, false) => Step::Changed,
        };
        for event in response.events {
            let is_put = event.r#type() == EventType::Put;
            match event.kv {
                Some(kv) if is_put => self.put(kv),
                Some(kv) => _ = self.found.remove(&kv.key),
                None => {}
            }
        }
        step
    }

    /// Endpoints in the order of their keys, and the keys that are none.
    pub fn list(&self) -> List {
        let mut list = List::default();
        for (key, found) in &self.found {
            match found {
                Ok(endpoint) => list.endpoints.push(endpoint.clone()),
                Err(why) => list.skipped.push(format!("{}: {why}", quoted(&String::from_utf8_lossy(key)))),
            }
        }
        list
    }

    fn put(&mut self, kv: KeyValue) {
        let name = kv.key.get(self.prefix.len()..).unwrap_or_default();
        let found = endpoint(name, &kv.value);
        self.found.insert(kv.key, found);
    }
}

/// Endpoint in a value: `HOST:PORT`, or an entry of a pool as JSON. `name` is the key without the prefix.
fn endpoint(name: &[u8], value: &[u8]) -> Result<Endpoint, String> {
    let text = std::str::from_utf8(value).map_err(|_| "its value is not text".to_owned())?.trim();
    let mut entry = match text.starts_with(['{', '"']) {
        true => serde_json::from_str(text).map_err(|error| format!("its value is not JSON: {error}"))?,
        false => Value::from(text),
    };
    if let Value::String(addr) = entry {
        entry = Value::Object(Map::from_iter([("addr".to_owned(), Value::String(addr))]));
    }
    if let Some(fields) = entry.as_object_mut()
        && let Ok(name) = std::str::from_utf8(name)
        && is_name(name)
    {
        fields.entry("name").or_insert_with(|| name.into());
    }
    of_pool(&entry)
}

/// First key after all that begin with a prefix; `\0` means no end.
pub fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return end;
        }
        end.pop();
    }
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::super::messages::Event;
    use super::*;

    fn kv(key: &str, value: &str) -> KeyValue {
        KeyValue { key: key.into(), value: value.into() }
    }

    fn event(r#type: EventType, key: &str, value: &str) -> Event {
        Event { r#type: r#type as i32, kv: Some(kv(key, value)) }
    }

    fn shown(keys: &Keys) -> Vec<String> {
        keys.list().endpoints.iter().map(|e| format!("{} {} {}", e.name, e.addr, e.weight)).collect()
    }

    #[test]
    fn values_are_addresses_or_entries_of_a_pool_and_named_by_their_key() {
        let all = vec![
            kv("/web/b", "10.0.0.1:80"),
            kv("/web/a", " {\"addr\": \"10.0.0.2:80\", \"weight\": 3}\n"),
            kv("/web/c", "{\"addr\": \"10.0.0.3:80\", \"name\": \"other\"}"),
            kv("/web/d", "\"[fd00::1]:80\""),
            kv("/web/e f", "10.0.0.5:80"),
        ];
        let keys = Keys::of(b"/web/", all);
        let wanted = [
            "a 10.0.0.2:80 3",
            "b 10.0.0.1:80 1",
            "other 10.0.0.3:80 1",
            "d [fd00::1]:80 1",
            "10.0.0.5:80 10.0.0.5:80 1",
        ];
        assert_eq!(shown(&keys), wanted);
        assert!(keys.list().skipped.is_empty());
    }

    #[test]
    fn keys_that_are_no_endpoints_are_named_and_left_out() {
        let values = ["", "a.inside:80", "10.0.0.1:0", "{", "{\"addr\": \"10.0.0.1:80\", \"weight\": -1}", "7", "{}"];
        let all = values.iter().enumerate().map(|(n, value)| kv(&format!("/web/{n}"), value)).collect();
        let mut keys = Keys::of(b"/web/", all);
        keys.put(KeyValue { key: b"/web/\xff".to_vec(), value: b"10.0.0.9:80".to_vec() });
        keys.put(KeyValue { key: b"/web/x".to_vec(), value: vec![0xff] });
        assert_eq!(shown(&keys), ["10.0.0.9:80 10.0.0.9:80 1"]);
        let skipped = keys.list().skipped;
        assert_eq!(skipped.len(), values.len() + 1, "{skipped:?}");
        assert!(skipped.iter().all(|why| why.starts_with("/web/")), "{skipped:?}");
    }

    #[test]
    fn events_change_keys_and_a_compaction_loses_them() {
        let mut keys = Keys::of(b"/web/", vec![kv("/web/a", "10.0.0.1:80")]);
        let events = [event(EventType::Put, "/web/b", "10.0.0.2:80"), event(EventType::Delete, "/web/a", "")];
        let part = WatchResponse { events: events[..1].to_vec(), fragment: true, ..WatchResponse::default() };
        assert_eq!(keys.apply(part), Step::Partial);
        let rest = WatchResponse { events: events[1..].to_vec(), ..WatchResponse::default() };
        assert_eq!(keys.apply(rest), Step::Changed);
        assert_eq!(shown(&keys), ["b 10.0.0.2:80 1"]);
        assert_eq!(keys.apply(WatchResponse { created: true, ..WatchResponse::default() }), Step::Same);
        let canceled = WatchResponse { canceled: true, cancel_reason: "no leader".into(), ..WatchResponse::default() };
        assert_eq!(keys.apply(canceled.clone()), Step::Ended("no leader".into()));
        assert_eq!(keys.apply(WatchResponse { compact_revision: 7, ..canceled }), Step::Lost);
    }

    #[test]
    fn a_range_ends_after_its_prefix() {
        assert_eq!(end_of(b"/web/"), b"/web0");
        assert_eq!(end_of(b"a\xff\xff"), b"b");
        assert_eq!(end_of(b"\xff"), [0]);
        assert_eq!(end_of(b""), [0]);
    }
}

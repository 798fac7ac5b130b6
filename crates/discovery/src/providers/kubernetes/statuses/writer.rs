//! Writes statuses of objects, a single change at a time for each object. See [`write()`].

use crate::providers::kubernetes::world::objects::Key;
use crate::providers::kubernetes::world::store::Kind;
use crate::providers::kubernetes::world::watch::resource;
use evenkeel_fetch::reason;
use futures_util::stream::{self, StreamExt};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

/// Statuses that are written at a time.
const AT_ONCE: usize = 8;

/// A status to write in place of the status `before`.
#[derive(Clone, Debug)]
pub struct Change {
    pub kind: Kind,
    pub version: &'static str,
    pub key: Key,
    pub before: Value,
    pub after: Value,
}

/// Writes statuses. Returns the reason if any of them could not be written.
pub async fn write(client: &Client, changes: Vec<Change>) -> Option<String> {
    let one = |change: Change| async move {
        let resource = resource(change.kind, change.version);
        let api: Api<DynamicObject> = match change.key.namespace.is_empty() {
            true => Api::all_with(client.clone(), &resource),
            false => Api::namespaced_with(client.clone(), &change.key.namespace, &resource),
        };
        let patch = json!({ "status": difference(&change.before, &change.after) });
        match api.patch_status(&change.key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => None,
            // It has gone meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => Some(format!("status of {} {}: {}", change.kind.name(), change.key, reason(&error))),
        }
    };
    let results: Vec<Option<String>> = stream::iter(changes).map(one).buffer_unordered(AT_ONCE).collect().await;
    results.into_iter().flatten().next()
}

/// Merge patch (RFC 7386) between two statuses: each key that differs, with its whole value, and null for each key that
/// was removed.
fn difference(before: &Value, after: &Value) -> Value {
    let none = Map::new();
    let [before, after] = [before, after].map(|status| status.as_object().unwrap_or(&none));
    let mut patch = Map::new();
    for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(value)) {
        patch.insert(key.clone(), value.clone());
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_has_what_differs() {
        let before = json!({ "a": [1], "b": 1, "c": { "d": 1 } });
        let after = json!({ "a": [1, 2], "c": { "d": 1 } });
        assert_eq!(difference(&before, &after), json!({ "a": [1, 2], "b": null }));
        assert_eq!(difference(&Value::Null, &after), after);
    }
}

//! Delta xDS: each response has only changes. See [`Delta`].

use super::consumer::{Kind, Received, Unread, Wanted, refusal, unwrapped};
use super::messages::{DELTA_STREAM, DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};
use super::session::Protocol;
use crate::lock::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Versions of the kept resources. They outlast a stream: the next stream begins with them.
pub type Versions = Arc<Mutex<BTreeMap<Kind, BTreeMap<String, String>>>>;

/// Subscriptions of a stream, with the versions that outlast it.
#[derive(Debug, Default)]
pub struct Delta {
    versions: Versions,
    exchanges: BTreeMap<Kind, Exchange>,
}

#[derive(Debug, Default)]
struct Exchange {
    wanted: Wanted,
    nonce: String,
    /// Versions of the last response, and the resources that it removed.
    offered: Vec<(String, String)>,
    removed: Vec<String>,
}

impl Delta {
    pub fn new(versions: &Versions) -> Delta {
        Delta { versions: versions.clone(), exchanges: BTreeMap::new() }
    }
}

fn request(kind: Kind) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { type_url: kind.type_url().to_owned(), ..DeltaDiscoveryRequest::default() }
}

fn names(wanted: &Wanted) -> BTreeSet<String> {
    match wanted {
        Wanted::Nothing => BTreeSet::new(),
        Wanted::All => BTreeSet::from(["*".to_owned()]),
        Wanted::Named(names) => names.clone(),
    }
}

impl Protocol for Delta {
    type Request = DeltaDiscoveryRequest;
    type Response = DeltaDiscoveryResponse;

    const PATH: &'static str = DELTA_STREAM;
    // It has no nonce, and answers nothing.
    const ASKS_WHILE_REFUSING: bool = true;

    fn wanted(&self, kind: Kind) -> Wanted {
        self.exchanges.get(&kind).map(|exchange| exchange.wanted.clone()).unwrap_or_default()
    }

    fn subscribe(&mut self, kind: Kind, wanted: Wanted, node: Option<Node>) -> DeltaDiscoveryRequest {
        let mut all = lock(&self.versions);
        let versions = all.entry(kind).or_default();
        match &wanted {
            Wanted::All => {}
            Wanted::Nothing => versions.clear(),
            Wanted::Named(names) => versions.retain(|name, _| names.contains(name)),
        }
        let mut request = DeltaDiscoveryRequest { node, ..request(kind) };
        let is_first = !self.exchanges.contains_key(&kind);
        let exchange = self.exchanges.entry(kind).or_default();
        let (before, now) = (names(&exchange.wanted), names(&wanted));
        request.resource_names_subscribe = now.difference(&before).cloned().collect();
        request.resource_names_unsubscribe = before.difference(&now).cloned().collect();
        if is_first {
            request.initial_resource_versions.clone_from(versions);
        }
        exchange.wanted = wanted;
        request
    }

    fn keeps(&self, kind: Kind, name: &str) -> bool {
        lock(&self.versions).get(&kind).is_some_and(|versions| versions.contains_key(name))
    }

    fn forget(&mut self, kind: Kind, name: &str) {
        if let Some(versions) = lock(&self.versions).get_mut(&kind) {
            versions.remove(name);
        }
    }

    fn read<'r>(&mut self, response: &'r DeltaDiscoveryResponse) -> Option<Received<'r>> {
        let kind = Kind::of(&response.type_url)?;
        let exchange = self.exchanges.get_mut(&kind)?;
        let is_first = exchange.nonce.is_empty();
        exchange.nonce.clone_from(&response.nonce);
        exchange.offered = response.resources.iter().map(|one| (one.name.clone(), one.version.clone())).collect();
        exchange.removed.clone_from(&response.removed_resources);
        let resources = response.resources.iter().map(|one| {
            let unread = |why: String| Unread { name: &one.name, why };
            let resource = one.resource.as_ref().ok_or_else(|| unread("it is empty".to_owned()))?;
            unwrapped(resource, kind).map_err(unread)
        });
        let (resources, removed) = (resources.collect(), &response.removed_resources[..]);
        Some(Received { kind, is_first, is_whole: false, resources, removed })
    }

    fn reply(&mut self, kind: Kind, verdict: Result<(), &str>) -> DeltaDiscoveryRequest {
        let mut answer = request(kind);
        let Some(exchange) = self.exchanges.get_mut(&kind) else { return answer };
        answer.response_nonce.clone_from(&exchange.nonce);
        answer.error_detail = verdict.err().map(refusal);
        if verdict.is_ok() {
            let mut all = lock(&self.versions);
            let versions = all.entry(kind).or_default();
            exchange.removed.drain(..).for_each(|name| drop(versions.remove(&name)));
            versions.extend(exchange.offered.drain(..));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xds::messages::{Any, CLUSTER, Resource};

    fn response(nonce: &str, all: &[(&str, &str)], removed: &[&str]) -> DeltaDiscoveryResponse {
        let resource = |(name, version): &(&str, &str)| Resource {
            version: (*version).to_owned(),
            resource: Some(Any { type_url: CLUSTER.into(), value: vec![] }),
            name: (*name).to_owned(),
        };
        DeltaDiscoveryResponse {
            resources: all.iter().map(resource).collect(),
            type_url: CLUSTER.into(),
            nonce: nonce.into(),
            removed_resources: removed.iter().map(ToString::to_string).collect(),
        }
    }

    fn named(all: &[&str]) -> Wanted {
        Wanted::Named(all.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_next_stream_begins_with_the_versions_that_were_accepted() {
        let versions = Versions::default();
        let mut delta = Delta::new(&versions);
        let first = delta.subscribe(Kind::Cluster, Wanted::All, Some(Node::default()));
        assert_eq!(first.resource_names_subscribe, ["*"]);
        assert!(first.initial_resource_versions.is_empty() && first.node.is_some());
        assert!(delta.read(&response("1", &[("a", "v1"), ("b", "v1")], &[])).is_some());
        assert_eq!(delta.reply(Kind::Cluster, Ok(())).response_nonce, "1");
        assert!(delta.read(&response("2", &[("a", "v2")], &["b"])).is_some());
        let nack = delta.reply(Kind::Cluster, Err("a: no"));
        assert_eq!((&*nack.response_nonce, nack.error_detail.map(|why| why.message)), ("2", Some("a: no".into())));
        let first = Delta::new(&versions).subscribe(Kind::Cluster, Wanted::All, None);
        let kept = [("a", "v1"), ("b", "v1")].map(|(name, version)| (name.to_owned(), version.to_owned()));
        assert_eq!(first.initial_resource_versions, BTreeMap::from(kept), "what was refused is not kept");
        assert!(delta.read(&response("3", &[], &["b"])).is_some_and(|received| received.removed == ["b"]));
        delta.reply(Kind::Cluster, Ok(()));
        assert_eq!(lock(&versions)[&Kind::Cluster].len(), 1);
    }

    #[test]
    fn only_differences_of_names_are_sent() {
        let mut delta = Delta::default();
        delta.subscribe(Kind::Routes, named(&["a", "b"]), None);
        let next = delta.subscribe(Kind::Routes, named(&["b", "c"]), None);
        assert_eq!(
            (next.resource_names_subscribe, next.resource_names_unsubscribe),
            (vec!["c".to_owned()], vec!["a".into()])
        );
        assert!(next.response_nonce.is_empty(), "it answers nothing");
    }
}

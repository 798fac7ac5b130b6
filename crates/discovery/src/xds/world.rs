//! State of the world: each response has all resources of its type that were asked for. See [`World`].

use super::consumer::{Kind, Received, Unread, Wanted, refusal, unwrapped};
use super::messages::{DiscoveryRequest, DiscoveryResponse, Node, STREAM};
use super::session::Protocol;
use std::collections::BTreeMap;

/// State of a stream. It begins without versions, so that the server sends everything: versions are unique only within
/// the life of a server, and a restarted server may give an old version to other resources.
#[derive(Debug, Default)]
pub struct World(BTreeMap<Kind, Exchange>);

#[derive(Debug, Default)]
struct Exchange {
    wanted: Wanted,
    /// Version that was accepted last.
    version: String,
    /// Version and nonce of the last response.
    offered: String,
    nonce: String,
}

impl World {
    fn request(&self, kind: Kind) -> DiscoveryRequest {
        let unasked = Exchange::default();
        let exchange = self.0.get(&kind).unwrap_or(&unasked);
        let resource_names = match &exchange.wanted {
            Wanted::Nothing | Wanted::All => Vec::new(),
            Wanted::Named(names) => names.iter().cloned().collect(),
        };
        DiscoveryRequest {
            version_info: exchange.version.clone(),
            node: None,
            resource_names,
            type_url: kind.type_url().to_owned(),
            response_nonce: exchange.nonce.clone(),
            error_detail: None,
        }
    }
}

impl Protocol for World {
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;

    const PATH: &'static str = STREAM;
    // It has the nonce of the last response, and would acknowledge it.
    const ASKS_WHILE_REFUSING: bool = false;

    fn wanted(&self, kind: Kind) -> Wanted {
        self.0.get(&kind).map(|exchange| exchange.wanted.clone()).unwrap_or_default()
    }

    fn subscribe(&mut self, kind: Kind, wanted: Wanted, node: Option<Node>) -> DiscoveryRequest {
        self.0.entry(kind).or_default().wanted = wanted;
        DiscoveryRequest { node, ..self.request(kind) }
    }

    fn keeps(&self, _: Kind, _: &str) -> bool {
        false
    }

    fn forget(&mut self, _: Kind, _: &str) {}

    fn read<'r>(&mut self, response: &'r DiscoveryResponse) -> Option<Received<'r>> {
        let kind = Kind::of(&response.type_url)?;
        // A response without a request is ignored.
        let exchange = self.0.get_mut(&kind)?;
        let is_first = exchange.nonce.is_empty();
        exchange.nonce.clone_from(&response.nonce);
        exchange.offered.clone_from(&response.version_info);
        let resources =
            response.resources.iter().map(|one| unwrapped(one, kind).map_err(|why| Unread { name: "", why }));
        // Route configurations and endpoints that are not sent again stay.
        let is_whole = matches!(kind, Kind::Cluster | Kind::Listener);
        Some(Received { kind, is_first, is_whole, resources: resources.collect(), removed: &[] })
    }

    fn reply(&mut self, kind: Kind, verdict: Result<(), &str>) -> DiscoveryRequest {
        if let (Some(exchange), Ok(())) = (self.0.get_mut(&kind), verdict) {
            exchange.version.clone_from(&exchange.offered);
        }
        DiscoveryRequest { error_detail: verdict.err().map(refusal), ..self.request(kind) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xds::messages::{ASSIGNMENT, Any, RESOURCE, Resource};
    use prost::Message;

    fn names(all: &[&str]) -> Wanted {
        Wanted::Named(all.iter().map(ToString::to_string).collect())
    }

    fn response(version: &str, nonce: &str, resources: Vec<Any>) -> DiscoveryResponse {
        DiscoveryResponse { version_info: version.into(), resources, type_url: ASSIGNMENT.into(), nonce: nonce.into() }
    }

    #[test]
    fn versions_are_acknowledged_and_refused_ones_leave_the_last_good_one() {
        let mut world = World::default();
        let first = world.subscribe(Kind::Assignment, names(&["web", "api"]), Some(Node::default()));
        assert_eq!(first.resource_names, ["api", "web"]);
        assert!(first.version_info.is_empty() && first.response_nonce.is_empty() && first.node.is_some());
        assert!(world.read(&response("7", "n1", vec![])).is_some_and(|received| received.is_first));
        let ack = world.reply(Kind::Assignment, Ok(()));
        assert_eq!((&*ack.version_info, &*ack.response_nonce, ack.error_detail), ("7", "n1", None));
        assert!(ack.node.is_none());
        assert!(world.read(&response("8", "n2", vec![])).is_some_and(|received| !received.is_first));
        let nack = world.reply(Kind::Assignment, Err("web: port 0"));
        assert_eq!((&*nack.version_info, &*nack.response_nonce), ("7", "n2"));
        let detail = nack.error_detail.expect("it is refused");
        assert_eq!((detail.code, &*detail.message), (3, "web: port 0"));
        // Another cluster is asked for with the nonce of the refused response.
        let more = world.subscribe(Kind::Assignment, names(&["web"]), None);
        assert_eq!((&*more.version_info, &*more.response_nonce, more.resource_names.len()), ("7", "n2", 1));
        // A server that was restored has lower versions.
        assert!(world.read(&response("3", "n3", vec![])).is_some());
        let ack = world.reply(Kind::Assignment, Ok(()));
        assert_eq!((&*ack.version_info, &*ack.response_nonce, ack.error_detail), ("3", "n3", None));
    }

    #[test]
    fn a_wrapper_is_opened_and_what_is_of_another_type_is_named() {
        let mut world = World::default();
        assert!(world.read(&response("1", "n", vec![])).is_none(), "it was not asked for");
        world.subscribe(Kind::Assignment, names(&["web"]), None);
        let inner = Any { type_url: ASSIGNMENT.into(), value: vec![1, 2] };
        let wrapped = Resource { resource: Some(inner), ..Resource::default() }.encode_to_vec();
        let other = Any { type_url: "type.googleapis.com/a.B".into(), value: vec![] };
        let all = vec![Any { type_url: RESOURCE.into(), value: wrapped }, other];
        let response = response("1", "n", all);
        let received = world.read(&response).expect("it was asked for");
        assert_eq!(received.resources[0], Ok(vec![1, 2]));
        assert!(received.resources[1].as_ref().is_err_and(|unread| unread.why.contains("a.B")));
        let unknown = DiscoveryResponse { type_url: "type.googleapis.com/a.B".into(), ..response.clone() };
        assert!(world.read(&unknown).is_none());
    }
}

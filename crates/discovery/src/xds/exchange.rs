//! Requests and responses of one stream, state of the world, without I/O. See [`Exchange`].

use super::assignment::list;
use super::messages::{
    ASSIGNMENT, Any, ClusterLoadAssignment, DiscoveryRequest, DiscoveryResponse, Node, RESOURCE, Resource, Status,
};
use crate::kept::List;
use prost::Message;
use std::collections::BTreeSet;

/// `INVALID_ARGUMENT` of gRPC.
const INVALID: i32 = 3;

/// Longest reason for a refusal, in characters.
const REASON_MAX: usize = 1000;

/// State of a stream. It begins without a version, so that the server sends everything: versions only have to differ within
/// the life of a server, and one that was restarted may give an old version to other endpoints.
#[derive(Debug, Default)]
pub struct Exchange {
    /// Clusters that the server was asked for last.
    names: BTreeSet<String>,
    /// Version that was accepted last.
    version: String,
    /// Nonce of the last response.
    nonce: String,
}

/// Endpoints of a cluster in a response, or the reason why they are refused.
pub type Assigned = (String, Result<List, String>);

impl Exchange {
    /// Clusters that the server was asked for last.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Returns the request for these clusters, and for no others. The first one of a stream needs `node`.
    pub fn subscribe(&mut self, names: BTreeSet<String>, node: Option<Node>) -> DiscoveryRequest {
        self.names = names;
        DiscoveryRequest { node, ..self.request(None) }
    }

    /// Reads a response. Returns the clusters in it that were asked for, and the request that acknowledges or refuses it;
    /// `None` if it has another type, which was not asked for. What is valid in a response counts even if it is refused.
    pub fn answer(&mut self, response: &DiscoveryResponse) -> Option<(Vec<Assigned>, DiscoveryRequest)> {
        if response.type_url != ASSIGNMENT {
            return None;
        }
        let (mut assigned, mut wrong) = (Vec::new(), Vec::new());
        for (n, resource) in response.resources.iter().enumerate() {
            match assignment(resource) {
                Ok(assignment) => {
                    let read = list(&assignment);
                    if let Err(why) = &read {
                        wrong.push(format!("{}: {why}", assignment.cluster_name));
                    }
                    if self.names.contains(&assignment.cluster_name) {
                        assigned.push((assignment.cluster_name, read));
                    }
                }
                Err(why) => wrong.push(format!("resource {n}: {why}")),
            }
        }
        self.nonce.clone_from(&response.nonce);
        if wrong.is_empty() {
            self.version.clone_from(&response.version_info);
            return Some((assigned, self.request(None)));
        }
        let message = wrong.join("; ").chars().take(REASON_MAX).collect();
        Some((assigned, self.request(Some(Status { code: INVALID, message }))))
    }

    fn request(&self, error_detail: Option<Status>) -> DiscoveryRequest {
        DiscoveryRequest {
            version_info: self.version.clone(),
            node: None,
            resource_names: self.names.iter().cloned().collect(),
            type_url: ASSIGNMENT.to_owned(),
            response_nonce: self.nonce.clone(),
            error_detail,
        }
    }
}

fn assignment(resource: &Any) -> Result<ClusterLoadAssignment, String> {
    let inner;
    let resource = if resource.type_url == RESOURCE {
        let wrapper = Resource::decode(&*resource.value).map_err(|error| error.to_string())?;
        inner = wrapper.resource.ok_or("it is empty")?;
        &inner
    } else {
        resource
    };
    match resource.type_url == ASSIGNMENT {
        true => ClusterLoadAssignment::decode(&*resource.value).map_err(|error| error.to_string()),
        false => Err(format!("its type is {:?}", resource.type_url)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::{
        Address, AddressUnion, Endpoint, LbEndpoint, LocalityLbEndpoints, Port, SocketAddress,
    };
    use super::*;

    fn resource(cluster: &str, port: u32) -> Any {
        let socket = SocketAddress { address: "10.0.0.1".into(), port: Some(Port::Value(port)) };
        let address = Some(Address { union: Some(AddressUnion::Socket(socket)) });
        let one = LbEndpoint { endpoint: Some(Endpoint { address }), ..LbEndpoint::default() };
        let locality = LocalityLbEndpoints { lb_endpoints: vec![one], ..LocalityLbEndpoints::default() };
        let endpoints = vec![locality];
        let all = ClusterLoadAssignment { cluster_name: cluster.into(), endpoints, ..ClusterLoadAssignment::default() };
        Any { type_url: ASSIGNMENT.into(), value: all.encode_to_vec() }
    }

    fn response(version: &str, nonce: &str, resources: Vec<Any>) -> DiscoveryResponse {
        DiscoveryResponse { version_info: version.into(), resources, type_url: ASSIGNMENT.into(), nonce: nonce.into() }
    }

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn versions_are_acknowledged_and_refused_ones_leave_the_last_good_one() {
        let mut exchange = Exchange::default();
        let first = exchange.subscribe(names(&["web", "api"]), Some(Node::default()));
        assert_eq!(first.resource_names, ["api", "web"]);
        assert!(first.version_info.is_empty() && first.response_nonce.is_empty() && first.node.is_some());
        let all = vec![resource("web", 80), resource("api", 80), resource("other", 80)];
        let (assigned, ack) = exchange.answer(&response("7", "n1", all)).expect("it is of this type");
        assert_eq!(
            assigned.iter().map(|(name, list)| (&**name, list.is_ok())).collect::<Vec<_>>(),
            [("web", true), ("api", true)]
        );
        assert_eq!((&*ack.version_info, &*ack.response_nonce, ack.error_detail), ("7", "n1", None));
        assert!(ack.node.is_none());
        let half = vec![resource("web", 0), resource("api", 81)];
        let (assigned, nack) = exchange.answer(&response("8", "n2", half)).expect("it is of this type");
        assert!(assigned[0].1.is_err() && assigned[1].1.is_ok(), "the valid one counts");
        assert_eq!((&*nack.version_info, &*nack.response_nonce), ("7", "n2"));
        let detail = nack.error_detail.expect("it is refused");
        assert_eq!((detail.code, &*detail.message), (INVALID, "web: 10.0.0.1:0: 0 is not a port"));
        // Another cluster is asked for with the nonce of the refused response.
        let more = exchange.subscribe(names(&["web"]), None);
        assert_eq!((&*more.version_info, &*more.response_nonce, more.resource_names.len()), ("7", "n2", 1));
        // A server that was restored has lower versions.
        let (_, ack) = exchange.answer(&response("3", "n3", vec![resource("web", 80)])).expect("it is of this type");
        assert_eq!((&*ack.version_info, &*ack.response_nonce, ack.error_detail), ("3", "n3", None));
    }

    #[test]
    fn a_wrapper_is_opened_and_what_is_not_an_assignment_is_refused() {
        let mut exchange = Exchange::default();
        exchange.subscribe(names(&["web"]), None);
        let wrapped = Resource { resource: Some(resource("web", 80)) }.encode_to_vec();
        let wrapped = Any { type_url: RESOURCE.into(), value: wrapped };
        let (assigned, ack) = exchange.answer(&response("1", "n", vec![wrapped])).expect("it is of this type");
        assert!(assigned.len() == 1 && ack.error_detail.is_none());
        let garbage = Any { type_url: ASSIGNMENT.into(), value: vec![0xff; 3] };
        let other = Any { type_url: "type.googleapis.com/a.B".into(), value: vec![] };
        let (assigned, nack) = exchange.answer(&response("2", "n", vec![garbage, other])).expect("it is of this type");
        let why = nack.error_detail.expect("it is refused").message;
        assert!(assigned.is_empty() && why.contains("resource 0: ") && why.contains("resource 1: its type"), "{why}");
        let clusters = DiscoveryResponse { type_url: "type.googleapis.com/a.B".into(), ..response("1", "n", vec![]) };
        assert!(exchange.answer(&clusters).is_none());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_of_a_server_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let mut exchange = Exchange::default();
            for type_url in [ASSIGNMENT, RESOURCE] {
                let any = Any { type_url: type_url.into(), value: bytes.clone() };
                let _ = exchange.answer(&response("1", "n", vec![any]));
            }
            if let Ok(response) = DiscoveryResponse::decode(&*bytes) {
                let _ = exchange.answer(&response);
            }
        }
    }
}

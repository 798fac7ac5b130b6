//! Messages of xDS (`envoy/service/discovery/v3`, `envoy/config/endpoint/v3`, `envoy/config/core/v3`,
//! `google/protobuf`, `google/rpc`), with the fields that are used. Others are ignored.

use prost::{Enumeration, Message, Oneof};
use std::collections::BTreeMap;

/// Methods of aggregated discovery: state of the world, and differences.
pub const DELTA_STREAM: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
pub const STREAM: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// Types of clusters, listeners and route configurations.
pub const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
pub const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
pub const ROUTES: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";

/// Type of the endpoints of a cluster.
pub const ASSIGNMENT: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

/// Type of a wrapper that a resource may have.
pub const RESOURCE: &str = "type.googleapis.com/envoy.service.discovery.v3.Resource";

#[derive(Clone, PartialEq, Message)]
pub struct DiscoveryRequest {
    #[prost(string, tag = "1")]
    pub version_info: String,
    #[prost(message, optional, tag = "2")]
    pub node: Option<Node>,
    #[prost(string, repeated, tag = "3")]
    pub resource_names: Vec<String>,
    #[prost(string, tag = "4")]
    pub type_url: String,
    #[prost(string, tag = "5")]
    pub response_nonce: String,
    #[prost(message, optional, tag = "6")]
    pub error_detail: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DiscoveryResponse {
    #[prost(string, tag = "1")]
    pub version_info: String,
    #[prost(message, repeated, tag = "2")]
    pub resources: Vec<Any>,
    #[prost(string, tag = "4")]
    pub type_url: String,
    #[prost(string, tag = "5")]
    pub nonce: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Any {
    #[prost(string, tag = "1")]
    pub type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// Resource with fields of its own, such as a version.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(message, optional, tag = "2")]
    pub resource: Option<Any>,
    #[prost(string, tag = "3")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeltaDiscoveryRequest {
    #[prost(message, optional, tag = "1")]
    pub node: Option<Node>,
    #[prost(string, tag = "2")]
    pub type_url: String,
    #[prost(string, repeated, tag = "3")]
    pub resource_names_subscribe: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub resource_names_unsubscribe: Vec<String>,
    #[prost(btree_map = "string, string", tag = "5")]
    pub initial_resource_versions: BTreeMap<String, String>,
    #[prost(string, tag = "6")]
    pub response_nonce: String,
    #[prost(message, optional, tag = "7")]
    pub error_detail: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeltaDiscoveryResponse {
    #[prost(message, repeated, tag = "2")]
    pub resources: Vec<Resource>,
    #[prost(string, tag = "4")]
    pub type_url: String,
    #[prost(string, tag = "5")]
    pub nonce: String,
    #[prost(string, repeated, tag = "6")]
    pub removed_resources: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub cluster: String,
    #[prost(message, optional, tag = "4")]
    pub locality: Option<Locality>,
    #[prost(string, tag = "6")]
    pub user_agent_name: String,
    #[prost(string, tag = "7")]
    pub user_agent_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Locality {
    #[prost(string, tag = "1")]
    pub region: String,
    #[prost(string, tag = "2")]
    pub zone: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ClusterLoadAssignment {
    #[prost(string, tag = "1")]
    pub cluster_name: String,
    #[prost(message, repeated, tag = "2")]
    pub endpoints: Vec<LocalityLbEndpoints>,
    #[prost(message, optional, tag = "4")]
    pub policy: Option<Policy>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Policy {
    /// Shares of requests to drop, whose content does not matter.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub drop_overloads: Vec<Vec<u8>>,
    #[prost(message, optional, tag = "4")]
    pub endpoint_stale_after: Option<Time>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
pub struct Time {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct LocalityLbEndpoints {
    #[prost(message, optional, tag = "1")]
    pub locality: Option<Locality>,
    #[prost(message, repeated, tag = "2")]
    pub lb_endpoints: Vec<LbEndpoint>,
    #[prost(uint32, tag = "5")]
    pub priority: u32,
    /// Endpoints that would come from elsewhere.
    #[prost(bytes = "vec", optional, tag = "8")]
    pub leds_cluster_locality_config: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LbEndpoint {
    #[prost(message, optional, tag = "1")]
    pub endpoint: Option<Endpoint>,
    #[prost(enumeration = "HealthStatus", tag = "2")]
    pub health_status: i32,
    #[prost(message, optional, tag = "4")]
    pub load_balancing_weight: Option<UInt32Value>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UInt32Value {
    #[prost(uint32, tag = "1")]
    pub value: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum HealthStatus {
    Unknown = 0,
    Healthy = 1,
    Unhealthy = 2,
    Draining = 3,
    Timeout = 4,
    Degraded = 5,
}

#[derive(Clone, PartialEq, Message)]
pub struct Endpoint {
    #[prost(message, optional, tag = "1")]
    pub address: Option<Address>,
    /// Host for health checks and rewriting.
    #[prost(string, tag = "3")]
    pub hostname: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Address {
    #[prost(oneof = "AddressUnion", tags = "1, 2, 3")]
    pub union: Option<AddressUnion>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum AddressUnion {
    #[prost(message, tag = "1")]
    Socket(SocketAddress),
    #[prost(message, tag = "2")]
    Pipe(Pipe),
    /// A listener of the same Envoy, not an address.
    #[prost(bytes = "vec", tag = "3")]
    Internal(Vec<u8>),
}

#[derive(Clone, PartialEq, Message)]
pub struct Pipe {
    #[prost(string, tag = "1")]
    pub path: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct SocketAddress {
    #[prost(string, tag = "2")]
    pub address: String,
    #[prost(oneof = "Port", tags = "3, 4")]
    pub port: Option<Port>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Port {
    #[prost(uint32, tag = "3")]
    Value(u32),
    #[prost(string, tag = "4")]
    Named(String),
}

//! Parts of a plan that a source needs in addition to its own settings, and connections that sources share.

use crate::shared::Shared;
use evenkeel_config::plan::Resolver;

/// Plan settings and connections that sources share.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Name servers and TTL bounds.
    pub resolver: Resolver,
    /// Connections to servers: engines, clusters, members of etcd, control planes.
    pub shared: Shared,
}

//! Parts of a plan that a source needs in addition to its own settings, and what sources share.

use crate::engine::Engine;
use crate::etcd::cluster::Cluster;
use crate::shared::Shared;
use evenkeel_config::plan::{DockerServer, EtcdServer, Resolver};

/// Plan settings and connections that sources share.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Name servers and TTL bounds.
    pub resolver: Resolver,
    /// Engines whose containers are followed.
    pub docker: Shared<DockerServer, Engine>,
    /// Members of etcd whose keys are followed.
    pub etcd: Shared<EtcdServer, Cluster>,
}

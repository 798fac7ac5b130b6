//! Parts of a plan that a source needs in addition to its own settings, and what sources share.

#[cfg(feature = "kubernetes")]
use crate::cluster::Cluster;
use crate::engine::Engine;
#[cfg(feature = "etcd")]
use crate::etcd::members::Members;
use crate::shared::Shared;
#[cfg(feature = "xds")]
use crate::xds::ads::Ads;
#[cfg(feature = "etcd")]
use evenkeel_config::plan::EtcdServer;
#[cfg(feature = "kubernetes")]
use evenkeel_config::plan::KubernetesServer;
#[cfg(feature = "xds")]
use evenkeel_config::plan::XdsServer;
use evenkeel_config::plan::{DockerServer, Resolver};

/// Plan settings and connections that sources share.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Name servers and TTL bounds.
    pub resolver: Resolver,
    /// Engines whose containers are followed.
    pub docker: Shared<DockerServer, Engine>,
    /// Clusters whose endpoints are followed, or one namespace of them.
    #[cfg(feature = "kubernetes")]
    pub kubernetes: Shared<(KubernetesServer, Option<String>), Cluster>,
    /// Members of etcd whose keys are followed.
    #[cfg(feature = "etcd")]
    pub etcd: Shared<EtcdServer, Members>,
    /// Control planes whose endpoints are followed.
    #[cfg(feature = "xds")]
    pub xds: Shared<XdsServer, Ads>,
}

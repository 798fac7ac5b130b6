//! Sources of endpoints: a file per kind, its `mod` line, and an arm here. A source runs forever and puts its answers
//! into its [`Out`]; sources that have to poll use [`poll`](crate::polling::poll).

// Order: consul, dns, docker, etcd, file, http, kubernetes, nomad, xds
mod consul;
mod dns;
mod docker;
#[cfg(feature = "etcd")]
mod etcd;
mod file;
#[cfg(test)]
mod hostile;
mod http;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod nomad;
#[cfg(feature = "xds")]
mod xds;

use crate::context::Context;
use crate::out::Out;
use crate::registry::never;
use evenkeel_config::plan::Source;

/// Runs a source of a plan, forever.
pub async fn run(source: Source, context: Context, out: Out) -> ! {
    match source {
        Source::Dns(dns) => dns::run(dns, context, out).await,
        Source::File(path) => file::run(path, out).await,
        Source::Http(list) => http::run(list, out).await,
        #[cfg(feature = "kubernetes")]
        Source::Kubernetes(kubernetes) => kubernetes::run(kubernetes, context, out).await,
        Source::Consul(consul) => consul::run(consul, out).await,
        Source::Nomad(nomad) => nomad::run(nomad, out).await,
        Source::Docker(docker) => docker::run(docker, context, out).await,
        #[cfg(feature = "etcd")]
        Source::Etcd(etcd) => etcd::run(etcd, context, out).await,
        #[cfg(feature = "xds")]
        Source::Xds(xds) => xds::run(xds, context, out).await,
        #[allow(unreachable_patterns, reason = "all are there with the default features")]
        other => never(format!("this program was built without {}", other.title()).into(), out).await,
    }
}

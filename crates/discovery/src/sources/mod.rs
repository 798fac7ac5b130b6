//! Sources of endpoints: one file per kind, and one line here. A source runs forever and puts its answers
//! into its [`Out`]; those that have to poll use [`poll`](crate::polling::poll).

mod consul;
mod dns;
mod docker;
mod etcd;
mod file;
mod http;
mod nomad;

use crate::context::Context;
use crate::out::Out;
use evenkeel_config::plan::Source;

/// Runs a source of a plan, forever.
pub async fn run(source: Source, context: Context, out: Out) -> ! {
    match source {
        Source::Dns(dns) => dns::run(dns, context, out).await,
        Source::File(path) => file::run(path, out).await,
        Source::Http(list) => http::run(list, out).await,
        Source::Consul(consul) => consul::run(consul, out).await,
        Source::Nomad(nomad) => nomad::run(nomad, out).await,
        Source::Docker(docker) => docker::run(docker, context, out).await,
        Source::Etcd(etcd) => etcd::run(etcd, context, out).await,
    }
}

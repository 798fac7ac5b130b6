//! `discover` of a pool: endpoints from a source that others keep up to date. See [`Discover`]; a file and a row here for
//! each source.

// Order: consul, dns, docker, etcd, http, kubernetes, nomad, xds, server, declare
mod consul;
mod declare;
mod dns;
mod docker;
mod etcd;
mod http;
mod kubernetes;
mod nomad;
mod server;
mod xds;

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::sections::resolver::Resolver;
use crate::table::{Absent, Declared, Field, Key, Kind, Lines, Section, Table, Value, table};
pub use consul::{Consul, ConsulServer};
use declare::{Asks, Settings, sources};
pub use dns::{Dns, Records};
pub use docker::{Docker, DockerServer};
pub use etcd::{Etcd, EtcdServer};
pub use http::HttpList;
pub use kubernetes::{Kubernetes, KubernetesServer, Scope, ServicePort};
pub use nomad::{Nomad, NomadServer};
pub use server::Credentials;
use std::fmt;
use std::path::PathBuf;
pub use xds::{Xds, XdsServer};

sources! {
    /// Records of a DNS name, followed by TTL.
    dns: Dns(Dns), "DNS", "DNS records of a name.";
    /// A file that lists endpoints.
    file: File(PathBuf), "file", "File with `endpoints` as in a pool: JSON if its name ends in `.json`, TOML otherwise. \
        Addresses only, no names. Checked for changes twice a second: write it in place, rename over it, \
        or point a symbolic link at a new one.";
    http: Http(HttpList), "HTTP", "List of endpoints that a server gives.";
    kubernetes: Kubernetes(Kubernetes), "Kubernetes",
        "Endpoints of a Service in the Kubernetes cluster of `[discovery.kubernetes]`.",
        asks KubernetesServer, "The Kubernetes cluster.";
    consul: Consul(Consul), "Consul", "Service in the Consul of `[discovery.consul]`.",
        asks ConsulServer, "The Consul agent or server.";
    nomad: Nomad(Nomad), "Nomad", "Service of the Nomad of `[discovery.nomad]`.",
        asks NomadServer, "The Nomad agent or server.";
    docker: Docker(Docker), "Docker", "Containers of the Docker or Podman of `[discovery.docker]`.",
        asks DockerServer, "The Docker engine, or Podman.";
    etcd: Etcd(Etcd), "etcd", "Keys in the etcd of `[discovery.etcd]`.", asks EtcdServer, "The members of etcd.";
    xds: Xds(Xds), "xDS", "Endpoints from the control plane of `[discovery.xds]`.", asks XdsServer, "The control plane.";
}

table! {
    pub(crate) static DISCOVER = "discover of [pool.NAME]",
        "Endpoints found while evenkeel runs, added to those of `endpoints`. Set exactly one source. While the source \
        fails, the last list it gave stays in use.";

    /// `discover` of a pool: endpoints in addition to those that the configuration lists.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Discover {
        source: Source, inline Source;
        /// True if an empty list empties the pool; if false, the last list with endpoints stays in use.
        allow_empty: bool = Key {
            name: "allow_empty",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Lets an empty list, or a name that does not exist, empty the pool. `false`: the last list with \
                endpoints stays in use.",
            why: "An empty list is more often a mistake of its source than intended.",
        };
    }
}

impl Settings for PathBuf {
    const KIND: Kind = Kind::Text(Form::File);

    fn shown(&self) -> String {
        self.display().to_string()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name(), self.shown())
    }
}

impl Discover {
    /// Fills in unset values of the table from other sections.
    pub(super) fn start_from(&mut self, resolver: &Resolver, servers: &Servers, pool: &Section) {
        let discover = pool.section("discover");
        self.source.start_from(resolver, servers, &discover);
    }
}

/// Reports a table with no source or two, and faults within a source.
pub(super) fn check(pool: &Section, findings: &mut Findings) {
    let Some(set) = pool.set("discover") else { return };
    let section = pool.section("discover");
    let there: Vec<&str> =
        Source::keys().iter().map(|key| key.name).filter(|name| section.set(name).is_some()).collect();
    match &there[..] {
        [] if !set.is_broken() => {
            findings
                .add(Code::Missing, set.span, "\"discover\" says nowhere to look")
                .help("add dns = { name = \"web.internal\", port = 8080 }, file = \"PATH\", or another source");
        }
        [] => {}
        [name] if section.has_read(name) => Source::check(name, &section, findings),
        [_] => {}
        [first, second, ..] => {
            let message = format!("a pool has one source: \"{first}\" or \"{second}\"");
            section
                .contradiction(section.span_of(first), message, second, findings)
                .help("keep one of the two; another pool can have the other");
        }
    }
}

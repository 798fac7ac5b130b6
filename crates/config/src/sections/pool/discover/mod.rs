//! `discover` of a pool: endpoints from a source that others keep up to date. See [`Discover`]; a file for each
//! source.

// Order: consul, dns, docker, etcd, http, kubernetes, nomad, xds, server
mod consul;
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
use crate::sections::discovery::Discovery;
use crate::sections::resolver::Resolver;
use crate::table::{Absent, Declared, Key, Kind, Lines, Section, quote, table};
pub(crate) use consul::CONSUL_SERVER;
pub use consul::{Consul, ConsulServer};
pub use dns::{Dns, Records};
pub(crate) use docker::DOCKER_SERVER;
pub use docker::{Docker, DockerServer};
pub(crate) use etcd::{ETCD_SERVER, check as check_etcd};
pub use etcd::{Etcd, EtcdServer};
pub use http::HttpList;
pub(crate) use kubernetes::KUBERNETES_SERVER;
pub use kubernetes::{Kubernetes, KubernetesServer, Scope, ServicePort};
pub(crate) use nomad::NOMAD_SERVER;
pub use nomad::{Nomad, NomadServer};
pub use server::Credentials;
pub(crate) use server::check as check_server;
use std::fmt;
use std::path::PathBuf;
pub(crate) use xds::XDS_SERVER;
pub use xds::{Xds, XdsServer};

table! {
    pub(crate) static DISCOVER = "discover of [pool.NAME]",
        "Endpoints found while evenkeel runs, added to those of `endpoints`. Set exactly one source. While the source \
        fails, the last list it gave stays in use.";

    /// `discover` of a pool: endpoints in addition to those that the configuration lists.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Discover {
        source: Source, rows [
            Key {
                name: "dns",
                kind: Kind::Table(&dns::DNS),
                absent: Absent::Means("no DNS source"),
                help: "DNS records of a name.",
                why: "",
            },
            Key {
                name: "file",
                kind: Kind::Text(Form::File),
                absent: Absent::Means("no file source"),
                help: "File with `endpoints` as in a pool: JSON if its name ends in `.json`, TOML otherwise. \
                    Addresses only, no names. Checked for changes twice a second: write it in place, rename over it, \
                    or point a symbolic link at a new one.",
                why: "",
            },
            Key {
                name: "http",
                kind: Kind::Table(&http::HTTP),
                absent: Absent::Means("no HTTP source"),
                help: "List of endpoints that a server gives.",
                why: "",
            },
            Key {
                name: "kubernetes",
                kind: Kind::Table(&kubernetes::KUBERNETES),
                absent: Absent::Means("no Kubernetes source"),
                help: "Endpoints of a Service in the Kubernetes cluster of `[discovery.kubernetes]`.",
                why: "",
            },
            Key {
                name: "consul",
                kind: Kind::Table(&consul::CONSUL),
                absent: Absent::Means("no Consul source"),
                help: "Service in the Consul of `[discovery.consul]`.",
                why: "",
            },
            Key {
                name: "nomad",
                kind: Kind::Table(&nomad::NOMAD),
                absent: Absent::Means("no Nomad source"),
                help: "Service of the Nomad of `[discovery.nomad]`.",
                why: "",
            },
            Key {
                name: "docker",
                kind: Kind::Table(&docker::DOCKER),
                absent: Absent::Means("no Docker source"),
                help: "Containers of the Docker or Podman of `[discovery.docker]`.",
                why: "",
            },
            Key {
                name: "etcd",
                kind: Kind::Table(&etcd::ETCD),
                absent: Absent::Means("no etcd source"),
                help: "Keys in the etcd of `[discovery.etcd]`.",
                why: "",
            },
            Key {
                name: "xds",
                kind: Kind::Table(&xds::XDS),
                absent: Absent::Means("no xDS source"),
                help: "Endpoints from the control plane of `[discovery.xds]`.",
                why: "",
            },
        ], read source, write write_source;
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

/// Names of the sources in the configuration.
const NAMES: [&str; 9] = ["dns", "file", "http", "kubernetes", "consul", "nomad", "docker", "etcd", "xds"];

/// Source of discovered endpoints. Each has the settings of its server, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Records of a DNS name, followed by TTL.
    Dns(Dns),
    /// A file that lists endpoints.
    File(PathBuf),
    Http(HttpList),
    Kubernetes(Kubernetes),
    Consul(Consul),
    Nomad(Nomad),
    Docker(Docker),
    Etcd(Etcd),
    Xds(Xds),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Dns(Dns { name, records: Records::Srv, .. }) => write!(f, "dns:{name}"),
            Source::Dns(Dns { name, port, .. }) => write!(f, "dns:{name}:{port}"),
            Source::File(path) => write!(f, "file:{}", path.display()),
            Source::Http(list) => write!(f, "http:{}", list.shown()),
            Source::Kubernetes(kubernetes) => write!(f, "kubernetes:{}/{}", kubernetes.namespace, kubernetes.service),
            Source::Consul(consul) => write!(f, "consul:{}", consul.service),
            Source::Nomad(nomad) => write!(f, "nomad:{}", nomad.service),
            Source::Docker(docker) => write!(f, "docker:{}", docker.labels.join(",")),
            Source::Etcd(etcd) => write!(f, "etcd:{}", etcd.prefix),
            Source::Xds(xds) => write!(f, "xds:{}", xds.cluster),
        }
    }
}

/// Reads the source. [`check`] reports a table with none or two.
fn source(discover: &Section) -> Source {
    let table = |name: &str| discover.set(name).map(|_| discover.section(name));
    if let Some(path) = discover.text("file") {
        return Source::File(PathBuf::from(path));
    }
    if let Some(table) = table("http") {
        return Source::Http(HttpList::of(&table));
    }
    if let Some(table) = table("kubernetes") {
        return Source::Kubernetes(Kubernetes::of(&table));
    }
    if let Some(table) = table("consul") {
        return Source::Consul(Consul::of(&table));
    }
    if let Some(table) = table("nomad") {
        return Source::Nomad(Nomad::of(&table));
    }
    if let Some(table) = table("docker") {
        return Source::Docker(Docker::of(&table));
    }
    if let Some(table) = table("etcd") {
        return Source::Etcd(Etcd::of(&table));
    }
    if let Some(table) = table("xds") {
        return Source::Xds(Xds::of(&table));
    }
    Source::Dns(Dns::of(&discover.section("dns")))
}

fn write_source(set: &Discover, _: &Discover, lines: &mut Lines) {
    match &set.source {
        Source::File(path) => lines.add("file", quote(&path.display().to_string())),
        Source::Dns(dns) => lines.add("dns", dns.lines(&Dns::unset()).braces()),
        Source::Http(list) => lines.add("http", list.lines(&HttpList::unset()).braces()),
        Source::Kubernetes(kubernetes) => lines.add("kubernetes", kubernetes.lines(&Kubernetes::unset()).braces()),
        Source::Consul(consul) => lines.add("consul", consul.lines(&Consul::unset()).braces()),
        Source::Nomad(nomad) => lines.add("nomad", nomad.lines(&Nomad::unset()).braces()),
        Source::Docker(docker) => lines.add("docker", docker.lines(&Docker::unset()).braces()),
        Source::Etcd(etcd) => lines.add("etcd", etcd.lines(&Etcd::unset()).braces()),
        Source::Xds(xds) => lines.add("xds", xds.lines(&Xds::unset()).braces()),
    }
}

impl Discover {
    /// Fills in unset values of the table from other sections.
    pub(super) fn start_from(&mut self, resolver: &Resolver, servers: &Discovery, pool: &Section) {
        match &mut self.source {
            Source::Dns(dns) => {
                if !pool.section("discover").section("dns").has("min_ttl") {
                    dns.min_ttl = resolver.min_ttl;
                }
            }
            Source::Kubernetes(kubernetes) => kubernetes.server = servers.kubernetes.clone(),
            Source::Consul(consul) => consul.server = servers.consul.clone(),
            Source::Nomad(nomad) => nomad.server = servers.nomad.clone(),
            Source::Docker(docker) => docker.server = servers.docker.clone(),
            Source::Etcd(etcd) => etcd.server = servers.etcd.clone(),
            Source::Xds(xds) => xds.server = servers.xds.clone(),
            Source::File(_) | Source::Http(_) => {}
        }
    }
}

/// Reports a table with no source or two, and faults within a source.
pub(super) fn check(pool: &Section, findings: &mut Findings) {
    let Some(set) = pool.set("discover") else { return };
    let section = pool.section("discover");
    let there: Vec<&str> = NAMES.into_iter().filter(|name| section.set(name).is_some()).collect();
    match &there[..] {
        [] if !set.is_broken() => {
            findings
                .add(Code::Missing, set.span, "\"discover\" says nowhere to look")
                .help("add dns = { name = \"web.internal\", port = 8080 }, file = \"PATH\", or another source");
        }
        [] => {}
        ["dns"] if section.has_read("dns") => dns::check(&section.section("dns"), findings),
        ["http"] if section.has_read("http") => http::check(&section.section("http"), findings),
        [_] => {}
        [first, second, ..] => {
            let message = format!("a pool has one source: \"{first}\" or \"{second}\"");
            section
                .contradiction(section.span_of(first), message, second, findings)
                .help("keep one of the two; another pool can have the other");
        }
    }
}

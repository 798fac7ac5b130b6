//! `[discovery]`: servers that sources of endpoints ask. See [`Discovery`]; each server is declared beside its source.

use super::pool::{CONSUL_SERVER, ConsulServer, DOCKER_SERVER, DockerServer, NOMAD_SERVER, NomadServer, check_server};
use super::pool::{ETCD_SERVER, EtcdServer, XDS_SERVER, XdsServer, check_etcd};
use crate::diagnostic::Findings;
use crate::table::{Absent, Key, Kind, Section, table};

table! {
    pub(crate) static DISCOVERY = "[discovery]",
        "Servers that pools with `discover` ask for their endpoints.";

    /// `[discovery]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Discovery {
        consul: ConsulServer = Key {
            name: "consul",
            kind: Kind::Table(&CONSUL_SERVER),
            absent: Absent::Means("its defaults"),
            help: "The Consul agent or server.",
            why: "",
        };
        nomad: NomadServer = Key {
            name: "nomad",
            kind: Kind::Table(&NOMAD_SERVER),
            absent: Absent::Means("its defaults"),
            help: "The Nomad agent or server.",
            why: "",
        };
        docker: DockerServer = Key {
            name: "docker",
            kind: Kind::Table(&DOCKER_SERVER),
            absent: Absent::Means("its defaults"),
            help: "The Docker engine, or Podman.",
            why: "",
        };
        etcd: EtcdServer = Key {
            name: "etcd",
            kind: Kind::Table(&ETCD_SERVER),
            absent: Absent::Means("its defaults"),
            help: "The members of etcd.",
            why: "",
        };
        xds: XdsServer = Key {
            name: "xds",
            kind: Kind::Table(&XDS_SERVER),
            absent: Absent::Means("its defaults"),
            help: "The control plane.",
            why: "",
        };
    }
}

/// Reports credentials that do not fit.
pub(crate) fn check(discovery: &Section, findings: &mut Findings) {
    for key in DISCOVERY.keys.iter().filter(|key| discovery.has(key.name)) {
        let server = discovery.section(key.name);
        match key.name {
            "etcd" => check_etcd(&server, findings),
            _ => check_server(&server, findings),
        }
    }
}

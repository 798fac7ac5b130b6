//! `[discovery]`: servers that sources of endpoints ask. See [`Discovery`]; each server is declared beside its source.

use super::pool::{
    CONSUL_SERVER, ConsulServer, DOCKER_SERVER, DockerServer, ETCD_SERVER, EtcdServer, KUBERNETES_SERVER,
    KubernetesServer, NOMAD_SERVER, NomadServer, XDS_SERVER, XdsServer, check_etcd, check_server,
};
use crate::diagnostic::Findings;
use crate::form::{Cidr, Form};
use crate::table::{Absent, Key, Kind, Section, table};

table! {
    pub(crate) static DISCOVERY = "[discovery]",
        "Servers that pools with `discover` ask for their endpoints.";

    /// `[discovery]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Discovery {
        kubernetes: KubernetesServer = Key {
            name: "kubernetes",
            kind: Kind::Table(&KUBERNETES_SERVER),
            absent: Absent::Means("its defaults"),
            help: "The Kubernetes cluster.",
            why: "",
        };
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
        /// Networks in which others may use addresses of this machine and its links.
        local_networks: Vec<Cidr> = Key {
            name: "local_networks",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("none"),
            help: "Networks, such as `[\"127.0.0.0/8\"]`, in which objects of Kubernetes, and pools with \
                `refuse_local`, may use addresses of this machine and its links, or addresses that evenkeel itself \
                listens on. By default, evenkeel never forwards to such addresses. The address of `[admin]` is never \
                used as a discovered endpoint.",
            why: "A user who may write an Ingress must not reach cloud metadata at 169.254.169.254, or services that \
                trust loopback.",
        };
    }
}

/// Reports credentials that do not fit.
pub(crate) fn check(discovery: &Section, findings: &mut Findings) {
    for name in ["consul", "nomad", "docker", "xds"].into_iter().filter(|name| discovery.has(name)) {
        check_server(&discovery.section(name), findings);
    }
    if discovery.has("etcd") {
        check_etcd(&discovery.section("etcd"), findings);
    }
}

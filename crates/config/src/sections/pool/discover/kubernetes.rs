//! `discover.kubernetes` of a pool, and `[discovery.kubernetes]`: endpoints of a Service. See [`Kubernetes`].

use super::declare::{Asks, Settings};
use crate::form::Form;
use crate::printable::quote;
use crate::table::{Absent, Field, Key, Kind, Value, table, words};
use std::path::PathBuf;

table! {
    static KUBERNETES = "discover.kubernetes of [pool.NAME]",
        "Endpoints of a Service in Kubernetes, from its EndpointSlices. Pods that are ready get requests. Pods that \
        terminate and still serve are drained; if no pod is ready, they get the requests.";

    /// `discover.kubernetes`: endpoints of a Service.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Kubernetes {
        service: String = Key {
            name: "service",
            kind: Kind::Text(Form::Content),
            absent: Absent::Required("\"web\""),
            help: "Name of the Service.",
            why: "",
        };
        namespace: String = Key {
            name: "namespace",
            kind: Kind::Text(Form::Content),
            absent: Absent::Default("\"default\""),
            help: "Namespace of the Service.",
            why: "",
        };
        /// Port of the Service that is used; `None` = its only port.
        port: Option<ServicePort> = Key {
            name: "port",
            kind: Kind::IntOrText { min: 1, max: 65_535, form: Form::Label },
            absent: Absent::Means("the only port of the Service"),
            help: "Port to use: by its name in the Service, such as `\"http\"`, or by the number at which pods listen. By name, \
                pods may listen at different numbers.",
            why: "",
        };
        /// Cluster to ask, from `[discovery.kubernetes]`.
        server: KubernetesServer, rows [], read |_| KubernetesServer::default(), write |_, _, _| ();
    }
}

impl Settings for Kubernetes {
    const KIND: Kind = Kind::Table(&KUBERNETES);

    fn shown(&self) -> String {
        format!("{}/{}", self.namespace, self.service)
    }
}

impl Asks<KubernetesServer> for Kubernetes {
    fn ask(&mut self, server: KubernetesServer) {
        self.server = server;
    }
}

table! {
    static KUBERNETES_SERVER = "[discovery.kubernetes]",
        "The cluster that pools with `discover.kubernetes` ask. They share one connection, over which the API server \
        reports changes. It needs the right to `list` and `watch` `endpointslices`, and no other.";

    /// `[discovery.kubernetes]`.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct KubernetesServer {
        /// File with servers, credentials and contexts; `None` = the service account of the pod, or `~/.kube/config`.
        kubeconfig: Option<PathBuf> = Key {
            name: "kubeconfig",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("the service account in a pod; else `KUBECONFIG`, or `~/.kube/config`"),
            help: "File with the address and the credentials of the cluster, as `kubectl` uses it.",
            why: "",
        };
        /// Context of the kubeconfig; `None` = its current context.
        context: Option<String> = Key {
            name: "context",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("the current one"),
            help: "Context of the kubeconfig.",
            why: "",
        };
        scope: Scope = Key {
            name: "scope",
            kind: Kind::Choice(Scope::WORDS),
            absent: Absent::Default("\"namespace\""),
            help: "What is watched. `namespace`: each namespace that a pool names, with a watch of its own, for which a Role in \
                that namespace is enough. `cluster`: all namespaces with one watch, which needs a ClusterRole; so it is with \
                `[provider.kubernetes]`, whatever this key says.",
            why: "It works with the least rights, and keeps only the Services of namespaces that are in use.",
        };
    }
}

words! {
    /// Part of a cluster that a watch covers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Scope {
        Namespace = "namespace",
        Cluster = "cluster",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServicePort {
    Name(String),
    /// Number at which pods listen.
    Number(u16),
}

impl Field for ServicePort {
    fn read(value: Value) -> ServicePort {
        match value {
            Value::Int(number) => ServicePort::Number(u16::try_from(number).unwrap_or_default()),
            value => ServicePort::Name(String::read(value)),
        }
    }

    fn write(&self, _: &ServicePort, _: &Kind) -> String {
        match self {
            ServicePort::Name(name) => quote(name),
            ServicePort::Number(number) => number.to_string(),
        }
    }
}

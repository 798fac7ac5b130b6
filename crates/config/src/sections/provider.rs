//! `[provider]`: systems that provide whole listeners, routes and pools, in addition to the file. See [`Providers`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Declared, Key, Kind, Section, table};
use std::net::IpAddr;
use std::sync::Arc;

table! {
    pub(crate) static PROVIDER = "[provider]",
        "Systems that provide listeners, routes and pools, in addition to the file.";

    /// `[provider]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Providers {
        kubernetes: Option<KubernetesProvider> = Key {
            name: "kubernetes",
            kind: Kind::Table(&KUBERNETES),
            absent: Absent::Means("Kubernetes provides only endpoints"),
            help: "Gateways, Routes and Ingresses of a Kubernetes cluster.",
            why: "",
        };
        xds: Option<XdsProvider> = Key {
            name: "xds",
            kind: Kind::Table(&XDS),
            absent: Absent::Means("xDS provides only endpoints"),
            help: "Listeners, routes and clusters of a control plane.",
            why: "",
        };
    }
}

table! {
    static KUBERNETES = "[provider.kubernetes]",
        "Gateways, Routes and Ingresses of the cluster of `[discovery.kubernetes]`. evenkeel turns them into \
        listeners, routes and pools, and writes their status. Unsupported parts are left out and listed in the status.";

    /// `[provider.kubernetes]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct KubernetesProvider {
        /// `controllerName` of the GatewayClasses, and `controller` of the IngressClasses, that are served.
        controller: Arc<str> = Key {
            name: "controller",
            kind: Kind::Text(Form::Content),
            absent: Absent::Default("\"evenkeel.dev/controller\""),
            help: "Name of this controller: `spec.controllerName` of a GatewayClass and `spec.controller` of an IngressClass.",
            why: "",
        };
        /// Class of Ingresses that is served even if no IngressClass has its name.
        ingress_class: Arc<str> = Key {
            name: "ingress_class",
            kind: Kind::Text(Form::Content),
            absent: Absent::Default("\"evenkeel\""),
            help: "Class of the Ingresses to serve, even if no IngressClass of this name exists.",
            why: "",
        };
        /// True if Gateways and Routes are served.
        gateways: bool = Key {
            name: "gateways",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Serves Gateways and their Routes, if the cluster has the Gateway API.",
            why: "",
        };
        /// True if Ingresses are served.
        ingresses: bool = Key {
            name: "ingresses",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Serves Ingresses.",
            why: "",
        };
        /// Addresses of this machine to listen on, for each Gateway in turn; not empty.
        addresses: Vec<IpAddr> = Key {
            name: "addresses",
            kind: Kind::List(&Kind::Text(Form::Ip)),
            absent: Absent::Default(r#"["::"]"#),
            help: "Addresses to listen on. With several addresses, each Gateway gets a separate address as long as \
                there are enough. Gateways that share an address share its ports. Ingresses use the first address.",
            why: "In a pod, all addresses belong to evenkeel.",
        };
        /// Addresses and host names that statuses show; empty = `addresses`.
        publish: Vec<Arc<str>> = Key {
            name: "publish",
            kind: Kind::List(&Kind::Text(Form::Content)),
            absent: Absent::Means("`addresses`; if these are unspecified (`::`), the address of the default route, if \
                any"),
            help: "Addresses and host names under which clients reach this evenkeel, for the status of Gateways and Ingresses.",
            why: "",
        };
        /// Service whose load balancer is shown in statuses: `NAMESPACE/NAME`.
        publish_service: Option<Arc<str>> = Key {
            name: "publish_service",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("none"),
            help: "Service in front, as `NAMESPACE/NAME`. Statuses show the addresses of its load balancer.",
            why: "",
        };
        /// Ports of the listeners for Ingresses, without and with TLS.
        http_port: u16 = Key {
            name: "http_port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Default("80"),
            help: "Port at which Ingresses are served without TLS.",
            why: "",
        };
        https_port: u16 = Key {
            name: "https_port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Default("443"),
            help: "Port at which Ingresses are served with TLS.",
            why: "",
        };
        /// Port of URLs to which Ingresses redirect requests without TLS.
        redirect_port: u16 = Key {
            name: "redirect_port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Default("443"),
            help: "Port at which clients reach `https_port`, for redirects of Ingresses to TLS: the port of the Service in front, or \
                `https_port` itself on the network of a node.",
            why: "The Services in `deploy` use it, whatever port the pods listen on.",
        };
        /// Secret with the certificate for hosts without a certificate: `NAMESPACE/NAME`.
        default_certificate: Option<Arc<str>> = Key {
            name: "default_certificate",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("a self-signed certificate"),
            help: "Secret, as `NAMESPACE/NAME`, with the certificate for hosts of Ingresses that name no certificate.",
            why: "",
        };
    }
}

table! {
    static XDS = "[provider.xds]",
        "Listeners, routes and clusters of the control plane of `[discovery.xds]` (LDS, RDS, CDS and EDS over ADS). An \
        unsupported resource is refused by name (NACK), and its last good version stays in use.";

    /// `[provider.xds]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct XdsProvider {
        /// True if only differences are sent.
        delta: bool = Key {
            name: "delta",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Requests differences (delta xDS) instead of whole lists.",
            why: "Every control plane supports whole lists.",
        };
    }
}

/// Reports contradictions within a provider.
pub(crate) fn check(providers: &Section, findings: &mut Findings) {
    let kubernetes = providers.section("kubernetes");
    for key in ["publish_service", "default_certificate"] {
        let Some(set) = kubernetes.set(key) else { continue };
        let is_pair = |text: &str| matches!(text.split_once('/'), Some((a, b)) if !a.is_empty() && !b.is_empty() && !b.contains('/'));
        if !set.text().is_some_and(is_pair) {
            findings
                .add(Code::BadName, set.span, format!("\"{key}\" is not NAMESPACE/NAME"))
                .help("write it as \"default/web\"");
        }
    }
    if let Some(set) = kubernetes
        .set("addresses")
        .filter(|_| kubernetes.formed_list("addresses").is_empty() && !kubernetes.is_broken())
    {
        findings
            .add(Code::OutOfRange, set.span, "\"addresses\" has no address")
            .help("leave it out to listen on all addresses");
    }
}

impl Providers {
    /// True if something comes from another place than the file.
    pub fn any(&self) -> bool {
        self != Providers::unset()
    }
}

//! Hostile objects from a seed: good objects of every kind, with values replaced, left out, and repeated.
//!
//! In both APIs, any namespace may take requests of a host by a longer path, or by a match on more than host and path.
//! So hostile objects have the innocent's exact hosts only with the innocent's paths.

use crate::hostile::{Dice, odd};
use crate::providers::kubernetes::world::store::Kind;
use crate::providers::kubernetes::{GATEWAY_KINDS, INGRESS_KINDS, KINDS};
use serde_json::{Map, Value, json};
use std::ops::{Deref, DerefMut};

const NAMESPACE: &str = "evil";

pub struct Shapes {
    dice: Dice,
    made: usize,
}

impl Deref for Shapes {
    type Target = Dice;

    fn deref(&self) -> &Dice {
        &self.dice
    }
}

impl DerefMut for Shapes {
    fn deref_mut(&mut self) -> &mut Dice {
        &mut self.dice
    }
}

/// Reads a manifest. If it names no namespace, the namespace is empty.
pub fn read(manifest: &str) -> (Kind, Value) {
    let mut object: Value = serde_saphyr::from_str(manifest).expect("a manifest");
    let kind = KINDS.into_iter().chain(GATEWAY_KINDS).chain(INGRESS_KINDS).find(|kind| object["kind"] == kind.name());
    let kind = kind.expect("a known kind");
    if object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = "".into();
    }
    (kind, object)
}

pub fn service(name: &str) -> String {
    format!("kind: Service\nmetadata: {{ name: {name}, namespace: {NAMESPACE} }}\nspec: {{ ports: [{{ port: 80 }}] }}")
}

/// Hosts of the innocent, with the paths that it has.
const THEIRS: [(&str, &str); 5] = [
    ("www.shop.example", "/"),
    ("www.shop.example", "/api"),
    ("in.shop.example", "/"),
    ("plain.shop.example", "/"),
    ("through.shop.example", "/"),
];

const HOSTS: [&str; 9] = [
    "evil.example",
    "*.evil.example",
    "*.shop.example",
    "*.example",
    "shop.example",
    "a.b.www.shop.example",
    "xn--80ak6aa92e.example",
    "1.2.3.4",
    "",
];

const PATHS: [&str; 12] =
    ["/", "/a", "/a/", "/a/{b}", "/*", "/a*b", "//", "/%2e%2e/", "/a?b", "/(a|b)", "/[a-z]+/$1", "/\u{e4}"];

const FIELDS: [&str; 10] = [
    "X-Evil",
    "Content-Length",
    "Transfer-Encoding",
    "Host",
    "Connection",
    ":path",
    "a b",
    "",
    "X-Forwarded-For",
    "Cookie",
];

const ANNOTATIONS: [&str; 40] = [
    "affinity",
    "app-root",
    "auth-method",
    "auth-realm",
    "auth-response-headers",
    "auth-secret",
    "auth-type",
    "auth-url",
    "backend-protocol",
    "cors-allow-origin",
    "cors-allow-credentials",
    "cors-allow-methods",
    "enable-cors",
    "force-ssl-redirect",
    "limit-rps",
    "limit-connections",
    "limit-burst-multiplier",
    "load-balance",
    "permanent-redirect",
    "permanent-redirect-code",
    "temporal-redirect",
    "proxy-body-size",
    "proxy-connect-timeout",
    "proxy-read-timeout",
    "proxy-next-upstream",
    "proxy-next-upstream-tries",
    "rewrite-target",
    "server-alias",
    "session-cookie-name",
    "session-cookie-path",
    "session-cookie-max-age",
    "ssl-passthrough",
    "ssl-redirect",
    "upstream-hash-by",
    "upstream-vhost",
    "use-regex",
    "whitelist-source-range",
    "denylist-source-range",
    "proxy-ssl-secret",
    "x-forwarded-prefix",
];

impl Shapes {
    pub fn new(seed: u64) -> Shapes {
        Shapes { dice: Dice::new(seed), made: 0 }
    }

    /// Makes the next object, of a random kind and shape.
    pub fn object(&mut self) -> (Kind, Value) {
        let (kind, mut object) = match self.below(13) {
            0..3 => self.ingress(),
            3..6 => self.http_route(),
            6 => self.theirs(),
            7 => self.other_route(),
            8 => self.gateway(),
            9 => self.service(),
            10 => self.secret(),
            11 => self.listener_set(),
            _ => self.policy(),
        };
        self.made += 1;
        let is_theirs = object["theirs"].take() == json!(true);
        if !is_theirs {
            for _ in 0..self.below(4) {
                let depth = self.below(9);
                self.harm(&mut object["spec"], depth);
                self.harm(&mut object["data"], 1);
            }
        }
        // The API server checks names, and gives times.
        let name = match self.below(4) {
            0 => "web".to_owned(),
            1 => format!("{}-{}", "n".repeat(50), self.made),
            2 => format!("{}.{}", "d.".repeat(100), self.made),
            _ => format!("evil-{}", self.made),
        };
        let meta = object["metadata"].as_object_mut().expect("metadata");
        meta.insert("name".into(), name.into());
        meta.insert("namespace".into(), NAMESPACE.into());
        meta.insert("uid".into(), format!("uid-{}", self.made).into());
        meta.insert("creationTimestamp".into(), "2026-01-01T00:00:00Z".into());
        (kind, object)
    }

    fn backend(&mut self) -> Value {
        let name = self.pick(&["web", "web", "evil-1", "none"]);
        let namespace = self.pick(&[NAMESPACE, NAMESPACE, "shop"]);
        let port = self.pick(&[80, 9000, 53, 0]);
        let mut backend = json!({ "name": name, "namespace": namespace, "port": port, "weight": self.below(3) });
        if self.once_in(3) {
            backend["filters"] = json!([self.filter()]);
        }
        backend
    }

    fn fields(&mut self) -> Value {
        let (set, add, remove) = (self.pick(&FIELDS), self.pick(&FIELDS), self.pick(&FIELDS));
        json!({ "set": [{ "name": set, "value": "1" }], "add": [{ "name": add, "value": "{x}" }], "remove": [remove] })
    }

    fn filter(&mut self) -> Value {
        let (host, path) = (self.pick(&HOSTS), self.pick(&PATHS));
        let path = json!({ "type": self.pick(&["ReplacePrefixMatch", "ReplaceFullPath"]), "replacePrefixMatch": path, "replaceFullPath": path });
        match self.below(7) {
            0 | 1 => json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": self.fields() }),
            2 => json!({ "type": "ResponseHeaderModifier", "responseHeaderModifier": self.fields() }),
            3 => {
                json!({ "type": "RequestRedirect", "requestRedirect": { "hostname": host, "path": path, "statusCode": self.pick(&[301, 302, 308, 200, 0]), "scheme": self.pick(&["http", "https", "x"]) } })
            }
            4 => json!({ "type": "URLRewrite", "urlRewrite": { "hostname": host, "path": path } }),
            5 => {
                json!({ "type": "RequestMirror", "requestMirror": { "backendRef": self.backend(), "percent": self.below(200) } })
            }
            _ => {
                json!({ "type": "CORS", "cors": { "allowOrigins": [self.pick(&["*", "https://*.evil.example", "x", ""])], "allowCredentials": true, "allowMethods": ["*"], "allowHeaders": [self.pick(&FIELDS)], "maxAge": self.below(100) } })
            }
        }
    }

    fn parents(&mut self) -> Value {
        let section = self.pick(&["http", "https", "sessions", "datagrams", "through", "none"]);
        let mut parent = json!({ "name": "web", "namespace": self.pick(&["infra", "infra", NAMESPACE]) });
        if self.once_in(3) {
            parent["sectionName"] = section.into();
        }
        json!([parent])
    }

    fn http_route(&mut self) -> (Kind, Value) {
        let rules: Vec<Value> = (0..=self.below(3)).map(|_| self.http_rule()).collect();
        let hosts: Vec<&str> = (0..=self.below(2)).map(|_| self.pick(&HOSTS)).collect();
        let spec = json!({ "parentRefs": self.parents(), "hostnames": hosts, "rules": rules });
        (Kind::HttpRoute, json!({ "metadata": {}, "spec": spec }))
    }

    fn http_rule(&mut self) -> Value {
        let kind = self.pick(&["PathPrefix", "Exact", "RegularExpression", "x"]);
        let matching = json!({
            "path": { "type": kind, "value": self.pick(&PATHS) },
            "headers": [{ "type": self.pick(&["Exact", "RegularExpression"]), "name": self.pick(&FIELDS), "value": self.pick(&PATHS) }],
            "queryParams": [{ "name": self.pick(&FIELDS), "value": "1" }],
            "method": self.pick(&["GET", "get", "X Y", ""]),
        });
        json!({
            "matches": [matching],
            "filters": [self.filter(), self.filter()],
            "backendRefs": [self.backend(), self.backend()],
            "timeouts": { "request": self.pick(&["1s", "0s", "-1s", "9999999h"]), "backendRequest": "2s" },
            "retry": { "codes": [self.pick(&[500, 200, 0, 999])], "attempts": self.below(100), "backoff": "1ms" },
        })
    }

    /// A younger claim to a host and path of the innocent.
    fn theirs(&mut self) -> (Kind, Value) {
        let (host, path) = self.pick(&THEIRS);
        if self.once_in(2) {
            let rule = json!({
                "matches": [{ "path": { "type": "PathPrefix", "value": path } }],
                "filters": if self.once_in(2) { json!([self.filter()]) } else { json!([]) },
                "backendRefs": [self.backend()],
            });
            let spec = json!({ "parentRefs": self.parents(), "hostnames": [host, "evil.example"], "rules": [rule] });
            return (Kind::HttpRoute, json!({ "theirs": true, "metadata": {}, "spec": spec }));
        }
        let paths = json!([{ "path": path, "pathType": "Prefix", "backend": { "service": { "name": "web", "port": { "number": 80 } } } }]);
        let mut annotations = self.annotations();
        for name in ["app-root", "use-regex", "rewrite-target"] {
            annotations.remove(&format!("nginx.ingress.kubernetes.io/{name}"));
        }
        let spec = json!({ "ingressClassName": "evenkeel", "rules": [{ "host": host, "http": { "paths": paths } }] });
        (Kind::Ingress, json!({ "theirs": true, "metadata": { "annotations": annotations }, "spec": spec }))
    }

    fn other_route(&mut self) -> (Kind, Value) {
        let kind = self.pick(&[Kind::GrpcRoute, Kind::TlsRoute, Kind::TcpRoute, Kind::UdpRoute]);
        let rules = match kind {
            Kind::GrpcRoute => json!([{
                "matches": [{ "method": { "type": self.pick(&["Exact", "RegularExpression"]), "service": self.pick(&["a.B", "shop.Orders", "/", "("]), "method": self.pick(&["C", ""]) } }],
                "filters": [self.filter()],
                "backendRefs": [self.backend()],
            }]),
            _ => json!([{ "backendRefs": [self.backend(), self.backend()] }]),
        };
        let spec = json!({ "parentRefs": self.parents(), "hostnames": [self.pick(&HOSTS)], "rules": rules });
        (kind, json!({ "metadata": {}, "spec": spec }))
    }

    fn listener(&mut self) -> Value {
        let protocol = self.pick(&["HTTP", "HTTPS", "TLS", "TCP", "UDP", "x"]);
        let mut listener = json!({
            "name": self.pick(&["http", "https", "x", ""]),
            "port": self.pick(&[80, 443, 9000, 9001, 9443, 8080]),
            "protocol": protocol,
            "hostname": self.pick(&HOSTS),
            "allowedRoutes": { "namespaces": { "from": self.pick(&["All", "Same", "None"]) } },
        });
        if matches!(protocol, "HTTPS" | "TLS") {
            let mode = self.pick(&["Terminate", "Passthrough"]);
            listener["tls"] = json!({ "mode": mode, "certificateRefs": [{ "name": "web" }] });
        }
        listener
    }

    fn gateway(&mut self) -> (Kind, Value) {
        let listeners: Vec<Value> = (0..=self.below(4)).map(|_| self.listener()).collect();
        let mut spec = json!({ "gatewayClassName": "evenkeel", "listeners": listeners });
        if self.once_in(3) {
            let authorities = json!({ "validation": { "caCertificateRefs": [{ "kind": "ConfigMap", "name": "ca" }] } });
            spec["tls"] = json!({ "frontend": { "default": authorities }, "backend": { "clientCertificateRef": { "name": "web" } } });
        }
        if self.once_in(4) {
            spec["addresses"] =
                json!([{ "type": "IPAddress", "value": self.pick(&["127.0.0.1", "0.0.0.0", "10.0.0.1", "x"]) }]);
        }
        (Kind::Gateway, json!({ "metadata": {}, "spec": spec }))
    }

    fn listener_set(&mut self) -> (Kind, Value) {
        let spec = json!({ "parentRef": { "name": "web", "namespace": "infra" }, "listeners": [self.listener(), self.listener()] });
        (Kind::ListenerSet, json!({ "metadata": {}, "spec": spec }))
    }

    fn service(&mut self) -> (Kind, Value) {
        let protocol = self.pick(&["TCP", "UDP", "SCTP"]);
        let ports = json!([
            { "name": "http", "port": 80, "appProtocol": self.pick(&["", "kubernetes.io/h2c", "x"]) },
            { "name": "grpc", "port": 9000 },
            { "name": "dns", "port": 53, "protocol": protocol },
        ]);
        (
            Kind::Service,
            json!({ "metadata": {}, "spec": { "type": self.pick(&["ClusterIP", "ExternalName"]), "ports": ports } }),
        )
    }

    fn secret(&mut self) -> (Kind, Value) {
        let texts = ["", "eA==", "YW5uOiQyeSQwNSQ=", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==", "!!", "AAAA"];
        let data = json!({
            "tls.crt": self.pick(&texts), "tls.key": self.pick(&texts), "auth": self.pick(&texts), "ca.crt": self.pick(&texts),
        });
        (Kind::Secret, json!({ "metadata": {}, "data": data }))
    }

    fn policy(&mut self) -> (Kind, Value) {
        let target =
            json!({ "group": "", "kind": "Service", "name": "web", "namespace": self.pick(&["shop", NAMESPACE]) });
        let spec = json!({
            "targetRefs": [target],
            "validation": { "hostname": self.pick(&HOSTS), "wellKnownCACertificates": "System" },
        });
        match self.once_in(2) {
            true => (Kind::BackendTlsPolicy, json!({ "metadata": {}, "spec": spec })),
            false => {
                let from = json!([{ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "shop" }]);
                (
                    Kind::ReferenceGrant,
                    json!({ "metadata": {}, "spec": { "from": from, "to": [{ "group": "", "kind": "Service" }] } }),
                )
            }
        }
    }

    fn annotations(&mut self) -> Map<String, Value> {
        let mut all = Map::new();
        for _ in 0..self.below(6) {
            let name = self.pick(&ANNOTATIONS);
            let value = match self.below(5) {
                0 => "true".into(),
                1 => self.below(1000).to_string().into(),
                2 => self.pick(&PATHS).into(),
                3 => self.pick(&HOSTS).into(),
                _ => {
                    let at = self.below(16);
                    odd(at)
                }
            };
            all.insert(format!("nginx.ingress.kubernetes.io/{name}"), value);
        }
        if self.once_in(4) {
            all.insert("nginx.ingress.kubernetes.io/canary".into(), "true".into());
            all.insert("nginx.ingress.kubernetes.io/canary-weight".into(), "100".into());
        }
        all
    }

    fn ingress(&mut self) -> (Kind, Value) {
        let rules: Vec<Value> = (0..=self.below(2))
            .map(|_| {
                let path = json!({
                    "path": self.pick(&PATHS), "pathType": self.pick(&["Prefix", "Exact", "ImplementationSpecific", "x"]),
                    "backend": { "service": { "name": self.pick(&["web", "none"]), "port": { "number": self.pick(&[80, 53, 0]) } } },
                });
                json!({ "host": self.pick(&HOSTS), "http": { "paths": [path] } })
            })
            .collect();
        let mut spec = json!({ "ingressClassName": "evenkeel", "rules": rules });
        if self.once_in(2) {
            let hosts = json!([self.pick(&HOSTS), "in.shop.example"]);
            spec["tls"] = json!([{ "hosts": hosts, "secretName": "web" }]);
        }
        if self.once_in(4) {
            spec["defaultBackend"] = json!({ "service": { "name": "web", "port": { "number": 80 } } });
        }
        (Kind::Ingress, json!({ "metadata": { "annotations": self.annotations() }, "spec": spec }))
    }
}

//! Each refusal of Traefik is kept, or its routes are closed.

use crate::protective::{Case, End, check};
use End::{Closed, Kept};
use evenkeel_convert::From;

/// Routers with middlewares, a file around which [`traefik`] writes.
fn around(inner: &str) -> String {
    format!(
        "http:\n  routers:\n    r: {{ rule: \"Host(`a.test`)\", service: s, middlewares: [m] }}\n  services:\n    \
         s: {{ loadBalancer: {{ servers: [{{ url: \"http://10.0.0.1:80\" }}] }} }}\n  middlewares:\n{inner}"
    )
}

fn middlewares(cases: Vec<(&str, End)>) {
    let cases: Vec<Case> = cases
        .into_iter()
        .map(|(inner, end)| Case { text: Box::leak(around(inner).into_boxed_str()), end, open: &[] })
        .collect();
    check(From::Traefik, "dynamic.yml", &cases);
}

#[test]
fn address_lists_and_passwords() {
    middlewares(vec![
        ("    m: { ipWhiteList: { sourceRange: [10.0.0.0/8] } }\n", Kept(&["access = { allow = [\"10.0.0.0/8\"] }"])),
        ("    m: { ipAllowList: { sourceRange: [10.0.0.1] } }\n", Kept(&["access = { allow = [\"10.0.0.1\"] }"])),
        (
            "    m: { ipAllowList: { sourceRange: [10.0.0.0/8], rejectStatusCode: 404 } }\n",
            Kept(&["allow = [\"10.0.0.0/8\"]", "status = 404"]),
        ),
        ("    m: { ipAllowList: { sourceRange: [10.0.0.0/8], ipStrategy: { depth: 2 } } }\n", Closed("ipAllowList")),
        (
            "    m: { ipAllowList: { sourceRange: [10.0.0.0/8], ipStrategy: { excludedIPs: [10.0.0.1] } } }\n",
            Closed("ipAllowList"),
        ),
        ("    m: { ipAllowList: { sourceRange: [] } }\n", Closed("sourceRange")),
        ("    m: { ipAllowList: { sourceRange: [office] } }\n", Closed("sourceRange")),
        (
            "    m: { basicAuth: { users: [\"a:$2y$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy\"] } }\n",
            Kept(&["basic_auth.users = \"a:$2y"]),
        ),
        ("    m: { basicAuth: { users: [\"a:{SHA}x\"] } }\n", Closed("users")),
        ("    m: { basicAuth: { users: [] } }\n", Closed("users")),
        ("    m: { basicAuth: { usersFile: /etc/users } }\n", Kept(&["basic_auth", "file = \"/etc/users\""])),
        ("    m: { digestAuth: { users: [\"a:b:c\"] } }\n", Closed("digestAuth")),
        (
            "    m: { forwardAuth: { address: \"http://auth:9091/verify\" } }\n",
            Kept(&["forward_auth", "path = \"/verify\""]),
        ),
        ("    m: { forwardAuth: { address: \"auth:9091\" } }\n", Closed("forwardAuth")),
        (
            "    m: { forwardAuth: { address: \"http://auth/\", authResponseHeadersRegex: \"^X-\" } }\n",
            Closed("forwardAuth"),
        ),
    ]);
}

#[test]
fn limits() {
    middlewares(vec![
        (
            "    m: { rateLimit: { average: 10, burst: 20 } }\n",
            Kept(&["limits = [{ requests = \"10/s\", burst = 20, key = \"client\" }]"]),
        ),
        ("    m: { rateLimit: { average: 7, period: 3s } }\n", Kept(&["limits = [{ requests = \"140/m\""])),
        ("    m: { rateLimit: { average: 1, period: 7s } }\n", Kept(&["limits = [{ requests = \"514/h\""])),
        ("    m: { rateLimit: { average: many } }\n", Closed("average")),
        ("    m: { rateLimit: { average: 1, period: 24h } }\n", Closed("rateLimit")),
        (
            "    m: { rateLimit: { average: 10, sourceCriterion: { requestHost: true } } }\n",
            Kept(&["key = \"header:Host\""]),
        ),
        ("    m: { rateLimit: { average: 10, sourceCriterion: { requestHeaderName: X-Key } } }\n", Closed("rateLimit")),
        ("    m: { inFlightReq: { amount: 5 } }\n", Kept(&["limits = [{ in_flight = 5, key = \"header:Host\" }]"])),
        ("    m: { inFlightReq: { amount: few } }\n", Closed("amount")),
        ("    m: { buffering: { maxRequestBodyBytes: 2000 } }\n", Kept(&["body_max = \"2000B\""])),
        ("    m: { buffering: { maxRequestBodyBytes: big } }\n", Closed("maxRequestBodyBytes")),
    ]);
}

#[test]
fn other_middlewares() {
    middlewares(vec![
        ("    m: { headers: { sslRedirect: true } }\n", Kept(&["redirect = { status = 301, scheme = \"https\" }"])),
        ("    m: { headers: { allowedHosts: [a.test] } }\n", Closed("allowedHosts")),
        ("    m: { redirectScheme: { scheme: https } }\n", Kept(&["redirect = { status = 302, scheme = \"https\" }"])),
        (
            "    m: { passTLSClientCert: { pem: true } }\n",
            Kept(&["remove = [\"X-Forwarded-Tls-Client-Cert\", \"X-Forwarded-Tls-Client-Cert-Info\"]"]),
        ),
        ("    m: { plugin: { bouncer: { enabled: true } } }\n", Closed("bouncer")),
        ("    m: { newKind: { a: b } }\n", Closed("newKind")),
        ("    m: {}\n", Closed("m")),
        ("    other: { compress: {} }\n", Closed("middlewares")),
        ("    m: { chain: { middlewares: [n] } }\n    n: { digestAuth: { users: [a] } }\n", Closed("digestAuth")),
        ("    m: { chain: { middlewares: [gone] } }\n", Closed("middlewares")),
        ("    m: { chain: { middlewares: [m] } }\n", Closed("chain")),
        (
            "    m: { chain: { middlewares: [a, b] } }\n    a: { ipAllowList: { sourceRange: [10.0.0.0/8] } }\n    \
             b: { ipAllowList: { sourceRange: [10.1.0.0/16] } }\n",
            Closed("ipAllowList"),
        ),
    ]);
}

#[test]
fn routers_and_entry_points() {
    const SERVICES: &str = "  services:\n    s: { loadBalancer: { servers: [{ url: \"http://10.0.0.1:80\" }] } }\n";
    let text = |text: &str| -> &'static str { Box::leak(format!("{text}{SERVICES}").into_boxed_str()) };
    let auth = "  middlewares:\n    m: { ipAllowList: { sourceRange: [10.0.0.0/8] } }\n";
    check(
        From::Traefik,
        "dynamic.yml",
        &[
            // A rule that cannot be written, before a router that takes all.
            Case {
                text: text(&format!(
                    "http:\n  routers:\n    r: {{ rule: \"PathPrefix(`/admin`) && Foo(`x`)\", service: s, middlewares: [m] }}\n    \
                     o: {{ rule: \"PathPrefix(`/`)\", service: s }}\n{auth}"
                )),
                end: Closed("rule"),
                open: &["name = \"o\""],
            },
            Case {
                text: text(&format!(
                    "http:\n  routers:\n    r: {{ rule: \"Header(`A`, `b`)\", priority: 9, service: s, middlewares: [m] }}\n    \
                     o: {{ rule: \"Path(`/x`)\", priority: 5, service: s }}\n{auth}"
                )),
                end: Kept(&["access = { allow = [\"10.0.0.0/8\"] }"]),
                open: &["name = \"o\""],
            },
            Case {
                text: text(&format!(
                    "entryPoints:\n  web: {{ address: \":80\", http: {{ middlewares: [m@file] }} }}\n\
                     http:\n  routers:\n    r: {{ rule: \"Host(`a.test`)\", service: s }}\n{auth}"
                )),
                end: Kept(&["access = { allow = [\"10.0.0.0/8\"] }"]),
                open: &[],
            },
            Case {
                text: text(
                    "entryPoints:\n  web: { address: \":80\", http: { middlewares: [gone] } }\n\
                     http:\n  routers:\n    r: { rule: \"Host(`a.test`)\", service: s }\n",
                ),
                end: Closed("rule"),
                open: &[],
            },
            Case {
                text: text(
                    "tls:\n  options:\n    default: { clientAuth: { caFiles: [/ca.pem], clientAuthType: RequireAndVerifyClientCert } }\n\
                     http:\n  routers:\n    r: { rule: \"Host(`a.test`)\", service: s, entryPoints: [websecure], tls: {} }\n",
                ),
                end: Kept(&["[listener.websecure]", "client_auth = { mode = \"required\", ca = \"/ca.pem\" }"]),
                open: &[],
            },
            Case {
                text: text(
                    "tls:\n  options:\n    m: { clientAuth: { caFiles: [/a.pem, /b.pem], clientAuthType: RequireAndVerifyClientCert } }\n\
                     http:\n  routers:\n    r: { rule: \"Host(`a.test`)\", service: s, entryPoints: [websecure], tls: { options: m } }\n",
                ),
                end: Closed("clientAuthType"),
                open: &[],
            },
            Case {
                text: text(
                    "tls:\n  options:\n    m: { clientAuth: { caFiles: [/a.pem], clientAuthType: RequireAndVerifyClientCert } }\n\
                     http:\n  routers:\n    r: { rule: \"Host(`a.test`)\", service: s, entryPoints: [websecure], tls: { options: m } }\n    \
                     o: { rule: \"Host(`o.test`)\", service: s, entryPoints: [websecure], tls: {} }\n",
                ),
                end: Closed("clientAuthType"),
                open: &["name = \"o\""],
            },
            Case {
                text: text(
                    "http:\n  routers:\n    r: { rule: \"Host(`a.test`)\", service: s, entryPoints: [websecure], tls: { options: gone@file } }\n",
                ),
                end: Closed("options"),
                open: &[],
            },
            Case {
                text: text(
                    "tls:\n  options:\n    default: { sniStrict: true }\n\
                     http:\n  routers:\n    r: { rule: \"Host(`a.test`)\", service: s, entryPoints: [websecure], tls: {} }\n",
                ),
                end: Kept(&["unknown_name = \"reject\""]),
                open: &[],
            },
            // A router without TLS gets no requests of an entry point whose other routers have it.
            Case {
                text: text(
                    "entryPoints:\n  s: { address: \":443\" }\nhttp:\n  routers:\n    \
                     r: { rule: \"Host(`a.test`)\", service: s, entryPoints: [s], tls: {} }\n    \
                     o: { rule: \"Host(`o.test`)\", service: s, entryPoints: [s] }\n",
                ),
                end: Kept(&["[listener.s]", "self_signed = true"]),
                open: &["name = \"r\""],
            },
        ],
    );
}

//! Routes see only fields that endpoints get: a client chose one by a field that `Connection` removed, or that the proxy
//! always removes.

use super::super::echo::{CLIENTS, Echoes, ask, got};
use super::super::field;

const ROUTES: &str = "
[[route]]
pool = 'web'
response_headers = { set = { X-Route = 'chosen' } }
[route.match]
any = [
    { header = { X-Internal = '1' } },
    { header = { TE = 'trailers' } },
    { header = { Keep-Alive = 'x' } },
    { header = { Proxy-Connection = 'x' } },
    { header = { X-Forwarded-Proto = 'https' } },
    { header = { X_Forwarded_Proto = 'https' } },
    { header = { X-Client-Cert-Verified = 'true' } },
    { header = { Connection = 'Upgrade' } },
    { cookie = { user = '1' } },
]
[[route]]
pool = 'web'
response_headers = { set = { X-Route = 'other' } }
";

#[tokio::test]
async fn a_field_that_no_endpoint_gets_chooses_no_route() {
    let echoes = Echoes::start();
    for (endpoint, proxy) in &echoes.proxies(ROUTES) {
        for (client, fields, route) in [
            ("", &[("x-internal", "1")][..], "chosen"),
            ("", &[("cookie", "user=1")], "chosen"),
            ("", &[("te", "trailers")], "other"),
            ("", &[("x-forwarded-proto", "https")], "other"),
            ("", &[("x_forwarded_proto", "https")], "other"),
            ("", &[("x-client-cert-verified", "true")], "other"),
            ("h1 client", &[("Connection", "X-Internal"), ("X-Internal", "1")], "other"),
            ("h1 client", &[("X-Internal", "1"), ("Connection", "close, x-internal")], "other"),
            ("h1 client", &[("Connection", "cookie"), ("Cookie", "user=1")], "other"),
            ("h1 client", &[("Connection", "x-other"), ("Cookie", "user=1")], "chosen"),
            ("h1 client", &[("Keep-Alive", "x")], "other"),
            ("h1 client", &[("Proxy-Connection", "x")], "other"),
            ("h1 client", &[("Connection", "Upgrade")], "other"),
            ("h1 client", &[("Connection", "Upgrade"), ("Upgrade", "h2c")], "other"),
            ("h1 client", &[("Connection", "Upgrade"), ("Upgrade", "tcp")], "chosen"),
        ] {
            for by in CLIENTS.into_iter().filter(|by| client.is_empty() || client == *by) {
                let answer = ask(by, proxy, "/", fields).await;
                assert_eq!((answer.0, field(&answer, "x-route")), (200, Some(route)), "{endpoint}, {by}: {fields:?}");
                let names = ["x-internal", "cookie", "keep-alive", "proxy-connection", "x_forwarded_proto"];
                let gets = names.iter().any(|name| !got(&answer, name).is_empty());
                assert!(route == "chosen" || !gets, "{endpoint}, {by}: {}", answer.2);
            }
        }
    }
}

#[tokio::test]
async fn fields_of_trusted_proxies_choose_routes() {
    let echoes = Echoes::start();
    for (endpoint, proxy) in &echoes.proxies_with("trusted_proxies = ['127.0.0.1']", ROUTES) {
        for by in CLIENTS {
            let route = async |name: &str, value: &str| {
                field(&ask(by, proxy, "/", &[(name, value)]).await, "x-route").map(str::to_string)
            };
            let at = format!("{endpoint}, {by}");
            assert_eq!(route("x-forwarded-proto", "https").await.as_deref(), Some("chosen"), "{at}");
            assert_eq!(route("x-client-cert-verified", "true").await.as_deref(), Some("other"), "{at}");
        }
    }
}

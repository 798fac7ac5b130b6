//! Maps: values of requests in fields, paths, redirects, matches, pools, and keys of limits and caches, from the
//! configuration and from files that change.

use super::access::List;
use super::jwt::signer::{Signer, now};
use super::{ask_h1, ask_h2, field};
use crate::support::endpoint::ok;
use crate::support::{Client, Endpoint, Proxy, wait_until};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

fn config(endpoint: SocketAddr, more: &str) -> String {
    format!(
        "[runtime]\nworkers = 2\n[listener.web]\nbind = ['$BIND']\nh2c = true\nerrors = 'detailed'\n\
         [pool.web]\nendpoints = ['{endpoint}']\n{more}"
    )
}

/// Answers with the path and the fields `x-plan` and `x-net` of the request.
fn echo() -> Endpoint {
    Endpoint::answering(|request| {
        let path = request.line().split(' ').nth(1).unwrap_or_default().to_string();
        let field = |name| request.field(name).unwrap_or("-").to_string();
        ok(&format!("{path} {} {}", field("x-plan"), field("x-net")))
    })
}

#[tokio::test]
async fn values_are_in_fields_paths_and_redirects_for_both_protocols() {
    let endpoint = echo();
    let more = "[map.plan]\nfrom = '{header.X-Tenant}'\nrows = { acme = 'gold', globex = 'silver' }\ndefault = '{map.by_host}'\n\
         [map.by_host]\nfrom = '{host}'\nmatch = 'host'\nrows = { a = 'ours' }\n\
         [map.net]\nfrom = '{client.ip}'\nmatch = 'network'\nrows = { '127.0.0.0/8' = 'inside' }\n\
         [map.page]\nfrom = '{path}'\nmatch = 'regex'\nrows = { '/old/[0-9]+' = '/new', '.*' = '/rest' }\n\
         [map.level]\nfrom = '{map.plan}'\nrows = { gold = '1' }\ndefault = '9'\n\
         [[route]]\npool = 'web'\nrequest_headers = { set = { X-Plan = '{map.plan}/{map.level}', X-Net = '{map.net}' } }\n\
         response_headers = { set = { X-Level = '{map.level}', X-Net = '{map.net}' } }\n\
         [[route]]\nmatch = { prefix = '/r' }\npool = 'web'\nrewrite = { path = '/x{map.page}' }\n\
         [[route]]\nmatch = { prefix = '/old' }\nredirect = 'https://{host}{map.page}?p={map.plan}'\n";
    let proxy = Proxy::start(&config(endpoint.addr, more));
    for h2 in [false, true] {
        let ask = async |path: &str, fields: &[(&str, &str)]| match h2 {
            true => ask_h2(&proxy, path, fields, "").await,
            false => ask_h1(&proxy, path, fields, ""),
        };
        let acme = ask("/", &[("x-tenant", "acme")]).await;
        assert_eq!(
            (&*acme.2, field(&acme, "x-level"), field(&acme, "x-net")),
            ("/ gold/1 inside", Some("1"), Some("inside"))
        );
        let other = ask("/", &[("x-tenant", "Acme")]).await;
        assert_eq!((&*other.2, field(&other, "x-level")), ("/ ours/9 inside", Some("9")));
        assert_eq!(ask("/r/7", &[]).await.2, "/x/rest - -");
        let moved = ask("/old/7", &[("x-tenant", "globex")]).await;
        assert_eq!((moved.0, field(&moved, "location")), (302, Some("https://a/new?p=silver")));
    }
}

#[test]
fn a_value_never_has_more_than_a_row_states() {
    // What a client sends is looked up, and not sent: a line break in it cannot reach the endpoint.
    let endpoint = echo();
    let more = "[map.plan]\nfrom = '{query.t}'\nmatch = 'prefix'\nrows = { a = 'gold' }\n[[route]]\npool = 'web'\n\
         request_headers = { set = { X-Plan = '{map.plan}' } }\n";
    let proxy = Proxy::start(&config(endpoint.addr, more));
    assert_eq!(ask_h1(&proxy, "/?t=a%0d%0aX:%201", &[], "").2, "/?t=a%0d%0aX:%201 gold -");
    let long = "a".repeat(7000);
    assert_eq!(ask_h1(&proxy, &format!("/?t={long}"), &[], "").0, 200);
    assert_eq!(ask_h1(&proxy, "/?t=", &[("x-plan", "of the client")], "").2, "/?t= - -");
}

#[tokio::test]
async fn a_map_chooses_the_route_and_the_pool_and_explanations_show_its_value() {
    let (endpoint, gold, silver) = (Endpoint::saying("web"), Endpoint::saying("gold"), Endpoint::saying("silver"));
    let more = format!(
        "[pool.gold]\nendpoints = ['{}']\n[pool.silver]\nendpoints = ['{}']\n\
         [map.tenant]\nfrom = '{{header.X-Tenant}}'\nrows = {{ acme = 'gold', globex = 'silver' }}\ndefault = 'web'\n\
         [map.blocked]\nfrom = '{{client.ip}}'\nmatch = 'network'\nrows = {{ '127.0.0.9' = 'yes' }}\n\
         [map.agent]\nfrom = '{{header.User-Agent}}'\nmatch = 'regex'\nrows = {{ '(?i).*bot.*' = 'bot' }}\ndefault = 'human'\n\
         [[route]]\nname = 'choice'\npool = '{{map.tenant}}'\n\
         [[route]]\nname = 'blocked'\nmatch = {{ map = {{ blocked = 'yes' }} }}\nrespond = 403\n\
         [[route]]\nname = 'bots'\nmatch = {{ path = '/page', map = {{ agent = 'bot' }} }}\nrespond = 204\n\
         [[route]]\nname = 'page'\nmatch = {{ path = '/page', not = {{ map = {{ agent = 'bot' }} }} }}\npool = 'web'\n",
        gold.addr, silver.addr
    );
    let proxy = Proxy::start(&config(endpoint.addr, &more));
    for (tenant, pool) in [("acme", "gold"), ("globex", "silver"), ("", "web"), ("ACME", "web")] {
        assert_eq!(ask_h1(&proxy, "/", &[("x-tenant", tenant)], "").2, pool);
        assert_eq!(ask_h2(&proxy, "/", &[("x-tenant", tenant)], "").await.2, pool);
    }
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(Client::connect_from([127, 0, 0, 9], proxy.addr()).send(get).response().status(), 403);
    assert_eq!(ask_h1(&proxy, "/page", &[("User-Agent", "GoogleBot/1")], "").0, 204);
    assert_eq!(ask_h1(&proxy, "/page", &[("User-Agent", "Mozilla")], "").2, "web");
    let described = evenkeel_view::described::Parts {
        method: "GET".into(),
        host: "a".into(),
        target: "/page".into(),
        fields: vec![("X-Tenant".into(), "acme".into()), ("User-Agent".into(), "a bot".into())],
        listener: None,
        client: None,
    };
    let would = proxy.server().looker().would_go(described.clone()).await.expect("it is routed");
    assert_eq!(would.routed.route.as_deref(), Some("bots"));
    let values: Vec<(&str, &str)> = would.maps.iter().map(|one| (&*one.map, &*one.value)).collect();
    assert_eq!(values, [("tenant", "gold"), ("blocked", ""), ("agent", "bot")]);
    let described = evenkeel_view::described::Parts { target: "/".into(), ..described };
    let would = proxy.server().looker().would_go(described).await.expect("it is routed");
    assert_eq!((would.routed.route.as_deref(), would.routed.pool.as_deref()), (Some("choice"), Some("gold")));
    assert!(would.pick.is_some());
}

#[test]
fn limits_and_caches_have_maps_in_their_keys() {
    let endpoint = echo();
    let more = "[map.plan]\nfrom = '{header.X-Tenant}'\nrows = { acme = 'gold', initech = 'gold', globex = 'silver' }\n\
         [[route]]\npool = 'web'\nrequest_headers = { set = { X-Plan = '{map.plan}' } }\n\
         cache = { ttl = { '200' = '1h' }, maps = ['plan'] }\n\
         [[route]]\nmatch = { path = '/limited' }\npool = 'web'\nlimits = [{ requests = '1/h', key = 'map:plan' }]\n";
    let proxy = Proxy::start(&config(endpoint.addr, more));
    let ask = |path: &str, tenant: &str| ask_h1(&proxy, path, &[("x-tenant", tenant)], "");
    let statuses = ["acme", "initech", "globex", "none", "none"].map(|tenant| ask("/limited", tenant).0);
    assert_eq!(statuses, [200, 429, 200, 200, 200], "requests without a value are not limited");
    endpoint.seen();
    let bodies = ["acme", "globex", "initech", "acme"].map(|tenant| ask("/page", tenant).2);
    assert_eq!(bodies, ["/page gold -", "/page silver -", "/page gold -", "/page gold -"]);
    assert_eq!(endpoint.seen().iter().filter(|seen| seen.line().contains("/page")).count(), 2);
}

#[test]
fn claims_of_a_token_are_values_and_inputs_of_maps() {
    let signer = Signer::new("ES256", "k");
    let keys = List::new("maps-jwks", &signer.set());
    let endpoint = echo();
    let more = format!(
        "[map.plan]\nfrom = '{{claim.tenant}}'\nrows = {{ acme = 'gold' }}\n[[route]]\npool = 'web'\n\
         jwt = {{ keys = '{}' }}\nrequest_headers = {{ set = {{ X-Plan = '{{map.plan}}', X-Net = '{{claim.sub}}' }} }}\n",
        keys.0.display()
    );
    let proxy = Proxy::start(&config(endpoint.addr, &more));
    let token = signer.token(&json!({ "sub": "anna", "tenant": "acme", "exp": now() + 3600 }));
    assert_eq!(ask_h1(&proxy, "/", &[("Authorization", &format!("Bearer {token}"))], "").2, "/ gold anna");
}

#[test]
fn a_file_that_changes_under_load_is_used_as_a_whole() {
    let endpoint = echo();
    let rows = |value: &str| (0..2000).map(|n| format!("tenant-{n} {value}-{n}\n")).collect::<String>();
    let file = List::new("maps-load", &rows("a"));
    let more = format!(
        "[map.one]\nfrom = '{{header.X-Tenant}}'\nfile = '{0}'\n[map.two]\nfrom = 'tenant-7'\nfile = '{0}'\n[[route]]\npool = 'web'\n\
         request_headers = {{ set = {{ X-Plan = '{{map.one}}', X-Net = '{{map.two}}' }} }}\n",
        file.0.display()
    );
    let proxy = Proxy::start(&config(endpoint.addr, &more));
    let replace = |text: &str| {
        let new = file.0.with_extension("new");
        std::fs::write(&new, text).expect("the folder can be written");
        std::fs::rename(&new, &file.0).expect("the folder can be written");
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let (proxy, done) = (&proxy, &done);
                scope.spawn(move || {
                    let (mut open, mut asked) = (proxy.client(), 0);
                    while !done.load(Ordering::Relaxed) {
                        let n = (client * 500 + asked) % 2000;
                        open.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Tenant: tenant-{n}\r\n\r\n"));
                        let body = open.response().body_text();
                        let is = |value: &str| body.starts_with(&format!("/ {value}-{n} "));
                        assert!(is("a") || is("b"), "{body}");
                        asked += 1;
                    }
                    asked
                })
            })
            .collect();
        let value = || ask_h1(&proxy, "/", &[("x-tenant", "tenant-1")], "").2;
        for (text, want) in [(rows("b"), "b-1"), (rows("a"), "a-1")] {
            replace(&text);
            wait_until("the new rows are used", || {
                proxy.server().resources().look();
                value().contains(want)
            });
        }
        replace("tenant-1 c-1\nwrong\n");
        (0..3).for_each(|_| proxy.server().resources().look());
        assert!(value().contains("a-1"), "a wrong file changes nothing");
        done.store(true, Ordering::Relaxed);
        let asked: usize = clients.into_iter().map(|client| client.join().expect("all answers are right")).sum();
        assert!(asked > 0);
    });
}

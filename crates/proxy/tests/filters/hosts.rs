//! `send_host` of routes: the client's host, a fixed one, or that of the endpoint at each try.

use super::echo::{CLIENTS, Echoes, ask, got, secure};
use crate::support::endpoint::{ok, status};
use crate::support::{Endpoint, Proxy};
use evenkeel_config::plan::{self, Address};

fn routes() -> String {
    let route = |path: &str, keys: &str| format!("[[route]]\npool = 'web'\nmatch = {{ path = '{path}' }}\n{keys}\n");
    route("/client", "send_host = 'client'")
        + &route("/fixed", "send_host = 'app.internal:8080'")
        + &route("/endpoint", "send_host = 'endpoint'")
}

#[tokio::test]
async fn the_endpoint_gets_the_host_that_the_route_sends_and_the_clients_in_a_field() {
    let echoes = Echoes::start();
    for (endpoint, proxy) in echoes.proxies(&routes()) {
        for client in CLIENTS {
            for (path, wanted) in [("/client", "a"), ("/fixed", "app.internal:8080"), ("/endpoint", "127.0.0.1:")] {
                let answer = ask(client, &proxy, path, &[]).await;
                let at = format!("{client}, {endpoint}, {path}: {answer:?}");
                let hosts = got(&answer, "host");
                assert!(answer.0 == 200 && hosts.len() == 1 && hosts[0].starts_with(wanted), "{at}");
                assert_eq!(got(&answer, "x-forwarded-host"), ["a"], "{at}");
            }
        }
    }
}

/// The host is that of the address in the file, at each try that of its endpoint.
#[tokio::test]
async fn each_try_has_the_host_of_its_endpoint_as_configured() {
    let bad = Endpoint::answering(|_| status("503 Busy", "busy"));
    let good = Endpoint::answering(|request| ok(request.field("host").unwrap_or("-")));
    let mut proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nh2c = true\n[pool.web]\nbalance = 'round_robin'\n\
         outlier = 'off'\nretry = {{ backoff = '1ms..2ms', on = [503], budget = 1.0 }}\nendpoints = ['bad.internal:80', \
         {{ addr = 'good.internal:81', name = 'g' }}, {{ addr = 'all.internal:82', resolve = 'all', weight = 0 }}]\n{}\n{}",
        routes(),
        secure("")
    ));
    // What discovery finds for these names.
    let found = |name: &str, endpoint: &Endpoint| plan::Endpoint {
        name: name.into(),
        addr: Address::Ip(endpoint.addr),
        ..plan::Endpoint::at(endpoint.addr)
    };
    proxy.resolve(vec![found("bad.internal:80", &bad), found("g", &good)]);
    for client in CLIENTS {
        for _ in 0..4 {
            let answer = ask(client, &proxy, "/endpoint", &[]).await;
            assert_eq!((answer.0, &*answer.2), (200, "good.internal:81"), "{client}");
        }
    }
    // The port of the scheme is left out.
    let hosts: Vec<String> = bad.seen().iter().filter_map(|seen| seen.field("host").map(str::to_string)).collect();
    assert!(!hosts.is_empty() && hosts.iter().all(|host| host == "bad.internal"), "{hosts:?}");
}

/// Endpoints with hosts and paths of their own: each try has those of its endpoint.
fn own(entries: [String; 2], pool: &str) -> Proxy {
    Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nerrors = 'detailed'\nh2c = true\n[pool.web]\nbalance = \
         'round_robin'\noutlier = 'off'\n{pool}\nendpoints = [{}, {}]\n[[route]]\npool = 'web'\nsend_host = 'endpoint'\n\
         rewrite = {{ prefix = '/r' }}\n{}",
        entries[0],
        entries[1],
        secure("")
    ))
}

#[tokio::test]
async fn each_try_has_the_host_and_the_path_of_its_endpoint() {
    let bad = Endpoint::answering(|_| status("503 Busy", "busy"));
    let good =
        Endpoint::answering(|request| ok(&format!("{} {}", request.line(), request.field("host").unwrap_or("-"))));
    let entries = [
        format!("{{ addr = '{}', host = 'bad.example', path_prefix = '/bad' }}", bad.addr),
        format!("{{ addr = '{}', host = 'good.example:81', path_prefix = '/good/v2' }}", good.addr),
    ];
    let proxy = own(entries, "retry = { backoff = '1ms..2ms', on = [503], budget = 1.0 }");
    for client in CLIENTS {
        for _ in 0..4 {
            let answer = ask(client, &proxy, "/x?y=1", &[]).await;
            assert_eq!((answer.0, &*answer.2), (200, "GET /good/v2/r/x?y=1 HTTP/1.1 good.example:81"), "{client}");
        }
    }
    let seen = bad.seen();
    assert!(!seen.is_empty(), "it is tried first at times");
    for request in seen {
        assert_eq!((request.line(), request.field("host")), ("GET /bad/r/x?y=1 HTTP/1.1", Some("bad.example")));
    }
}

#[tokio::test]
async fn a_second_copy_has_the_host_and_the_path_of_its_endpoint() {
    // Whichever is asked first for a slow path does not answer until the other one has.
    let slow = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let endpoint = |name: &'static str| {
        let slow = slow.clone();
        Endpoint::start(move |conn| {
            while let Some(request) = conn.request() {
                let is_first = || slow.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
                if request.line().contains("/slow") && is_first() {
                    conn.rest();
                    return;
                }
                conn.send(ok(&format!("{name} {} {}", request.line(), request.field("host").unwrap_or("-"))));
            }
        })
    };
    let endpoints = [endpoint("one"), endpoint("two")];
    let entry = |at: usize, name: &str| {
        format!("{{ addr = '{}', host = '{name}.example', path_prefix = '/{name}' }}", endpoints[at].addr)
    };
    let proxy = own(
        [entry(0, "one"), entry(1, "two")],
        "limits = { idle_per_endpoint = 0 }\nretry = { attempts = 0, hedge_after = 'p95', hedge_budget = 1 }",
    );
    let mut client = proxy.client();
    for _ in 0..110 {
        assert_eq!(client.get("/x").status(), 200);
    }
    // On a busy machine, a second copy may have been sent before, and may now arrive first.
    let before = proxy.pool(|pool| pool.hedges.get());
    let body = client.get("/slow").body_text();
    let name = body.split(' ').next().unwrap_or_default();
    assert_eq!(body, format!("{name} GET /{name}/r/slow HTTP/1.1 {name}.example"));
    assert_eq!(proxy.pool(|pool| pool.hedges.get()), before + 1);
}

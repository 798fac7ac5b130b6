//! `send_host` of routes: the client's host, a fixed one, or that of the endpoint at each try.

use super::echo::{CLIENTS, Echoes, ask, got};
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
         {{ addr = 'good.internal:81', name = 'g' }}, {{ addr = 'all.internal:82', resolve = 'all', weight = 0 }}]\n{}",
        routes()
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

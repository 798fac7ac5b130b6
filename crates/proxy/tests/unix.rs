//! Endpoints by Unix socket: requests and sessions of every protocol, checks, probes, ejection, reloads and the log.

use crate::support::endpoint::{ok, status};
use crate::support::h2_client::H2Client;
use crate::support::h2_server::H2Server;
use crate::support::log::Log;
use crate::support::tls::{Authority, answering};
use crate::support::unix::{Socket, free_path};
use crate::support::{Client, Endpoint, Proxy, wait_until};
use evenkeel_proxy::stats::PROBES;
use std::fmt::Display;

/// A configuration with one listener and the pool `web`, and more lines for both.
fn config(addrs: &[&dyn Display], listener: &str, pool: &str) -> String {
    let addrs: Vec<String> = addrs.iter().map(|addr| format!("'{addr}'")).collect();
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nerrors = 'detailed'\n{listener}\n[pool.web]\n\
         balance = 'round_robin'\nendpoints = [{}]\n{pool}\n",
        addrs.join(", ")
    )
}

/// Bodies of two requests on one connection of each protocol.
fn answers(proxy: &Proxy) -> Vec<String> {
    let (mut h1, mut h2) = (proxy.client(), H2Client::connect(proxy.addr()));
    let mut bodies: Vec<String> = (0..2).map(|_| h1.get("/").body_text()).collect();
    for stream in [1, 3] {
        assert!(h2.get(stream, "/"));
        bodies.push(h2.answer(stream).body_text());
    }
    bodies
}

#[test]
fn clients_of_both_protocols_reach_endpoints_of_both_by_path_and_by_abstract_name() {
    let (h1, h2) = (Endpoint::saying("h1"), H2Server::saying("h2"));
    for (said, endpoint, pool) in [("h1", h1.addr, ""), ("h2", h2.addr, "protocol = 'h2'")] {
        for socket in [Socket::to(endpoint), Socket::abstract_to(endpoint)] {
            let proxy = Proxy::start(&config(&[&socket.addr], "h2c = true", pool));
            assert_eq!(answers(&proxy), [said; 4], "{}", socket.addr);
            // One connection serves them all, as requests come one after another.
            assert_eq!(socket.accepted(), 1, "{said} {}", socket.addr);
        }
    }
}

#[test]
fn bodies_and_the_usual_fields_pass_and_the_socket_has_a_host() {
    let endpoint = Endpoint::answering(|request| {
        let field = |name| request.field(name).unwrap_or("-").to_owned();
        let len = request.body_text().len();
        ok(&format!("{} {} {} {len}", field("host"), field("x-forwarded-for"), field("x-forwarded-proto")))
    });
    let socket = Socket::to(endpoint.addr);
    let route = "[[route]]\npool = 'web'\nsend_host = 'endpoint'\n";
    let proxy = Proxy::start(&(config(&[&socket.addr], "", "") + route));
    let body = "x".repeat(300_000);
    let request = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let answer = proxy.client().send(request).response();
    assert_eq!(answer.body_text(), "localhost 127.0.0.1 http 300000");
}

#[test]
fn a_proxy_header_names_the_client() {
    let endpoint = Endpoint::start(|conn| {
        let line = conn.next_line();
        if conn.request().is_some() {
            conn.send(ok(&line));
        }
    });
    let socket = Socket::to(endpoint.addr);
    let proxy = Proxy::start(&config(&[&socket.addr], "", "proxy_protocol = 'v1'"));
    let body = proxy.client().get("/").body_text();
    assert!(body.starts_with("PROXY TCP4 127.0.0.1 "), "{body}");
}

#[test]
fn a_socket_that_is_not_there_is_a_refused_connection() {
    let (missing, good, log) = (free_path(), Endpoint::saying("good"), Log::new());
    let missing = format!("unix:{}", missing.display());
    let alone = Proxy::start(&config(&[&missing], "", "retry = { attempts = 0 }"));
    let answer = alone.client().get("/");
    assert_eq!(answer.status(), 502);
    let wanted = format!("pool \"web\": cannot connect to endpoint {missing}: No such file or directory");
    assert!(answer.body_text().contains(&wanted), "{}", answer.body_text());
    assert_eq!(alone.endpoint(0, |endpoint| endpoint.unreached.get()), 1);

    let both = Proxy::start(&(config(&[&missing, &good.addr], "", "outlier = 'off'") + &log.config()));
    assert_eq!(both.answers(4), ["good"]);
    let lines = log.lines(both);
    let tries = lines.iter().filter(|line| line["tries"].as_u64() == Some(2)).count();
    assert!(lines.len() == 4 && tries >= 1, "{lines:?}");
}

#[test]
fn tls_runs_over_it_with_the_name_of_the_endpoint_before_that_of_the_pool() {
    let authority = Authority::new("unix");
    let authority_file = authority.pem();
    let endpoints =
        ["one.test", "two.test"].map(|name| answering(authority.server(name, &[], |_| ()), move |_| ok(name)));
    let sockets = endpoints.each_ref().map(|endpoint| Socket::to(endpoint.addr));
    let entry = |at: usize, keys: &str| format!("{{ addr = '{}'{keys} }}", sockets[at].addr);
    let proxy = |entries: [String; 2]| {
        let text = format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nerrors = 'detailed'\n[pool.web]\nbalance = \
             'round_robin'\noutlier = 'off'\nretry = {{ attempts = 0 }}\ntls = {{ ca = '{}', server_name = 'one.test' }}\nendpoints = \
             [{}, {}]\n",
            authority_file.display(),
            entries[0],
            entries[1]
        );
        Proxy::start(&text)
    };
    let named = proxy([entry(0, ""), entry(1, ", tls_name = 'two.test'")]);
    assert_eq!(named.answers(4), ["one.test", "two.test"]);
    let wrong = proxy([entry(0, ", tls_name = 'two.test'"), entry(1, "")]);
    assert!(wrong.answers(2).iter().all(|body| body.contains("certificate")), "{:?}", wrong.answers(2));
    let _ = std::fs::remove_file(authority_file);
}

#[test]
fn sessions_of_tcp_pass_in_both_directions() {
    let endpoint = Endpoint::start(|conn| {
        let bytes = conn.rest();
        conn.send(bytes);
    });
    let socket = Socket::to(endpoint.addr);
    let text = config(&[&socket.addr], "mode = 'tcp'\npool = 'web'", "").replace("errors = 'detailed'", "");
    let proxy = Proxy::start(&text);
    let mut client = Client::connect(proxy.addr());
    client.send("over a socket").finish_sending();
    assert_eq!(client.rest(), b"over a socket");
}

#[test]
fn checks_follow_a_socket_that_comes_and_use_the_host_of_the_endpoint() {
    let endpoint = Endpoint::answering(|request| match (request.line(), request.field("host")) {
        ("GET /health HTTP/1.1", Some("localhost" | "own.test")) => ok("fine"),
        _ => status("500 No", "another request"),
    });
    let (path, other) = (free_path(), Socket::to(endpoint.addr));
    let addr = format!("unix:{}", path.display());
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\n[[route]]\npool = 'web'\nsend_host = 'endpoint'\n\
         [pool.web]\nhealth = {{ http = '/health', interval = '100ms', timeout = '100ms', initial = 'unhealthy' }}\n\
         endpoints = ['{addr}', {{ addr = '{}', name = 'other', host = 'own.test' }}]\n",
        other.addr
    ));
    proxy.becomes("other", "up");
    proxy.becomes(&addr, "down");
    let _socket = Socket::at(path, endpoint.addr);
    proxy.becomes(&addr, "up");
}

#[test]
fn probes_ask_over_it_by_http() {
    let endpoint = Endpoint::answering(|request| {
        let is_asked = request.line().starts_with("GET /load ") && request.field("host") == Some("localhost");
        if is_asked { ok("no report") } else { ok("served") }
    });
    let sockets = [Socket::to(endpoint.addr), Socket::to(endpoint.addr)];
    let proxy = Proxy::start(
        &config(
            &[&sockets[0].addr, &sockets[1].addr],
            "",
            "load_reports = { probe = 'http', path = '/load', timeout = '5s' }",
        )
        .replace("'round_robin'", "'prequal'"),
    );
    let came = PROBES.iter().position(|label| *label == "no_report").expect("a label");
    wait_until("a probe is answered", || {
        assert_eq!(proxy.client().get("/").body_text(), "served");
        proxy.pool(|pool| pool.probes[came].get()) > 0
    });
    assert!(endpoint.seen().iter().any(|seen| seen.line().starts_with("GET /load ")));
}

#[test]
fn one_that_fails_is_ejected_and_a_reload_keeps_connections() {
    let (bad, good) = (Endpoint::answering(|_| status("503 No", "bad")), Endpoint::saying("good"));
    let sockets = [Socket::to(bad.addr), Socket::to(good.addr)];
    let text = config(
        &[&sockets[0].addr, &sockets[1].addr],
        "",
        "retry = { attempts = 0 }\noutlier = { consecutive_gateway = 2, eject = '1h', eject_max = '1h' }",
    );
    let mut proxy = Proxy::start(&text);
    wait_until("it is ejected", || {
        proxy.client().get("/");
        proxy.state(&sockets[0].addr) == "ejected"
    });
    let before = sockets[1].accepted();
    assert_eq!(proxy.answers(2), ["good"]);
    proxy.reload(&text.replace("errors = 'detailed'", "")).expect("a good plan");
    assert_eq!(proxy.answers(2), ["good"]);
    assert_eq!((proxy.state(&sockets[0].addr), sockets[1].accepted()), ("ejected", before.max(1)));
}

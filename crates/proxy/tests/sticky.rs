//! Sticky sessions: a client returns to its endpoint by its cookie, whatever else changes, but not by a forged one.

use crate::support::endpoint::{ok, status};
use crate::support::message::Message;
use crate::support::nginx::Directory;
use crate::support::{Endpoint, Proxy, wait_until};
use evenkeel_proxy::Server;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Start of errors about the key, after the name of the pool.
const STICKY: &str = "the key of its sticky sessions: ";

const SECRET: &str = "secret = 'sixteen bytes or more'";

fn config(endpoints: &[SocketAddr], sticky: &str, pool: &str) -> String {
    let listed: Vec<String> = endpoints.iter().map(|addr| format!("'{addr}'")).collect();
    whole(&listed.join(", "), &format!("sticky = {{ {sticky} }}\n{pool}"))
}

fn whole(endpoints: &str, pool: &str) -> String {
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\n[pool.web]\nbalance = 'round_robin'\n\
         endpoints = [{endpoints}]\n{pool}\n"
    )
}

fn pair() -> [Endpoint; 2] {
    [Endpoint::saying("a"), Endpoint::saying("b")]
}

/// The response to a request with this cookie, on a new connection.
fn with(proxy: &Proxy, cookie: &str) -> Message {
    proxy.client().send(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: x=1; {cookie}; y=2\r\n\r\n")).response()
}

/// The endpoint of a new client, and the cookie that names it in the form that clients return.
fn new_client(proxy: &Proxy) -> (String, String) {
    let response = proxy.client().get("/");
    let cookie = cookie(&response).expect("a new client gets a cookie");
    (response.body_text(), cookie)
}

fn cookie(response: &Message) -> Option<String> {
    let value = response.field("set-cookie")?;
    Some(value.split(';').next().expect("a part before the first semicolon").to_string())
}

/// Asserts that a client with this cookie always gets this endpoint, and no new cookie.
#[track_caller]
fn stays(proxy: &Proxy, endpoint: &str, cookie: &str) {
    for _ in 0..6 {
        let response = with(proxy, cookie);
        assert_eq!((response.body_text().as_str(), response.field("set-cookie")), (endpoint, None));
    }
}

#[test]
fn a_client_gets_one_cookie_and_meets_its_endpoint_on_every_connection() {
    let endpoints = pair();
    let proxy = Proxy::start(&config(&endpoints.each_ref().map(|e| e.addr), SECRET, ""));
    let clients = [new_client(&proxy), new_client(&proxy)];
    assert_ne!(clients[0].0, clients[1].0, "they take turns");
    for (endpoint, cookie) in &clients {
        stays(&proxy, endpoint, cookie);
    }
}

#[test]
fn the_cookie_has_its_attributes() {
    let endpoint = Endpoint::saying("a");
    for (settings, attributes) in [
        ("", "Path=/; HttpOnly; SameSite=lax"),
        (", ttl = '1h', same_site = 'strict'", "Path=/; HttpOnly; Max-Age=3600; SameSite=strict"),
        (
            ", cookie = 'evenkeel', path = '/shop', secure = true, same_site = 'none'",
            "Path=/shop; HttpOnly; Secure; SameSite=none",
        ),
    ] {
        let proxy = Proxy::start(&config(&[endpoint.addr], &format!("{SECRET}{settings}"), ""));
        let response = proxy.client().get("/");
        let field = response.field("set-cookie").expect("a new client gets a cookie");
        let (pair, rest) = field.split_once("; ").expect("it has attributes");
        assert_eq!(rest, attributes);
        let token = pair.strip_prefix("evenkeel=").expect("its name");
        assert!(token.len() == 56 && token.bytes().all(|b| b.is_ascii_hexdigit()), "{token}");
        assert_eq!(response.head.matches("Set-Cookie").count(), 1);
        assert_eq!(response.body_text(), "a", "the rest of the response is as it was");
    }
}

#[test]
fn cookies_of_the_endpoint_stay() {
    let endpoint = Endpoint::answering(|_| b"HTTP/1.1 200 OK\r\nSet-Cookie: own=1\r\nContent-Length: 0\r\n\r\n".into());
    let proxy = Proxy::start(&config(&[endpoint.addr], SECRET, ""));
    let head = proxy.client().get("/").head;
    assert!(head.contains("\r\nSet-Cookie: own=1\r\n") && head.contains("\r\nSet-Cookie: evenkeel="), "{head}");
}

#[test]
fn every_instance_with_the_same_key_knows_it_and_so_does_a_key_from_a_file() {
    let (endpoints, dir) = (pair(), Directory::new());
    let addrs = endpoints.each_ref().map(|e| e.addr);
    let file = dir.0.join("key");
    std::fs::write(&file, "sixteen bytes or more\n").expect("a file of ours");
    let file = format!("secret_file = '{}'", file.display());
    let one = Proxy::start(&config(&addrs, SECRET, ""));
    let other = Proxy::start(&config(&addrs, SECRET, ""));
    let third = Proxy::start(&config(&[addrs[1], addrs[0]], &file, ""));
    for _ in 0..2 {
        let (endpoint, cookie) = new_client(&one);
        stays(&other, &endpoint, &cookie);
        stays(&third, &endpoint, &cookie);
    }
}

#[test]
fn a_key_that_is_made_outlives_the_process_and_another_instance_gets_it_by_file() {
    let (endpoints, dir) = (pair(), Directory::new());
    let addrs = endpoints.each_ref().map(|e| e.addr);
    let state = format!("[runtime]\nstate = '{}'\n", dir.0.join("orders.toml").display());
    let made = config(&addrs, "", "").replace("[runtime]\n", &state);
    let mut proxy = Proxy::start(&made);
    let (endpoint, cookie) = new_client(&proxy);
    proxy.reload(&made.replace("round_robin", "leastconn")).expect("nothing fails");
    stays(&proxy, &endpoint, &cookie);
    drop(proxy);
    stays(&Proxy::start(&made), &endpoint, &cookie);
    let file = format!("secret_file = '{}'", dir.0.join("sticky.key").display());
    stays(&Proxy::start(&config(&addrs, &file, "")), &endpoint, &cookie);

    std::fs::write(dir.0.join("file"), "").expect("a file of ours");
    let nowhere = made.replace("orders.toml", "file/orders.toml");
    let refused = Proxy::start(&made).reload(&nowhere).expect_err("there is no such folder").to_string();
    assert!(refused.contains("the key of its sticky sessions") && refused.contains("sticky.key"), "{refused}");
}

#[test]
fn a_reload_moves_no_client() {
    let (endpoints, new) = (pair(), Endpoint::saying("new"));
    let [a, b] = endpoints.each_ref().map(|e| e.addr);
    let mut proxy = Proxy::start(&config(&[a, b], SECRET, ""));
    let clients = [new_client(&proxy), new_client(&proxy)];
    let next = config(&[new.addr, b, a], SECRET, "queue = { max = 7 }").replace("round_robin", "leastconn");
    proxy.reload(&next).expect("nothing fails");
    for (endpoint, cookie) in &clients {
        stays(&proxy, endpoint, cookie);
    }
}

#[test]
fn a_cookie_that_is_not_ours_is_replaced() {
    let endpoints = pair();
    let addrs = endpoints.each_ref().map(|e| e.addr);
    let proxy = Proxy::start(&config(&addrs, SECRET, ""));
    let foreign = Proxy::start(&config(&addrs, "secret = 'another key of 24 bytes'", ""));
    let (_, good) = new_client(&proxy);
    let last = if good.ends_with('0') { "1" } else { "0" };
    let forged = format!("{}{last}", &good[..good.len() - 1]);
    let (_, of_another_key) = new_client(&foreign);
    for bad in [forged.as_str(), &of_another_key, "evenkeel=", "evenkeel=a", "evenkeel", &good.to_uppercase()] {
        let response = with(&proxy, bad);
        let new = cookie(&response).unwrap_or_else(|| panic!("a new one for {bad}"));
        stays(&proxy, &response.body_text(), &new);
    }
}

#[test]
fn an_old_cookie_is_replaced() {
    let endpoint = Endpoint::saying("a");
    let proxy = Proxy::start(&config(&[endpoint.addr], &format!("{SECRET}, ttl = '2s'"), ""));
    let (_, old) = new_client(&proxy);
    assert_eq!(with(&proxy, &old).field("set-cookie"), None, "it is new");
    let mut new = None;
    wait_until("its time is over", || {
        new = cookie(&with(&proxy, &old));
        new.is_some()
    });
    stays(&proxy, "a", &new.expect("it was waited for"));
}

#[test]
fn whose_endpoint_drains_stays_and_whose_left_goes_to_another_and_stays_there() {
    for drains in [true, false] {
        let endpoints = pair();
        let [a, b] = endpoints.each_ref().map(|e| e.addr);
        let mut proxy = Proxy::start(&config(&[a, b], SECRET, ""));
        let clients = [new_client(&proxy), new_client(&proxy)];
        let (_, cookie_of_a) = clients.iter().find(|client| client.0 == "a").expect("one of two");
        let rest = if drains { format!("{{ addr = '{a}', drain = true }}, '{b}'") } else { format!("'{b}'") };
        let sticky = format!("sticky = {{ {SECRET} }}");
        proxy.reload(&whole(&rest, &sticky)).expect("nothing fails");
        if drains {
            stays(&proxy, "a", cookie_of_a);
            assert_eq!([0; 8].map(|_| new_client(&proxy).0), ["b"; 8], "new clients go elsewhere");
            continue;
        }
        let moved = with(&proxy, cookie_of_a);
        assert_eq!(moved.body_text(), "b");
        stays(&proxy, "b", &cookie(&moved).expect("a new one"));
    }
}

#[test]
fn whose_endpoint_is_ejected_goes_to_another() {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = fails.clone();
    let a = Endpoint::answering(move |_| if failing.load(SeqCst) { status("500 No", "a") } else { ok("a") });
    let b = Endpoint::saying("b");
    let proxy = Proxy::start(&config(&[a.addr, b.addr], SECRET, "outlier = { consecutive_5xx = 2, eject = '60s' }"));
    let clients = [new_client(&proxy), new_client(&proxy)];
    let (_, cookie_of_a) = clients.iter().find(|client| client.0 == "a").expect("one of two");
    fails.store(true, SeqCst);
    assert_eq!([0; 2].map(|_| with(&proxy, cookie_of_a).status()), [500, 500]);
    wait_until("it is ejected", || proxy.state(a.addr) == "ejected");
    let moved = with(&proxy, cookie_of_a);
    assert_eq!(moved.body_text(), "b");
    stays(&proxy, "b", &cookie(&moved).expect("a new one"));
}

#[test]
fn whose_endpoint_cannot_be_reached_is_moved_by_the_retry() {
    let b = Endpoint::saying("b");
    let gone = crate::support::own_addr();
    let at_gone = {
        let there = Endpoint::on(std::net::TcpListener::bind(gone).expect("still free"), |conn| {
            while conn.request().is_some() {
                conn.send(ok("a"));
            }
        });
        let proxy = Proxy::start(&config(&[there.addr], SECRET, ""));
        new_client(&proxy).1
    };
    let proxy = Proxy::start(&config(&[gone, b.addr], SECRET, "outlier = 'off'"));
    let moved = with(&proxy, &at_gone);
    assert_eq!(moved.body_text(), "b");
    stays(&proxy, "b", &cookie(&moved).expect("a new one"));
}

/// With the same endpoints and key, only the pool's name makes a token invalid.
#[test]
fn a_cookie_of_one_pool_means_nothing_in_another() {
    let endpoints = pair();
    let pool = |name: &str| {
        let [a, b] = endpoints.each_ref().map(|e| e.addr);
        format!("[pool.{name}]\nendpoints = ['{a}', '{b}']\nsticky = {{ {SECRET} }}\n")
    };
    let routes = ["one", "two"]
        .map(|name| format!("[[route]]\nmatch = {{ host = ['{name}'] }}\npool = '{name}'\n{}", pool(name)))
        .concat();
    let proxy = Proxy::start(&format!("[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\n{routes}"));
    let ask = |host: &str, cookie: &str| {
        proxy.client().send(format!("GET / HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n")).response()
    };
    let of_one = cookie(&ask("one", "")).expect("a new client");
    assert_eq!(ask("one", &of_one).field("set-cookie"), None);
    assert!(cookie(&ask("two", &of_one)).is_some(), "it is not taken there");
}

#[test]
fn a_key_that_is_too_short_or_not_there_is_an_error_at_the_start_and_changes_nothing_later() {
    let (endpoint, dir) = (Endpoint::saying("a"), Directory::new());
    let (short, missing) = (dir.0.join("short"), dir.0.join("missing"));
    std::fs::write(&short, "too short      \n").expect("a file of ours");
    let mut proxy = Proxy::start(&config(&[endpoint.addr], SECRET, ""));
    let (_, cookie) = new_client(&proxy);
    for (file, why) in
        [(short, "the key has 9 bytes; at least 16 are required"), (missing, "No such file or directory")]
    {
        let text = config(&[endpoint.addr], &format!("secret_file = '{}'", file.display()), "");
        let refused = proxy.reload(&text).expect_err("the key is no good");
        let refused = refused.to_string();
        assert!(refused.contains(STICKY) && refused.contains(why), "{refused}");
        let plan = evenkeel_config::parse_str("test.toml", &text.replace("$BIND", "127.0.0.1:1"), &|_| None).plan;
        let refused = Server::start(plan.expect("a good plan")).err().expect("the key is no good");
        assert!(refused.to_string().contains(STICKY), "{refused}");
    }
    stays(&proxy, "a", &cookie);
}

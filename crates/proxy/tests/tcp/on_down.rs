//! Sessions of an endpoint that goes down: they end if the pool says so, and go on otherwise.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::{ok, status};
use crate::support::{Client, Endpoint, Proxy, wait_until};
use evenkeel_proxy::end::Cause;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// An endpoint that answers with its name, and whose check passes while the flag is true.
fn site(name: &'static str) -> (Endpoint, Arc<AtomicBool>) {
    let well = Arc::new(AtomicBool::new(true));
    let is_well = well.clone();
    let endpoint = Endpoint::answering(move |request| match request.line() {
        "GET /healthz HTTP/1.1" if is_well.load(SeqCst) => ok("well"),
        "GET /healthz HTTP/1.1" => status("503 Not Well", "not well"),
        _ => ok(name),
    });
    (endpoint, well)
}

fn proxy(endpoints: [&Endpoint; 2], on_down: &str) -> Proxy {
    Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nmode = \"tcp\"\npool = \"web\"\n\
         [pool.web]\nbalance = \"round_robin\"\nendpoints = [\"{}\", \"{}\"]\npanic = {{ healthy_below = 0.0 }}\n\
         health = {{ http = {{ path = \"/healthz\" }}, interval = \"100ms\", fall = 3, rise = 2 }}\n{on_down}",
        endpoints[0].addr, endpoints[1].addr
    ))
}

/// A session with the endpoint of this name.
fn session_with(proxy: &Proxy, name: &str) -> Client {
    loop {
        let mut client = proxy.client();
        if client.get("/").body_text() == name {
            return client;
        }
    }
}

#[test]
fn sessions_of_an_endpoint_that_goes_down_end_and_others_go_on() {
    let ((first, first_is_well), (second, _)) = (site("first"), site("second"));
    let proxy = proxy([&first, &second], "on_down = 'close'");
    let mut ended: Vec<Client> = (0..3).map(|_| session_with(&proxy, "first")).collect();
    let mut stays = session_with(&proxy, "second");
    first_is_well.store(false, SeqCst);
    proxy.becomes(first.addr, "down");
    ended.iter_mut().for_each(Client::ends);
    assert_eq!(stays.get("/").body_text(), "second");
    wait_until("all have ended", || proxy.pool(|stats| stats.ended_down.get()) == 3);
    assert_eq!(proxy.listener(|l| l.ends[Cause::Endpoint as usize].get()), 3);
    // Once it is well again, its new sessions go on.
    first_is_well.store(true, SeqCst);
    proxy.becomes(first.addr, "up");
    let mut again = session_with(&proxy, "first");
    wait_until("another sweep is over", || {
        let metrics = proxy.metrics();
        metrics.contains("evenkeel_sessions_ended_down_total{pool=\"web\"} 3")
    });
    assert_eq!(again.get("/").body_text(), "first");
}

#[test]
fn sessions_go_on_unless_the_pool_ends_them() {
    let ((first, first_is_well), (second, _)) = (site("first"), site("second"));
    let proxy = proxy([&first, &second], "");
    let mut session = session_with(&proxy, "first");
    first_is_well.store(false, SeqCst);
    proxy.becomes(first.addr, "down");
    assert_eq!(session_with(&proxy, "second").get("/").body_text(), "second");
    assert_eq!(session.get("/").body_text(), "first");
    assert_eq!(proxy.pool(|stats| stats.ended_down.get()), 0);
}

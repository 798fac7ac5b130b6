//! What happens to a connection whose worker ends?

#![allow(clippy::disallowed_types, reason = "a test waits for what a worker does")]

use crate::core::Command;
use crate::serve::memory::set_scenario;
use crate::support::{Client, Endpoint, Proxy, SOON, own_addr};
use std::sync::{Arc, Mutex, mpsc};

/// The worker is held while the request comes, and hears of it and of the drain in this order: that it is to drain, and
/// nothing else.
#[test]
fn a_request_that_has_come_on_a_kept_connection_is_served_though_the_worker_drains() {
    let (is_held, held) = mpsc::sync_channel(0);
    let (go_on, may_go_on) = mpsc::sync_channel(0);
    let may_go_on = Mutex::new(may_go_on);
    set_scenario(
        "holding",
        Arc::new(move |client| {
            is_held.send(()).expect("the test waits for it");
            may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test lets it go on");
            client.core.command.set(Command::Drain);
            client.core.wheel.wake_all();
            Box::pin(async {})
        }),
    );
    let endpoint = Endpoint::saying("hello");
    let holding = own_addr();
    let proxy = Proxy::with(&[endpoint.addr], "", "", &format!("[listener.holding]\nbind = ['{holding}']\n"));
    let (mut kept, mut idle) = (proxy.client(), proxy.client());
    for client in [&mut kept, &mut idle] {
        assert_eq!(client.get("/").field("connection"), None);
    }
    let mut holder = Client::connect(holding);
    // Only what a client has sent is accepted.
    holder.send("x");
    held.recv_timeout(SOON).expect("the worker is held");
    kept.send("GET /last HTTP/1.1\r\nHost: a\r\n\r\n");
    go_on.send(()).expect("the worker is held");
    let response = kept.response();
    assert_eq!((response.status(), response.field("connection")), (200, Some("close")));
    assert_eq!(endpoint.seen().last().map(|request| request.line()), Some("GET /last HTTP/1.1"));
    kept.ends();
    idle.ends();
}

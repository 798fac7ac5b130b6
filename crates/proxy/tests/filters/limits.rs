//! Limits of routes: rates and requests in flight by key, over all workers, and their answers.

use super::{ask_h1, ask_h2, field};
use crate::support::endpoint::ok;
use crate::support::h2_client::{Frame, H2Client, RST_STREAM};
use crate::support::log::Log;
use crate::support::{Client, Endpoint, Proxy, SOON, wait_until};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// A configuration with limits for everything, and four workers.
fn config(endpoint: SocketAddr, limits: &str, behind: &str) -> String {
    format!(
        "[runtime]\nworkers = 4\n[listener.web]\nbind = [\"$BIND\"]\nh2c = true\nerrors = \"detailed\"\n\
         [listener.other]\nbind = [\"{}\"]\n[pool.web]\nendpoints = [\"{endpoint}\"]\n\
         [[route]]\nname = \"all\"\npool = \"web\"\nlimits = [{limits}]\n{behind}",
        crate::support::own_addr()
    )
}

#[tokio::test]
async fn a_burst_passes_over_all_workers_and_protocols_and_the_rest_is_told_when_to_come_back() {
    let (endpoint, log) = (Endpoint::saying("hello"), Log::new());
    let behind = format!("{}\n[telemetry.explain]\nsample = 1\n", log.config());
    // One request in six minutes, so the rate adds none during the test.
    let proxy = Proxy::start(&config(endpoint.addr, "{ requests = '10/h', burst = 8 }", &behind));
    let mut statuses = Vec::new();
    for n in 0..12 {
        let answer = if n % 2 == 0 { ask_h1(&proxy, "/", &[], "") } else { ask_h2(&proxy, "/", &[], "").await };
        statuses.push(answer.0);
        if answer.0 != 429 {
            continue;
        }
        let again: u64 = field(&answer, "retry-after").expect("it says when").parse().expect("seconds");
        assert!((300..=360).contains(&again), "{again}");
        assert_eq!(field(&answer, "ratelimit-policy"), Some("\"client\";q=10;w=3600"));
        assert_eq!(field(&answer, "ratelimit"), Some(&*format!("\"client\";r=0;t={again}")));
        assert!(answer.2.contains("more than 10/h by client"), "{}", answer.2);
    }
    assert_eq!(statuses, [[200; 8].as_slice(), &[429; 4]].concat());
    // Another client, and then the same on a listener of its own: a route has one count for all of them.
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(Client::connect_from([127, 0, 0, 9], proxy.addr()).send(get).response().status(), 200);
    assert_eq!(Client::connect(proxy.server().addresses()[1]).send(get).response().status(), 429);
    wait_until("all are counted", || proxy.ended(429) == 4);
    let kept = proxy.server().looker().explanations().await;
    let mut steps = kept.iter().flat_map(|one| &one.filters);
    assert!(steps.any(|step| step.name == "limits" && step.did == "refused: more than 10/h by client"), "{kept:?}");
    let lines = log.lines(proxy);
    let refused: Vec<_> = lines.iter().filter(|line| line["status"] == 429).collect();
    assert_eq!(refused.len(), 5);
    assert!(refused.iter().all(|line| line["reason"].as_str().is_some_and(|why| why.contains("10/h"))), "{refused:?}");
}

#[test]
fn a_field_a_cookie_and_the_route_have_limits_of_their_own() {
    let endpoint = Endpoint::saying("hello");
    let limits = "{ requests = '1/h', burst = 2, key = 'header:X-Api-Key' }, { requests = '1/h', key = 'cookie:id' }, \
        { requests = '1/h', burst = 6, key = 'route' }";
    let proxy = Proxy::start(&config(endpoint.addr, limits, ""));
    let policy = |fields: &[(&str, &str)]| {
        let answer = ask_h1(&proxy, "/", fields, "");
        field(&answer, "ratelimit-policy").map(str::to_string)
    };
    assert_eq!([policy(&[("X-Api-Key", "a")]), policy(&[("X-Api-Key", "a")])], [None, None]);
    assert_eq!(policy(&[("X-Api-Key", "a")]).as_deref(), Some("\"header:x-api-key\";q=1;w=3600"));
    assert_eq!(policy(&[("X-Api-Key", "b"), ("Cookie", "x=y; id=1")]), None);
    assert_eq!(policy(&[("Cookie", "id=1")]).as_deref(), Some("\"cookie:id\";q=1;w=3600"));
    assert_eq!([policy(&[]), policy(&[]), policy(&[])], [None, None, None], "neither field nor cookie");
    assert_eq!(policy(&[]).as_deref(), Some("\"route\";q=1;w=3600"));
}

#[test]
fn requests_in_flight_give_their_places_back_however_they_end() {
    let (go_on, may_go_on) = channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let endpoint = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            // An error is the end of the test.
            let _ = may_go_on.lock().expect("no panic").recv_timeout(SOON);
            conn.send(ok("hello"));
        }
    });
    let proxy = Proxy::start(&config(endpoint.addr, "{ in_flight = 2 }", ""));
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let (mut first, mut second) = (proxy.client(), proxy.client());
    first.send(get);
    second.send(get);
    wait_until("both are in flight", || proxy.in_flight() == 2);
    let refused = proxy.client().get("/");
    assert_eq!((refused.status(), refused.field("retry-after")), (429, Some("1")));
    assert_eq!(refused.field("ratelimit-policy"), Some("\"client\";q=2;qu=\"concurrent-requests\""));
    let mut other = Client::connect_from([127, 0, 0, 9], proxy.addr());
    other.send(get);
    wait_until("another client has places of its own", || proxy.in_flight() == 3);
    // One ends with its response, the other because its client has gone.
    second.reset();
    wait_until("the reset one is gone", || proxy.in_flight() == 2);
    // The endpoint loses its request a moment before the limit gives the place back, maybe on another worker.
    let mut third = proxy.client();
    wait_until("its place is free", || {
        let refused = proxy.ended(429);
        third = proxy.client();
        third.send(get);
        wait_until("it is refused or in flight", || proxy.in_flight() == 3 || proxy.ended(429) > refused);
        proxy.in_flight() == 3
    });
    assert_eq!(proxy.client().get("/").status(), 429);
    (0..8).for_each(|_| _ = go_on.send(()));
    assert_eq!([&mut first, &mut third, &mut other].map(|client| client.response().status()), [200; 3]);
    assert_eq!(first.get("/").status(), 200, "all places are free");
}

#[test]
fn a_stream_that_is_reset_gives_its_place_back() {
    /// CANCEL (RFC 9113 section 7).
    const CANCEL: [u8; 4] = [0, 0, 0, 8];
    let endpoint = Endpoint::silent();
    let proxy = Proxy::start(&config(endpoint.addr, "{ in_flight = 1 }", ""));
    let mut client = H2Client::connect(proxy.addr());
    client.get(1, "/");
    wait_until("it is in flight", || proxy.in_flight() == 1);
    for stream in [3, 5, 7] {
        client.get(stream, "/");
        assert_eq!(client.answer(stream).status(), 429);
    }
    client.send(&Frame::new(RST_STREAM, 0, 1, CANCEL));
    wait_until("it is over", || proxy.in_flight() == 0);
    client.get(9, "/");
    wait_until("its place was free", || proxy.in_flight() == 1);
    client.send(&Frame::new(RST_STREAM, 0, 9, CANCEL));
}

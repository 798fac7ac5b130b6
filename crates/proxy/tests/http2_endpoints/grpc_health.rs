//! Health checks by the gRPC health service.

use crate::support::endpoint::ok;
use crate::support::h2_server::H2Server;
use crate::support::{Endpoint, Proxy, wait_until};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

const SERVING: u8 = 1;
const NOT_SERVING: u8 = 2;
// Other behaviours, with numbers that are not states.
const NO_SUCH_SERVICE: u8 = 20;
const NOT_FOUND: u8 = 21;
const RESET: u8 = 22;

/// An endpoint whose health service answers with the state in the cell.
fn endpoint(state: &Arc<AtomicU8>) -> H2Server {
    let state = state.clone();
    H2Server::start(move |mut exchange| {
        let state = state.clone();
        async move {
            exchange.read().await;
            let grpc = ("content-type", "application/grpc");
            match state.load(SeqCst) {
                NO_SUCH_SERVICE => {
                    let fields = [grpc, ("grpc-status", "5"), ("grpc-message", "no%20such%20service")];
                    exchange.reply(200, &fields, b"", &[]).await;
                }
                NOT_FOUND => exchange.reply(404, &[], b"", &[]).await,
                RESET => exchange.reset(h2::Reason::INTERNAL_ERROR),
                state => exchange.reply(200, &[grpc], &[0, 0, 0, 0, 2, 8, state], &[("grpc-status", "0")]).await,
            }
        }
    })
}

fn checking(addr: SocketAddr, grpc: &str) -> Proxy {
    let health = format!("protocol = 'h2'\nhealth = {{ grpc = {grpc}, interval = '100ms', fall = 2, rise = 1 }}");
    Proxy::with(&[addr], "", &health, "")
}

fn failure(proxy: &Proxy, addr: SocketAddr) -> Option<String> {
    let pools = proxy.server().control().pools();
    let id = evenkeel_balance::EndpointId::of(&addr.to_string());
    pools["web"].history().endpoint(id).expect("an endpoint of the pool").failure().map(str::to_owned)
}

#[test]
fn only_an_endpoint_that_is_serving_is_up_and_the_reason_is_kept() {
    let state = Arc::new(AtomicU8::new(SERVING));
    let endpoint = endpoint(&state);
    let proxy = checking(endpoint.addr, "{}");
    proxy.becomes(endpoint.addr, "up");
    for (answer, why) in [
        (NOT_SERVING, "the service is NOT_SERVING"),
        (0, "the service is UNKNOWN"),
        (3, "the service is SERVICE_UNKNOWN"),
        (NO_SUCH_SERVICE, "the call ended with not-found: no such service"),
        (NOT_FOUND, "answered 404"),
        (RESET, "reset the call (HTTP/2 error code 2)"),
    ] {
        state.store(answer, SeqCst);
        proxy.becomes(endpoint.addr, "down");
        wait_until(why, || failure(&proxy, endpoint.addr).as_deref() == Some(why));
        state.store(SERVING, SeqCst);
        proxy.becomes(endpoint.addr, "up");
    }
}

#[test]
fn a_check_asks_about_the_service_that_is_named() {
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = asked.clone();
    let endpoint = H2Server::start(move |mut exchange| {
        let noted = noted.clone();
        async move {
            let (body, _) = exchange.read().await;
            noted.lock().expect("nothing panics with it").push(body);
            exchange.reply(200, &[], &[0, 0, 0, 0, 2, 8, SERVING], &[("grpc-status", "0")]).await;
        }
    });
    for (grpc, host, body) in [
        ("'shop.Orders'", None, &b"\0\0\0\0\x0d\x0a\x0bshop.Orders"[..]),
        ("{ service = 'a', host = 'shop.test' }", Some("shop.test"), b"\0\0\0\0\x03\x0a\x01a"),
        ("{}", None, b"\0\0\0\0\0"),
    ] {
        let proxy = checking(endpoint.addr, grpc);
        proxy.becomes(endpoint.addr, "up");
        wait_until("it is asked", || asked.lock().expect("nothing panics with it").last().is_some_and(|b| b == body));
        let seen = endpoint.seen();
        let seen = seen.last().expect("it was asked");
        let host = host.map_or_else(|| endpoint.addr.to_string(), str::to_string);
        assert_eq!(seen.uri, format!("http://{host}/grpc.health.v1.Health/Check"));
        assert_eq!((seen.method.as_str(), seen.field("te")), ("POST", Some("trailers")));
        assert_eq!(seen.field("content-type"), Some("application/grpc"));
        drop(proxy);
    }
}

#[test]
fn an_endpoint_of_http1_is_down() {
    // The HTTP/2 preface begins like a head of HTTP/1.1; the rest is ignored.
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send(ok("well"));
        conn.rest();
    });
    let proxy = checking(endpoint.addr, "{}");
    proxy.becomes(endpoint.addr, "down");
    let why = failure(&proxy, endpoint.addr).expect("it failed");
    assert!(why.starts_with("does not answer over HTTP/2") || why.starts_with("closed the connection"), "{why}");
}

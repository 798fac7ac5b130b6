//! Requests that wait for the response that another one fetches: each gets its own, whatever becomes of the first one.

use super::world::{VERSIONS, Version, with};
use crate::support::h2_client::H2Client;
use crate::support::message::Message;
use crate::support::{Client, Endpoint, Proxy, SOON, wait_until};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

const CLIENTS: usize = 100;

/// Endpoint that answers its first request when the test lets it go, and others at once.
struct Held {
    endpoint: Endpoint,
    go: mpsc::Sender<()>,
    came: Arc<AtomicUsize>,
}

impl Held {
    fn new(app: impl Fn(&Message, usize) -> Vec<u8> + Send + Sync + 'static) -> Held {
        let (go, gone) = mpsc::channel::<()>();
        let (gone, came) = (Mutex::new(gone), Arc::new(AtomicUsize::new(0)));
        let count = came.clone();
        let endpoint = Endpoint::start(move |conn| {
            while let Some(request) = conn.request() {
                let at = count.fetch_add(1, Ordering::SeqCst);
                if at == 0 {
                    // The test has ended if nobody lets it go.
                    let _ = gone.lock().expect("no panic").recv_timeout(SOON);
                }
                let response = app(&request, at);
                if response.is_empty() {
                    return conn.close();
                }
                conn.send(response);
            }
        });
        Held { endpoint, go, came }
    }

    fn proxy(&self, cache: &str) -> Proxy {
        let sections = format!("[[route]]\npool = 'web'\ncache = {cache}\nretry = {{ attempts = 0 }}\n");
        Proxy::with(&[self.endpoint.addr], "h2c = true", "", &sections)
    }

    /// Waits until the first request is there.
    fn has_first(&self) {
        wait_until("the first request came", || self.came.load(Ordering::SeqCst) > 0);
    }
}

/// A client that has sent a request.
enum Waiting {
    H1(Client),
    H2(H2Client),
}

impl Waiting {
    fn new(proxy: &Proxy, version: Version, user: usize) -> Waiting {
        match version {
            Version::H1 => {
                let mut client = proxy.client();
                client.send(format!("GET /p HTTP/1.1\r\nHost: a\r\nCookie: user={user}\r\n\r\n"));
                Waiting::H1(client)
            }
            Version::H2 => {
                let client = H2Client::connect(proxy.addr());
                let cookie = format!("user={user}");
                let pseudo = [(":method", "GET"), (":scheme", "http"), (":path", "/p"), (":authority", "a")];
                client.head(1, &[&pseudo[..], &[("cookie", &cookie)]].concat(), true);
                Waiting::H2(client)
            }
        }
    }

    fn body(self) -> String {
        match self {
            Waiting::H1(mut client) => client.response().body_text(),
            Waiting::H2(mut client) => client.answer(1).body_text(),
        }
    }
}

fn user(request: &Message) -> String {
    request.field("cookie").unwrap_or("nobody").to_string()
}

#[test]
fn each_of_a_hundred_clients_gets_its_own_private_page() {
    for fields in [
        "Cache-Control: private",
        "Cache-Control: no-store",
        "Cache-Control: max-age=60|Vary: Cookie",
        "Cache-Control: max-age=60|Vary: *",
        "Cache-Control: max-age=60|Set-Cookie: session=1",
        "Cache-Control: max-age=0, must-revalidate, private|ETag: \"a\"",
        "",
    ] {
        for version in VERSIONS {
            let held = Held::new(move |request, _| with("200 OK", fields, &user(request)));
            let proxy = held.proxy("true");
            let first = Waiting::new(&proxy, version, 0);
            held.has_first();
            let others: Vec<Waiting> = (1..CLIENTS).map(|at| Waiting::new(&proxy, version, at)).collect();
            proxy.has_heard();
            held.go.send(()).expect("the endpoint waits");
            for (at, client) in std::iter::once(first).chain(others).enumerate() {
                assert_eq!(client.body(), format!("user={at}"), "{fields}, {version:?}");
            }
        }
    }
}

#[test]
fn others_do_not_get_the_error_or_the_redirect_of_the_first_request() {
    for status in ["302 Found", "400 Bad Request", "401 Unauthorized", "403 Forbidden", "500 Internal Server Error"] {
        for version in VERSIONS {
            let held = Held::new(move |request, at| {
                let status = if at == 0 { status } else { "200 OK" };
                with(status, "Location: /login", &user(request))
            });
            let proxy = held.proxy("true");
            let first = Waiting::new(&proxy, version, 0);
            held.has_first();
            let others: Vec<Waiting> = (1..20).map(|at| Waiting::new(&proxy, version, at)).collect();
            proxy.has_heard();
            held.go.send(()).expect("the endpoint waits");
            assert_eq!(first.body(), "user=0");
            for (at, client) in others.into_iter().enumerate() {
                assert_eq!(client.body(), format!("user={}", at + 1), "{status}, {version:?}");
            }
        }
    }
}

#[test]
fn others_are_answered_if_the_first_client_leaves() {
    for fields in ["Cache-Control: max-age=60", "Cache-Control: private"] {
        for version in VERSIONS {
            let held = Held::new(move |request, _| {
                let body = if fields.contains("private") { user(request) } else { "page".into() };
                with("200 OK", fields, &body)
            });
            let proxy = held.proxy("{ collapse = '1h' }");
            let first = Waiting::new(&proxy, version, 0);
            held.has_first();
            let others: Vec<Waiting> = (1..20).map(|at| Waiting::new(&proxy, version, at)).collect();
            proxy.has_heard();
            match first {
                Waiting::H1(client) => client.reset(),
                Waiting::H2(client) => drop(client),
            }
            wait_until("it has left", || proxy.metrics().contains("evenkeel_cache_unattended_fetches 1"));
            held.go.send(()).expect("the endpoint waits");
            for (at, client) in others.into_iter().enumerate() {
                let own = if fields.contains("private") { format!("user={}", at + 1) } else { "page".into() };
                assert_eq!(client.body(), own, "{fields}, {version:?}");
            }
        }
    }
}

#[test]
fn others_are_answered_if_the_first_response_does_not_begin() {
    for cut in ["", "HTTP/1.1 evil\r\n\r\n", "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n"] {
        for version in VERSIONS {
            let (go, gone) = mpsc::channel::<()>();
            let (gone, came) = (Mutex::new(gone), Arc::new(AtomicUsize::new(0)));
            let count = came.clone();
            let endpoint = Endpoint::start(move |conn| {
                while conn.request().is_some() {
                    if count.fetch_add(1, Ordering::SeqCst) == 0 {
                        let _ = gone.lock().expect("no panic").recv_timeout(SOON);
                        conn.send(cut);
                        return;
                    }
                    conn.send(with("200 OK", "Cache-Control: max-age=60", "whole"));
                }
            });
            let sections = "[[route]]\npool = 'web'\ncache = { collapse = '1h' }\nretry = { attempts = 0 }\n";
            let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", sections);
            let first = Waiting::new(&proxy, version, 0);
            wait_until("the first request came", || came.load(Ordering::SeqCst) > 0);
            let others: Vec<Waiting> = (1..20).map(|at| Waiting::new(&proxy, version, at)).collect();
            proxy.has_heard();
            go.send(()).expect("the endpoint waits");
            for client in others {
                assert_eq!(client.body(), "whole", "{cut:?}, {version:?}");
            }
            drop(first);
            // No endpoint has answered, so the others do not wait for each other.
            assert!(came.load(Ordering::SeqCst) >= 2, "{cut:?}");
        }
    }
}

#[test]
fn others_wait_no_longer_than_the_route_says_for_an_endpoint_that_hangs() {
    for version in VERSIONS {
        let held = Held::new(|_, _| with("200 OK", "Cache-Control: max-age=60", "page"));
        let proxy = held.proxy("{ collapse = '50ms' }");
        let first = Waiting::new(&proxy, version, 0);
        held.has_first();
        for at in 1..5 {
            assert_eq!(Waiting::new(&proxy, version, at).body(), "page", "{version:?}");
        }
        held.go.send(()).expect("the endpoint waits");
        assert_eq!(first.body(), "page");
    }
}

#[test]
fn others_do_not_wait_for_the_timeout_of_the_first_request() {
    let endpoint = Endpoint::start(|conn| {
        while let Some(request) = conn.request() {
            if request.field("cookie") == Some("user=0") {
                conn.rest();
                return;
            }
            conn.send(with("200 OK", "Cache-Control: max-age=60", "page"));
        }
    });
    let sections = "[[route]]\npool = 'web'\ncache = { collapse = '1h' }\nretry = { attempts = 0 }\n\
                    timeouts = { response = '200ms' }\n";
    for version in VERSIONS {
        let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", sections);
        let first = Waiting::new(&proxy, version, 0);
        wait_until("it is on its way", || proxy.in_flight() == 1);
        assert_eq!(Waiting::new(&proxy, version, 1).body(), "page", "{version:?}");
        assert!(first.body().contains("504"));
    }
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody() {
    const SIZE: usize = 6 << 20;
    let held = Held::new(|_, _| with("200 OK", "Cache-Control: max-age=60", &"x".repeat(SIZE)));
    let sections =
        "[[route]]\npool = 'web'\ncache = { collapse = '1h' }\n[cache]\nobject_max = '16MiB'\nmemory = '256MiB'\n";
    let proxy = Proxy::with(&[held.endpoint.addr], "h2c = true", "", sections);
    let slow = Waiting::new(&proxy, Version::H1, 0);
    held.has_first();
    held.go.send(()).expect("the endpoint waits");
    for at in 1..4 {
        assert_eq!(Waiting::new(&proxy, Version::H1, at).body().len(), SIZE);
    }
    assert_eq!(slow.body().len(), SIZE);
    assert_eq!(held.came.load(Ordering::SeqCst), 1);
}

#[test]
fn a_request_that_has_waited_reaches_the_endpoint_without_what_the_key_lacks() {
    let held = Held::new(|request, at| match at {
        0 => Vec::new(),
        _ => with("200 OK", "Cache-Control: max-age=60", &request.head),
    });
    let proxy = held.proxy("{ collapse = '1h', query_ignore = ['utm_source'] }");
    let first = Waiting::new(&proxy, Version::H1, 0);
    held.has_first();
    let mut attacker = proxy.client();
    let fields = "Host: a\r\nX-Host: evil\r\nX-Original-URL: /evil\r\nIf-None-Match: \"evil\"\r\n";
    attacker.send(format!("GET /p?utm_source=evil HTTP/1.1\r\n{fields}\r\n"));
    proxy.has_heard();
    held.go.send(()).expect("the endpoint waits");
    attacker.response();
    drop(first);
    let head = proxy.client().get("/p").body_text().to_lowercase();
    assert!(head.contains("get /p http/1.1") && !head.contains("evil"), "{head}");
}

//! `cors` of routes: which pages may read a response, and preflights, over both protocols on either side.

use crate::support::endpoint::status;
use crate::support::h2_client::H2Client;
use crate::support::h2_server::H2Server;
use crate::support::h3_client;
use crate::support::{Endpoint, Proxy};

/// Status and fields of a response.
type Answer = (u16, Vec<(String, String)>);

const ROUTES: &str = "[[route]]\npool = 'web'\nmatch = { prefix = '/any' }\ncors = { origins = ['*'], headers = ['*'] }\n\
    [[route]]\npool = 'web'\nmatch = { prefix = '/some' }\n\
    cors = { origins = ['https://a.example', 'https://*.b.example'], methods = ['PUT', 'DELETE'], \
    headers = ['X-A', 'X-C'], expose = ['X-B'], max_age = '10m' }\n\
    [[route]]\npool = 'web'\nmatch = { prefix = '/own' }\ncors = { origins = ['https://a.example'], methods = ['*'], \
    headers = ['*'], credentials = true }\n\
    [[route]]\npool = 'web'\nmatch = { prefix = '/world' }\ncors = { origins = ['*'], methods = ['*'], headers = ['*'], \
    credentials = true }\n\
    [[route]]\npool = 'web'\nmatch = { prefix = '/closed' }\naccess = { deny = ['127.0.0.0/8'] }\n\
    cors = { origins = ['https://a.example'] }\n\
    [[route]]\npool = 'web'\nmatch = { prefix = '/plain' }\n";

/// Fields that both endpoints send.
const SENT: [(&str, &str); 3] = [
    ("access-control-allow-origin", "https://evil.example"),
    ("Access-Control-Allow-Credentials", "true"),
    ("vary", "Accept"),
];

fn proxies() -> ((Endpoint, H2Server), [(&'static str, Proxy); 2]) {
    let h1 = Endpoint::answering(|_| {
        let fields: String = SENT.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nhi").into_bytes()
    });
    let h2 = H2Server::start(|mut exchange| async move {
        let fields = SENT.map(|(name, value)| (name.to_lowercase(), value));
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, *value)).collect();
        exchange.reply(200, &fields, b"hi", &[]).await;
    });
    let proxy = |endpoint: String, pool: &str| {
        Proxy::start(&format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nh2c = true\n{}[pool.web]\n\
             endpoints = ['{endpoint}']\n{pool}\n{ROUTES}",
            h3_client::secure("web", "")
        ))
    };
    let proxies = [
        ("h1 endpoint", proxy(h1.addr.to_string(), "")),
        ("h2 endpoint", proxy(h2.addr.to_string(), "protocol = 'h2'")),
    ];
    ((h1, h2), proxies)
}

/// Sends a request without a body over the protocol of this client.
fn ask(client: &str, proxy: &Proxy, method: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
    if client == "h1" {
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut client = proxy.client();
        let head = client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).head();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let fields = fields.map(|(name, value)| (name.to_lowercase(), value.trim().to_string())).collect();
        if status == 204 {
            client.is_quiet();
        }
        return (status, fields);
    }
    if client == "h3" {
        let answer = h3_client::ask_now(proxy, method, path, fields);
        return (answer.status(), answer.heads.last().cloned().unwrap_or_default());
    }
    let names: Vec<(String, &str)> = fields.iter().map(|(name, value)| (name.to_lowercase(), *value)).collect();
    let mut head = vec![(":method", method), (":scheme", "http"), (":path", path), (":authority", "a")];
    head.extend(names.iter().map(|(name, value)| (&**name, *value)));
    let mut client = H2Client::connect(proxy.addr());
    client.head(1, &head, true);
    let answer = client.answer(1);
    (answer.status(), answer.heads.last().cloned().unwrap_or_default())
}

/// Values of the field, joined; `None` without it.
fn all(answer: &Answer, name: &str) -> Option<String> {
    let named = answer.1.iter().filter(|(known, _)| known == name).map(|(_, value)| &**value);
    let values: Vec<&str> = named.collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// The fields of an answer that CORS is about, without the beginning of their names.
fn cors(answer: &Answer) -> Vec<(&str, &str)> {
    let mut fields: Vec<(&str, &str)> =
        answer.1.iter().filter_map(|(name, value)| Some((name.strip_prefix("access-control-")?, &**value))).collect();
    fields.sort_unstable();
    fields
}

/// Calls the test with each client and each proxy.
fn each(mut test: impl FnMut(&str, &str, &Proxy)) {
    // Dropped last: endpoints wait for the connections of their proxies.
    let (_endpoints, proxies) = proxies();
    for (endpoint, proxy) in &proxies {
        for client in ["h1", "h2", "h3"] {
            test(client, &format!("{client} client, {endpoint}"), proxy);
        }
    }
}

#[test]
fn a_page_of_an_allowed_origin_may_read_and_the_fields_of_the_endpoint_are_replaced() {
    each(|client, at, proxy| {
        for (path, origin, wanted, vary) in [
            ("/any", Some("https://x.example"), &[("allow-origin", "*")][..], "Accept"),
            ("/any", None, &[("allow-origin", "*")], "Accept"),
            (
                "/some",
                Some("https://a.example"),
                &[("allow-origin", "https://a.example"), ("expose-headers", "X-B")],
                "Accept, Origin",
            ),
            (
                "/some",
                Some("https://x.y.b.example"),
                &[("allow-origin", "https://x.y.b.example"), ("expose-headers", "X-B")],
                "Accept, Origin",
            ),
            ("/some", Some("https://b.example"), &[], "Accept, Origin"),
            ("/some", Some("http://a.example"), &[], "Accept, Origin"),
            ("/some", Some("null"), &[], "Accept, Origin"),
            ("/some", None, &[], "Accept, Origin"),
            (
                "/own",
                Some("https://a.example"),
                &[("allow-credentials", "true"), ("allow-origin", "https://a.example")],
                "Accept, Origin",
            ),
            ("/own", Some("https://evil.example"), &[], "Accept, Origin"),
        ] {
            let fields: Vec<(&str, &str)> = origin.map(|origin| ("Origin", origin)).into_iter().collect();
            let answer = ask(client, proxy, "GET", path, &fields);
            assert_eq!((answer.0, cors(&answer)), (200, wanted.to_vec()), "{at}, {path}, {origin:?}");
            assert_eq!(all(&answer, "vary").as_deref(), Some(vary), "{at}, {path}, {origin:?}");
        }
        let two = [("Origin", "https://a.example"), ("Origin", "https://a.example")];
        assert_eq!(cors(&ask(client, proxy, "GET", "/own", &two)), [], "{at}: no browser sends two");
        // A route without the key leaves it to the endpoint.
        let plain = ask(client, proxy, "GET", "/plain", &[("Origin", "https://a.example")]);
        assert_eq!(cors(&plain).len(), 2, "{at}: {plain:?}");
    });
}

#[test]
fn preflights_are_answered_without_the_endpoint() {
    let asks = |origin: &'static str| {
        [
            ("Origin", origin),
            ("Access-Control-Request-Method", "PUT"),
            ("Access-Control-Request-Headers", "x-a, authorization"),
        ]
    };
    each(|client, at, proxy| {
        for (path, origin, wanted, vary) in [
            // A star would not let pages send Authorization.
            (
                "/any",
                "https://x.example",
                &[("allow-headers", "x-a, authorization"), ("allow-origin", "*"), ("max-age", "5")][..],
                None,
            ),
            (
                "/some",
                "https://z.b.example",
                &[
                    ("allow-headers", "X-A, X-C"),
                    ("allow-methods", "PUT, DELETE"),
                    ("allow-origin", "https://z.b.example"),
                    ("expose-headers", "X-B"),
                    ("max-age", "600"),
                ],
                Some("Origin"),
            ),
            ("/some", "https://evil.example", &[], Some("Origin")),
            (
                "/own",
                "https://a.example",
                &[
                    ("allow-credentials", "true"),
                    ("allow-headers", "x-a, authorization"),
                    ("allow-methods", "PUT"),
                    ("allow-origin", "https://a.example"),
                    ("max-age", "5"),
                ],
                Some("Origin"),
            ),
        ] {
            let answer = ask(client, proxy, "OPTIONS", path, &asks(origin));
            assert_eq!((answer.0, cors(&answer)), (204, wanted.to_vec()), "{at}, {path}, {origin}");
            assert_eq!(all(&answer, "vary").as_deref(), vary, "{at}, {path}, {origin}");
            assert_eq!((all(&answer, "content-length"), all(&answer, "content-type")), (None, None), "{at}, {path}");
        }
        // Other requests with OPTIONS are for the endpoint.
        for fields in [&asks("https://a.example")[..1], &asks("https://a.example")[1..], &[]] {
            assert_eq!(ask(client, proxy, "OPTIONS", "/some", fields).0, 200, "{at}, {fields:?}");
        }
        // Access lists are for preflights too, and a page may read the refusal.
        let closed = ask(client, proxy, "OPTIONS", "/closed", &asks("https://a.example"));
        assert_eq!((closed.0, cors(&closed)), (403, vec![("allow-origin", "https://a.example")]), "{at}");
    });
    let ((h1, h2), proxies) = proxies();
    for (_, proxy) in &proxies {
        let mut client = proxy.client();
        for _ in 0..2 {
            let lines: String =
                asks("https://a.example").iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let head = client.send(format!("OPTIONS /own HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).head();
            assert!(head.starts_with("HTTP/1.1 204 No Content"), "the connection stays: {head}");
        }
    }
    assert_eq!((h1.seen().len(), h2.seen().len()), (0, 0));
}

#[test]
fn pages_may_read_the_errors_of_this_side() {
    let busy = Endpoint::answering(|_| status("503 Busy", "busy"));
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nh2c = true\n[pool.web]\nendpoints = ['{}']\n\
         {}",
        busy.addr,
        ROUTES.replacen(
            "pool = 'web'\nmatch = { prefix = '/some' }",
            "pool = 'web'\nbody_max = '1B'\nmatch = { prefix = '/some' }",
            1
        )
    ));
    let fields = [("Origin", "https://a.example"), ("Content-Length", "2")];
    let answer = ask("h1", &proxy, "POST", "/some", &fields);
    assert_eq!((answer.0, cors(&answer)[0]), (413, ("allow-origin", "https://a.example")));
    let answer = ask("h1", &proxy, "GET", "/some", &fields[..1]);
    assert_eq!((answer.0, cors(&answer)[0]), (503, ("allow-origin", "https://a.example")));
}

/// Gateway API's rule. Browsers take no star where pages have credentials.
#[test]
fn with_credentials_every_origin_is_named_but_that_of_sandboxed_pages() {
    let (_endpoints, proxies) = proxies();
    for (endpoint, proxy) in &proxies {
        for client in ["h1", "h2"] {
            let at = format!("{client}, {endpoint}");
            let asks = [
                ("Origin", "https://other.example:123"),
                ("Access-Control-Request-Method", "PUT"),
                ("Access-Control-Request-Headers", "x-header-1, x-header-2"),
            ];
            let preflight = ask(client, proxy, "OPTIONS", "/world", &asks);
            for (name, value) in [
                ("access-control-allow-origin", "https://other.example:123"),
                ("access-control-allow-methods", "PUT"),
                ("access-control-allow-headers", "x-header-1, x-header-2"),
                ("access-control-allow-credentials", "true"),
            ] {
                assert_eq!(all(&preflight, name).as_deref(), Some(value), "{at}: {preflight:?}");
            }
            let answer = ask(client, proxy, "GET", "/world", &asks[..1]);
            assert_eq!(
                all(&answer, "access-control-allow-origin").as_deref(),
                Some("https://other.example:123"),
                "{at}"
            );
            assert!(all(&answer, "vary").is_some_and(|vary| vary.contains("Origin")), "{at}: {answer:?}");
            let sandboxed = ask(client, proxy, "GET", "/world", &[("Origin", "null")]);
            assert_eq!(all(&sandboxed, "access-control-allow-origin"), None, "{at}");
        }
    }
}

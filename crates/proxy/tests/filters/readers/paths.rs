//! Paths that servers read in several ways, over HTTP/1.1 and HTTP/2 to endpoints of both: refused, normalised and as
//! sent.

use crate::filters::echo::{CLIENTS, Echoes, ask, got};
use crate::filters::field;

const ROUTES: &str = r#"
[[route]]
name = "open"
pool = "web"
response_headers = { set = { X-Route = "open" } }
[[route]]
name = "admin"
pool = "web"
match = { prefix = "/admin" }
strip_prefix = true
response_headers = { set = { X-Route = "admin", X-Path = "{path}" } }
[[route]]
name = "password"
pool = "web"
match = { prefix = "/password" }
response_headers = { set = { X-Route = "password" } }
basic_auth = { users = "ann:$2y$04$bUeub1GoVcOIVEXKSXSHeO4dSoQQKHyFfJbSGubQcLL8CBIY8PQ5G" }
"#;

/// Sends each path to all four pairs, and compares the status, the route and the target at the endpoint.
async fn all(paths: &str, rows: &[(&str, u16, &str, &str)]) {
    let echoes = Echoes::start();
    let routes = ROUTES.replace("[[route]]\n", &format!("[[route]]\npaths = \"{paths}\"\n"));
    for (endpoint, proxy) in echoes.proxies(&routes) {
        let mut refused = 0;
        for client in CLIENTS {
            for (path, status, route, target) in rows {
                // "ann:secret"
                let sent = [("authorization", "Basic YW5uOnNlY3JldA==")];
                let answer = ask(client, &proxy, path, &sent).await;
                let at = format!("{paths}, {client}, {endpoint}, {path}: {answer:?}");
                let targets: Vec<&str> = Some(*target).filter(|target| !target.is_empty()).into_iter().collect();
                assert_eq!((answer.0, got(&answer, "target")), (*status, targets), "{at}");
                assert_eq!(field(&answer, "x-route").unwrap_or("-"), *route, "{at}");
                if *route == "admin" {
                    assert_eq!(
                        field(&answer, "x-path"),
                        Some("/admin/x"),
                        "variables have the path that was matched: {at}"
                    );
                }
                // HTTP/3 has a listener for itself.
                refused += u64::from(*status == 400 && client != "h3 client");
            }
        }
        assert_eq!(proxy.listener(|stats| stats.paths_refused.get()), refused, "{paths}, {endpoint}");
        let metric = format!("evenkeel_http_paths_refused_requests_total{{listener=\"web\"}} {refused}");
        assert!(proxy.metrics().contains(&metric), "{}", proxy.metrics());
    }
}

#[tokio::test]
async fn a_path_that_may_be_that_of_another_route_is_refused() {
    let rows = [
        ("/admin/x?a=//", 200, "admin", "/x?a=//"),
        ("//admin/x", 400, "-", ""),
        ("/y/..%2fadmin/x", 400, "-", ""),
        ("/%61dmin/x", 400, "-", ""),
        ("/admin;a/x", 400, "-", ""),
        ("/password/%2e%2e/y", 400, "-", ""),
        ("/objects//a%2Fb;c?%2f", 200, "open", "/objects//a%2Fb;c?%2f"),
        ("/password//a", 200, "password", "/password//a"),
    ];
    all("refuse", &rows).await;
}

#[tokio::test]
async fn a_normalised_path_is_matched_rewritten_and_forwarded() {
    let rows = [
        ("//admin/x?a=//%61", 200, "admin", "/x?a=//%61"),
        ("/y/../%61dmin/./x", 200, "admin", "/x"),
        ("/y/..%2fadmin/x", 400, "-", ""),
        ("/admin/%78/../../p", 200, "open", "/p"),
        ("/p%2f%2e%2e/password/%7e%2fa?%2f", 400, "-", ""),
        ("//password/%7e?x", 200, "password", "/password/~?x"),
        ("/.//password", 200, "password", "/password"),
        ("/objects//a%2fb", 200, "open", "/objects//a%2fb"),
    ];
    all("normalise", &rows).await;
}

#[tokio::test]
async fn a_path_is_left_as_it_was_sent_if_that_is_set() {
    let rows = [
        ("//admin/x", 200, "open", "//admin/x"),
        ("/y/..%2fadmin/x", 200, "open", "/y/..%2fadmin/x"),
        ("/admin;a/x", 200, "open", "/admin;a/x"),
    ];
    all("as_sent", &rows).await;
}

#[tokio::test]
async fn a_path_is_matched_in_any_case_and_forwarded_as_it_was_sent() {
    let echoes = Echoes::start();
    let routes = r#"
[[route]]
name = "open"
pool = "web"
[[route]]
name = "users"
pool = "web"
match = { path = "/Users/{id}" }
rewrite = { path = "/u/{path.id}" }
[[route]]
name = "shop"
pool = "web"
match = { prefix = "/shop", regex = "/shop/(?P<part>.*)" }
strip_prefix = true
request_headers.set = { X-Part = "{path.part}" }
request_headers.edits = [{ when = { ends_with = ".html" }, set = { X-Page = "yes" } }]
[[route]]
name = "old"
match = { prefix = "/old" }
redirect = { prefix = "/new" }
"#;
    for (endpoint, proxy) in echoes.proxies_with("ignore_case = true", routes) {
        for client in CLIENTS {
            for (path, target, part, page) in [
                ("/USERS/aB?c=D", "/u/aB?c=D", None, None),
                ("/SHOP/Cart.HTML", "/Cart.HTML", Some("Cart.HTML"), Some("yes")),
                ("/%C5%BFhop/x", "/x", None, None),
                ("/Other", "/Other", None, None),
            ] {
                let answer = ask(client, &proxy, path, &[]).await;
                let at = format!("{client}, {endpoint}, {path}: {answer:?}");
                assert_eq!((answer.0, got(&answer, "target")), (200, vec![target]), "{at}");
                assert_eq!(got(&answer, "x-part").first().copied().filter(|_| part.is_some()), part, "{at}");
                assert_eq!(got(&answer, "x-page").first().copied(), page, "{at}");
            }
            let answer = ask(client, &proxy, "/OLD/aB", &[]).await;
            assert_eq!(answer.0, 302, "{answer:?}");
            assert!(field(&answer, "location").is_some_and(|to| to.ends_with("/new/aB")), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn the_path_of_an_absolute_target_is_read_like_any_other() {
    let echoes = Echoes::start();
    let [(_, proxy), _] = echoes.proxies(ROUTES);
    for (target, status) in [("http://a//admin/x", 400), ("http://a/admin/x", 200), ("HTTP://A/y/%2e%2e/admin", 400)] {
        let mut client = proxy.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.response().status(), status, "{target}");
    }
}

#[tokio::test]
async fn the_reason_has_the_reading_and_both_routes() {
    let echoes = Echoes::start();
    let [(_, proxy), _] = echoes.proxies(ROUTES);
    let answer = ask(CLIENTS[0], &proxy, "//admin/x", &[]).await;
    let reason = "servers may read the path as \"/admin/x\", which is for route \"admin\" instead of route \"open\"";
    assert!(answer.2.contains(reason), "{answer:?}");
}

//! `strip_prefix` and `rewrite` of routes, with paths that try to get out of what the rewrite means.

use super::echo::{CLIENTS, Echoes, ask, fields, got};
use crate::support::{Endpoint, Proxy, endpoint::ok};

const ROUTES: &str = r#"
[[route]]
pool = "web"
match = { prefix = "/api" }
strip_prefix = true
[[route]]
pool = "web"
match = { prefix = "/foo" }
rewrite = { prefix = "/xyz/" }
[[route]]
pool = "web"
match = { prefix = "/tenants/{tenant}" }
rewrite = { prefix = "/t-{tenant}" }
[[route]]
pool = "web"
match = { path = "/items/{id}" }
rewrite = { path = "/x/{id}/{path.id}" }
[[route]]
pool = "web"
match = { path = "/files/{*rest}" }
rewrite = { path = "/{path.rest}" }
[[route]]
pool = "web"
match = { path = "/by-header" }
rewrite = { path = "/h/{header.x-to}" }
[[route]]
pool = "web"
match = { host = ["front"] }
rewrite = { prefix = "/behind" }
"#;

#[tokio::test]
async fn a_path_is_rewritten_and_the_rest_stays_byte_for_byte() {
    let echoes = Echoes::start();
    for (endpoint, proxy) in echoes.proxies(ROUTES) {
        for client in CLIENTS {
            for (path, target, prefix) in [
                ("/api/x", "/x", Some("/api")),
                ("/api", "/", Some("/api")),
                ("/api/", "/", Some("/api")),
                ("/api?a=/api/b", "/?a=/api/b", Some("/api")),
                ("/api/%2F;v=1/~'()*!?q=%zz&&", "/%2F;v=1/~'()*!?q=%zz&&", Some("/api")),
                ("/api/a//b?x", "/a//b?x", Some("/api")),
                ("/foo/bar", "/xyz/bar", None),
                ("/foo/", "/xyz/", None),
                ("/tenants/acme/a?b", "/t-acme/a?b", None),
                ("/tenants/a%2Fb", "/t-a%2Fb", None),
                ("/items/7?q=1", "/x/7/7?q=1", None),
                ("/items/%41", "/x/%41/%41", None),
                ("/files/a/b?c", "/a/b?c", None),
            ] {
                let answer = ask(client, &proxy, path, &[("x-forwarded-prefix", "/spoofed")]).await;
                let at = format!("{client}, {endpoint}, {path}: {answer:?}");
                assert_eq!((answer.0, got(&answer, "target")), (200, vec![target]), "{at}");
                let announced = got(&answer, "x-forwarded-prefix");
                assert_eq!(announced, [prefix.unwrap_or("/spoofed")], "{at}");
            }
        }
    }
}

#[tokio::test]
async fn a_path_that_could_be_read_otherwise_is_a_400_and_reaches_no_endpoint() {
    let echoes = Echoes::start();
    for (endpoint, proxy) in echoes.proxies_with("paths = 'as_sent'", ROUTES) {
        for client in CLIENTS {
            let long = format!("/by-header?{}", "x".repeat(100));
            for (path, to) in [
                ("/api/../admin", ""),
                ("/api/..", ""),
                ("/api/%2e%2e/admin", ""),
                ("/api/..%2Fadmin", ""),
                ("/api/x/..%5c..%5cadmin", ""),
                ("/api/..;/admin", ""),
                ("/foo/..%2f..%2fadmin", ""),
                ("/tenants/..%2f..", ""),
                ("/items/..", ""),
                ("/items/..%2Fadmin", ""),
                ("/items/%2e%2e", ""),
                ("/files/../x", ""),
                ("/by-header", "a b"),
                ("/by-header", "a?b=c"),
                ("/by-header", "a#b"),
                ("/by-header", "../../etc/passwd"),
                ("/by-header", "%2e%2e/x"),
                (&long, &"y".repeat(9000)),
            ] {
                let answer = ask(client, &proxy, path, &[("x-to", to)]).await;
                let at = format!("{client}, {endpoint}, {path} {to}: {answer:?}");
                assert_eq!(answer.0, 400, "{at}");
                assert!(answer.2.contains("the path cannot be rewritten"), "{at}");
            }
            let answer = ask(client, &proxy, "/by-header?q", &[("x-to", "a/b")]).await;
            assert_eq!((answer.0, got(&answer, "target")), (200, vec!["/h/a/b?q"]), "{client}, {endpoint}");
        }
    }
}

#[test]
fn a_prefix_is_put_in_front_where_the_route_matches_any_path_and_a_star_is_no_path() {
    let endpoint = Endpoint::answering(|request| ok(request.line()));
    let proxy = Proxy::with(&[endpoint.addr], "", "", &ROUTES.replace("pool = \"web\"", "pool = 'web'"));
    let ask =
        |line: &str| proxy.client().send(format!("{line} HTTP/1.1\r\nHost: front\r\n\r\n")).response().body_text();
    assert_eq!(ask("GET /a?b"), "GET /behind/a?b HTTP/1.1");
    assert_eq!(ask("GET /"), "GET /behind/ HTTP/1.1");
    assert_eq!(ask("OPTIONS *"), "OPTIONS * HTTP/1.1");
    assert_eq!(ask("GET http://front/a"), "GET /behind/a HTTP/1.1");
}

#[test]
fn the_prefix_of_a_trusted_proxy_goes_before_the_one_that_is_removed() {
    let endpoint = Endpoint::answering(|request| ok(request.field("x-forwarded-prefix").unwrap_or("-")));
    let rest = "[[route]]\npool = 'web'\nmatch = { prefix = '/api' }\nstrip_prefix = true";
    let proxy = Proxy::with(&[endpoint.addr], "trusted_proxies = ['127.0.0.1']", "", rest);
    for (sent, told) in [
        ("", "/api"),
        ("X-Forwarded-Prefix: /outer\r\n", "/outer/api"),
        ("X-Forwarded-Prefix: /outer/\r\nX_Forwarded_Prefix: /x\r\n", "/outer/api"),
        ("X-Forwarded-Prefix: outer\r\n", "/api"),
        ("X-Forwarded-Prefix: /a b\r\n", "/api"),
    ] {
        let request = format!("GET /api/x HTTP/1.1\r\nHost: a\r\n{sent}\r\n");
        assert_eq!(proxy.client().send(request).response().body_text(), told, "{sent}");
        let head = endpoint.seen().pop().expect("it came").head.to_lowercase().replace('_', "-");
        assert_eq!(head.matches("x-forwarded-prefix").count(), 1, "{head}");
    }
}

const RESTORED: &str = r#"
[[route]]
pool = "web"
match = { prefix = "/shop" }
strip_prefix = true
restore_prefix = true
[[route]]
pool = "web"
match = { prefix = "/tenants/{tenant}" }
rewrite = { prefix = "/v2" }
restore_prefix = true
send_host = "app.internal:8080"
cookies = { secure = true }
[[route]]
pool = "web"
match = { prefix = "/own" }
strip_prefix = true
restore_prefix = true
send_host = "endpoint"
[[route]]
pool = "web"
match = { prefix = "/plain" }
strip_prefix = true
"#;

/// Locations are those of the endpoint; `/tenants/a` has the host `app.internal:8080` there.
#[tokio::test]
async fn links_and_cookies_of_endpoints_get_the_prefix_that_was_removed() {
    let echoes = Echoes::start();
    for (endpoint, proxy) in echoes.proxies(RESTORED) {
        for client in CLIENTS {
            for (path, location, wanted) in [
                ("/shop/cart", "/login?next=/cart", "/shop/login?next=/cart"),
                ("/shop", "/", "/shop/"),
                ("/shop/cart", "/shop/login", "/shop/login"),
                ("/shop/cart", "https://a/login", "https://a/shop/login"),
                ("/shop/cart", "//evil.example/x", "//evil.example/x"),
                ("/shop/cart", "http://evil.example/x", "http://evil.example/x"),
                ("/shop/cart", "login", "login"),
                ("/tenants/a/x", "/v2/y", "/tenants/a/y"),
                ("/tenants/a/x", "http://app.internal:8080/v2/y", "/tenants/a/y"),
                ("/tenants/a/x", "http://app.internal:8080//evil.example", "http://app.internal:8080//evil.example"),
                ("/tenants/a/x", "/v3/y", "/v3/y"),
                ("/plain/x", "/y", "/y"),
            ] {
                let asked = [("x-answer-location", location), ("x-answer-content-location", location)];
                let answer = ask(client, &proxy, path, &asked).await;
                let at = format!("{client}, {endpoint}, {path} {location}: {answer:?}");
                assert_eq!(fields(&answer, "location"), [wanted], "{at}");
                assert_eq!(fields(&answer, "content-location"), [wanted], "{at}");
            }
            let own = match endpoint {
                "h1 endpoint" => echoes.addrs()[0],
                _ => echoes.addrs()[1],
            };
            let answer = ask(client, &proxy, "/own/x", &[("x-answer-location", &format!("http://{own}/y"))]).await;
            assert_eq!(fields(&answer, "location"), ["/own/y"], "{client}, {endpoint}: {answer:?}");
            let asked = [("x-answer-set-cookie", "c=3; path=/v2/x")];
            let answer = ask(client, &proxy, "/tenants/a/x", &asked).await;
            let cookies = ["a=1; Path=/; Secure", "b=2; SameSite=None; Secure", "c=3; Path=/tenants/a/x; Secure"];
            let mut got = fields(&answer, "set-cookie");
            got.sort_unstable();
            assert_eq!(got, cookies, "{client}, {endpoint}: {answer:?}");
            let answer = ask(client, &proxy, "/shop/x", &[]).await;
            assert!(fields(&answer, "set-cookie").contains(&"a=1; Path=/shop"), "{client}, {endpoint}: {answer:?}");
        }
    }
}

const REFERENCES: &str = r#"
[[route]]
pool = "web"
match = { prefix = "/shop" }
strip_prefix = true
restore_prefix = true
[[route]]
pool = "web"
match = { prefix = "/merged" }
strip_prefix = true
strip_slashes = true
[[route]]
pool = "web"
match = { prefix = "/strict" }
strip_prefix = true
"#;

#[tokio::test]
async fn every_reference_of_a_response_gets_the_prefix_and_that_of_a_request_loses_it() {
    let echoes = Echoes::start();
    for (endpoint, proxy) in echoes.proxies(REFERENCES) {
        for client in CLIENTS {
            for (name, sent, wanted) in [
                ("location", "/cart", "/shop/cart"),
                ("location", "//a/cart", "//a/shop/cart"),
                ("location", "//other/cart", "//other/cart"),
                ("refresh", "5; url=/cart", "5; url=/shop/cart"),
                ("link", "</a.css>; rel=preload, </b>", "</shop/a.css>; rel=preload, </shop/b>"),
                ("link", "<https://other.test/a>", "<https://other.test/a>"),
            ] {
                let asked = [(&*format!("x-answer-{name}"), sent)];
                let answer = ask(client, &proxy, "/shop/x", &asked).await;
                assert_eq!(fields(&answer, name), [wanted], "{client}, {endpoint}: {sent}");
            }
            for (sent, wanted) in [
                ("/shop/new", "/new"),
                ("https://a/shop/new", "/new"),
                ("https://other/shop/new", "https://other/shop/new"),
                ("/elsewhere", "/elsewhere"),
            ] {
                let answer = ask(client, &proxy, "/shop/x", &[("destination", sent)]).await;
                assert_eq!(got(&answer, "destination"), [wanted], "{client}, {endpoint}: {sent}");
            }
        }
    }
}

#[tokio::test]
async fn slashes_behind_a_stripped_prefix_are_kept_or_merged() {
    let echoes = Echoes::start();
    for (endpoint, proxy) in echoes.proxies(REFERENCES) {
        for client in CLIENTS {
            for (path, status, target) in [
                ("/strict//x", 200, Some("//x")),
                ("/merged//x", 200, Some("/x")),
                ("/merged///x//y?a=//", 200, Some("/x//y?a=//")),
                ("/merged//", 200, Some("/")),
                ("/merged//..", 400, None),
            ] {
                let answer = ask(client, &proxy, path, &[]).await;
                let at = format!("{client}, {endpoint}: {path}");
                assert_eq!((answer.0, got(&answer, "target").first().copied()), (status, target), "{at}");
            }
        }
    }
}

#[test]
fn links_of_early_hints_get_the_prefix() {
    let endpoint = Endpoint::start(|conn| {
        while conn.request_if_whole().is_some() {
            conn.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-A: b\r\n\r\n");
            conn.send(ok(""));
        }
    });
    let config = REFERENCES.replace("strip_prefix = true\nrestore", "strip_prefix = true\ncompress = true\nrestore");
    for routes in [REFERENCES, &config] {
        let proxy = Proxy::with(&[endpoint.addr], "", "", routes);
        let mut client = proxy.client();
        client.send("GET /shop/x HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.head();
        assert!(head.contains("Link: </shop/a.css>; rel=preload\r\n") && head.contains("X-A: b\r\n"), "{head}");
        assert_eq!(client.response().status(), 200);
    }
}

const GROUPS: &str = r#"
[[route]]
pool = "web"
match = { regex = "/(?P<lang>de|en)/shop/(.*)" }
rewrite = { path = "/shop/{2}" }
request_headers = { set = { X-Lang = "{path.lang|upper}", X-Rest = "{2}" } }
response_headers = { set = { X-Rest = "{2|word(-1,/)}" } }
[[route]]
pool = "web"
match = { prefix = "/blog" }
rewrite = { regex = "/blog/([0-9]+)/(.*)", to = "/posts/{2}?year={1}&t={header.x-t|url_decode}" }
[[route]]
pool = "web"
match = { prefix = "/php" }
rewrite = { regex = "/php/(.*)", to = "/index.php?p={1}" }
[[route]]
pool = "web"
match = { prefix = "/drop" }
rewrite = { regex = "/drop(.*)", to = "/kept{1}?" }
[[route]]
pool = "web"
match = { prefix = "/only" }
rewrite = { regex = "/only/(.*)", to = "/page?p={1}?" }
[[route]]
pool = "web"
match = { prefix = "/parts/{id}" }
rewrite = { search = "/v([0-9])(?P<minor>[.][0-9])?/", to = "/{id}-{1}{minor}/" }
[[route]]
pool = "web"
match = { path = "/decoded" }
rewrite = { path = "/d/{query.q|url_decode}" }
[[route]]
match = { prefix = "/old", search = "^/old/([0-9]+)(/|$)" }
redirect = { path = "/new/{1}", status = 301 }
[[route]]
match = { path = "/login" }
redirect = "https://sso.example/?next={request_uri|url_encode}&lang={query.lang|url_decode|default(en)}"
[[route]]
match = { prefix = "/moved" }
redirect = "https://b.example{request_uri}"
"#;

#[tokio::test]
async fn groups_of_expressions_are_parts_of_paths_and_fields() {
    let echoes = Echoes::start();
    for (endpoint, proxy) in echoes.proxies(GROUPS) {
        for client in CLIENTS {
            for (path, t, target) in [
                ("/de/shop/a/b%2Fc?q=1", "", "/shop/a/b%2Fc?q=1"),
                ("/blog/2026/hello?x=1", "a%26b%0d", "/posts/hello?year=2026&t=a%26b%0D&x=1"),
                ("/blog/2026/", "", "/posts/?year=2026&t="),
                // Paths that do not match stay as they are.
                ("/blog/other?x", "", "/blog/other?x"),
                ("/php/a&admin=1;b+c", "", "/index.php?p=a%26admin%3D1%3Bb%2Bc"),
                ("/php/a%26b?", "", "/index.php?p=a%26b"),
                ("/php/a?b=1", "", "/index.php?p=a&b=1"),
                ("/drop/a?b=1", "", "/kept/a"),
                ("/only/a?b=1", "", "/page?p=a"),
                ("/only/a", "", "/page?p=a"),
                ("/parts/x/v1/v2.5/?v3/", "", "/parts/x/x-1/v2.5/?v3/"),
                ("/parts/x/v1/a/v2.5/", "", "/parts/x/x-1/a/x-2.5/"),
                ("/decoded?q=a%20b%3f%23%5c", "", "/d/a%20b%3F%23%5C?q=a%20b%3f%23%5c"),
            ] {
                let answer = ask(client, &proxy, path, &[("x-t", t)]).await;
                let at = format!("{client}, {endpoint}, {path}: {answer:?}");
                assert_eq!((answer.0, got(&answer, "target")), (200, vec![target]), "{at}");
            }
            let answer = ask(client, &proxy, "/en/shop/a/b", &[]).await;
            assert_eq!((got(&answer, "x-lang"), got(&answer, "x-rest")), (vec!["EN"], vec!["a/b"]), "{answer:?}");
            assert_eq!(fields(&answer, "x-rest"), ["b"], "{answer:?}");
            for path in [
                "/de/shop/../admin",
                "/de/shop//../x",
                "/blog/1/..%2fadmin",
                "/drop/../x",
                "/decoded?q=..%2f..%2fadmin",
                "/decoded?q=%2e%2e",
            ] {
                let answer = ask(client, &proxy, path, &[]).await;
                assert_eq!(answer.0, 400, "{client}, {endpoint}, {path}: {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn redirects_have_groups_and_the_whole_target() {
    let echoes = Echoes::start();
    for (_, proxy) in echoes.proxies(GROUPS) {
        for client in CLIENTS {
            for (path, location) in [
                ("/old/12/x?q=1", "http://a/new/12?q=1"),
                ("/old/12", "http://a/new/12"),
                ("/login", "https://sso.example/?next=%2Flogin&lang=en"),
                ("/login?lang=d%26e", "https://sso.example/?next=%2Flogin%3Flang%3Dd%2526e&lang=d%26e"),
                ("/moved/x?y=1", "https://b.example/moved/x?y=1"),
                ("/moved?", "https://b.example/moved"),
                ("/moved", "https://b.example/moved"),
            ] {
                let answer = ask(client, &proxy, path, &[]).await;
                let found = fields(&answer, "location");
                let location = match client {
                    "h3 client" => location.replace("http://", "https://"),
                    _ => location.to_string(),
                };
                assert_eq!(found, [&location], "{client}, {path}: {answer:?}");
            }
        }
    }
}

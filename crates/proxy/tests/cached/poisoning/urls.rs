//! Hosts, targets and queries that an endpoint reads in another way than the key has them.

use super::world::{App, Ask, Attack, Version, World, all_fail, all_fail_before_h1, ask, get, reflects, seen, with};
use crate::support::Client;
use crate::support::h2_client::H2Client;
use crate::support::message::Message;

#[test]
fn each_spelling_of_a_host_gets_what_the_endpoint_answers_for_it() {
    let hosts = [
        "A",
        "a:80",
        "a:080",
        "a:",
        "a.",
        "a.:80",
        "A:80",
        "a:81",
        "a:65536",
        "b",
        "evil@a",
        "a@evil",
        "a:80@evil",
        "a,evil",
        "a%00",
        "a%2e",
        "a\\evil",
        "a/evil",
        "a?evil",
        "a#evil",
        "[::1]",
        "a b",
        "xn--a",
        "127.0.0.1",
        "2130706433",
    ];
    let attacks = hosts.map(|host| (host, get("").host(host), get("")));
    all_fail(reflects, "cache = true", attacks.into());
    let forms = ["[0:0:0:0:0:0:0:1]", "[::1]:80", "[::1]:", "[::0001]", "[::1%25lo]", "::1", "[::ffff:127.0.0.1]"];
    let attacks = forms.map(|host| (host, get("").host(host), get("").host("[::1]")));
    all_fail(reflects, "cache = true", attacks.into());
}

/// Sends bytes over HTTP/1, and returns the status and the body of what comes.
fn raw(world: &World, bytes: &str) -> (u16, String) {
    let mut client: Client = world.proxy.client();
    client.send(bytes);
    let message = client.response_if_any().unwrap_or_default();
    (message.status(), message.body_text())
}

#[test]
fn a_request_has_one_host() {
    let plain = "GET /p HTTP/1.1\r\nHost: a\r\n\r\n";
    let alone = raw(&World::new(Version::H1, reflects, "cache = true"), plain);
    for attack in [
        "GET /p HTTP/1.1\r\nHost: a\r\nHost: evil\r\n\r\n",
        "GET /p HTTP/1.1\r\nHost: evil\r\nHost: a\r\n\r\n",
        "GET /p HTTP/1.1\r\nHost: a\r\n Host: evil\r\n\r\n",
        "GET /p HTTP/1.1\r\nHost : evil\r\nHost: a\r\n\r\n",
        "GET http://a/p HTTP/1.1\r\nHost: evil\r\n\r\n",
        "GET http://A/p HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://evil/p HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a:80/p HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://evil@a/p HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET https://a/p HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET ftp://a/p HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET a/p HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET @evil/p HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /p HTTP/1.0\r\n\r\n",
        "GET /p HTTP/1.0\r\nHost: a\r\nX-Forwarded-Host: evil\r\n\r\n",
        "GET /p\r\n",
        "GET  /p HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /p\tHTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /p#x HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /p\0 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /p\\ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /p\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let world = World::new(Version::H1, reflects, "cache = true");
        raw(&world, attack);
        assert_eq!(raw(&world, plain), alone, "{attack:?}");
    }
}

#[test]
fn a_request_of_http2_has_one_host_and_one_scheme() {
    let plain = get("");
    for endpoint in super::world::VERSIONS {
        let world = || World::new(endpoint, reflects, "cache = true");
        let alone = world().ask(Version::H2, &plain);
        for pseudo in [
            &[(":scheme", "http"), (":path", "/p"), (":authority", "a"), ("host", "evil")][..],
            &[(":scheme", "http"), (":path", "/p"), (":authority", "evil"), ("host", "a")],
            &[(":scheme", "http"), (":path", "/p"), (":authority", "A"), ("host", "a")],
            &[(":scheme", "http"), (":path", "/p"), ("host", "a")],
            &[(":scheme", "http"), (":path", "/p"), ("host", "a"), ("host", "evil")],
            &[(":scheme", "http"), (":path", "/p"), (":authority", "")],
            &[(":scheme", "https"), (":path", "/p"), (":authority", "a")],
            &[(":scheme", "evil"), (":path", "/p"), (":authority", "a")],
            &[(":scheme", "http"), (":path", "http://evil/p"), (":authority", "a")],
            &[(":scheme", "http"), (":path", "p"), (":authority", "a")],
            &[(":scheme", "http"), (":path", ""), (":authority", "a")],
            &[(":scheme", "http://evil/?"), (":path", "/p"), (":authority", "a")],
            &[(":scheme", "http"), (":path", "/p"), (":path", "/evil"), (":authority", "a")],
            &[(":scheme", "http"), (":path", "/p HTTP/1.1\r\nHost: evil"), (":authority", "a")],
        ] {
            let both = world();
            let mut client = H2Client::connect(both.proxy.addr());
            let fields = [&[(":method", "GET")], pseudo].concat();
            client.head(1, &fields, true);
            client.answer(1);
            assert_eq!(both.ask(Version::H2, &plain), alone, "{pseudo:?}, {endpoint:?}");
        }
    }
}

#[test]
fn each_spelling_of_a_target_gets_what_the_endpoint_answers_for_it() {
    let targets = [
        "/P",
        "/%70",
        "/./p",
        "/p/.",
        "/x/../p",
        "/x/%2e%2e/p",
        "/x%2f..%2fp",
        "//p",
        "/p/",
        "/p//",
        "/p;x",
        "/p;x=/../q",
        "/p%3bx",
        "/p?",
        "/p?x",
        "/p??",
        "/p&x",
        "/p%3fx",
        "/p%23",
        "/p%00",
        "/p%2500",
        "/p%20",
        "/p+",
        "/p\\",
        "/\\p",
        "/p%5c",
        "/p%0d%0ax:y",
        "/p%",
        "/p%zz",
        "/p?x#y",
        "/p.css",
        "/p/x.css",
        "/p%2fx.css",
        "/p;x.css",
        "/p%0ax.css",
        "/p?x.css",
        "/p!",
        "/%2570",
        "/p\u{7f}",
    ];
    let attacks = targets.map(|target| (target, ask(&format!("GET {target}"), ""), get("")));
    all_fail(reflects, "cache = true", attacks.into());
}

#[test]
fn very_long_targets_are_told_apart_to_the_last_byte() {
    let long = |end: &str| ask(&format!("GET /{}{end}", "p".repeat(10_000)), "");
    all_fail(
        reflects,
        "cache = true",
        vec![("last byte", long("a"), long("b")), ("a byte more", long("aa"), long("a"))],
    );
}

#[test]
fn the_key_of_a_route_with_strip_prefix_is_that_of_the_client() {
    let sections = "[[route]]\npool = 'web'\nmatch = { prefix = '/one' }\nstrip_prefix = true\ncache = true\n\
                    [[route]]\npool = 'web'\nmatch = { prefix = '/two' }\nstrip_prefix = true\ncache = true\n";
    let world = World::with(Version::H1, reflects, "", sections);
    let one = world.ask(Version::H1, &ask("GET /one/p", ""));
    let two = world.ask(Version::H1, &ask("GET /two/p", ""));
    assert!(one.body.contains("x-forwarded-prefix: /one") && two.body.contains("x-forwarded-prefix: /two"));
}

/// Answers with the page of the user who is logged in, whatever follows in the path, and states `says` about it. Below
/// `/static/` there are files for all.
fn account(request: &Message, says: &str) -> Vec<u8> {
    let target = request.line().split(' ').nth(1).unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default().to_lowercase();
    match request.field("cookie") {
        _ if path.starts_with("/static/") && !path.contains("account") => {
            with("200 OK", "Cache-Control: max-age=60", "static")
        }
        Some(user) => with("200 OK", says, &format!("account of {user}")),
        None => with("302 Found", &format!("{says}|Location: /login"), ""),
    }
}

fn account_private(request: &Message) -> Vec<u8> {
    account(request, "Cache-Control: private")
}

fn account_no_store(request: &Message) -> Vec<u8> {
    account(request, "Cache-Control: no-store, max-age=0")
}

fn account_silent(request: &Message) -> Vec<u8> {
    account(request, "Content-Type: text/css")
}

fn account_with_cookie(request: &Message) -> Vec<u8> {
    account(request, "Cache-Control: max-age=60|Set-Cookie: session=1")
}

#[test]
fn a_private_response_is_not_stored_because_of_its_url() {
    let targets = [
        "/account.php/x.css",
        "/account/x.js",
        "/account%2f..%2fstatic/x.css",
        "/account;x.css",
        "/account?x.css",
        "/account%3fx.css",
        "/account%23x.css",
        "/account%00x.css",
        "/account%0ax.css",
        "/account%3bx.css",
        "/account/..%2fstatic/x.css",
        "/static/..%2faccount",
        "/static/%2e%2e/account/x.css",
        "/static/..%5caccount",
        "/account/.css",
        "/account/%2e%2e%2f%2e%2e%2fstatic%2fx.css",
        "/ACCOUNT/x.CSS",
        "//account/x.css",
        "/account\\x.css",
        "/account/robots.txt",
        "/account/favicon.ico",
        "/.well-known/../account",
    ];
    let with_times = "cache = { ttl = { \"2xx\" = '10m', \"3xx\" = '10m' }, heuristics = true, min_ttl = '1m' }";
    let apps: [(App, &'static str); 6] = [
        (account_private, "cache = true"),
        (account_private, with_times),
        (account_no_store, with_times),
        (account_silent, "cache = true"),
        (account_with_cookie, "cache = true"),
        (account_with_cookie, with_times),
    ];
    for (app, route) in apps {
        for target in targets {
            // The victim follows the attacker's link, and then the attacker looks for the page.
            let (victim, attacker) =
                (ask(&format!("GET {target}"), "Cookie: victim"), ask(&format!("GET {target}"), ""));
            let attack = Attack { name: target, app, route, attacker: victim.clone(), victim: attacker.clone() };
            attack.fails_over(Version::H1, Version::H1);
            let attack = Attack { name: target, app, route, attacker: victim, victim: attacker };
            attack.fails_over(Version::H2, Version::H1);
        }
    }
}

/// Attacks by queries on the query `victim`.
fn queries(victim: &str, attacks: &[&'static str]) -> Vec<(&'static str, Ask, Ask)> {
    let of = |query: &str| ask(&format!("GET /p{query}"), "");
    attacks.iter().map(|query| (*query, of(query), of(victim))).collect()
}

#[test]
fn ignored_parameters_do_not_reach_endpoints_in_any_spelling() {
    let route = "cache = { query_ignore = ['utm_source', 'gclid'] }";
    for victim in ["", "?", "?a=1", "?a=1&utm_source=news", "?utm_source=news", "?utm_source=news&a=1&gclid=2"] {
        let attacks = [
            "?utm_source=evil",
            "?utm_source",
            "?utm_source=",
            "?utm_source=evil&a=1",
            "?a=1&utm_source=x;a=evil",
            "?utm_source=x;a=evil",
            "?utm_source;a=evil&a=1",
            "?a=1;utm_source=evil",
            "?a=1&amp;utm_source=evil",
            "?utm%5Fsource=evil&a=1",
            "?utm%5fsource=evil",
            "?UTM_SOURCE=evil&a=1",
            "?utm_source=1&utm_source=evil&a=1",
            "?utm_source[]=evil&a=1",
            "?utm.source=evil&a=1",
            "?utm+source=evil",
            "?+utm_source=evil",
            "?utm_source%00=evil&a=1",
            "?&utm_source=evil",
            "?a=1&&utm_source=evil",
            "??utm_source=evil",
            "?utm_source=x%26a=evil&a=1",
            "?gclid=x?a=evil",
            "?a=evil&utm_source=news",
            "?a=1&a=evil",
            "?a=evil&a=1",
        ];
        all_fail_before_h1(by_query, route, queries(victim, &attacks));
    }
}

/// Reflects the target alone: the fields are the same for all requests of these tests.
fn by_query(request: &Message) -> Vec<u8> {
    with("200 OK", "Cache-Control: max-age=60", &seen(request))
}

#[test]
fn sorted_parameters_reach_endpoints_in_that_order() {
    let route = "cache = { query = 'sorted' }";
    for victim in ["?a=1&b=2", "?b=2&a=1"] {
        let attacks =
            ["?b=2&a=1", "?a=1&b=2", "?a=1&b=2&a=0", "?a=0&a=1&b=2", "?b=2;a=1", "?&a=1&b=2", "?b=2&a=1&", "?a=1&b=2#"];
        all_fail_before_h1(by_query, route, queries(victim, &attacks));
    }
}

#[test]
fn without_a_query_in_the_key_endpoints_get_none() {
    let route = "cache = { query = 'none' }";
    for victim in ["", "?", "?a=1"] {
        all_fail_before_h1(
            by_query,
            route,
            queries(victim, &["", "?", "?a=evil", "?a=evil&b", "??", "?;a=evil", "%3fa=evil"]),
        );
    }
}

/// Sends clients to another URL of the host that they asked for.
fn redirects(request: &Message) -> Vec<u8> {
    let host = ["x-forwarded-host", "x-host", "host"].into_iter().find_map(|name| request.field(name));
    let scheme = request.field("x-forwarded-scheme").or(request.field("x-forwarded-proto")).unwrap_or_default();
    with(
        "301 Moved Permanently",
        &format!("Cache-Control: max-age=60|Location: {scheme}://{}/q", host.unwrap_or_default()),
        "",
    )
}

#[test]
fn a_stored_redirect_leads_where_that_of_the_client_would() {
    let attacks = [
        ("forwarded host", get("X-Forwarded-Host: evil"), get("")),
        ("another field", get("X-Host: evil"), get("")),
        ("scheme", get("X-Forwarded-Scheme: http"), get("")),
        ("another host", get("").host("evil"), get("")),
        ("a port", get("").host("a:666"), get("")),
        ("the port of the scheme", get("").host("a:80"), get("")),
        ("a dot", get("").host("a."), get("")),
        ("case", get("").host("A"), get("")),
    ];
    all_fail(redirects, "cache = true", attacks.into());
}

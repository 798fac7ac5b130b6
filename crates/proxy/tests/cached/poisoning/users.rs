//! Users: credentials, cookies, access filters, and routes that tell clients apart.

use super::world::{Ask, Attack, VERSIONS, Version, World, all_fail, ask, get, reflects, seen, with};
use crate::filters::access::List;
use crate::filters::jwt::signer::{self, Signer, now};
use crate::support::message::Message;
use crate::support::pki::Pki;
use crate::support::tls::{BOTH, TlsClient};
use crate::support::{Endpoint, Proxy};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// Reflects the user of the request, and calls the page cacheable.
fn page(request: &Message) -> Vec<u8> {
    let user = request.field("authorization").or(request.field("x-user")).unwrap_or("nobody");
    with("200 OK", "Cache-Control: max-age=60|ETag: \"a\"", &format!("page of {user}"))
}

#[test]
fn responses_to_credentials_are_for_their_sender() {
    fn guarded(request: &Message) -> Vec<u8> {
        match request.field("authorization") {
            Some(user) => with("200 OK", "Cache-Control: max-age=60|ETag: \"a\"", &format!("page of {user}")),
            None => with("401 Unauthorized", "WWW-Authenticate: Basic", "who?"),
        }
    }
    let of = |user: &str| get(&format!("Authorization: Bearer {user}"));
    let attacks = vec![
        ("another user", of("evil"), of("ann")),
        ("nobody", get(""), of("ann")),
        ("the user first", of("ann"), get("")),
        ("an empty one", get("Authorization: "), of("ann")),
        ("two", get("Authorization: Bearer ann|Authorization: Bearer evil"), of("ann")),
        ("a lookalike of the proxy", get("Proxy-Authorization: Bearer evil"), of("ann")),
    ];
    all_fail(guarded, "cache = true", attacks.clone());
    all_fail(guarded, "cache = { ttl = { \"200\" = '1m' }, min_ttl = '1m' }", attacks);
}

#[test]
fn public_responses_to_credentials_are_shared_and_say_so() {
    fn public(request: &Message) -> Vec<u8> {
        let public = request.field("x-says").unwrap_or("public, max-age=60");
        with("200 OK", &format!("Cache-Control: {public}"), "for all")
    }
    let world = World::new(Version::H1, public, "cache = true");
    world.ask(Version::H1, &get("Authorization: Bearer ann"));
    assert!(world.ask(Version::H1, &get("Authorization: Bearer bob")).is_hit());
    for (says, is_stored) in [("private, max-age=60, public", false), ("s-maxage=60", true), ("max-age=60", false)] {
        let world = World::new(Version::H1, public, "cache = true");
        world.ask(Version::H1, &get(&format!("X-Says: {says}|Authorization: Bearer ann")));
        assert_eq!(world.ask(Version::H1, &get("")).is_hit(), is_stored, "{says}");
    }
}

#[test]
fn responses_that_vary_by_credentials_are_told_apart() {
    fn varies(request: &Message) -> Vec<u8> {
        let user = request.field("authorization").unwrap_or("nobody");
        with(
            "200 OK",
            "Cache-Control: public, max-age=60|Vary: Authorization, Cookie",
            &format!("{user} {}", request.field("cookie").unwrap_or_default()),
        )
    }
    let attacks = vec![
        ("another user", get("Authorization: Bearer evil"), get("Authorization: Bearer ann")),
        ("case", get("Authorization: Bearer ANN"), get("Authorization: Bearer ann")),
        ("space", get("Authorization: Bearer  ann"), get("Authorization: Bearer ann")),
        ("another cookie", get("Cookie: s=evil"), get("Cookie: s=ann")),
        ("more cookies", get("Cookie: s=ann; t=evil"), get("Cookie: s=ann")),
        ("cookies with commas", get("Cookie: s=ann,evil"), get("Cookie: s=ann, evil")),
        ("cookies in another order", get("Cookie: s=evil; s=ann"), get("Cookie: s=ann; s=evil")),
        ("no cookie", get(""), get("Cookie: s=ann")),
        ("an empty cookie", get("Cookie: "), get("Cookie: s=ann")),
    ];
    all_fail(varies, "cache = true", attacks);
}

#[test]
fn ten_thousand_cookies_get_their_own_pages_of_which_few_are_stored() {
    const USERS: usize = 10_000;
    fn varies(request: &Message) -> Vec<u8> {
        with("200 OK", "Cache-Control: max-age=60|Vary: Cookie", request.field("cookie").unwrap_or_default())
    }
    let sections = "[[route]]\npool = 'web'\ncache = true\n[cache]\nvariants_max = 4\n";
    let world = World::with(Version::H1, varies, "", sections);
    let mut client = world.proxy.client();
    for user in (0..USERS).chain(0..10) {
        client.send(format!("GET /p HTTP/1.1\r\nHost: a\r\nCookie: s={user}\r\n\r\n"));
        assert_eq!(client.response().body_text(), format!("s={user}"));
    }
    // Of all users, the latest four have a variant.
    let is_hit = |user: usize| world.ask(Version::H1, &get(&format!("Cookie: s={user}"))).is_hit();
    assert!(is_hit(9) && !is_hit(USERS - 1) && !is_hit(0));
}

#[test]
fn what_varies_by_everything_is_not_stored() {
    fn everything(request: &Message) -> Vec<u8> {
        let vary = request.field("x-vary").unwrap_or("*");
        with("200 OK", &format!("Cache-Control: max-age=60|Vary: {vary}"), &seen(request))
    }
    for vary in ["*", "Accept, *", "*, Accept", " * ", "X-A|Vary: *", "a b", "\"x\"", "X-A;q=1"] {
        // One line of a request gives several of the response.
        let one = vary.split('|').next().unwrap_or_default();
        let world = World::new(Version::H1, everything, "cache = { heuristics = true, ttl = { \"200\" = '1m' } }");
        world.ask(Version::H1, &get(&format!("X-Vary: {one}|X-B: evil")));
        let is_of_all = one.contains('*') || one.contains([' ', '"', ';']);
        assert!(!is_of_all || !world.ask(Version::H1, &get("X-B: good")).is_hit(), "{vary}");
    }
}

#[test]
fn responses_that_set_cookies_do_not_reach_others() {
    fn sets(request: &Message) -> Vec<u8> {
        let session = request.field("x-session").unwrap_or("none");
        let fields =
            format!("Cache-Control: public, max-age=60|Set-Cookie: session={session}|set-cookie2: s={session}");
        with("200 OK", &fields, "page")
    }
    let attacks = vec![("fixation", get("X-Session: evil"), get("")), ("theft", get("X-Session: ann"), get(""))];
    all_fail(sets, "cache = true", attacks);
    let stripped = World::new(Version::H1, sets, "cache = { set_cookie = 'strip' }");
    let first = stripped.ask(Version::H1, &get("X-Session: ann"));
    assert_eq!(first.field("set-cookie"), Some("session=ann"), "the client of the request has its cookie");
    let second = stripped.ask(Version::H1, &get(""));
    assert!(second.is_hit() && second.field("set-cookie").is_none() && second.field("set-cookie2").is_none());
    let stored = World::new(Version::H1, sets, "cache = { set_cookie = 'store' }");
    stored.ask(Version::H1, &get("X-Session: all"));
    assert_eq!(stored.ask(Version::H1, &get("")).field("set-cookie"), Some("session=all"));
}

#[test]
fn the_cookie_of_a_sticky_session_is_that_of_its_client() {
    fn plain(_: &Message) -> Vec<u8> {
        with("200 OK", "Cache-Control: max-age=60", "page")
    }
    let endpoint = Endpoint::answering(plain);
    let pool = "sticky = { secret = 'sixteen bytes or more' }";
    for route in ["cache = true", "cache = { set_cookie = 'store' }", "cache = true\ncookies = { secure = true }"] {
        let proxy = Proxy::with(&[endpoint.addr], "", pool, &format!("[[route]]\npool = 'web'\n{route}\n"));
        assert!(proxy.client().get("/p").field("set-cookie").is_some());
        let hit = proxy.client().get("/p");
        assert!(hit.field("cache-status").is_some_and(|status| status.contains("hit")));
        assert_eq!(hit.field("set-cookie"), None, "no endpoint was chosen");
    }
}

/// Users of `basic_auth` with one password, whose names differ in case or have strange bytes.
const USERS: &str = "ann:$2y$04$bUeub1GoVcOIVEXKSXSHeO4dSoQQKHyFfJbSGubQcLL8CBIY8PQ5G\n\
    b\u{f6} b\u{e9}\\\"%00,;|a:$2y$04$bUeub1GoVcOIVEXKSXSHeO4dSoQQKHyFfJbSGubQcLL8CBIY8PQ5G\n\
    ANN:$2y$04$bUeub1GoVcOIVEXKSXSHeO4dSoQQKHyFfJbSGubQcLL8CBIY8PQ5G\n";

fn basic(name: &str) -> Ask {
    get(&format!("Authorization: Basic {}", STANDARD.encode(format!("{name}:secret"))))
}

#[test]
fn pages_behind_passwords_are_for_their_users() {
    let file = List::new("cached-users", USERS);
    let users = ["ann", "b\u{f6} b\u{e9}\\\"%00,;|a", "ANN"];
    for keep in [false, true] {
        for cache in [
            "true",
            "{ by_user = true }",
            "{ by_user = true, ttl = { \"200\" = '1m' } }",
            "{ ttl = { \"200\" = '1m' } }",
        ] {
            let route = format!(
                "basic_auth = {{ file = '{}', keep = {keep} }}\nrequest_headers = {{ set = {{ X-User = '{{user}}' }} }}\ncache = {cache}",
                file.0.display()
            );
            let route: &'static str = route.leak();
            for (at, name) in users.iter().enumerate() {
                let attacks = vec![
                    ("another user", basic(name), basic(users[(at + 1) % users.len()])),
                    ("nobody", get(""), basic(name)),
                    ("a user first", basic(name), get("")),
                    ("a wrong password", get("Authorization: Basic YW5uOng="), basic(name)),
                ];
                all_fail(page, route, attacks);
            }
            let world = World::new(Version::H1, page, route);
            world.ask(Version::H1, &basic("ann"));
            assert_eq!(world.ask(Version::H1, &basic("ann")).is_hit(), cache.contains("by_user"), "{route}");
        }
    }
}

/// A route for tokens of these issuers, with these keys of `jwt` and `cache`.
fn tokens(keys: &List, jwt: &str, cache: &str) -> &'static str {
    format!("jwt = {{ keys = '{}', {jwt} }}\ncache = {cache}", keys.0.display()).leak()
}

fn bearer(signer: &Signer, claims: &serde_json::Value) -> Ask {
    get(&format!("Authorization: Bearer {}", signer.token(claims)))
}

#[test]
fn pages_behind_tokens_are_for_their_users() {
    let (one, two) = (Signer::new("ES256", "1"), Signer::new("ES256", "2"));
    let keys = List::new("cached-keys", &signer::set(&[&one, &two]));
    let exp = now() + 600;
    let of = |claims: serde_json::Value| {
        let mut claims = claims;
        claims["exp"] = json!(exp);
        claims
    };
    let ann = || bearer(&one, &of(json!({ "sub": "ann", "iss": "one", "role": "user" })));
    let attackers = [
        ("another user", bearer(&one, &of(json!({ "sub": "evil", "iss": "one" })))),
        ("the same name of another issuer", bearer(&two, &of(json!({ "sub": "ann", "iss": "two" })))),
        ("no name", bearer(&one, &of(json!({ "iss": "one" })))),
        ("an empty name", bearer(&one, &of(json!({ "sub": "", "iss": "one" })))),
        ("null", bearer(&one, &of(json!({ "sub": null })))),
        ("a list", bearer(&one, &of(json!({ "sub": ["ann"] })))),
        ("an object", bearer(&one, &of(json!({ "sub": { "ann": 1 } })))),
        ("another role", bearer(&one, &of(json!({ "sub": "ann", "iss": "one", "role": "admin" })))),
        ("a name with a zero", bearer(&one, &of(json!({ "sub": "ann\0", "iss": "one" })))),
        ("a name that runs over", bearer(&one, &of(json!({ "sub": "neann", "iss": "o" })))),
        ("a bad token", get("Authorization: Bearer evil")),
        ("no token", get("")),
    ];
    let jwt = "claims_to = { X-User = 'sub', X-Issuer = 'iss', X-Role = 'role' }, keep = false";
    for cache in ["true", "{ by_user = true }", "{ by_user = true, ttl = { \"200\" = '1m' } }"] {
        let attacks = attackers.iter().map(|(name, ask)| (*name, ask.clone(), ann())).collect();
        all_fail(reflects, tokens(&keys, jwt, cache), attacks);
    }
    let world = World::new(Version::H1, reflects, tokens(&keys, jwt, "{ by_user = true }"));
    world.ask(Version::H1, &ann());
    assert!(world.ask(Version::H1, &ann()).is_hit());
    // Names that are numbers are no names.
    let number = |sub: serde_json::Value| bearer(&one, &of(json!({ "sub": sub })));
    all_fail(
        reflects,
        tokens(&keys, jwt, "{ by_user = true }"),
        vec![
            ("a number and its text", number(json!(1)), number(json!("1"))),
            ("null and its text", number(json!(null)), number(json!("null"))),
            ("nobody and nobody", number(json!(null)), number(json!([]))),
        ],
    );
}

#[test]
fn a_password_and_a_token_are_two_users() {
    let signer = Signer::new("ES256", "1");
    let (file, keys) = (List::new("cached-both-users", USERS), List::new("cached-both-keys", &signer.set()));
    let route = format!(
        "basic_auth = {{ file = '{}' }}\njwt = {{ keys = '{}', from = 'cookie:token' }}\ncache = {{ by_user = true }}",
        file.0.display(),
        keys.0.display()
    );
    let of = |sub: &str| {
        let token = signer.token(&json!({ "sub": sub, "exp": now() + 600 }));
        let mut ask = basic("ann");
        ask.fields += &format!("Cookie: token={token}\r\n");
        ask
    };
    all_fail(reflects, route.leak(), vec![("another token", of("evil"), of("ann"))]);
}

#[test]
fn pages_that_a_service_lets_pass_are_for_their_users() {
    fn service(request: &Message) -> Vec<u8> {
        match request.field("cookie") {
            Some(user) => with("200 OK", &format!("X-User: {user}"), ""),
            None => with("401 Unauthorized", "Cache-Control: max-age=60", "who?"),
        }
    }
    fn by_user(request: &Message) -> Vec<u8> {
        let user = request.field("x-user").unwrap_or("nobody");
        let says = if request.line().contains("/vary") { "public, max-age=60|Vary: X-User" } else { "max-age=60" };
        with("200 OK", &format!("Cache-Control: {says}"), &format!("page of {user}"))
    }
    let auth = Endpoint::answering(service);
    for (cache, path) in [
        ("true", "/p"),
        ("{ headers = ['x-user'] }", "/p"),
        ("true", "/vary"),
        ("{ ttl = { \"2xx\" = '1m', \"4xx\" = '1m' } }", "/p"),
    ] {
        for version in VERSIONS {
            let sections = format!(
                "[[route]]\npool = 'web'\nforward_auth = {{ pool = 'auth', path = '/auth', copy_headers = ['X-User'] }}\n\
                 cache = {cache}\n[pool.auth]\nendpoints = ['{}']\n",
                auth.addr
            );
            let world = World::with(version, by_user, "", &sections);
            let of = |fields: &str| world.ask(version, &ask(&format!("GET {path}"), fields));
            assert_eq!(of("Cookie: evil").body, "page of evil");
            assert_eq!(of("Cookie: ann").body, "page of ann");
            assert_eq!(of("").status, 401);
            assert_eq!(of("Cookie: ann|X-User: evil").body, "page of ann");
            assert_eq!(of("Cookie: evil|X-User: ann").body, "page of evil");
            assert_eq!(of("Cookie: evil").body, "page of evil");
        }
    }
}

#[test]
fn clients_with_certificates_get_their_own_pages() {
    fn by_subject(request: &Message) -> Vec<u8> {
        let subject = request.field("x-client-cert-subject").unwrap_or("nobody");
        with("200 OK", "Cache-Control: max-age=60", subject)
    }
    let (pki, endpoint) = (Pki::new(), Endpoint::answering(by_subject));
    let server = pki.issue("a.test");
    let users = [pki.issue("ann.test"), pki.issue("evil.test")];
    let tls = format!("tls = {{ certificates = [{}], client_auth = {{ ca = {:?} }} }}", server.entry(), pki.ca());
    let proxy = Proxy::start(&crate::support::pki::config(&tls, &endpoint, "[[route]]\npool = 'web'\ncache = true"));
    let page = |user| {
        let mut client = TlsClient::connect(proxy.addr(), pki.client(BOTH, Some(user)), "a.test").expect("a handshake");
        client.get("/p").body_text()
    };
    for _ in 0..2 {
        assert!(page(&users[0]).contains("ann.test") && page(&users[1]).contains("evil.test"));
    }
    // Nor do they get the page of nobody, which another listener has stored.
    let open = crate::support::own_addr();
    let behind = format!(
        "[[route]]\npool = 'web'\ncache = true\n[listener.open]\nbind = ['{open}']\ntls = {{ certificates = [{}] }}\n",
        server.entry()
    );
    let proxy = Proxy::start(&crate::support::pki::config(&tls, &endpoint, &behind));
    let asks = proxy.server().addresses().into_iter().find(|addr| *addr != open).expect("two listeners");
    let page = |addr, user| {
        let mut client = TlsClient::connect(addr, pki.client(BOTH, Some(user)), "a.test").expect("a handshake");
        client.get("/p").body_text()
    };
    assert_eq!(page(open, &users[0]), "nobody");
    assert!(page(asks, &users[0]).contains("ann.test"));
    assert_eq!(page(open, &users[1]), "nobody");
}

#[test]
fn one_url_over_http_and_https_is_two() {
    fn by_scheme(request: &Message) -> Vec<u8> {
        with("200 OK", "Cache-Control: max-age=60", request.field("x-forwarded-proto").unwrap_or_default())
    }
    let (pki, endpoint) = (Pki::new(), Endpoint::answering(by_scheme));
    let server = pki.issue("a.test");
    let behind =
        format!("[[route]]\npool = 'web'\ncache = true\n[listener.plain]\nbind = ['{}']\n", crate::support::own_addr());
    let tls = format!("tls = {{ certificates = [{}] }}", server.entry());
    let proxy = Proxy::start(&crate::support::pki::config(&tls, &endpoint, &behind));
    let addresses = proxy.server().addresses();
    let mut seen: Vec<String> = Vec::new();
    for addr in addresses {
        for _ in 0..2 {
            let body = match TlsClient::connect(addr, pki.client(BOTH, None), "a.test") {
                Ok(mut client) => client.get("/p").body_text(),
                Err(_) => crate::support::Client::connect(addr).get("/p").body_text(),
            };
            seen.push(body);
        }
    }
    seen.sort();
    assert_eq!(seen, ["http", "http", "https", "https"]);
}

#[test]
fn routes_of_one_url_have_responses_of_their_own() {
    let others = [Endpoint::answering(|_| with("200 OK", "Cache-Control: max-age=60", "inner"))];
    let inner = others[0].addr;
    fn outer(_: &Message) -> Vec<u8> {
        with("200 OK", "Cache-Control: max-age=60", "outer")
    }
    for matching in ["header = { x-staff = '1' }", "cookie = { staff = '1' }", "client = ['127.0.0.2/32']"] {
        let sections = format!(
            "[[route]]\npool = 'web'\ncache = true\n[[route]]\nmatch = {{ {matching} }}\npool = 'inner'\ncache = true\n\
             [pool.inner]\nendpoints = ['{inner}']\n"
        );
        let world = World::with(Version::H1, outer, "", &sections);
        for _ in 0..2 {
            let staff = world.ask_from([127, 0, 0, 2], Version::H1, &get("X-Staff: 1|Cookie: staff=1"));
            assert_eq!(staff.body, "inner", "{matching}");
            assert_eq!(world.ask(Version::H1, &get("")).body, "outer", "{matching}");
        }
    }
}

#[test]
fn pools_that_share_a_route_have_responses_of_their_own() {
    let canary = Endpoint::answering(|_| with("200 OK", "Cache-Control: max-age=60", "canary"));
    fn stable(_: &Message) -> Vec<u8> {
        with("200 OK", "Cache-Control: max-age=60", "stable")
    }
    let sections = format!(
        "[[route]]\nsplit = {{ weights = {{ web = 50, canary = 50 }}, key = 'header:x-user' }}\ncache = true\n\
         [pool.canary]\nendpoints = ['{}']\n",
        canary.addr
    );
    let world = || World::with(Version::H1, stable, "", &sections);
    let users = || (0..16).map(|user| get(&format!("X-User: {user}")));
    let alone: Vec<String> = users().map(|user| world().ask(Version::H1, &user).body).collect();
    assert!(alone.contains(&"canary".to_string()) && alone.contains(&"stable".to_string()));
    let both = world();
    assert_eq!(users().map(|user| both.ask(Version::H1, &user).body).collect::<Vec<_>>(), alone);
}

#[test]
fn what_is_stored_for_a_network_does_not_leave_it() {
    let route = "access = { allow = ['127.0.0.2/32'] }\ncache = true";
    let world = World::new(Version::H1, reflects, route);
    assert_eq!(world.ask_from([127, 0, 0, 2], Version::H1, &get("")).status, 200);
    assert_eq!(world.ask(Version::H1, &get("")).status, 403);
    assert!(world.ask_from([127, 0, 0, 2], Version::H1, &get("")).is_hit());
}

#[test]
fn other_origins_are_allowed_by_the_route_alone() {
    fn page(request: &Message) -> Vec<u8> {
        let origin = request.field("origin").unwrap_or("*");
        let fields = format!("Cache-Control: max-age=60|Vary: Origin|Access-Control-Allow-Origin: {origin}");
        with("200 OK", &fields, "page")
    }
    let of = |origin: &str| get(&format!("Origin: {origin}"));
    let attacks = || {
        vec![
            ("another origin", of("https://evil"), of("https://good")),
            ("none", get(""), of("https://good")),
            ("null", of("null"), of("https://good")),
            ("none of the victim", of("https://evil"), get("")),
            (
                "a preflight",
                ask("OPTIONS /p", "Origin: https://evil|Access-Control-Request-Method: PUT"),
                of("https://good"),
            ),
        ]
    };
    all_fail(page, "cache = true", attacks());
    all_fail(page, "cache = true\ncors = { origins = ['https://good'] }", attacks());
    // An endpoint that says nothing of origins: the route adds them to stored responses, too.
    fn silent(_: &Message) -> Vec<u8> {
        with("200 OK", "Cache-Control: max-age=60", "page")
    }
    all_fail(silent, "cache = true\ncors = { origins = ['https://good', 'https://evil'] }", attacks());
}

#[test]
fn variants_of_codings_are_told_apart() {
    fn coded(request: &Message) -> Vec<u8> {
        let coding = request.field("accept-encoding").unwrap_or_default();
        let (field, body) = if coding.contains("br") { ("|Content-Encoding: br", "brotli") } else { ("", "plain") };
        with("200 OK", &format!("Cache-Control: max-age=60|Vary: Accept-Encoding{field}"), body)
    }
    let attacks = vec![
        ("a coding", get("Accept-Encoding: br"), get("")),
        ("none", get(""), get("Accept-Encoding: gzip, br")),
        ("identity", get("Accept-Encoding: identity"), get("Accept-Encoding: br")),
        ("refused", get("Accept-Encoding: br;q=0"), get("Accept-Encoding: br")),
    ];
    all_fail(coded, "cache = true", attacks);
}

#[test]
fn a_stale_response_of_one_user_is_not_served_to_another_one() {
    fn fails(request: &Message) -> Vec<u8> {
        let user = request.field("cookie").unwrap_or("nobody");
        match request.field("if-none-match") {
            Some(_) => with("503 X", "", "down"),
            None if user == "ann" => with("503 X", "", "down"),
            None => with("200 OK", "Cache-Control: max-age=0, stale-if-error=600|ETag: \"a\"|Vary: Cookie", user),
        }
    }
    let world = World::new(Version::H1, fails, "cache = true");
    assert_eq!(world.ask(Version::H1, &get("Cookie: evil")).body, "evil");
    assert_eq!(world.ask(Version::H1, &get("Cookie: ann")).status, 503);
    assert_eq!(world.ask(Version::H1, &get("Cookie: evil")).body, "evil");
    Attack {
        name: "stale",
        app: fails,
        route: "cache = true",
        attacker: get("Cookie: evil"),
        victim: get("Cookie: ann"),
    }
    .fails_over(Version::H2, Version::H1);
}

//! Fields of requests that endpoints reflect and that the key lacks.

use super::world::{Ask, Version, World, all_fail, get, reflects, seen, with};
use crate::support::message::Message;

/// Attacks by one request with these fields, separated by `|`, on the same request without them.
fn by_fields(attacks: &[&'static str]) -> Vec<(&'static str, Ask, Ask)> {
    attacks.iter().map(|fields| (*fields, get(fields), get(""))).collect()
}

/// Fields that evenkeel removes from requests that may be stored, or sets itself.
const REMOVED: [&str; 43] = [
    "X-Forwarded-Host: evil",
    "X-Forwarded-Host: evil|X-Forwarded-Host: evil",
    "X-Forwarded-Host: ",
    "x_forwarded_host: evil",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Proto: evil",
    "X-Forwarded-For: 6.6.6.6",
    "X-Forwarded-Scheme: http",
    "X-Forwarded-Scheme: nothttps",
    "X-Forwarded-Port: 666",
    "X-Forwarded-Prefix: /evil",
    "X-FORWARDED-PREFIX: /evil",
    "X_Forwarded_Prefix: /evil",
    "X-Forwarded_Prefix: /evil",
    "X-Forwarded-Server: evil",
    "X-Forwarded-Ssl: off",
    "X-Forwarded-Path: /evil",
    "X-Forwarded-Uri: /evil",
    "X-Original-URL: /admin",
    "X-Original-URL: /admin|X-Original-URL: /p",
    "X_Original_URL: /admin",
    "X-Original-Uri: /admin",
    "X-Original-Host: evil",
    "X-Rewrite-URL: /admin",
    "X-HTTP-Method-Override: POST",
    "X-HTTP-Method: DELETE",
    "X-Method-Override: PUT",
    "X-Host: evil",
    "X-HTTP-Host-Override: evil",
    "X-Url-Scheme: http",
    "X-Script-Name: /evil",
    "X-Scheme: http",
    "X-Matched-Path: /evil",
    "X-Invoke-Path: /evil",
    "X-Invoke-Status: 500",
    "X-Now-Route-Matches: 1=evil",
    "X-Middleware-Prefetch: 1",
    "X-Envoy-Original-Path: /evil",
    "X-HTTP-Path-Override: /evil",
    "Front-End-Https: off",
    "Forwarded: for=6.6.6.6;host=evil;proto=http",
    "Client-Cert: :ZXZpbA==:",
    "Te: trailers|X-Client-Cert-Subject: CN=evil",
];

#[test]
fn fields_by_which_a_client_names_another_url_do_not_reach_endpoints() {
    let attacks = by_fields(&REMOVED).into_iter().map(|(name, attacker, victim)| {
        // The only trailers that HTTP/2 may ask for are those of the client itself.
        let keep = attacker.fields.contains("Te: ");
        (name, attacker, if keep { get("Te: trailers") } else { victim })
    });
    all_fail(reflects, "cache = true", attacks.collect());
}

#[test]
fn requests_that_are_not_stored_keep_their_fields() {
    let world = World::new(Version::H1, reflects, "cache = true");
    let ask = super::world::ask("POST /p", "X-HTTP-Method-Override: PATCH");
    assert!(world.ask(Version::H1, &ask).body.contains("x-http-method-override: PATCH"));
}

#[test]
fn fields_that_the_connection_names_do_not_reach_endpoints_and_do_not_count() {
    // Over HTTP/1 only: HTTP/2 has no such field.
    for (route, app) in
        [("cache = true", varies as fn(&Message) -> Vec<u8>), ("cache = { headers = ['x-tenant'] }", reflects)]
    {
        for fields in [
            "X-Tenant: good|Connection: x-tenant",
            "X-Tenant: good|Connection: close, X-TENANT",
            "X-Tenant: evil|Connection: x-tenant",
            "Accept-Language: de|X-Tenant: good|Connection: Accept-Language",
            "X-Tenant: good|Connection: x-forwarded-host, host",
            "X-Tenant: good|Connection: cache-control, x-forwarded-proto",
        ] {
            let victim = get("X-Tenant: good");
            let attack = super::world::Attack { name: fields, app, route, attacker: get(fields), victim };
            attack.fails_over(Version::H1, Version::H1);
            attack.fails_over(Version::H1, Version::H2);
        }
    }
}

/// Reflects everything, and varies by two fields.
fn varies(request: &Message) -> Vec<u8> {
    with("200 OK", "Cache-Control: max-age=60|Vary: X-Tenant, Accept-Language", &seen(request))
}

#[test]
fn fields_that_are_part_of_the_key_tell_responses_apart() {
    let tenants = |fields: &'static str| (fields, get(fields), get("X-Tenant: good"));
    let attacks = [
        "X-Tenant: evil",
        "X-Tenant: Good",
        "X-Tenant: ",
        "",
        "X-Tenant: good|X-Tenant: evil",
        "X-Tenant: evil|X-Tenant: good",
        "X_Tenant: evil|X-Tenant: good",
        "x_tenant: evil",
        "X-Tenant: good, evil",
        "X-Original-URL: /admin|X-Tenant: good",
        "X_Original_URL: /admin|X-Tenant: good",
    ];
    all_fail(reflects, "cache = { headers = ['x-tenant', 'X-Original-Url'] }", attacks.map(tenants).into());
}

#[test]
fn fields_that_responses_vary_by_tell_them_apart() {
    let attacks = [
        "X-Tenant: evil",
        "X-Tenant: Good",
        "X-Tenant: ",
        "",
        "X-Tenant: good|X-Tenant: evil",
        "X_Tenant: evil|X-Tenant: good",
        "x_tenant: evil",
        "Accept-Language: de|X-Tenant: good",
        "Accept_Language: de|X-Tenant: good",
    ];
    let victims = ["X-Tenant: good", ""];
    for victim in victims {
        let attacks = attacks.into_iter().map(|fields| (fields, get(fields), get(victim)));
        all_fail(varies, "cache = true", attacks.collect());
    }
}

#[test]
fn fields_that_the_route_removes_reach_no_one() {
    let route =
        "cache = true\nrequest_headers = { remove = ['accept-language', 'user-agent', 'origin', 'x-wap-profile'] }";
    let attacks = [
        "Accept-Language: de",
        "User-Agent: evil",
        "Origin: https://evil",
        "X-Wap-Profile: http://evil/",
        "accept_language: de",
    ];
    all_fail(reflects, route, by_fields(&attacks));
}

#[test]
fn fields_that_the_route_sets_are_those_that_responses_vary_by() {
    let route = "cache = true\nrequest_headers = { set = { X-Tenant = '{header.x-of}' }, remove = ['x-of'] }";
    let attacks = [
        ("another one", get("X-Of: evil"), get("X-Of: good")),
        ("none", get(""), get("X-Of: good")),
        ("the field itself", get("X-Tenant: good|X-Of: evil"), get("X-Of: good")),
        ("the field itself, alone", get("X-Tenant: good"), get("X-Of: good")),
        ("its lookalike", get("X_Tenant: evil|X-Of: good"), get("X-Of: good")),
        ("named by the connection", get("X-Of: evil|X-Tenant: good"), get("")),
    ];
    all_fail(varies, route, attacks.into());
    all_fail(
        reflects,
        &*route.replace("= true", "= { headers = ['x-tenant'] }").leak(),
        vec![
            ("in the key", get("X-Of: evil"), get("X-Of: good")),
            ("in the key, the field itself", get("X-Tenant: good|X-Of: evil"), get("X-Of: good")),
        ],
    );
}

#[test]
fn a_path_that_the_route_makes_of_fields_tells_responses_apart() {
    let route = "match = { prefix = '/p' }\nrewrite = { path = '/of/{header.x-of}' }\nrequest_headers = { remove = ['x-of'] }\ncache = true";
    let attacks = [
        ("another one", get("X-Of: evil"), get("X-Of: good")),
        ("none", get(""), get("X-Of: good")),
        ("a query in it", get("X-Of: good%3fx"), get("X-Of: good")),
    ];
    all_fail(reflects, route, attacks.into());
}

#[test]
fn what_trusted_proxies_report_tells_responses_apart() {
    let app = reflects;
    let sections = "[[route]]\npool = 'web'\ncache = true\n";
    for fields in [
        "X-Forwarded-Host: evil",
        "X-Forwarded-Proto: http",
        "X-Forwarded-For: 6.6.6.6|Forwarded: for=6.6.6.6;host=evil",
        "X-Forwarded-For: 6.6.6.6|Forwarded: for=1.1.1.1;host=evil;proto=http, for=6.6.6.6",
        "Forwarded: for=6.6.6.6;host=evil;proto=http",
    ] {
        for version in super::world::VERSIONS {
            // The address of a client is not part of the key: what an endpoint reflects of it, all get.
            let victim = get("X-Forwarded-Host: good|X-Forwarded-Proto: https|X-Forwarded-For: 6.6.6.6");
            let world = || World::with(Version::H1, app, "trusted_proxies = ['127.0.0.0/8']", sections);
            let (both, alone) = (world(), world());
            both.ask(version, &get(fields));
            assert_eq!(both.ask(version, &victim), alone.ask(version, &victim), "{fields}, {version:?}");
        }
    }
}

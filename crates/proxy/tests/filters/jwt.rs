//! Tokens: what endpoints get of them, what refused clients are told, limits by claims, and keys that change.

#[path = "../../../tokens/tests/support/mod.rs"]
pub mod signer;

use super::echo::{CLIENTS, Echoes, ask, got};
use super::{ask_h1, ask_h2, field};
use crate::support::log::Log;
use crate::support::{Endpoint, Proxy, wait_until, wait_until_asked};
use evenkeel_tokens::{Pace, follow};
use serde_json::{Value, json};
use signer::{Signer, now};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A file with keys, removed on drop.
struct Keys(PathBuf);

impl Keys {
    fn new(name: &str, set: &str) -> Keys {
        let keys = Keys(std::env::temp_dir().join(format!("evenkeel-jwks-{}-{name}", std::process::id())));
        keys.write(set);
        keys
    }

    fn write(&self, set: &str) {
        std::fs::write(&self.0, set).expect("the temporary folder can be written");
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A route for `/a` whose requests need a token, and one for all others.
fn routes(keys: &str, rules: &str, more: &str) -> String {
    format!(
        "[[route]]\npool = 'web'\n[[route]]\nname = 'tokens'\nmatch = {{ prefix = '/a' }}\npool = 'web'\n\
         jwt = {{ keys = '{keys}', {rules} }}\n{more}\n"
    )
}

fn start(endpoint: SocketAddr, routes: &str) -> Proxy {
    Proxy::start(&config(endpoint, routes))
}

fn config(endpoint: SocketAddr, routes: &str) -> String {
    format!(
        "[runtime]\nworkers = 2\n[listener.web]\nbind = ['$BIND']\nh2c = true\nerrors = 'detailed'\n\
         [pool.web]\nendpoints = ['{endpoint}']\n{routes}"
    )
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[tokio::test]
async fn endpoints_get_claims_of_the_token_and_none_of_the_client() {
    let signer = Signer::new("ES256", "1");
    let keys = Keys::new("claims", &signer.set());
    let rules = "claims_to = { X-User = 'sub', X-Roles = 'roles', X-None = 'none' }, keep = false";
    let token = bearer(&signer.token(&json!({ "sub": "ann", "roles": ["a", "b"], "exp": now() + 60 })));
    for (at, proxy) in Echoes::start().proxies(&routes(&keys.0.display().to_string(), rules, "")) {
        let fields = [
            ("Authorization", &*token),
            ("x-user", "root"),
            ("X_User", "root"),
            ("X-USER", "root"),
            ("x-none", "root"),
            ("x-other", "stays"),
        ];
        for client in CLIENTS {
            let (at, answer) = (format!("{at}, {client}"), ask(client, &proxy, "/a", &fields).await);
            assert_eq!(answer.0, 200, "{at}: {}", answer.2);
            assert_eq!([got(&answer, "x-user"), got(&answer, "x-roles")], [["ann"], ["a,b"]], "{at}");
            for gone in ["x-none", "x_user", "authorization"] {
                assert!(got(&answer, gone).is_empty(), "{at}: {gone}");
            }
            assert_eq!(got(&answer, "x-other"), ["stays"], "{at}");
        }
        // Nor can the client have them removed as fields of its connection.
        let answer = ask_h1(&proxy, "/a", &[("Authorization", &token), ("Connection", "x-user, x-roles")], "");
        assert_eq!([got(&answer, "x-user"), got(&answer, "x-roles")], [["ann"], ["a,b"]], "{at}");
    }
}

#[tokio::test]
async fn a_token_in_a_cookie_is_removed_from_it_unless_it_is_kept() {
    let signer = Signer::new("EdDSA", "1");
    let keys = Keys::new("cookie", &signer.set());
    let cookie = format!("a=1; token={}; b=2", signer.of("ann"));
    for (keep, left) in [("true", cookie.clone()), ("false", "a=1; b=2".to_string())] {
        let rules = format!("from = 'cookie:token', keep = {keep}");
        for (at, proxy) in Echoes::start().proxies(&routes(&keys.0.display().to_string(), &rules, "")) {
            for client in CLIENTS {
                let answer = ask(client, &proxy, "/a", &[("Cookie", &*cookie)]).await;
                assert_eq!((answer.0, got(&answer, "cookie")), (200, vec![&*left]), "{at}, {client}");
            }
        }
    }
}

#[tokio::test]
async fn refused_clients_get_the_reason_in_www_authenticate_and_the_token_is_nowhere() {
    let signer = Signer::new("EdDSA", "1");
    let (keys, log) = (Keys::new("refused", &signer.set()), Log::new());
    let rules = "realm = 'the \"api\"', require = { role = ['admin'] }";
    let more = format!("{}\n[telemetry.explain]\nsample = 1\n", log.config());
    let endpoint = Endpoint::saying("hello");
    let proxy = start(endpoint.addr, &routes(&keys.0.display().to_string(), rules, &more));
    let realm = "Bearer realm=\"the \\\"api\\\"\"";
    let expired = signer.token(&json!({ "exp": now() - 100 }));
    let user = signer.token(&json!({ "exp": now() + 100, "role": "user" }));
    let good = signer.token(&json!({ "exp": now() + 100, "role": "admin" }));
    let huge = format!("{}.{}.{}", "a".repeat(3000), "b".repeat(3000), "c".repeat(3000));
    for (token, status, says) in [
        (None, 401, String::new()),
        (Some(&expired), 401, ", error=\"invalid_token\", error_description=\"the token has expired\"".to_string()),
        (
            Some(&user),
            403,
            ", error=\"insufficient_scope\", error_description=\"the token lacks a required claim\"".to_string(),
        ),
        (
            Some(&huge),
            401,
            ", error=\"invalid_token\", error_description=\"the token is longer than 8 KiB\"".to_string(),
        ),
    ] {
        let authorization = token.map(|token| bearer(token));
        let fields: Vec<_> = authorization.iter().map(|value| ("authorization", &**value)).collect();
        for answer in [ask_h1(&proxy, "/a", &fields, ""), ask_h2(&proxy, "/a", &fields, "body").await] {
            assert_eq!((answer.0, field(&answer, "www-authenticate")), (status, Some(&*format!("{realm}{says}"))));
        }
    }
    let fields = [("authorization", &*bearer(&good))];
    assert_eq!(ask_h1(&proxy, "/a", &fields, "").0, 200);
    assert_eq!(ask_h2(&proxy, "/a", &fields, "body").await.0, 200);
    wait_until("all are counted", || proxy.ended(200) == 2 && proxy.ended(401) == 6 && proxy.ended(403) == 2);
    let refused = |reason: &str| {
        let at = evenkeel_tokens::Refused::LABELS.iter().position(|label| *label == reason).expect("a label");
        proxy.listener(|listener| listener.jwt_refused[at].get())
    };
    assert_eq!(["missing", "expired", "claim", "malformed", "signature"].map(refused), [2, 2, 2, 2, 0]);
    assert_eq!(proxy.listener(|listener| listener.jwt_verified.get() + listener.jwt_known.get()), 2);
    let kept = proxy.server().looker().explanations().await;
    let steps: Vec<_> = kept.iter().flat_map(|one| &one.filters).filter(|step| step.name == "jwt").collect();
    for did in ["refused: the token has expired", "refused: the request has no token", "accepted the token"] {
        assert!(steps.iter().any(|step| step.did == did), "{did}: {steps:?}");
    }
    let lines = log.lines(proxy);
    let reasons: Vec<_> = lines.iter().filter_map(|line| line["reason"].as_str()).collect();
    assert!(reasons.contains(&"the token has expired") && reasons.len() == 8, "{reasons:?}");
    let all = format!("{lines:?} {kept:?}");
    for token in [expired, user, good] {
        let signature = token.rsplit('.').next().expect("a token");
        assert!(!all.contains(signature), "a token was written down");
    }
}

#[tokio::test]
async fn preflights_and_other_routes_need_no_token() {
    let signer = Signer::new("EdDSA", "1");
    let keys = Keys::new("preflight", &signer.set());
    let endpoint = Endpoint::saying("hello");
    let cors = "cors = { origins = ['https://a.example'], headers = ['Authorization'] }";
    let proxy = start(endpoint.addr, &routes(&keys.0.display().to_string(), "", cors));
    let mut client = proxy.client();
    client.send(
        "OPTIONS /a HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n\
         Access-Control-Request-Headers: authorization\r\n\r\n",
    );
    assert_eq!(client.response().status(), 204);
    assert_eq!(ask_h1(&proxy, "/", &[], "").0, 200);
    let refused = ask_h1(&proxy, "/a", &[("Origin", "https://a.example")], "");
    assert_eq!((refused.0, field(&refused, "access-control-allow-origin")), (401, Some("https://a.example")));
}

#[tokio::test]
async fn limits_by_claim_count_the_verified_user_and_go_behind_the_others() {
    let signer = Signer::new("EdDSA", "1");
    let keys = Keys::new("limits", &signer.set());
    let endpoint = Endpoint::saying("hello");
    let limits = "limits = [{ requests = '3/h', key = 'claim:sub' }, { in_flight = 5, key = 'claim:sub' }, \
                  { requests = '8/h', key = 'route' }, { in_flight = 9, key = 'route' }]\n[telemetry.explain]\nsample = 1";
    let proxy = start(endpoint.addr, &routes(&keys.0.display().to_string(), "", limits));
    let ask = |sub: Value| {
        let token = bearer(&signer.token(&json!({ "sub": sub, "exp": now() + 60 })));
        let answer = ask_h1(&proxy, "/a", &[("authorization", &token)], "");
        (answer.0, field(&answer, "ratelimit-policy").map(str::to_string))
    };
    for _ in 0..3 {
        assert_eq!(ask(json!("ann")).0, 200);
    }
    assert_eq!(ask(json!("ann")), (429, Some("\"claim:sub\";q=3;w=3600".to_string())));
    assert_eq!(ask(json!("bob")).0, 200, "another user has a share of their own");
    assert_eq!(ask(json!(null)).0, 200, "without the claim nothing is limited");
    // A request without a token has counted for the limit of the route, which is before it.
    assert_eq!(ask_h1(&proxy, "/a", &[], "").0, 401);
    assert_eq!(ask(json!("bob")).0, 200);
    assert_eq!(ask(json!("bob")), (429, Some("\"route\";q=8;w=3600".to_string())));
    wait_until("none is in flight", || proxy.in_flight() == 0);
    let kept = proxy.server().looker().explanations().await;
    let did = |name: &str| {
        let steps = kept.iter().flat_map(|one| &one.filters).filter(|step| step.name == name);
        steps.filter(|step| step.did.starts_with("refused")).map(|step| step.did.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(did("limits_by_claim"), ["refused: more than 3/h by claim:sub"]);
    assert_eq!(did("limits"), ["refused: more than 8/h by route"]);
}

#[tokio::test]
async fn requests_in_flight_are_counted_by_claim_until_they_end() {
    let signer = Signer::new("EdDSA", "1");
    let keys = Keys::new("in-flight", &signer.set());
    let limits = "limits = [{ in_flight = 1, key = 'claim:sub' }, { in_flight = 2, key = 'route' }]";
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let endpoint = Endpoint::answering(move |request| {
        if request.line().contains("/a/slow") {
            held.lock().expect("no panic").recv().expect("it is released");
        }
        crate::support::endpoint::ok("hello")
    });
    let proxy = start(endpoint.addr, &routes(&keys.0.display().to_string(), "", limits));
    let (ann, bob) = (bearer(&signer.of("ann")), bearer(&signer.of("bob")));
    let mut slow = proxy.client();
    slow.send(format!("GET /a/slow HTTP/1.1\r\nHost: a\r\nAuthorization: {ann}\r\n\r\n"));
    wait_until("it is in flight", || proxy.in_flight() == 1);
    let ask = |token: &str| ask_h1(&proxy, "/a", &[("authorization", token)], "").0;
    assert_eq!([ask(&ann), ask(&ann), ask(&bob)], [429, 429, 200]);
    release.send(()).expect("it waits");
    assert_eq!(slow.response().status(), 200);
    wait_until("it has ended", || ask(&ann) == 200);
}

#[test]
fn keys_in_a_file_are_read_at_reloads_and_when_they_change() {
    let (first, second) = (Signer::new("EdDSA", "1"), Signer::new("EdDSA", "2"));
    let keys = Keys::new("reload", &first.set());
    let endpoint = Endpoint::saying("hello");
    let routes = routes(&keys.0.display().to_string(), "", "");
    let mut proxy = start(endpoint.addr, &routes);
    let tokens = [&first, &second].map(|signer| bearer(&signer.of("ann")));
    let statuses =
        |proxy: &Proxy| tokens.each_ref().map(|token| ask_h1(proxy, "/a", &[("authorization", token)], "").0);
    assert_eq!(statuses(&proxy), [200, 401]);
    keys.write(&second.set());
    assert_eq!(statuses(&proxy), [200, 401], "nothing watches it here");
    proxy.reload(&config(endpoint.addr, &routes)).expect("the keys are good");
    assert_eq!(statuses(&proxy), [401, 200]);
    keys.write("{ \"keys\": [] }");
    let error = proxy.reload(&config(endpoint.addr, &routes)).expect_err("no keys").to_string();
    assert!(error.contains("jwt of route \"tokens\"") && error.contains("it has no keys"), "{error}");
    assert_eq!(statuses(&proxy), [401, 200]);
    keys.write(&signer::set(&[&first, &second]));
    (0..2).for_each(|_| proxy.server().tokens().borrow().look());
    assert_eq!(statuses(&proxy), [200, 200]);
}

/// An issuer that answers each connection with the set as it is then.
fn issuer(set: Arc<Mutex<Option<String>>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                match socket.read(&mut byte) {
                    Ok(1) => head.push(byte[0]),
                    _ => break,
                }
            }
            let answer = match &*set.lock().expect("no panic") {
                Some(set) => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{set}", set.len()),
                None => "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_string(),
            };
            let _ = socket.write_all(answer.as_bytes());
        }
    });
    addr
}

#[tokio::test]
async fn keys_of_a_url_are_awaited_with_503_and_follow_a_rotation() {
    let (first, second) = (Signer::new("ES256", "1"), Signer::new("ES256", "2"));
    let set = Arc::new(Mutex::new(None));
    let endpoint = Endpoint::saying("hello");
    let routes = routes(&format!("http://{}/jwks.json", issuer(set.clone())), "", "");
    let mut proxy = start(endpoint.addr, &routes);
    let ms = Duration::from_millis;
    let pace = Pace { floor: ms(20), retry: ms(20)..=ms(20), ..Pace::default() };
    tokio::spawn(follow(proxy.server().tokens(), pace));
    let ask = async |proxy: &Proxy, signer: &Signer| {
        ask_h2(proxy, "/a", &[("authorization", &bearer(&signer.of("ann")))], "").await
    };
    let early = ask(&proxy, &first).await;
    assert_eq!((early.0, field(&early, "retry-after"), field(&early, "www-authenticate")), (503, Some("5"), None));
    *set.lock().expect("no panic") = Some(first.set());
    wait_until_asked("the keys are there", async || ask(&proxy, &first).await.0 != 503).await;
    assert_eq!((ask(&proxy, &first).await.0, ask(&proxy, &second).await.0), (200, 401));
    *set.lock().expect("no panic") = Some(second.set());
    wait_until_asked("the keys are the second ones", async || ask(&proxy, &second).await.0 != 401).await;
    assert_eq!((ask(&proxy, &first).await.0, ask(&proxy, &second).await.0), (401, 200));
    // A reload keeps the keys, although the issuer is gone.
    *set.lock().expect("no panic") = None;
    proxy.reload(&config(endpoint.addr, &format!("{routes}body_max = '1MB'\n"))).expect("it is good");
    assert_eq!(ask(&proxy, &second).await.0, 200);
}

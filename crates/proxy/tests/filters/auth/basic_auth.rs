//! Passwords of routes: who is answered and who is refused, over both protocols on both sides, after changes of the file
//! and under load.

use crate::filters::access::List;
use crate::filters::echo::{CLIENTS, Echoes, ask, got};
use crate::filters::field;
use crate::support::log::Log;
use crate::support::{Client, Endpoint, Proxy, tool, wait_until};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_peers::installed;
use std::net::SocketAddr;

/// A user with each kind of hash, of the password behind it: made by `htpasswd`, by Argon2's reference and by `openssl`.
const USERS: [(&str, &str, &str); 4] = [
    ("ann", "$2y$04$bUeub1GoVcOIVEXKSXSHeO4dSoQQKHyFfJbSGubQcLL8CBIY8PQ5G", "secret"),
    ("bö b", "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4", "password"),
    ("cal", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5", "Hello world!"),
    (
        "dan",
        "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        "Hello world!",
    ),
];

/// The password of `ann` in [`USERS`], after it was changed to "changed".
const CHANGED: &str = "ann:$2y$04$7Rqq.3paXdlhveyVaEkbIeHkb5iPenbIQ2Se0VV32XvQR9Igkh7pe\n";

const CHALLENGE: &str = r#"Basic realm="The \"staff\"", charset="UTF-8""#;

fn users() -> String {
    USERS.iter().map(|(name, hash, _)| format!("{name}:{hash}\n")).collect()
}

/// Routes that ask for a password: `/staff`, and `/kept`, which leaves the credentials to the endpoint.
fn routes(file: &List) -> String {
    let file = file.0.display();
    format!(
        "[[route]]\npool = 'web'\n[[route]]\nname = 'staff'\nmatch = {{ prefix = '/staff' }}\npool = 'web'\n\
         basic_auth = {{ file = '{file}', realm = 'The \"staff\"' }}\nrequest_headers = {{ set = {{ X-User = '{{user}}' }} }}\n\
         [[route]]\nname = 'kept'\nmatch = {{ prefix = '/kept' }}\npool = 'web'\n\
         basic_auth = {{ file = '{file}', keep = true }}\n"
    )
}

/// A configuration with one worker and these routes.
fn config(endpoint: SocketAddr, file: &List, behind: &str) -> String {
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\nh2c = true\nerrors = 'detailed'\n\
         [pool.web]\nendpoints = ['{endpoint}']\n{}{behind}",
        routes(file)
    )
}

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// Status of a request with these credentials.
fn status(proxy: &Proxy, name: &str, password: &str) -> u16 {
    let mut client = proxy.client();
    send(&mut client, name, password);
    client.response().status()
}

fn send(client: &mut Client, name: &str, password: &str) {
    let credentials = basic(name, password);
    client.send(format!("GET /staff HTTP/1.1\r\nHost: a\r\nAuthorization: {credentials}\r\n\r\n"));
}

#[tokio::test]
async fn users_with_each_kind_of_hash_are_let_in_over_any_protocols() {
    let (echoes, file) = (Echoes::start(), List::new("each-hash", &users()));
    for (endpoint, proxy) in echoes.proxies(&routes(&file)) {
        for client in CLIENTS {
            let at = format!("{client}, {endpoint}");
            for (name, _, password) in USERS {
                let right = basic(name, password);
                let answer = ask(client, &proxy, "/staff/x?y", &[("authorization", &right), ("x-user", "root")]).await;
                assert_eq!((answer.0, got(&answer, "target")), (200, vec!["/staff/x?y"]), "{at}, {name}: {answer:?}");
                assert_eq!((got(&answer, "authorization"), got(&answer, "x-user")), (vec![], vec![name]), "{at}");
                let answer = ask(client, &proxy, "/kept", &[("authorization", &right)]).await;
                assert_eq!((answer.0, got(&answer, "authorization")), (200, vec![&*right]), "{at}, {name}");
                let wrong =
                    [basic(name, &format!("{password}x")), basic(name, ""), basic(&format!("{name}x"), password)];
                for wrong in wrong {
                    let answer = ask(client, &proxy, "/staff", &[("authorization", &wrong)]).await;
                    assert_eq!((answer.0, field(&answer, "www-authenticate")), (401, Some(CHALLENGE)), "{at}, {wrong}");
                    assert!(answer.2.contains("name or the password is wrong"), "{}", answer.2);
                }
            }
            let open = ask(client, &proxy, "/", &[("authorization", "Basic x")]).await;
            assert_eq!((open.0, got(&open, "authorization")), (200, vec!["Basic x"]), "another route asks for none");
        }
    }
}

#[tokio::test]
async fn requests_without_good_credentials_are_refused_before_any_is_verified() {
    let (echoes, file) = (Echoes::start(), List::new("no-credentials", &users()));
    let right = basic("ann", "secret");
    let (huge, largest) = (basic("ann", &"x".repeat(4000)), basic("ann", &"x".repeat(765)));
    for (endpoint, proxy) in echoes.proxies(&routes(&file)) {
        for client in CLIENTS {
            for (values, why) in [
                (&[][..], "no credentials"),
                (&[&*right, &right], "more than one Authorization"),
                (&[&*right, "Bearer x"], "more than one Authorization"),
                (&[&*huge], "longer than 1024 bytes"),
                (&[&*largest], "longer than 1024 bytes"),
                (&["Bearer YW5uOnNlY3JldA=="], "not of the scheme Basic"),
                (&["YW5uOnNlY3JldA=="], "not of the scheme Basic"),
                (&["Basic"], "not of the scheme Basic"),
                (&["Basic YW5uOnNlY3JldA"], "not base64"),
                (&["Basic YW5uOnNlY3JldA==, Basic YW5uOnNlY3JldA=="], "not base64"),
                (&["Basic ann:secret"], "not base64"),
                (&["Basic YW5u"], "no colon"),
                (&["Basic OnNlY3JldA=="], "no name"),
                (&["Basic YW5uOnNlY3JldAA="], "control characters"),
            ] {
                let fields: Vec<_> = values.iter().map(|value| ("authorization", *value)).collect();
                let answer = ask(client, &proxy, "/staff", &fields).await;
                let at = format!("{client}, {endpoint}: {answer:?}");
                assert_eq!((answer.0, field(&answer, "www-authenticate")), (401, Some(CHALLENGE)), "{at}");
                assert!(answer.2.contains(why), "{why}: {at}");
            }
        }
        assert_eq!(proxy.listener(|stats| stats.passwords_verified.get()), 0);
        assert_eq!(proxy.listener(|stats| stats.passwords_refused.get()), 28);
    }
}

#[test]
fn a_connection_stays_through_refusals_and_bodies_stay_with_their_requests() {
    let (echoes, file) = (Echoes::start(), List::new("keep-alive", &users()));
    for (endpoint, proxy) in echoes.proxies(&routes(&file)) {
        let mut client = proxy.client();
        for (name, password, status) in
            [("ann", "wrong", 401), ("ann", "secret", 200), ("eve", "secret", 401), ("ann", "secret", 200)]
        {
            let credentials = basic(name, password);
            client.send(format!(
                "POST /staff HTTP/1.1\r\nHost: a\r\nAuthorization: {credentials}\r\nContent-Length: 5\r\n\r\nhello"
            ));
            let answer = client.response();
            assert_eq!((answer.status(), answer.field("connection")), (status, None), "{endpoint}");
        }
        assert_eq!(client.get("/").status(), 200, "{endpoint}");
    }
}

#[test]
fn a_password_is_verified_once_while_it_is_remembered() {
    let (endpoint, file) = (Endpoint::saying("hello"), List::new("remembered", &users()));
    let proxy = Proxy::start(&config(endpoint.addr, &file, ""));
    let verified = || proxy.listener(|stats| stats.passwords_verified.get());
    for (name, password, is_right) in [("ann", "secret", true), ("ann", "wrong", false), ("eve", "secret", false)] {
        let before = verified();
        for _ in 0..5 {
            assert_eq!(status(&proxy, name, password), if is_right { 200 } else { 401 });
        }
        assert_eq!(verified() - before, 1, "{name}");
    }
}

#[test]
fn a_changed_file_counts_after_a_reload_or_a_look_and_a_wrong_one_never() {
    let (endpoint, file) = (Endpoint::saying("hello"), List::new("changed", &users()));
    let text = config(endpoint.addr, &file, "");
    let mut proxy = Proxy::start(&text);
    let statuses = |proxy: &Proxy| {
        [("ann", "secret"), ("ann", "changed"), ("cal", "Hello world!")].map(|(name, pass)| status(proxy, name, pass))
    };
    assert_eq!(statuses(&proxy), [200, 401, 200]);
    std::fs::write(&file.0, CHANGED).expect("it can be written");
    assert_eq!(statuses(&proxy), [200, 401, 200], "nothing watches it here");
    proxy.reload(&text).expect("the file is good");
    assert_eq!(statuses(&proxy), [401, 200, 401], "what was remembered is of the old hashes");
    // A wrong file fails the reload and says why, but never with what the line has.
    std::fs::write(&file.0, "ann:hunter2\n").expect("it can be written");
    let error = proxy.reload(&text).expect_err("it is not a hash").to_string();
    let at = format!("basic_auth of route \"staff\": {}:1: the hash is not", file.0.display());
    assert!(error.contains(&at) && !error.contains("hunter2"), "{error}");
    (0..2).for_each(|_| proxy.server().resources().look());
    assert_eq!(statuses(&proxy), [401, 200, 401]);
    // As the process looks at files that it watches; a change counts once it has been seen twice.
    std::fs::write(&file.0, users()).expect("it can be written");
    (0..2).for_each(|_| proxy.server().resources().look());
    assert_eq!(statuses(&proxy), [200, 401, 200]);
    std::fs::remove_file(&file.0).expect("it is there");
    (0..2).for_each(|_| proxy.server().resources().look());
    assert_eq!(statuses(&proxy), [200, 401, 200]);
    let error = proxy.reload(&text).expect_err("the file is gone").to_string();
    assert!(error.contains(&format!("cannot read {}", file.0.display())), "{error}");
    std::fs::write(&file.0, CHANGED).expect("it can be written");
    proxy.reload(&text).expect("the file is good");
    assert_eq!(statuses(&proxy), [401, 200, 401]);
}

/// Four passwords that take a thread long each. The only worker would have verified all of them before it answers
/// something else, if it did that itself.
#[test]
fn a_worker_answers_others_while_passwords_are_verified_and_refuses_too_many() {
    let slow = USERS[0].1.replace("$04$", "$12$");
    let (endpoint, file) = (Endpoint::saying("hello"), List::new("slow", &format!("ann:{slow}\n")));
    let proxy = Proxy::start(&config(endpoint.addr, &file, ""));
    let mut clients: Vec<Client> = (0..4).map(|_| proxy.client()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        send(client, "ann", &format!("password {n}"));
    }
    wait_until("all wait", || proxy.listener(|stats| stats.passwords_verified.get()) == 4);
    let mut other = proxy.client();
    assert_eq!(other.get("/").status(), 200);
    send(&mut other, "ann", "password 4");
    let refused = other.response();
    assert_eq!((refused.status(), refused.field("retry-after")), (503, Some("1")));
    assert!(refused.body_text().contains("too many passwords wait"), "{}", refused.body_text());
    assert_eq!(other.get("/").status(), 200, "the connection stays");
    assert!(proxy.ended(401) < 4, "some are still verified");
    assert_eq!(proxy.listener(|stats| stats.passwords_waiting.get()), 1);
    // Those that nothing waits for any more are left out.
    clients.drain(..).for_each(Client::reset);
    drop(other);
    wait_until("all have left", || proxy.listener(|stats| stats.active.get()) == 0);
}

#[tokio::test]
async fn logs_and_explanations_name_the_user_and_never_a_password() {
    let (endpoint, file, log) = (Endpoint::saying("hello"), List::new("explained", &users()), Log::new());
    let behind = format!("{}\n[telemetry.explain]\nsample = 1\n", log.config());
    let proxy = Proxy::start(&config(endpoint.addr, &file, &behind));
    let right = basic("ann", "secret");
    for (value, did) in [
        (Some(&*right), "ann, verified"),
        (Some(&*right), "ann, remembered"),
        (Some(&*basic("ann", "hunter2")), "the name or the password is wrong"),
        (Some("Basic hunter2"), "the credentials are not base64"),
        (None, "the request has no credentials"),
    ] {
        let line = value.map_or(String::new(), |value| format!("Authorization: {value}\r\n"));
        let ended = proxy.ended(200) + proxy.ended(401);
        proxy.client().send(format!("GET /staff HTTP/1.1\r\nHost: a\r\n{line}\r\n")).response();
        wait_until("it is over", || proxy.ended(200) + proxy.ended(401) > ended);
        let kept = proxy.server().looker().explanations().await;
        let steps: Vec<_> = kept.iter().flat_map(|one| &one.filters).filter(|step| step.name == "basic_auth").collect();
        assert!(steps.iter().any(|step| step.did == did), "{did}: {steps:?}");
        let shown = format!("{kept:?}");
        assert!(!shown.contains("secret") && !shown.contains("hunter2") && !shown.contains("YW5u"), "{shown}");
    }
    let lines = log.lines(proxy);
    let users: Vec<_> = lines.iter().map(|line| (line["status"].as_u64(), line["user"].as_str())).collect();
    let (known, refused) = ((Some(200), Some("ann")), (Some(401), None));
    assert_eq!(users, [known, known, refused, refused, refused]);
    assert!(lines[2]["reason"].as_str().is_some_and(|reason| reason.contains("is wrong")), "{}", lines[2]);
    let shown = format!("{lines:?}");
    assert!(!shown.contains("secret") && !shown.contains("hunter2") && !shown.contains("YW5u"), "{shown}");
}

#[test]
fn files_of_htpasswd_and_openssl_let_curl_in() {
    if !installed(&["curl", "htpasswd", "openssl"]) {
        return;
    }
    let text = |program: &str, args: &[&str]| {
        let output = tool(program).args(args).output().expect("it is installed");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text").trim().to_string()
    };
    let bcrypt = text("htpasswd", &["-nbB", "-C", "4", "ann", "pass:word"]);
    let sha512 = text("openssl", &["passwd", "-6", "pässword"]);
    let file = List::new("curl", &format!("# made by tools\n{bcrypt}\nbea:{sha512}\n"));
    let endpoint = Endpoint::saying("hello");
    let proxy = Proxy::start(&config(endpoint.addr, &file, ""));
    let url = format!("http://{}/staff", proxy.addr());
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let curl = |user: &str| text("curl", &["-sS", "-w", " %{http_code}", version, "-u", user, &url]);
        assert_eq!(curl("ann:pass:word"), "hello 200", "{version}");
        assert_eq!(curl("bea:pässword"), "hello 200", "{version}");
        assert!(curl("ann:pass").ends_with(" 401"), "{version}");
    }
    // It waits for the challenge before it sends the password.
    let asked = text("curl", &["-sS", "-w", " %{http_code}", "--http1.1", "--anyauth", "-u", "ann:pass:word", &url]);
    assert_eq!(asked, "hello 200");
}

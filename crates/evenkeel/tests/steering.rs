//! Commands and API by which an operator sees and changes a running evenkeel.

use crate::support::{Adopted, Endpoint, Folder, Running, address, ask, evenkeel, eventually, get, text};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

struct Setup {
    folder: Folder,
    listen: String,
    admin: String,
    file: String,
}

impl Setup {
    /// Two endpoints, `one` and `two`, in the pool `shop`.
    fn new(name: &str, endpoints: [&Endpoint; 2], more: &str) -> Setup {
        let (folder, listen, admin) = (Folder::new(name), address(), address());
        let token = folder.file("write.token", "a-token-that-may-write\n");
        let text = format!(
            "[admin]\nbind = 'unix:{}'\nhttp = {{ bind = '{admin}', write_token = '{token}' }}\n\
             [listener.web]\nbind = ['{listen}']\n{more}\n[pool.shop]\n\
             endpoints = [{{ name = 'one', addr = '{}' }}, {{ name = 'two', addr = '{}' }}]\n",
            folder.0.join("admin.sock").display(),
            endpoints[0].addr,
            endpoints[1].addr
        );
        let file = folder.file("evenkeel.toml", &text);
        Setup { folder, listen, admin, file }
    }

    fn run(&self) -> Running {
        Running::start(&["run", "-c", &self.file])
    }

    /// Runs a command, which has to succeed; what it says.
    #[track_caller]
    fn command(&self, words: &[&str]) -> String {
        let done = evenkeel(&[words, &["-c", &self.file]].concat());
        assert_eq!(done.status.code(), Some(0), "{words:?}: {}", text(&done.stderr));
        text(&done.stdout)
    }

    fn endpoint(&self, name: &str) -> Value {
        let pool: Value = serde_json::from_str(&self.command(&["status", "shop", "--json"])).expect("JSON");
        let endpoints = pool["endpoints"].as_array().expect("a list");
        endpoints.iter().find(|endpoint| endpoint["name"] == name).expect("it is one of the pool").clone()
    }

    /// Endpoints that twenty requests reach.
    fn reached(&self) -> Vec<String> {
        let mut bodies: Vec<String> = (0..20).map(|_| get(&self.listen, "/").expect("an answer").1).collect();
        bodies.sort_unstable();
        bodies.dedup();
        bodies
    }
}

#[test]
fn a_pool_that_is_drained_leaves_its_split_and_comes_back() {
    let (stable, canary) = (Endpoint::start("stable"), Endpoint::start("canary"));
    let (folder, listen) = (Folder::new("steering-split"), address());
    let config = format!(
        "[admin]\nbind = 'unix:{}'\n[listener.web]\nbind = ['{listen}']\n[[route]]\nname = 'shop'\n\
         split = {{ weights = {{ stable = 50, canary = 50 }} }}\n[pool.stable]\nendpoints = ['{}']\n\
         [pool.canary]\nendpoints = ['{}']\n",
        folder.0.join("admin.sock").display(),
        stable.addr,
        canary.addr
    );
    let file = folder.file("evenkeel.toml", &config);
    let _running = Running::start(&["run", "-c", &file]);
    let command = |words: &[&str]| {
        let done = evenkeel(&[words, &["-c", &file]].concat());
        assert_eq!(done.status.code(), Some(0), "{words:?}: {}", text(&done.stderr));
        (text(&done.stdout), text(&done.stderr))
    };
    let reached = || {
        let mut answers: Vec<(u16, String)> = (0..60).map(|_| get(&listen, "/").expect("an answer")).collect();
        answers.sort_unstable();
        answers.dedup_by_key(|(status, body)| (*status, body.starts_with("stable")));
        answers.into_iter().map(|(status, body)| (status, body.chars().take(6).collect::<String>())).collect::<Vec<_>>()
    };
    let both = [(200, "canary".to_owned()), (200, "stable".to_owned())];
    assert_eq!(reached(), both);
    let (_, note) = command(&["drain", "canary"]);
    let wanted = "all endpoints of pool \"canary\" are drained: the split of route \"shop\" sends its share to stable";
    assert!(note.contains(wanted), "{note}");
    assert_eq!(reached(), both[1..]);
    let (shown, _) = command(&["split", "shop"]);
    assert!(shown.contains("100.0%") && shown.contains("0.0% (drained)"), "{shown}");
    let (_, note) = command(&["drain", "stable"]);
    assert!(note.contains("the pool serves no new requests until an endpoint is undrained"), "{note}");
    let refused = reached();
    assert!(refused.iter().all(|(status, _)| *status == 503), "{refused:?}");
    command(&["undrain", "stable"]);
    assert_eq!(reached(), both[1..]);
    command(&["undrain", "canary"]);
    assert_eq!(reached(), both);
}

#[test]
fn what_an_operator_wants_counts_over_reload_and_upgrade_and_restart() {
    let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
    let folder = Folder::new("steering-state");
    let state = folder.0.join("orders.json");
    let setup = Setup::new("steering", [&one, &two], &format!("[runtime]\nstate = '{}'", state.display()));
    let mut running = setup.run();
    assert_eq!(setup.reached(), ["one", "two"]);
    let said = setup.command(&["drain", "shop", "two"]);
    assert!(said.starts_with("shop  two  draining (drained by uid "), "{said}");
    assert_eq!(setup.reached(), ["one"]);
    let endpoint = setup.endpoint("two");
    assert_eq!((&endpoint["state"], &endpoint["order"]["drain"]), (&"draining".into(), &"keep-sessions".into()));

    let file = fs::read_to_string(&setup.file).expect("it was written");
    fs::write(&setup.file, file.replace("[listener.web]", "[listener.web]\ntimeouts = { client_idle = '9s' }"))
        .expect("a file");
    setup.command(&["reload"]);
    assert_eq!(setup.reached(), ["one"]);
    let said = setup.command(&["upgrade"]);
    assert!(said.contains("has taken over"), "{said}");
    assert_eq!(setup.reached(), ["one"]);
    running.ends();

    // The one that took over is known by its status.
    let status: Value = serde_json::from_str(&setup.command(&["status", "--json"])).expect("JSON");
    let pid = status["pid"].as_i64().expect("a number") as i32;
    let successor = Adopted(Pid::from_raw(pid).expect("a process"));
    kill_process(successor.0, Signal::TERM).expect("it runs");
    eventually("it ends", || test_kill_process(successor.0).is_err().then_some(()));
    let running = setup.run();
    assert_eq!(setup.reached(), ["one"]);
    setup.command(&["undrain", "shop", "two"]);
    assert_eq!(setup.reached(), ["one", "two"]);
    assert_eq!(fs::read_to_string(&state).expect("it was kept"), "{}\n");
    drop(running);
}

#[test]
fn weights_health_and_ejection_are_changed_and_told() {
    let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
    let setup = Setup::new("steering-more", [&one, &two], "");
    let _running = setup.run();
    setup.command(&["weight", "shop", "one", "0"]);
    assert_eq!(setup.reached(), ["two"]);
    assert_eq!(setup.endpoint("one")["state"], "disabled");
    setup.command(&["weight", "shop", "one"]);
    setup.command(&["down", "shop", "two"]);
    assert_eq!(setup.reached(), ["one"]);
    let table = setup.command(&["status", "shop"]);
    assert!(
        table.lines().any(|line| line.contains("two") && line.contains("down") && line.contains("forced down by uid ")),
        "{table}"
    );
    setup.command(&["auto", "shop", "two"]);
    setup.command(&["eject", "shop", "one"]);
    assert_eq!(setup.reached(), ["two"]);
    assert_eq!(setup.endpoint("one")["reason"], "by an operator");
    let again = evenkeel(&["eject", "shop", "one", "-c", &setup.file]);
    assert_eq!((again.status.code(), text(&again.stderr).contains("is ejected")), (Some(1), true));
    setup.command(&["restore", "shop", "one"]);
    assert_eq!(setup.reached(), ["one", "two"]);

    let events = setup.command(&["events"]);
    for said in [
        "two  is forced down, whatever its checks report (uid ",
        "one  up -> ejected: by an operator",
        "serves, process",
    ] {
        assert!(events.contains(said), "no {said} in {events}");
    }
    let wrong = evenkeel(&["drain", "shop", "three", "-c", &setup.file]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        text(&wrong.stderr).contains("unknown endpoint \"three\" of pool \"shop\"; endpoints: one, two"),
        "{}",
        text(&wrong.stderr)
    );
    let shown = setup.command(&["config", "show"]);
    assert!(shown.contains("[pool.shop]"), "{shown}");
    drop(setup.folder);
}

#[test]
fn weights_of_a_split_are_changed_while_it_serves_and_stay_over_reload_and_upgrade() {
    let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
    let (folder, listen) = (Folder::new("steering-split"), address());
    let state = folder.0.join("orders.json");
    let toml = format!(
        "[admin]\nbind = 'unix:{}'\n[runtime]\nstate = '{}'\n[listener.web]\nbind = ['{listen}']\n\
         [[route]]\nname = 'plain'\nmatch = {{ path = '/plain' }}\npool = 'one'\n\
         [[route]]\nname = 'all'\nsplit = {{ weights = {{ one = 1, two = 0 }} }}\n\
         [pool.one]\nendpoints = ['{}']\n[pool.two]\nendpoints = ['{}']\n",
        folder.0.join("admin.sock").display(),
        state.display(),
        one.addr,
        two.addr
    );
    let file = folder.file("evenkeel.toml", &toml);
    let setup = Setup { folder, listen, admin: String::new(), file };
    let mut running = setup.run();
    assert_eq!(setup.reached(), ["one"]);
    let said = setup.command(&["split", "all"]);
    assert!(said.lines().any(|line| line.split_whitespace().eq(["one", "1", "100.0%"])), "{said}");
    let said = setup.command(&["split", "all", "one=0", "two=3"]);
    assert!(said.contains("3 (configured 0)") && said.contains("weights set by uid "), "{said}");
    assert_eq!(setup.reached(), ["two"]);
    assert!(setup.command(&["status"]).contains("route all: split one 0, two 3 by uid "));
    assert!(setup.command(&["events"]).contains("split of route \"all\": one 0, two 3 (uid "));
    let shown: Value = serde_json::from_str(&setup.command(&["split", "all", "--json"])).expect("JSON");
    assert_eq!((&shown["pools"][1]["weight"], &shown["pools"][1]["configured"]), (&3.into(), &0.into()));

    // With other configured weights and by the process that takes over, the order counts still.
    fs::write(&setup.file, toml.replace("one = 1,", "one = 7,")).expect("a file");
    setup.command(&["reload"]);
    assert_eq!(setup.reached(), ["two"]);
    setup.command(&["upgrade"]);
    assert_eq!(setup.reached(), ["two"]);
    running.ends();
    let status: Value = serde_json::from_str(&setup.command(&["status", "--json"])).expect("JSON");
    let _successor = Adopted(Pid::from_raw(status["pid"].as_i64().expect("a number") as i32).expect("a process"));

    for (words, code, said) in [
        (&["split", "none"][..], 1, "unknown route \"none\"; routes with a split: all"),
        (&["split", "plain"], 1, "the route \"plain\" has no split"),
        (&["split", "all", "three=1"], 1, "has no pool \"three\"; pools: one, two"),
        (&["split", "all", "two=0"], 1, "no pool of the split of route \"all\" would have a weight above 0"),
        (&["split", "all", "two"], 2, "write POOL=WEIGHT, such as canary=10"),
        (&["split", "all", "two=1000001"], 2, "a weight of 0 to 1000000"),
    ] {
        let wrong = evenkeel(&[words, &["-c", &setup.file]].concat());
        let why = self::text(&wrong.stderr);
        assert!(wrong.status.code() == Some(code) && why.contains(said), "{words:?}: {why}");
    }
    assert_eq!(setup.reached(), ["two"], "nothing was changed");
    let kept = fs::read_to_string(&state).expect("it was kept");
    assert!(kept.contains("\"split weights\""), "{kept}");
    setup.command(&["split", "all", "--configured"]);
    assert_eq!(setup.reached(), ["one"]);
    assert_eq!(fs::read_to_string(&state).expect("it was kept"), "{}\n");
}

#[test]
fn over_tcp_a_token_is_needed_to_change_anything() {
    let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
    let setup = Setup::new("steering-tcp", [&one, &two], "");
    let _running = setup.run();
    let path = "/v1/pools/shop/endpoints/one";
    let asked = |method: &str, path: &str, fields: &str, body: &str| {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\n{fields}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        ask(&setup.admin, &request).expect("an answer")
    };
    let (host, json) = (format!("Host: {}\r\n", setup.admin), "Content-Type: application/json\r\n");
    let token = "Authorization: Bearer a-token-that-may-write\r\n";
    let drain = r#"{"drain":"now"}"#;
    for (fields, body, want) in [
        (format!("{host}{json}"), drain, "403"),
        (format!("{host}{json}Authorization: Bearer another-token-of-16\r\n"), drain, "401"),
        (format!("Host: evil.example\r\n{json}{token}"), drain, "403"),
        (format!("{host}{json}{token}Origin: http://evil.example\r\n"), drain, "403"),
        (format!("{host}{token}Content-Type: text/plain\r\n"), drain, "415"),
        (format!("{host}{json}{token}"), "{\"drain\":", "400"),
        (format!("{host}{json}{token}"), "{\"drains\":null}", "400"),
        (format!("{host}{json}{token}"), "{\"weight\":70000}", "400"),
        (format!("{host}{json}{token}If-Match: \"stale\"\r\n"), drain, "412"),
    ] {
        let answer = asked("PATCH", path, &fields, body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {want} ")), "{fields}{body}: {answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
    }
    assert_eq!(setup.endpoint("one")["order"], Value::Null, "nothing was changed");
    let of = |answer: &str| answer.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a version").to_owned();
    let version = of(&asked("GET", path, &host, ""));
    let answer = asked("PATCH", path, &format!("{host}{json}{token}If-Match: {version}\r\n"), drain);
    assert!(answer.starts_with("HTTP/1.1 200 ") && of(&answer) != version, "{answer}");
    assert_eq!(setup.endpoint("one")["order"]["by"], "the write token");
    for (path, want) in [
        ("/v1/pools/none", "404"),
        ("/v1/nothing", "404"),
        ("/v1/openapi.json", "200"),
        ("/metrics", "200"),
        ("/v1/events?after=x", "400"),
    ] {
        let answer = asked("GET", path, &host, "");
        assert!(answer.starts_with(&format!("HTTP/1.1 {want} ")), "{path}: {answer}");
    }
    assert!(asked("DELETE", path, &format!("{host}{token}"), "").starts_with("HTTP/1.1 405 "));
}

/// An endpoint that upgrades each connection and is silent from then on.
fn silent_after_upgrade() -> String {
    let addr = address();
    let listener = TcpListener::bind(&addr).expect("nobody else uses it");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                    head.push(byte[0]);
                }
                let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes());
                let _ = stream.read(&mut byte);
            });
        }
    });
    addr
}

#[test]
fn failures_are_what_an_endpoint_did_wrong() {
    let (folder, listen, upgrades) = (Folder::new("steering-failed"), address(), address());
    let (refuses, silent) = (address(), silent_after_upgrade());
    let text = format!(
        "[admin]\nbind = 'unix:{}'\n[listener.web]\nbind = ['{listen}']\n\
         [listener.sockets]\nbind = ['{upgrades}']\n\
         [[route]]\npool = 'refuses'\nmatch = {{ listener = ['web'] }}\n[[route]]\npool = 'silent'\nmatch = {{ listener = ['sockets'] }}\n\
         [pool.refuses]\nendpoints = ['{refuses}']\n[pool.silent]\ntimeouts = {{ idle = '1s' }}\nendpoints = ['{silent}']\n",
        folder.0.join("admin.sock").display()
    );
    let file = folder.file("evenkeel.toml", &text);
    let _running = Running::start(&["run", "-c", &file]);
    let counts = |pool: &str| {
        let done = evenkeel(&["status", pool, "--json", "-c", &file]);
        let pool: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}", text_of(&done)));
        let of = |key: &str| pool["endpoints"][0][key].as_u64().expect("a number");
        (of("failed"), of("requests"))
    };
    assert_eq!(get(&listen, "/").expect("an answer").0, 502);
    let (failed, tries) = counts("refuses");
    assert!(failed > 0 && failed == tries, "{failed} of {tries}: nothing listens there");

    // Closed after a second in which nothing was sent.
    let request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let mut client = TcpStream::connect(&upgrades).expect("it listens");
    client.write_all(request.as_bytes()).expect("it reads");
    let mut status = [0; 13];
    client.read_exact(&mut status).expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 101 ");
    // In whichever way it is closed.
    let _ = client.read_to_end(&mut Vec::new());
    let counted = eventually("the end of it", || Some(counts("silent")).filter(|(_, tries)| *tries > 0));
    assert_eq!(counted, (0, 1), "an idle connection is not a failure");
}

fn text_of(done: &std::process::Output) -> String {
    format!("{}{}", text(&done.stdout), text(&done.stderr))
}

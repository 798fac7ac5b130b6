//! Reloads without loss: a process with everything that can change, and clients that must not notice.

use crate::support::streams::{Load, Streaming};
use crate::support::{Endpoint, Folder, Running, address, evenkeel, eventually, get, text};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::Ordering::SeqCst;

/// A file with an admin in both forms, one listener, and whatever else.
struct Setup {
    folder: Folder,
    listen: String,
    admin: String,
}

impl Setup {
    fn new(name: &str) -> Setup {
        Setup { folder: Folder::new(name), listen: address(), admin: address() }
    }

    fn socket(&self) -> String {
        self.folder.0.join("admin.sock").display().to_string()
    }

    /// The text of a file that balances over these endpoints.
    fn text(&self, endpoints: &[&str], more: &str) -> String {
        format!(
            "[admin]\nbind = 'unix:{}'\nhttp = {{ bind = '{}' }}\n[listener.web]\nbind = ['{}']\n\
             [pool.web]\nendpoints = {endpoints:?}\n{more}\n",
            self.socket(),
            self.admin,
            self.listen
        )
    }

    fn write(&self, endpoints: &[&str], more: &str) -> String {
        self.folder.file("evenkeel.toml", &self.text(endpoints, more))
    }

    fn body(&self) -> String {
        get(&self.listen, "/").expect("an answer").1
    }

    #[track_caller]
    fn has_metric(&self, line: &str) {
        let (_, metrics) = get(&self.admin, "/metrics").expect("an answer");
        assert!(metrics.lines().any(|l| l == line), "no {line} in {metrics}");
    }
}

#[test]
fn a_signal_a_command_and_a_bad_file_each_have_their_answer() {
    let (a, b, setup) = (Endpoint::start("a"), Endpoint::start("b"), Setup::new("reload"));
    let file = setup.write(&[&a.addr], "");
    let running = Running::start(&["run", "-c", &file]);
    assert_eq!(setup.body(), "a");

    setup.write(&[&b.addr], "");
    running.signal(Signal::HUP);
    eventually("a reload", || running.said().contains("generation 1; changed: pool web").then_some(()));
    assert_eq!(setup.body(), "b");

    // Both ways to ask, for what is wrong too.
    setup.write(&[&a.addr], "balance = 'rondom'");
    let refused = evenkeel(&["reload", "--socket", &setup.socket()]);
    assert_eq!(refused.status.code(), Some(78), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("unknown algorithm \"rondom\""), "{}", text(&refused.stderr));
    // The answer may be faster than what reads the log.
    eventually("the log says it too", || running.said().contains("unknown algorithm").then_some(()));
    let refused = evenkeel(&["reload", "-c", &file]);
    assert_eq!(refused.status.code(), Some(78), "{}", text(&refused.stderr));
    assert_eq!(setup.body(), "b");
    setup.has_metric("evenkeel_config_reloads_total{result=\"refused\"} 1");

    let diff = |more: &[&str]| {
        let done = evenkeel(&[&["config", "diff", "--socket", &setup.socket()], more].concat());
        (done.status.code(), text(&done.stdout), text(&done.stderr))
    };
    assert_eq!(diff(&[]).0, Some(78), "the file is wrong as yet");
    setup.write(&[&a.addr], "");
    let differs = format!("pool web: endpoint {} removed\npool web: endpoint {} added\n", b.addr, a.addr);
    assert_eq!(diff(&[]), (Some(10), differs.clone(), String::new()));
    let other = setup.folder.file("other.toml", &setup.text(&[&b.addr], "balance = 'leastconn'"));
    let (code, said, _) = diff(&[&other, "--json"]);
    assert_eq!(code, Some(10));
    assert!(said.contains(r#""changes":["pool web: balance: \"random\" -> \"leastconn\""]"#), "{said}");
    let done = evenkeel(&["reload", "-c", &file]);
    let said = format!(
        "generation 2; changed: pool web\n  pool web: endpoint {} removed\n  pool web: endpoint {} added\n",
        b.addr, a.addr
    );
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(0), said));
    assert_eq!(diff(&[]), (Some(0), String::new(), String::new()));
    let events = evenkeel(&["events", "--socket", &setup.socket()]);
    assert!(
        text(&events.stdout).contains(&format!("; pool web: endpoint {} added", a.addr)),
        "{}",
        text(&events.stdout)
    );
    assert_eq!(setup.body(), "a");
    setup.has_metric("evenkeel_config_reloads_total{result=\"applied\"} 2");
    setup.has_metric("evenkeel_config_generation 2");
    setup.has_metric("evenkeel_generations_draining 0");

    let failed = setup.write(&[&a.addr], "[listener.no]\nbind = ['198.51.100.1:80']");
    let failed = evenkeel(&["reload", "-c", &failed]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stderr).contains("this machine does not have that address"), "{}", text(&failed.stderr));
    assert_eq!(setup.body(), "a");
}

#[test]
fn whoever_cannot_be_asked_is_told_as_such() {
    let folder = Folder::new("nobody");
    let socket = folder.0.join("no.sock").display().to_string();
    let unreached = evenkeel(&["reload", "--socket", &socket]);
    assert_eq!(unreached.status.code(), Some(1));
    assert!(text(&unreached.stderr).contains("cannot query evenkeel at"), "{}", text(&unreached.stderr));
    let file =
        folder.file("e.toml", "[listener.web]\nbind = ['127.0.0.1:1']\n[pool.web]\nendpoints = ['127.0.0.1:2']\n");
    let unreached = evenkeel(&["reload", "-c", &file]);
    assert_eq!(unreached.status.code(), Some(1));
    let said = text(&unreached.stderr);
    assert!(said.contains("no evenkeel on this machine was started with"), "{said}");
}

#[test]
fn changes_are_not_made_over_tcp() {
    let (a, setup) = (Endpoint::start("a"), Setup::new("tcp"));
    let _running = Running::start(&["run", "-c", &setup.write(&[&a.addr], "")]);
    let mut stream = std::net::TcpStream::connect(&setup.admin).expect("it listens");
    let post = b"POST /v1/reload HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    std::io::Write::write_all(&mut stream, post).expect("it reads");
    let answer = std::io::read_to_string(stream).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

#[test]
fn a_watched_file_is_read_however_it_changes() {
    let (a, b, setup) = (Endpoint::start("a"), Endpoint::start("b"), Setup::new("watch"));
    let watch = "[runtime]\nwatch = true\n[include]\nfiles = ['conf.d/*.toml']";
    let more = |time: &str| format!("[pool.web]\ntimeouts = {{ idle = '{time}' }}\n");
    let conf_d = setup.folder.0.join("conf.d");
    fs::create_dir(&conf_d).expect("a folder");
    let file = setup.write(&[&a.addr], watch);
    let running = Running::start(&["run", "-c", &file]);
    let mut generation = 0;
    let mut next = |what: &str| {
        generation += 1;
        let said = format!("generation {generation};");
        eventually(what, || running.said().contains(&said).then_some(()));
    };

    setup.write(&[&b.addr], watch);
    next("a file written over");
    assert_eq!(setup.body(), "b");

    let aside = setup.folder.file(".evenkeel.toml.swp", &setup.text(&[&a.addr], watch));
    fs::rename(aside, &file).expect("it can be renamed");
    next("a file renamed to it");
    assert_eq!(setup.body(), "a");

    fs::write(conf_d.join("other.toml"), more("1m")).expect("a file");
    next("one more file in an included folder");
    fs::write(conf_d.join("other.toml"), more("2m")).expect("a file");
    next("an included file written over");
    fs::remove_file(conf_d.join("other.toml")).expect("it is there");
    next("an included file gone");

    let real = setup.folder.0.join("real");
    fs::create_dir(&real).expect("a folder");
    fs::write(real.join("evenkeel.toml"), setup.text(&[&b.addr], watch)).expect("a file");
    symlink("real/evenkeel.toml", setup.folder.0.join("link")).expect("a link");
    fs::rename(setup.folder.0.join("link"), &file).expect("it can be renamed");
    next("a link in its place");
    assert_eq!(setup.body(), "b");
    fs::write(real.join("evenkeel.toml"), setup.text(&[&a.addr], watch)).expect("a file");
    next("the file behind the link");
    assert_eq!(setup.body(), "a");

    fs::write(real.join("evenkeel.toml"), "nonsense").expect("a file");
    eventually("a refusal", || running.said().contains("keeping the previous configuration").then_some(()));
    assert_eq!(setup.body(), "a");
    fs::write(real.join("evenkeel.toml"), setup.text(&[&b.addr], "")).expect("a file");
    next("a good file again");
    assert_eq!(setup.body(), "b");
}

#[test]
fn a_watched_list_of_networks_is_read_when_it_changes_and_a_wrong_one_is_not_used() {
    let (a, setup) = (Endpoint::start("a"), Setup::new("networks"));
    let list = setup.folder.file("denied.txt", "192.0.2.0/24\n");
    let route = format!("[runtime]\nwatch = true\n[[route]]\npool = 'web'\naccess = {{ deny_files = ['{list}'] }}");
    let running = Running::start(&["run", "-c", &setup.write(&[&a.addr], &route)]);
    let status = || get(&setup.listen, "/").expect("an answer").0;
    assert_eq!(status(), 200);
    fs::write(&list, "192.0.2.0/24\n127.0.0.0/8 # here\n").expect("it can be written");
    eventually("a refusal", || (status() == 403).then_some(()));
    fs::write(&list, "nonsense\n").expect("it can be written");
    let wrong = format!("keeping the previous access lists: {list}:1: ");
    eventually("an error with the line", || running.said().contains(&wrong).then_some(()));
    assert_eq!(status(), 403);
    fs::remove_file(&list).expect("it is there");
    setup.folder.file("denied.txt", "");
    eventually("an answer", || (status() == 200).then_some(()));
}

#[test]
fn the_access_log_follows_a_rename_and_a_change() {
    let (a, setup) = (Endpoint::start("a"), Setup::new("logs"));
    let path = |name: &str| setup.folder.0.join(name);
    let logged = |name: &str| fs::read_to_string(path(name)).unwrap_or_default().lines().count();
    let log = |name: &str| format!("[telemetry]\naccess_log = {{ path = '{}' }}", path(name).display());
    let running = Running::start(&["run", "-c", &setup.write(&[&a.addr], &log("first"))]);
    setup.body();
    eventually("a line", || (logged("first") == 1).then_some(()));
    fs::rename(path("first"), path("moved")).expect("it can be renamed");
    running.signal(Signal::USR1);
    eventually("a new file", || path("first").exists().then_some(()));
    setup.body();
    eventually("a line in the new file", || (logged("first") == 1).then_some(()));
    fs::rename(path("first"), path("moved-too")).expect("it can be renamed");
    let done = evenkeel(&["reopen", "--socket", &setup.socket()]);
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(0), "logs reopened\n".to_string()));
    // The answer came when the file was there.
    assert!(path("first").exists());
    setup.body();
    eventually("a line in the newest file", || (logged("first") == 1).then_some(()));
    setup.write(&[&a.addr], &log("second"));
    running.signal(Signal::HUP);
    eventually("a reload", || running.said().contains("generation 1; changed: telemetry").then_some(()));
    setup.body();
    eventually("a line in the other file", || (logged("second") == 1).then_some(()));
    assert_eq!((logged("moved"), logged("first")), (1, 1));
}

#[test]
fn a_listener_moves_between_one_address_and_all_of_the_machine_under_load() {
    let (streaming, setup) = (Streaming::start(), Setup::new("moves"));
    let text = setup.text(&[&streaming.addr], "");
    let file = setup.folder.file("evenkeel.toml", &text);
    let running = Running::start(&["run", "-c", &file]);
    let load = Load::start(&setup.listen);
    for host in ["0.0.0.0", "[::]", "127.0.0.1", "[::]", "0.0.0.0"] {
        let moved = setup.listen.replace("127.0.0.1", host);
        setup
            .folder
            .file("evenkeel.toml", &text.replacen(&format!("['{}']", setup.listen), &format!("['{moved}']"), 1));
        let before = running.said().matches("configuration changed").count();
        running.signal(Signal::HUP);
        eventually("a reload", || {
            let said = running.said();
            assert!(!said.contains("keeping the previous configuration"), "{said}");
            (said.matches("configuration changed").count() > before).then_some(())
        });
        let passed = load.passed.load(SeqCst);
        eventually("something came through", || (load.passed.load(SeqCst) >= passed + 5).then_some(()));
    }
    let wrong = load.end();
    assert!(wrong.is_empty(), "{wrong:?}\n{}", running.said());
}

#[test]
fn a_hundred_reloads_under_load_lose_nothing() {
    let (streaming, other, setup) = (Streaming::start(), Endpoint::start("other"), Setup::new("hundred"));
    let another = address();
    // Each changes something else: another pool with its route, its algorithm, a listener, a weight of the very pool that
    // is in use, and a second endpoint of it.
    let plans: [String; 5] = [
        String::new(),
        format!(
            "[pool.other]\nendpoints = ['{}']\n[[route]]\nname = 'other'\nmatch = {{ path = '/other' }}\npool = 'other'\n[[route]]\nname = 'rest'\npool = 'web'",
            other.addr
        ),
        "balance = 'leastconn'".to_string(),
        format!("[listener.another]\nbind = ['{another}']"),
        "limits = { idle_per_endpoint = 7 }\ntimeouts = { idle = '1m' }".to_string(),
    ];
    let file = setup.write(&[&streaming.addr], "");
    let running = Running::start(&["run", "-c", &file]);
    let load = Load::start(&setup.listen);
    for round in 1..=100 {
        setup.write(&[&streaming.addr], &plans[round % plans.len()]);
        let before = load.passed.load(SeqCst);
        running.signal(Signal::HUP);
        let said = format!("generation {round};");
        eventually("a reload", || running.said().contains(&said).then_some(()));
        eventually("something came through", || (load.passed.load(SeqCst) >= before + 5).then_some(()));
    }
    let passed = load.passed.load(SeqCst);
    let wrong = load.end();
    assert!(wrong.is_empty(), "after {passed} requests and pieces: {wrong:?}\n{}", running.said());
    // A stream may last longer than the plan that it began with; nothing else may.
    eventually("the end of earlier generations", || {
        let (_, metrics) = get(&setup.admin, "/metrics").expect("an answer");
        metrics.lines().any(|l| l == "evenkeel_generations_draining 0").then_some(())
    });
}

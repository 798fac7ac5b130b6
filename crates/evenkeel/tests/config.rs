//! Configuration of a running evenkeel: showing, changing, taking back and saving it.

use crate::support::{Adopted, Endpoint, Folder, Running, address, ask, evenkeel, eventually, get, text};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::fs;

const TOKEN: &str = "a-token-that-may-write";

struct Setup {
    folder: Folder,
    listen: String,
    admin: String,
    file: String,
}

impl Setup {
    /// Sets up one pool with this endpoint, in a file that is included.
    fn new(name: &str, endpoint: &str) -> Setup {
        let (folder, listen, admin) = (Folder::new(name), address(), address());
        folder.file("write.token", TOKEN);
        fs::create_dir(folder.0.join("conf.d")).expect("a folder");
        let file = folder.0.join("evenkeel.toml").display().to_string();
        let setup = Setup { folder, listen, admin, file };
        fs::write(&setup.file, setup.text("")).expect("a file");
        setup.include(endpoint);
        setup
    }

    fn include(&self, endpoint: &str) {
        let text = format!("[pool.web]\nendpoints = ['{endpoint}']\n");
        fs::write(self.folder.0.join("conf.d/web.toml"), text).expect("a file");
    }

    fn text(&self, more: &str) -> String {
        format!(
            "# by hand\n[admin]\nbind = 'unix:{0}/admin.sock'\nhttp = {{ bind = '{1}', write_token = '{0}/write.token' }}\n\
             [include]\nfiles = ['conf.d/*.toml']\n[listener.web]\nbind = ['{2}']\n{more}\n",
            self.folder.0.display(),
            self.admin,
            self.listen
        )
    }

    fn run(&self) -> Running {
        Running::start(&["run", "-c", &self.file])
    }

    fn socket(&self) -> String {
        self.folder.0.join("admin.sock").display().to_string()
    }

    /// Runs `evenkeel config` with these words: exit code, what it says, and what it complains of.
    fn config(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let done = evenkeel(&[&["config"], words, &["--socket", &self.socket()]].concat());
        (done.status.code(), text(&done.stdout), text(&done.stderr))
    }

    /// Runs `evenkeel config`, which has to succeed; what it says.
    #[track_caller]
    fn does(&self, words: &[&str]) -> String {
        let (code, said, complaint) = self.config(words);
        assert_eq!(code, Some(0), "{words:?}: {complaint}");
        said
    }

    fn status(&self) -> String {
        text(&evenkeel(&["status", "--socket", &self.socket()]).stdout)
    }

    /// The API over TCP, with the token: the status, and the body.
    fn api(&self, method: &str, path: &str, fields: &str, body: &str) -> (u16, Value) {
        let length = body.len();
        let answer = ask(
            &self.admin,
            &format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n{fields}\
                 Content-Length: {length}\r\n\r\n{body}"
            ),
        )
        .expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head[9..12].parse().expect("a status");
        (status, serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
    }

    fn has(&self, key: &str) -> bool {
        self.does(&["show"]).contains(key)
    }
}

/// A key of the listener that is easy to see.
fn idle(time: &str) -> String {
    format!("timeouts = {{ client_idle = '{time}' }}")
}

#[test]
fn a_configuration_is_applied_and_taken_back_and_kept() {
    let (a, b) = (Endpoint::start("a"), Endpoint::start("b"));
    let setup = Setup::new("config", &a.addr);
    let running = setup.run();
    let other = setup.folder.file("other.toml", &setup.text(&idle("7s")));
    let said = setup.does(&["apply", &other, "--dry-run"]);
    assert_eq!(said, "it would change:\n  listener web: timeouts.client_idle: (default) -> \"7s\"\n");
    assert!(!setup.has("7s") && !setup.status().contains("differs"));

    let said = setup.does(&["apply", &other]);
    assert!(said.starts_with("generation 1; changed: listener web\n  listener web: timeouts.client_idle"), "{said}");
    assert!(setup.has("7s"));
    assert_eq!(get(&setup.listen, "/").expect("an answer").1, "a");
    let status = setup.status();
    assert!(status.contains(&format!("the configuration differs from {}: apply by uid ", setup.file)), "{status}");
    assert!(!fs::read_to_string(&setup.file).expect("it is there").contains("7s"), "the file stays as it is");

    // What was included counts as it was.
    setup.include(&b.addr);
    setup.does(&["rollback"]);
    assert!(!setup.has("7s") && !setup.status().contains("differs"));
    assert_eq!(get(&setup.listen, "/").expect("an answer").1, "a");
    let (code, _, complaint) = setup.config(&["rollback", "77"]);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("unknown generation 77; generations: 2, 1, 0"), "{complaint}");
    let (code, _, complaint) = setup.config(&["rollback", "2"]);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("generation 2 is already running"), "{complaint}");
    // That is what the file says by now.
    let (_, _, complaint) = setup.config(&["save"]);
    assert!(complaint.contains("has changed since it was read"), "{complaint}");

    setup.include(&a.addr);
    setup.does(&["rollback", "1", "--save"]);
    assert_eq!(fs::read_to_string(&setup.file).expect("it is there"), setup.text(&idle("7s")), "with its comments");
    assert!(!setup.status().contains("differs"));
    let history = setup.does(&["history"]);
    let how: Vec<&str> = history.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert_eq!(how, ["rollback", "rollback", "apply", "start"], "{history}");
    assert!(
        !setup.does(&["show", "0"]).contains("7s") && setup.does(&["show", "1", "--source"]).starts_with("# by hand")
    );
    let events = text(&evenkeel(&["events", "--socket", &setup.socket()]).stdout);
    assert!(events.contains("client_idle: \"7s\" -> (default)"), "{events}");

    // A reload reads the file again, which is the same by now.
    running.signal(Signal::HUP);
    eventually("a reload", || {
        Some(running.said().matches("configuration changed").count()).filter(|count| *count == 4)
    });
    assert!(setup.has("7s"));
}

#[test]
fn what_is_wrong_changes_nothing_and_is_said_with_its_place() {
    let a = Endpoint::start("a");
    let setup = Setup::new("config-wrong", &a.addr);
    let _running = setup.run();
    let wrong = setup
        .folder
        .file("wrong.toml", &setup.text("timeouts = { client_idel = '7s' }\n[pool.web]\nbalance = 'rondom'"));
    for words in [&["apply", &wrong][..], &["apply", &wrong, "--dry-run"]] {
        let (code, _, complaint) = setup.config(words);
        assert_eq!(code, Some(78), "{complaint}");
        assert!(complaint.contains("client_idel") && complaint.contains("unknown algorithm \"rondom\""), "{complaint}");
        assert!(complaint.contains(&format!("--> {wrong}:")) && !complaint.contains("evenkeel.toml:"), "{complaint}");
    }
    let toml = "Content-Type: application/toml\r\n";
    let matching = format!("{toml}If-Match: \"0\"\r\n");
    let (status, problem) = setup.api("POST", "/v1/config", &matching, "listener = 1");
    assert_eq!((status, &problem["code"]), (422, &json!("wrong-config")));
    let found: Vec<_> =
        problem["diagnostics"].as_array().expect("a list").iter().map(|one| (&one["code"], &one["line"])).collect();
    assert_eq!(found, [(&json!("EK0207"), &Value::Null), (&json!("EK0103"), &json!(1))], "{problem}");

    // Neither without a generation, nor with one that does not run.
    let good = setup.text(&idle("7s"));
    assert_eq!(setup.api("POST", "/v1/config", toml, &good).0, 428);
    for (tag, status) in [("\"7\"", 412), ("7", 400), ("W/\"0\"", 400), ("", 400)] {
        assert_eq!(setup.api("POST", "/v1/config", &format!("{toml}If-Match: {tag}\r\n"), &good).0, status, "{tag}");
    }
    let stale = "Content-Type: application/json\r\nIf-Match: \"7\"\r\n";
    assert_eq!(setup.api("POST", "/v1/config/rollback", stale, "{}").0, 412);
    assert_eq!(setup.api("POST", "/v1/config/save", "If-Match: \"7\"\r\n", "").0, 412);
    assert_eq!(
        setup.api("POST", "/v1/config/rollback", "Content-Type: application/json\r\n", "{}").0,
        409,
        "there is none before"
    );
    assert_eq!(setup.api("POST", "/v1/config?dry_run=perhaps", &matching, &good).0, 400);
    let json = "Content-Type: application/json\r\nIf-Match: *\r\n";
    assert_eq!(setup.api("POST", "/v1/config", json, "{\"txt\":\"\"}").0, 400);
    assert_eq!(setup.api("POST", "/v1/config", "Content-Type: text/plain\r\nIf-Match: *\r\n", &good).0, 415);
    assert_eq!(setup.api("GET", "/v1/config/history/0x1", "", "").0, 404);
    let long =
        |bytes: usize| setup.api("POST", "/v1/config?dry_run=true", toml, &format!("{good}# {}", "x".repeat(bytes))).0;
    assert_eq!([2 << 20, 17 << 20].map(long), [200, 413]);
    assert_eq!(setup.status().lines().next().map(|line| line.contains("generation 0")), Some(true));

    // All that was wrong is well with another text.
    let body = json!({ "text": good }).to_string();
    let (status, outcome) = setup.api("POST", "/v1/config", json, &body);
    assert_eq!((status, &outcome["generation"]), (200, &json!(1)), "{outcome}");
    let (_, config) = setup.api("GET", "/v1/config", "", "");
    assert_eq!((&config["running"]["differs"], &config["source"]), (&json!(true), &json!(good)));
    let read = ask(&setup.admin, "GET /v1/config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("an answer");
    assert!(
        read.contains("\"text\"") && !read.contains("by hand"),
        "as it was written only for those who may change it"
    );
}

#[test]
fn an_upgrade_keeps_what_was_applied() {
    let a = Endpoint::start("a");
    let setup = Setup::new("config-upgrade", &a.addr);
    let _running = setup.run();
    let other = setup.folder.file("other.toml", &setup.text(&idle("7s")));
    setup.does(&["apply", &other]);
    let said = text(&evenkeel(&["upgrade", "--socket", &setup.socket()]).stdout);
    let pid = said.split_whitespace().nth(1).and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    let _successor = Adopted(pid.unwrap_or_else(|| panic!("{said}")));
    assert!(setup.has("7s") && setup.status().contains("differs"));
    assert_eq!(get(&setup.listen, "/").expect("an answer").1, "a");

    // What is too large for that is saved before.
    let large = setup.text(&format!("{}\n# {}", idle("8s"), "x".repeat(200_000)));
    setup.does(&["apply", &setup.folder.file("large.toml", &large)]);
    let refused = evenkeel(&["upgrade", "--socket", &setup.socket()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("too large to be handed over"), "{}", text(&refused.stderr));
    assert!(setup.has("8s"));
}

#[test]
fn what_was_typed_can_be_changed_too() {
    let (a, b) = (Endpoint::start("a"), Endpoint::start("b"));
    let (folder, listen, admin) = (Folder::new("config-typed"), address(), address());
    let running = Running::start(&["run", &a.addr, "--listen", &listen, "--admin", &admin]);
    let said = eventually("the password", || Some(running.said()).filter(|said| said.contains("password ")));
    let password = said.split("password ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("a word");
    let token = folder.file("token", password);
    let does = |words: &[&str]| {
        let done = evenkeel(&[words, &["--admin", &admin, "--token-file", &token]].concat());
        assert_eq!(done.status.code(), Some(0), "{words:?}: {}", text(&done.stderr));
        text(&done.stdout)
    };
    let other = folder.file("other.toml", &does(&["config", "show"]).replace(&a.addr, &b.addr));
    does(&["config", "apply", &other]);
    assert_eq!(get(&listen, "/").expect("an answer").1, "b");
    assert!(does(&["status"]).contains("the configuration differs from what it was started with"));
    does(&["config", "rollback"]);
    assert_eq!(get(&listen, "/").expect("an answer").1, "a");
    for words in [&["reload"][..], &["config", "save"]] {
        let refused = evenkeel(&[words, &["--admin", &admin, "--token-file", &token]].concat());
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("started without a "), "{}", text(&refused.stderr));
    }
}

#[test]
fn a_file_is_shown_with_the_place_of_each_key_or_with_its_errors() {
    let setup = Setup::new("config-places", "127.0.0.1:1");
    let shown = evenkeel(&["config", "show", "--places", "-c", &setup.file]);
    let out = text(&shown.stdout);
    let place = format!("endpoints = [\"127.0.0.1:1\"]  # {}:2", setup.folder.0.join("conf.d/web.toml").display());
    assert!(shown.status.success() && out.contains(&place), "{out} {}", text(&shown.stderr));
    setup.include("127.0.0.1");
    let wrong = evenkeel(&["config", "show", "--places", "-c", &setup.file]);
    assert_eq!((wrong.status.code(), text(&wrong.stderr).contains("web.toml:2:")), (Some(78), true));
}

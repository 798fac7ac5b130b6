//! `evenkeel advise`: its patches are those that `evenkeel check` accepts, and the same command gives the same advice.

use crate::support::{Folder, Running, address, ask, ends, evenkeel, eventually, get};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const EFFORT: [&str; 5] = ["--elsewhere", "--seeds", "4", "--requests", "2000"];

const WEAK: &str = "[listener.web]\nbind = [\"127.0.0.1:18080\"]\n\n[[route]]\nname = \"all\"\npool = \"web\"\n\n[pool.web]\n\
                    balance = \"round_robin\" # as ever\noutlier = \"off\"\nretry = { attempts = 0 }\n\
                    endpoints = [\"127.0.0.1:18081\", \"127.0.0.1:18082\", \"127.0.0.1:18083\"]\n";

fn advice(arguments: &[&str]) -> Vec<Value> {
    let out = ends(&[&["advise", "--json"], arguments, &EFFORT].concat(), 0, &[]);
    let json: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
    json["advice"].as_array().expect("a list").clone()
}

/// Applies a difference to the file with the program `patch`. False without that program.
fn patch(file: &str, diff: &str) -> bool {
    if !evenkeel_peers::installed(&["patch"]) {
        return false;
    }
    let program = evenkeel_peers::find("patch").expect("it is installed");
    let mut child =
        Command::new(program).arg(file).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
    std::io::Write::write_all(&mut child.stdin.take().expect("it is piped"), diff.as_bytes()).expect("it reads");
    assert!(child.wait().expect("it ends").success(), "{diff}");
    true
}

#[test]
fn each_patch_is_accepted_by_check_and_turns_its_advice_around() {
    let folder = Folder::new("advise-patch");
    // Without ejection, leastconn prefers an endpoint that fails at once.
    let with_ejection = WEAK.replace("outlier = \"off\"\n", "");
    for (weak, wanted) in [(WEAK, ["health", "retries"]), (&with_ejection, ["algorithm", "retries"])] {
        let file = folder.file("evenkeel.toml", weak);
        let all = advice(&["-c", &file]);
        let patches: Vec<&Value> = all.iter().filter(|one| one["patch"].is_string()).collect();
        let kinds: Vec<&str> = patches.iter().filter_map(|one| one["kind"].as_str()).collect();
        assert!(wanted.iter().all(|kind| kinds.contains(kind)), "{all:#?}");
        for one in patches {
            let changed = folder.file("changed.toml", weak);
            let diff = one["patch"].as_str().expect("a text");
            assert!(diff.starts_with(&format!("--- {file}\n+++ {file}\n@@ ")), "{diff}");
            if patch(&changed, diff) {
                ends(&["check", "--elsewhere", &changed], 0, &["ok: "]);
            }
        }
    }
}

#[test]
fn the_command_of_the_evidence_repeats_it() {
    let folder = Folder::new("advise-repeat");
    let file = folder.file("evenkeel.toml", WEAK);
    let all = advice(&["-c", &file, "--only", "health"]);
    let repeat = all[0]["repeat"].as_str().expect("a command");
    let words: Vec<&str> = repeat.split(' ').skip(2).collect();
    let out = ends(&[&["advise", "--json", "--elsewhere"], &words[..]].concat(), 0, &[]);
    let again: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(again["advice"], Value::from(all));
}

#[test]
fn a_sound_configuration_is_left_as_it_is() {
    let folder = Folder::new("advise-sound");
    let sound = WEAK.replace("\"round_robin\" # as ever", "\"leastconn\"");
    let sound =
        sound.replace("outlier = \"off\"\nretry = { attempts = 0 }", "health = { http = \"/\" }\nslow_start = \"30s\"");
    let file = folder.file("evenkeel.toml", &sound);
    let out = ends(
        &[&["advise", "-c", &file], &EFFORT[..]].concat(),
        0,
        &["leave it: nothing here would be better than noise"],
    );
    assert!(!out.contains("patch:"), "{out}");
}

#[test]
fn a_log_shows_routes_that_would_gain_from_a_cache() {
    let folder = Folder::new("advise-log");
    let file = folder.file("evenkeel.toml", WEAK);
    let line = |second: u32, path: &str| {
        format!(
            r#"{{"ts":"2026-11-20T10:00:{second:02}.000Z","req_id":"0","client":"192.0.2.1","peer":null,"listener":"web","route":"all","pool":"web","endpoint":"127.0.0.1:18081","tries":1,"proto":"HTTP/1.1","method":"GET","host":"h","path":"{path}","trace_id":null,"status":200,"bytes_in":78,"bytes_out":4096,"t_queue":0.000,"t_connect":null,"t_ttfb":20.000,"t_total":25.000,"term":"--"}}"#
        )
    };
    let lines: Vec<String> =
        (0..200).map(|at| line(at % 60, if at % 2 == 0 { "/app.js" } else { "/logo.png" })).collect();
    let log = folder.file("access.jsonl", &(lines.join("\n") + "\n"));
    let all = advice(&["-c", &file, "--log", &log, "--only", "cache", "--only", "compression"]);
    let [compression, cache] = &all[..] else { panic!("{all:#?}") };
    let (compression, cache) = if compression["kind"] == "cache" { (cache, compression) } else { (compression, cache) };
    assert_eq!((&cache["kind"], &cache["verdict"]), (&"cache".into(), &"depends".into()));
    assert!(cache["patch"].as_str().is_some_and(|diff| diff.contains("+cache = true\n")), "{cache:#}");
    assert!(compression["patch"].as_str().is_some_and(|diff| diff.contains("+compress = true\n")), "{compression:#}");
    ends(&["advise", "-c", &file, "--log", "/nowhere/at/all"], 1, &["cannot read the log: /nowhere/at/all"]);
    assert!(Path::new(&file).is_file());
}

#[test]
fn advice_on_the_examples_has_patches_that_check_accepts() {
    let folder = Folder::new("advise-examples");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(examples).expect("the examples").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("an example");
        let file = folder.file("example.toml", &text);
        let out = evenkeel(&["advise", "-c", &file, "--json", "--elsewhere", "--seeds", "2", "--requests", "300"]);
        if out.status.code() == Some(78) {
            // It names files beside it.
            continue;
        }
        let json: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {path:?}"));
        for one in json["advice"].as_array().expect("a list") {
            let Some(diff) = one["patch"].as_str() else { continue };
            let changed = folder.file("changed.toml", &text);
            if patch(&changed, diff) {
                ends(&["check", "--elsewhere", &changed], 0, &["ok: "]);
            }
        }
        count += 1;
    }
    assert!(count >= 3, "{count} examples");
}

#[test]
fn a_running_instance_is_asked_for_its_state() {
    let folder = Folder::new("advise-running");
    let (proxy, socket) = (address(), folder.0.join("admin.sock").display().to_string());
    let endpoints = [address(), address()];
    let text = format!(
        "[admin]\nbind = \"unix:{socket}\"\n[listener.web]\nbind = [\"{proxy}\"]\npool = \"web\"\n[pool.web]\n\
         balance = \"round_robin\"\noutlier = \"off\"\nretry = {{ attempts = 0 }}\nendpoints = {endpoints:?}\n"
    );
    let file = folder.file("evenkeel.toml", &text);
    let _running = Running::start(&["run", "-c", &file]);
    for _ in 0..300 {
        // Nothing listens at the endpoints.
        assert!(get(&proxy, "/").is_ok_and(|(status, _)| status >= 500));
    }
    let all = advice(&["-c", &file, "--admin", &format!("unix:{socket}"), "--only", "running"]);
    assert!(all.len() == 2 && all.iter().all(|one| one["verdict"] == "change"), "{all:#?}");
    let diff = all[0]["patch"].as_str().expect("outlier can be set");
    assert!(diff.contains("-outlier = \"off\"\n+outlier = {}\n"), "{all:#?}");
    let admin = format!("unix:{socket}");
    let all = advice(&["-c", &file, "--admin", &admin, "--only", "algorithm"]);
    let evidence = all[0]["evidence"][0].as_str().expect("a sentence");
    assert!(evidence.starts_with("the pool has no shadows"), "{all:#?}");
    let repeat = all[0]["repeat"].as_str().expect("a command");
    assert!(repeat.ends_with(&format!(" --admin {admin}")), "{repeat}");
}

const TOKEN: &str = "a-token-that-may-write";

/// A running evenkeel with an admin over TCP, and a pool whose algorithm has a purpose: no trial of algorithms is run.
struct Site {
    folder: Folder,
    file: String,
    admin: String,
    running: Running,
}

impl Site {
    fn new(name: &str, of_admin: &str) -> Site {
        let (folder, admin) = (Folder::new(name), address());
        let (token, endpoints) = (folder.file("token", TOKEN), [address(), address()]);
        let text = format!(
            "[admin]\nhttp = {{ bind = '{admin}', write_token = '{token}'{of_admin} }}\n[listener.web]\n\
             bind = ['{}']\npool = 'web'\n[pool.web]\nsticky = {{ cookie = 'c', secret = 'hush-hush-hush-hush-hush-hush-hush' }}\n\
             retry = {{ attempts = 0 }} # none\nbalance = 'first'\nshadow = ['random']\nendpoints = {endpoints:?}\n",
            address()
        );
        let file = folder.file("evenkeel.toml", &text);
        let running = Running::start(&["run", "-c", &file]);
        Site { folder, file, admin, running }
    }

    /// Sends a request: status, head and body.
    fn send(&self, method: &str, path: &str, fields: &str, body: &str) -> (u16, String, String) {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{fields}", self.admin);
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let response = ask(&self.admin, &request).expect("an answer");
        let (head, body) = response.split_once("\r\n\r\n").expect("a whole head");
        (head[9..12].parse().expect("a status"), head.to_lowercase(), body.to_owned())
    }

    /// Advice once it is computed, for a client with these fields.
    fn advice(&self, fields: &str) -> Value {
        eventually("advice", || {
            let (status, head, body) = self.send("GET", "/v1/advice", fields, "");
            assert!(status == 200 || status == 202, "{head}");
            let json: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {body}"));
            (status == 200).then_some(json)
        })
    }
}

/// The write token, as programs send it.
fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}\r\n")
}

#[test]
fn a_running_instance_gives_the_advice_of_the_command() {
    let site = Site::new("advise-api", "");
    let (status, head, body) = site.send("GET", "/v1/advice", "", "");
    assert!(status == 202 && head.contains("retry-after: 1") && body.contains("being computed"), "{head} {body}");
    let page = site.send("GET", "/ui/advice", "", "").2;
    assert!(page.contains("being computed") || page.contains("1. pool"), "{page}");

    let shown = site.advice(&bearer());
    let out = ends(&["advise", "--json", "-c", &site.file, "--admin", &site.admin], 0, &[]);
    let told: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&shown["config"], &shown["advice"]), (&told["config"], &told["advice"]));
    assert_eq!((&shown["computed"]["generation"], &told["computed"]), (&Value::from(0), &Value::Null));
    let retries = |all: &Value| {
        let one = all["advice"].as_array().expect("a list").iter().find(|one| one["kind"] == "retries").cloned();
        one.expect("retries are off")["patch"].as_str().expect("a patch").to_owned()
    };
    assert!(retries(&shown).contains("hush-hush"), "the lines around, for those who may change the file");

    // Without the token, the difference has no line that does not change, and is a patch all the same.
    let bare = site.advice("");
    assert_eq!(bare["computed"]["at_ms"], shown["computed"]["at_ms"], "computed once");
    assert!(!bare.to_string().contains("hush-hush"), "{bare:#}");
    let diff = retries(&bare);
    assert!(diff.contains("-retry = { attempts = 0 } # none\n+retry = { attempts = 1"), "{diff}");
    let changed = site.folder.file("changed.toml", &std::fs::read_to_string(&site.file).expect("it is there"));
    if patch(&changed, &diff) {
        let text = std::fs::read_to_string(&changed).expect("it is there");
        assert!(text.contains("\nretry = { attempts = 1"), "{text}");
    }
    for page in [site.send("GET", "/ui/advice", "", "").2, site.send("GET", "/ui/advice", &bearer(), "").2] {
        let is_whole = page.contains("hush-hush");
        assert!(page.contains("set retry = { attempts = 1 }") && page.contains("evenkeel advise -c "), "{page}");
        assert!(page.contains("data-copy=\"patch-") && is_whole != page.contains("Sign in to see them"), "{page}");
    }
    let log = site.running.said();
    assert!(!log.contains("panic"), "{log}");
}

#[test]
fn advice_follows_the_configuration() {
    let site = Site::new("advise-change", "");
    let has_retries = |all: &Value| {
        let all = all["advice"].as_array().expect("a list").clone();
        all.iter().any(|one| one["kind"] == "retries" && one["verdict"] == "change")
    };
    assert!(has_retries(&site.advice("")));
    let text = std::fs::read_to_string(&site.file).expect("it is there").replace("attempts = 0", "attempts = 1");
    let fields = format!("{}Content-Type: application/toml\r\nIf-Match: \"0\"\r\n", bearer());
    let (status, _, body) = site.send("POST", "/v1/config", &fields, &text);
    assert_eq!(status, 200, "{body}");
    assert_eq!(site.send("GET", "/v1/advice", "", "").0, 202, "the advice was about another configuration");
    let shown = site.advice("");
    assert!(!has_retries(&shown) && shown["computed"]["generation"] == 1, "{shown:#}");
    let page = site.send("GET", "/ui/advice", "", "").2;
    assert!(page.contains("The running configuration differs from"), "{page}");
}

#[test]
fn advice_is_for_those_who_may_read() {
    let folder = Folder::new("advise-tokens");
    let read = folder.file("read", "a-token-that-may-read");
    let site = Site::new("advise-read", &format!(", read_token = '{read}'"));
    for path in ["/v1/advice", "/ui/advice"] {
        assert_eq!(site.send("GET", path, "", "").0, 401, "{path}");
        assert_eq!(site.send("GET", path, "Authorization: Bearer another-token-of-no-use\r\n", "").0, 401, "{path}");
        let other = "Authorization: Bearer a-token-that-may-read\r\nOrigin: http://evil.example\r\n";
        assert_eq!(site.send("GET", path, other, "").0, 403, "{path}");
        let reader = site.send("GET", path, "Authorization: Bearer a-token-that-may-read\r\n", "").0;
        assert!(reader == 200 || reader == 202, "{path}: {reader}");
        assert_eq!(site.send("POST", path, &bearer(), "").0, 405, "{path}");
    }
    let shown = site.advice("Authorization: Bearer a-token-that-may-read\r\n");
    assert!(!shown.to_string().contains("hush-hush"), "{shown:#}");
}

#[test]
fn errors_of_the_configuration_come_first() {
    let folder = Folder::new("advise-wrong");
    let file = folder.file("evenkeel.toml", &WEAK.replace("round_robin", "rondom"));
    ends(&["advise", "-c", &file], 78, &["unknown algorithm \"rondom\""]);
}

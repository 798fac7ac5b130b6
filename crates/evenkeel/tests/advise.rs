//! `evenkeel advise`: its patches are those that `evenkeel check` accepts, and the same command gives the same advice.

use crate::support::{Folder, Running, address, ends, evenkeel, get};
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
    let file = folder.file("evenkeel.toml", WEAK);
    let all = advice(&["-c", &file]);
    let patches: Vec<&Value> = all.iter().filter(|one| one["patch"].is_string()).collect();
    let kinds: Vec<&str> = patches.iter().filter_map(|one| one["kind"].as_str()).collect();
    assert!(kinds.contains(&"algorithm") && kinds.contains(&"health") && kinds.contains(&"retries"), "{all:#?}");
    for one in patches {
        let changed = folder.file("changed.toml", WEAK);
        let diff = one["patch"].as_str().expect("a text");
        assert!(diff.starts_with(&format!("--- {file}\n+++ {file}\n@@ ")), "{diff}");
        if patch(&changed, diff) {
            ends(&["check", "--elsewhere", &changed], 0, &["ok: "]);
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
}

#[test]
fn errors_of_the_configuration_come_first() {
    let folder = Folder::new("advise-wrong");
    let file = folder.file("evenkeel.toml", &WEAK.replace("round_robin", "rondom"));
    ends(&["advise", "-c", &file], 78, &["unknown algorithm \"rondom\""]);
}

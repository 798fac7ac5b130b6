//! `evenkeel sim`: the same results each time, and the right exit code.

use crate::support::{Folder, ends};

const SMALL: &str = "summary = 'two servers'\nalgorithms = ['leastconn', 'round_robin']\nseeds = 2\nrequests = 2000\n\
                     load.share = 0.5\n[service.web]\nwork.exponential = '10ms'\nserver = [{ count = 2, fifo = 1 }]\n";

#[test]
fn a_published_table_comes_out() {
    let out = ends(&["sim", "tower-a"], 0, &["published, and ours", "best is peak_ewma at p99"]);
    assert!(!out.contains("does not hold"), "{out}");
}

#[test]
fn the_list_and_the_files_are_there_to_start_from() {
    let list = ends(&["sim", "--list"], 0, &["tower-a ", "dispatchers ", "mytime "]);
    assert_eq!(list.lines().count(), evenkeel_sim::builtin::ALL.len());
    let printed = ends(&["sim", "join", "--print"], 0, &[]);
    let folder = Folder::new("sim-print");
    let file = folder.file("mine.toml", &printed);
    ends(&["sim", &file, "--seeds", "1", "--algorithms", "leastconn"], 0, &["mine: An eleventh server", "(one seed)"]);
}

#[test]
fn json_is_the_same_on_any_number_of_threads() {
    let folder = Folder::new("sim-json");
    let file = folder.file("small.toml", SMALL);
    let one = ends(&["sim", &file, "--json", "--threads", "1"], 0, &[]);
    let many = ends(&["sim", &file, "--json", "--threads", "3"], 0, &[]);
    assert_eq!(one, many);
    let found: serde_json::Value = serde_json::from_str(&one).expect("JSON");
    let p99 = &found["points"][0]["algorithms"][0]["figures"]["p99"];
    assert_eq!(p99["seeds"].as_array().map(Vec::len), Some(2), "{one}");
    assert_ne!(one, ends(&["sim", &file, "--json", "--seed", "7"], 0, &[]), "another seed is another run");
}

#[test]
fn algorithms_are_named_as_results_name_them() {
    let folder = Folder::new("sim-algorithms");
    let file = folder.file("small.toml", SMALL);
    let names = "random{draws=1},jsq(2),central-queue,peak_ewma{decay=5s}";
    ends(
        &["sim", &file, "--algorithms", names],
        0,
        &["random{draws=1}", "jsq(2)", "p99 over central-queue", "{decay=5s}"],
    );
    ends(
        &["sim", &file, "--algorithms", "lestconn"],
        2,
        &["unknown algorithm \"lestconn\"", "did you mean \"leastconn\"?"],
    );
    ends(&["sim", &file, "--algorithms", "random{draws=x}"], 2, &["\"draws\" is \"x\", but must be a whole number"]);
    ends(&["sim", &file, "--algorithms", "jsq(0)"], 2, &["out of range"]);
    ends(&["sim", &file, "--algorithms", "random{draws}'"], 2, &["unknown algorithm"]);
    ends(
        &["sim", "planes", "--algorithms", "leastconn"],
        2,
        &["cannot keep \"leastconn\"", "help: set plane = \"ebpf\""],
    );
}

#[test]
fn more_load_than_servers_can_take_has_no_mean() {
    let folder = Folder::new("sim-overload");
    let file = folder.file("over.toml", &SMALL.replace("share = 0.5", "share = 1.2"));
    let out = ends(&["sim", &file], 0, &["no steady state"]);
    assert!(out.contains("no algorithm settles"), "{out}");
}

#[test]
fn what_does_not_hold_is_said_by_the_code_too() {
    let folder = Folder::new("sim-claim");
    let wrong =
        "[[claim]]\nsays = 'turns are faster'\nmetric = 'mean'\nof = 'round_robin'\nto = 'leastconn'\nat_most = 0.5\n";
    let file = folder.file("claim.toml", &format!("{SMALL}{wrong}"));
    ends(&["sim", &file], 10, &["does not hold: turns are faster"]);
    let off = "[[published]]\nalgorithm = 'leastconn'\ncells.mean = '1s'\n";
    let file = folder.file("published.toml", &format!("{SMALL}{off}"));
    ends(&["sim", &file], 10, &["980 ms to 1.02 s  does not hold"]);
}

#[test]
fn wrong_files_say_everything_at_once() {
    let folder = Folder::new("sim-wrong");
    let text = SMALL.replace("leastconn", "lestconn").replace("fifo = 1", "fifo = 0, cors = 1");
    let file = folder.file("wrong.toml", &text);
    ends(&["sim", &file], 78, &["unknown algorithm \"lestconn\"", "\"fifo\" is 0", "unknown key \"cors\"", "3 errors"]);
    ends(&["sim", "nowhere.toml"], 78, &["cannot read nowhere.toml: no such file"]);
    ends(&["sim", "tower"], 2, &["unknown scenario \"tower\"", "tower-a"]);
    ends(&["sim"], 2, &["NAME|FILE.toml"]);
    ends(&["sim", "tower-a", "--seeds", "0"], 2, &["0 is not in 1..=1000"]);
}

#[test]
fn the_report_is_one_file() {
    let folder = Folder::new("sim-report");
    let file = folder.file("small.toml", SMALL);
    let report = folder.file("report.html", "");
    ends(&["sim", &file, "--report", &report], 0, &[]);
    let page = std::fs::read_to_string(&report).expect("it was written");
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg") && page.contains("leastconn"), "{page}");
    ends(&["sim", &file, "--report", "/nowhere/at/all.html"], 1, &["cannot write /nowhere/at/all.html"]);
}

const POOLS: &str = "[runtime]\nworkers = 2\n[listener.web]\nbind = ['127.0.0.1:8080']\npool = 'web'\n[pool.web]\n\
                     balance = { random = { draws = 1 } }\nendpoints = [{ name = 'a', addr = '127.0.0.1:1', weight = 3 }, \
                     { name = 'b', addr = '127.0.0.1:2' }, { name = 'c', addr = '127.0.0.1:3', drain = true }]\n\
                     [pool.api]\nendpoints = ['127.0.0.1:4']\nload_reports = { probe = 'udp' }\n";

#[test]
fn a_pool_is_simulated_as_its_configuration_has_it() {
    let folder = Folder::new("sim-from");
    let file = folder.file("evenkeel.toml", POOLS);
    ends(&["sim", "--from", &file], 2, &["the configuration has several pools", "web, api"]);
    ends(&["sim", "--from", &file, "--pool", "wbe"], 2, &["unknown pool \"wbe\"", "did you mean \"web\"?"]);
    let short = ["--seeds", "2", "--requests", "4000"];
    let from = |more: &[&'static str]| [&["sim", "--from", &file, "--pool", "web"], more, &short].concat();
    let said = [
        "Pool web of ",
        "2 endpoints (1 others drain or are backups) with weights and limits, random{draws=1} on 2 workers, no load reports",
        "exponential with a mean of 10 ms, assumed (--work)",
        "0.7 of what they can do (--rate)",
    ];
    ends(&from(&[]), 0, &said);
    ends(&from(&["--rate", "50", "--work", "2ms"]), 0, &["a mean of 2 ms, given", "50 requests a second, given"]);
    let json = ends(&from(&["--json", "--algorithms", "random{draws=1}"]), 0, &[]);
    let found: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(found["summary"].as_str().is_some_and(|summary| summary.contains("from the configuration: 2 endpoints")));
    ends(
        &["sim", "--from", &file, "--pool", "api", "--seeds", "1", "--requests", "1000"],
        0,
        &["load reports with responses and by probes"],
    );
}

#[test]
fn a_scenario_gives_a_pool_its_work_and_the_pool_gives_the_servers() {
    let folder = Folder::new("sim-from-scenario");
    let (config, small) = (folder.file("evenkeel.toml", POOLS), folder.file("small.toml", SMALL));
    let from = ["sim", &small, "--from", &config, "--pool", "web"];
    ends(&from, 0, &["two servers", "from the scenario: work, links, load", "random{draws=1}", "leastconn"]);
    let printed =
        ends(&["sim", "--from", &config, "--pool", "web", "--print"], 0, &["work.exponential = \"10000000ns\""]);
    let mine = folder.file("mine.toml", &printed.replace("10000000ns", "1ms"));
    ends(
        &["sim", &mine, "--from", &config, "--pool", "web", "--seeds", "1", "--requests", "1000"],
        0,
        &["mine: Pool web of "],
    );
}

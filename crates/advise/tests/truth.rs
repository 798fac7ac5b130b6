//! Advice by a log, applied: the algorithm that it recommends is run on the system that wrote the log, and is better.

use evenkeel_advise::inputs::Effort;
use evenkeel_advise::{Inputs, advise};
use evenkeel_config::parse_str;
use evenkeel_logs::Logs;
use evenkeel_logs::read::Source;
use evenkeel_sim::scenario::{Policy, Scenario};
use evenkeel_sim::{file, simulate_logged};
use evenkeel_view::advice::Verdict;
use evenkeel_whatif::record;
use std::fmt::Write;

const ENDPOINTS: usize = 4;
const SEED: u64 = 11;

/// Policy of the log, which looks at no load.
const BLIND: &str = "random{draws=1}";

/// Four endpoints, of which the last has three quarters of a core, at 60 % of what they can do.
fn system(requests: u64) -> Scenario {
    let text = format!(
        "summary = 'x'\nrequests = {requests}\nload.share = 0.6\n[service.web]\nwork.exponential = '20ms'\n\
         server = [{{ count = 3, sharing = 1 }}, {{ name = 'slow', sharing = 0.75 }}]\n"
    );
    let outcome = file::read("system.toml", &text);
    outcome.experiment.expect("it is clean").points.remove(0).scenario
}

fn policy(balance: &str) -> Policy {
    let named = file::policies(balance);
    named.unwrap_or_else(|_| panic!("{balance}")).remove(0)
}

fn config(balance: &str) -> String {
    let endpoints: Vec<String> = (0..ENDPOINTS).map(|at| format!("\"10.0.0.{at}:80\"")).collect();
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"127.0.0.1:8080\"]\npool = \"web\"\n\n[pool.web]\n\
         balance = {balance}\nendpoints = [{}]\n",
        endpoints.join(", ")
    )
}

/// Log of evenkeel as the system writes it under a policy.
fn log(balance: &str) -> String {
    let (_, requests) = simulate_logged(&system(12_000), &policy(balance), 0, SEED);
    let mut lines = Vec::new();
    for request in requests {
        let (Some(total), Some(one)) = (request.total_ns(), request.tries.first()) else { continue };
        let ms = |ns: u64| ns as f64 / 1e6;
        let (seconds, rest) = (request.arrived_ns / 1_000_000_000, request.arrived_ns % 1_000_000_000);
        let mut line = String::new();
        let _ = write!(
            line,
            r#"{{"ts":"2026-11-20T{:02}:{:02}:{:02}.{:03}Z","listener":"web","route":"web","pool":"web","endpoint":"10.0.0.{}:80","tries":1,"method":"GET","host":"h","path":"/{}","status":200,"bytes_in":78,"bytes_out":1024,"t_queue":{:.3},"t_connect":null,"t_ttfb":{:.3},"t_total":{:.3},"term":"--"}}"#,
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            rest / 1_000_000,
            one.server,
            lines.len(),
            ms(request.queue_ns()),
            ms(total),
            ms(total)
        );
        lines.push((request.arrived_ns + total, line));
    }
    // A line is written at the end of its request.
    lines.sort();
    lines.into_iter().map(|(_, line)| line + "\n").collect()
}

fn p99_ms(balance: &str) -> f64 {
    let mut all: Vec<u64> = Vec::new();
    for seed in SEED..SEED + 4 {
        let (_, requests) = simulate_logged(&system(12_000), &policy(balance), 0, seed);
        all.extend(requests.iter().filter_map(|request| request.total_ns()));
    }
    all.sort_unstable();
    all[all.len() * 99 / 100] as f64 / 1e6
}

#[test]
fn the_algorithm_that_a_log_recommends_is_better_on_the_system_that_wrote_it() {
    let (text, lines) = (config("{ random = { draws = 1 } }"), log(BLIND));
    let plan = parse_str("evenkeel.toml", &text, &|_| None).plan.expect("it is valid");
    let reader = Source::Reader(Box::new(std::io::Cursor::new(lines.into_bytes())), "access.jsonl".to_string());
    let record = record::read(Logs::open(vec![reader], None, None).unwrap_or_else(|e| panic!("{e}")), |_| {});
    let check = |text: &str| parse_str("evenkeel.toml", text, &|_| None).plan.ok_or_else(|| "wrong".to_string());
    let effort = Effort { seeds: 2, requests: 500, threads: 2 };
    let inputs = Inputs { effort, record: Some(&record), ..Inputs::of("evenkeel.toml", &text, &plan, &check) };
    let all = advise(&inputs, &["algorithm".to_string()], &|_| {}).advice;
    let [advice] = &all[..] else { panic!("{all:?}") };
    assert!(advice.evidence[0].contains("requests of the log"), "{advice:?}");
    assert_eq!(advice.verdict, Verdict::Change, "{advice:?}");
    let patch = advice.patch.as_ref().expect("a key that is there can be replaced");
    let changed = parse_str("evenkeel.toml", &patch.text, &|_| None).plan.expect("it is valid");
    let (before, after) = (p99_ms(BLIND), p99_ms(&changed.pools[0].balance.to_string()));
    let [low, _, high] = advice.effect.as_ref().expect("it was replayed").change;
    let truth = after / before - 1.0;
    assert!(truth < -0.2, "p99 {before} ms before and {after} ms after");
    // The interval is of the requests of the log; other seeds have another p99.
    assert!((low - 0.1..=high + 0.1).contains(&truth), "{truth} is not in {low} to {high}");
}

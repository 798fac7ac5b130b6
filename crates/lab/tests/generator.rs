//! Accuracy of the lab's load generator: its latencies agree with those of wrk, ab and, if installed, oha at an
//! endpoint with known latencies; and an open loop counts the waiting time that a closed loop omits.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

const LAB: &str = env!("CARGO_BIN_EXE_evenkeel-lab");

/// Endpoint process that is ended with the test.
struct Worker {
    process: Child,
    address: SocketAddr,
}

impl Worker {
    fn start(arguments: &[&str]) -> Worker {
        let mut command = Command::new(LAB);
        command.arg("worker").args(arguments).arg("127.0.0.1:0").stdout(Stdio::piped());
        let mut process = command.spawn().expect("it can be started");
        let mut line = String::new();
        let output = process.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it says where it listens");
        Worker { process, address: line.trim().parse().expect("an address") }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn said(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it can be started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn load(arguments: &[&str], target: &str) -> Value {
    let text = said(Command::new(LAB).arg("load").args(arguments).arg(target));
    serde_json::from_str(&text).expect("it is JSON")
}

fn quantile(load: &Value, share: f64) -> f64 {
    let told = load["quantiles_ms"].as_array().expect("a list").iter().find(|pair| pair[0].as_f64() == Some(share));
    told.and_then(|pair| pair[1].as_f64()).expect("a quantile of the outcome")
}

/// Number after a label in the output, in milliseconds; converts wrk's units.
fn number(text: &str, label: &str) -> f64 {
    let line = text
        .lines()
        .map(str::trim)
        .find_map(|line| line.strip_prefix(label))
        .expect("the output has this label")
        .trim();
    let end = line.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(line.len());
    let scale = match line[end..].split_whitespace().next() {
        Some("s") => 1000.0,
        Some("us") => 0.001,
        _ => 1.0,
    };
    line[..end].parse::<f64>().expect("a number") * scale
}

#[test]
fn quantiles_are_those_that_wrk_ab_and_oha_tell() {
    if !evenkeel_peers::installed(&["wrk", "ab"]) {
        return;
    }
    // Each answer takes a whole number of milliseconds below 100, uniformly distributed.
    let worker = Worker::start(&["--places", "64", "--below-ms", "100"]);
    let (target, url) = (format!("{}/", worker.address), format!("http://{}/", worker.address));
    let ours = load(&["--clients", "16", "--seconds", "4"], &target);
    assert_eq!(ours["failed"], serde_json::json!({}));
    let shares = [0.5, 0.9, 0.99];
    let ours = shares.map(|share| quantile(&ours, share));
    let wrk = said(Command::new("wrk").args(["-t1", "-c16", "-d4s", "--latency", &url]));
    let wrk = ["50%", "90%", "99%"].map(|label| number(&wrk, label));
    let ab = said(Command::new("ab").args(["-q", "-k", "-l", "-c16", "-n1000", &url]));
    let ab = ["50%", "90%", "99%"].map(|label| number(&ab, label));
    let mut others = vec![("wrk", wrk), ("ab", ab)];
    if let Some(oha) = evenkeel_peers::find("oha") {
        let arguments = ["--no-tui", "--output-format", "json", "-c", "16", "-z", "4s", &url];
        let all: Value = serde_json::from_str(&said(Command::new(oha).args(arguments))).expect("it is JSON");
        let ms = |name: &str| all["latencyPercentiles"][name].as_f64().expect("a number") * 1e3;
        others.push(("oha", ["p50", "p90", "p99"].map(ms)));
    }
    // With 600 to 1,300 answers, a median is precise to some 6 ms; a busy machine adds to all of them.
    for (name, theirs) in others {
        for ((share, ours), theirs) in shares.iter().zip(ours).zip(theirs) {
            assert!((ours - theirs).abs() < 20.0, "p{}: {ours} here, {theirs} of {name}", share * 100.0);
        }
    }
    assert!(ours[0] >= 35.0 && ours[1] >= 75.0 && ours[2] >= 90.0, "none is earlier than its work: {ours:?}");
}

#[test]
fn an_open_loop_counts_the_wait_that_a_closed_one_leaves_out() {
    // Capacity 10 requests per second, load 20 per second: after 2 s the last one waits more than a second.
    let worker = Worker::start(&[]);
    let target = format!("{}/100000", worker.address);
    let open = load(&["--rate", "20", "--seconds", "2"], &target);
    assert!(quantile(&open, 1.0) >= 1000.0, "{open}");
    let closed = load(&["--clients", "1", "--requests", "10"], &target);
    assert!(quantile(&closed, 0.5) < quantile(&open, 0.99) / 2.0, "{closed}");
    assert_eq!((closed["answered"].as_u64(), open["failed"].clone()), (Some(10), serde_json::json!({})));
}

#[test]
fn what_fails_is_counted_by_what_became_of_it() {
    let free = evenkeel_peers::own_addr();
    let load = load(&["--clients", "2", "--requests", "3", "--fresh"], &format!("{free}/"));
    assert_eq!((load["answered"].as_u64(), &load["failed"]), (Some(0), &serde_json::json!({ "unreachable": 6 })));
}

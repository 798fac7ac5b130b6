//! Tap of requests: whole, filtered, and without waiting for the reader.

use crate::support::{Endpoint, Folder, Running, address, evenkeel, eventually, get, text};
use serde_json::Value;
use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};

struct Setup {
    folder: Folder,
    listen: String,
    admin: String,
    file: String,
}

impl Setup {
    /// A pool `shop` of the endpoints `dead` and `alive`: a request that meets the first is tried again.
    fn new(name: &str, alive: &Endpoint) -> Setup {
        let (folder, listen, admin, dead) = (Folder::new(name), address(), address(), address());
        let text = format!(
            "[admin]\nbind = 'unix:{}'\nhttp = {{ bind = '{admin}' }}\n[listener.web]\nbind = ['{listen}']\n[pool.shop]\n\
             endpoints = [{{ name = 'dead', addr = '{dead}' }}, {{ name = 'alive', addr = '{}' }}]\n\
             outlier = 'off'\nretry = {{ budget = 1.0, budget_floor = 1000 }}\n",
            folder.0.join("admin.sock").display(),
            alive.addr
        );
        let file = folder.file("evenkeel.toml", &text);
        Setup { folder, listen, admin, file }
    }

    fn run(&self) -> Running {
        Running::start(&["run", "-c", &self.file])
    }

    fn metric(&self, name: &str) -> u64 {
        let (_, metrics) = get(&self.admin, "/metrics").expect("an answer");
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("there is such a metric");
        line.trim().parse().expect("a number")
    }

    /// Output of `evenkeel tap` until it ends by itself, while there are requests for these paths.
    fn tapped(&self, words: &[&str], paths: &[&str]) -> String {
        let mut tap = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .arg("tap")
            .args(words)
            .args(["-c", &self.file])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program was built");
        eventually("as many requests as the limit says", || {
            for path in paths {
                let _ = get(&self.listen, path);
            }
            tap.try_wait().expect("it is ours")
        });
        text(&tap.wait_with_output().expect("it has ended").stdout)
    }
}

#[test]
fn shows_the_requests_that_are_asked_for_with_every_try() {
    let alive = Endpoint::start("a");
    let setup = Setup::new("tap", &alive);
    let running = setup.run();
    let json = setup.tapped(&["shop", "--endpoint", "dead", "--limit", "3", "--json"], &["/"]);
    let all: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(all.len(), 3);
    for one in &all {
        let tries: Vec<_> = one["tries"].as_array().expect("a list").iter().collect();
        assert_eq!((&tries[0]["endpoint"], &tries[0]["end"]), (&"dead".into(), &"connect".into()), "{one}");
        assert_eq!((&tries[1]["endpoint"], &tries[1]["end"]), (&"alive".into(), &"answered".into()), "{one}");
        assert_eq!((&one["status"], &one["end"], &one["pool"]), (&200.into(), &"normal".into(), &"shop".into()));
        let at = |at: usize, what: &str| tries[at][what].as_f64().expect("a number");
        let total = one["total_ms"].as_f64().expect("a number");
        assert!(at(0, "at_ms") + at(0, "took_ms") <= at(1, "at_ms") + 1e-6, "one after the other: {one}");
        assert!(at(1, "at_ms") + at(1, "took_ms") <= total + 1e-6, "and within the request: {one}");
        assert!(one["ttfb_ms"].as_f64().is_some_and(|first| first <= total), "{one}");
        assert_eq!(one["request_id"].as_str().map(str::len), Some(32));
    }
    let lines = setup.tapped(&["--path", "/cart", "--limit", "4"], &["/", "/cart/1?x"]);
    assert_eq!(lines.lines().filter(|line| line.contains("GET test/cart/1?x  shop/alive")).count(), 4, "{lines}");
    // Those who watched are gone.
    eventually("no tap", || (setup.metric("evenkeel_taps_open") == 0).then_some(()));
    for (words, said) in [
        (["other", "--json"], "unknown pool \"other\"; pools: shop"),
        (["--status", "6xx"], "status \"6xx\" is unknown"),
        (["--sample", "2"], "sample is a part, from 0 to 1"),
    ] {
        let done = evenkeel(&[&["tap"], &words[..], &["-c", &setup.file]].concat());
        assert_eq!(done.status.code(), Some(1));
        assert!(text(&done.stderr).contains(said), "{}", text(&done.stderr));
    }
    drop(running);
    drop(setup.folder);
}

#[test]
fn a_reader_that_does_not_read_delays_no_request() {
    let alive = Endpoint::start("a");
    let setup = Setup::new("tap-stuck", &alive);
    let _running = setup.run();
    let mut stuck = TcpStream::connect(&setup.admin).expect("it listens");
    let host = &setup.admin;
    write!(stuck, "GET /v1/tap HTTP/1.1\r\nhost: {host}\r\naccept: text/event-stream\r\n\r\n").expect("it reads");
    let path = format!("/{}", "x".repeat(1000));
    eventually("requests that are dropped", || {
        for _ in 0..100 {
            assert_eq!(get(&setup.listen, &path).expect("an answer").0, 200);
        }
        (setup.metric("evenkeel_tap_requests_dropped_total") > 0).then_some(())
    });
    assert_eq!(setup.metric("evenkeel_taps_open"), 1);
    drop(stuck);
    eventually("no tap", || {
        // A reader that is gone is noticed by writing to it.
        let _ = get(&setup.listen, "/");
        (setup.metric("evenkeel_taps_open") == 0).then_some(())
    });
}

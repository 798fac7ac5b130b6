//! Replay of journals: the core repeats the picks of a live proxy, over real sockets, for every algorithm, and with
//! everything that makes a pick hard to repeat: endpoints of different speeds, failures and retries, limits and a
//! queue, clients that give up, endpoints that leave and come back.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::{ok, status};
use crate::support::log::Log;
use crate::support::{Client, Endpoint, Proxy, wait_until};
use evenkeel_balance::algorithms;
use evenkeel_balance::replay::{Replay, Stopped, Summary, Why};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const CLIENTS: usize = 8;
const REQUESTS: usize = 60;

fn replayed(journal: &str) -> Result<Summary, Stopped> {
    let mut replay = Replay::default();
    journal.lines().try_for_each(|line| replay.line(line))?;
    Ok(replay.summary())
}

/// An endpoint that answers after `ms` milliseconds, so that latencies differ. Every seventh request gets an error, so
/// that it is retried elsewhere, and `/never` gets no answer.
fn endpoint(ms: u64) -> Endpoint {
    let count = AtomicUsize::new(0);
    Endpoint::start(move |conn| {
        while let Some(request) = conn.request() {
            if request.line().contains("/never") {
                conn.rest();
                return;
            }
            std::thread::sleep(Duration::from_millis(ms));
            let refuses = count.fetch_add(1, SeqCst) % 7 == 6;
            conn.send(if refuses { status("503 Service Unavailable", "no") } else { ok("yes") });
        }
    })
}

fn config(log: &Log, algorithm: &str, endpoints: &[&Endpoint]) -> String {
    let list: Vec<String> = endpoints.iter().map(|e| format!("'{}'", e.addr)).collect();
    format!(
        "[runtime]\nworkers = 1\n[telemetry]\njournal = {{ path = {:?}, pool = 'web' }}\n\
         [listener.web]\nbind = ['$BIND']\n[pool.web]\nbalance = '{algorithm}'\nendpoints = [{}]\n\
         outlier = 'off'\nlimits = {{ requests_per_endpoint = 2 }}\nqueue = {{ max = 100, timeout = '20s' }}\n\
         retry = {{ on = ['connect', '503'], budget = 1.0, backoff = '1ms..2ms' }}",
        log.0.to_str().expect("a name of ours"),
        list.join(",")
    )
}

/// A client that sends requests, sometimes gives up, and counts them.
fn ask(proxy: SocketAddr, seed: usize, asked: &AtomicUsize) {
    let mut client = Client::connect(proxy);
    for i in 0..REQUESTS {
        if i == 5 * (seed + 1) {
            client.send("GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
            std::mem::replace(&mut client, Client::connect(proxy)).reset();
        } else {
            client.get(&format!("/{}", i % 9));
        }
        asked.fetch_add(1, SeqCst);
    }
}

/// The journal of a proxy with this algorithm under all of these events.
fn recorded(algorithm: &str) -> String {
    let log = Log::new();
    let endpoints = [1, 2, 4, 8].map(endpoint);
    let all: Vec<&Endpoint> = endpoints.iter().collect();
    let mut proxy = Proxy::start(&config(&log, algorithm, &all));
    let (addr, asked) = (proxy.addr(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        (0..CLIENTS).for_each(|seed| {
            let asked = &asked;
            scope.spawn(move || ask(addr, seed, asked));
        });
        for (part, present) in [(1, &all[1..]), (2, &all[..3]), (3, &all[..])] {
            wait_until("clients asked on", || asked.load(SeqCst) >= CLIENTS * REQUESTS * part / 4);
            // Endpoints come and go by reload and by discovery.
            match part {
                2 => proxy.find(&present.iter().map(|e| e.addr).collect::<Vec<_>>()),
                _ => _ = proxy.reload(&config(&log, algorithm, present)).expect("the plan is good"),
            }
        }
    });
    wait_until("no request is in flight", || proxy.in_flight() == 0);
    proxy.stop();
    std::fs::read_to_string(&log.0).expect("the proxy made it")
}

#[test]
fn the_picks_of_the_live_proxy_are_made_again_by_the_core() {
    // Algorithms with probes are left out, as these endpoints do not answer any.
    for algorithm in algorithms::ALL.iter().filter(|a| !a.needs.probes) {
        let (name, journal) = (algorithm.name, recorded(algorithm.name));
        let summary = replayed(&journal).unwrap_or_else(|stopped| panic!("{name}: {stopped}"));
        assert_eq!(summary.journals, 1, "{name}");
        assert!(summary.picks >= (CLIENTS * REQUESTS) as u64, "{name}: {summary:?}");
        // The replay proves something only if every kind of event happened.
        let met = |what: &str| journal.lines().filter(|line| line.contains(what)).count();
        for what in [" behind ", " waited ", " all_full", " cancelled ", " gateway ", "set "] {
            assert!(met(what) > 0, "{name}: no line has \"{what}\"");
        }
        assert!(met("set ") >= 4, "{name}: endpoints came and went");
        let retried = journal.lines().filter(|l| l.starts_with("pick") && l.split(' ').nth(4) != Some("-")).count();
        assert!(retried > 0, "{name}: no request was tried again");
    }
}

#[test]
fn a_journal_in_which_one_pick_was_changed_does_not_replay() {
    let journal = recorded("leastconn");
    let lines: Vec<&str> = journal.lines().collect();
    // Not a particular endpoint: one with two requests for `/never` gets no others until their clients give up.
    let picked = |line: &&str| line.starts_with("pick") && line.ends_with(|last: char| last.is_ascii_digit());
    let at = lines.len() / 2 + lines[lines.len() / 2..].iter().position(picked).expect("picks go on");
    let (before, slot) = lines[at].rsplit_once(' ').expect("a line of words");
    let other = if slot == "1" { 2 } else { 1 };
    let changed: Vec<String> = lines
        .iter()
        .enumerate()
        .map(|(i, l)| if i == at { format!("{before} {other}") } else { l.to_string() })
        .collect();
    let stopped = replayed(&changed.join("\n")).expect_err("a pick was changed");
    assert_eq!(stopped.line, at as u64 + 1);
    assert!(matches!(stopped.why, Why::Differs { .. }), "{stopped}");
}

#[test]
fn another_algorithm_begins_another_journal_and_a_reopened_file_continues() {
    let (log, moved) = (Log::new(), Log::new());
    let endpoint = Endpoint::saying("yes");
    let mut proxy = Proxy::start(&config(&log, "random", &[&endpoint]));
    assert_eq!(proxy.client().get("/").status(), 200);
    wait_until("the request has ended", || proxy.in_flight() == 0);
    proxy.reload(&config(&log, "leastconn", &[&endpoint])).expect("the plan is good");
    std::fs::rename(&log.0, &moved.0).expect("it is there");
    proxy.server().reopen().expect("it can be made");
    assert_eq!(proxy.client().get("/").status(), 200);
    wait_until("the request has ended", || proxy.in_flight() == 0);
    proxy.stop();
    let [first, second] = [&moved, &log].map(|log| std::fs::read_to_string(&log.0).expect("the proxy made it"));
    let summary = replayed(&format!("{first}{second}")).unwrap_or_else(|stopped| panic!("{stopped}"));
    assert_eq!((summary.journals, summary.picks), (2, 2));
}

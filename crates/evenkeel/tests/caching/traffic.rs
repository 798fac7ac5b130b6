//! Traffic with purges, reloads and upgrades against a real process: no answer is older than a purge that has returned, none
//! fails, a reload and an upgrade keep what is stored, and memory stays within its bound.
//!
//! An ordinary run takes seconds. `EVENKEEL_CACHE_SECONDS=3600 cargo test -p evenkeel --test all caching::traffic --
//! --nocapture` runs for an hour, reloads or upgrades each minute and prints a line each minute; `EVENKEEL_CACHE_RATE` is the
//! number of operations per second.

#![expect(clippy::disallowed_macros, reason = "figures of a run, printed for those who ask for them")]

use super::Setup;
use crate::support::{Adopted, address, ask, eventually, get, head};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

const URLS: usize = 3000;
const LABELS: usize = 60;
const SECTIONS: usize = 30;
const CLIENTS: usize = 4;
const PURGES_PERCENT: u64 = 5;
const MEMORY_MIB: u64 = 16;

/// Memory that a process takes beside what it stores and what it had before the first request, in MiB: bodies that come (a
/// quarter of the memory), what the allocator keeps of what was freed (as much as is stored), and buffers.
const OVERHEAD_MIB: u64 = MEMORY_MIB / 4 + MEMORY_MIB + 16;

/// The content of the site: a version for each URL.
struct Site {
    versions: Vec<AtomicU64>,
    /// Version of each URL that every answer has to have, as a purge after it has returned.
    least: Vec<AtomicU64>,
}

/// Operations by number, each at its time.
struct Plan {
    operations: usize,
    rate: usize,
    /// Operations between two reloads or upgrades.
    change_every: usize,
    is_long: bool,
}

#[derive(Default)]
struct Counts {
    next: AtomicUsize,
    gets: AtomicU64,
    hits: AtomicU64,
    purges: AtomicU64,
    purged: AtomicU64,
    reloads: AtomicU64,
    upgrades: AtomicU64,
    rss_kib_max: AtomicU64,
}

fn plan() -> Plan {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let rate = number("EVENKEEL_CACHE_RATE").unwrap_or(500);
    match number("EVENKEEL_CACHE_SECONDS") {
        Some(seconds) => Plan { operations: seconds * rate, rate, change_every: 60 * rate, is_long: true },
        None => Plan { operations: 3000, rate, change_every: 1000, is_long: false },
    }
}

/// Body of a URL: its number and its version, and what makes it as long as others are.
fn body(url: usize, version: u64) -> String {
    let text = format!("{url} {version} ");
    let length = [500, 3000, 8000, 30_000][url % 4];
    text + &"x".repeat(length)
}

fn label(url: usize) -> usize {
    url / 7 % LABELS
}

fn path(url: usize) -> String {
    format!("/s{}/{url}", url % SECTIONS)
}

/// An endpoint with the content of the site, for as long as the test runs.
fn serve(site: Arc<Site>) -> String {
    let addr = address();
    let listener = TcpListener::bind(&addr).expect("nobody else uses it");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let site = site.clone();
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                while let Some(head) = head(&mut stream) {
                    let target = head.split(' ').nth(1).unwrap_or_default();
                    let url: usize = target.rsplit('/').next().and_then(|text| text.parse().ok()).expect("a page");
                    let version = site.versions[url].load(SeqCst);
                    let fields =
                        format!("Cache-Control: max-age=3600\r\nETag: \"{version}\"\r\nCache-Tag: l{}\r\n", label(url));
                    let is_same = head.contains(&format!("\"{version}\"\r\n"));
                    let answer = match is_same {
                        true => format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"),
                        false => {
                            let body = body(url, version);
                            format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
                        }
                    };
                    if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}

/// Random numbers of a seed (SplitMix64), smaller than `end`.
fn below(seed: &mut u64, end: usize) -> usize {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((mixed ^ (mixed >> 31)) % end as u64) as usize
}

/// Popular URLs are those with small numbers.
fn any_url(seed: &mut u64) -> usize {
    let most = 1 + below(seed, URLS);
    below(seed, most)
}

/// Run of a [`Plan`] against a process.
struct Traffic {
    site: Arc<Site>,
    setup: Setup,
    plan: Plan,
    counts: Counts,
    began: Instant,
    /// The process that accepts: the newest one.
    pid: AtomicI32,
    /// Memory of the first process before the first request.
    rss_kib: u64,
}

impl Traffic {
    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(&self.setup.listen).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("sockets have timeouts");
        stream.set_nodelay(true).expect("sockets have options");
        BufReader::new(stream)
    }

    /// Runs one client: requests over one connection until that is closed, and purges.
    fn client(&self, mut seed: u64) {
        let mut stream = self.connect();
        loop {
            let number = self.counts.next.fetch_add(1, SeqCst);
            if number >= self.plan.operations {
                return;
            }
            let at = Duration::from_secs_f64(number as f64 / self.plan.rate as f64);
            // The pace of the clients; nothing waits for it.
            std::thread::sleep(at.saturating_sub(self.began.elapsed()));
            match number {
                0 => {}
                _ if number.is_multiple_of(self.plan.change_every) => self.change(&mut stream),
                _ if number.is_multiple_of(self.plan.rate) => self.measure(number),
                _ => {}
            }
            if below(&mut seed, 100) < PURGES_PERCENT as usize {
                self.purge(&mut seed);
            } else {
                self.get(&mut stream, any_url(&mut seed));
            }
        }
    }

    fn get(&self, stream: &mut BufReader<TcpStream>, url: usize) {
        let least = self.site.least[url].load(SeqCst);
        let request = format!("GET {} HTTP/1.1\r\nHost: test\r\n\r\n", path(url));
        let ask = |stream: &mut BufReader<TcpStream>| {
            stream.get_mut().write_all(request.as_bytes()).ok().and_then(|()| head(stream))
        };
        let answer = ask(stream).or_else(|| {
            // A process that ends closes connections without a request. This one crossed it.
            *stream = self.connect();
            ask(stream)
        });
        let head = answer.expect("an answer to each request").to_lowercase();
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
        let mut got = vec![0; length.expect("a length")];
        stream.read_exact(&mut got).expect("the whole body");
        let got = String::from_utf8(got).expect("text");
        let version: u64 = got.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a version");
        assert!(got == body(url, version), "the body of {url} {version} is another one");
        assert!(version >= least, "{url}: version {version}, and {least} was purged before: {head}");
        self.counts.gets.fetch_add(1, SeqCst);
        self.counts.hits.fetch_add(u64::from(head.contains("; hit")), SeqCst);
        if head.contains("connection: close") {
            *stream = self.connect();
        }
    }

    /// Changes content, and purges it: from the end of the purge on, every answer has to be as new.
    fn purge(&self, seed: &mut u64) {
        let is_soft = below(seed, 3) == 0;
        let (target, urls): (String, Vec<usize>) = match below(seed, 200) {
            0 => ("\"all\":true".into(), (0..URLS).collect()),
            1..10 => {
                let section = below(seed, SECTIONS);
                let is_in = |url: &usize| url % SECTIONS == section;
                (format!("\"prefix\":\"http://test/s{section}/\""), (0..URLS).filter(is_in).collect())
            }
            10..40 => {
                let chosen = below(seed, LABELS);
                (format!("\"tag\":\"l{chosen}\""), (0..URLS).filter(|url| label(*url) == chosen).collect())
            }
            _ => {
                let url = any_url(seed);
                (format!("\"url\":\"http://test{}\"", path(url)), vec![url])
            }
        };
        let new = |url: &usize| (*url, self.site.versions[*url].fetch_add(1, SeqCst) + 1);
        let versions: Vec<(usize, u64)> = urls.iter().map(new).collect();
        let order = format!("{{{target},\"soft\":{is_soft}}}");
        let head = format!(
            "POST /v1/cache/purge HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Authorization: Bearer a-token-that-may-write\r\nContent-Length: {}\r\n\r\n{order}",
            self.setup.admin,
            order.len()
        );
        let answer = ask(&self.setup.admin, &head).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{order}: {answer}");
        for (url, version) in versions {
            self.site.least[url].fetch_max(version, SeqCst);
        }
        let done: Value = serde_json::from_str(answer.rsplit("\r\n\r\n").next().unwrap_or_default()).expect("JSON");
        self.counts.purges.fetch_add(1, SeqCst);
        self.counts.purged.fetch_add(done["objects"].as_u64().expect("a count"), SeqCst);
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.pid.load(SeqCst)).expect("a process id is not 0")
    }

    /// Reloads or upgrades while all others go on, in turn.
    fn change(&self, stream: &mut BufReader<TcpStream>) {
        let (reloads, upgrades) = (self.counts.reloads.load(SeqCst), self.counts.upgrades.load(SeqCst));
        if reloads > upgrades { self.upgrade(stream) } else { self.reload(reloads) }
    }

    fn reload(&self, reloads: u64) {
        let (before, said) = (self.state(), self.setup.running.said().len());
        self.setup.write(if reloads.is_multiple_of(2) { "leastconn" } else { "random" });
        kill_process(self.pid(), Signal::HUP).expect("it runs");
        eventually("a reload", || self.setup.running.said()[said..].contains("changed: pool shop").then_some(()));
        let after = self.state();
        // A new store would have begun to count anew, and been empty.
        assert!(after["inserted"].as_u64() >= before["inserted"].as_u64(), "{before} {after}");
        self.counts.reloads.fetch_add(1, SeqCst);
    }

    fn upgrade(&self, stream: &mut BufReader<TcpStream>) {
        let (said, before) = (self.setup.running.said().len(), self.state());
        let old = self.pid();
        kill_process(old, Signal::USR2).expect("it runs");
        let new = eventually("the other process", || self.setup.running.successor().filter(|new| *new != old));
        self.pid.store(new.as_raw_pid(), SeqCst);
        // The process before waits for one more request on each connection. Those of the other clients come.
        *stream = self.connect();
        let took = eventually("a handover", || {
            let said = &self.setup.running.said()[said..];
            let count = said.split_once("the cache took over ")?.1.split_once(" response")?.0;
            count.replace(',', "").parse().ok()
        });
        let (objects, took): (u64, u64) = (before["objects"].as_u64().expect("a count"), took);
        // Purges go on meanwhile, now and then of everything.
        let said = &self.setup.running.said()[said..];
        let may_be_empty = objects == 0 || said.contains("purge of the cache: everything");
        assert!(took > 0 || may_be_empty, "{took} of {objects}: {said}");
        println!("an upgrade: {took} of {objects} responses were taken over");
        // The first one is a child of the test, and so stays as a zombie.
        let runs = || status(old).is_some_and(|status| !status.contains("State:\tZ"));
        eventually("an end of the process before", || (!runs()).then_some(()));
        self.counts.upgrades.fetch_add(1, SeqCst);
    }

    fn state(&self) -> Value {
        let (status, json) = get(&self.setup.admin, "/v1/cache").expect("an answer");
        assert_eq!(status, 200, "{json}");
        serde_json::from_str(&json).expect("JSON")
    }

    /// Memory that the process has allocated and touched.
    fn rss_kib(&self) -> u64 {
        let status = status(self.pid()).expect("it runs");
        let rss =
            status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.split_whitespace().next()?.parse().ok());
        rss.expect("Linux has it")
    }

    fn measure(&self, number: usize) {
        let rss = self.rss_kib();
        self.counts.rss_kib_max.fetch_max(rss, SeqCst);
        let more = rss.saturating_sub(self.rss_kib) >> 10;
        assert!(more <= MEMORY_MIB + OVERHEAD_MIB, "{more} MiB more after {number} operations");
        let seconds = number / self.plan.rate;
        if self.plan.is_long && seconds % 60 == 30 || number + self.plan.rate >= self.plan.operations {
            let (state, counts) = (self.state(), &self.counts);
            let of = |count: &AtomicU64| count.load(SeqCst);
            assert!(state["bytes"].as_u64() <= state["capacity"].as_u64(), "{state}");
            println!(
                "{seconds} s: {} requests, {} hits, {} purges of {} responses, {} reloads, {} upgrades; {} objects, {} KiB stored, {} evicted; RSS {rss} KiB",
                of(&counts.gets),
                of(&counts.hits),
                of(&counts.purges),
                of(&counts.purged),
                of(&counts.reloads),
                of(&counts.upgrades),
                state["objects"],
                state["bytes"].as_u64().unwrap_or(0) >> 10,
                state["evicted"]["entries"],
            );
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        // Also after a failure.
        drop(Adopted(self.pid()));
    }
}

/// Content of `/proc/PID/status`. `None` if the process is gone.
fn status(pid: Pid) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).ok()
}

#[test]
fn no_answer_is_older_than_a_purge_and_none_fails() {
    let zeros = || (0..URLS).map(|_| AtomicU64::new(0)).collect();
    let site = Arc::new(Site { versions: zeros(), least: zeros() });
    let endpoint = serve(site.clone());
    let setup = Setup::before(
        "caching-traffic",
        &endpoint,
        &format!("cache = true\n[cache]\nmemory = '{MEMORY_MIB}MiB'\nobject_max = '64KiB'"),
    );
    let pid = AtomicI32::new(setup.running.pid() as i32);
    let (plan, counts) = (plan(), Counts::default());
    let mut traffic = Traffic { site, setup, plan, counts, began: Instant::now(), pid, rss_kib: 0 };
    traffic.rss_kib = traffic.rss_kib();
    println!("RSS before: {} KiB", traffic.rss_kib);
    std::thread::scope(|scope| {
        (1..=CLIENTS as u64).for_each(|seed| {
            scope.spawn({
                let traffic = &traffic;
                move || traffic.client(seed)
            });
        });
    });
    let Counts { gets, hits, purges, purged, reloads, upgrades, rss_kib_max, .. } = &traffic.counts;
    let counts = [gets, hits, purges, purged, reloads, upgrades];
    for (what, count) in ["gets", "hits", "purges", "purged", "reloads", "upgrades"].into_iter().zip(counts) {
        assert!(count.load(SeqCst) > 0, "{what}");
    }
    assert!(rss_kib_max.load(SeqCst) > 0);
    assert!(!traffic.setup.running.said().contains("panic"), "{}", traffic.setup.running.said());
}

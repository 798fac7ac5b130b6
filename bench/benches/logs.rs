//! CPU time and memory of reading access logs, beside `serde_json` for JSON: the goal is 10 million lines in a minute on a core, in
//! at most 1 GiB.
//!
//! `cargo bench --bench logs`; with a file as argument, that log is read instead.

use evenkeel_logs::Logs;
use evenkeel_logs::read::Source;
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, Read};
use std::ops::ControlFlow;

/// Lines of one measurement.
const LINES: u64 = 1_000_000;

/// Measurements of which the fastest counts: others were disturbed.
const ROUNDS: usize = 3;

/// Real lines of each format, which repeat.
const LOGS: [(&str, &str); 8] = [
    ("httplog", include_str!("../../crates/logs/tests/real/haproxy-3.2-httplog.log")),
    ("tcplog", include_str!("../../crates/logs/tests/real/haproxy-3.2-tcplog.log")),
    ("combined", include_str!("../../crates/logs/tests/real/nginx-whatif.log")),
    ("ingress-nginx", include_str!("../../crates/logs/tests/real/nginx-ingress.log")),
    ("envoy", include_str!("../../crates/logs/tests/real/envoy-default.log")),
    ("envoy-json", include_str!("../../crates/logs/tests/real/envoy-json.log")),
    ("caddy", include_str!("../../crates/logs/tests/real/caddy.log")),
    ("evenkeel", include_str!("../../crates/logs/tests/real/evenkeel-json.log")),
];

/// Text that is read many times.
struct Repeated {
    text: &'static [u8],
    at: usize,
    left: u64,
}

impl Read for Repeated {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Ok(0);
        }
        let length = to.len().min(self.text.len() - self.at);
        to[..length].copy_from_slice(&self.text[self.at..self.at + length]);
        self.at += length;
        if self.at == self.text.len() {
            (self.at, self.left) = (0, self.left - 1);
        }
        Ok(length)
    }
}

/// CPU time of this thread, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Peak memory of the process, in KiB.
fn peak_kib() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("unknown").trim().to_string()
}

/// Reads a log, and returns its lines, its requests and the sum of their times, so that nothing is left out.
fn ours(source: Source, format: Option<&str>) -> (u64, u64, u64) {
    let logs = match Logs::open(vec![source], format, None) {
        Ok(logs) => logs,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let mut sum = 0_u64;
    let report = logs.read(|request, _| {
        sum = sum.wrapping_add(request.total.map_or(0, |total| total.ns) + u64::from(request.tries.count()));
        ControlFlow::Continue(())
    });
    (report.lines, report.coverage.requests, sum)
}

/// Sum of the same values by `serde_json`, which builds a tree for each line.
fn serde(text: &str, key: &str) -> (u64, f64) {
    let (mut lines, mut sum) = (0, 0.0);
    while lines < LINES / 10 {
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            sum += value[key].as_f64().unwrap_or_default();
            lines += 1;
        }
    }
    (lines, sum)
}

fn main() {
    if let Some(path) = std::env::args().skip(1).find(|argument| !argument.starts_with('-')) {
        let began = cpu_ns();
        let (lines, requests, _) = ours(Source::of(&path), None);
        let seconds = (cpu_ns() - began) as f64 / 1e9;
        println!("{lines} lines, {requests} requests, {seconds:.2} s of CPU, peak memory {}", peak_kib());
        return;
    }
    println!("{:<14} {:>8} {:>8} {:>22}", "format", "ns/line", "MB/s", "s for 10 million lines");
    for (name, text) in LOGS {
        let mut best = u64::MAX;
        let (mut lines, length) = (0, text.len() as u64);
        for _ in 0..ROUNDS {
            let left = LINES / text.lines().count() as u64;
            let source = Source::Reader(Box::new(Repeated { text: text.as_bytes(), at: 0, left }), name.to_string());
            let began = cpu_ns();
            let read = ours(source, Some(name));
            best = best.min(cpu_ns() - began);
            assert_eq!(read.0, read.1, "every line of {name} is a request");
            lines = read.0;
        }
        let ns = best as f64 / lines as f64;
        let mean = length as f64 / text.lines().count() as f64;
        println!("{name:<14} {ns:>8.0} {:>8.0} {:>22.1}", mean * 1e3 / ns, ns / 100.0);
    }
    for (name, key) in [("envoy-json", "duration"), ("evenkeel", "t_total")] {
        let text = LOGS.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
        let began = cpu_ns();
        let (lines, _) = serde(text, key);
        println!("{name:<14} {:>8.0} by serde_json", (cpu_ns() - began) as f64 / lines as f64);
    }
    println!("peak memory {}", peak_kib());
}

//! Large configurations: work and output grow with the input, and not with its square.

use evenkeel_config::NoFiles;
use evenkeel_convert::{From, convert};
use std::fmt::Write;
use std::time::Instant;

/// A configuration with `n` of something.
type Make = fn(usize) -> String;

const KINDS: [(&str, From, Make, usize); 6] = [
    ("servers of a backend", From::Haproxy, servers, 20_000),
    ("values of an ACL of addresses", From::Haproxy, addresses, 200_000),
    ("values of an ACL of hosts", From::Haproxy, hosts, 200_000),
    ("backends", From::Haproxy, backends, 20_000),
    ("servers of an upstream", From::Nginx, upstream, 20_000),
    ("server blocks", From::Nginx, blocks, 20_000),
];

fn servers(n: usize) -> String {
    let mut text = "defaults\n mode http\nfrontend f\n bind :80\n default_backend b\nbackend b\n".to_string();
    (0..n).for_each(|i| drop(writeln!(text, " server s{i} 10.{}.{}.{}:80 check", i >> 16, i >> 8 & 255, i & 255)));
    text
}

fn addresses(n: usize) -> String {
    let mut text = "defaults\n mode http\nfrontend f\n bind :80\n".to_string();
    for first in (0..n).step_by(50) {
        text += " acl bad src";
        (first..n.min(first + 50)).for_each(|i| drop(write!(text, " 10.{}.{}.{}", i >> 16, i >> 8 & 255, i & 255)));
        text.push('\n');
    }
    text + " http-request deny if bad\n default_backend b\nbackend b\n server a 10.0.0.1:80\n"
}

fn hosts(n: usize) -> String {
    let mut text = "defaults\n mode http\nfrontend f\n bind :80\n".to_string();
    for first in (0..n).step_by(50) {
        text += " acl ours hdr(host)";
        (first..n.min(first + 50)).for_each(|i| drop(write!(text, " h{i}.example.com")));
        text.push('\n');
    }
    text + " use_backend b if ours\n default_backend b\nbackend b\n server a 10.0.0.1:80\n"
}

fn backends(n: usize) -> String {
    let mut text = "defaults\n mode http\nfrontend f\n bind :80\n".to_string();
    (0..n).for_each(|i| drop(writeln!(text, " use_backend b{i} if {{ hdr(host) h{i}.example.com }}")));
    (0..n).for_each(|i| drop(writeln!(text, "backend b{i}\n server a 10.{}.{}.{}:80", i >> 16, i >> 8 & 255, i & 255)));
    text
}

fn upstream(n: usize) -> String {
    let mut text = "http {\n upstream u {\n".to_string();
    (0..n).for_each(|i| drop(writeln!(text, "  server 10.{}.{}.{}:80;", i >> 16, i >> 8 & 255, i & 255)));
    text + " }\n server { listen 80; location / { proxy_pass http://u; } }\n}\n"
}

fn blocks(n: usize) -> String {
    let mut text = "http {\n".to_string();
    for i in 0..n {
        let _ = writeln!(
            text,
            " server {{\n  listen 80;\n  server_name h{i}.example.com;\n  location / {{ proxy_pass http://10.{}.{}.{}:80; }}\n }}",
            i >> 16,
            i >> 8 & 255,
            i & 255
        );
    }
    text + "}\n"
}

fn largest_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
#[ignore = "takes minutes without optimisation: run with --release --nocapture, alone"]
fn times_and_memory_of_large_configurations() {
    let only = std::env::var("EVENKEEL_LARGE").unwrap_or_default();
    for (name, from, make, n) in KINDS.into_iter().filter(|kind| kind.0.contains(&only)) {
        for n in [n / 16, n / 8] {
            let text = make(n);
            let begun = Instant::now();
            let done = convert("x", &text, Some(from), &NoFiles).expect("the format is named");
            eprintln!(
                "{name}: {n}, {} kB in, {} kB out in {:.2} s; at most {} kB so far",
                text.len() / 1000,
                done.toml.len() / 1000,
                begun.elapsed().as_secs_f64(),
                largest_memory()
            );
        }
    }
}

//! Large configurations: work and output grow with the input, and not with its square.

use evenkeel_config::NoFiles;
use evenkeel_convert::{From, convert};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write;
use std::time::Instant;

/// Kind of large configuration.
struct Kind {
    name: &'static str,
    from: From,
    /// Makes a configuration with this many.
    make: fn(usize) -> String,
    /// Number that is converted in seconds.
    most: usize,
    /// Bound of the memory, as a multiple of the input.
    memory: usize,
}

const fn kind(name: &'static str, from: From, make: fn(usize) -> String, most: usize, memory: usize) -> Kind {
    Kind { name, from, make, most, memory }
}

const KINDS: [Kind; 6] = [
    kind("servers of a backend", From::Haproxy, servers, 20_000, 20),
    kind("values of an ACL of addresses", From::Haproxy, addresses, 200_000, 20),
    kind("values of an ACL of hosts", From::Haproxy, hosts, 200_000, 20),
    kind("servers of an upstream", From::Nginx, upstream, 20_000, 20),
    // A route and a pool for each, which are twice as long as their lines.
    kind("backends", From::Haproxy, backends, 20_000, 40),
    kind("server blocks", From::Nginx, blocks, 20_000, 40),
];

fn servers(n: usize) -> String {
    let mut text = "defaults\n mode http\nfrontend f\n bind :80\n default_backend b\nbackend b\n".to_string();
    for i in 0..n {
        let _ = writeln!(text, " server s{i} 10.{}.{}.{}:80 check", i >> 16, i >> 8 & 255, i & 255);
    }
    text
}

fn addresses(n: usize) -> String {
    let mut text = "defaults\n mode http\nfrontend f\n bind :80\n".to_string();
    for first in (0..n).step_by(50) {
        text += " acl bad src";
        for i in first..n.min(first + 50) {
            let _ = write!(text, " 10.{}.{}.{}", i >> 16, i >> 8 & 255, i & 255);
        }
        text.push('\n');
    }
    text + " http-request deny if bad\n default_backend b\nbackend b\n server a 10.0.0.1:80\n"
}

fn hosts(n: usize) -> String {
    let mut text = "defaults\n mode http\nfrontend f\n bind :80\n".to_string();
    for first in (0..n).step_by(50) {
        text += " acl ours hdr(host)";
        for i in first..n.min(first + 50) {
            let _ = write!(text, " h{i}.example.com");
        }
        text.push('\n');
    }
    text + " use_backend b if ours\n default_backend b\nbackend b\n server a 10.0.0.1:80\n"
}

fn backends(n: usize) -> String {
    let mut text = "defaults\n mode http\nfrontend f\n bind :80\n".to_string();
    for i in 0..n {
        let _ = writeln!(text, " use_backend b{i} if {{ hdr(host) h{i}.example.com }}");
    }
    for i in 0..n {
        let _ = writeln!(text, "backend b{i}\n server a 10.{}.{}.{}:80", i >> 16, i >> 8 & 255, i & 255);
    }
    text
}

fn upstream(n: usize) -> String {
    let mut text = "http {\n upstream u {\n".to_string();
    for i in 0..n {
        let _ = writeln!(text, "  server 10.{}.{}.{}:80;", i >> 16, i >> 8 & 255, i & 255);
    }
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

thread_local! {
    /// Bytes that this thread has allocated so far, that it holds, and that it held at most.
    static BYTES: Cell<(usize, usize, usize)> = const { Cell::new((0, 0, 0)) };
}

struct Counting;

fn count(allocated: usize, freed: usize) {
    // A thread that ends frees behind its counters.
    let _ = BYTES.try_with(|bytes| {
        let (all, held, most) = bytes.get();
        let held = (held + allocated).saturating_sub(freed);
        bytes.set((all + allocated, held, most.max(held)));
    });
}

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sizes of a conversion, in bytes.
#[derive(Debug)]
struct Sizes {
    input: usize,
    output: usize,
    /// All allocations, including those that were freed again: a measure of work that repeats exactly.
    allocated: usize,
    /// Most that was held at a time, beside the input.
    held: usize,
}

impl Sizes {
    fn of(text: &str, from: From) -> Sizes {
        let (before, held, _) = BYTES.get();
        BYTES.set((before, held, held));
        let done = convert("x", text, Some(from), &NoFiles).expect("the format is named");
        let (after, _, most) = BYTES.get();
        Sizes { input: text.len(), output: done.toml.len(), allocated: after - before, held: most - held }
    }
}

#[test]
fn work_memory_and_output_grow_with_the_input() {
    for Kind { name, from, make, most, memory } in KINDS {
        // Above the bounds below which rules are compared with each other.
        let n = most / 40;
        let (small, large) = (Sizes::of(&make(n), from), Sizes::of(&make(4 * n), from));
        let shown = || format!("{name}: {n} {small:?}, {} {large:?}", 4 * n);
        // Four times as much, and a half more for tables that are grown in steps.
        assert!(large.allocated < 6 * small.allocated && large.output < 6 * small.output, "{}", shown());
        assert!(large.held - small.held < memory * (large.input - small.input), "{}", shown());
    }
}

#[test]
#[ignore = "takes a minute without optimisation: run with --nocapture"]
fn times_of_large_configurations() {
    for Kind { name, from, make, most, .. } in KINDS {
        for n in [most / 4, most] {
            let text = make(n);
            let begun = Instant::now();
            let Sizes { input, output, held, .. } = Sizes::of(&text, from);
            let [input, output, held] = [input, output, held].map(|bytes| bytes / 1000);
            let seconds = begun.elapsed().as_secs_f64();
            eprintln!("{n} {name}: {input} kB become {output} kB in {seconds:.2} s and {held} kB of memory");
        }
    }
}

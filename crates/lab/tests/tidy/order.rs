//! Do the files of a crate use each other in one direction?

use crate::imports::{Crate, crates};
use crate::rule::{File, Finding, Rule};

/// Files that may use each other in a circle: a thing and its part.
const CIRCLE_MAX: usize = 2;

/// The order inside of crates, from top to bottom: each folder, or file beside them, may use itself and those below it.
/// The root (`lib.rs`, `main.rs`) stands above all.
const FOLDERS: &[(&str, &[&str])] = &[
    (
        "discovery",
        &["metrics", "following", "sources", "context", "polling", "out", "kept", "ask", "message", "system"],
    ),
    (
        "runtime",
        &[
            "runtime",
            "lost",
            "metrics",
            "plane",
            "restart",
            "generation",
            "control",
            "check",
            "snapshot",
            "pool",
            "history",
            "events",
            "orders",
            "journal",
        ],
    ),
    ("proxy", &["plan", "http", "tcp", "udp", "listener", "load", "upstream", "http2", "core", "observe", "peer"]),
    (
        "view",
        &[
            "words",
            "timeline",
            "latencies",
            "history",
            "status",
            "config",
            "orders",
            "events",
            "picks",
            "described",
            "shadows",
            "served",
            "tap",
        ],
    ),
    ("wire", &["proxy_protocol", "tls_hello", "h2", "http1", "grpc", "orca", "trace_context", "head"]),
];

/// The rules of this file.
pub static RULES: &[Rule] = &[
    Rule {
        name: "no import circle is longer than two files",
        check: circles,
        kept_by: &[
            ("crates/sim/src/lib.rs", "mod a; mod b; mod c;"),
            ("crates/sim/src/a.rs", "use crate::b::B;\npub struct A;"),
            ("crates/sim/src/b.rs", "use crate::a::A;\nuse crate::c::C;\npub struct B;"),
            ("crates/sim/src/c.rs", "pub struct C;\n#[cfg(test)]\nmod tests {\n  use crate::a::A;\n}\n"),
        ],
        broken_by: &[
            ("crates/sim/src/lib.rs", "mod a; mod b; mod c;"),
            ("crates/sim/src/a.rs", "use crate::{b::{self}};\npub struct A(b::B);"),
            ("crates/sim/src/b.rs", "pub struct B; fn f() { super::c::g() }"),
            ("crates/sim/src/c.rs", "pub fn g(_: crate::a::A) {}"),
        ],
    },
    Rule {
        name: "folders of a crate use only those below them",
        check: folders,
        kept_by: &[
            ("crates/discovery/src/lib.rs", "mod out; mod kept; use out::Out;"),
            ("crates/discovery/src/out.rs", "use crate::kept::Kept;\npub struct Out;"),
            ("crates/discovery/src/kept.rs", "pub struct Kept;"),
        ],
        broken_by: &[
            ("crates/discovery/src/lib.rs", "mod out; mod kept;"),
            ("crates/discovery/src/out.rs", "pub struct Out;"),
            ("crates/discovery/src/kept.rs", "use crate::out::Out;"),
        ],
    },
    Rule {
        name: "each file of an ordered crate has its place",
        check: folders,
        kept_by: &[("crates/discovery/src/lib.rs", "mod kept;"), ("crates/discovery/src/kept.rs", "")],
        broken_by: &[("crates/discovery/src/lib.rs", "mod attic;"), ("crates/discovery/src/attic.rs", "")],
    },
];

fn circles(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for krate in crates(files) {
        for circle in circles_of(&krate).into_iter().filter(|circle| circle.len() > CIRCLE_MAX) {
            let uses = krate.uses.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
            let uses: Vec<String> = uses
                .map(|((from, to), line)| format!("{}:{line} uses {}", krate.path(*from), krate.path(*to)))
                .collect();
            let error = format!("{} files in a circle of imports: {}", circle.len(), uses.join(", "));
            findings.push(krate.files[circle[0]].finding(0, error, "move what several of them use into a file below"));
        }
    }
    findings
}

/// The files that reach each other, each circle as a whole.
fn circles_of(krate: &Crate<'_>) -> Vec<Vec<usize>> {
    let count = krate.files.len();
    let mut uses = vec![Vec::new(); count];
    krate.uses.keys().for_each(|&(from, to)| uses[from].push(to));
    let reached: Vec<Vec<bool>> = (0..count)
        .map(|start| {
            let (mut reached, mut open) = (vec![false; count], vec![start]);
            while let Some(at) = open.pop() {
                for &to in &uses[at] {
                    if !std::mem::replace(&mut reached[to], true) {
                        open.push(to);
                    }
                }
            }
            reached
        })
        .collect();
    let mut circles: Vec<Vec<usize>> =
        (0..count).map(|a| (0..count).filter(|b| a == *b || reached[a][*b] && reached[*b][a]).collect()).collect();
    circles.sort();
    circles.dedup();
    circles.retain(|circle| circle.len() > 1);
    circles
}

fn folders(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for krate in crates(files) {
        let Some((_, order)) = FOLDERS.iter().find(|(name, _)| *name == krate.name) else { continue };
        let place = |file: usize| {
            let path = krate.path(file);
            let is_root = matches!(path, "lib.rs" | "main.rs");
            // In several, as folders are in each other, the innermost one.
            let of =
                |name: &&&str| path.strip_prefix(**name).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
            let innermost = order.iter().filter(of).max_by_key(|name| name.len());
            if is_root { Some(0) } else { order.iter().position(|name| Some(name) == innermost).map(|place| place + 1) }
        };
        for file in (0..krate.files.len()).filter(|file| place(*file).is_none()) {
            findings.push(krate.files[file].finding(0, "no place in the order of the crate", "a name in FOLDERS"));
        }
        for ((from, to), line) in &krate.uses {
            if place(*from).is_some_and(|from| place(*to).is_some_and(|to| to < from)) {
                let error = format!("uses {}, which stands above it", krate.path(*to));
                findings.push(krate.files[*from].finding(*line, error, "move what both need down, or pass it in"));
            }
        }
    }
    findings
}

//! Rules for the order within crates: no import cycles, and no imports from above.
//!
//! Each folder with several parts, files or folders, states their order in its `mod.rs`, a crate in its `lib.rs` or
//! `main.rs`: `// Order: pool, tasks & waker_slot, time`. A part may use itself and those behind it. The two parts of
//! `tasks & waker_slot`, a thing and its part, may use each other. The file with the order stands above all parts of a
//! crate, and with the whole folder elsewhere. Where an order is missing or lacks a part, tidy prints the order that the
//! code has.

use crate::imports::{Crate, crates};
use crate::orders::ORDERS;
use crate::rule::{File, Finding, Rule};
use std::collections::BTreeSet;

/// Maximum length of an import cycle: a thing and its part.
const CIRCLE_MAX: usize = 2;

/// Rules of this file, see [`Rule`].
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
        name: "a facade uses what it re-exports",
        check: circles,
        kept_by: &[
            ("crates/sim/src/lib.rs", "mod a;"),
            ("crates/sim/src/a/mod.rs", "mod b; mod c; mod d;\npub use b::B;\npub use c::C;\npub use d::D;"),
            ("crates/sim/src/a/b.rs", "use super::{C, D};\npub struct B(C, D);"),
            ("crates/sim/src/a/c.rs", "use super::D;\npub struct C(D);"),
            ("crates/sim/src/a/d.rs", "pub struct D;"),
        ],
        broken_by: &[
            ("crates/sim/src/lib.rs", "mod a;"),
            ("crates/sim/src/a/mod.rs", "mod b; mod c;\npub use b::B;\npub use c::C;\npub struct D;"),
            ("crates/sim/src/a/b.rs", "use super::{C, D};\npub struct B(C, D);"),
            ("crates/sim/src/a/c.rs", "use super::D;\npub struct C(D);"),
        ],
    },
    Rule {
        name: "parts of a crate use only those behind them",
        check: orders,
        kept_by: &[
            ("crates/dns/src/lib.rs", "// Order: out, kept\nmod kept;\nmod out;\nuse out::Out;"),
            ("crates/dns/src/out.rs", "use crate::kept::Kept;\npub struct Out;"),
            ("crates/dns/src/kept.rs", "pub struct Kept;"),
        ],
        broken_by: &[
            ("crates/dns/src/lib.rs", "// Order: out, kept\nmod kept;\nmod out;"),
            ("crates/dns/src/out.rs", "pub struct Out;"),
            ("crates/dns/src/kept.rs", "use crate::out::Out;"),
        ],
    },
    Rule {
        name: "a crate's root stands above all of it",
        check: orders,
        kept_by: &[("crates/dns/src/lib.rs", "mod kept;\nuse kept::K;"), ("crates/dns/src/kept.rs", "pub struct K;")],
        broken_by: &[
            ("crates/dns/src/lib.rs", "mod kept;\npub struct K;"),
            ("crates/dns/src/kept.rs", "use crate::K;"),
        ],
    },
    Rule {
        name: "parts of a folder use only those behind them",
        check: orders,
        kept_by: &[
            ("crates/wire/src/lib.rs", "mod h2;"),
            ("crates/wire/src/h2.rs", "// Order: send,\n// frame & head\nmod send; mod frame; mod head;"),
            ("crates/wire/src/h2/send.rs", "use super::frame::Frame;"),
            ("crates/wire/src/h2/frame.rs", "use super::head::Head; pub struct Frame;"),
            ("crates/wire/src/h2/head.rs", "use super::frame::Frame; pub struct Head;"),
        ],
        broken_by: &[
            ("crates/wire/src/lib.rs", "mod h2;"),
            ("crates/wire/src/h2/mod.rs", "// Order: send, frame\nmod send; mod frame;"),
            ("crates/wire/src/h2/send.rs", "pub struct Send;"),
            ("crates/wire/src/h2/frame.rs", "use super::send::Send;"),
        ],
    },
    Rule {
        name: "each part has its place",
        check: orders,
        kept_by: &[("crates/dns/src/lib.rs", "// Order: kept\nmod kept;"), ("crates/dns/src/kept.rs", "")],
        broken_by: &[
            ("crates/dns/src/lib.rs", "// Order: kept\nmod kept; mod attic;"),
            ("crates/dns/src/kept.rs", ""),
            ("crates/dns/src/attic.rs", ""),
        ],
    },
    Rule {
        name: "an order has only parts that are there",
        check: orders,
        kept_by: &[("crates/dns/src/lib.rs", "// Order: kept\nmod kept;"), ("crates/dns/src/kept.rs", "")],
        broken_by: &[("crates/dns/src/lib.rs", "// Order: kept, attic\nmod kept;"), ("crates/dns/src/kept.rs", "")],
    },
    Rule {
        name: "two parts at most share a place",
        check: orders,
        kept_by: &[
            ("crates/dns/src/lib.rs", "// Order: a & b\nmod a; mod b;"),
            ("crates/dns/src/a.rs", ""),
            ("crates/dns/src/b.rs", ""),
        ],
        broken_by: &[
            ("crates/dns/src/lib.rs", "// Order: a & b & c\nmod a; mod b; mod c;"),
            ("crates/dns/src/a.rs", ""),
            ("crates/dns/src/b.rs", ""),
            ("crates/dns/src/c.rs", ""),
        ],
    },
    Rule {
        name: "each folder has an order",
        check: orders,
        kept_by: &[("crates/dns/src/lib.rs", "mod a;"), ("crates/dns/src/a.rs", "")],
        broken_by: &[
            ("crates/dns/src/lib.rs", "mod a;"),
            ("crates/dns/src/a/mod.rs", "mod b; mod c;"),
            ("crates/dns/src/a/b.rs", ""),
            ("crates/dns/src/a/c.rs", ""),
        ],
    },
];

fn circles(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for krate in &crates(files) {
        for circle in circles_of(krate).into_iter().filter(|circle| circle.len() > CIRCLE_MAX) {
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

/// Import cycles: maximal sets of files that reach each other.
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

/// Level of the order: a crate or a folder, whose parts are its files and folders.
struct Level<'k> {
    krate: &'k Crate<'k>,
    /// Path of the folder below `src/`, with a trailing slash; empty for the crate.
    prefix: &'k str,
}

impl<'k> Level<'k> {
    /// The crate itself and its folders.
    fn all(krate: &'k Crate<'k>) -> Vec<Level<'k>> {
        let paths = (0..krate.files.len()).map(|file| krate.path(file));
        let folders = paths.flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..=at]));
        let prefixes: BTreeSet<&str> = folders.chain([""]).collect();
        prefixes.into_iter().map(|prefix| Level { krate, prefix }).collect()
    }

    /// File that declares the parts, as `a/mod.rs` or `a.rs`.
    fn file(&self) -> &'k File {
        let name = self.prefix.trim_end_matches('/');
        let names = match name {
            "" => ["lib.rs".to_string(), "main.rs".to_string()],
            name => [format!("{name}/mod.rs"), format!("{name}.rs")],
        };
        let file = (0..self.krate.files.len()).find(|file| names.iter().any(|name| name == self.krate.path(*file)));
        self.krate.files[file.expect("its parts were found by `mod` lines there")]
    }

    /// Part of this level that a file belongs to. `None` for files elsewhere, and for `mod.rs`, `lib.rs` and `main.rs`.
    fn part(&self, file: usize) -> Option<&'k str> {
        let path = self.krate.path(file).strip_prefix(self.prefix)?;
        let part = path.split_once('/').map_or(path.trim_end_matches(".rs"), |(folder, _)| folder);
        (!matches!(path, "mod.rs" | "lib.rs" | "main.rs")).then_some(part)
    }

    fn is_root(&self, file: usize) -> bool {
        self.prefix.is_empty() && self.part(file).is_none()
    }

    fn parts(&self) -> BTreeSet<&'k str> {
        (0..self.krate.files.len()).filter_map(|file| self.part(file)).collect()
    }

    /// Uses between parts: from, to, both files, and the line.
    fn uses(&self) -> impl Iterator<Item = (&'k str, &'k str, (usize, usize), usize)> {
        let between = |((from, to), line): (&(usize, usize), &usize)| {
            Some((self.part(*from)?, self.part(*to)?, (*from, *to), *line))
        };
        self.krate.uses.iter().filter_map(between).filter(|(from, to, ..)| from != to)
    }

    /// Order that the code has; parts in a cycle share a place.
    fn proposal(&self) -> String {
        let mut left = self.parts();
        let mut places = Vec::new();
        while !left.is_empty() {
            let uses: Vec<_> = self.uses().filter(|(from, to, ..)| left.contains(from) && left.contains(to)).collect();
            // Parts that reach a part, including itself.
            let above = |part: &'k str| {
                let (mut above, mut open) = (BTreeSet::from([part]), vec![part]);
                while let Some(at) = open.pop() {
                    let users = uses.iter().filter(|(_, to, ..)| *to == at).map(|(from, ..)| *from);
                    open.extend(users.filter(|from| above.insert(*from)));
                }
                above
            };
            let next = left.iter().map(|part| above(part)).min_by_key(BTreeSet::len).expect("some are left");
            left.retain(|part| !next.contains(part));
            places.push(next.into_iter().collect::<Vec<_>>().join(AND));
        }
        format!("`{ORDER}{}`", places.join(", "))
    }

    fn check(&self, findings: &mut Vec<Finding>) {
        let (file, parts) = (self.file(), self.parts());
        let of_root = self.krate.uses.iter().filter(|((from, to), _)| self.is_root(*to) && !self.is_root(*from));
        findings.extend(of_root.map(|(files, line)| self.up(*files, *line)));
        let name = format!("{}/{}", self.krate.name, self.prefix);
        let row = ORDERS.iter().find(|(row, _)| *row == name.trim_end_matches('/'));
        let row = row.map(|(_, order)| (0, order.iter().map(|names| names.split(' ').collect()).collect()));
        let Some((line, places)): Option<(usize, Vec<Vec<&str>>)> = order(file).or(row) else {
            if parts.len() > 1 {
                let error = format!("no order of its parts; as it is: {}", self.proposal());
                findings.push(file.finding(0, error, "a line above `mod`, with the order that it should have"));
            }
            return;
        };
        let place = |part: &str| places.iter().position(|names| names.contains(&part));
        for part in parts.iter().filter(|part| place(part).is_none()) {
            let error = format!("`{part}` has no place in the order; as it is: {}", self.proposal());
            findings.push(file.finding(line, error, "its name there"));
        }
        for part in places.iter().flatten().filter(|part| !parts.contains(**part)) {
            findings.push(file.finding(line, format!("the order has `{part}`, which is not there"), "without it"));
        }
        for names in places.iter().filter(|names| names.len() > CIRCLE_MAX) {
            let error = format!("{} parts share a place: {}", names.len(), names.join(AND));
            findings.push(file.finding(line, error, "move what several of them use into a part below"));
        }
        let is_up = |from, to| place(from).is_some_and(|from| place(to).is_some_and(|to| to < from));
        let up = self.uses().filter(|(from, to, ..)| is_up(from, to));
        findings.extend(up.map(|(.., files, line)| self.up(files, line)));
    }

    fn up(&self, (from, to): (usize, usize), line: usize) -> Finding {
        let error = format!("uses {}, which the order in {} has above it", self.krate.path(to), self.file().path);
        self.krate.files[from].finding(line, error, "move what both need down, or pass it in")
    }
}

/// Opening of the comment with an order.
const ORDER: &str = "// Order: ";

/// Sign between two parts that share a place.
const AND: &str = " & ";

/// Order that a file states, as the names at each place, and its line. A comma continues it on the next line.
fn order(file: &File) -> Option<(usize, Vec<Vec<&str>>)> {
    let mut lines = file.lines().skip_while(|(_, text)| !text.starts_with(ORDER));
    let (line, first) = lines.next()?;
    let mut texts = vec![first.strip_prefix(ORDER)?];
    while texts.last().is_some_and(|text| text.ends_with(',')) {
        texts.push(lines.next()?.1.strip_prefix("// ")?);
    }
    let places = texts.into_iter().flat_map(|text| text.trim_end_matches(',').split(", "));
    Some((line, places.map(|place| place.split(AND).collect()).collect()))
}

fn orders(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for krate in crates(files) {
        Level::all(&krate).iter().for_each(|level| level.check(&mut findings));
    }
    findings
}

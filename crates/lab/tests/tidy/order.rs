//! Rules for the order within crates: no import cycles, and no imports from above.

use crate::imports::{Crate, crates};
use crate::orders::ORDERS;
use crate::rule::{File, Finding, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of an import cycle: a thing and its part.
const CIRCLE_MAX: usize = 2;

/// Crates in which each folder needs an order, not only the crate itself.
const EVERY_FOLDER: &[&str] = &["proxy"];

/// Folders that do not have an order yet, including their subfolders.
const WITHOUT_ORDER: &[&str] = &[];

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
        name: "folders of a crate use only those below them",
        check: orders,
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
        name: "a crate's root stands above all of it",
        check: orders,
        kept_by: &[
            ("crates/discovery/src/lib.rs", "mod kept;\nuse kept::K;"),
            ("crates/discovery/src/kept.rs", "pub struct K;"),
        ],
        broken_by: &[
            ("crates/discovery/src/lib.rs", "mod kept;\npub struct K;"),
            ("crates/discovery/src/kept.rs", "use crate::K;"),
        ],
    },
    Rule {
        name: "files of a folder use only those below them",
        check: orders,
        kept_by: &[
            ("crates/wire/src/lib.rs", "mod grpc; mod h2;"),
            ("crates/wire/src/h2/mod.rs", "mod send; mod frame;"),
            ("crates/wire/src/h2/send.rs", "use super::frame::Frame;"),
            ("crates/wire/src/h2/frame.rs", "pub struct Frame;"),
        ],
        broken_by: &[
            ("crates/wire/src/lib.rs", "mod h2;"),
            ("crates/wire/src/h2/mod.rs", "mod send; mod frame;"),
            ("crates/wire/src/h2/send.rs", "pub struct Send;"),
            ("crates/wire/src/h2/frame.rs", "use super::send::Send;"),
        ],
    },
    Rule {
        name: "each file of an ordered crate has its place",
        check: orders,
        kept_by: &[("crates/discovery/src/lib.rs", "mod kept;"), ("crates/discovery/src/kept.rs", "")],
        broken_by: &[("crates/discovery/src/lib.rs", "mod attic;"), ("crates/discovery/src/attic.rs", "")],
    },
    Rule {
        name: "each crate has an order",
        check: orders,
        kept_by: &[("crates/attic/src/lib.rs", "mod a;"), ("crates/attic/src/a.rs", "")],
        broken_by: &[
            ("crates/attic/src/lib.rs", "mod a; mod b;"),
            ("crates/attic/src/a.rs", ""),
            ("crates/attic/src/b.rs", ""),
        ],
    },
    Rule {
        name: "each folder of the proxy has an order",
        check: orders,
        kept_by: &[
            ("crates/proxy/src/lib.rs", "mod udp;"),
            ("crates/proxy/src/udp/mod.rs", "mod table; mod flow;"),
            ("crates/proxy/src/udp/table.rs", ""),
            ("crates/proxy/src/udp/flow.rs", ""),
        ],
        broken_by: &[
            ("crates/proxy/src/lib.rs", "mod udp;"),
            ("crates/proxy/src/udp/mod.rs", "mod table;"),
            ("crates/proxy/src/udp/table/mod.rs", "mod a; mod b;"),
            ("crates/proxy/src/udp/table/a.rs", ""),
            ("crates/proxy/src/udp/table/b.rs", ""),
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

    /// Name of its row in [`ORDERS`].
    fn name(&self) -> String {
        format!("{}/{}", self.krate.name, self.prefix).trim_end_matches('/').to_string()
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

    /// Its parts, each with one of its files.
    fn parts(&self) -> BTreeMap<&'k str, usize> {
        (0..self.krate.files.len()).filter_map(|file| Some((self.part(file)?, file))).collect()
    }

    /// Uses between parts: from, to, both files, and the line.
    fn uses(&self) -> impl Iterator<Item = (&'k str, &'k str, (usize, usize), usize)> {
        let between = |((from, to), line): (&(usize, usize), &usize)| {
            Some((self.part(*from)?, self.part(*to)?, (*from, *to), *line))
        };
        self.krate.uses.iter().filter_map(between).filter(|(from, to, ..)| from != to)
    }

    /// Row that matches the code as it is; parts in a cycle share a place.
    fn proposal(&self) -> String {
        let mut left: BTreeSet<&str> = self.parts().into_keys().collect();
        let mut row = Vec::new();
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
            row.push(format!("\"{}\"", next.into_iter().collect::<Vec<_>>().join(" ")));
        }
        format!("(\"{}\", &[{}])", self.name(), row.join(", "))
    }

    fn check(&self, findings: &mut Vec<Finding>) {
        let (parts, name) = (self.parts(), self.name());
        let Some((_, order)) = ORDERS.iter().find(|(row, _)| *row == name) else {
            let is_needed = self.prefix.is_empty() || EVERY_FOLDER.contains(&self.krate.name);
            let is_later = WITHOUT_ORDER.iter().any(|folder| format!("{name}/").starts_with(folder));
            if parts.len() > 1 && is_needed && !is_later {
                let file = self.krate.files[parts.into_values().next().expect("it has two parts")];
                let error = format!("`{name}` has no row in ORDERS; as it is: {}", self.proposal());
                findings.push(file.finding(0, error, "a row there, with the order that it should have"));
            }
            return;
        };
        let place = |part: &str| order.iter().position(|names| names.split(' ').any(|name| name == part));
        for (part, file) in parts.iter().filter(|(part, _)| place(part).is_none()) {
            let error = format!("`{part}` has no place in the row of `{name}`; as it is: {}", self.proposal());
            findings.push(self.krate.files[*file].finding(0, error, "its name there"));
        }
        let up = |above: &str, (from, to): (usize, usize), line: usize| {
            let error = format!("uses {}, which stands above it in `{above}`", self.krate.path(to));
            self.krate.files[from].finding(line, error, "move what both need down, or pass it in")
        };
        let is_up = |from, to| place(from).is_some_and(|from| place(to).is_some_and(|to| to < from));
        findings.extend(
            self.uses().filter(|(from, to, ..)| is_up(from, to)).map(|(.., files, line)| up(&name, files, line)),
        );
        let of_root = self.krate.uses.iter().filter(|((from, to), _)| self.is_root(*to) && !self.is_root(*from));
        findings.extend(of_root.map(|(files, line)| up(&name, *files, *line)));
    }
}

fn orders(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for krate in crates(files) {
        Level::all(&krate).iter().for_each(|level| level.check(&mut findings));
    }
    findings
}

/// Names in [`ORDERS`] that no longer exist.
pub fn stale(files: &[File]) -> Vec<String> {
    let krates = crates(files);
    let levels: Vec<_> = krates.iter().flat_map(Level::all).map(|level| (level.name(), level.parts())).collect();
    let mut stale = Vec::new();
    for (row, order) in ORDERS {
        let parts = levels.iter().find(|(name, _)| name == row).map(|(_, parts)| parts);
        let names = order.iter().flat_map(|names| names.split(' '));
        let gone = names.filter(|name| !parts.is_some_and(|parts| parts.contains_key(name)));
        stale.extend(gone.map(|name| format!("the row of `{row}` in ORDERS names `{name}`, which is not there")));
    }
    stale
}

#[test]
fn a_place_is_shared_by_two_at_most() {
    for (row, order) in ORDERS {
        for names in *order {
            assert!(names.split(' ').count() <= CIRCLE_MAX, "{row}: {names} share a place");
        }
    }
}

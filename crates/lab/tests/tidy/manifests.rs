//! Rules for the dependencies of crates: the rooms of ARCHITECTURE.md, and no dependencies for `balance`.

use crate::rooms::{ROOMS, Room};
use crate::rule::{File, Finding, Rule};

/// Rules of this file, see [`Rule`].
pub static RULES: &[Rule] = &[
    Rule {
        name: "crates import only downwards",
        check: import_directions,
        kept_by: &[("crates/proxy/Cargo.toml", "[dependencies]\nevenkeel-config = { path = \"../config\" }\n")],
        broken_by: &[("crates/proxy/Cargo.toml", "[dev-dependencies]\nevenkeel-dns.path = \"../dns\"\n")],
    },
    Rule {
        name: "every crate has its room in the table",
        check: import_directions,
        kept_by: &[("crates/tower/Cargo.toml", "[package]\n")],
        broken_by: &[("crates/attic/Cargo.toml", "[package]\n")],
    },
    Rule {
        name: "balance depends on nothing",
        check: balance_depends_on_nothing,
        kept_by: &[("crates/balance/Cargo.toml", "[dependencies]\n# none\n\n[dev-dependencies]\nproptest = \"1\"\n")],
        broken_by: &[("crates/balance/Cargo.toml", "[dependencies]\nrand = \"0.9\"\n")],
    },
    Rule {
        name: "balance depends on something only while it is model-checked",
        check: balance_depends_on_nothing,
        kept_by: &[("crates/balance/Cargo.toml", "[target.'cfg(loom)'.dependencies]\nloom = \"0.7\"\n")],
        broken_by: &[("crates/balance/Cargo.toml", "[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n")],
    },
    Rule {
        name: "balance has no unsafe code",
        check: balance_forbids_unsafe,
        kept_by: &[("crates/balance/src/lib.rs", "//! x\n#![forbid(unsafe_code)]\n")],
        broken_by: &[("crates/balance/src/lib.rs", "//! x\n")],
    },
    Rule {
        name: "every crate takes the lints of the workspace",
        check: workspace_lints,
        kept_by: &[("crates/dns/Cargo.toml", "[lints]\nworkspace = true\n")],
        broken_by: &[("crates/dns/Cargo.toml", "[package]\n")],
    },
];

fn import_directions(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (krate, file) in manifests(files) {
        let Some(room) = ROOMS.iter().find(|room| room.name == krate) else {
            let error = format!("crate `{krate}` has no row in ROOMS");
            findings.push(file.finding(0, error, "state there what it answers and may import"));
            continue;
        };
        for (line, name) in dependencies(&file.text, |section| section.ends_with("dependencies")) {
            let Some(import) = name.strip_prefix("evenkeel-") else { continue };
            if !room.imports.contains(&import) {
                let error = format!("`{krate}` may not import `{import}`");
                findings.push(file.finding(
                    line,
                    error,
                    "move what both need down, into runtime, net, wire, config or balance",
                ));
            }
        }
    }
    findings
}

/// Rows for crates that do not exist, and allowed imports that no manifest uses.
pub fn stale(files: &[File]) -> Vec<String> {
    let mut stale = Vec::new();
    for Room { name: krate, imports: allowed, .. } in ROOMS {
        let Some((_, file)) = manifests(files).find(|(name, _)| name == krate) else {
            stale.push(format!("ROOMS has a row for `{krate}`, which is not there"));
            continue;
        };
        let all = dependencies(&file.text, |section| section.ends_with("dependencies"));
        let imports: Vec<&str> = all.into_iter().filter_map(|(_, name)| name.strip_prefix("evenkeel-")).collect();
        let unused = allowed.iter().filter(|allowed| !imports.contains(allowed));
        stale.extend(unused.map(|unused| format!("ROOMS lets `{krate}` import `{unused}`, which it does not")));
    }
    stale
}

fn balance_depends_on_nothing(files: &[File]) -> Vec<Finding> {
    let balance = manifests(files).filter(|(krate, _)| *krate == "balance");
    let found = balance.flat_map(|(_, file)| {
        let unused = ["dev-dependencies", "target.'cfg(loom)'.dependencies"];
        let used = |section: &str| section.ends_with("dependencies") && !unused.contains(&section);
        dependencies(&file.text, used).into_iter().map(move |(line, name)| {
            file.finding(
                line,
                format!("balance depends on `{name}`"),
                "pass in what it needs, as `now` and the generator are",
            )
        })
    });
    found.collect()
}

fn balance_forbids_unsafe(files: &[File]) -> Vec<Finding> {
    let lib = files.iter().filter(|file| file.path == "crates/balance/src/lib.rs");
    let lax = lib.filter(|file| !file.text.contains("#![forbid(unsafe_code)]"));
    lax.map(|file| file.finding(1, "balance allows unsafe code", "`#![forbid(unsafe_code)]`")).collect()
}

fn workspace_lints(files: &[File]) -> Vec<Finding> {
    let lax = manifests(files).filter(|(_, file)| !file.text.contains("[lints]\nworkspace = true"));
    lax.map(|(_, file)| {
        file.finding(0, "the lints of the workspace are not taken", "`[lints]` with `workspace = true`")
    })
    .collect()
}

/// Manifests of the crates, each with the crate's folder.
fn manifests(files: &[File]) -> impl Iterator<Item = (&str, &File)> {
    files.iter().filter_map(|file| Some((file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?, file)))
}

/// Names in the `wanted` sections of a manifest, each with its line.
fn dependencies(manifest: &str, wanted: impl Fn(&str) -> bool) -> Vec<(usize, &str)> {
    let mut section = "";
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end().trim_end_matches(']');
            // `[dependencies.name]` is itself a dependency.
            if let Some((table, name)) = section.rsplit_once('.').filter(|(table, _)| wanted(table)) {
                debug_assert!(!table.is_empty());
                found.push((index + 1, name));
            }
        } else if wanted(section) && line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let name = line.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').next().unwrap_or_default();
            found.push((index + 1, name));
        }
    }
    found
}

#[test]
fn dependencies_are_found_in_every_form() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\n# a = 1\nb = \"1\"\nc.workspace = true\n[dependencies.d]\n\
                    path = \"d\"\n[target.'cfg(unix)'.dependencies]\ne = \"1\"\n[features]\nf = []\n";
    let names: Vec<&str> =
        dependencies(manifest, |s| s.ends_with("dependencies")).into_iter().map(|(_, n)| n).collect();
    assert_eq!(names, ["b", "c", "d", "e"]);
}

//! Is the house in order? The rules of the house that a machine can check, as a table: [`RULES`]. Each row carries a
//! sample that breaks it, so that no rule can rot into one that never fails.
//!
//! A new rule is a function and a row. What clippy can check belongs into the lints of the workspace instead.

use std::fmt;
use std::fs;
use std::path::Path;

/// One text file, by its path from the root of the repository.
struct File {
    path: String,
    text: String,
}

/// Something out of order. Line 0 is the file as a whole.
struct Finding {
    path: String,
    line: usize,
    error: String,
    instead: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: error: {}; instead: {}", self.path, self.line, self.error, self.instead)
    }
}

/// One rule, with the smallest trees that keep and break it.
struct Rule {
    name: &'static str,
    check: fn(&[File]) -> Vec<Finding>,
    kept_by: &'static [(&'static str, &'static str)],
    broken_by: &'static [(&'static str, &'static str)],
}

static RULES: &[Rule] = &[
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
    Rule {
        name: "names say what is inside",
        check: telling_names,
        kept_by: &[("crates/dns/src/answer.rs", "mod miscount;\n")],
        broken_by: &[("crates/dns/src/utils.rs", "//! x\n")],
    },
    Rule {
        name: "modules inside files have telling names too",
        check: telling_names,
        kept_by: &[("crates/dns/src/answer.rs", "pub mod query {\n")],
        broken_by: &[("crates/dns/src/answer.rs", "pub(crate) mod helpers {\n")],
    },
    Rule {
        name: "an unfinished mark gives its reason",
        check: unfinished_marks,
        kept_by: &[("crates/dns/src/a.rs", "// TODO(until rfc 9999 is out): x\nlet s = \"TODO\";\n")],
        broken_by: &[("crates/dns/src/a.rs", "let a = 1; // TODO: later\n")],
    },
    Rule {
        name: "a source begins with the question it answers",
        check: head_comment,
        kept_by: &[("crates/dns/src/a.rs", "//! What is asked?\n")],
        broken_by: &[("crates/dns/src/a.rs", "use std::fmt;\n//! late\n")],
    },
    Rule {
        name: "unsafe code says why it is sound",
        check: safety_comments,
        kept_by: &[("crates/dns/src/a.rs", "// SAFETY: open until dropped,\n// as x says\nlet a = unsafe { f() };\n")],
        broken_by: &[("crates/dns/src/a.rs", "// fast\nlet a = unsafe { f() };\n")],
    },
    Rule {
        name: "every algorithm has its row in the registry",
        check: registered,
        kept_by: &[
            ("crates/balance/src/algorithms/first.rs", ""),
            ("crates/balance/src/algorithms/mod.rs", "static ALL: &[A] = &[\n  &first::ALGORITHM,\n];\n"),
        ],
        broken_by: &[
            ("crates/balance/src/algorithms/first.rs", ""),
            ("crates/balance/src/algorithms/mod.rs", "mod first;\nstatic ALL: &[A] = &[];\n// first::ALGORITHM\n"),
        ],
    },
    Rule {
        name: "every experiment has its row in the registry",
        check: registered,
        kept_by: &[
            ("crates/lab/src/experiments/cost/mod.rs", ""),
            ("crates/lab/src/experiments/cost/case.rs", ""),
            ("crates/lab/src/experiments/mod.rs", "static ALL: &[E] = &[&cost::EXPERIMENT];\n"),
        ],
        broken_by: &[
            ("crates/lab/src/experiments/cost/mod.rs", ""),
            ("crates/lab/src/experiments/mod.rs", "static ALL: &[E] = &[];\n"),
        ],
    },
    Rule {
        name: "no path of one machine",
        check: machine_paths,
        kept_by: &[("crates/dns/src/a.rs", "#[cfg(test)]\nmod tests {\n  const A: &str = \"/home/me\";\n}\n")],
        broken_by: &[("crates/dns/src/a.rs", "const A: &str = \"/home/me\";\n")],
    },
];

/// Who may import whom: the table of rooms in ARCHITECTURE.md. Planes never import each other.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("balance", &[]),
    ("config", &["balance"]),
    ("discovery", &["balance", "config"]),
    ("proxy", &["balance", "config"]),
    ("kernel", &["balance", "config"]),
    ("dns", &["balance", "config"]),
    ("admin", &["balance", "config"]),
    ("sim", &["balance", "config"]),
    ("tower", &["balance"]),
    ("evenkeel", &["balance", "config", "discovery", "proxy", "kernel", "dns", "admin", "sim", "tower"]),
    ("lab", &[]),
];

fn import_directions(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (krate, file) in manifests(files) {
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == krate) else {
            let error = format!("crate `{krate}` has no row in MAY_IMPORT");
            findings.push(file.finding(0, error, "say there, and in ARCHITECTURE.md, what it answers and may import"));
            continue;
        };
        for (line, name) in dependencies(&file.text, |section| section.ends_with("dependencies")) {
            let Some(import) = name.strip_prefix("evenkeel-") else { continue };
            if !allowed.contains(&import) {
                let error = format!("`{krate}` may not import `{import}`");
                findings.push(file.finding(line, error, "move what both need down into balance or config"));
            }
        }
    }
    findings
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

/// Lengths are told apart from the other rules, since the first of them only warns.
fn lengths(files: &[File]) -> (Vec<String>, Vec<Finding>) {
    let (mut warnings, mut findings) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines = file.text.lines().count();
        let excused = file.text.lines().any(|line| line.starts_with("//! Long because"));
        if lines > 600 && !excused {
            let error = format!("{lines} lines");
            findings.push(file.finding(
                lines,
                error,
                "a file for each idea, or a line `//! Long because ...` in its head",
            ));
        } else if lines > 400 && !excused {
            warnings.push(format!("{}:{lines}: warning: {lines} lines; aim under 400", file.path));
        }
    }
    (warnings, findings)
}

const VAGUE: &[&str] = &["util", "utils", "common", "misc", "manager", "helper", "helpers"];

fn telling_names(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let instead = "name the one thing that is inside";
    for file in files.iter().filter(|file| file.is_rust()) {
        let parts = file.path.trim_end_matches(".rs").split('/');
        if let Some(part) = parts.into_iter().find(|part| VAGUE.contains(part)) {
            findings.push(file.finding(0, format!("a module called `{part}`"), instead));
        }
        for (line, text) in file.lines() {
            let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let named = words.windows(2).find(|pair| pair[0] == "mod" && VAGUE.contains(&pair[1]));
            if let Some(pair) = named.filter(|_| !text.trim_start().starts_with("//")) {
                findings.push(file.finding(line, format!("a module called `{}`", pair[1]), instead));
            }
        }
    }
    findings
}

const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];

fn unfinished_marks(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (line, text) in file.lines() {
            let Some((_, comment)) = text.split_once("//") else { continue };
            let mut words = comment.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(');
            let bare = words.find(|word| MARKS.contains(&word.split('(').next().unwrap_or_default()));
            // Only the first mark, and only with a reason that is more than a bracket.
            if bare.is_some_and(|word| !word.starts_with(&format!("{}(", MARKS[0])) || word.ends_with('(')) {
                findings.push(file.finding(line, "an unfinished mark without a reason", "finish it, or TODO(reason)"));
            }
        }
    }
    findings
}

fn head_comment(files: &[File]) -> Vec<Finding> {
    let sources =
        files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/") && file.path.contains("/src/"));
    let headless = sources.filter(|file| !file.text.starts_with("//!"));
    headless.map(|file| file.finding(1, "no `//!` at the top", "say which question the file answers")).collect()
}

fn safety_comments(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let opening = ["unsafe {", "unsafe impl"];
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, text) in lines.iter().enumerate() {
            let code = text.split("//").next().unwrap_or_default();
            if !opening.iter().any(|opening| code.contains(*opening)) {
                continue;
            }
            let above = lines[..index].iter().rev().take_while(|line| {
                let line = line.trim_start();
                line.starts_with("//") || line.starts_with("#[")
            });
            if !above.chain([text]).any(|line| line.contains("SAFETY:")) {
                findings.push(file.finding(
                    index + 1,
                    "unsafe code without its reason",
                    "`// SAFETY: ...` right above",
                ));
            }
        }
    }
    findings
}

/// Folders in which each module is a row of the slice `ALL` in `mod.rs`.
const REGISTRIES: &[&str] = &["crates/balance/src/algorithms/", "crates/lab/src/experiments/"];

fn registered(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in REGISTRIES {
        let registry = files.iter().find(|file| file.path == format!("{folder}mod.rs"));
        let all =
            registry.and_then(|file| file.text.split_once("static ALL")?.1.split_once("];")).map_or("", |(all, _)| all);
        for file in files {
            let Some(rest) = file.path.strip_prefix(folder) else { continue };
            let Some(module) = rest.strip_suffix("/mod.rs").or_else(|| rest.strip_suffix(".rs")) else { continue };
            if module != "mod" && !module.contains('/') && !all.contains(&format!("{module}::")) {
                findings.push(file.finding(0, "no row in the registry", "add one to `ALL` in the mod.rs beside it"));
            }
        }
    }
    findings
}

/// Folders that are somebody's, or that the system may put elsewhere. Tests may name them as samples.
const MACHINE_FOLDERS: &[&str] = &["home", "root", "tmp", "work"];

fn machine_paths(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !file.path.contains("/tests/")) {
        for (line, text) in file.lines_outside_tests() {
            let named = MACHINE_FOLDERS.iter().find(|folder| {
                let path = format!("/{folder}/");
                // Inside a longer path it is a folder of ours.
                text.match_indices(&path)
                    .any(|(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.'))
            });
            if let Some(folder) = named {
                let error = format!("a path under /{folder}, as if every machine were this one");
                findings.push(file.finding(
                    line,
                    error,
                    "an option, the temporary folder, or a path from the root of the checkout",
                ));
            }
        }
    }
    findings
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, text)| (index + 1, text))
    }

    /// All lines but those of a test module, which stands last in its file.
    fn lines_outside_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.text.find("#[cfg(test)]\nmod ").unwrap_or(self.text.len());
        self.text[..tests].lines().enumerate().map(|(index, text)| (index + 1, text))
    }

    fn finding(&self, line: usize, error: impl Into<String>, instead: &'static str) -> Finding {
        Finding { path: self.path.clone(), line, error: error.into(), instead }
    }
}

/// The manifests of the crates, each with the crate's folder.
fn manifests(files: &[File]) -> impl Iterator<Item = (&str, &File)> {
    files.iter().filter_map(|file| Some((file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?, file)))
}

/// The names in those sections of a manifest that are `wanted`, each with its line.
fn dependencies(manifest: &str, wanted: impl Fn(&str) -> bool) -> Vec<(usize, &str)> {
    let mut section = "";
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end().trim_end_matches(']');
            // `[dependencies.name]` is a dependency by itself.
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

/// The texts under the root, without what is built.
fn tree(folder: &Path, prefix: &str, files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("cannot list {prefix}: {e}"));
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            let ours = !matches!(name.as_str(), "target" | "node_modules" | ".git" | "artifacts" | "corpus");
            if ours {
                tree(&entry.path(), &format!("{path}/"), files);
            }
        } else if name == "Makefile" || [".rs", ".toml", ".md", ".sh"].iter().any(|end| name.ends_with(end)) {
            let text = fs::read_to_string(entry.path()).unwrap_or_else(|e| panic!("cannot read {path}: {e}"));
            files.push(File { path, text });
        }
    }
}

fn sample(files: &[(&str, &str)]) -> Vec<File> {
    files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect()
}

#[test]
fn the_house_is_in_order() {
    let mut files = Vec::new();
    tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), "", &mut files);
    let all = files.len();
    files.retain(|file| file.path != "crates/lab/tests/tidy.rs"); // its samples break the rules on purpose
    assert_eq!(files.len(), all - 1, "it looks at its own repository");
    let (warnings, mut findings) = lengths(&files);
    findings.extend(RULES.iter().flat_map(|rule| (rule.check)(&files)));
    // The checks of two rules may be the same function.
    let mut report: Vec<String> = findings.iter().map(Finding::to_string).collect();
    report.sort();
    report.dedup();
    warnings.iter().for_each(|warning| println!("{warning}"));
    assert!(report.is_empty(), "{} findings\n{}", report.len(), report.join("\n"));
}

#[test]
fn every_rule_can_fail() {
    for rule in RULES {
        assert!(!(rule.check)(&sample(rule.broken_by)).is_empty(), "{}: the sample does not break it", rule.name);
        let kept = (rule.check)(&sample(rule.kept_by));
        assert!(kept.is_empty(), "{}: broken by the sample that keeps it:\n{}", rule.name, kept[0]);
    }
}

#[test]
fn long_files_fail_unless_they_say_why() {
    let long = |head: &str, lines: usize| sample(&[("crates/dns/src/a.rs", &format!("{head}{}", "x\n".repeat(lines)))]);
    assert_eq!(lengths(&long("", 601)).1.len(), 1);
    assert_eq!(lengths(&long("//! Long because the RFC's table is.\n", 601)).1.len(), 0);
    let (warnings, findings) = lengths(&long("", 401));
    assert_eq!((warnings.len(), findings.len()), (1, 0));
    assert_eq!(lengths(&long("", 400)).0.len(), 0);
}

#[test]
fn dependencies_are_found_in_every_form() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\n# a = 1\nb = \"1\"\nc.workspace = true\n[dependencies.d]\n\
                    path = \"d\"\n[target.'cfg(unix)'.dependencies]\ne = \"1\"\n[features]\nf = []\n";
    let names: Vec<&str> =
        dependencies(manifest, |s| s.ends_with("dependencies")).into_iter().map(|(_, n)| n).collect();
    assert_eq!(names, ["b", "c", "d", "e"]);
}

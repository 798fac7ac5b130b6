//! Every fixture of `tests/haproxy`, `nginx`, `traefik`, `caddy` and `envoy` is converted: the committed output and report are what comes out,
//! the book has no directive that was forgotten, and `check` accepts the output. `make bless` rewrites the pages.

use crate::committed::same_as_committed;
use evenkeel_config::{Disk, Files, Outcome, Severity, parse_str, render_text};
use evenkeel_convert::{Converted, From, Item, Report, always, convert};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Keys of the language that `check` does not know yet. Each goes when its feature is there.
const NOT_YET: &[&str] = &[];

/// A fixture with what it becomes.
pub struct Fixture {
    pub name: String,
    folder: &'static str,
    /// Name of the file, by which its format is recognised.
    file: String,
    text: String,
    pub converted: Converted,
}

/// Files below the folder of the tests, so that no text has a path of this machine.
struct Here;

impl Files for Here {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(folder().join(path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        Disk.list(&folder().join(directory))
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Converts all fixtures, in the order of their names.
pub fn all() -> Vec<Fixture> {
    let mut fixtures = Vec::new();
    for (folder_name, ends) in [
        ("haproxy", &["cfg"][..]),
        ("nginx", &["conf"]),
        ("traefik", &["yml", "traefik"]),
        ("caddy", &["caddyfile"]),
        ("envoy", &["yaml"]),
    ] {
        let folder_path = folder().join(folder_name);
        let entries = std::fs::read_dir(&folder_path).expect("the folder is there");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        for path in &paths {
            let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
            if !ends.contains(&end) {
                continue;
            }
            let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_string();
            let text = std::fs::read_to_string(path).expect("a text");
            let file = format!("{folder_name}/{name}.{end}");
            let converted = convert(&file, &text, None, &Here).unwrap_or_else(|| panic!("{file} is not recognised"));
            fixtures.push(Fixture { name, folder: folder_name, file, text, converted });
        }
    }
    fixtures
}

#[test]
fn the_committed_conversions_are_what_comes_out() {
    let mut pages = Vec::new();
    for fixture in all() {
        let base = format!("crates/convert/tests/{}/{}", fixture.folder, fixture.name);
        pages.push((format!("{base}.toml").into(), fixture.converted.toml.clone()));
        pages.push((format!("{base}.txt").into(), fixture.converted.report.to_text()));
    }
    same_as_committed(&pages);
}

#[test]
fn there_are_fixtures_for_each() {
    let all = all();
    for (folder, least) in [("haproxy", 15), ("nginx", 15), ("traefik", 6), ("caddy", 6), ("envoy", 6)] {
        let count = all.iter().filter(|fixture| fixture.folder == folder).count();
        assert!(count >= least, "{folder}: {count}");
    }
}

/// Head of the page of lines that can be taken out of a fixture without a change.
const UNCHANGED: &str = "\
Lines of fixtures that can be taken out, one at a time, without a change of the output or the report. Each must state a
default of its program, or repeat another line. A line that means something belongs into the output or the report.

";

#[test]
fn lines_that_change_nothing_are_the_committed_ones() {
    let mut unchanged = BTreeSet::new();
    for fixture in all() {
        let lines: Vec<&str> = fixture.text.lines().collect();
        let said = |converted: &Converted| (converted.toml.clone(), words_of(&converted.report));
        let whole = said(&fixture.converted);
        for at in (0..lines.len()).filter(|at| !is_bare(lines[*at])) {
            let without = [&lines[..at], &lines[at + 1..]].concat().join("\n") + "\n";
            let less = convert(&fixture.file, &without, Some(fixture.converted.from), &Here).expect("it is named");
            if said(&less) == whole {
                unchanged.insert(format!("{}: {}\n", fixture.file, lines[at].trim()));
            }
        }
    }
    let page = UNCHANGED.to_string() + &unchanged.into_iter().collect::<String>();
    same_as_committed(&[("crates/convert/tests/unchanged.txt".into(), page)]);
}

/// A line without a directive: empty, a comment, the end of a block.
fn is_bare(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#') || line.chars().all(|c| "{}[]();,".contains(c))
}

/// The notes of a report, without the numbers of their lines.
fn words_of(report: &Report) -> Vec<String> {
    let note = |item: &Item| format!("{}: {} {}", item.text, item.reason, item.todo);
    report.named().chain(&report.lossless).map(note).collect()
}

#[test]
fn reports_and_outputs_are_short() {
    let fixtures = all();
    let median = |mut values: Vec<usize>| {
        values.sort_unstable();
        values[values.len() / 2]
    };
    let lines = |text: &str| text.lines().count();
    let report = median(fixtures.iter().map(|fixture| lines(&fixture.converted.report.to_text())).collect());
    let percent = |fixture: &Fixture| 100 * lines(&fixture.converted.toml) / lines(&fixture.text);
    let output = median(fixtures.iter().map(percent).collect());
    eprintln!("{} fixtures: {report} lines of report, {output} % of the lines of the input", fixtures.len());
    assert!(report <= 25 && output <= 155, "{report} lines of report, {output} %");
}

#[test]
fn no_directive_is_forgotten() {
    for fixture in all() {
        let report = &fixture.converted.report;
        assert_eq!(report.forgotten, 0, "{}: {}", fixture.name, report.to_text());
        assert!(report.directives > 0 && report.carried <= report.directives, "{}", fixture.name);
    }
}

fn environment(name: &str) -> Option<String> {
    let is_own = name.starts_with("BIND") || name.starts_with("LISTEN");
    Some(match name.contains("PORT") {
        true if is_own => "80".to_string(),
        true => "8080".to_string(),
        false => "127.0.0.1".to_string(),
    })
}

/// The key of an error of an unknown key.
fn unknown(message: &str) -> Option<&str> {
    message.strip_prefix("unknown key \"")?.split('"').next()
}

#[test]
fn check_accepts_every_output() {
    let mut used: BTreeSet<String> = BTreeSet::new();
    for fixture in all() {
        let toml = &fixture.converted.toml;
        let Outcome { plan, diagnostics } = parse_str("evenkeel.toml", toml, &environment);
        let errors = diagnostics.iter().filter(|d| d.severity() == Severity::Error);
        let (unknown, others): (Vec<_>, Vec<_>) =
            errors.map(|error| (unknown(&error.message), error)).partition(|one| one.0.is_some());
        let shown = || format!("{}/{}:\n{toml}\n{}", fixture.folder, fixture.name, render_text(&diagnostics, false));
        assert!(others.is_empty() && (plan.is_some() || !diagnostics.is_empty()), "{}", shown());
        for key in unknown.iter().filter_map(|(key, _)| *key) {
            assert!(NOT_YET.contains(&key), "\"{key}\" is neither a key nor in NOT_YET: {}", shown());
            used.insert(key.to_string());
        }
    }
    let stale: Vec<&&str> = NOT_YET.iter().filter(|key| !used.contains(**key)).collect();
    assert!(stale.is_empty(), "`check` knows these keys, or no fixture uses them: {stale:?}");
}

#[test]
fn the_committed_guide_shows_what_comes_out() {
    const GUIDE: &str = "docs/guide/convert.md";
    let guide = std::fs::read_to_string(folder().join("../../..").join(GUIDE)).expect("the page is there");
    let shop = all().into_iter().find(|fixture| fixture.name == "shop").expect("the fixture is there");
    let source = std::fs::read_to_string(folder().join("haproxy/shop.cfg")).expect("a text");
    // The page names the file as an operator would.
    let named = |text: &str| text.replace("haproxy/shop.cfg", "haproxy.cfg");
    let parts = [
        ("## An example\n\n```text\n", "```", source),
        ("becomes\n\n```toml\n", "```", named(&shop.converted.toml)),
        ("with this report:\n\n```text\n", "```", named(&shop.converted.report.to_text())),
        ("| Program | Difference |\n|---|---|\n", "\n\n", always_rows()),
    ];
    let page = parts.iter().fold(guide, |page, (begin, end, text)| {
        let (before, rest) = page.split_once(begin).unwrap_or_else(|| panic!("{begin} is not in {GUIDE}"));
        let (_, after) = rest.split_once(end).expect("the part ends");
        let text = if *end == "\n\n" { text.trim_end() } else { text };
        format!("{before}{begin}{text}{end}{after}")
    });
    same_as_committed(&[(GUIDE.into(), page)]);
}

/// Rows of the guide for differences that no configuration removes. A difference from several programs is a single row.
fn always_rows() -> String {
    let programs = [From::Haproxy, From::Nginx, From::Caddy, From::Traefik, From::Envoy];
    let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
    for from in programs {
        for text in always(from) {
            match rows.iter_mut().find(|(other, _)| *other == text) {
                Some((_, of)) => of.push(from.to_string()),
                None => rows.push((text, vec![from.to_string()])),
            }
        }
    }
    let of = |of: &[String]| if of.len() == programs.len() { "all".to_string() } else { of.join(", ") };
    rows.iter().map(|(text, programs)| format!("| {} | {text} |\n", of(programs))).collect()
}

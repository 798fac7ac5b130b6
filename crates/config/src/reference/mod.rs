//! Generated Markdown: the reference of keys and codes, and the reference of algorithms.

mod pages;

pub use pages::reference_pages;

use crate::code::Code;
use crate::quantity::{duration_text, size_text};
use crate::root::ROOT;
use crate::table::{Absent, Key, Kind, Table};
use evenkeel_balance::algorithms;
use evenkeel_balance::picker::{Algorithm, Needs};
use std::fmt::Write;
use std::time::Duration;

const GENERATED: &str =
    "<!-- Generated from the tables in crates/config and crates/balance. `make bless` regenerates it. -->";

/// Text of all keys (type, default, meaning, reason of the default) and of all error codes.
pub fn reference() -> String {
    format!("{}{}{}", opening(), tables_reference(&ROOT), codes())
}

/// Beginning of the reference of keys.
fn opening() -> String {
    let mut out = format!("# Configuration\n\n{GENERATED}\n\n");
    let _ = writeln!(
        out,
        "Every key of `evenkeel.toml`. `evenkeel check` reports all problems of a file at once, each with its \
         position.\n\nDurations and sizes are strings with a unit: `\"250ms\"`, `\"10s\"`, `\"1m30s\"` (d, h, m, s, \
         ms, us, ns); `\"16KiB\"`, `\"32KB\"` (B; KB, MB, GB in steps of 1000; KiB, MiB, GiB in steps of \
         1024).\n\n`evenkeel config schema` prints a JSON Schema. Many editors use it to complete and check the file."
    );
    out
}

/// Section of all error codes.
fn codes() -> String {
    let mut out = String::new();
    let _ = writeln!(out, "\n## Codes of errors and warnings\n\n| Code | | Meaning |\n|---|---|---|");
    for code in Code::ALL {
        let _ = writeln!(out, "| {} | {} | {} |", code.as_str(), code.severity().as_str(), code.meaning());
    }
    out
}

/// Sections for all tables of a file with this top level.
pub fn tables_reference(root: &'static Table) -> String {
    let mut out = String::new();
    let links = Links { to_table: &|table| code_part(table.path), algorithms: "algorithms.md" };
    root.walk().into_iter().for_each(|table| one_table(table, "##", &links, &mut out));
    out
}

/// Links of a page to other parts of the reference.
struct Links<'l> {
    /// Text for a table, perhaps with a link.
    to_table: &'l dyn Fn(&Table) -> String,
    /// Path of the page of algorithms.
    algorithms: &'l str,
}

/// Title of a table: its path, with the part in brackets as code.
fn title(table: &Table) -> String {
    if table.path == "the top level" { "The top level".to_string() } else { code_part(table.path) }
}

fn one_table(table: &Table, heading: &str, links: &Links<'_>, out: &mut String) {
    let _ = writeln!(out, "\n{heading} {}\n\n{}", title(table), table.help);
    if !table.keys.is_empty() {
        let _ = writeln!(out, "\n| Key | Type | Default | Meaning |\n|---|---|---|---|");
    }
    for key in table.keys {
        let why = if key.why.is_empty() || table.inherits { String::new() } else { format!(" *Why: {}*", key.why) };
        let default = default(key, table.inherits);
        row(&[&format!("`{}`", key.name), &links.type_of(&key.kind), &default, &format!("{}{why}", key.help)], out);
    }
}

/// Formats `limits of [pool.NAME]` as ``limits of `[pool.NAME]` ``.
fn code_part(path: &str) -> String {
    match path.split_once('[') {
        Some((before, rest)) => format!("{before}`[{rest}`"),
        None => path.to_string(),
    }
}

fn default(key: &Key, inherits: bool) -> String {
    match key.absent {
        _ if inherits => "inherited".to_string(),
        Absent::Default(toml) => format!("`{toml}`"),
        Absent::Required(example) => format!("required, such as `{example}`"),
        Absent::Means(text) => text.to_string(),
    }
}

impl Links<'_> {
    fn type_of(&self, kind: &Kind) -> String {
        let time = |ns: u64| duration_text(Duration::from_nanos(ns));
        match *kind {
            Kind::Bool => "boolean".to_string(),
            Kind::Int { min, max } if min == max => min.to_string(),
            Kind::Int { min, max } => format!("integer, {min} to {max}"),
            Kind::IntOr { min, max, word } => format!("`\"{word}\"`, or integer, {min} to {max}"),
            Kind::IntOrText { min, max, form } => format!("{}, or integer, {min} to {max}", form.describe()),
            Kind::Number { min, max } => format!("number, {min} to {max}"),
            Kind::Duration { min, max, off: false } => format!("duration, {} to {}", time(min), time(max)),
            Kind::Duration { min, max, off: true } => format!("`\"off\"`, or duration, {} to {}", time(min), time(max)),
            Kind::Size { min, max, off: false } => format!("size, {} to {}", size_text(min), size_text(max)),
            Kind::Size { min, max, off: true } => {
                format!("`\"off\"`, or size, {} to {}", size_text(min), size_text(max))
            }
            Kind::Choice(words) => words.iter().map(|w| format!("`\"{w}\"`")).collect::<Vec<_>>().join(", "),
            Kind::Text(form) => form.describe().to_string(),
            Kind::List(of) => format!("array of: {}", self.type_of(of)),
            Kind::OneOrList(of) => format!("{}, or array of them", self.type_of(of)),
            Kind::Map { keys, of } => format!("table: each key {}, each value: {}", keys.describe(), self.type_of(of)),
            Kind::Table(table) | Kind::Named(table) | Kind::Tables(table) => {
                format!("table: {}", (self.to_table)(table))
            }
            Kind::TableOr { table, key } => {
                let what = if table.is_number(key) { "number" } else { "string" };
                format!("{}, or its `{key}` as a {what}", (self.to_table)(table))
            }
            Kind::TableOrTables(table) => format!("table, or array of them: {}", (self.to_table)(table)),
            Kind::TablesBy { table, key } => {
                format!("array of tables, or table by `{key}`: {}", (self.to_table)(table))
            }
            Kind::TableOrWord { table, word } => format!("`\"{word}\"`, or table: {}", (self.to_table)(table)),
            Kind::Open => "table".to_string(),
            Kind::TableOrBool(table) => format!("boolean, or table: {}", (self.to_table)(table)),
            Kind::Balance => format!("[algorithm]({})", self.algorithms),
        }
    }
}

/// Page of all algorithms: use, needs, promises, parameters.
pub fn algorithms_reference() -> String {
    let mut out = format!("# Balancing algorithms\n\n{GENERATED}\n\n");
    let _ = writeln!(
        out,
        "Algorithms that pick an endpoint of a pool: `balance = \"NAME\"`, or `balance = {{ NAME = {{ PARAMETER = \
         VALUE }} }}`.\nThe default is `{}`.\n\n| Algorithm | |\n|---|---|",
        algorithms::default().name
    );
    for algorithm in algorithms::ALL {
        row(&[&format!("[`{0}`](#{0})", algorithm.name), algorithm.summary], &mut out);
    }
    for algorithm in algorithms::ALL {
        one_algorithm(algorithm, &mut out);
    }
    out
}

/// Section of an algorithm on that page.
pub fn algorithm_reference(algorithm: &Algorithm) -> String {
    let mut out = String::new();
    one_algorithm(algorithm, &mut out);
    out.trim_start().to_string()
}

fn one_algorithm(algorithm: &Algorithm, out: &mut String) {
    let _ = writeln!(out, "\n## {}\n\n{}", algorithm.name, algorithm.docs.trim());
    let _ = writeln!(out, "\n- Source: {}", algorithm.source);
    let quoted = |names: &[&str]| names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    if !algorithm.aliases.is_empty() {
        let _ = writeln!(out, "- Also named: {}", quoted(algorithm.aliases));
    }
    let _ = writeln!(out, "- Needs: {}", or_nothing(needs(algorithm.needs)));
    let p = algorithm.promises;
    let promises = [
        (p.shares_when_idle, "shares by weight when requests come one at a time"),
        (p.shares_when_busy, "shares by weight when requests overlap and take equally long"),
        (p.shares_whatever_the_load, "shares by weight whatever the load"),
        (p.affinity, "the same key gets the same endpoint"),
    ];
    let promises: Vec<&str> = promises.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text).collect();
    let promises = match promises[..] {
        [] => "only that the picked endpoint is eligible, as with every algorithm; neither shares nor affinity".into(),
        _ => promises.join("; "),
    };
    let _ = writeln!(out, "- Promises: {promises}");
    if algorithm.params.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n| Parameter | Type | Default | Meaning |\n|---|---|---|---|");
    for p in algorithm.params {
        let why = if p.why.is_empty() { String::new() } else { format!(" *Why: {}*", p.why) };
        let default = format!("`{}`", p.default);
        row(&[&format!("`{}`", p.name), &p.kind.to_string(), &default, &format!("{}{why}", p.help)], out);
    }
}

fn needs(needs: Needs) -> Vec<&'static str> {
    let all = [
        (needs.key, "a hash key"),
        (needs.in_flight, "requests in flight"),
        (needs.latency, "latencies"),
        (needs.probes, "probes"),
    ];
    all.into_iter().filter(|(needed, _)| *needed).map(|(_, text)| text).collect()
}

fn or_nothing(list: Vec<&str>) -> String {
    if list.is_empty() { "nothing".to_string() } else { list.join("; ") }
}

fn row(cells: &[&str], out: &mut String) {
    let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|").replace('\n', " ")).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

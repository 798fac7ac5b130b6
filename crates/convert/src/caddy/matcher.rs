//! Matchers: `/path*`, and the matchers that `@name` stands for, as alternatives of conditions.

use super::lexer::Directive;
use super::step::{When, and, negated};
use crate::expression;
use crate::ledger::Ledger;
use crate::model::{Cond, Key, Match, Test, escape};
use std::collections::BTreeMap;

/// Named matchers of a site.
pub(super) type Named = BTreeMap<String, Matcher>;

#[derive(Clone, Debug)]
pub(super) struct Matcher {
    when: When,
    /// Length of its path, if it has a single path.
    path: usize,
}

/// Facts of a site that decide how its matchers are written.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// True if the site refuses some requests.
    pub is_guarded: bool,
    /// True if the address that connects is the client's.
    pub has_remote: bool,
    /// True if the client's address is known.
    pub has_client: bool,
}

/// Reads the named matchers among the directives of a site.
pub(super) fn named(directives: &[Directive], above: &Named, reading: Reading, ledger: &mut Ledger) -> Named {
    let mut named = above.clone();
    for directive in directives.iter().filter(|directive| directive.name().starts_with('@')) {
        let inline = Directive { line: directive.line, words: directive.from(1).to_vec(), block: Vec::new() };
        let is_inline = directive.words.len() > 1;
        // `@name not { ... }`: the block belongs to the only row.
        let only = Directive { block: directive.block.clone(), ..inline.clone() };
        let rows: Vec<&Directive> = if is_inline { vec![&only] } else { directive.block.iter().collect() };
        ledger.carried(directive.line);
        let paths: Vec<&String> = rows.iter().filter(|row| row.name() == "path").flat_map(|row| row.from(1)).collect();
        let path = if let [one] = paths.as_slice() { one.len() } else { 0 };
        named.insert(directive.name().to_string(), Matcher { when: all(&rows, reading, ledger), path });
    }
    named
}

/// True if a directive has a matcher.
pub(super) fn has(directive: &Directive) -> bool {
    directive.word(1).starts_with(['@', '/']) && !(directive.name() == "redir" && directive.words.len() == 2)
}

/// Length of the path in the matcher of a directive, by which directives of a kind are sorted.
pub(super) fn path_length(directive: &Directive, named: &Named) -> usize {
    match directive.word(1) {
        word if word.starts_with('/') && has(directive) => word.len(),
        word => named.get(word).map_or(0, |matcher| matcher.path),
    }
}

/// Splits the matcher off the words of a directive.
pub(super) fn of<'d>(directive: &'d Directive, named: &Named) -> (When, &'d [String]) {
    let words = directive.from(1);
    match words.first().map(String::as_str) {
        Some("*") => (When::always(), &words[1..]),
        Some(name) if name.starts_with('@') => {
            (named.get(name).map_or_else(When::unknown, |matcher| matcher.when.clone()), &words[1..])
        }
        Some(path) if has(directive) => (When { any: vec![path_match(path)], is_exact: true }, &words[1..]),
        _ => (When::always(), words),
    }
}

/// Rows whose values are alternatives if there are several of them.
const JOINED: [&str; 5] = ["path", "host", "method", "remote_ip", "client_ip"];

/// Rows of which versions of Caddy take only the first, or the last.
const SINGLE: [&str; 2] = ["expression", "protocol"];

/// Conditions that must all hold.
fn all(rows: &[&Directive], reading: Reading, ledger: &mut Ledger) -> When {
    let mut out = When::always();
    let mut seen: Vec<String> = Vec::new();
    let rows = &unreplaced(rows, ledger);
    for row in rows {
        let kind = match row.name() {
            "header" => format!("header {}", row.word(1).to_ascii_lowercase()),
            name if JOINED.contains(&name) || name == "query" => name.to_string(),
            _ => String::new(),
        };
        if !kind.is_empty() {
            if seen.contains(&kind) {
                continue;
            }
            seen.push(kind.clone());
        }
        // Rows of the same kind are alternatives.
        let mut joined = (*row).clone();
        for other in rows.iter().filter(|other| !std::ptr::eq(**other, *row) && !kind.is_empty()) {
            let is_field =
                row.name() == "header" && other.name() == "header" && other.word(1).eq_ignore_ascii_case(row.word(1));
            if is_field {
                joined.words.extend(other.from(2).iter().cloned());
                ledger.carried(other.line);
            } else if other.name() == row.name() && row.name() != "header" {
                joined.words.extend(other.from(1).iter().cloned());
                ledger.carried(other.line);
            }
        }
        let is_doubted =
            SINGLE.contains(&row.name()) && rows.iter().filter(|other| other.name() == row.name()).count() > 1;
        let read = match is_doubted {
            true => Err(format!("of several rows `{}`, Caddy takes one, which depends on its version", row.name())),
            false => one(&joined, reading, ledger),
        };
        match read.and_then(|(theirs, is_exact)| Ok((and(&out.any, &theirs)?, is_exact))) {
            Ok((both, is_exact)) => {
                ledger.carried(row.line);
                out = When { any: both, is_exact: is_exact && out.is_exact };
            }
            Err(reason) => {
                row.lost(&reason, "write the [[route]] with other conditions by hand", ledger);
                out.is_exact = false;
            }
        }
    }
    out
}

/// Rows without those that a later row replaces: of a value of a field and its absence, the last counts.
fn unreplaced<'d>(rows: &[&'d Directive], ledger: &mut Ledger) -> Vec<&'d Directive> {
    let mut kept: Vec<&Directive> = Vec::new();
    for row in rows {
        let (name, is_absent) = (row.word(1).trim_start_matches('!'), row.word(1).starts_with('!'));
        kept.retain(|other| {
            let is_same = row.name() == "header"
                && other.name() == "header"
                && other.word(1).trim_start_matches('!').eq_ignore_ascii_case(name)
                && other.word(1).starts_with('!') != is_absent;
            if is_same {
                ledger.carried(other.line);
            }
            !is_same
        });
        kept.push(row);
    }
    kept
}

fn path_match(path: &str) -> Match {
    let path = &*path.to_ascii_lowercase();
    let stars = path.matches('*').count();
    let is_inner = match (path.strip_prefix('*'), path.strip_suffix('*')) {
        (Some(_), Some(_)) => stars > 2,
        (None, None) => stars > 0,
        _ => stars > 1,
    };
    let test = match (path.strip_prefix('*'), path.strip_suffix('*')) {
        _ if path == "*" || path == "/*" => return Match::default(),
        // Within a path, a wildcard is for a single segment.
        _ if is_inner => Test::Regex(escape(path).replace("\\*", "[^/]*")),
        (Some(rest), Some(_)) => Test::Contains(rest.trim_end_matches('*').to_string()),
        (Some(end), None) => Test::Ends(end.to_string()),
        (None, Some(start)) => Test::Begins(start.to_string()),
        (None, None) => Test::OneOf(vec![path.to_string()]),
    };
    Match::of([Cond::new(Key::Path, test)])
}

/// Alternatives of a row: a request matches if any of them holds.
fn one(row: &Directive, reading: Reading, ledger: &mut Ledger) -> Result<(Vec<Match>, bool), String> {
    let values = row.from(1);
    let first = row.word(1);
    let is_plain = matches!(row.name(), "path" | "host" | "method" | "header" | "query" | "remote_ip" | "client_ip");
    if is_plain && values.iter().any(|value| value.contains('{')) {
        return Err("it has a placeholder".to_string());
    }
    let is = |cond: Cond| Ok((vec![Match::of([cond])], true));
    let each = |conds: Vec<Cond>| Ok((conds.into_iter().map(|cond| Match::of([cond])).collect(), true));
    match row.name() {
        "path" => Ok((values.iter().map(|path| path_match(path)).collect(), true)),
        "method" => is(Cond::one_of(Key::Method, values.iter().map(|method| method.to_ascii_uppercase()))),
        "host" => is(Cond::one_of(Key::Host, values.iter().map(|host| host.to_ascii_lowercase()))),
        "header" => match (first.strip_prefix('!'), row.word(2)) {
            (Some(name), _) => is(Cond::new(Key::Header(name.to_string()), Test::Present).negate()),
            (None, _) if values.len() < 2 || row.from(2).iter().any(|value| value == "*") => {
                is(Cond::new(Key::Header(first.to_string()), Test::Present))
            }
            (None, _) => {
                each(row.from(2).iter().map(|value| Cond::new(Key::Header(first.to_string()), glob(value))).collect())
            }
        },
        "query" => each(
            values
                .iter()
                .filter_map(|pair| pair.split_once('='))
                .map(|(name, value)| match value {
                    "*" => Cond::new(Key::Query(name.to_string()), Test::Present),
                    value => Cond::one_of(Key::Query(name.to_string()), [value]),
                })
                .collect(),
        ),
        "remote_ip" if !reading.has_remote => Err("the proxy in front is the address that connects".to_string()),
        "client_ip" if !reading.has_client => Err("which proxies in front are trusted is not known".to_string()),
        "remote_ip" if values.iter().any(|value| value == "forwarded") => {
            Err("the address is the one that a field of the client names".to_string())
        }
        "remote_ip" | "client_ip" => {
            let nets = values.iter().flat_map(|value| networks(value));
            is(Cond::one_of(Key::Client, nets))
        }
        "protocol" if matches!(first, "http" | "https") => is(Cond::one_of(Key::Scheme, [first])),
        "path_regexp" => {
            let regex = if values.len() > 1 { row.word(2) } else { first };
            expression::foreign(regex)?;
            if regex.contains("(?-i") || regex.contains('{') {
                return Err("its expression has flags or placeholders".to_string());
            }
            let regex = expression::whole(regex, false);
            let has_case = regex.bytes().any(|byte| byte.is_ascii_alphabetic()) && !regex.starts_with("(?i)");
            let cond = Cond::new(Key::Path, Test::Regex(regex));
            if has_case {
                // In Caddy, letters of paths have a case in expressions alone.
                if reading.is_guarded {
                    let reason = "its expression matches letters in one case only, and paths here have none";
                    row.lost(reason, "write the [[route]] with other conditions by hand", ledger);
                    return Ok((vec![Match::of([cond])], false));
                }
                ledger.changes(
                    row.line,
                    "the expression matches letters in any case here",
                    "nothing, unless cases differ",
                );
            }
            is(cond)
        }
        "header_regexp" => {
            let (name, regex) = if values.len() > 2 { (row.word(2), row.word(3)) } else { (first, row.word(2)) };
            expression::foreign(regex)?;
            is(Cond::new(Key::Header(name.to_string()), Test::Regex(expression::whole(regex, false))))
        }
        "not" => {
            let inline = Directive { line: row.line, words: values.to_vec(), block: Vec::new() };
            let inline = Directive { block: if values.is_empty() { Vec::new() } else { row.block.clone() }, ..inline };
            let rows: Vec<&Directive> = if values.is_empty() { row.block.iter().collect() } else { vec![&inline] };
            let inner = all(&rows, reading, ledger);
            if !inner.is_exact {
                return Err("what it negates cannot be written".to_string());
            }
            Ok((negated(&inner.any)?, true))
        }
        "expression" => written(&values.join(" "), row, reading, ledger),
        text if row.words.len() == 1 && text.contains(['(', '=', ' ']) => written(text, row, reading, ledger),
        name => Err(format!("`{name}` is not a condition of routes")),
    }
}

/// Networks of a word, which may be `private_ranges`.
pub(super) fn networks(word: &str) -> Vec<String> {
    const PRIVATE: [&str; 6] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "fd00::/8", "::1"];
    if word == "private_ranges" { PRIVATE.map(str::to_string).to_vec() } else { vec![word.to_string()] }
}

/// Alternatives of an expression.
fn written(text: &str, row: &Directive, reading: Reading, ledger: &mut Ledger) -> Result<(Vec<Match>, bool), String> {
    let expr = super::expression::read(text, row.line)?;
    let mut read = |inner: &Directive| match one(inner, reading, ledger)? {
        (any, true) => Ok(any),
        _ => Err("a part of its expression cannot be written".to_string()),
    };
    Ok((super::expression::alternatives(&expr, false, &mut read)?, true))
}

fn glob(value: &str) -> Test {
    match (value.strip_prefix('*'), value.strip_suffix('*')) {
        (Some(rest), Some(_)) if rest.len() > 1 => Test::Contains(rest.trim_end_matches('*').to_string()),
        (Some(end), _) => Test::Ends(end.to_string()),
        (None, Some(start)) => Test::Begins(start.to_string()),
        (None, None) => Test::OneOf(vec![value.to_string()]),
    }
}

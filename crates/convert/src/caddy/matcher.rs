//! Matchers: `/path*`, and the matchers that `@name` stands for, as alternatives of conditions.

use super::lexer::Directive;
use crate::expression;
use crate::ledger::Ledger;
use crate::model::{Apart, Cond, Key, Match, Test};
use std::collections::BTreeMap;

/// Most alternatives of a matcher.
const ALTERNATIVES: usize = 64;

/// Named matchers of a site; `None` for a matcher that cannot be written and has been reported.
pub(super) type Named = BTreeMap<String, Option<Vec<Match>>>;

/// Reads the named matchers among the directives of a site.
pub(super) fn named(directives: &[Directive], above: &Named, ledger: &mut Ledger) -> Named {
    let mut named = above.clone();
    for directive in directives.iter().filter(|directive| directive.name().starts_with('@')) {
        let inline = Directive { line: directive.line, words: directive.from(1).to_vec(), block: Vec::new() };
        let rows: Vec<&Directive> =
            directive.block.iter().chain((directive.words.len() > 1).then_some(&inline)).collect();
        ledger.carried(directive.line);
        named.insert(directive.name().to_string(), all(&rows, ledger));
    }
    named
}

/// Splits the matcher off the words of a directive.
pub(super) fn of<'d>(words: &'d [String], named: &Named) -> (Option<Vec<Match>>, &'d [String]) {
    match words.first().map(String::as_str) {
        Some("*") => (Some(vec![Match::default()]), &words[1..]),
        Some(name) if name.starts_with('@') => (named.get(name).cloned().flatten(), &words[1..]),
        Some(path) if path.starts_with('/') => (Some(vec![path_match(path)]), &words[1..]),
        _ => (Some(vec![Match::default()]), words),
    }
}

/// Conditions that must all hold.
fn all(rows: &[&Directive], ledger: &mut Ledger) -> Option<Vec<Match>> {
    let mut out = vec![Match::default()];
    for row in rows {
        match one(row, ledger).and_then(|theirs| and(&out, &theirs)) {
            Ok(both) => {
                ledger.carried(row.line);
                out = both;
            }
            Err(reason) => {
                row.lost(&reason, "write the [[route]] with other conditions by hand", ledger);
                return None;
            }
        }
    }
    Some(out)
}

/// Every pair of alternatives that some request fulfils.
pub(super) fn and(ours: &[Match], theirs: &[Match]) -> Result<Vec<Match>, String> {
    let mut out = Vec::new();
    for (a, b) in ours.iter().flat_map(|a| theirs.iter().map(move |b| (a, b))) {
        match a.and(b) {
            Ok(both) => out.push(both),
            Err(Apart::Never) => {}
            Err(Apart::Unwritable) => return Err("its conditions do not fit into one match".to_string()),
        }
    }
    if out.len() > ALTERNATIVES { Err("it has too many alternatives".to_string()) } else { Ok(out) }
}

fn path_match(path: &str) -> Match {
    let test = match (path.strip_prefix('*'), path.strip_suffix('*')) {
        _ if path == "*" || path == "/*" => return Match::default(),
        (Some(rest), Some(_)) => Test::Contains(rest.trim_end_matches('*').to_string()),
        (Some(end), None) => Test::Ends(end.to_string()),
        (None, Some(start)) => Test::Begins(start.to_string()),
        (None, None) => Test::OneOf(vec![path.to_string()]),
    };
    Match::of([Cond::new(Key::Path, test)])
}

/// Alternatives of a row: a request matches if any of them holds.
fn one(row: &Directive, ledger: &mut Ledger) -> Result<Vec<Match>, String> {
    let values = row.from(1);
    let first = row.word(1);
    let is = |cond: Cond| Ok(vec![Match::of([cond])]);
    let each = |conds: Vec<Cond>| Ok(conds.into_iter().map(|cond| Match::of([cond])).collect());
    match row.name() {
        "path" => {
            if values
                .iter()
                .any(|path| path.get(1..path.len().saturating_sub(1)).is_some_and(|inner| inner.contains('*')))
            {
                return Err("a path has a wildcard within it".to_string());
            }
            Ok(values.iter().map(|path| path_match(path)).collect())
        }
        "method" => is(Cond::one_of(Key::Method, values.iter().map(|method| method.to_ascii_uppercase()))),
        "host" => is(Cond::one_of(Key::Host, values.iter().map(|host| host.to_ascii_lowercase()))),
        "header" => match (first.strip_prefix('!'), row.word(2)) {
            (Some(name), _) => is(Cond::new(Key::Header(name.to_string()), Test::Present).negate()),
            (None, "" | "*") => is(Cond::new(Key::Header(first.to_string()), Test::Present)),
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
        "remote_ip" | "client_ip" => {
            let private = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "fd00::/8", "::1"];
            let nets = values.iter().filter(|value| *value != "forwarded").flat_map(|value| match value.as_str() {
                "private_ranges" => private.map(str::to_string).to_vec(),
                net => vec![net.to_string()],
            });
            is(Cond::one_of(Key::Client, nets))
        }
        "protocol" if matches!(first, "http" | "https") => is(Cond::one_of(Key::Scheme, [first])),
        "path_regexp" => {
            let regex = if values.len() > 1 { row.word(2) } else { first };
            if !regex.starts_with("(?i)") && regex.bytes().any(|byte| byte.is_ascii_alphabetic()) {
                ledger.dropped(row.line, "expressions match paths in any case of letters here, as \"path\" does");
            }
            each(expression::path_tests(regex, false)?.into_iter().map(|test| Cond::new(Key::Path, test)).collect())
        }
        "header_regexp" => {
            let (name, regex) = if values.len() > 2 { (row.word(2), row.word(3)) } else { (first, row.word(2)) };
            expression::foreign(regex)?;
            is(Cond::new(Key::Header(name.to_string()), Test::Regex(expression::whole(regex, false))))
        }
        "not" => {
            let inline = Directive { line: row.line, words: values.to_vec(), block: Vec::new() };
            let rows: Vec<&Directive> = row.block.iter().chain((!values.is_empty()).then_some(&inline)).collect();
            let inner = all(&rows, ledger).ok_or("what it negates cannot be written")?;
            inner.iter().try_fold(vec![Match::default()], |out, matching| {
                let negated: Vec<Match> =
                    matching.conds.iter().map(|cond| Match::of([cond.clone().negate()])).collect();
                and(&out, &negated)
            })
        }
        name => Err(format!("`{name}` is not a condition of routes")),
    }
}

fn glob(value: &str) -> Test {
    match (value.strip_prefix('*'), value.strip_suffix('*')) {
        (Some(rest), Some(_)) if rest.len() > 1 => Test::Contains(rest.trim_end_matches('*').to_string()),
        (Some(end), _) => Test::Ends(end.to_string()),
        (None, Some(start)) => Test::Begins(start.to_string()),
        (None, None) => Test::OneOf(vec![value.to_string()]),
    }
}

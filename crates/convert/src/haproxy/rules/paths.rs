//! Rules that change the path or the query, as `rewrite` of routes.

use super::effect::{Rules, Scope, filter};
use super::fields::Condition;
use super::sample;
use crate::expression::foreign;
use crate::haproxy::lexer::Item;
use crate::haproxy::logic::Expr;
use crate::haproxy::samples::{called, split};
use crate::haproxy::state::PathChange;
use crate::ledger::Ledger;
use crate::model::{Cond, Draft, Key, Test, braced};
use evenkeel_config::plan::Rewrite;

type Change = (Draft<Rewrite>, PathChange);

/// `replace-path`, `set-path` and others.
pub(crate) fn change(
    item: &Item,
    words: &[String],
    condition: &Condition,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let made = match word(0) {
        "replace-path" => replaced(word(1), word(2)),
        "replace-pathq" | "replace-uri" if keeps_the_end(word(1), word(2)) => replaced(word(1), word(2)),
        "set-path" => set(word(1), scope, rules),
        "set-uri" | "set-pathq" => whole(word(1)),
        "set-query" => query(word(1)),
        _ => Err("the query is not replaced by an expression".to_string()),
    };
    let is_query = word(0) == "set-query";
    let maps = scope.context.maps;
    // Paths that it changes. An expression leaves other paths as they are.
    let fits = made.as_ref().ok().and_then(|(rewrite, change)| {
        let test = match (change, rewrite.text(key!("regex"))) {
            (PathChange::Prefix { from, .. }, _) if !from.is_empty() => Test::Begins(from.clone()),
            (PathChange::Unknown, Some(regex)) if !is_query => Test::Regex(regex.to_string()),
            _ => return None,
        };
        Some(Expr::from(Cond::new(Key::Path, test)))
    });
    let fits = fits.unwrap_or(Expr::Const(true));
    let on = condition.viewed.clone().and(rules.state.view(&fits, maps));
    let before = Expr::any(rules.state.paths.iter().map(|(on, _)| on.clone())).or(rules.state.queries.clone());
    let change = made.as_ref().map_or(PathChange::Unknown, |(_, change)| change.clone());
    let is_first = before == Expr::Const(false);
    // Requests that no rule before it has changed, and the others.
    let fresh =
        if is_first { condition.viewed.clone() } else { condition.viewed.clone().and(fits).and(before.clone().not()) };
    let again = on.clone().and(before).alternatives(maps);
    match (made, fresh.alternatives(maps)) {
        (Ok((rewrite, _)), Ok(conjs)) => {
            filter(item, &conjs, &Draft::one(key!("rewrite"), rewrite), rules, ledger);
            if !again.is_ok_and(|all| all.is_empty()) {
                let reason = "a path is changed once: requests that a rule before it changes keep that change";
                ledger.changes(item.line, reason, "one rewrite in each [[route]] that does both");
            }
        }
        (Err(reason), _) | (_, Err(reason)) => {
            let todo = "strip_prefix, or rewrite = { regex = \"/a/(.*)\", to = \"/b/{1}\" } in a [[route]]";
            ledger.changes(item.line, reason, todo);
        }
    }
    if word(0) != "set-path" && word(0) != "replace-path" {
        rules.state.queries = rules.state.queries.clone().or(on.clone());
    }
    if !is_query {
        rules.state.paths.push((on, change));
    }
}

/// True if an expression keeps the query at its end.
fn keeps_the_end(regex: &str, with: &str) -> bool {
    let last = regex.matches('(').count();
    (regex.ends_with("(.*)") || regex.ends_with("(.*)$")) && with.ends_with(&format!("\\{last}"))
}

/// The whole path is replaced, if the expression matches in it.
fn replaced(regex: &str, with: &str) -> Result<Change, String> {
    foreign(regex)?;
    let (start, rest) = regex.strip_prefix('^').map_or((".*?", regex), |rest| ("", rest));
    let (rest, end) = match rest.strip_suffix('$').filter(|rest| !rest.ends_with('\\')) {
        Some(rest) => (rest, ""),
        None if rest.ends_with("(.*)") => (rest, ""),
        None => (rest, ".*"),
    };
    let rest = if rest.contains('|') { format!("(?:{rest})") } else { rest.to_string() };
    let to = groups(with, regex)?;
    if !to.starts_with(['/', '{']) {
        return Err(format!("\"{with}\" is not a path"));
    }
    let rewrite = Draft::one(key!("regex"), format!("{start}{rest}{end}")).with(key!("to"), to);
    let fixed = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_~".contains(&b));
    let prefix = regex.strip_prefix('^').and_then(|rest| rest.trim_end_matches('$').strip_suffix("(.*)"));
    let change = match (prefix.filter(|prefix| fixed(prefix)), with.strip_suffix("\\1")) {
        (Some(from), Some(to)) if fixed(to) => PathChange::Prefix { from: from.to_string(), to: to.to_string() },
        _ => PathChange::Unknown,
    };
    Ok((rewrite, change))
}

/// Number of groups of an expression.
fn count(regex: &str) -> u32 {
    let bytes = regex.as_bytes();
    let is_group = |at: &usize| {
        let is_plain = bytes.get(at + 1) != Some(&b'?') || bytes.get(at + 2) == Some(&b'P');
        bytes[*at] == b'(' && is_plain && (*at == 0 || bytes[at - 1] != b'\\')
    };
    (0..bytes.len()).filter(is_group).count() as u32
}

/// Text with groups `\1` as variables.
fn groups(with: &str, of: &str) -> Result<String, String> {
    if with.contains('%') {
        return Err("a replacement has no samples".to_string());
    }
    let (mut out, mut chars) = (String::new(), with.chars());
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some(digit @ '1'..='9') if digit.to_digit(10) <= Some(count(of)) => {
                    out.push_str(&format!("{{{digit}}}"))
                }
                // A group that the expression does not have is empty.
                Some('1'..='9') => {}
                Some(other) if !other.is_ascii_alphanumeric() => out.push_str(&braced(&other.to_string())),
                _ => return Err(format!("\"{with}\" was not understood")),
            },
            (c, false) => out.push_str(&braced(&c.to_string())),
        }
    }
    Ok(out)
}

fn set(value: &str, scope: &Scope<'_>, rules: &Rules) -> Result<Change, String> {
    if let Some(inner) = value.strip_prefix("%[path,").and_then(|rest| rest.strip_suffix(']')) {
        let ("regsub", Some(argument)) = called(inner) else {
            return written(value, scope, rules);
        };
        let parts = split(argument);
        let text = |at: usize| parts.get(at).map_or("", |part| part.trim_matches(['"', '\'']));
        foreign(text(0))?;
        // Every part that matches is replaced here.
        if !text(0).starts_with('^') && !text(2).contains('g') {
            return Err("only the first part that matches is replaced, and here all of them".to_string());
        }
        let regex = if text(2).contains('i') { format!("(?i){}", text(0)) } else { text(0).to_string() };
        let to = groups(text(1), text(0))?;
        let from = text(0).trim_start_matches('^');
        let is_fixed = from.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_~".contains(&b));
        let change = match is_fixed && !to.contains('{') && text(2).is_empty() {
            true => PathChange::Prefix { from: from.to_string(), to: to.clone() },
            false => PathChange::Unknown,
        };
        let to = if to.is_empty() { String::new() } else { to };
        return Ok((Draft::one(key!("search"), regex).with(key!("to"), to), change));
    }
    written(value, scope, rules)
}

fn written(value: &str, scope: &Scope<'_>, rules: &Rules) -> Result<Change, String> {
    let text = sample::read(value, scope.context, &rules.state)?;
    if !text.starts_with('/') || text.contains("{request_uri}") || text.contains("{query") {
        return Err("the path cannot be made of this".to_string());
    }
    let change = match (text.contains('{'), text.strip_suffix("{path}")) {
        (false, _) => PathChange::Fixed(text.clone()),
        (true, Some(to)) if !to.contains('{') => PathChange::Prefix { from: String::new(), to: to.to_string() },
        _ => PathChange::Unknown,
    };
    Ok((Draft::one(key!("path"), text), change))
}

/// `set-uri` with fixed text, which replaces the query, too.
fn whole(value: &str) -> Result<Change, String> {
    if value.contains('%') || !value.starts_with('/') {
        return Err("the path and the query are fixed text".to_string());
    }
    let path = value.split('?').next().unwrap_or_default().to_string();
    // A question mark at the end drops the client's query.
    let rewrite = Draft::one(key!("regex"), ".*").with(key!("to"), format!("{}?", braced(value)));
    Ok((rewrite, PathChange::Fixed(path)))
}

fn query(value: &str) -> Result<Change, String> {
    if value.contains('%') {
        return Err("a query is fixed text".to_string());
    }
    let rewrite = Draft::one(key!("regex"), "/(.*)").with(key!("to"), format!("/{{1}}?{}?", braced(value)));
    Ok((rewrite, PathChange::Unknown))
}

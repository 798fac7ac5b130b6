//! Rules of routers, as `Host(`a.test`) && (PathPrefix(`/x`) || !Method(`POST`))`: alternatives of conditions.

use crate::expression;
use crate::model::{Apart, Cond, Key, Match, Test};

/// Deepest nesting of parentheses.
const DEPTH: usize = 16;
/// Most alternatives of a rule.
const ALTERNATIVES: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Call(String, Vec<String>),
    And,
    Or,
    Not,
    Open,
    Close,
}

/// An expression before its negations are moved inwards.
enum Expr {
    Is(Vec<Cond>),
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Not(Box<Expr>),
}

/// Reads a rule as alternatives. Each alternative is a match.
///
/// # Errors
/// Reason why it cannot be written.
pub(super) fn read(text: &str) -> Result<Vec<Match>, String> {
    let tokens = tokens(text)?;
    let mut at = 0;
    let expr = any(&tokens, &mut at, 0)?;
    if at < tokens.len() {
        return Err("its parentheses do not fit".to_string());
    }
    alternatives(&expr, false)
}

/// Returns alternatives that take all requests of a rule that cannot be written, and perhaps more.
pub(super) fn widest(text: &str) -> Vec<Match> {
    let every = || vec![Match::default()];
    let Ok(tokens) = tokens(text) else { return every() };
    let mut at = 0;
    match any(&tokens, &mut at, 0) {
        Ok(Expr::Any(parts)) if at == tokens.len() && parts.len() == 1 => match &parts[0] {
            Expr::All(parts) => parts.iter().fold(every(), |all, part| {
                let Ok(theirs) = alternatives(part, false) else { return all };
                let both: Result<Vec<Match>, Apart> = all
                    .iter()
                    .flat_map(|a| theirs.iter().map(move |b| a.and(b)))
                    .filter(|both| *both != Err(Apart::Never))
                    .collect();
                both.unwrap_or(all)
            }),
            _ => every(),
        },
        _ => every(),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let marks = [("&&", Token::And), ("||", Token::Or), ("!", Token::Not), ("(", Token::Open), (")", Token::Close)];
        if let Some((mark, token)) = marks.into_iter().find(|(mark, _)| rest.starts_with(mark)) {
            tokens.push(token);
            rest = rest[mark.len()..].trim_start();
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let inner = after.trim_start().strip_prefix('(').filter(|_| !name.is_empty());
        let mut inner = inner.ok_or_else(|| format!("\"{rest}\" is not a matcher"))?;
        let mut values = Vec::new();
        loop {
            inner = inner.trim_start().trim_start_matches(',').trim_start();
            if let Some(after) = inner.strip_prefix(')') {
                rest = after.trim_start();
                break;
            }
            let quote = inner.chars().next().filter(|c| ['`', '"', '\''].contains(c));
            let quote = quote.ok_or("a value has no quotes")?;
            let (value, after) = inner[1..].split_once(quote).ok_or("a value has no quote at its end")?;
            values.push(value.to_string());
            inner = after;
        }
        tokens.push(Token::Call(name.to_string(), values));
    }
    Ok(tokens)
}

fn any(tokens: &[Token], at: &mut usize, depth: usize) -> Result<Expr, String> {
    let mut parts = vec![all(tokens, at, depth)?];
    while tokens.get(*at) == Some(&Token::Or) {
        *at += 1;
        parts.push(all(tokens, at, depth)?);
    }
    Ok(Expr::Any(parts))
}

fn all(tokens: &[Token], at: &mut usize, depth: usize) -> Result<Expr, String> {
    let mut parts = vec![one(tokens, at, depth)?];
    while tokens.get(*at) == Some(&Token::And) {
        *at += 1;
        parts.push(one(tokens, at, depth)?);
    }
    Ok(Expr::All(parts))
}

fn one(tokens: &[Token], at: &mut usize, depth: usize) -> Result<Expr, String> {
    if depth > DEPTH {
        return Err("it is nested too deeply".to_string());
    }
    let token = tokens.get(*at).ok_or("it ends too early")?;
    *at += 1;
    match token {
        Token::Not => Ok(Expr::Not(Box::new(one(tokens, at, depth + 1)?))),
        Token::Open => {
            let inner = any(tokens, at, depth + 1)?;
            *at += 1;
            match tokens.get(*at - 1) {
                Some(Token::Close) => Ok(inner),
                _ => Err("its parentheses do not fit".to_string()),
            }
        }
        Token::Call(name, values) => Ok(Expr::Is(conds(name, values)?)),
        _ => Err("an operator has nothing in front of it".to_string()),
    }
}

/// Conditions of a matcher. It matches if any of them holds, or if there are none.
fn conds(name: &str, values: &[String]) -> Result<Vec<Cond>, String> {
    let first = values.first().ok_or_else(|| format!("{name} has no value"))?;
    let second = values.get(1);
    let pair = || second.cloned().ok_or_else(|| format!("{name} has no second value"));
    let whole = |regex: &str| match expression::foreign(regex) {
        Ok(()) => Ok(Test::Regex(expression::whole(regex, false))),
        Err(reason) => Err(reason.to_string()),
    };
    let each = |of: &dyn Fn(&String) -> Cond| values.iter().map(of).collect();
    Ok(match name {
        "Host" | "HostSNI" if first == "*" => Vec::new(),
        "Host" | "HostSNI" | "HostHeader" => {
            vec![Cond::one_of(Key::Host, values.iter().map(|host| host.to_ascii_lowercase()))]
        }
        "HostRegexp" => {
            expression::foreign(first)?;
            let regex = expression::whole(first, false);
            vec![Cond::new(Key::Header("Host".into()), Test::Regex(format!("(?i)(?:{regex})(:[0-9]+)?")))]
        }
        "Path" => each(&|path| Cond::one_of(Key::Path, [path.as_str()])),
        "PathPrefix" if first == "/" => Vec::new(),
        // Text, as in Traefik: `/api` takes `/apix` as well.
        "PathPrefix" => each(&|path| Cond::new(Key::Path, Test::Begins(path.clone()))),
        "PathRegexp" => {
            expression::path_tests(first, false)?.into_iter().map(|test| Cond::new(Key::Path, test)).collect()
        }
        "Method" => vec![Cond::one_of(Key::Method, values.iter().map(|method| method.to_ascii_uppercase()))],
        "Header" | "Headers" => vec![Cond::one_of(Key::Header(first.clone()), [pair()?])],
        "HeaderRegexp" | "HeadersRegexp" => vec![Cond::new(Key::Header(first.clone()), whole(&pair()?)?)],
        "Query" => match (second, first.split_once('=')) {
            (Some(value), _) => vec![Cond::one_of(Key::Query(first.clone()), [value.as_str()])],
            (None, Some((name, value))) => vec![Cond::one_of(Key::Query(name.to_string()), [value])],
            // A parameter without a value.
            (None, None) => vec![Cond::new(Key::Query(first.clone()), Test::Regex("(?:)".to_string()))],
        },
        "QueryRegexp" => vec![Cond::new(Key::Query(first.clone()), whole(&pair()?)?)],
        "ClientIP" => vec![Cond::one_of(Key::Client, values.iter().map(String::as_str))],
        _ => return Err(format!("`{name}` is not a condition of routes")),
    })
}

fn alternatives(expr: &Expr, negated: bool) -> Result<Vec<Match>, String> {
    match (expr, negated) {
        (Expr::Not(inner), _) => alternatives(inner, !negated),
        (Expr::Is(conds), false) if conds.is_empty() => Ok(vec![Match::default()]),
        (Expr::Is(conds), true) if conds.is_empty() => Ok(Vec::new()),
        (Expr::Is(conds), false) => Ok(conds.iter().map(|cond| Match::of([cond.clone()])).collect()),
        (Expr::Is(conds), true) => {
            let all = conds.iter().try_fold(Match::default(), |all, cond| all.and(&Match::of([cond.clone().negate()])));
            all.map(|all| vec![all]).map_err(|_| "its negation does not fit into one match".to_string())
        }
        (Expr::Any(parts), false) | (Expr::All(parts), true) => {
            let mut out = Vec::new();
            for part in parts {
                out.extend(alternatives(part, negated)?);
            }
            if out.len() > ALTERNATIVES { Err("it has too many alternatives".to_string()) } else { Ok(out) }
        }
        (Expr::All(parts), false) | (Expr::Any(parts), true) => {
            let mut out = vec![Match::default()];
            for part in parts {
                let theirs = alternatives(part, negated)?;
                let mut next = Vec::new();
                for (a, b) in out.iter().flat_map(|a| theirs.iter().map(move |b| (a, b))) {
                    match a.and(b) {
                        Ok(both) => next.push(both),
                        Err(Apart::Never) => {}
                        Err(Apart::Unwritable) => return Err("its conditions do not fit into one match".to_string()),
                    }
                    if next.len() > ALTERNATIVES {
                        return Err("it has too many alternatives".to_string());
                    }
                }
                out = next;
            }
            Ok(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_become_alternatives() {
        for (rule, count) in [
            ("Host(`a.test`)", 1),
            ("Host(`a.test`) && PathPrefix(`/x`, `/y`)", 2),
            ("Host(`a.test`) && (Path(`/x`) || Method(`GET`, \"POST\"))", 2),
            ("!(Host(`a.test`) || Header(`A`, `b`))", 1),
            ("Host(`a.test`) && Host(`b.test`)", 0),
            ("PathPrefix(`/`)", 1),
        ] {
            assert_eq!(read(rule).map(|all| all.len()), Ok(count), "{rule}");
        }
        for broken in ["", "Host(", "Host(a)", "Host(`a`) &&", "Host(`a`))", "Foo(`a`)", "&& Host(`a`)"] {
            assert!(read(broken).is_err(), "{broken}");
        }
        assert!(read(&"(".repeat(10_000)).is_err() && read(&"!".repeat(10_000)).is_err());
    }
}

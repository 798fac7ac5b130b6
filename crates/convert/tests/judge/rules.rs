//! Rules of Traefik's routers: matchers with values in backquotes, `&&`, `||`, `!` and parentheses.

use regex_lite::Regex;

/// Decides about a matcher by its name and values.
type Is<'i> = &'i dyn Fn(&str, &[String]) -> bool;

/// Evaluates a rule.
///
/// # Errors
/// The rest of the rule that is not understood.
pub fn holds(rule: &str, is: Is<'_>) -> Result<bool, String> {
    let mut rest = rule.trim();
    let verdict = any(&mut rest, is)?;
    if rest.is_empty() { Ok(verdict) } else { Err(rest.to_string()) }
}

fn any(rest: &mut &str, is: Is<'_>) -> Result<bool, String> {
    let mut verdict = all(rest, is)?;
    while let Some(after) = rest.strip_prefix("||") {
        *rest = after.trim_start();
        verdict |= all(rest, is)?;
    }
    Ok(verdict)
}

fn all(rest: &mut &str, is: Is<'_>) -> Result<bool, String> {
    let mut verdict = one(rest, is)?;
    while let Some(after) = rest.strip_prefix("&&") {
        *rest = after.trim_start();
        verdict &= one(rest, is)?;
    }
    Ok(verdict)
}

fn one(rest: &mut &str, is: Is<'_>) -> Result<bool, String> {
    if let Some(after) = rest.strip_prefix('!') {
        *rest = after.trim_start();
        return Ok(!one(rest, is)?);
    }
    if let Some(after) = rest.strip_prefix('(') {
        *rest = after.trim_start();
        let verdict = any(rest, is)?;
        *rest = rest.strip_prefix(')').ok_or_else(|| rest.to_string())?.trim_start();
        return Ok(verdict);
    }
    let (name, after) = rest.split_once('(').ok_or_else(|| rest.to_string())?;
    let (inner, after) = after.split_once("`)").ok_or_else(|| rest.to_string())?;
    let values: Vec<String> = inner.split('`').skip(1).step_by(2).map(str::to_string).collect();
    *rest = after.trim_start();
    Ok(!values.is_empty() && is(name, &values))
}

/// True if an expression matches some part of a text.
pub fn finds(regex: &str, text: &str) -> bool {
    Regex::new(regex).is_ok_and(|regex| regex.is_match(text))
}

/// The first part of a text that an expression matches.
pub fn first(regex: &str, text: &str) -> Option<String> {
    Some(Regex::new(regex).ok()?.find(text)?.as_str().to_string())
}

/// A text with all matches of an expression replaced.
pub fn replaced(regex: &str, text: &str, with: &str) -> String {
    Regex::new(regex).map_or_else(|_| text.to_string(), |regex| regex.replace_all(text, with).into_owned())
}

#[test]
fn rules_are_evaluated() {
    let is = |name: &str, values: &[String]| name == "Host" && values == ["a"];
    for (rule, verdict) in [
        ("Host(`a`)", true),
        ("!Host(`a`) || Path(`b`)", false),
        ("(Path(`x`) || Host(`a`)) && !Query(`a`, `b`)", true),
    ] {
        assert_eq!(holds(rule, &is), Ok(verdict), "{rule}");
    }
    assert!(holds("Host(a)", &is).is_err() && holds("Host(`a`))", &is).is_err());
}

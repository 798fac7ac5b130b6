//! `rewrite`: redirects, and other paths for endpoints.

use super::answer;
use super::state::{Changed, State};
use crate::expression::{filled, finds, whole};
use crate::model::{Cond, Draft, Key, Test, braced};
use crate::nginx::lexer::Directive;
use crate::nginx::table::written;
use crate::nginx::tree::{Level, Location, Tree, may_match, may_match_text};
use crate::nginx::variable;
use evenkeel_config::plan::Redirect;

/// Redirect, or path behind the rewrite, of the requests that match it.
pub(in crate::nginx) enum Outcome {
    Redirect(Draft<Redirect>),
    Path(Changed),
    /// No request: the path is known here, and the expression does not match it.
    Never,
}

/// Reads a `rewrite`: its condition, `None` for every path, and its outcome.
///
/// # Errors
/// Reason why it cannot be written.
pub(in crate::nginx) fn read(
    directive: &Directive,
    state: &State<'_>,
    port: u16,
) -> Result<(Option<Cond>, Outcome), String> {
    let (regex, to, flag) = (directive.word(1), directive.word(2), directive.word(3));
    let regex = written(regex)?;
    let is_all = matches!(
        &*regex,
        "^" | "^(.*)$" | "^(.*)" | ".*" | "^.*$" | "(.*)" | "^/(.*)$" | "^/(.*)" | "^/" | "^.*" | "/"
    );
    if let Some(before) = &state.changed {
        return Ok((None, again(&regex, directive, before, is_all, state, port)?));
    }
    let to = match (is_all, regex.starts_with("^/(")) {
        (true, true) if state.scope.uri.is_none() => to.replace("/$1", "$uri"),
        (true, false) if state.scope.uri.is_none() => to.replace("$1", "$uri"),
        _ => to.to_string(),
    };
    // All paths of a location match an expression that only takes its beginning away.
    let within = match state.matching.find(&Key::Path) {
        Some(Test::Begins(text)) => Some(text.clone()),
        Some(Test::Below(text)) => Some(format!("{text}/")),
        _ => None,
    };
    let is_here = within.is_some_and(|start| {
        let rest = regex.trim_start_matches('^').strip_prefix(&start);
        rest.is_some_and(|rest| matches!(rest, "(.*)" | "(.*)$" | "" | ".*"))
    });
    let cond = (!is_all && !is_here).then(|| Cond::new(Key::Path, Test::Search(regex.clone())));
    if let Some(status) = redirects(&to, flag) {
        let cond = (!is_all).then(|| Cond::new(Key::Path, Test::Search(regex.clone())));
        let mut table = redirect(&regex, &to, status, is_all, state, port)?;
        if let Some(Test::OneOf(paths)) = state.matching.find(&Key::Path) {
            fill(&mut table, &regex, &paths[0]);
        }
        return Ok((cond, Outcome::Redirect(table)));
    }
    Ok((cond, Outcome::Path(changed(&regex, &to, flag == "break", is_all, state)?)))
}

/// Status of the redirect that a target or a flag asks for.
fn redirects(to: &str, flag: &str) -> Option<u64> {
    let is_url = ["http://", "https://", "$scheme"].iter().any(|start| to.starts_with(start));
    match flag {
        "permanent" => Some(301),
        "redirect" => Some(302),
        _ => is_url.then_some(302),
    }
}

/// True if the location of the new path is searched.
pub(in crate::nginx) fn searches(directive: &Directive) -> bool {
    directive.word(3) != "break" && redirects(directive.word(2), directive.word(3)).is_none()
}

/// Outcome for a path that a rewrite made before.
fn again(
    regex: &str,
    directive: &Directive,
    before: &Changed,
    is_all: bool,
    state: &State<'_>,
    port: u16,
) -> Result<Outcome, String> {
    let (to, flag) = (directive.word(2), directive.word(3));
    let matches = match &before.fixed {
        _ if is_all => Some(true),
        Some(path) => finds(regex, path),
        None if may_match_text(regex, &before.start) => None,
        None => Some(false),
    };
    let to = match (&before.fixed, matches) {
        (_, Some(false)) => return Ok(Outcome::Never),
        (Some(path), Some(true)) if !path.contains(['$', '{']) => {
            let groups = (1..10).fold(to.to_string(), |to, n| to.replace(&format!("${n}"), &format!("{{{n}}}")));
            filled(&groups, regex, path)
        }
        (None, Some(true)) if !to.contains('$') => to.to_string(),
        _ => return Err("another rewrite changed the path before".into()),
    };
    if state.scope.is_query_changed {
        return Err(variable::OTHER_QUERY.into());
    }
    match redirects(&to, flag) {
        Some(status) => Ok(Outcome::Redirect(redirect(regex, &to, status, true, state, port)?)),
        None => Ok(Outcome::Path(changed(".*", &to, flag == "break", true, state)?)),
    }
}

/// Fills the groups of an expression into a redirect for a fixed path.
pub(in crate::nginx) fn fill(to: &mut Draft<Redirect>, regex: &str, path: &str) {
    for key in [key!("path"), key!("to")] {
        if let Some(text) = to.text(key).map(|text| filled(text, regex, path)) {
            to.put(key, text);
        }
    }
}

/// True if a text refers to groups of an expression.
fn has_group(text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| pair[0] == b'$' && pair[1].is_ascii_digit())
}

fn redirect(
    regex: &str,
    to: &str,
    status: u64,
    is_all: bool,
    state: &State<'_>,
    port: u16,
) -> Result<Draft<Redirect>, String> {
    let has_other =
        state.matching.conds.iter().any(|cond| {
            cond.key == Key::Path && !cond.negated && matches!(cond.test, Test::Search(_) | Test::Regex(_))
        });
    if has_group(to) && has_other && !is_all {
        return Err("its groups are those of a second expression".into());
    }
    let mut scope = state.scope.clone();
    if !is_all {
        scope.groups = super::state::groups(regex);
    }
    // The query follows unless the target ends with a question mark.
    let (to, keeps) = match to.strip_suffix('?') {
        Some(to) => (to.to_string(), false),
        None if to.contains('?') => return Err("its target has a query, which that of the request follows".into()),
        None => (to.to_string(), true),
    };
    let to = if keeps { format!("{to}$is_args$args") } else { to };
    if to == "https://$host$uri$is_args$args" {
        return Ok(Draft::one(key!("status"), status).with(key!("scheme"), "https"));
    }
    answer::redirect(&to, status, &scope, &state.levels, port)
}

fn changed(regex: &str, to: &str, is_break: bool, is_all: bool, state: &State<'_>) -> Result<Changed, String> {
    let expanded = state.scope.expanded(to);
    let (path, query) = expanded.split_once('?').map_or((&*expanded, None), |(path, query)| (path, Some(query)));
    if !path.starts_with('/') {
        return Err("its target does not begin with a slash".into());
    }
    let start = path.split('$').next().unwrap_or_default().to_string();
    let is_fixed = !path.contains('$');
    if is_fixed && query.is_none() {
        let keys = Draft::one(key!("path"), braced(path));
        return Ok(Changed { keys, start, fixed: Some(path.to_string()), is_break, is_pending: false });
    }
    // The expression here has the groups.
    let mut text = String::new();
    let mut rest = expanded.as_str();
    while let Some(at) = rest.find("${") {
        text.push_str(&braced(&rest[..at]));
        let (name, after) = rest[at + 2..].split_once('}').unwrap_or((&rest[at + 2..], ""));
        let is_group = name.bytes().all(|b| b.is_ascii_digit()) || regex.contains(&format!("(?P<{name}>"));
        match is_group {
            true => text.push_str(&format!("{{{name}}}")),
            false => match variable::read(&format!("${{{name}}}"), &state.scope)? {
                // A group of the location's expression, which the route has.
                of if of.starts_with("{path.") => text.push_str(&of),
                of => return Err(format!("its target has the variable {of}")),
            },
        }
        rest = after;
    }
    text.push_str(&braced(rest));
    let regex = if is_all && !has_group(to) { ".*".to_string() } else { whole(regex, false) };
    let keys = Draft::one(key!("regex"), regex).with(key!("to"), text);
    Ok(Changed { keys, start, fixed: is_fixed.then(|| path.to_string()), is_break, is_pending: false })
}

impl Changed {
    /// The location that takes the new path, `None` if there is none.
    ///
    /// # Errors
    /// Reason why it is not known.
    pub fn location<'t, 'd>(&self, tree: &'t Tree<'d>) -> Result<Option<&'t Location<'d>>, String> {
        match &self.fixed {
            Some(path) => find(&tree.top, path, true),
            None => find(&tree.top, &self.start, false),
        }
    }
}

/// The location of a path, or of all paths that begin with a text.
///
/// # Errors
/// Reason why it is not known.
pub(in crate::nginx) fn find<'t, 'd>(
    level: &'t Level<'d>,
    path: &str,
    is_whole: bool,
) -> Result<Option<&'t Location<'d>>, String> {
    let unknown = |location: &Location<'_>| {
        Err(format!(
            "whether the new path is one of `location {}` depends on the request",
            location.directive.from(1).join(" ")
        ))
    };
    if is_whole && let Some(exact) = level.exact.iter().find(|location| location.pattern == path) {
        return Ok(Some(exact));
    }
    let longer = |location: &&Location<'_>| location.pattern.len() > path.len() && location.pattern.starts_with(path);
    if !is_whole {
        let exact = level.exact.iter().find(|location| location.pattern.starts_with(path));
        if let Some(location) = exact.or_else(|| level.prefixes.iter().find(longer)) {
            return unknown(location);
        }
    }
    let found = level.prefixes.iter().find(|location| path.starts_with(location.pattern));
    if let Some(inner) = found {
        let nested = find(&inner.inner, path, is_whole)?;
        if nested.is_some() {
            return Ok(nested);
        }
    }
    if found.is_some_and(|location| location.modifier == "^~") {
        return Ok(found);
    }
    for regex in &level.regexes {
        if is_whole {
            let case = if regex.modifier == "~*" { "(?i)" } else { "" };
            match written(regex.pattern).ok().and_then(|regex| finds(&format!("{case}{regex}"), path)) {
                Some(true) => return Ok(find(&regex.inner, path, true)?.or(Some(regex))),
                Some(false) => continue,
                None => {}
            }
        }
        if may_match(regex, path) {
            return unknown(regex);
        }
    }
    Ok(found)
}

//! The state of requests on a way through rules: their conditions, and the path that a rewrite made.

use crate::expression::{finds, whole};
use crate::model::{Apart, Cond, Draft, Key, Match, Test};
use crate::nginx::lexer::Directive;
use crate::nginx::tree;
use crate::nginx::variable::Scope;
use evenkeel_config::plan::Rewrite;

/// Conditions and settings on a way through rules.
#[derive(Clone)]
pub(in crate::nginx) struct State<'d> {
    pub matching: Match,
    pub levels: Vec<&'d [Directive]>,
    pub scope: Scope,
    /// Path that a rewrite made.
    pub changed: Option<Changed>,
    pub jumps: usize,
}

impl State<'_> {
    /// The state in which an error page is made: any location may be entered.
    pub fn of_page(mut scope: Scope) -> State<'static> {
        scope.groups = 0;
        State { matching: Match::default(), levels: Vec::new(), scope, changed: None, jumps: 1 }
    }
}

/// Path that a rewrite makes.
#[derive(Clone, Debug)]
pub(in crate::nginx) struct Changed {
    pub keys: Draft<Rewrite>,
    /// Text with which the new path begins.
    pub start: String,
    /// The new path, if it is the same for all requests.
    pub fixed: Option<String>,
    /// True if the request stays in its location.
    pub is_break: bool,
    /// True if the location of the new path is searched behind the rules.
    pub is_pending: bool,
}

/// Number of groups of an expression. The whole counts as a group.
pub(in crate::nginx) fn groups(regex: &str) -> usize {
    let escaped = regex.replace("\\\\", "").replace("\\(", "");
    let all = escaped.matches('(').count();
    let plain = escaped.matches("(?").count() - escaped.matches("(?<").count() - escaped.matches("(?P<").count();
    all - plain + 1
}

/// Joins conditions with others. Where a key is needed twice, a map compares the second value.
pub(in crate::nginx) fn join(to: &Match, conds: &[Cond], scope: &Scope) -> Result<Match, Apart> {
    let mut all = to.clone();
    for cond in conds {
        // A fixed path matches an expression or not.
        if let (Some(Test::OneOf(paths)), Key::Path, Test::Search(regex)) =
            (all.find(&Key::Path), &cond.key, &cond.test)
            && let ([_], Some(found)) = (&paths[..], finds(regex, paths.first().map_or("", String::as_str)))
        {
            match found != cond.negated {
                true => continue,
                false => return Err(Apart::Never),
            }
        }
        // Most expressions have a fixed beginning, by which they are apart from other paths.
        let from_left = [all.find(&Key::Path).cloned(), Some(cond.test.clone()).filter(|_| cond.key == Key::Path)];
        let starts = from_left.iter().flatten().find_map(|test| match test {
            Test::Begins(text) | Test::Below(text) => Some(text.as_str()),
            _ => None,
        });
        let is_search = |cond: &&Cond| cond.key == Key::Path && matches!(cond.test, Test::Search(_));
        let searches: Vec<Cond> = all.conds.iter().chain([cond]).filter(is_search).cloned().collect();
        for search in &searches {
            if let (Some(start), Test::Search(regex)) = (starts, &search.test)
                && !search.negated
                && !tree::may_match_text(regex, start)
            {
                return Err(Apart::Never);
            }
        }
        if let (Key::Path, Test::OneOf(paths), false) = (&cond.key, &cond.test, cond.negated) {
            let path = paths.first().map_or("", String::as_str);
            let mut is_never = false;
            all.conds.retain(|other| match (&other.key, &other.test) {
                (Key::Path, Test::Search(regex)) => {
                    let found = finds(regex, path);
                    is_never |= found == Some(other.negated);
                    found.is_none()
                }
                _ => true,
            });
            if is_never {
                return Err(Apart::Never);
            }
        }
        let one = |cond: Cond| all.and(&Match::of([cond]));
        all = match one(cond.clone()) {
            Err(Apart::Unwritable) => match (&cond.key, &cond.test, cond.negated) {
                (Key::Path, Test::Search(regex), false) => {
                    let (regex, is_lax) = regex.strip_prefix("(?i)").map_or((&**regex, false), |regex| (regex, true));
                    one(Cond::new(Key::Path, Test::Regex(whole(regex, is_lax))))
                }
                _ => one(scope.tables.tests.instead(cond).ok_or(Apart::Unwritable)?),
            },
            joined => joined,
        }?;
    }
    Ok(all)
}

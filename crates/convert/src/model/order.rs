//! Order of rules: others take the first rule that holds, evenkeel the most specific. Where the two differ, a route
//! gets the negated conditions of the earlier route. If they cannot be negated, the difference is returned.

use super::matching::{Cond, Key, Match, Test};
use super::{Route, Value};
use crate::ledger::Line;
use std::cmp::Ordering;

/// Most routes in a group for a comparison. A larger group is only reported.
const COMPARED: usize = 400;

/// Two routes whose order the output cannot keep, or a route that the original never reaches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Clash {
    /// The later rule wins here, the earlier rule in the original.
    Differs { earlier: Line, later: Line },
    /// The later rule is never reached in the original and was left out.
    Unreachable { earlier: Line, later: Line },
    /// There are too many rules to compare.
    TooMany { first: Line },
}

/// Makes routes that stand in the original's order behave in that order here.
pub(crate) fn settle_order(routes: &mut Vec<Route>) -> Vec<Clash> {
    let mut clashes = Vec::new();
    if routes.len() > COMPARED {
        clashes.push(Clash::TooMany { first: routes[0].line });
        return clashes;
    }
    let mut kept: Vec<Route> = Vec::new();
    for later in routes.drain(..) {
        let mut joined = Vec::new();
        let later = behind(later, &kept, 0, &mut joined, &mut clashes);
        kept.extend(joined.into_iter().chain(later));
    }
    // A rule that is reached in part is not left out.
    let is_kept = |line: &Line| kept.iter().any(|route| route.line == *line);
    clashes.retain(|clash| !matches!(clash, Clash::Unreachable { later, .. } if is_kept(later)));
    number(&mut kept);
    *routes = kept;
    clashes
}

/// A match without what it excludes.
fn wanted(matching: &Match) -> Match {
    Match::of(matching.conds.iter().filter(|cond| !cond.negated).cloned())
}

/// Numbers routes that are equal in all other criteria, as joined routes may be.
fn number(routes: &mut [Route]) {
    for at in 1..routes.len() {
        let (before, rest) = routes.split_at_mut(at);
        let later = &mut rest[0];
        let is_tie = |earlier: &&Route| {
            // `check` does not see what `not` keeps apart.
            compare(&earlier.matching, &later.matching) == Ordering::Equal
                && !wanted(&earlier.matching).is_apart(&wanted(&later.matching))
        };
        let least = before.iter().filter(is_tie).map(|earlier| order_of(earlier) + 1).max();
        if let Some(least) = least.filter(|least| order_of(later) < *least) {
            later.set.put(key!("order"), least);
        }
    }
}

/// Deepest recursion: how often a joined route is itself joined with an earlier route.
const JOINED: usize = 3;

/// Returns the route narrowed to fit behind the routes before it; `None` if it is never reached. Where a condition
/// cannot be excluded, `joined` gets a route with the conditions of both and the action of the earlier route.
fn behind(
    mut later: Route,
    before: &[Route],
    depth: usize,
    joined: &mut Vec<Route>,
    clashes: &mut Vec<Clash>,
) -> Option<Route> {
    // A condition that is added may make it win over a rule that it did not win over, so it is compared anew.
    let mut at = 0;
    let mut reported = Vec::new();
    while let Some(earlier) = before.get(at) {
        at += 1;
        let is_same = later.action == earlier.action && same_keys(&later, earlier);
        if later.matching.is_apart(&earlier.matching) {
            continue;
        }
        if later.matching.implies(&earlier.matching) {
            if !is_same {
                clashes.push(Clash::Unreachable { earlier: earlier.line, later: later.line });
            }
            return None;
        }
        let order = compare(&later.matching, &earlier.matching);
        // If two routes do the same, either may win. But equal matches are an error.
        if order == Ordering::Less || is_same && order == Ordering::Greater {
            continue;
        }
        if order == Ordering::Equal {
            let number = order_of(earlier) + 1;
            if order_of(&later) < number {
                later.set.put(key!("order"), number);
            }
            continue;
        }
        let excluded = match later.matching.beyond(&earlier.matching).as_slice() {
            [one] if one.key != Key::Listener => later.matching.and(&Match::of([one.clone().negate()])).ok(),
            _ => None,
        };
        match excluded {
            Some(narrower) => {
                later.matching = narrower;
                at = 0;
            }
            None if reported.contains(&(at - 1)) => {}
            None => {
                reported.push(at - 1);
                let both = earlier.matching.and(&later.matching).ok();
                match both.filter(|both| depth < JOINED && compare(both, &later.matching) == Ordering::Greater) {
                    Some(matching) => {
                        let route = Route { matching, ..earlier.clone() };
                        let route = behind(route, &before[..at - 1], depth + 1, joined, clashes);
                        let is_new = |route: &Route| joined.iter().all(|other| other.matching != route.matching);
                        let route = route.filter(is_new);
                        joined.extend(route);
                    }
                    None => clashes.push(Clash::Differs { earlier: earlier.line, later: later.line }),
                }
            }
        }
    }
    Some(later)
}

/// Number that decides between routes that are equal otherwise.
fn order_of(route: &Route) -> u64 {
    if let Some(Value::Int(number)) = route.set.get(key!("order")) { *number } else { 0 }
}

/// True if two routes have the same filters.
fn same_keys(a: &Route, b: &Route) -> bool {
    let plain = |route: &Route| {
        let mut set = route.set.clone();
        set.remove(key!("order"));
        set
    };
    a.set == b.set || plain(a) == plain(b)
}

/// Compares two matches by evenkeel's precedence. The greater match wins.
fn compare(a: &Match, b: &Match) -> Ordering {
    host(a).cmp(&host(b)).then_with(|| path(a).cmp(&path(b))).then_with(|| rest(a).cmp(&rest(b)))
}

fn host(m: &Match) -> (u8, usize) {
    match m.find(&Key::Host) {
        Some(Test::OneOf(hosts)) => {
            let longest = hosts.iter().map(|host| (u8::from(!host.starts_with('*')) + 1, host.len())).max();
            let (class, length) = longest.unwrap_or_default();
            // Exact hosts are equal to each other, whatever their length.
            (class, if class == 2 { 0 } else { length })
        }
        _ => (0, 0),
    }
}

/// Rank of the condition that reads the path from its left, of the text at its end, and of an expression.
fn path(m: &Match) -> (u8, usize, u8, usize, usize) {
    let mut rank = (0, 0, 0, 0, 0);
    for cond in m.conds.iter().filter(|cond| cond.key == Key::Path && !cond.negated) {
        match &cond.test {
            Test::OneOf(paths) => (rank.0, rank.1) = (2, paths.first().map_or(0, String::len)),
            Test::Below(path) => (rank.0, rank.1, rank.2) = (1, path.len(), 1),
            Test::Begins(text) => (rank.0, rank.1) = (1, text.len()),
            Test::Ends(text) => rank.3 = text.len(),
            Test::Contains(_) | Test::Regex(_) | Test::Search(_) | Test::Present => rank.4 += 1,
        }
    }
    rank
}

fn rest(m: &Match) -> (bool, [usize; 4], bool, bool, usize, bool) {
    let has = |key: &Key| m.find(key).is_some();
    let count = |of: fn(&Cond) -> bool| m.conds.iter().filter(|cond| !cond.negated && of(cond)).count();
    (
        has(&Key::Method),
        [
            count(|cond| matches!(cond.key, Key::Header(_))),
            count(|cond| matches!(cond.key, Key::Query(_))),
            count(|cond| matches!(cond.key, Key::Cookie(_))),
            count(|cond| matches!(cond.key, Key::Map(_))),
        ],
        has(&Key::Client),
        has(&Key::Scheme),
        m.excluded_kinds(),
        has(&Key::Listener),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::model::{Action, Draft};

    fn routes(conds: &[Vec<Cond>]) -> Vec<Route> {
        let mut ledger = Ledger::default();
        let file = "a".into();
        let each = conds.iter().enumerate().map(|(n, conds)| Route {
            name: n.to_string(),
            comments: Vec::new(),
            matching: Match::of(conds.clone()),
            action: Action::Pool(n.to_string()),
            set: Draft::default(),
            line: ledger.open(&file, n + 1, "x"),
        });
        each.collect()
    }

    fn path(test: Test) -> Cond {
        Cond::new(Key::Path, test)
    }

    #[test]
    fn a_later_rule_that_would_win_here_excludes_the_earlier_one() {
        let php = path(Test::Ends(".php".into()));
        let mut all = routes(&[vec![php.clone()], vec![path(Test::Below("/api".into()))], vec![]]);
        assert_eq!(settle_order(&mut all), []);
        assert!(all[1].matching.conds.contains(&php.negate()));
        assert_eq!(all[2].matching.conds.len(), 0);
    }

    #[test]
    fn a_rule_below_an_earlier_one_is_never_reached() {
        let mut all = routes(&[vec![path(Test::Begins("/a".into()))], vec![path(Test::Begins("/a/b".into()))]]);
        let (earlier, later) = (all[0].line, all[1].line);
        assert_eq!(settle_order(&mut all), [Clash::Unreachable { earlier, later }]);
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn what_cannot_be_excluded_is_joined_or_returned() {
        let header = |name: &str| Cond::new(Key::Header(name.into()), Test::Present);
        let mut all = routes(&[vec![header("A"), header("B")], vec![header("C"), header("D"), header("E")]]);
        assert_eq!(settle_order(&mut all), []);
        // The middle route has the conditions of both, and the action of the first.
        assert_eq!((all.len(), all[1].matching.conds.len(), &*all[1].name), (3, 5, "0"));
        let regex = |text: &str| path(Test::Regex(text.into()));
        let mut all = routes(&[vec![regex("a"), header("A")], vec![regex("b"), header("B"), header("C")]]);
        let (earlier, later) = (all[0].line, all[1].line);
        assert_eq!(settle_order(&mut all), [Clash::Differs { earlier, later }]);
    }
}

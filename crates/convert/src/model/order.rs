//! Order of rules: others take the first rule that holds, evenkeel the most specific. Where the two differ, a route
//! gets the negated conditions of the earlier route. If they cannot be negated, the difference is returned.

use super::Route;
use super::maps::Maps;
use super::matching::{Apart, Cond, Key, Match, Test};
use crate::ledger::Line;
use std::cmp::Ordering;

/// Most routes in a group for a comparison. A larger group is only reported.
const COMPARED: usize = 400;

/// Most comparisons of the routes of a larger group with its refusals.
const COMPARISONS: usize = 4_000_000;

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

/// Makes routes that stand in the original's order behave in that order here. Conditions that cannot stand beside others
/// become maps, if there are any. Of too many routes, only the first that refuse requests are kept in front of the others.
pub(crate) fn settle_order(
    routes: &mut Vec<Route>,
    maps: Option<&Maps>,
    refuses: &dyn Fn(&Route) -> bool,
) -> Vec<Clash> {
    let mut clashes = Vec::new();
    let too_many = routes.len() > COMPARED;
    if too_many {
        clashes.push(Clash::TooMany { first: routes[0].line });
    }
    let most = COMPARISONS / routes.len().max(1);
    let mut kept: Vec<Route> = Vec::new();
    let mut compared: Vec<Route> = Vec::new();
    for later in routes.drain(..) {
        let mut joined = Vec::new();
        let before = if too_many { &compared } else { &kept };
        let later = behind(later, before, 0, &mut joined, maps, &mut clashes);
        let new = joined.into_iter().chain(later);
        if too_many {
            let new: Vec<Route> = new.collect();
            let room = most - compared.len();
            compared.extend(new.iter().filter(|route| refuses(route)).take(room).cloned());
            kept.extend(new);
        } else {
            kept.extend(new);
        }
    }
    if too_many {
        *routes = kept;
        return clashes;
    }
    // A rule that is reached in part is not left out.
    let is_kept = |line: &Line| kept.iter().any(|route| route.line == *line);
    clashes.retain(|clash| !matches!(clash, Clash::Unreachable { later, .. } if is_kept(later)));
    drop_exclusions(&mut kept);
    break_ties(&mut kept);
    *routes = kept;
    clashes
}

/// Removes exclusions without which the same routes win, by their order where they are equally specific.
fn drop_exclusions(routes: &mut [Route]) {
    for at in 0..routes.len() {
        let mut number = 0;
        while number < routes[at].matching.conds.len() {
            let mut wider = routes[at].matching.clone();
            let cond = wider.conds.remove(number);
            match cond.negated && is_needless(routes, at, &wider, cond) {
                true => routes[at].matching = wider,
                false => number += 1,
            }
        }
    }
}

/// True if the same routes win where a route has a wider match, without this exclusion.
fn is_needless(routes: &[Route], at: usize, wider: &Match, exclusion: Cond) -> bool {
    let ours = &routes[at].matching;
    let wins = |with: &Match, other: usize| match compare(with, &routes[other].matching) {
        Ordering::Equal => at < other,
        order => order == Ordering::Greater,
    };
    let others = || (0..routes.len()).filter(|other| *other != at);
    let is_kept = |other: usize| routes[other].matching.is_apart(ours) || wins(ours, other) == wins(wider, other);
    let has_more = match wider.and(&Match::of([exclusion.negate()])) {
        Ok(more) => !others().any(|other| more.implies(&routes[other].matching) && !wins(wider, other)),
        Err(Apart::Never) => false,
        Err(Apart::Unwritable) => true,
    };
    !has_more && others().all(is_kept)
}

/// Numbers routes that are as specific as an earlier route, so that the earlier route wins.
pub(crate) fn break_ties(routes: &mut [Route]) {
    let mut orders: Vec<u64> = Vec::new();
    let ranks: Vec<_> = routes.iter().map(|route| (path(&route.matching), rest(&route.matching))).collect();
    let wanted: Vec<Match> = routes.iter().map(|route| wanted(&route.matching)).collect();
    for at in 0..routes.len() {
        let is_tied = |before: &usize| {
            let (ours, theirs) = (&wanted[*before], &wanted[at]);
            // That whole paths written as expressions are apart does not show.
            let is_hidden = |m: &Match| m.only_path().is_none() && m.find(&Key::Path).is_some();
            let is_apart = ours.is_apart(theirs) && !(is_hidden(ours) && is_hidden(theirs));
            ranks[*before] == ranks[at] && share_a_host(ours, theirs) && !is_apart
        };
        let order = (0..at).filter(is_tied).map(|before| orders[before] + 1).max().unwrap_or(0);
        orders.push(order);
        if order > 0 {
            routes[at].set.put(key!("order"), order);
        }
    }
}

/// The match without the conditions under `not`, where `check` does not see in each case that two routes exclude each other.
fn wanted(matching: &Match) -> Match {
    Match::of(matching.conds.iter().filter(|cond| !cond.negated).cloned())
}

/// True if both are looked up for the same host, or for all hosts.
fn share_a_host(a: &Match, b: &Match) -> bool {
    match (a.find(&Key::Host), b.find(&Key::Host)) {
        (Some(Test::OneOf(a)), Some(Test::OneOf(b))) => a.iter().any(|host| b.contains(host)),
        (None, None) => true,
        _ => false,
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
    maps: Option<&Maps>,
    clashes: &mut Vec<Clash>,
) -> Option<Route> {
    // A condition that is added may make it win over a rule that it did not win over, so it is compared anew.
    let mut at = 0;
    let mut reported = Vec::new();
    while let Some(earlier) = before.get(at) {
        at += 1;
        let is_same = later.action == earlier.action && later.set == earlier.set;
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
        // If two routes do the same, either may win. `order` decides between equally specific routes.
        if order != Ordering::Greater || is_same {
            continue;
        }
        let excluded = match later.matching.beyond(&earlier.matching).as_slice() {
            [one] if one.key != Key::Listener => later.matching.and(&Match::of([one.clone().negate()])).ok(),
            _ => None,
        };
        match excluded {
            Some(narrower) if narrower != later.matching => {
                later.matching = narrower;
                // It may win over rules now that it did not win over before.
                at = 0;
                reported.clear();
            }
            _ if reported.contains(&(at - 1)) => {}
            _ => {
                reported.push(at - 1);
                let (ours, theirs) = (&earlier.matching, &later.matching);
                let both = maps.map_or_else(|| ours.and(theirs), |maps| maps.both(ours, theirs)).ok();
                match both.filter(|both| depth < JOINED && compare(both, &later.matching) != Ordering::Less) {
                    Some(matching) => {
                        let route = Route { matching, ..earlier.clone() };
                        let route = behind(route, &before[..at - 1], depth + 1, joined, maps, clashes);
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
fn path(m: &Match) -> (u8, usize, usize, usize) {
    let mut rank = (0, 0, 0, 0);
    for cond in m.conds.iter().filter(|cond| cond.key == Key::Path && !cond.negated) {
        match &cond.test {
            // Beside another condition it is written as an expression.
            Test::OneOf(_) if m.only_path().is_none() => rank.3 += 1,
            Test::OneOf(paths) => (rank.0, rank.1) = (2, paths.first().map_or(0, String::len)),
            // `prefix = "/x"` and `starts_with = "/x/"` are equal for paths below `/x/`.
            Test::Below(path) => (rank.0, rank.1) = (1, path.len() + 1),
            Test::Begins(text) => (rank.0, rank.1) = (1, text.len()),
            Test::Ends(text) => rank.2 = text.len(),
            Test::Contains(_) | Test::Regex(_) | Test::Search(_) | Test::Present => rank.3 += 1,
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
        assert_eq!(settle_order(&mut all, None, &|_| false), []);
        assert!(all[1].matching.conds.contains(&php.negate()));
        assert_eq!(all[2].matching.conds.len(), 0);
    }

    #[test]
    fn a_prefix_and_text_with_its_slash_are_equally_specific() {
        let header = |name: &str| Cond::new(Key::Header(name.into()), Test::Present);
        let mut all = routes(&[
            vec![path(Test::Below("/a".into())), header("A")],
            vec![path(Test::Begins("/a/".into())), header("B")],
            vec![path(Test::Begins("/a".into())), header("C")],
        ]);
        assert_eq!(settle_order(&mut all, None, &|_| false), []);
        assert_eq!(all.iter().map(|route| route.set.has(key!("order"))).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn a_rule_below_an_earlier_one_is_never_reached() {
        let mut all = routes(&[vec![path(Test::Begins("/a".into()))], vec![path(Test::Begins("/a/b".into()))]]);
        let (earlier, later) = (all[0].line, all[1].line);
        assert_eq!(settle_order(&mut all, None, &|_| false), [Clash::Unreachable { earlier, later }]);
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn exclusions_that_the_order_makes_needless_go() {
        let begins = |text: &str| path(Test::Begins(text.into()));
        let ends = |text: &str| path(Test::Ends(text.into()));
        let methods = |names: &[&str]| Cond::one_of(Key::Method, names.iter().copied());
        let settled = |conds: &[Vec<Cond>]| {
            let mut all = routes(conds);
            assert_eq!(settle_order(&mut all, None, &|_| false), []);
            all.into_iter()
                .map(|route| (route.matching.excluded_kinds(), route.set.has(key!("order"))))
                .collect::<Vec<_>>()
        };
        // The longer text wins.
        assert_eq!(settled(&[vec![begins("/a/b")], vec![begins("/a"), begins("/a/b").negate()]])[1], (0, false));
        // No path ends with both.
        assert_eq!(settled(&[vec![ends(".css"), ends(".js").negate()]]), [(0, false)]);
        // The first of two that are equally specific wins.
        let (get, both) = (methods(&["GET"]), methods(&["GET", "HEAD"]));
        assert_eq!(settled(&[vec![get.clone()], vec![both, get.clone().negate()]])[1], (0, true));
        // It would win over the method, or take requests that nothing else takes.
        assert_eq!(settled(&[vec![get.clone()], vec![begins("/c"), get.clone().negate()]])[1], (1, false));
        assert_eq!(settled(&[vec![begins("/c"), get.negate()]])[0], (1, false));
    }

    #[test]
    fn what_cannot_be_excluded_is_joined_or_returned() {
        let header = |name: &str| Cond::new(Key::Header(name.into()), Test::Present);
        let mut all = routes(&[vec![header("A"), header("B")], vec![header("C"), header("D"), header("E")]]);
        assert_eq!(settle_order(&mut all, None, &|_| false), []);
        // The middle route has the conditions of both, and the action of the first.
        assert_eq!((all.len(), all[1].matching.conds.len(), &*all[1].name), (3, 5, "0"));
        let regex = |text: &str| path(Test::Regex(text.into()));
        let mut all = routes(&[vec![regex("a"), header("A")], vec![regex("b"), header("B"), header("C")]]);
        let (earlier, later) = (all[0].line, all[1].line);
        assert_eq!(settle_order(&mut all, None, &|_| false), [Clash::Differs { earlier, later }]);
    }
}

//! Rules about requests, made of conditions by `and`, `or` and `not`, as alternatives of matches. See [`Rule::matches`].

use evenkeel_config::plan::{Criteria, Match, PathPattern};
use evenkeel_envoy::pairs::{are_apart, both, takes_all, whole};
use evenkeel_envoy::values::escaped;

/// Alternatives of a rule, at most.
const MATCHES_MAX: usize = 64;

/// A condition, or conditions joined by `and`, `or` and `not`.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    Always(bool),
    /// Match with no more than one condition, which can be inverted.
    Is(Box<Match>),
    /// A condition that no match can have, with the reason.
    Unknown(String),
    All(Vec<Rule>),
    Any(Vec<Rule>),
    Not(Box<Rule>),
}

impl Rule {
    /// The rule of all conditions of a match.
    pub fn of(matching: &Match) -> Rule {
        let conditions = |criteria: &Criteria| -> Vec<Rule> {
            let unset = Criteria::default;
            let mut all = Vec::new();
            let mut is = |is_set: bool, criteria: Criteria| {
                if is_set {
                    all.push(Rule::Is(Box::new(Match { criteria, ..Match::all() })));
                }
            };
            let Criteria { regex, search, methods, headers, clients, scheme, .. } = criteria;
            is(regex.is_some(), Criteria { regex: regex.clone(), ..unset() });
            is(search.is_some(), Criteria { search: search.clone(), ..unset() });
            is(!methods.is_empty(), Criteria { methods: methods.clone(), ..unset() });
            is(!clients.is_empty(), Criteria { clients: clients.clone(), ..unset() });
            is(scheme.is_some(), Criteria { scheme: *scheme, ..unset() });
            for header in headers {
                is(true, Criteria { headers: vec![header.clone()], ..unset() });
            }
            all
        };
        let mut all = conditions(&matching.criteria);
        all.extend(conditions(&matching.not).into_iter().map(|rule| Rule::Not(Box::new(rule))));
        if matching.path != PathPattern::Any {
            all.push(Rule::Is(Box::new(Match { path: matching.path.clone(), ..Match::all() })));
        }
        Rule::All(all)
    }

    /// Matches that take all requests that the rule is about, in `one` of which each of them is. They take more where
    /// the rule has parts that no match can have: the reasons are added to `why`.
    pub fn matches(&self, why: &mut Vec<String>) -> Vec<Match> {
        let mut all = self.alternatives(false, why);
        if all.len() > MATCHES_MAX {
            why.push("the rule has too many alternatives".to_owned());
            return vec![Match::all()];
        }
        let mut kept: Vec<Match> = Vec::new();
        while let Some(one) = all.pop() {
            if !all.iter().chain(&kept).any(|other| takes_all(other, &one)) {
                kept.push(one);
            }
        }
        kept.reverse();
        kept
    }

    fn alternatives(&self, negated: bool, why: &mut Vec<String>) -> Vec<Match> {
        match self {
            Rule::Always(is) if *is != negated => vec![Match::all()],
            Rule::Always(_) => Vec::new(),
            Rule::Unknown(reason) => {
                if !why.contains(reason) {
                    why.push(reason.clone());
                }
                vec![Match::all()]
            }
            Rule::Is(matching) => vec![if negated { inverted(matching) } else { (**matching).clone() }],
            Rule::Not(rule) => rule.alternatives(!negated, why),
            Rule::All(rules) if !negated => together(rules, negated, why),
            Rule::Any(rules) if negated => together(rules, negated, why),
            Rule::All(rules) | Rule::Any(rules) => {
                let mut all: Vec<Match> = Vec::new();
                for one in rules.iter().flat_map(|rule| rule.alternatives(negated, why)) {
                    if !all.contains(&one) && all.len() <= MATCHES_MAX {
                        all.push(one);
                    }
                }
                all
            }
        }
    }
}

/// Alternatives of requests that meet all rules.
fn together(rules: &[Rule], negated: bool, why: &mut Vec<String>) -> Vec<Match> {
    let mut all = vec![Match::all()];
    for rule in rules {
        let more = rule.alternatives(negated, why);
        let mut next: Vec<Match> = Vec::new();
        for one in &all {
            for other in more.iter().filter(|other| !are_apart(one, other)) {
                // Without one of the conditions the match takes more.
                let joined = both(one, other).unwrap_or_else(|reason| {
                    why.push(reason);
                    one.clone()
                });
                if !next.contains(&joined) && next.len() <= MATCHES_MAX {
                    next.push(joined);
                }
            }
        }
        all = next;
    }
    all
}

/// The match of requests that do not meet a single condition.
fn inverted(matching: &Match) -> Match {
    let Match { path, criteria, .. } = matching;
    let regex = match path {
        PathPattern::Any => criteria.regex.clone(),
        PathPattern::StartsWith(text) => Some(format!("{}.*", escaped(text)).into()),
        PathPattern::Prefix(text) => Some(format!("{}(?:/.*)?", escaped(text)).into()),
        PathPattern::Pattern(_) => whole(path).map(|text| escaped(&text).into()),
    };
    Match { not: Criteria { regex, ..criteria.clone() }, ..Match::all() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(name: &str) -> Rule {
        let criteria = Criteria { methods: vec![name.into()], ..Criteria::default() };
        Rule::of(&Match { criteria, ..Match::all() })
    }

    fn path(start: &str) -> Rule {
        Rule::of(&Match { path: PathPattern::StartsWith(start.to_owned()), ..Match::all() })
    }

    #[test]
    fn rules_become_alternatives_of_matches() {
        let mut why = Vec::new();
        let rule = Rule::All(vec![Rule::Any(vec![path("/a"), path("/b")]), method("GET")]);
        assert_eq!(rule.matches(&mut why).len(), 2);
        let inverted = Rule::Not(Box::new(rule)).matches(&mut why);
        assert_eq!(inverted.len(), 2);
        assert_eq!(inverted[0].not.regex.as_deref(), Some("(?:\\/a.*)|(?:\\/b.*)"));
        assert_eq!(Rule::All(vec![method("GET"), method("POST")]).matches(&mut why), []);
        assert_eq!(Rule::Any(vec![path("/a"), Rule::Always(true)]).matches(&mut why), [Match::all()]);
        assert!(why.is_empty());
    }

    #[test]
    fn a_part_that_no_match_can_have_makes_the_matches_wider() {
        let (mut why, unknown) = (Vec::new(), Rule::Unknown("no".to_owned()));
        let rule = Rule::All(vec![path("/a"), unknown]);
        assert_eq!(rule.matches(&mut why).len(), 1);
        let inverted = Rule::Not(Box::new(rule)).matches(&mut why);
        assert_eq!((inverted.as_slice(), why.as_slice()), ([Match::all()].as_slice(), ["no".to_owned()].as_slice()));
    }
}

//! Search for the pieces that make a plan impossible, when no error names them: the plan is tried with a part of the suspects
//! at a time, and a part that does not work is halved.
//!
//! About 2 log2(n) tries find a bad piece among n. The work is bounded by [`TRIES_MAX`]: pieces that were not tried by
//! then stay out. These are the last in the order of the suspects.

use super::unwanted::{Impossible, Kept, Key, Suspects, Unwanted};
use std::collections::{HashMap, HashSet};

/// Most tries of a search: enough for two bad pieces among 10,000, and for some seconds.
const TRIES_MAX: usize = 64;

/// Reason for pieces that were not tried.
const NOT_TRIED: &str = "it was not tried: too many pieces make the configuration impossible in ways that cannot be \
    attributed to them; remove those that are named";

/// State of a search between two tries.
pub struct Search {
    /// All suspects, with the running pieces that stay in their place.
    suspects: HashMap<Key, Option<Kept>>,
    /// Suspects that the next try does without.
    held: HashSet<Key>,
    /// Parts to be tried, the next part last.
    untried: Vec<Vec<Key>>,
    /// Part that the current try has beyond those that work; `None` = the first try, which has no suspect.
    trying: Option<Vec<Key>>,
    /// Suspects that do not work, with the reasons.
    found: HashMap<Key, String>,
    tries: usize,
}

/// Result of a try, for the caller of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The plan is to be tried without [`Search::unwanted`].
    Try,
    /// The search is over: the plan without [`Search::unwanted`] works.
    Over,
    /// The plan does not work without the suspects either: they are not to blame.
    Elsewhere,
}

impl Search {
    /// Starts a search; `None` without suspects.
    pub(super) fn of(suspects: Suspects) -> Option<Search> {
        // By kind: a route is tried when the pools and listeners that it needs were.
        let mut untried: Vec<Vec<Key>> = Vec::new();
        for (key, _) in &suspects {
            match untried.last_mut() {
                Some(group) if group[0].0 == key.0 => group.push(key.clone()),
                _ => untried.push(vec![key.clone()]),
            }
        }
        untried.reverse();
        let held = suspects.iter().map(|(key, _)| key.clone()).collect();
        let suspects: HashMap<_, _> = suspects.into_iter().collect();
        let (trying, found) = (None, HashMap::new());
        (!suspects.is_empty()).then_some(Search { suspects, held, untried, trying, found, tries: 0 })
    }

    /// Pieces that the next try leaves out, with those `known` before.
    pub fn unwanted(&self, known: &Unwanted) -> Unwanted {
        let held = self.held.iter().map(|key| (key, NOT_TRIED));
        let found = self.found.iter().map(|(key, why)| (key, &**why));
        let mut all = known.clone();
        for (key, why) in held.chain(found) {
            let instead = || self.suspects.get(key).cloned().flatten();
            all.entry(key.clone()).or_insert_with(|| Impossible { why: why.to_owned(), instead: instead() });
        }
        all
    }

    /// Takes the result of a try, `Err` with the reason.
    pub fn learn(&mut self, result: Result<(), String>) -> Step {
        match (self.trying.take(), result) {
            (None, Err(_)) => return Step::Elsewhere,
            (_, Ok(())) => {}
            (Some(group), Err(why)) if group.len() == 1 => {
                self.found.extend(group.into_iter().map(|key| (key, why.clone())))
            }
            (Some(mut group), Err(_)) => {
                self.held.extend(group.iter().cloned());
                let second = group.split_off(group.len() / 2);
                self.untried.extend([second, group]);
            }
        }
        self.tries += 1;
        let Some(group) = self.untried.pop().filter(|_| self.tries < TRIES_MAX) else { return Step::Over };
        group.iter().for_each(|key| _ = self.held.remove(key));
        self.trying = Some(group);
        Step::Try
    }
}

#[cfg(test)]
mod tests {
    use super::super::origins::Kind;
    use super::*;

    /// Searches among `n` routes, some of them bad. Returns the routes left out, and the number of tries.
    fn search(n: usize, is_bad: impl Fn(usize) -> bool) -> (Vec<usize>, usize) {
        let key = |at: usize| -> Key { (Kind::Route, at.to_string().into()) };
        let mut search = Search::of((0..n).map(|at| (key(at), None)).collect()).expect("there are suspects");
        loop {
            let unwanted = search.unwanted(&Unwanted::new());
            let out = |at: &usize| unwanted.contains_key(&key(*at));
            let works = !(0..n).any(|at| is_bad(at) && !out(&at));
            let result = if works { Ok(()) } else { Err("bad".to_owned()) };
            if search.learn(result) == Step::Over {
                let unwanted = search.unwanted(&Unwanted::new());
                return ((0..n).filter(|at| unwanted.contains_key(&key(*at))).collect(), search.tries);
            }
        }
    }

    #[test]
    fn the_bad_ones_are_found_in_few_tries() {
        assert_eq!(search(1, |_| true), (vec![0], 2));
        assert_eq!(search(7, |_| false).0, [0; 0]);
        for bad in [0, 4999, 9999] {
            let (out, tries) = search(10_000, |at| at == bad);
            assert!(out == [bad] && tries <= 32, "{tries}");
        }
        assert_eq!(search(10_000, |at| at == 17 || at == 8000).0, [17, 8000]);
    }

    #[test]
    fn with_too_many_bad_ones_the_work_ends_and_those_behind_stay_out() {
        let (out, tries) = search(10_000, |at| at % 10 == 9);
        assert!(tries <= TRIES_MAX && (0..10_000).filter(|at| at % 10 == 9).all(|at| out.contains(&at)));
        assert!(!out.contains(&0) && !out.contains(&1), "those in front were tried");
    }

    #[test]
    fn suspects_that_are_not_to_blame_are_not_searched() {
        let mut search = Search::of(vec![((Kind::Pool, "a".into()), None)]).expect("there is a suspect");
        assert_eq!(search.learn(Err("elsewhere".to_owned())), Step::Elsewhere);
        assert!(Search::of(Vec::new()).is_none());
    }
}

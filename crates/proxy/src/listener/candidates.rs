//! Routes with the same host and path, which differ by further criteria. If many compare the same field with whole
//! values, an index by value finds those that a request can match.

use super::route_id::RouteId;
use crate::matching::criteria::{Criteria, Part, each_value};
use crate::peer::sender::{Seen, Sender};
use evenkeel_config::plan::{Expected, Match};
use std::collections::HashMap;

/// Fewest routes that are worth an index.
const INDEXED_MIN: usize = 8;

/// Routes with the same host and path, the most specific first.
#[derive(Debug)]
pub struct Candidates {
    all: Box<[(RouteId, Option<Criteria>)]>,
    index: Option<Index>,
}

/// Positions of candidates by the value that they expect.
#[derive(Debug)]
struct Index {
    part: Part,
    name: Box<str>,
    by_value: HashMap<Box<[u8]>, Vec<usize>>,
    /// Positions of those that expect no whole value here.
    others: Vec<usize>,
}

impl Candidates {
    /// Creates the candidates of these matches, the most specific first.
    pub fn new(matches: &[(RouteId, &Match)], ignore_case: bool) -> Candidates {
        let criteria = |matching: &Match| (!matching.is_plain()).then(|| Criteria::new(matching, ignore_case));
        let all = matches.iter().map(|(route, matching)| (*route, criteria(matching))).collect();
        Candidates { all, index: if matches.len() < INDEXED_MIN { None } else { Index::new(matches) } }
    }

    /// Returns the most specific route that the request matches.
    #[inline]
    pub fn find(&self, seen: &Seen<'_, '_, '_>, sender: &Sender<'_>) -> Option<RouteId> {
        let meets = |at: usize| {
            let (_, criteria) = &self.all[at];
            criteria.as_ref().is_none_or(|criteria| criteria.meets(seen, sender))
        };
        let found = match &self.index {
            None => (0..self.all.len()).find(|at| meets(*at)),
            Some(index) => index.find(seen, sender, meets),
        };
        found.map(|at| self.all[at].0)
    }
}

impl Index {
    fn new(matches: &[(RouteId, &Match)]) -> Option<Index> {
        let mut counts: HashMap<(Part, &str), usize> = HashMap::new();
        for key in matches.iter().flat_map(|(_, matching)| compared(matching)) {
            *counts.entry(key).or_default() += 1;
        }
        let (&(part, name), &count) = counts.iter().max_by_key(|(key, count)| (**count, **key))?;
        if count * 2 < matches.len() {
            return None;
        }
        let mut index = Index { part, name: name.into(), by_value: HashMap::new(), others: Vec::new() };
        for (at, (_, matching)) in matches.iter().enumerate() {
            match values(matching, part).find(|(other, expected)| *other == name && !expected.equal.is_empty()) {
                None => index.others.push(at),
                Some((_, expected)) => {
                    for value in &expected.equal {
                        index.by_value.entry(value.as_bytes().into()).or_default().push(at);
                    }
                }
            }
        }
        Some(index)
    }

    fn find(&self, seen: &Seen<'_, '_, '_>, sender: &Sender<'_>, meets: impl Fn(usize) -> bool) -> Option<usize> {
        let mut best = usize::MAX;
        each_value(self.part, &self.name, seen, sender, |value| {
            let here = self.by_value.get(value).map_or(&[][..], Vec::as_slice);
            best = here.iter().copied().take_while(|at| *at < best).find(|at| meets(*at)).unwrap_or(best);
            false
        });
        let other = self.others.iter().copied().take_while(|at| *at < best).find(|at| meets(*at));
        other.or((best != usize::MAX).then_some(best))
    }
}

/// Values that a match expects, by name.
fn values(matching: &Match, part: Part) -> impl Iterator<Item = (&str, &Expected)> {
    let criteria = &matching.criteria;
    let values = match part {
        Part::Header => &criteria.headers,
        Part::Query => &criteria.query,
        Part::Cookie => &criteria.cookies,
        Part::Map => &criteria.maps,
    };
    values.iter().map(|(name, expected)| (&**name, expected))
}

/// Parts and names that a match compares with whole values.
fn compared(matching: &Match) -> impl Iterator<Item = (Part, &str)> {
    [Part::Header, Part::Query, Part::Cookie, Part::Map].into_iter().flat_map(move |part| {
        values(matching, part).filter(|(_, expected)| !expected.equal.is_empty()).map(move |(name, _)| (part, name))
    })
}

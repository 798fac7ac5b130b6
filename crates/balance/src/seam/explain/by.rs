//! Decision rules of picks, in a form that a program can apply to the candidates alone. Readers of an explanation can
//! follow them, and a test does.

use super::Candidate;
use crate::endpoints::set::Slot;
use std::cmp::Ordering;
use std::fmt;

/// The rule by which a candidate was picked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum By {
    /// The first candidate in the list.
    #[default]
    Order,
    /// The lowest score; among equals the first in the list.
    Lowest,
    /// The lowest score; among equals the candidate that is due, else the first in the list.
    Score,
    /// A comparison in pairs: the next candidate replaces the best so far if, with this request, it would have no
    /// more in flight per weight than that has without it. If neither would win in this way, the candidate that is due
    /// wins, else the first in the list.
    PerWeight,
    /// Compares the first of each class, by place: of those that have less load per weight without this request than
    /// each other candidate would have with it, the candidate that is due.
    Classes,
    /// The first whose score, the requests in flight as a part of the bound, is below 1.
    Below,
    /// The fewest in flight per weight; among equals the lowest score.
    Fewest,
    /// The least load among the candidates that are not hot and whose latencies are within a factor of the lowest. If
    /// no cool candidate has a latency, the least loaded cool candidate, else of all.
    Answers {
        /// Load above which an endpoint is hot.
        hot_above: f64,
        /// Factor of the lowest latency within which latencies count as equal.
        noise: f64,
    },
}

impl By {
    /// Name of the rule, a single word.
    pub fn name(self) -> &'static str {
        match self {
            By::Order => "order",
            By::Lowest => "lowest",
            By::Score => "score",
            By::PerWeight => "per_weight",
            By::Classes => "classes",
            By::Below => "below",
            By::Fewest => "fewest",
            By::Answers { .. } => "answers",
        }
    }

    /// Returns the candidate that the rule picks; `None` if there is none.
    pub fn decide(self, candidates: &[Candidate]) -> Option<Slot> {
        let score = |c: &Candidate| c.score.unwrap_or(f64::INFINITY);
        let picked = match self {
            By::Order => candidates.first(),
            By::Below => candidates.iter().find(|c| score(c) < 1.0),
            By::Lowest => least(candidates, |a, b| score(a).total_cmp(&score(b))),
            By::Score => least(candidates, |a, b| score(a).total_cmp(&score(b)).then(a.ahead.total_cmp(&b.ahead))),
            By::Fewest => least(candidates, |a, b| {
                let load = |c: &Candidate, other: &Candidate| u64::from(c.in_flight) * u64::from(other.weight);
                load(a, b).cmp(&load(b, a)).then(score(a).total_cmp(&score(b)))
            }),
            By::PerWeight => candidates.iter().reduce(less_loaded),
            By::Classes => of_classes(candidates),
            By::Answers { hot_above, noise } => of_answers(candidates, hot_above, noise),
        };
        picked.map(|c| c.slot)
    }
}

/// Least candidate; among equals the first.
fn least(candidates: &[Candidate], by: impl Fn(&Candidate, &Candidate) -> Ordering) -> Option<&Candidate> {
    candidates.iter().min_by(|a, b| by(a, b))
}

fn less_loaded<'c>(best: &'c Candidate, next: &'c Candidate) -> &'c Candidate {
    let (of_best, of_next) = (u64::from(best.weight), u64::from(next.weight));
    let (load_best, load_next) = (u64::from(best.in_flight) * of_next, u64::from(next.in_flight) * of_best);
    let (less, more) = (load_next + of_best <= load_best, load_best + of_next <= load_next);
    if less || (!more && next.ahead < best.ahead) { next } else { best }
}

fn load(c: &Candidate) -> f64 {
    c.load.unwrap_or(f64::from(c.in_flight))
}

fn of_classes(candidates: &[Candidate]) -> Option<&Candidate> {
    let firsts = || candidates.iter().filter(|c| c.place.is_some_and(|(_, place)| place == 0));
    // Products of integers below 2^53, so they are exact.
    let with_one_more = |c: &Candidate, other: &Candidate| (load(c) + 1.0) * f64::from(other.weight);
    let without = |c: &Candidate, other: &Candidate| load(c) * f64::from(other.weight);
    let stays = |c: &&Candidate| firsts().all(|other| with_one_more(other, c) > without(c, other));
    firsts().filter(stays).min_by(|a, b| a.ahead.total_cmp(&b.ahead))
}

fn of_answers(candidates: &[Candidate], hot_above: f64, noise: f64) -> Option<&Candidate> {
    let timed = |c: &&Candidate| load(c) <= hot_above && c.latency_ns > 0;
    let Some(fastest) = candidates.iter().filter(timed).min_by_key(|c| c.latency_ns) else {
        // Endpoints whose latency is unknown count as the fastest.
        let unknown = candidates.iter().filter(|c| load(c) <= hot_above && c.latency_ns == 0);
        let coolest = || candidates.iter().min_by(|a, b| load(a).total_cmp(&load(b)));
        return unknown.min_by(|a, b| load(a).total_cmp(&load(b))).or_else(coolest);
    };
    let equal = |c: &&Candidate| load(c) <= hot_above && c.latency_ns as f64 <= fastest.latency_ns as f64 * noise;
    let better = |best: Candidate, c: &Candidate| if load(c) < load(&best) { *c } else { best };
    let best = candidates.iter().filter(equal).fold(*fastest, better);
    candidates.iter().find(|c| c.slot == best.slot)
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            By::Order => f.write_str("the first listed"),
            By::Lowest => f.write_str("the lowest score; among equals, the first listed"),
            By::Score => f.write_str("the lowest score; among equals, the one that is due, else the first listed"),
            By::PerWeight => f.write_str(
                "fewer in flight per weight, by at least a whole request; otherwise the one that is due, or else the first listed",
            ),
            By::Classes => f.write_str(
                "the first of each weight; of these, the least load per weight by at least a whole request, else the one that is due",
            ),
            By::Below => f.write_str("the first whose score is below 1, which is the bound"),
            By::Fewest => f.write_str("the fewest in flight per weight; among equals, the lowest score"),
            By::Answers { hot_above, noise } => write!(
                f,
                "of those with at most {hot_above} in flight per weight and within {noise} of the lowest latency, the least \
                 load; if none, the least load"
            ),
        }
    }
}

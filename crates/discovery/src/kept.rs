//! What of an answer counts, and when is it asked for again? One list of endpoints, without clock or I/O: a source that
//! fails, or has nothing to say, takes no endpoint away.

use evenkeel_config::plan::Endpoint;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// What a source has to say.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// These endpoints, for so long.
    List(Vec<Endpoint>, Duration),
    /// The last list once more.
    Same,
    /// Nothing more than what it said last, whatever that was.
    Nothing,
    /// It cannot say, and why.
    Failed(String),
}

/// How often a source may be asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// An answer counts for at least so long.
    pub min: Duration,
    /// And for at most so long; never below `min`.
    pub max: Duration,
    /// After one failure; twice as long after each further one.
    pub retry: Duration,
    /// The longest.
    pub retry_max: Duration,
    /// How much longer any of it may be, as a share: those who began together drift apart.
    pub spread: f64,
}

/// What came of answers. The order of the counters.
pub const RESULTS: [&str; 4] = ["changed", "unchanged", "empty", "failed"];

const CHANGED: usize = 0;
const UNCHANGED: usize = 1;
const EMPTY: usize = 2;
const FAILED: usize = 3;

/// What is worth a line in the log.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// The list is another one: the names of those that came, and of those that left. Neither, if endpoints only changed
    /// weight or the like.
    Changed(Vec<Arc<str>>, Vec<Arc<str>>),
    /// There are no endpoints any more, and the last list goes on.
    Emptied,
    /// It fails now, or for another reason.
    Failing(String),
    /// It fails no more, and nothing has changed.
    Recovered,
}

/// The list of one source.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    endpoints: Vec<Endpoint>,
    /// How often there was which of [`RESULTS`].
    pub counts: [u64; RESULTS.len()],
    /// When the list was last known to hold, since 1970.
    pub held_at: Option<Duration>,
    /// In a row.
    failures: u32,
    /// Why the last answer did not count.
    trouble: Option<News>,
    last: Last,
}

/// What the last list was, whatever was said after it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Last {
    /// There was none.
    #[default]
    None,
    /// It had no endpoints, and did not count.
    Empty,
    Counted,
}

impl Kept {
    /// The last good list. Those that stay keep their order, whatever the order of the answers.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Takes an answer that came at `now`, since 1970. Returns when to ask again, and what is new. `drawn`, from 0 to 1,
    /// spreads it.
    pub fn take(
        &mut self,
        answer: Answer,
        now: Duration,
        allow_empty: bool,
        pace: &Pace,
        drawn: f64,
    ) -> (Duration, Option<News>) {
        let stretch = 1.0 + pace.spread * drawn;
        let (list, ttl) = match answer {
            Answer::Failed(why) => {
                self.counts[FAILED] += 1;
                self.failures = self.failures.saturating_add(1);
                let doubled = 1u32.checked_shl(self.failures - 1).unwrap_or(u32::MAX);
                let retry = pace.retry.saturating_mul(doubled).min(pace.retry_max);
                return (retry.mul_f64(stretch), self.troubled(News::Failing(why)));
            }
            Answer::Same => return (pace.min.mul_f64(stretch), self.again(now)),
            Answer::Nothing => return (pace.min.mul_f64(stretch), None),
            Answer::List(list, ttl) => (list, ttl),
        };
        self.failures = 0;
        let next = ttl.min(pace.max).max(pace.min).mul_f64(stretch);
        if list.is_empty() && !allow_empty {
            return (next, self.emptied());
        }
        self.last = Last::Counted;
        self.held_at = Some(now);
        let trouble = self.trouble.take();
        let news = self.change(list);
        self.counts[if news.is_some() { CHANGED } else { UNCHANGED }] += 1;
        (next, news.or(trouble.map(|_| News::Recovered)))
    }

    /// The last list once more, which ends a failure.
    fn again(&mut self, now: Duration) -> Option<News> {
        self.failures = 0;
        match self.last {
            Last::None => None,
            Last::Empty => self.emptied(),
            Last::Counted => {
                self.held_at = Some(now);
                self.counts[UNCHANGED] += 1;
                self.trouble.take().map(|_| News::Recovered)
            }
        }
    }

    fn emptied(&mut self) -> Option<News> {
        self.last = Last::Empty;
        self.counts[EMPTY] += 1;
        self.troubled(News::Emptied)
    }

    /// The same trouble is told once.
    fn troubled(&mut self, trouble: News) -> Option<News> {
        let told = self.trouble.replace(trouble.clone());
        (told.as_ref() != Some(&trouble)).then_some(trouble)
    }

    fn change(&mut self, list: Vec<Endpoint>) -> Option<News> {
        let mut new: HashMap<Arc<str>, Endpoint> = HashMap::new();
        let mut order = Vec::new();
        for endpoint in list {
            let name = endpoint.name.clone();
            if new.insert(name.clone(), endpoint).is_none() {
                order.push(name);
            }
        }
        let before: HashSet<&Arc<str>> = self.endpoints.iter().map(|e| &e.name).collect();
        let came: Vec<_> = order.into_iter().filter(|name| !before.contains(name)).collect();
        let left: Vec<_> = before.into_iter().filter(|name| !new.contains_key(*name)).cloned().collect();
        let stay = self.endpoints.iter().map(|e| &e.name).chain(&came);
        let endpoints: Vec<Endpoint> = stay.filter_map(|name| new.remove(name)).collect();
        let changed = endpoints != self.endpoints;
        self.endpoints = endpoints;
        changed.then_some(News::Changed(came, left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    const PACE: Pace =
        Pace { min: S, max: Duration::from_secs(300), retry: S, retry_max: Duration::from_secs(30), spread: 0.0 };

    fn list(text: &str) -> Vec<Endpoint> {
        evenkeel_config::endpoint_list("a.json", text).expect("a good list")
    }

    fn give(kept: &mut Kept, answer: Answer) -> (Duration, Option<News>) {
        kept.take(answer, S, false, &PACE, 1.0)
    }

    fn names(kept: &Kept) -> Vec<&str> {
        kept.endpoints().iter().map(|e| &*e.name).collect()
    }

    #[test]
    fn a_rotated_answer_changes_nothing() {
        let mut kept = Kept::default();
        assert!(give(&mut kept, Answer::List(list(r#"["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"]"#), S)).1.is_some());
        assert_eq!(give(&mut kept, Answer::List(list(r#"["10.0.0.3:1", "10.0.0.1:1", "10.0.0.2:1"]"#), S)).1, None);
        let (_, news) = give(&mut kept, Answer::List(list(r#"["10.0.0.4:1", "10.0.0.3:1", "10.0.0.1:1"]"#), S));
        assert_eq!(news, Some(News::Changed(vec!["10.0.0.4:1".into()], vec!["10.0.0.2:1".into()])));
        assert_eq!(names(&kept), ["10.0.0.1:1", "10.0.0.3:1", "10.0.0.4:1"]);
        assert_eq!(kept.counts, [2, 1, 0, 0]);
    }

    #[test]
    fn another_weight_is_a_change_and_a_name_twice_is_one_endpoint() {
        let mut kept = Kept::default();
        give(&mut kept, Answer::List(list(r#"["10.0.0.1:1"]"#), S));
        let heavy = list(r#"[{"addr": "10.0.0.1:1", "weight": 2}]"#);
        assert_eq!(give(&mut kept, Answer::List(heavy.clone(), S)).1, Some(News::Changed(vec![], vec![])));
        assert_eq!(give(&mut kept, Answer::List([heavy.clone(), heavy].concat(), S)).1, None);
        assert_eq!(names(&kept), ["10.0.0.1:1"]);
    }

    #[test]
    fn a_time_to_live_is_kept_within_bounds() {
        for (ttl, wait) in [(0, 1), (1, 1), (20, 20), (86_400, 300), (u64::from(u32::MAX), 300)] {
            let answer = Answer::List(list(r#"["10.0.0.1:1"]"#), Duration::from_secs(ttl));
            assert_eq!(give(&mut Kept::default(), answer).0, Duration::from_secs(wait));
        }
        let answer = || Answer::List(list(r#"["10.0.0.1:1"]"#), 20 * S);
        let spread = Pace { spread: 0.1, ..PACE };
        assert_eq!(Kept::default().take(answer(), S, false, &spread, 1.0).0, 22 * S);
        assert_eq!(Kept::default().take(answer(), S, false, &spread, 0.0).0, 20 * S);
    }

    #[test]
    fn failures_take_no_endpoint_away_and_are_asked_about_less_and_less() {
        let mut kept = Kept::default();
        give(&mut kept, Answer::List(list(r#"["10.0.0.1:1"]"#), S));
        let fail = |kept: &mut Kept| give(kept, Answer::Failed("SERVFAIL".into()));
        let (first, told) = fail(&mut kept);
        assert_eq!((first, told), (S, Some(News::Failing("SERVFAIL".into()))));
        let waits: Vec<_> = (0..40).map(|_| fail(&mut kept)).collect();
        assert!(waits.iter().all(|(_, told)| told.is_none()), "told once");
        let seconds: Vec<u64> = waits.iter().take(6).map(|(wait, _)| wait.as_secs()).collect();
        assert_eq!(seconds, [2, 4, 8, 16, 30, 30]);
        assert_eq!(waits[39].0, PACE.retry_max);
        assert_eq!((names(&kept), kept.held_at), (vec!["10.0.0.1:1"], Some(S)));
        let again = kept.take(Answer::List(list(r#"["10.0.0.1:1"]"#), S), 9 * S, false, &PACE, 0.0);
        assert_eq!(again, (S, Some(News::Recovered)));
        assert_eq!((fail(&mut kept).0, kept.held_at), (S, Some(9 * S)), "counted from one again");
    }

    #[test]
    fn an_empty_list_counts_only_where_it_may() {
        let mut kept = Kept::default();
        give(&mut kept, Answer::List(list(r#"["10.0.0.1:1"]"#), S));
        assert_eq!(give(&mut kept, Answer::List(vec![], 5 * S)), (5 * S, Some(News::Emptied)));
        assert_eq!(give(&mut kept, Answer::List(vec![], 5 * S)), (5 * S, None));
        assert_eq!((names(&kept).len(), kept.counts), (1, [1, 0, 2, 0]));
        let (_, news) = kept.take(Answer::List(vec![], S), S, true, &PACE, 0.0);
        assert_eq!(news, Some(News::Changed(vec![], vec!["10.0.0.1:1".into()])));
        assert!(kept.endpoints().is_empty());
    }

    #[test]
    fn what_still_holds_is_as_young_as_the_last_look() {
        let mut kept = Kept::default();
        give(&mut kept, Answer::List(list(r#"["10.0.0.1:1"]"#), S));
        assert_eq!(kept.take(Answer::Same, 7 * S, false, &PACE, 0.0), (S, None));
        assert_eq!(kept.held_at, Some(7 * S));
        assert_eq!(kept.take(Answer::Nothing, 9 * S, false, &PACE, 0.0), (S, None));
        assert_eq!((kept.held_at, kept.counts), (Some(7 * S), [1, 1, 0, 0]));
    }

    #[test]
    fn the_same_as_before_ends_a_failure() {
        let mut kept = Kept::default();
        give(&mut kept, Answer::List(list(r#"["10.0.0.1:1"]"#), S));
        let fail = |kept: &mut Kept| give(kept, Answer::Failed("SERVFAIL".into()));
        let _ = (fail(&mut kept), fail(&mut kept));
        assert_eq!(kept.take(Answer::Same, 9 * S, false, &PACE, 0.0), (S, Some(News::Recovered)));
        assert_eq!(kept.take(Answer::Same, 9 * S, false, &PACE, 0.0), (S, None), "told once");
        assert_eq!((kept.held_at, kept.counts), (Some(9 * S), [1, 2, 0, 2]));
        let (wait, told) = fail(&mut kept);
        assert_eq!((wait, told.is_some()), (S, true), "counted from one again");
    }

    #[test]
    fn the_same_empty_list_as_before_is_still_no_list() {
        let mut kept = Kept::default();
        give(&mut kept, Answer::Same);
        assert_eq!((kept.held_at, kept.counts), (None, [0; 4]), "there was nothing before");
        give(&mut kept, Answer::List(list(r#"["10.0.0.1:1"]"#), S));
        give(&mut kept, Answer::List(vec![], S));
        assert_eq!(kept.take(Answer::Same, 9 * S, false, &PACE, 0.0), (S, None));
        assert_eq!((kept.held_at, kept.counts), (Some(S), [1, 0, 2, 0]));
        assert_eq!(give(&mut kept, Answer::Failed("SERVFAIL".into())).1, Some(News::Failing("SERVFAIL".into())));
        assert_eq!(give(&mut kept, Answer::Same).1, Some(News::Emptied));
    }
}

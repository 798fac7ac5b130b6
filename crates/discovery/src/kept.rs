//! List of endpoints from a source, without clock or I/O. A source that fails, or has nothing to report, removes no
//! endpoint.

use evenkeel_config::plan::Endpoint;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Endpoints of a source at a given time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    pub endpoints: Vec<Endpoint>,
    /// Time for which the list is valid; `None` = until the next list.
    pub ttl: Option<Duration>,
    /// Entries that are left out, each with its name and the reason.
    pub skipped: Vec<String>,
}

impl From<Vec<Endpoint>> for List {
    fn from(endpoints: Vec<Endpoint>) -> List {
        List { endpoints, ..List::default() }
    }
}

/// Message of a source about its list.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    List(List),
    /// Confirmation of the last list.
    Same,
    /// Nothing to add to the last answer, whatever that was.
    Nothing,
    /// Failure, with the reason.
    Failed(String),
}

/// Results of answers, in the order of the counters.
pub const RESULTS: [&str; 4] = ["changed", "unchanged", "empty", "failed"];

const CHANGED: usize = 0;
const UNCHANGED: usize = 1;
const EMPTY: usize = 2;
const FAILED: usize = 3;

/// Change worth a line in the log.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A different list: names of the endpoints added, and of those removed. Both are empty if only weights and
    /// the like have changed.
    Changed(Vec<Arc<str>>, Vec<Arc<str>>),
    /// An empty list. It is ignored, and the last list stays.
    Emptied,
    /// A failure, or a failure for another reason.
    Failing(String),
    /// Success after failures, without a change.
    Recovered,
}

/// Change of the list, and of the entries that are left out of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    pub news: Option<News>,
    /// Entries that are left out, if they are others than before; none if all are back.
    pub skipped: Option<Vec<String>>,
}

/// List of a source, with its history.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    endpoints: Vec<Endpoint>,
    /// Number of answers by result, in the order of [`RESULTS`].
    pub counts: [u64; RESULTS.len()],
    /// Time of the last confirmation of the list, since 1970.
    pub held_at: Option<Duration>,
    /// TTL of the list, if the source set a TTL.
    pub ttl: Option<Duration>,
    /// Entries that were left out of the list.
    skipped: Vec<String>,
    /// Reason why the last answer did not count.
    trouble: Option<News>,
    last: Last,
}

/// Kind of the last list, whatever followed it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Last {
    /// There has been no list yet.
    #[default]
    None,
    /// An empty list that did not count.
    Empty,
    Counted,
}

impl Kept {
    /// A list that the process before had, held at a time since 1970.
    pub fn resumed(endpoints: Vec<Endpoint>, held_at: Option<Duration>) -> Kept {
        Kept { endpoints, held_at, last: Last::Counted, ..Kept::default() }
    }

    /// The last valid list. Endpoints that stay keep their order, whatever the order of the answers.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Reason why there are no endpoints, for a source that resolves a name; `None` if there are some.
    pub fn why_nothing(&self) -> Option<String> {
        self.endpoints.is_empty().then(|| match &self.trouble {
            Some(News::Failing(why)) => format!("its name does not resolve: {why}"),
            Some(_) => "its name does not resolve: it has no addresses".to_string(),
            None => "its name does not resolve: no answer yet".to_string(),
        })
    }

    /// Entries that are left out of the last list, each with its name and the reason.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Applies an answer received at `now`, a time since 1970. Returns news for the log.
    pub fn take(&mut self, answer: Answer, now: Duration, allow_empty: bool) -> Taken {
        let mut list = match answer {
            Answer::Failed(why) => {
                self.counts[FAILED] += 1;
                return Taken { news: self.troubled(News::Failing(why)), skipped: None };
            }
            Answer::Same => return Taken { news: self.again(now), skipped: None },
            Answer::Nothing => return Taken::default(),
            Answer::List(list) => list,
        };
        without_twins(&mut list);
        let skipped = (list.skipped != self.skipped).then(|| list.skipped.clone());
        self.skipped = list.skipped;
        if list.endpoints.is_empty() && !allow_empty {
            return Taken { news: self.emptied(), skipped };
        }
        self.last = Last::Counted;
        (self.held_at, self.ttl) = (Some(now), list.ttl);
        let trouble = self.trouble.take();
        let news = self.change(list.endpoints);
        self.counts[if news.is_some() { CHANGED } else { UNCHANGED }] += 1;
        Taken { news: news.or(trouble.map(|_| News::Recovered)), skipped }
    }

    /// Confirms the last list, which ends a failure.
    fn again(&mut self, now: Duration) -> Option<News> {
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

    /// Records a problem, and returns it unless it is the same as before.
    fn troubled(&mut self, trouble: News) -> Option<News> {
        let told = self.trouble.replace(trouble.clone());
        (told.as_ref() != Some(&trouble)).then_some(trouble)
    }

    fn change(&mut self, list: Vec<Endpoint>) -> Option<News> {
        let mut new: HashMap<Arc<str>, Endpoint> = HashMap::new();
        let mut order = Vec::new();
        for endpoint in list {
            order.push(endpoint.name.clone());
            new.insert(endpoint.name.clone(), endpoint);
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

/// Leaves out endpoints with the name of an earlier endpoint. If both are equal, nothing is reported.
fn without_twins(list: &mut List) {
    let mut seen: HashMap<Arc<str>, usize> = HashMap::new();
    let mut kept: Vec<Endpoint> = Vec::with_capacity(list.endpoints.len());
    for endpoint in std::mem::take(&mut list.endpoints) {
        match seen.get(&endpoint.name) {
            Some(at) if kept[*at] == endpoint => {}
            Some(_) => list.skipped.push(format!("{}: another endpoint has this name", endpoint.name)),
            None => {
                seen.insert(endpoint.name.clone(), kept.len());
                kept.push(endpoint);
            }
        }
    }
    list.endpoints = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn list(text: &str) -> Answer {
        Answer::List(List {
            endpoints: evenkeel_config::endpoint_list("a.json", text).expect("a good list"),
            ttl: Some(S),
            skipped: Vec::new(),
        })
    }

    fn nothing() -> Answer {
        Answer::List(List { ttl: Some(S), ..List::default() })
    }

    fn give(kept: &mut Kept, answer: Answer) -> Option<News> {
        kept.take(answer, S, false).news
    }

    fn fail(kept: &mut Kept) -> Option<News> {
        give(kept, Answer::Failed("SERVFAIL".into()))
    }

    fn names(kept: &Kept) -> Vec<&str> {
        kept.endpoints().iter().map(|e| &*e.name).collect()
    }

    #[test]
    fn a_rotated_answer_changes_nothing() {
        let mut kept = Kept::default();
        assert!(give(&mut kept, list(r#"["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"]"#)).is_some());
        assert_eq!(give(&mut kept, list(r#"["10.0.0.3:1", "10.0.0.1:1", "10.0.0.2:1"]"#)), None);
        let news = give(&mut kept, list(r#"["10.0.0.4:1", "10.0.0.3:1", "10.0.0.1:1"]"#));
        assert_eq!(news, Some(News::Changed(vec!["10.0.0.4:1".into()], vec!["10.0.0.2:1".into()])));
        assert_eq!(names(&kept), ["10.0.0.1:1", "10.0.0.3:1", "10.0.0.4:1"]);
        assert_eq!(kept.counts, [2, 1, 0, 0]);
    }

    #[test]
    fn another_weight_is_a_change_and_a_name_twice_is_one_endpoint() {
        let mut kept = Kept::default();
        give(&mut kept, list(r#"["10.0.0.1:1"]"#));
        let heavy = list(r#"[{"addr": "10.0.0.1:1", "weight": 2}]"#);
        assert_eq!(give(&mut kept, heavy.clone()), Some(News::Changed(vec![], vec![])));
        let Answer::List(heavy) = heavy else { panic!("it is a list") };
        let twice = List { endpoints: [&heavy.endpoints[..], &heavy.endpoints[..]].concat(), ..heavy };
        assert_eq!(give(&mut kept, Answer::List(twice)), None);
        assert_eq!(names(&kept), ["10.0.0.1:1"]);
    }

    #[test]
    fn an_endpoint_with_the_name_of_one_before_is_left_out_and_named() {
        let mut kept = Kept::default();
        let named = |addr: &str| {
            let text = format!(r#"[{{"name": "web", "addr": "{addr}"}}]"#);
            evenkeel_config::endpoint_list("a.json", &text).expect("a good list")
        };
        let endpoints = [named("10.0.0.1:1"), named("10.6.6.6:1")].concat();
        let taken = kept.take(Answer::List(endpoints.into()), S, false);
        assert_eq!(kept.endpoints(), named("10.0.0.1:1"));
        assert_eq!(taken.skipped, Some(vec!["web: another endpoint has this name".to_owned()]));
    }

    #[test]
    fn a_list_of_the_process_before_counts_like_one_of_this() {
        let Answer::List(before) = list(r#"["10.0.0.1:1"]"#) else { panic!("it is a list") };
        let mut kept = Kept::resumed(before.endpoints, Some(S));
        assert!(fail(&mut kept).is_some());
        assert_eq!(give(&mut kept, nothing()), Some(News::Emptied));
        assert_eq!((names(&kept), kept.held_at), (vec!["10.0.0.1:1"], Some(S)));
        let news = kept.take(list(r#"["10.0.0.2:1"]"#), 9 * S, false).news;
        assert_eq!(news, Some(News::Changed(vec!["10.0.0.2:1".into()], vec!["10.0.0.1:1".into()])));
    }

    #[test]
    fn failures_take_no_endpoint_away_and_are_told_once() {
        let mut kept = Kept::default();
        give(&mut kept, list(r#"["10.0.0.1:1"]"#));
        assert_eq!(fail(&mut kept), Some(News::Failing("SERVFAIL".into())));
        assert!((0..40).all(|_| fail(&mut kept).is_none()), "told once");
        assert_eq!((names(&kept), kept.held_at), (vec!["10.0.0.1:1"], Some(S)));
        assert_eq!(kept.take(list(r#"["10.0.0.1:1"]"#), 9 * S, false).news, Some(News::Recovered));
        assert_eq!(kept.held_at, Some(9 * S));
        assert!(fail(&mut kept).is_some(), "it is another failure");
    }

    #[test]
    fn a_name_without_addresses_has_a_reason_for_that() {
        let mut kept = Kept::default();
        let why = |kept: &Kept| kept.why_nothing().expect("there is no endpoint");
        assert!(why(&kept).ends_with("no answer yet"));
        give(&mut kept, nothing());
        assert!(why(&kept).ends_with("it has no addresses"));
        fail(&mut kept);
        assert_eq!(why(&kept), "its name does not resolve: SERVFAIL");
        give(&mut kept, list(r#"["10.0.0.1:1"]"#));
        fail(&mut kept);
        assert_eq!(kept.why_nothing(), None, "the last one goes on");
    }

    #[test]
    fn an_empty_list_counts_only_where_it_may() {
        let mut kept = Kept::default();
        give(&mut kept, list(r#"["10.0.0.1:1"]"#));
        assert_eq!(give(&mut kept, nothing()), Some(News::Emptied));
        assert_eq!(give(&mut kept, nothing()), None);
        assert_eq!((names(&kept).len(), kept.counts), (1, [1, 0, 2, 0]));
        let news = kept.take(nothing(), S, true).news;
        assert_eq!(news, Some(News::Changed(vec![], vec!["10.0.0.1:1".into()])));
        assert!(kept.endpoints().is_empty());
    }

    #[test]
    fn what_still_holds_is_as_young_as_the_last_look() {
        let mut kept = Kept::default();
        give(&mut kept, list(r#"["10.0.0.1:1"]"#));
        assert_eq!(kept.take(Answer::Same, 7 * S, false).news, None);
        assert_eq!(kept.held_at, Some(7 * S));
        assert_eq!(kept.take(Answer::Nothing, 9 * S, false).news, None);
        assert_eq!((kept.held_at, kept.counts), (Some(7 * S), [1, 1, 0, 0]));
    }

    #[test]
    fn the_same_as_before_ends_a_failure() {
        let mut kept = Kept::default();
        give(&mut kept, list(r#"["10.0.0.1:1"]"#));
        let _ = (fail(&mut kept), fail(&mut kept));
        assert_eq!(kept.take(Answer::Same, 9 * S, false).news, Some(News::Recovered));
        assert_eq!(kept.take(Answer::Same, 9 * S, false).news, None, "told once");
        assert_eq!((kept.held_at, kept.counts), (Some(9 * S), [1, 2, 0, 2]));
        assert!(fail(&mut kept).is_some(), "it is another failure");
    }

    #[test]
    fn the_same_empty_list_as_before_is_still_no_list() {
        let mut kept = Kept::default();
        give(&mut kept, Answer::Same);
        assert_eq!((kept.held_at, kept.counts), (None, [0; 4]), "there was nothing before");
        give(&mut kept, list(r#"["10.0.0.1:1"]"#));
        give(&mut kept, nothing());
        assert_eq!(kept.take(Answer::Same, 9 * S, false).news, None);
        assert_eq!((kept.held_at, kept.counts), (Some(S), [1, 0, 2, 0]));
        assert!(fail(&mut kept).is_some());
        assert_eq!(give(&mut kept, Answer::Same), Some(News::Emptied));
    }

    #[test]
    fn entries_that_are_left_out_are_named_once_and_when_they_are_back() {
        let mut kept = Kept::default();
        let one = evenkeel_config::endpoint_list("a.json", r#"["10.0.0.1:1"]"#).expect("a good list");
        let list = |skipped: &[&str]| {
            let skipped = skipped.iter().map(ToString::to_string).collect();
            Answer::List(List { endpoints: one.clone(), ttl: None, skipped })
        };
        let mut take = |answer| kept.take(answer, S, false).skipped;
        assert_eq!(take(list(&["b: port 0"])), Some(vec!["b: port 0".into()]));
        assert_eq!(take(list(&["b: port 0"])), None, "told once");
        assert_eq!(take(Answer::Failed("down".into())), None);
        assert_eq!(take(list(&[])), Some(vec![]));
        assert_eq!(take(list(&[])), None);
        assert!(kept.skipped().is_empty() && names(&kept) == ["10.0.0.1:1"]);
    }
}

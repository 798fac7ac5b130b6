//! The judge: remembers what was purged when, and checks each answer against that and against what the site knows.

use super::shell::Purge;
use super::site::{Content, MADE, Page, Site, Use};
use evenkeel_cache::stored::Stored;
use std::collections::HashMap;

/// Milliseconds by which ages in whole seconds may be less than they are, with the longest time of a fetch.
const SLACK_MS: u64 = 2000 + super::shell::LATENCY_MAX_MS;

/// Way in which a stored response came to answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Fresh,
    /// Stale, and validated behind the request.
    Stale,
    /// Served instead of an error of the endpoint.
    Failed,
    /// Validated for this request.
    Renewed,
}

/// Counts of what has happened.
#[derive(Debug, Default)]
pub struct Counts {
    pub fresh: u64,
    pub stale: u64,
    pub failed: u64,
    pub renewed: u64,
    pub fetched: u64,
    pub collapsed: u64,
    pub soft: u64,
    pub private: u64,
    pub refused_purged: u64,
    pub evicted: u64,
    pub over: u64,
    pub purged: u64,
}

/// Last purges of a kind, hard and soft.
type Last = [u64; 2];

#[derive(Default)]
pub struct Judge {
    pub counts: Counts,
    urls: HashMap<usize, Last>,
    labels: HashMap<usize, Last>,
    sections: HashMap<usize, Last>,
    all: Last,
}

impl Judge {
    pub fn memory(&self, bytes: u64, capacity: u64) {
        assert!(bytes <= capacity, "{bytes} of {capacity}");
    }

    /// Notes a purge that has returned.
    pub fn purged(&mut self, purge: &Purge, now: u64) {
        let (last, is_soft) = match *purge {
            Purge::Url(url, is_soft) => (self.urls.entry(url).or_default(), is_soft),
            Purge::Label(label, is_soft) => (self.labels.entry(label).or_default(), is_soft),
            Purge::Section(section, is_soft) => (self.sections.entry(section).or_default(), is_soft),
            Purge::All(is_soft) => (&mut self.all, is_soft),
        };
        last[usize::from(is_soft)] = now;
    }

    /// Checks a stored response that answers a request for a page. `asked`: the moment at which the request came.
    pub fn stored(&mut self, page: &Page, content: &Content, head: &Stored, how: How, asked: u64, now: u64) {
        let made: u64 = std::str::from_utf8(head.field(MADE).expect("each has it")).unwrap().parse().unwrap();
        let context = || format!("{page:?} {content:?} {how:?}, made {made}, asked {asked}, now {now}");
        assert_eq!(content.url, page.url, "{}", context());
        assert_ne!(page.is_for, Use::Private, "{}", context());
        assert!(!content.has_user || page.is_for == Use::Public, "{}", context());
        // Its content is that of the moment at which the endpoint made or validated it.
        assert_eq!(content.version, page.version(made), "{}", context());
        let [hard, soft] = self.last(page);
        // Within one millisecond, the order is not known.
        assert!(made >= hard || hard >= asked, "stale after a hard purge at {hard}: {}", context());
        let age = now.saturating_sub(made);
        let [lifetime, revalidate, if_error] =
            [page.lifetime, page.while_revalidate, page.if_error].map(|seconds| seconds * 1000);
        let longest = match how {
            Fresh if page.is_for == Use::Validated => 0,
            Fresh => lifetime,
            Stale => lifetime + revalidate,
            // Also one that is fresh, after a validation that a purge has asked for.
            Failed => lifetime + if_error,
            Renewed => 0,
        };
        assert!(age <= longest + SLACK_MS, "older than it may be: {}", context());
        if made < soft && soft < asked {
            self.counts.soft += 1;
            assert_ne!(how, Fresh, "fresh after a soft purge at {soft}: {}", context());
            let window = if how == Stale { revalidate } else { if_error };
            assert!(how == Renewed || now - soft <= window + SLACK_MS, "after a soft purge at {soft}: {}", context());
        }
        use How::{Failed, Fresh, Renewed, Stale};
        match how {
            Fresh => self.counts.fresh += 1,
            Stale => self.counts.stale += 1,
            Failed => {
                assert!(Site::fails(made.max(now - super::shell::LATENCY_MAX_MS)) || Site::fails(now), "{}", context());
                self.counts.failed += 1;
            }
            Renewed => self.counts.renewed += 1,
        }
    }

    /// Checks a response of the endpoint that answers the request that it was fetched for.
    pub fn fetched(&mut self, page: &Page, content: &Content, request: u64) {
        assert_eq!((content.url, content.request), (page.url, request));
        self.counts.private += u64::from(page.is_for == Use::Private);
        self.counts.fetched += 1;
    }

    fn last(&self, page: &Page) -> Last {
        let of = |last: Option<&Last>| last.copied().unwrap_or_default();
        let all = [
            of(self.urls.get(&page.url)),
            of(self.labels.get(&page.label)),
            of(self.sections.get(&page.section)),
            self.all,
        ];
        [0, 1].map(|kind| all.iter().map(|last| last[kind]).max().unwrap_or(0))
    }
}

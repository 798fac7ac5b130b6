//! The cache as operators see it, and their purges.

use super::numbers::Numbers;
use crate::cache::Ordered;
use crate::cache::counts::{CacheCounts, CacheResult};
use crate::cache::disk::wait;
use crate::cache::encodings::of_store;
use crate::cache::keys::{keys, user_text};
use crate::cache::of_late::Asked;
use crate::cache::partner::{Told, Unconfirmed};
use crate::cache::reasons::reasons;
use evenkeel_balance::Instant;
use evenkeel_cache::key::{KeyParts, KeyRules};
use evenkeel_cache::moment::Moment;
use evenkeel_cache::record::{PurgeRecord, Scope};
use evenkeel_cache::store::{AGES, By, Counts, Fate, Item, KeyRef, Matched, Sequence, Target, Top};
use evenkeel_cache::stored::Stored;
use evenkeel_cache::tags::TAG_MAX;
use evenkeel_compress::coding::Coding;
use evenkeel_config::plan;
use evenkeel_disk::{Disk, RETRY_EVERY, Stage, Ticket};
use evenkeel_view::cache::{
    AgeClass, Cache, CacheDisk, CacheRoute, EncodedBody, Evicted, Meant, NotStored, Purge, PurgeDone, Refused,
    StoredResponse, TopBy, TopKey,
};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Places of the store that are looked at between two looks at whether a purge is complete.
const PLACES: usize = 4096;

/// Reason why the cache has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheRefused {
    /// No route of the plan has a cache.
    NoCache,
    /// The order cannot be understood, in words.
    Malformed(String),
}

/// A purge that holds from now on, and whose matches are not all counted yet.
#[derive(Debug)]
pub struct Purging {
    numbers: Arc<Numbers>,
    done: PurgeDone,
    sequence: Option<Sequence>,
    /// Confirmations of the other process of an upgrade, for each purge sent to it.
    told: Vec<Told>,
    /// Tickets that end when the disk has noted the purges.
    written: Vec<Arc<Ticket>>,
}

/// Reason why a purge holds, but not everywhere or not for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotEverywhere {
    /// The other process of an upgrade may still serve purged responses.
    Partner(Unconfirmed),
    /// A crash or a restart may undo it, with the reason.
    Disk(String),
}

impl fmt::Display for NotEverywhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotEverywhere::Partner(unconfirmed) => unconfirmed.fmt(f),
            NotEverywhere::Disk(why) => f.write_str(why),
        }
    }
}

impl Numbers {
    /// State of the cache. `None` if no route has a cache.
    pub fn shown_cache(&self) -> Option<Cache> {
        let mut routes: Vec<CacheRoute> =
            self.cached_routes().map(|(route, _)| self.shown_cache_route(&route.name)).collect();
        if routes.is_empty() {
            return None;
        }
        routes.iter_mut().for_each(|route| route.hit_ratio_of_late = self.cache.of_late.hit_ratio(route));
        let counts = self.cache.store.counts();
        Some(Cache {
            bytes: counts.bytes,
            capacity: self.cache.plan.memory,
            entries: counts.entries,
            objects: counts.objects,
            inserted: counts.inserts,
            evicted: evicted(&counts),
            refused: Refused {
                too_large: counts.refused_large,
                purged: counts.refused_purged,
                unused: counts.refused_unused,
            },
            purged: counts.purged,
            made_stale: counts.marked,
            fetching_behind: self.cache_fetches_behind(),
            disk: self.cache.disk.as_ref().map(shown_disk),
            routes,
        })
    }

    /// Requests of each route with a cache so far.
    fn cache_asked(&self) -> Vec<Asked> {
        use CacheResult::{Hit, NotStored, Renewed, Stale, Stored};
        let of_route = |(route, _): (&plan::Route, _)| {
            let counts = self.cache.counts.of_route(&route.name);
            let of = |results: &[CacheResult]| {
                let all = counts.iter().flat_map(|counts| results.iter().map(|at| counts.results[*at as usize].get()));
                all.fold(0, u64::wrapping_add)
            };
            (route.name.clone(), [of(&[Hit, Stale]), of(&[Hit, Stale, Renewed, Stored, NotStored])])
        };
        self.cached_routes().map(of_route).collect()
    }

    /// The first keys of an order, at most a thousand. Looks at every key: not for a thread that serves requests.
    ///
    /// # Errors
    /// No route of the plan has a cache.
    pub fn cache_top(&self, n: usize, by: TopBy) -> Result<Vec<TopKey>, CacheRefused> {
        self.needs_cache()?;
        let (now, store) = (self.cache.clock.now(), &self.cache.store);
        let by = match by {
            TopBy::Hits => By::Hits,
            TopBy::Size => By::Bytes,
        };
        let one = |top: Top| {
            let items = store.of_url(KeyRef::new(&top.key, top.url_len).url());
            // It may have gone since.
            let item = items.into_iter().find(|item| item.key == top.key)?;
            let parts = KeyParts::of(&top.key, top.url_len)?;
            let terms = terms(&item);
            Some(TopKey {
                url: text(parts.url),
                route: route_of(&parts),
                bytes: top.bytes,
                hits: top.hits,
                variants: top.variants as u64,
                age_s: terms.age(now),
                ttl_s: terms.ttl(now),
                tags: item.object.head().tags().map(text).collect(),
            })
        };
        Ok(store.top(n, by).into_iter().filter_map(one).collect())
    }

    /// Stored responses of a URL.
    ///
    /// # Errors
    /// No route has a cache, or this is not a URL.
    pub fn cache_show(&self, url: &str) -> Result<Vec<StoredResponse>, CacheRefused> {
        let now = self.cache.clock.now();
        let items = self.cache_urls(url)?.into_iter().flat_map(|url| self.cache.store.of_url(&url));
        Ok(items.filter_map(|item| self.shown_stored(&item, now)).collect())
    }

    /// Purges stored responses. No later request gets a purged response, and responses to earlier requests are not
    /// stored; [`Purging::end`] counts it.
    ///
    /// # Errors
    /// No route has a cache, or the order cannot be understood.
    pub fn purge_cache(self: &Arc<Numbers>, purge: &Purge) -> Result<Purging, CacheRefused> {
        self.needs_cache()?;
        let at = self.cache.clock.now();
        let fate = if purge.soft { Fate::Stale } else { Fate::Removed };
        let purge_of = |scope| self.cache.purge(&PurgeRecord { scope, fate, at });
        let (purged, target) = match purge.meant().map_err(CacheRefused::Malformed)? {
            Meant::Url(url) => {
                let urls = self.cache_urls(url)?;
                let (mut sum, mut told, mut written) = (Matched::default(), Vec::new(), Vec::new());
                for one in &urls {
                    let ordered = purge_of(Scope::Url(one.as_slice().into()));
                    sum.objects += ordered.matched.objects;
                    sum.bytes += ordered.matched.bytes;
                    told.extend(ordered.told);
                    written.extend(ordered.written);
                }
                let urls: Vec<String> = urls.iter().map(|url| text(url.strip_suffix(b"\0").unwrap_or(url))).collect();
                let purged = format!("url {}", urls.join(", "));
                let done = PurgeDone { purged, soft: purge.soft, objects: sum.objects, bytes: sum.bytes };
                return Ok(Purging { numbers: self.clone(), done, sequence: None, told, written });
            }
            Meant::Prefix(prefix) => {
                let prefix = self.prefix(prefix)?;
                (format!("prefix {}", text(&prefix)), Target::Prefix(prefix.into()))
            }
            Meant::Tag(tag) if tag.is_empty() || tag.len() > TAG_MAX => {
                return Err(CacheRefused::Malformed(format!("a tag has 1 to {TAG_MAX} bytes")));
            }
            Meant::Tag(tag) => (format!("tag {tag}"), Target::Tag(tag.as_bytes().into())),
            Meant::All => ("everything".to_owned(), Target::All),
        };
        let Ordered { sequence, told, written, .. } = purge_of(Scope::Log(target));
        let done = PurgeDone { purged, soft: purge.soft, ..PurgeDone::default() };
        let (told, written) = (told.into_iter().collect(), written.into_iter().collect());
        Ok(Purging { numbers: self.clone(), done, sequence, told, written })
    }

    /// Looks after the cache, once a second: notes counts, and frees memory. `now` is on the workers' clock.
    pub(crate) fn tick_cache(&self, now: Instant) {
        if self.has_cache() {
            self.sweep_cache();
            self.cache.of_late.count(|| self.cache_asked(), now);
        }
    }

    /// Frees memory of stored responses that nothing serves any more, in a short step.
    pub fn sweep_cache(&self) {
        self.cache.sweep();
    }

    /// True if a route of the plan has a cache.
    fn has_cache(&self) -> bool {
        self.cached_routes().next().is_some()
    }

    /// Requests of a route with a cache, by result.
    pub(crate) fn shown_cache_route(&self, route: &str) -> CacheRoute {
        let counts = self.cache.counts.of_route(route);
        let sum = |counter: &dyn Fn(&CacheCounts) -> u64| {
            counts.iter().fold(0, |sum: u64, counts| sum.wrapping_add(counter(counts)))
        };
        let of = |result: CacheResult| sum(&|counts| counts.results[result as usize].get());
        let reason = |(at, (label, text)): (usize, (&str, &str))| NotStored {
            reason: label.into(),
            text: text.into(),
            responses: sum(&|counts| counts.refused[at].get()),
        };
        let mut reasons: Vec<NotStored> = reasons().into_iter().enumerate().map(reason).collect();
        reasons.retain(|reason| reason.responses > 0);
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.responses));
        let shown = CacheRoute {
            route: route.to_owned(),
            hit: of(CacheResult::Hit),
            stale: of(CacheResult::Stale),
            renewed: of(CacheResult::Renewed),
            stored: of(CacheResult::Stored),
            not_stored: of(CacheResult::NotStored),
            passed: of(CacheResult::Passed),
            hit_ratio: None,
            hit_ratio_of_late: None,
            reasons,
            collapsed: sum(&|counts| counts.collapsed.get()),
            bytes: sum(&|counts| counts.bytes.get()),
        };
        let asked = shown.asked();
        CacheRoute { hit_ratio: (asked > 0).then(|| (shown.hit + shown.stale) as f64 / asked as f64), ..shown }
    }

    fn shown_stored(&self, item: &Item<Stored>, now: Moment) -> Option<StoredResponse> {
        let parts = KeyParts::of(&item.key, item.url_len)?;
        let field = |(name, values): &(&[u8], Vec<&[u8]>)| match values.is_empty() {
            true => text(name),
            false => {
                format!("{}: {}", text(name), values.iter().map(|value| text(value)).collect::<Vec<_>>().join(", "))
            }
        };
        let others = [("host", parts.host), ("host by a proxy", parts.reported_host), ("sent as", parts.sent)];
        let others = others.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", text(value?))));
        let (head, terms) = (item.object.head(), terms(item));
        let encoded = |coding: Coding| {
            let bytes = item.object.encoded(of_store(coding))?.len() as u64;
            Some(EncodedBody { coding: coding.name().into(), bytes })
        };
        Some(StoredResponse {
            url: text(parts.url),
            route: route_of(&parts),
            pool: text(parts.pool),
            user: parts.user.map(user_text),
            key_fields: parts.fields.iter().map(field).chain(others).collect(),
            varies_by: text(head.varying()).lines().map(str::to_owned).collect(),
            status: head.status,
            age_s: terms.age(now),
            ttl_s: terms.ttl(now),
            lifetime_s: terms.lifetime,
            lifetime_by: terms.source.text().into(),
            stale_while_revalidate_s: terms.stale_while_revalidate,
            stale_if_error_s: terms.stale_if_error,
            made_stale: item.stale_from.is_some(),
            no_cache: terms.no_cache,
            must_revalidate: terms.must_revalidate,
            immutable: terms.immutable,
            bytes: item.object.weight(),
            body_bytes: item.object.body().len() as u64,
            encoded: Coding::ALL.into_iter().filter_map(encoded).collect(),
            hits: item.hits,
            tags: head.tags().map(text).collect(),
            content_type: head.field("content-type").map(text),
            etag: head.etag().map(text),
            last_modified: head.field("last-modified").map(text),
        })
    }

    fn cached_routes(&self) -> impl Iterator<Item = (&plan::Route, &plan::Cache)> {
        self.plan().routes.iter().filter_map(|route| Some((route, route.filters.cache.as_ref()?)))
    }

    fn needs_cache(&self) -> Result<(), CacheRefused> {
        if self.has_cache() { Ok(()) } else { Err(CacheRefused::NoCache) }
    }

    /// The URL as the keys of routes have it: routes differ in the part of the query that counts.
    fn cache_urls(&self, url: &str) -> Result<BTreeSet<Vec<u8>>, CacheRefused> {
        self.needs_cache()?;
        let url = Url::read(url)?;
        let one =
            |rules: KeyRules| rules.url(url.is_https, url.host.as_bytes(), &url.target).map_err(|_| url.refused());
        self.cached_routes().map(|(_, cache)| one(keys(cache))).collect()
    }

    fn prefix(&self, prefix: &str) -> Result<Vec<u8>, CacheRefused> {
        let url = Url::read(prefix)?;
        let mut bytes =
            KeyRules::default().url(url.is_https, url.host.as_bytes(), &url.target).map_err(|_| url.refused())?;
        // Without the byte that ends a URL.
        bytes.pop();
        Ok(bytes)
    }
}

impl Purging {
    /// Target in words, as for events: `tag product-7`.
    pub fn target(&self) -> &str {
        &self.done.purged
    }

    /// Waits until the purge holds in the other process of an upgrade, and on the disk for good. Then counts the stored
    /// responses in memory that it covers. Visits every key: not for a thread that serves requests.
    ///
    /// # Errors
    /// The other process may still serve purged responses, or a crash may bring them back.
    pub fn end(mut self) -> Result<PurgeDone, NotEverywhere> {
        self.told.iter().try_for_each(Told::wait).map_err(NotEverywhere::Partner)?;
        if let Some(disk) = &self.numbers.cache.disk {
            self.written.iter().try_for_each(|ticket| wait(disk, ticket)).map_err(NotEverywhere::Disk)?;
        }
        let store = &self.numbers.cache.store;
        let Some(sequence) = self.sequence else { return Ok(self.done) };
        // Another purge's sweep may be under way: it then counts for this purge too, or this purge's sweep runs after
        // it.
        while store.sweep(PLACES) && !store.purged(sequence).is_none_or(|purged| purged.is_complete) {
            std::thread::yield_now();
        }
        let purged = store.purged(sequence);
        (self.done.objects, self.done.bytes) = purged.map_or((0, 0), |purged| (purged.objects, purged.bytes));
        Ok(self.done)
    }
}

/// Terms of a stored response, with the end that a soft purge has set.
fn terms(item: &Item<Stored>) -> evenkeel_cache::stored::Terms {
    let terms = item.object.head().terms;
    item.stale_from.map_or(terms, |at| terms.ended_at(at))
}

impl Numbers {
    /// State of the cache's disk, with its path. `None` if it is open, or not configured.
    pub fn shown_cache_disk(&self) -> Option<String> {
        let disk = self.cache.disk.as_ref().map(shown_disk).filter(|disk| !disk.is_open)?;
        Some(format!("{}: {}", disk.path, disk.state))
    }
}

fn shown_disk(disk: &Disk) -> CacheDisk {
    let (counts, stage) = (disk.counts(), disk.stage());
    CacheDisk {
        path: disk.options().path.display().to_string(),
        is_open: stage == Stage::Open,
        state: match stage {
            Stage::Open => "open".to_owned(),
            Stage::Searching => "being searched: responses are found there once that is done".to_owned(),
            Stage::Waiting => "used by another process".to_owned(),
            Stage::Off(failure) => format!("off: {failure}; tried again every {} s", RETRY_EVERY.as_secs()),
            Stage::Closed => "left to another process".to_owned(),
        },
        bytes: counts.bytes,
        capacity: disk.options().size,
        objects: counts.objects,
        reads: counts.reads,
        hits: counts.hits,
        writes: counts.writes,
        dropped: counts.dropped,
        reads_dropped: counts.reads_dropped,
        errors: counts.errors,
    }
}

fn evicted(counts: &Counts) -> Evicted {
    let classes = counts.evicted_ages.iter().enumerate().filter(|(_, entries)| **entries > 0);
    Evicted {
        entries: counts.evicted,
        bytes: counts.evicted_bytes,
        mean_age_ms: (counts.evicted > 0).then(|| counts.evicted_age_ms as f64 / counts.evicted as f64),
        ages: classes
            .map(|(class, entries)| AgeClass { below_s: (class + 1 < AGES).then(|| 1 << class), entries: *entries })
            .collect(),
    }
}

/// Parts of a URL that an operator has written.
struct Url<'u> {
    whole: &'u str,
    is_https: bool,
    host: &'u str,
    /// Path with its query, as they were written.
    target: String,
}

impl<'u> Url<'u> {
    fn read(whole: &'u str) -> Result<Url<'u>, CacheRefused> {
        let malformed = || {
            let text = whole.escape_debug();
            CacheRefused::Malformed(format!("\"{text}\" is not a whole URL, such as https://shop.example/path"))
        };
        let (scheme, rest) = whole.split_once("://").ok_or_else(malformed)?;
        let is_https = match scheme {
            _ if scheme.eq_ignore_ascii_case("https") => true,
            _ if scheme.eq_ignore_ascii_case("http") => false,
            _ => return Err(malformed()),
        };
        let (host, target) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if host.is_empty() || host.contains('@') {
            return Err(malformed());
        }
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Url { whole, is_https, host, target })
    }

    #[cold]
    fn refused(&self) -> CacheRefused {
        let text = self.whole.escape_debug();
        CacheRefused::Malformed(format!("\"{text}\" cannot be a stored URL: no white space and no # may be in it"))
    }
}

/// Route of a key, after the listener if clients of different listeners share nothing.
fn route_of(parts: &KeyParts<'_>) -> String {
    text(parts.route).replace('\0', "/")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<(bool, String, String), CacheRefused> {
        Url::read(url).map(|url| (url.is_https, url.host.to_owned(), url.target))
    }

    #[test]
    fn urls_are_whole() {
        assert_eq!(read("HTTPS://A.b:443"), Ok((true, "A.b:443".into(), "/".into())));
        assert_eq!(read("http://[::1]:80?x=/"), Ok((false, "[::1]:80".into(), "/?x=/".into())));
        for wrong in ["/a", "a.b/c", "ftp://a/", "http://", "http:///a", "https://u@a/", "http:/a"] {
            assert!(matches!(read(wrong), Err(CacheRefused::Malformed(_))), "{wrong}");
        }
    }

    #[test]
    fn ages_of_evicted_keys_are_classes_by_powers_of_two() {
        let mut counts = Counts { evicted: 3, evicted_age_ms: 6000, ..Counts::default() };
        (counts.evicted_ages[0], counts.evicted_ages[2], counts.evicted_ages[AGES - 1]) = (1, 1, 1);
        let evicted = evicted(&counts);
        let ends: Vec<Option<u64>> = evicted.ages.iter().map(|class| class.below_s).collect();
        assert_eq!((evicted.mean_age_ms, ends), (Some(2000.0), vec![Some(1), Some(4), None]));
    }
}

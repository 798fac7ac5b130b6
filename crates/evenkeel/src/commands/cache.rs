//! `evenkeel cache`: the state of the cache, its entries, and purges.

use crate::arguments::{Cache as Arguments, CacheOrder, CachePurge, CacheShow, CacheTop, CacheVerb, How};
use crate::commands::client::Client;
use crate::failure::Failure;
use crate::output::{print, table};
use evenkeel_view::cache::{Cache, CacheDisk, CacheRoute, Purge, PurgeDone, StoredResponse, TopKey};
use evenkeel_view::words::{ago, bytes, escaped, grouped, percent};
use hyper::Method;
use serde::de::DeserializeOwned;
use std::fmt::Write;

/// Runs `evenkeel cache` and its subcommands.
pub fn cache(Arguments { verb, how }: &Arguments) -> Result<(), Failure> {
    match verb {
        None => show(how, &Method::GET, "/v1/cache", None, |cache: &Cache| state(cache)),
        Some(CacheVerb::Top(CacheTop { by, n, how })) => {
            let by = if *by == CacheOrder::Size { "size" } else { "hits" };
            show(how, &Method::GET, &format!("/v1/cache/top?by={by}&n={n}"), None, |keys: &Vec<TopKey>| top(keys))
        }
        Some(CacheVerb::Show(CacheShow { url, how })) => {
            let path = format!("/v1/cache/show?url={}", escaped(url));
            show(how, &Method::GET, &path, None, |all: &Vec<StoredResponse>| stored(url, all))
        }
        Some(CacheVerb::Purge(arguments)) => purge(arguments),
    }
}

fn purge(CachePurge { url, prefix, tag, all, soft, how }: &CachePurge) -> Result<(), Failure> {
    let purge = Purge { url: url.clone(), prefix: prefix.clone(), tag: tag.clone(), all: *all, soft: *soft };
    let body = serde_json::to_string(&purge).map_err(|error| Failure::running(error.to_string()))?;
    show(how, &Method::POST, "/v1/cache/purge", Some(body), purged)
}

fn show<T: DeserializeOwned>(
    How { json, place }: &How,
    method: &Method,
    path: &str,
    body: Option<String>,
    text: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    let answer = Client::new(place)?.text(method, path, body)?;
    if *json {
        return print(&(answer + "\n"));
    }
    let value = serde_json::from_str(&answer)
        .map_err(|error| Failure::running(format!("cannot read the response: {error}")))?;
    print(&text(&value))
}

fn state(cache: &Cache) -> String {
    let part = cache.bytes as f64 / cache.capacity.max(1) as f64;
    let mut text = format!(
        "{} of {} in use ({}): {} under {}\n",
        bytes(cache.bytes),
        bytes(cache.capacity),
        percent(part, ""),
        counted(cache.objects, "response"),
        counted(cache.entries, "key")
    );
    // A String takes everything.
    let _ =
        writeln!(text, "{} stored so far, {} evicted{}", grouped(cache.inserted), grouped(cache.evicted.entries), {
            let age =
                cache.evicted.mean_age_ms.map(|age| format!(" {} after they were stored, on average", ago(age as u64)));
            age.unwrap_or_default()
        });
    let refused = cache.refused;
    let others = [
        (cache.purged, "purged"),
        (cache.made_stale, "made stale by soft purges"),
        (refused.too_large, "too large"),
        (refused.purged, "not stored, as a purge came meanwhile"),
        (refused.unused, "not stored, as others are used more"),
        (cache.fetching_behind, "validated behind requests now"),
    ];
    text += &line_of("", &others);
    text += &cache.disk.as_ref().map(disk).unwrap_or_default();
    text.push('\n');
    let rows: Vec<Vec<String>> = cache.routes.iter().map(row).collect();
    text += &table(
        &["ROUTE", "HIT RATIO", "5 MIN", "HIT", "STALE", "RENEWED", "STORED", "NOT STORED", "PASSED", "WAITED", "SENT"],
        &rows,
    );
    for route in cache.routes.iter().filter(|route| !route.reasons.is_empty()) {
        let _ = write!(text, "\nroute {} did not store:\n", route.route);
        let reason = |reason: &evenkeel_view::cache::NotStored| vec![grouped(reason.responses), reason.text.clone()];
        text += &table(&["RESPONSES", "REASON"], &route.reasons.iter().map(reason).collect::<Vec<_>>());
    }
    text
}

/// Disk of the cache, in two lines.
fn disk(disk: &CacheDisk) -> String {
    let part = disk.bytes as f64 / disk.capacity.max(1) as f64;
    let mut text = format!(
        "on disk: {} of {} in use ({}): {} in {}\n",
        bytes(disk.bytes),
        bytes(disk.capacity),
        percent(part, ""),
        counted(disk.objects, "response"),
        disk.path
    );
    if !disk.is_open {
        let _ = writeln!(text, "on disk: {}", disk.state);
    }
    let others = [
        (disk.reads, "read"),
        (disk.hits, "found"),
        (disk.writes, "written"),
        (disk.dropped, "not written, as too many waited"),
        (disk.reads_dropped, "not read, as too many waited"),
        (disk.errors, "broken or failed"),
    ];
    text + &line_of("on disk: ", &others)
}

/// Line with the counts that are not 0; empty if there are none.
fn line_of(begin: &str, counts: &[(u64, &str)]) -> String {
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, what)| format!("{} {what}", grouped(*count))).collect();
    if counts.is_empty() { String::new() } else { format!("{begin}{}\n", counts.join("; ")) }
}

fn row(route: &CacheRoute) -> Vec<String> {
    let ratio = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| percent(ratio, ""));
    let counts = [route.hit, route.stale, route.renewed, route.stored, route.not_stored, route.passed, route.collapsed];
    let counts = counts.into_iter().map(grouped);
    [route.route.clone(), ratio(route.hit_ratio), ratio(route.hit_ratio_of_late)]
        .into_iter()
        .chain(counts)
        .chain([bytes(route.bytes)])
        .collect()
}

fn top(keys: &[TopKey]) -> String {
    if keys.is_empty() {
        return "nothing is stored\n".to_owned();
    }
    let row = |key: &TopKey| {
        vec![
            grouped(key.hits.into()),
            bytes(key.bytes),
            key.variants.to_string(),
            seconds(key.age_s.into()),
            seconds(key.ttl_s),
            key.url.clone(),
            key.tags.join(" "),
        ]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    table(&["HITS", "SIZE", "VARIANTS", "AGE", "TTL", "URL", "TAGS"], &rows)
}

fn stored(url: &str, all: &[StoredResponse]) -> String {
    if all.is_empty() {
        return format!("nothing is stored for {url}\n");
    }
    all.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// A stored response, each fact in a line.
fn one(stored: &StoredResponse) -> String {
    let freshness = match stored.ttl_s {
        _ if stored.no_cache => "validated before each use".to_owned(),
        left @ 1.. => format!("fresh for {} more", seconds(left)),
        over if stored.made_stale => format!("stale for {} by a soft purge", seconds(-over)),
        over => format!("stale for {}", seconds(-over)),
    };
    let window = |seconds: u32| (seconds > 0).then(|| self::seconds(seconds.into()));
    let flags = [(stored.must_revalidate, "must-revalidate"), (stored.immutable, "immutable")];
    let flags: Vec<&str> = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect();
    let encoded: Vec<String> =
        stored.encoded.iter().map(|form| format!("{} {}", form.coding, bytes(form.bytes))).collect();
    let list = |parts: &[String]| (!parts.is_empty()).then(|| parts.join("; "));
    let lines = [
        ("route", Some(stored.route.clone())),
        ("pool", Some(stored.pool.clone())),
        ("user", stored.user.clone()),
        ("key fields", list(&stored.key_fields)),
        ("varies by", list(&stored.varies_by)),
        ("status", Some(stored.status.to_string())),
        ("freshness", Some(freshness)),
        ("age", Some(seconds(stored.age_s.into()))),
        ("lifetime", Some(format!("{} by {}", seconds(stored.lifetime_s.into()), stored.lifetime_by))),
        ("stale while revalidated", window(stored.stale_while_revalidate_s)),
        ("stale if endpoints fail", window(stored.stale_if_error_s)),
        ("directives", (!flags.is_empty()).then(|| flags.join(", "))),
        ("size", Some(format!("{}, body {}", bytes(stored.bytes), bytes(stored.body_bytes)))),
        ("compressed for all", (!stored.encoded.is_empty()).then(|| encoded.join(", "))),
        ("hits", Some(grouped(stored.hits.into()))),
        ("tags", (!stored.tags.is_empty()).then(|| stored.tags.join(" "))),
        ("content type", stored.content_type.clone()),
        ("etag", stored.etag.clone()),
        ("last modified", stored.last_modified.clone()),
    ];
    let lines = lines.into_iter().filter_map(|(name, value)| Some(format!("  {name:<24}{}\n", value?)));
    format!("{}\n{}", stored.url, lines.collect::<String>())
}

fn purged(done: &PurgeDone) -> String {
    let what = if done.soft { "made stale" } else { "removed" };
    format!("{}: {} {what}, {}\n", done.purged, counted(done.objects, "response"), bytes(done.bytes))
}

/// Number of things with their name, in the plural unless the number is 1.
fn counted(count: u64, name: &str) -> String {
    format!("{} {name}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// Seconds with two units at most.
fn seconds(seconds: i64) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    format!("{sign}{}", ago(seconds.unsigned_abs().saturating_mul(1000)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_view::cache::{EncodedBody, Evicted, NotStored};

    #[test]
    fn the_state_has_what_is_in_memory_and_each_route() {
        let reasons = vec![NotStored { text: "no-store".into(), responses: 1200, ..NotStored::default() }];
        let route =
            CacheRoute { route: "shop".into(), hit: 1234, hit_ratio: Some(0.5), reasons, ..CacheRoute::default() };
        let evicted = Evicted { entries: 3, mean_age_ms: Some(61_000.0), ..Evicted::default() };
        let cache = Cache {
            bytes: 1500,
            capacity: 3000,
            objects: 2,
            evicted,
            purged: 7,
            routes: vec![route],
            ..Cache::default()
        };
        let text = state(&cache);
        for part in [
            "1.50 kB of 3.00 kB in use (50%): 2 responses",
            "3 evicted 1m01s after they were stored",
            "7 purged\n",
            "shop   50%        -      1,234",
            "route shop did not store:\n",
            "1,200      no-store",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }

    #[test]
    fn a_disk_has_two_lines_and_a_third_one_if_it_is_not_open() {
        let open = CacheDisk {
            path: "/var/cache/evenkeel".into(),
            state: "open".into(),
            is_open: true,
            bytes: 500,
            capacity: 1000,
            objects: 1,
            reads: 7,
            ..CacheDisk::default()
        };
        assert_eq!(
            disk(&open),
            "on disk: 500 B of 1.00 kB in use (50%): 1 response in /var/cache/evenkeel\non disk: 7 read\n"
        );
        let off = CacheDisk { state: "off: cannot write".into(), is_open: false, reads: 0, ..open };
        assert!(disk(&off).ends_with("in /var/cache/evenkeel\non disk: off: cannot write\n"), "{}", disk(&off));
    }

    #[test]
    fn a_stored_response_says_how_fresh_it_is() {
        let fresh =
            StoredResponse { ttl_s: 61, lifetime_by: "max-age".into(), lifetime_s: 120, ..StoredResponse::default() };
        assert!(one(&fresh).contains("fresh for 1m01s more"), "{}", one(&fresh));
        let over = StoredResponse { ttl_s: -5, made_stale: true, ..fresh.clone() };
        assert!(one(&over).contains("stale for 5s by a soft purge"));
        assert!(!one(&fresh).contains("compressed for all"));
        let form = |coding: &str, bytes| EncodedBody { coding: coding.into(), bytes };
        let encoded = vec![form("zstd", 1500), form("gzip", 1700)];
        let forms = one(&StoredResponse { encoded, ..fresh.clone() });
        assert!(forms.contains("  compressed for all      zstd 1.50 kB, gzip 1.70 kB\n"), "{forms}");
        assert!(one(&StoredResponse { no_cache: true, ..fresh }).contains("validated before each use"));
        let done = PurgeDone { purged: "tag a".into(), soft: true, objects: 1, bytes: 500 };
        assert_eq!(purged(&done), "tag a: 1 response made stale, 500 B\n");
    }
}

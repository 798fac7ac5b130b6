//! The cache as operators see it: state, lists, purges, predictions, and the access log.

use super::basics::{cached, get, with};
use crate::support::log::Log;
use crate::support::{Endpoint, Proxy};
use evenkeel_proxy::CacheRefused;
use evenkeel_view::cache::{Purge, PurgeDone, TopBy};
use evenkeel_view::described::Parts;
use std::time::Duration;

/// Endpoint whose responses have a tag and vary by the language.
fn tagged() -> Endpoint {
    let fields = "Cache-Control: max-age=60\r\nETag: \"a\"\r\nVary: Accept-Language\r\nSurrogate-Key: all shop\r\n";
    Endpoint::answering(move |request| match request.line().split(' ').nth(1) {
        Some("/private") => with("200 OK", "Cache-Control: private\r\n", "hello"),
        Some("/plain") => with("200 OK", "Cache-Control: max-age=60\r\n", "hello"),
        _ => with("200 OK", fields, "hello"),
    })
}

/// The present, on the workers' clock.
pub fn purge(proxy: &Proxy, purge: &Purge) -> PurgeDone {
    let purging = proxy.server().numbers().purge_cache(purge).expect("it is an order");
    purging.end().expect("there is neither another process nor a disk")
}

#[test]
fn the_state_has_what_became_of_requests_and_what_is_stored() {
    let endpoint = tagged();
    let proxy = cached(endpoint.addr, "{ headers = ['x-tenant'], query_ignore = ['utm'] }");
    let mut client = proxy.client();
    for (path, fields) in [
        ("/a?utm=1", "Accept-Language: de\r\nX-Tenant: t\r\n"),
        ("/a?utm=2", "Accept-Language: de\r\nX-Tenant: t\r\n"),
        ("/a", "X-Tenant: t\r\n"),
        ("/a", ""),
        ("/private", ""),
    ] {
        get(&mut client, path, fields);
    }
    let numbers = proxy.server().numbers();
    let shown = numbers.shown_cache().expect("a route has a cache");
    assert_eq!((shown.entries, shown.objects, shown.inserted, shown.capacity), (2, 3, 3, 256 << 20));
    let route = &shown.routes[0];
    assert_eq!((route.hit, route.stored, route.not_stored, route.hit_ratio), (1, 3, 1, Some(0.2)));
    assert_eq!((&*route.reasons[0].reason, route.reasons[0].responses), ("private", 1));
    let all = numbers.cache_show("HTTP://A:80/a?utm=9").expect("it is a URL");
    assert_eq!(all.len(), 3);
    let one = all.iter().find(|one| one.varies_by == ["accept-language: de"]).expect("it is stored");
    assert_eq!((&*one.url, &one.key_fields[..], one.status), ("http://a/a", &["x-tenant: t".to_owned()][..], 200));
    assert_eq!((one.lifetime_s, &*one.lifetime_by, one.body_bytes), (60, "max-age", 5));
    assert_eq!((&one.tags[..], one.etag.as_deref()), (&["all".to_owned(), "shop".to_owned()][..], Some("\"a\"")));
    assert!(all.iter().any(|one| one.key_fields == ["x-tenant"] && one.varies_by == ["accept-language"]));
    let top = numbers.cache_top(1, TopBy::Hits).expect("a route has a cache");
    assert_eq!((top.len(), &*top[0].url, top[0].hits, top[0].variants), (1, "http://a/a", 1, 2));
    assert_eq!(numbers.cache_top(9, TopBy::Size).map(|top| top.len()), Ok(2));
}

#[test]
fn purges_are_complete_at_once_and_counted_at_their_end() {
    let endpoint = tagged();
    let proxy = cached(endpoint.addr, "{ query = 'sorted' }");
    let mut client = proxy.client();
    let fill = |client: &mut crate::support::Client| {
        for path in ["/img/a", "/img/b?y=1&x=2", "/plain"] {
            get(client, path, "");
        }
    };
    fill(&mut client);
    let url = Purge { url: Some("http://A/img/b?x=2&y=1".into()), ..Purge::default() };
    let done = purge(&proxy, &url);
    assert_eq!((done.objects, &*done.purged), (1, "url http://a/img/b?x=2&y=1"));
    assert!(get(&mut client, "/img/b?y=1&x=2", "").1.starts_with("fwd=uri-miss"));
    for (order, objects) in [
        (Purge { prefix: Some("http://a:80/img/".into()), ..Purge::default() }, 2),
        (Purge { tag: Some("shop".into()), ..Purge::default() }, 2),
        (Purge { all: true, ..Purge::default() }, 3),
    ] {
        fill(&mut client);
        let done = purge(&proxy, &order);
        assert_eq!((done.objects, done.bytes > 0), (objects, true), "{order:?}");
        assert!(get(&mut client, "/img/a", "").1.starts_with("fwd=uri-miss"), "{order:?}");
    }
    fill(&mut client);
    assert_eq!(purge(&proxy, &Purge { tag: Some("shop".into()), soft: true, ..Purge::default() }).objects, 2);
    assert!(get(&mut client, "/plain", "").1.starts_with("hit"));
    assert!(get(&mut client, "/img/a", "").1.starts_with("fwd=stale"), "what was made stale is validated");
    assert_eq!(
        purge(&proxy, &Purge { prefix: Some("http://a".into()), ..Purge::default() }).purged,
        "prefix http://a/"
    );
}

#[test]
fn a_sweep_finishes_purges_and_drops_what_nothing_serves_any_more() {
    let endpoint = tagged();
    let proxy = cached(endpoint.addr, "true");
    let numbers = proxy.server().numbers();
    let objects = || numbers.shown_cache().expect("a route has a cache").objects;
    let mut client = proxy.client();
    ["/img/a", "/plain"].iter().for_each(|path| _ = get(&mut client, path, ""));
    // Whoever has ordered it does not wait for its end.
    let order = Purge { tag: Some("shop".into()), ..Purge::default() };
    drop(numbers.purge_cache(&order).expect("it is an order"));
    assert_eq!(objects(), 2);
    numbers.sweep_cache();
    assert_eq!(objects(), 1);
    get(&mut client, "/img/a", "");
    for (seconds, left) in [(650, 2), (20, 1)] {
        numbers.skip_cache_time(Duration::from_secs(seconds));
        numbers.sweep_cache();
        assert_eq!(objects(), left, "what can be validated stays");
    }
    assert!(proxy.metrics().lines().any(|line| line == "evenkeel_cache_expired_total 1"));
}

#[test]
fn after_a_soft_purge_failures_are_answered_for_the_time_of_stale_if_error_from_then_on() {
    for (cache, status) in [("true", 503), ("{ stale_if_error = '1m' }", 200)] {
        let endpoint = Endpoint::answering(|request| match request.field("if-none-match") {
            None => with("200 OK", "Cache-Control: max-age=3600\r\nETag: \"a\"\r\n", "hello"),
            Some(_) => with("503 Service Unavailable", "", "down"),
        });
        let proxy = cached(endpoint.addr, cache);
        let mut client = proxy.client();
        get(&mut client, "/a", "");
        purge(&proxy, &Purge { url: Some("http://a/a".into()), soft: true, ..Purge::default() });
        proxy.server().numbers().skip_cache_time(Duration::from_secs(50));
        let (got, state, _) = get(&mut client, "/a", "");
        assert_eq!((got, state.contains("ttl=-50")), (status, status == 200), "{cache}: {state}");
        proxy.server().numbers().skip_cache_time(Duration::from_secs(20));
        assert_eq!(get(&mut client, "/a", "").0, 503, "{cache}");
    }
}

#[test]
fn metrics_have_the_memory_and_what_left_it() {
    let endpoint = tagged();
    let proxy = cached(endpoint.addr, "true");
    get(&mut proxy.client(), "/a", "");
    get(&mut proxy.client(), "/a", "Accept-Language: de\r\n");
    purge(&proxy, &Purge { tag: Some("shop".into()), soft: true, ..Purge::default() });
    let metrics = proxy.metrics();
    for line in [
        "evenkeel_cache_capacity_bytes 268435456",
        "evenkeel_cache_entries 1",
        "evenkeel_cache_objects 2",
        "evenkeel_cache_inserted_total 2",
        "evenkeel_cache_evicted_total 0",
        "evenkeel_cache_made_stale_total 2",
        "evenkeel_cache_refused_total{reason=\"too_large\"} 0",
        "evenkeel_cache_fetches_behind 0",
    ] {
        assert!(metrics.lines().any(|known| known == line), "no {line} in {metrics}");
    }
    assert!(!Proxy::before(&[endpoint.addr]).metrics().contains("evenkeel_cache_bytes"), "no route has a cache");
}

#[test]
fn orders_that_cannot_be_understood_change_nothing() {
    let endpoint = tagged();
    let proxy = cached(endpoint.addr, "true");
    let numbers = proxy.server().numbers();
    for (order, why) in [
        (Purge { url: Some("/a".into()), ..Purge::default() }, "\"/a\" is not a whole URL"),
        (Purge { url: Some("http://a/#b".into()), ..Purge::default() }, "cannot be a stored URL"),
        (Purge { prefix: Some("htt".into()), ..Purge::default() }, "\"htt\" is not a whole URL"),
        (Purge { tag: Some("".into()), ..Purge::default() }, "a tag has 1 to 256 bytes"),
        (Purge::default(), "a purge needs one of"),
    ] {
        match numbers.purge_cache(&order) {
            Err(CacheRefused::Malformed(text)) => assert!(text.contains(why), "{order:?}: {text}"),
            other => panic!("{order:?}: {other:?}"),
        }
    }
    let plain = Proxy::before(&[endpoint.addr]);
    let numbers = plain.server().numbers();
    assert_eq!(numbers.shown_cache(), None);
    assert_eq!(numbers.cache_show("http://a/"), Err(CacheRefused::NoCache));
    assert_eq!(numbers.cache_top(1, TopBy::Hits), Err(CacheRefused::NoCache));
    let all = Purge { all: true, ..Purge::default() };
    assert_eq!(numbers.purge_cache(&all).map(drop), Err(CacheRefused::NoCache));
}

#[test]
fn a_described_request_is_told_what_is_stored_for_it() {
    let endpoint = tagged();
    let proxy = cached(endpoint.addr, "{ stale_while_revalidate = '10s' }");
    let would = |method: &str, target: &str, fields: &[(&str, &str)]| {
        let described = Parts {
            method: method.into(),
            host: "a".into(),
            target: target.into(),
            fields: fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            listener: None,
            client: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
        let would = runtime.block_on(proxy.server().looker().would_go(described)).expect("it is answered");
        let filter = would.filters.iter().find(|filter| filter.name == "cache").map(|filter| filter.would.to_string());
        let answer = would.answer.map(|answer| format!("{}: {}", answer.status, answer.why));
        (answer.or(filter).unwrap_or_default(), would.pick.is_some())
    };
    let fetches = "would fetch the response for http://a/a, as nothing is stored";
    assert_eq!(would("GET", "/a", &[]), (fetches.into(), true));
    assert_eq!(would("POST", "/a", &[]), ("passes the cache by: method is neither GET nor HEAD".into(), true));
    get(&mut proxy.client(), "/a", "Accept-Language: de\r\n");
    let others =
        "would fetch the response for http://a/a, as what is stored is for other requests: accept-language: de";
    assert_eq!(would("GET", "/a", &[]), (others.into(), true));
    let (hit, is_picked) = would("GET", "/a", &[("Accept-Language", "de")]);
    assert!(hit.starts_with("200: hit: age 0 s, fresh for 60 s more by max-age") && !is_picked, "{hit}");
    proxy.server().numbers().skip_cache_time(Duration::from_secs(65));
    let (stale, _) = would("GET", "/a", &[("Accept-Language", "de")]);
    assert!(stale.starts_with("200: stale, and a new one is fetched behind it: age 65 s, stale for 5 s"), "{stale}");
    proxy.server().numbers().skip_cache_time(Duration::from_secs(65));
    let (over, is_picked) = would("GET", "/a", &[("Accept-Language", "de")]);
    assert!(over.starts_with("would ask the endpoint whether the stored response still holds"), "{over}");
    assert!(is_picked && over.ends_with("stale for 70 s by max-age"), "{over}");
    assert_eq!(endpoint.seen().len(), 1, "nothing was sent");
    assert_eq!(proxy.server().numbers().shown_cache().expect("a cache").routes[0].asked(), 1, "nothing was counted");
}

#[test]
fn the_access_log_has_the_result() {
    for format in ["json", "%{cache} %{status}"] {
        let (endpoint, log) = (tagged(), Log::new());
        let path = log.0.to_str().expect("a name of ours");
        let more = format!(
            "[[route]]\npool = 'web'\ncache = true\n[[route]]\nmatch = {{ path = '/none' }}\npool = 'web'\n\
             [telemetry]\naccess_log = {{ path = {path:?}, format = '{format}' }}"
        );
        let mut proxy = Proxy::with(&[endpoint.addr], "", "", &more);
        let mut client = proxy.client();
        for path in ["/a", "/a", "/private", "/none"] {
            get(&mut client, path, "");
        }
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").response();
        crate::support::wait_until("no request is in flight", || proxy.in_flight() == 0);
        proxy.stop();
        let text = std::fs::read_to_string(&log.0).expect("the proxy made it");
        let results: Vec<&str> = match format {
            "json" => text
                .lines()
                .map(|line| line.split("\"cache\":\"").nth(1).map_or("-", |rest| rest.split('"').next().unwrap_or("-")))
                .collect(),
            _ => text.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect(),
        };
        assert_eq!(results, ["stored", "hit", "not_stored", "-", "passed"], "{text}");
    }
}

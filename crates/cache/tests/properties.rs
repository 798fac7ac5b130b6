//! Properties that hold for any fields, requests and moments.

use evenkeel_cache::answer::Answer;
use evenkeel_cache::decide::{Decision, decide, on_error, validators};
use evenkeel_cache::freshen::{Freshened, OfHead, by_head, freshen};
use evenkeel_cache::invalidate::invalidated;
use evenkeel_cache::key::{Key, KeyRules, Place};
use evenkeel_cache::lookup::Lookup;
use evenkeel_cache::moment::{Date, Moment};
use evenkeel_cache::policy::{Heuristic, Policy, SetCookie};
use evenkeel_cache::range::{Slice, slice};
use evenkeel_cache::reply::Reply;
use evenkeel_cache::storable::storable;
use evenkeel_cache::stored::Stored;
use evenkeel_cache::syntax::structured::dictionary;
use evenkeel_cache::{status, vary};
use evenkeel_wire::head::{Request, Table};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

type FieldList = Vec<(&'static str, Vec<u8>)>;

const RECEIVED: Moment = Moment(1_700_000_000_000);

/// Values that mean something to a cache.
const VALUES: [&str; 34] = [
    "max-age=60",
    "max-age=0",
    "max-age=60, must-revalidate",
    "s-maxage=5, stale-while-revalidate=7",
    "max-age=60, stale-if-error=99999999999",
    "no-cache",
    "no-cache=\"a, content-language\", max-age=4294967296",
    "no-store",
    "private",
    "public",
    "immutable, max-age=1",
    "min-fresh=10",
    "max-stale",
    "only-if-cached",
    "Tue, 14 Nov 2023 22:13:20 GMT",
    "Tue, 14 Nov 2023 22:14:20 GMT",
    "Tue, 14 Nov 2023 22:10:20 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "\"a\"",
    "W/\"a\"",
    "\"b\", \"a\"",
    "*",
    "0",
    "7",
    "2147483648",
    "18446744073709551616",
    "Accept-Language, A",
    "en;q=0.5, de",
    "bytes=0-1",
    "bytes=-3",
    "a, b",
    "/made?x",
    "gzip",
    "",
];

const OF_RESPONSES: [&str; 17] = [
    "Cache-Control",
    "CDN-Cache-Control",
    "Expires",
    "Date",
    "Age",
    "ETag",
    "Last-Modified",
    "Vary",
    "Set-Cookie",
    "Connection",
    "Content-Length",
    "Content-Encoding",
    "Content-Language",
    "Location",
    "Surrogate-Key",
    "Cache-Tag",
    "A",
];

const OF_REQUESTS: [&str; 10] = [
    "Cache-Control",
    "Pragma",
    "If-None-Match",
    "If-Modified-Since",
    "If-Range",
    "Range",
    "Authorization",
    "Accept-Language",
    "Cookie",
    "A",
];

fn fields(names: &'static [&'static str]) -> impl Strategy<Value = FieldList> {
    let value = prop_oneof![
        4 => select(&VALUES[..]).prop_map(|value| value.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..20),
    ];
    vec((select(names), value), 0..8)
}

fn policy() -> impl Strategy<Value = Policy> {
    let cookies = select(&[SetCookie::Refuse, SetCookie::Strip, SetCookie::Store][..]);
    (any::<[bool; 6]>(), 0..100u32, 0..100u32, cookies).prop_map(|(flags, min, window, set_cookie)| Policy {
        lifetime_min: if flags[0] { min } else { 0 },
        lifetime_max: if flags[1] { 50 } else { u32::MAX },
        lifetime_by_status: if flags[2] { vec![(200..=599, u32::MAX)] } else { Vec::new() },
        heuristic: flags[3].then_some(Heuristic { percent: 255, max: u32::MAX }),
        stale_while_revalidate: window,
        stale_if_error: window / 2,
        set_cookie,
        request_directives: flags[4],
        sends_tags: flags[5],
        selects_language: flags[0],
        ..Policy::default()
    })
}

fn table(fields: &FieldList) -> Table {
    fields.iter().map(|(name, value)| (name.as_bytes(), &value[..])).collect()
}

/// Calls `f` with a GET of these fields.
fn asked<T>(fields: &FieldList, f: impl FnOnce(&Request<'_, '_>) -> T) -> T {
    f(&Request { method: "GET", target: "/a/b?c", host: b"a.example", fields: table(fields).fields() })
}

fn stored(request: &FieldList, status: u16, response: &FieldList, policy: &Policy) -> Option<Stored> {
    asked(request, |request| {
        let lookup = Lookup::of(request, false, policy).ok()?;
        let mut response = table(response);
        let reply =
            Reply { status, fields: &response.fields(), sent: RECEIVED, received: RECEIVED, arrived: Date(RECEIVED.0) };
        storable(request, &lookup, &reply, policy).ok()
    })
}

fn later(seconds: u32) -> Moment {
    RECEIVED.plus(seconds)
}

proptest! {
    #[test]
    fn nothing_panics_and_what_is_stored_is_a_head(
        request in fields(&OF_REQUESTS),
        other in fields(&OF_REQUESTS),
        status in select(&[200, 204, 206, 301, 404, 503, 599][..]),
        response in fields(&OF_RESPONSES),
        renewal in fields(&OF_RESPONSES),
        policy in policy(),
        seconds: u32,
    ) {
        let now = later(seconds);
        asked(&request, |request| invalidated(&Request { method: "PUT", target: request.target, host: request.host, fields: table(&other).fields() }, true, status, &table(&response).fields()));
        let Some(stored) = stored(&request, status, &response, &policy) else { return Ok(()) };
        prop_assert!(stored.lines().is_empty() || stored.lines().ends_with(b"\r\n"));
        let read: Table = { let mut read = Table::default(); read.push_lines(stored.lines()); read };
        // Values are those that came, without the white space that lines lose.
        prop_assert_eq!(read.iter().count(), stored.fields().count());
        for (name, value) in stored.fields() {
            prop_assert!(!value.iter().any(|b| matches!(b, b'\r' | b'\n')));
            for unstored in ["age", "connection", "content-length"] {
                prop_assert!(!name.eq_ignore_ascii_case(unstored.as_bytes()));
            }
        }
        prop_assert!(stored.field("date").is_some());
        // The request that it was stored for is one that it serves.
        prop_assert!(asked(&request, |request| vary::serves(&stored, request, &policy)));
        asked(&other, |request| -> Result<(), TestCaseError> {
            vary::serves(&stored, request, &policy);
            let Ok(lookup) = Lookup::of(request, false, &policy) else { return Ok(()) };
            decide(&stored, &lookup, now);
            on_error(&stored, now);
            let own: Vec<_> = validators(&stored).collect();
            prop_assert_eq!(own.is_empty(), !stored.has_validator());
            for length in [0, 1, 10] {
                let answer = Answer::new(&stored, request, length);
                let mut names = Vec::new();
                answer.fields(&stored, now, |name, _| names.push(name.to_ascii_lowercase()));
                prop_assert_eq!(names.iter().filter(|name| *name == b"age").count(), 1);
                prop_assert!(names.iter().filter(|name| *name == b"content-length").count() <= 1);
                if let Some(body) = &answer.body {
                    prop_assert!(body.start <= body.end && body.end <= length);
                }
            }
            let mut renewal = table(&renewal);
            let reply = Reply { status: 304, fields: &renewal.fields(), sent: now, received: now, arrived: Date(now.0) };
            freshen(&stored, request, &reply, &policy);
            by_head(&stored, 10, request, &Reply { status: 200, ..reply }, &policy);
            Ok(())
        })?;
    }

    #[test]
    fn a_response_is_never_fresh_after_it_was_stale(
        response in fields(&OF_RESPONSES),
        policy in policy(),
        directives in fields(&OF_REQUESTS),
        mut times in vec(prop_oneof![0..300u32, any::<u32>()], 2..10),
    ) {
        let Some(stored) = stored(&Vec::new(), 200, &response, &policy) else { return Ok(()) };
        times.sort_unstable();
        let of = |lookup: &Lookup| times.iter().map(|seconds| rank(decide(&stored, lookup, later(*seconds)))).collect::<Vec<_>>();
        let any = of(&Lookup::default());
        prop_assert!(any.is_sorted(), "{any:?}");
        if let Ok(lookup) = asked(&directives, |request| Lookup::of(request, false, &policy)) {
            let wanted = of(&lookup);
            prop_assert!(wanted.is_sorted(), "{wanted:?}");
        }
        let errors: Vec<bool> = times.iter().map(|seconds| !on_error(&stored, later(*seconds))).collect();
        prop_assert!(errors.is_sorted());
        let ages: Vec<u32> = times.iter().map(|seconds| stored.terms.age(later(*seconds))).collect();
        prop_assert!(ages.is_sorted());
        // Nothing is served unasked after the moment at which a store may drop it.
        let after = Moment(stored.terms.useful_until().0.max(RECEIVED.0));
        prop_assert!(rank(decide(&stored, &Lookup::default(), after)) == 3 && !on_error(&stored, after));
    }

    #[test]
    fn equal_keys_are_of_equal_parts(a in parts(), b in parts()) {
        let (key_a, key_b) = (key(&a), key(&b));
        if let (Some(key_a), Some(key_b)) = (key_a, key_b) {
            prop_assert_eq!(key_a == key_b, meaning(&a) == meaning(&b), "{:?} {:?}", a, b);
            prop_assert_eq!(key_a.url() == key_b.url(), meaning(&a).url() == meaning(&b).url());
        }
    }

    #[test]
    fn a_range_is_the_slice_that_it_names(length in 0..20u64, first in 0..30u64, last in 0..30u64) {
        let body: Vec<u64> = (0..length).collect();
        let cut = |value: String| match slice(Some(value.as_bytes()), length) {
            Slice::Whole => Ok(body.clone()),
            Slice::Part(bytes) => Ok(body[bytes.start as usize..bytes.end as usize].to_vec()),
            Slice::Unsatisfiable => Err(()),
        };
        let picked = |is_in: &dyn Fn(u64) -> bool| body.iter().copied().filter(|at| is_in(*at)).collect::<Vec<_>>();
        let or_none = |bytes: Vec<u64>| match bytes {
            _ if length == 0 => Ok(Vec::new()),
            bytes if bytes.is_empty() => Err(()),
            bytes => Ok(bytes),
        };
        if first <= last {
            prop_assert_eq!(cut(format!("bytes={first}-{last}")), or_none(picked(&|at| (first..=last).contains(&at))));
        } else {
            prop_assert_eq!(cut(format!("bytes={first}-{last}")), Ok(body.clone()));
        }
        prop_assert_eq!(cut(format!("bytes={first}-")), or_none(picked(&|at| at >= first)));
        prop_assert_eq!(cut(format!("bytes=-{last}")), or_none(picked(&|at| at + last >= length)));
    }

    #[test]
    fn renewal_keeps_what_describes_the_bytes(
        response in fields(&OF_RESPONSES),
        renewal in fields(&OF_RESPONSES),
        policy in policy(),
        seconds in 0..10_000u32,
    ) {
        let Some(old) = stored(&Vec::new(), 200, &response, &policy) else { return Ok(()) };
        let now = later(seconds);
        let (renewed, by_head) = asked(&Vec::new(), |request| {
            let mut renewal = table(&renewal);
            let reply = Reply { status: 304, fields: &renewal.fields(), sent: now, received: now, arrived: Date(now.0) };
            (freshen(&old, request, &reply, &policy), by_head(&old, 10, request, &Reply { status: 200, ..reply }, &policy))
        });
        let of_304 = match renewed { Freshened::Kept(new) => Some(new), _ => None };
        let of_head = match by_head { OfHead::Kept(new) => Some(new), _ => None };
        for new in of_304.into_iter().chain(of_head) {
            for name in ["etag", "content-encoding"] {
                prop_assert!(old.field(name).is_none() || new.field(name) == old.field(name));
            }
            prop_assert_eq!(new.status, old.status);
            prop_assert_eq!(new.terms.received, now);
        }
    }

    #[test]
    fn any_cache_status_is_a_structured_value(key in vec(any::<u8>(), 0..20), name in vec(32..127u8, 1..9), ttl: i64) {
        let mut out = b"a=1, b=".to_vec();
        let ttl = ttl % 1_000_000;
        status::CacheStatus { key: Some(&key), ttl: Some(ttl), ..Default::default() }
            .write(std::str::from_utf8(&name).unwrap(), &mut out);
        prop_assert!(dictionary([&out[..]].into_iter()).is_some(), "{}", String::from_utf8_lossy(&out));
    }
}

/// Decisions from the best to the worst. For a request that forbids both, fresh and stale are the same.
fn rank(decision: Decision) -> u8 {
    match decision {
        Decision::Fresh => 0,
        Decision::StaleWhileRevalidate => 1,
        Decision::StaleAccepted => 2,
        Decision::Validate(_) | Decision::OnlyIfCached => 3,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    is_https: bool,
    host: String,
    target: String,
    route: String,
    user: Option<String>,
    x: Vec<String>,
    y: Vec<String>,
}

impl Parts {
    fn url(&self) -> (bool, &str, &str) {
        (self.is_https, &self.host, &self.target)
    }
}

fn parts() -> impl Strategy<Value = Parts> {
    let host = select(&["a", "A", "b", "a.", "a:80", "a:443", "a.:80", "a:8080", "ab", "[::1]"][..]);
    let text = || select(&["", "a", "b", "ab", "\0", "a\0"][..]).prop_map(str::to_owned);
    let texts = || vec(text(), 0..3);
    (any::<bool>(), host, "/[a/?&=]{0,3}", text(), proptest::option::of(text()), texts(), texts()).prop_map(
        |(is_https, host, target, route, user, x, y)| Parts { is_https, host: host.into(), target, route, user, x, y },
    )
}

/// Parts as they count: the host without what is the same in every spelling.
fn meaning(parts: &Parts) -> Parts {
    let port = if parts.is_https { ":443" } else { ":80" };
    let host = parts.host.to_lowercase();
    let host = host.strip_suffix(port).unwrap_or(&host);
    // No name here has a dot but at its end.
    Parts { host: host.replace('.', ""), ..parts.clone() }
}

fn key(parts: &Parts) -> Option<Key> {
    let rules = KeyRules { fields: vec!["x".into(), "y".into()], ..KeyRules::default() };
    let of = |name: &'static str, values: &[String]| {
        values.iter().map(|v| (name, v.as_bytes().to_vec())).collect::<Vec<_>>()
    };
    let fields: FieldList = [of("X", &parts.x), of("Y", &parts.y)].concat();
    let user = parts.user.as_deref().map(str::as_bytes);
    let place = Place { is_https: parts.is_https, route: &parts.route, user, ..Place::default() };
    let mut fields = table(&fields);
    let request =
        Request { method: "GET", target: &parts.target, host: parts.host.as_bytes(), fields: fields.fields() };
    rules.key(&request, &place).ok()
}

//! `cache` of a route: stored responses, and the requests that they serve. See [`Cache`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Form, read_statuses, status_text};
use crate::table::{Absent, DAY, Declared, Field, Key, Kind, Section, Value, table, words};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

const YEAR: u64 = 365 * DAY;

table! {
    static CACHE_TABLE = "cache of [[route]]",
        "Stores responses to GET as RFC 9111 allows for a shared cache, and serves them to GET and HEAD. \
        `CDN-Cache-Control`, `Cache-Control` or `Expires` of the response set its lifetime. A response without any of \
        them is not stored, unless `ttl` or `heuristics` sets a lifetime. Access filters come before the cache. \
        `[cache]` limits the memory of all routes together.";

    /// `cache` of a route.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Cache {
        /// Lifetime of responses that do not state a lifetime, by status.
        ttl: StatusTimes = Key {
            name: "ttl",
            kind: Kind::Map { keys: Form::Status, of: &Kind::Duration { min: 0, max: YEAR, off: false } },
            absent: Absent::Means("responses that state no lifetime are not stored"),
            help: "Lifetime of responses that do not state a lifetime, by status or range of statuses: `{ \"200\" = \
                \"10m\", \"404\" = \"30s\" }`. Errors other than 404, 405, 410, 414, 451 and 501 are stored only if \
                they are listed here, whatever lifetime they state.",
            why: "Other errors may be due to a field of one request, such as a long cookie, and every client would get \
                them.",
        };
        /// Shortest lifetime, also of responses that state less; zero = as they state.
        min_ttl: Duration = Key {
            name: "min_ttl",
            kind: Kind::Duration { min: 0, max: YEAR, off: false },
            absent: Absent::Default("\"0s\""),
            help: "Shortest lifetime of a response that may be stored. A value above 0 serves responses for longer \
                than they state.",
            why: "",
        };
        /// Longest lifetime, also of responses that state more.
        max_ttl: Duration = Key {
            name: "max_ttl",
            kind: Kind::Duration { min: 0, max: YEAR, off: false },
            absent: Absent::Default("\"7d\""),
            help: "Longest lifetime of a response, even if the response states more.",
            why: "A lifetime of a year, stated by mistake, ends within a week.",
        };
        /// True if a lifetime is guessed from `Last-Modified` where none is stated (RFC 9111 section 4.2.2).
        heuristics: bool = Key {
            name: "heuristics",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Guesses a lifetime if the response does not state a lifetime: a tenth of the time since \
                `Last-Modified`, at most a day.",
            why: "A guess can be wrong, and nothing in the response would explain it.",
        };
        /// Time after its lifetime in which a response is served during a fetch, unless it states a time.
        stale_while_revalidate: Duration = Key {
            name: "stale_while_revalidate",
            kind: Kind::Duration { min: 0, max: YEAR, off: false },
            absent: Absent::Default("\"0s\""),
            help: "Time after the end of its lifetime in which a response is still served while a new response is \
                fetched. A time that the response states itself is preferred (RFC 5861).",
            why: "",
        };
        /// Time after its lifetime in which a response is served if the endpoints fail, unless it states a time.
        stale_if_error: Duration = Key {
            name: "stale_if_error",
            kind: Kind::Duration { min: 0, max: YEAR, off: false },
            absent: Absent::Default("\"0s\""),
            help: "Time after the end of its lifetime in which a response is still served if no endpoint responds, or \
                an endpoint returns 500, 502, 503 or 504. A time that the response states itself is preferred (RFC \
                5861).",
            why: "",
        };
        /// Longest wait for the response that another request fetches; `None` = no request waits.
        collapse: Option<Duration> = Key {
            name: "collapse",
            kind: Kind::Duration { min: 1_000_000, max: DAY, off: true },
            absent: Absent::Default("\"5s\""),
            help: "Longest wait of a request for a response that another request already fetches. After that, or once \
                the response turns out not to be for every client, the request fetches its own response.",
            why: "A thousand requests for an expired page become one request to the endpoint.",
        };
        /// Maximum whole responses to fetch at a time in the background of requests for a part.
        whole_fetches_max: usize = Key {
            name: "whole_fetches_max",
            kind: Kind::Int { min: 0, max: 1000 },
            absent: Absent::Default("8"),
            help: "Maximum whole responses to fetch at a time, over all routes, in the background of requests for a \
                part (`Range`). The next request is then served from the cache. Such a fetch begins only if the \
                partial response shows that the whole response may be stored and is not too large. `0` = none.",
            why: "A client can make the endpoints send at most eight times the largest response at a time.",
        };
        /// Part of the query in the key.
        query: CacheQuery = Key {
            name: "query",
            kind: Kind::Choice(CacheQuery::WORDS),
            absent: Absent::Default("\"all\""),
            help: "Part of the query in the cache key: `all`, byte for byte; `sorted`, where the order of parameters \
                does not matter; or `none`. The endpoint gets only that part.",
            why: "Requests with different queries may have different responses.",
        };
        /// Parameters that do not change the response. The endpoint does not get them.
        query_ignore: Vec<Arc<str>> = Key {
            name: "query_ignore",
            kind: Kind::List(&Kind::Text(Form::Token)),
            absent: Absent::Means("none"),
            help: "Query parameters that do not change the response, such as `utm_source`. They are not in the key, \
                and the endpoint does not get them.",
            why: "If endpoints got a parameter that is not in the key, one client could choose the response for all \
                others.",
        };
        /// Request fields that the cache key includes.
        headers: Vec<Arc<str>> = Key {
            name: "headers",
            kind: Kind::List(&Kind::Text(Form::Token)),
            absent: Absent::Means("only fields that responses list in Vary"),
            help: "Request fields that the cache key includes, in addition to the fields that responses list in \
                `Vary`. On GET and HEAD, fields that can override the scheme, host, path or method do not reach \
                endpoints unless they are listed here: `Forwarded`, `Front-End-Https`, `X-Envoy-Original-Path`, \
                `X-Forwarded-Path`, `X-Forwarded-Port`, `X-Forwarded-Prefix`, `X-Forwarded-Protocol`, `X-Forwarded-Scheme`, \
                `X-Forwarded-Server`, `X-Forwarded-Ssl`, `X-Forwarded-Uri`, `X-Host`, `X-HTTP-Host-Override`, \
                `X-HTTP-Method`, `X-HTTP-Method-Override`, `X-HTTP-Path-Override`, `X-Matched-Path`, \
                `X-Method-Override`, `X-Original-Host`, `X-Original-URI`, `X-Original-URL`, `X-Rewrite-URL`, \
                `X-Scheme`, `X-Script-Name`, `X-Url-Scheme`, and names that begin with `X-Invoke-`, \
                `X-Middleware-` or `X-Now-`. Any other field that changes a page without `Vary` \
                belongs here too, or in `remove` of `request_headers`.",
            why: "If an endpoint reads a field that is not in the key, one client can choose the response for all \
                others. Removing such fields is safe, and a warning would appear for every cached route.",
        };
        /// Maps whose values the cache key includes.
        maps: Vec<Arc<str>> = Key {
            name: "maps",
            kind: Kind::List(&Kind::Text(Form::Name)),
            absent: Absent::Means("none"),
            help: "Names of maps whose values the cache key includes, for example for a class of devices. A pool that a \
                map chooses is always in the key.",
            why: "",
        };
        /// True if each user of `basic_auth` or `jwt` has separate responses.
        by_user: bool = Key {
            name: "by_user",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Stores separate responses for each user of `basic_auth`, or each pair of the claims `iss` and `sub` \
                of `jwt`, and for each value that endpoints get from the token. Requests without such a user bypass \
                the cache. Without this key, a route with `basic_auth`, `jwt`, `forward_auth` or `client_auth` stores \
                only responses with `public`, `s-maxage` or `must-revalidate`.",
            why: "Most files are the same for all users, and their responses state that.",
        };
        /// Handling of responses that set cookies.
        set_cookie: CookieRule = Key {
            name: "set_cookie",
            kind: Kind::Choice(CookieRule::WORDS),
            absent: Absent::Default("\"refuse\""),
            help: "Handling of responses that set cookies. `refuse`: does not store them. `strip`: stores them without \
                the cookies. `store`: stores the cookies too, so that every client gets them.",
            why: "A page that sets a cookie is often meant for a single visitor.",
        };
        /// True if all errors that state a lifetime are stored.
        store_errors: bool = Key {
            name: "store_errors",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Stores every error that states a lifetime. Without this key, only 404, 405, 410, 414, 451, 501 and \
                the statuses in `ttl` are stored.",
            why: "Other errors may be due to a field that one client sent, and would be served to every client.",
        };
        /// True if `no-cache`, `max-age` and similar directives of requests are followed.
        client_directives: bool = Key {
            name: "client_directives",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Follows `Cache-Control` of requests: `no-cache`, `max-age`, `min-fresh`, `max-stale`, \
                `only-if-cached`.",
            why: "With it, every browser reload reaches the endpoints, and any client can bypass the cache.",
        };
        /// True if tags and targeted fields are forwarded to the client.
        pass_tags: bool = Key {
            name: "pass_tags",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Forwards `Surrogate-Key` and `Cache-Tag` to the client. They list the tags for purges.",
            why: "The tags show how the site is built.",
        };
        /// True if responses carry `Cache-Status` (RFC 9211).
        status_field: bool = Key {
            name: "status_field",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Adds `Cache-Status` (RFC 9211) to responses: a hit or a miss, and the reason.",
            why: "",
        };
    }
}

/// The key `cache` of routes.
pub(in crate::sections) const CACHE_KEY: Key = Key {
    name: "cache",
    kind: Kind::TableOrBool(&CACHE_TABLE),
    absent: Absent::Default("false"),
    help: "Stores responses, and serves them to later requests.",
    why: "",
};

words! {
    /// Part of the query that is in the key.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CacheQuery {
        /// All of it, byte for byte.
        All = "all",
        /// Its parameters in any order.
        Sorted = "sorted",
        /// No part of it, so that all queries of a path are the same.
        None = "none",
    }
}

words! {
    /// Handling of responses that set cookies.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CookieRule {
        /// Such responses are not stored at all.
        Refuse = "refuse",
        /// They are stored without their cookies.
        Strip = "strip",
        /// They are stored with their cookies.
        Store = "store",
    }
}

/// Times by status. Of several ranges with a status, the one with the fewest statuses counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusTimes(Vec<(RangeInclusive<u16>, Duration)>);

impl StatusTimes {
    /// Times with their statuses, those for the fewest statuses first.
    pub fn by_precedence(&self) -> Vec<(RangeInclusive<u16>, Duration)> {
        let mut times = self.0.clone();
        times.sort_by_key(|(statuses, _)| statuses.end() - statuses.start());
        times
    }
}

impl Field for StatusTimes {
    fn read(value: Value) -> StatusTimes {
        let times: Vec<(Arc<str>, Duration)> = Field::read(value);
        // Others were reported as their form was checked.
        StatusTimes(times.iter().filter_map(|(key, time)| Some((read_statuses(key)?, *time))).collect())
    }

    fn write(&self, _: &StatusTimes, kind: &Kind) -> String {
        let times = self.0.iter().map(|(range, time)| (Arc::from(status_text(range).trim_matches('"')), *time));
        times.collect::<Vec<(Arc<str>, Duration)>>().write(&Vec::new(), kind)
    }
}

/// Reports keys that contradict each other.
pub(in crate::sections) fn check(route: &Section, findings: &mut Findings) {
    let cache = route.section("cache");
    let set = Cache::of(&cache);
    if set.min_ttl > set.max_ttl {
        let message = "\"min_ttl\" is more than \"max_ttl\"";
        cache
            .contradiction(cache.span_of("min_ttl"), message, "max_ttl", findings)
            .help("make it smaller, or leave it out");
    }
    if set.query == CacheQuery::None && !set.query_ignore.is_empty() {
        let message = "\"query_ignore\" has no effect, as no part of the query is in the key";
        cache.contradiction(cache.span_of("query_ignore"), message, "query", findings).help("leave one of them out");
    }
    if set.by_user && !["basic_auth", "jwt"].iter().any(|key| route.has(key)) {
        let message = "\"by_user\" is for users of \"basic_auth\" or \"jwt\", and the route has neither";
        let help =
            "add one of them; for the users of \"forward_auth\", set `headers` to the field that the service sets";
        findings.add(Code::Missing, cache.span_of("by_user"), message).help(help);
    }
}

//! `cache` of a route: stored responses, and the requests that they answer. See [`Cache`].

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
        "Stores responses to GET as RFC 9111 allows a shared cache, and answers GET and HEAD with them. What the \
        response states decides: `CDN-Cache-Control`, `Cache-Control`, `Expires`. Without such a statement nothing is \
        stored. Access filters come before the cache. `[cache]` bounds the memory of all routes.";

    /// `cache` of a route.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Cache {
        /// Lifetime of responses that state none, by status.
        ttl: StatusTimes = Key {
            name: "ttl",
            kind: Kind::Map { keys: Form::Status, of: &Kind::Duration { min: 0, max: YEAR, off: false } },
            absent: Absent::Means("responses that state no lifetime are not stored"),
            help: "Lifetime of responses that state none, by status or range of statuses: `{ \"200\" = \"10m\", \"404\" = \
                \"30s\" }`. Errors other than 404, 405, 410, 414, 451 and 501 are stored only if they are named here, \
                whatever lifetime they state.",
            why: "Another error may be due to a field of one request, such as a long cookie, and all would get it.",
        };
        /// Shortest lifetime, also of responses that state less; zero = as they state.
        min_ttl: Duration = Key {
            name: "min_ttl",
            kind: Kind::Duration { min: 0, max: YEAR, off: false },
            absent: Absent::Default("\"0s\""),
            help: "Shortest lifetime of a response that may be stored. More than 0 serves it for longer than it states.",
            why: "",
        };
        /// Longest lifetime, also of responses that state more.
        max_ttl: Duration = Key {
            name: "max_ttl",
            kind: Kind::Duration { min: 0, max: YEAR, off: false },
            absent: Absent::Default("\"7d\""),
            help: "Longest lifetime of a response, also of one that states more.",
            why: "A mistaken year must not outlast the week in which it is noticed.",
        };
        /// True if a lifetime is guessed from `Last-Modified` where none is stated (RFC 9111 section 4.2.2).
        heuristics: bool = Key {
            name: "heuristics",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Guesses a lifetime where the response states none: a tenth of the time since `Last-Modified`, at most \
                a day.",
            why: "A guess can be wrong, and the response does not say why.",
        };
        /// Time after its lifetime in which a response is served while a new one is fetched, unless it states its own.
        stale_while_revalidate: Duration = Key {
            name: "stale_while_revalidate",
            kind: Kind::Duration { min: 0, max: YEAR, off: false },
            absent: Absent::Default("\"0s\""),
            help: "Time after its lifetime in which a response is served while a new one is fetched, unless the response \
                states its own (RFC 5861).",
            why: "",
        };
        /// Time after its lifetime in which a response is served if the endpoints fail, unless it states its own.
        stale_if_error: Duration = Key {
            name: "stale_if_error",
            kind: Kind::Duration { min: 0, max: YEAR, off: false },
            absent: Absent::Default("\"0s\""),
            help: "Time after its lifetime in which a response is served if no endpoint answers, or one answers 500, 502, \
                503 or 504, unless the response states its own (RFC 5861).",
            why: "",
        };
        /// Longest wait for the response that another request fetches; `None` = none waits.
        collapse: Option<Duration> = Key {
            name: "collapse",
            kind: Kind::Duration { min: 1_000_000, max: DAY, off: true },
            absent: Absent::Default("\"5s\""),
            help: "Longest wait of a request for the same response that another one already fetches. It then fetches its \
                own, as it does once the response turns out not to be for all.",
            why: "A thousand requests for an expired page are one for the endpoint.",
        };
        /// Most whole responses that are fetched at a time behind requests for a part.
        whole_fetches_max: usize = Key {
            name: "whole_fetches_max",
            kind: Kind::Int { min: 0, max: 1000 },
            absent: Absent::Default("8"),
            help: "Most responses that are fetched whole at a time, over all routes, behind requests for a part of them \
                (`Range`), so that the next one is answered from the cache. Such a fetch begins only if the part shows \
                that the whole may be stored and is not too large. `0` = none.",
            why: "A client can make the endpoints send eight times the largest response at a time, and no more.",
        };
        /// Part of the query in the key.
        query: CacheQuery = Key {
            name: "query",
            kind: Kind::Choice(CacheQuery::WORDS),
            absent: Absent::Default("\"all\""),
            help: "Part of the query that is in the key: `all` of it, byte for byte, `sorted` (parameters in any \
                order are the same), or `none`. The endpoint gets just that part.",
            why: "Two queries that differ may have different responses.",
        };
        /// Parameters that do not tell responses apart, which the endpoint does not get.
        query_ignore: Vec<Arc<str>> = Key {
            name: "query_ignore",
            kind: Kind::List(&Kind::Text(Form::Token)),
            absent: Absent::Means("none"),
            help: "Parameters that do not tell responses apart, such as `utm_source`. The endpoint does not get them.",
            why: "What the endpoint gets and the key lacks, one client could choose for all.",
        };
        /// Fields of requests that tell responses apart.
        headers: Vec<Arc<str>> = Key {
            name: "headers",
            kind: Kind::List(&Kind::Text(Form::Token)),
            absent: Absent::Means("none but those that responses name in Vary"),
            help: "Fields of requests that tell responses apart, in addition to those that responses name in `Vary`. Fields \
                by which clients name another scheme, host, path or method do not reach endpoints from GET and HEAD, \
                unless they are named here: `Forwarded`, `Front-End-Https`, `X-Forwarded-Path`, \
                `X-Forwarded-Port`, `X-Forwarded-Prefix`, `X-Forwarded-Protocol`, `X-Forwarded-Scheme`, \
                `X-Forwarded-Server`, `X-Forwarded-Ssl`, `X-Forwarded-Uri`, `X-Host`, `X-HTTP-Host-Override`, `X-HTTP-Method`, `X-HTTP-Method-Override`, \
                `X-Method-Override`, `X-Original-Host`, `X-Original-URI`, `X-Original-URL`, `X-Rewrite-URL`, \
                `X-Url-Scheme`. Any other field that endpoints write into pages without `Vary` belongs here \
                too, or into `remove` of `request_headers`.",
            why: "An endpoint that reads a field that the key lacks lets one client choose what all get. Removing such \
                fields is safe where a warning would come with every cached route.",
        };
        /// True if each user of `basic_auth` or `jwt` has responses of their own.
        by_user: bool = Key {
            name: "by_user",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Keeps responses apart for each user of `basic_auth`, or of the claims `iss` and `sub` of `jwt`, and for what \
                endpoints get of the token. Requests without such a user pass the cache by. Without it, a route \
                with `basic_auth`, `jwt`, `forward_auth` or `client_auth` stores only responses that say `public`, \
                `s-maxage` or `must-revalidate`.",
            why: "Most files are the same for all users, and the response says so.",
        };
        /// Handling of responses that set cookies.
        set_cookie: CookieRule = Key {
            name: "set_cookie",
            kind: Kind::Choice(CookieRule::WORDS),
            absent: Absent::Default("\"refuse\""),
            help: "Responses that set cookies: `refuse` to store them, `strip` their cookies from what is stored, or `store` \
                the cookies too, so that every client gets them.",
            why: "A page that sets a cookie is often for one visitor.",
        };
        /// True if all errors that state a lifetime are stored.
        store_errors: bool = Key {
            name: "store_errors",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Stores every error that states a lifetime. Otherwise only 404, 405, 410, 414, 451, 501 and those of `ttl`.",
            why: "Other errors may be due to a field that one client has sent, and would be served to all.",
        };
        /// True if `no-cache`, `max-age` and the like of requests are obeyed.
        client_directives: bool = Key {
            name: "client_directives",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Obeys `Cache-Control` of requests: `no-cache`, `max-age`, `min-fresh`, `max-stale`, `only-if-cached`.",
            why: "Every reload of a browser would reach the endpoints, and so could any client.",
        };
        /// True if tags and targeted fields go on to the client.
        pass_tags: bool = Key {
            name: "pass_tags",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Sends `Surrogate-Key` and `Cache-Tag` on to the client. They name tags to purge by.",
            why: "They tell how the site is built.",
        };
        /// True if responses say in `Cache-Status` what the cache did (RFC 9211).
        status_field: bool = Key {
            name: "status_field",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Adds `Cache-Status` (RFC 9211) to responses: hit or miss, and why.",
            why: "",
        };
    }
}

/// The key `cache` of routes.
pub(in crate::sections) const CACHE_KEY: Key = Key {
    name: "cache",
    kind: Kind::TableOrBool(&CACHE_TABLE),
    absent: Absent::Default("false"),
    help: "Stores responses, and answers later requests with them.",
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

//! `[[route]]`: the match of a route, and its pool. See [`Route`].

use super::access::{self, ACCESS, Access};
use super::error_pages::{self, ERROR_PAGES, ErrorPage};
use super::limits::{self, LIMIT, Limit};
use super::pool::Pool;
use super::retry::{ROUTE_RETRY, Retry};
use super::timeouts::{ROUTE_TIMEOUTS, RouteTimeouts};
use crate::diagnostic::Findings;
use crate::form::{Form, Formed, HostPattern, PathPattern};
use crate::table::{Absent, Declared, Key, Kind, Lines, Section, quote, table};
use std::sync::Arc;

table! {
    pub(crate) static ROUTE = "[[route]]",
        "Sends matching requests to a pool. Of several routes that match, the most specific wins, and their order \
        never matters: an exact host before the longest wildcard before any host; then the path from the left, \
        fixed text before a parameter before a rest, and any path last; then a route that names the listener. \
        Two routes of which neither is more specific are an error. Without any route, a file with one pool sends \
        it all requests.";

    /// `[[route]]`. A request matches if its listener, host and path do. A session of a listener for TCP matches if its
    /// listener does, and what its client asks for by TLS: the server's name as the host, and `alpn`.
    ///
    /// The most specific of several matching routes wins: exact host before the longest wildcard before any host;
    /// then the path (fixed text before a parameter before a rest, segment by segment from the left; any path last);
    /// then a route that names the listener. No two routes of a plan are equally specific for a request.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Route {
        /// Name of the route, unique. Derived from host and path if not set.
        name: Arc<str> = Key {
            name: "name",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the first host and the path"),
            help: "Name in metrics and logs. Unique.",
            why: "",
        }, read name, write write_name;
        /// Names of existing listeners; empty = all HTTP listeners.
        listeners: Vec<Arc<str>>,
            rows [
                Key {
                    name: "match",
                    kind: Kind::Table(&MATCH),
                    absent: Absent::Means("all requests"),
                    help: "Condition for requests.",
                    why: "",
                },
            ],
            read |route| matches(route).listeners,
            write write_matches;
        /// Hosts to match; empty = any.
        hosts: Vec<HostPattern>, rows [], read |route| matches(route).hosts, write |_, _, _| ();
        /// Path to match; [`PathPattern::Any`] if not set.
        path: PathPattern, rows [], read |route| matches(route).path, write |_, _, _| ();
        /// ALPN protocols of which the client must offer one, for TLS sessions that are passed through; empty
        /// = any.
        alpn: Vec<Arc<str>>, rows [], read |route| matches(route).alpn, write |_, _, _| ();
        /// Name of an existing pool.
        pool: Arc<str> = Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Required(r#""web""#),
            help: "Pool that gets the requests.",
            why: "",
        };
        /// Time limits: the route's own keys, over those of the pool, over the defaults.
        timeouts: RouteTimeouts = Key {
            name: "timeouts",
            kind: Kind::Table(&ROUTE_TIMEOUTS),
            absent: Absent::Means("from the pool"),
            help: "Time limits for endpoints.",
            why: "",
        };
        /// Retries and hedging: the route's own keys, over those of the pool, over the defaults.
        retry: Retry = Key {
            name: "retry",
            kind: Kind::Table(&ROUTE_RETRY),
            absent: Absent::Means("from the pool"),
            help: "Retries and hedging.",
            why: "",
        };
        /// Pages for evenkeel's own answers, preferred to those of the listener.
        error_pages: Vec<ErrorPage> = ERROR_PAGES;
        /// Networks whose clients are answered or refused; `None` = all are answered.
        access: Option<Access> = Key {
            name: "access",
            kind: Kind::Table(&ACCESS),
            absent: Absent::Means("all clients"),
            help: "Networks whose clients are answered or refused.",
            why: "",
        };
        /// Limits of rates and of requests in flight, at most 8.
        limits: Vec<Limit> = Key {
            name: "limits",
            kind: Kind::Tables(&LIMIT),
            absent: Absent::Means("no limits"),
            help: "Limits of rates and of requests in flight, by client or another key. At most 8.",
            why: "",
        };
    }
}

table! {
    static MATCH = "match of [[route]]",
        "Condition for requests: all keys that are set must match.";

    /// `match` of a route.
    #[derive(PartialEq)]
    struct Match {
        /// See [`Route::listeners`].
        listeners: Vec<Arc<str>> = Key {
            name: "listener",
            kind: Kind::List(&Kind::Text(Form::Name)),
            absent: Absent::Means("all listeners"),
            help: "Names of listeners.",
            why: "",
        };
        /// See [`Route::hosts`].
        hosts: Vec<HostPattern> = Key {
            name: "host",
            kind: Kind::List(&Kind::Text(Form::Host)),
            absent: Absent::Means("any host"),
            help: "Hosts, without port. `*.example.com` matches every host below example.com at any depth, but not \
                example.com itself.",
            why: "",
        };
        /// See [`Route::path`].
        path: PathPattern,
            rows [
                Key {
                    name: "path",
                    kind: Kind::Text(Form::Path),
                    absent: Absent::Means("any path"),
                    help: "Whole path, without query: fixed (`/x`), with parameters that stand for one segment \
                        (`/users/{id}/posts`), or with a rest at its end (`/v1/{*rest}`: everything below `/v1/`, \
                        and `/v1/` itself). `{{` and `}}` are literal braces.",
                    why: "",
                },
                Key {
                    name: "prefix",
                    kind: Kind::Text(Form::Prefix),
                    absent: Absent::Means("any path"),
                    help: "A path and everything below it; instead of `path`. `/api` matches `/api`, `/api/` and \
                        `/api/x`, but not `/apix`. May have parameters (`/users/{id}`).",
                    why: "",
                },
            ],
            read path,
            write write_path;
        /// See [`Route::alpn`].
        alpn: Vec<Arc<str>> = Key {
            name: "alpn",
            kind: Kind::List(&Kind::Text(Form::Label)),
            absent: Absent::Means("any protocol"),
            help: "ALPN protocols, such as \"h2\", of which the client must offer one. Only for listeners with `mode \
                = \"tcp\"` that pass TLS through; there `host` matches the server name in the ClientHello.",
            why: "",
        };
    }
}

/// Name from the file; empty if not set, until [`Route::derived_name`] fills it in.
fn name(route: &Section) -> Arc<str> {
    route.text("name").unwrap_or_default().into()
}

fn write_name(set: &Route, _: &Route, lines: &mut Lines) {
    let is_named = !set.name.is_empty();
    if is_named && *set.name != *Route::derived_name(&set.hosts, &set.path) {
        lines.add("name", quote(&set.name));
    }
}

fn matches(route: &Section) -> Match {
    Match::of(&route.section("match"))
}

fn path(matches: &Section) -> PathPattern {
    match (matches.formed("path"), matches.formed("prefix")) {
        (Some(Formed::Path(path)), _) | (None, Some(Formed::Path(path))) => path,
        _ => PathPattern::Any,
    }
}

fn write_path(set: &Match, _: &Match, lines: &mut Lines) {
    match &set.path {
        PathPattern::Any => {}
        PathPattern::Pattern(path) => lines.add("path", quote(path)),
        PathPattern::Prefix(path) => lines.add("prefix", quote(path)),
    }
}

/// Reports a match with both `path` and `prefix`, and ambiguous error pages.
pub(crate) fn check(route: &Section, findings: &mut Findings) {
    error_pages::check(route, findings);
    access::check(route, findings);
    limits::check(route, findings);
    let matches = route.section("match");
    if let (Some(path), Some(_)) = (matches.set("path"), matches.set("prefix")) {
        let message = "\"path\" and \"prefix\" exclude each other";
        matches
            .contradiction(path.span, message, "prefix", findings)
            .help("keep one of the two; a second [[route]] to the same pool can have the other");
    }
}

fn write_matches(set: &Route, _: &Route, lines: &mut Lines) {
    let Route { listeners, hosts, path, alpn, .. } = set.clone();
    let matches = Match { listeners, hosts, path, alpn }.lines(&Match::unset());
    if !matches.is_empty() {
        lines.add("match", matches.braces());
    }
}

impl Route {
    /// A route of all requests to a pool, with that pool's timeouts and retries. Its name is derived from its
    /// match.
    pub fn to(pool: &Pool) -> Route {
        Route { name: Arc::default(), ..Route::catch_all(pool) }
    }

    /// The route of a plan whose file has none.
    pub(crate) fn catch_all(pool: &Pool) -> Route {
        let t = pool.timeouts;
        Route {
            name: "default".into(),
            listeners: Vec::new(),
            hosts: Vec::new(),
            path: PathPattern::Any,
            alpn: Vec::new(),
            pool: pool.name.clone(),
            timeouts: RouteTimeouts {
                connect: t.connect,
                response: t.response,
                request: t.request,
                idle: t.idle,
                half_closed: t.half_closed,
            },
            retry: pool.retry.clone(),
            error_pages: Vec::new(),
            access: None,
            limits: Vec::new(),
        }
    }

    /// Name of a route without one: its first host and its path.
    pub(crate) fn derived_name(hosts: &[HostPattern], path: &PathPattern) -> String {
        match (hosts.first(), path) {
            (None, PathPattern::Any) => "default".to_string(),
            (Some(host), PathPattern::Any) => host.to_string(),
            (None, PathPattern::Pattern(path)) => path.clone(),
            (Some(host), PathPattern::Pattern(path)) => format!("{host}{path}"),
            (None, PathPattern::Prefix(path)) => format!("{path}/*"),
            (Some(host), PathPattern::Prefix(path)) => format!("{host}{path}/*"),
        }
    }

    /// Reads a route over its pool over the defaults. A missing pool, reported elsewhere, contributes
    /// nothing.
    pub(crate) fn over(section: &Section, pool: Option<&Section>, defaults: &Section) -> Route {
        let inherit = |whole: Section, table| {
            let own = section.section(table);
            let own = pool.map_or(own.clone(), |pool| own.over(&pool.section(table)));
            whole.with(table, own.over(&defaults.section(table)))
        };
        Route::of(&["timeouts", "retry"].into_iter().fold(section.clone(), inherit))
    }

    /// The keys of the `[[route]]` that gives this route, where `pool` is its pool.
    pub(crate) fn written(&self, pool: Option<&Pool>) -> Lines {
        let unset = Route::unset();
        match pool.map(Route::catch_all) {
            Some(Route { timeouts, retry, .. }) => self.lines(&Route { timeouts, retry, ..unset }),
            None => self.lines(&unset),
        }
    }
}

//! Which pool gets which requests? [`Route`], `[[route]]`.

use super::error_pages::{self, ERROR_PAGES, ErrorPage};
use super::pool::Pool;
use super::retry::{ROUTE_RETRY, Retry};
use super::timeouts::{ROUTE_TIMEOUTS, RouteTimeouts};
use crate::diagnostic::Findings;
use crate::form::{Form, Formed, HostPattern, PathPattern};
use crate::table::{Absent, Declared, Key, Kind, Lines, Section, quote, table};
use std::sync::Arc;

table! {
    pub(crate) static ROUTE = "[[route]]",
        "Which pool gets which requests. Of several routes that match, the most specific wins, and their order never \
        matters: an exact host before the longest wildcard before any host; then the path, from the left: fixed \
        text before a parameter or a rest, and any path last; then a route that names the listener. Two routes of \
        which neither is more specific are an error. Without any route, a file with one pool sends it everything.";

    /// `[[route]]`. A request matches if its listener, host and path do. A session of a listener for TCP matches if its
    /// listener does, and what its client asks for by TLS: the server's name as the host, and `alpn`.
    ///
    /// Of several routes that match, the most specific wins: exact host before the longest wildcard before any host;
    /// then the path (fixed text before a parameter before a rest, segment by segment from the left; any path last);
    /// then a route that names the listener. No two routes of a plan are equally specific for a request.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Route {
        /// Unique among routes. Made of host and path if the file gives none.
        name: Arc<str> = Key {
            name: "name",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the first host and the path"),
            help: "What metrics and logs call it. Unique.",
            why: "",
        }, read name, write write_name;
        /// Names of listeners, each of which exists; empty = all that speak HTTP.
        listeners: Vec<Arc<str>>,
            rows [
                Key {
                    name: "match",
                    kind: Kind::Table(&MATCH),
                    absent: Absent::Means("every request"),
                    help: "Which requests.",
                    why: "",
                },
            ],
            read |route| matches(route).listeners,
            write write_matches;
        /// Empty = any host.
        hosts: Vec<HostPattern>, rows [], read |route| matches(route).hosts, write |_, _, _| ();
        /// Which paths.
        path: PathPattern, rows [], read |route| matches(route).path, write |_, _, _| ();
        /// Protocols of which a TLS client must offer one, for sessions whose TLS is passed through; empty = any.
        alpn: Vec<Arc<str>>, rows [], read |route| matches(route).alpn, write |_, _, _| ();
        /// Name of the pool, which exists.
        pool: Arc<str> = Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Required(r#""web""#),
            help: "The pool that gets them.",
            why: "",
        };
        /// What the route sets, over its pool's, over the defaults.
        timeouts: RouteTimeouts = Key {
            name: "timeouts",
            kind: Kind::Table(&ROUTE_TIMEOUTS),
            absent: Absent::Means("those of the pool"),
            help: "How long endpoints may take.",
            why: "",
        };
        /// What the route sets, over its pool's, over the defaults.
        retry: Retry = Key {
            name: "retry",
            kind: Kind::Table(&ROUTE_RETRY),
            absent: Absent::Means("that of the pool"),
            help: "What is tried again.",
            why: "",
        };
        /// What clients see in the place of a line of text.
        error_pages: Vec<ErrorPage> = ERROR_PAGES;
    }
}

table! {
    static MATCH = "match of [[route]]",
        "Which requests: those for which every key that is set holds.";

    /// `match` of a route.
    #[derive(PartialEq)]
    struct Match {
        /// See [`Route::listeners`].
        listeners: Vec<Arc<str>> = Key {
            name: "listener",
            kind: Kind::List(&Kind::Text(Form::Name)),
            absent: Absent::Means("every listener"),
            help: "Names of listeners.",
            why: "",
        };
        /// See [`Route::hosts`].
        hosts: Vec<HostPattern> = Key {
            name: "host",
            kind: Kind::List(&Kind::Text(Form::Host)),
            absent: Absent::Means("every host"),
            help: "Hosts without port. `*.example.com` is every host below example.com, at any depth, but not \
                   example.com itself.",
            why: "",
        };
        /// See [`Route::path`].
        path: PathPattern,
            rows [
                Key {
                    name: "path",
                    kind: Kind::Text(Form::Path),
                    absent: Absent::Means("every path"),
                    help: "A path without query, as a whole: fixed (`/x`), with parameters that stand for one segment \
                           (`/users/{id}/posts`), or with a rest at its end (`/v1/{*rest}`: everything below `/v1/`, and \
                           `/v1/` itself). `{{` and `}}` are literal braces.",
                    why: "",
                },
                Key {
                    name: "prefix",
                    kind: Kind::Text(Form::Prefix),
                    absent: Absent::Means("every path"),
                    help: "In place of `path`: a path and everything below it. `/api` takes `/api`, `/api/` and `/api/x`, \
                           but not `/apix`. It may have parameters (`/users/{id}`).",
                    why: "",
                },
            ],
            read path,
            write write_path;
        /// See [`Route::alpn`].
        alpn: Vec<Arc<str>> = Key {
            name: "alpn",
            kind: Kind::List(&Kind::Text(Form::Label)),
            absent: Absent::Means("every protocol"),
            help: "Protocols of TLS clients, as \"h2\": what is offered must be one of them. Only for listeners with \
                   `mode = \"tcp\"`, which pass TLS through; there `host` is the server's name in the ClientHello.",
            why: "",
        };
    }
}

/// What the file gives; for a route without a name one is made of what it takes.
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

/// Reports a match that says twice which paths, and pages of which neither is the more specific.
pub(crate) fn check(route: &Section, findings: &mut Findings) {
    error_pages::check(route, findings);
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
    /// A route of every request to a pool, with its timeouts and retries. Its name is made of what it matches.
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
        }
    }

    /// The name of a route that was given none: its first host and its path.
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

    /// What a table says, over that of its pool, over the defaults. What a pool that does not exist would set is left to
    /// the defaults; that it does not exist is reported elsewhere.
    pub(crate) fn over(section: &Section, pool: Option<&Section>, defaults: &Section) -> Route {
        let inherit = |whole: Section, table| {
            let own = section.section(table);
            let own = pool.map_or(own.clone(), |pool| own.over(&pool.section(table)));
            whole.with(table, own.over(&defaults.section(table)))
        };
        Route::of(&["timeouts", "retry"].into_iter().fold(section.clone(), inherit))
    }

    /// The keys of the table that gives this route, whose pool is `pool`.
    pub(crate) fn written(&self, pool: Option<&Pool>) -> Lines {
        let unset = Route::unset();
        match pool.map(Route::catch_all) {
            Some(Route { timeouts, retry, .. }) => self.lines(&Route { timeouts, retry, ..unset }),
            None => self.lines(&unset),
        }
    }
}

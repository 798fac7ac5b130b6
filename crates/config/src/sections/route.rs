//! `[[route]]`: the match of a route, and its pool. See [`Route`].

use super::action::{self, ACTIONS, Action, MAINTENANCE, Maintenance};
use super::error_pages::{self, ERROR_PAGES, ErrorPage};
use super::filters::access::{self, ACCESS_KEY, Access};
use super::filters::bandwidth::{self, BANDWIDTH, Bandwidth};
use super::filters::basic_auth::{self, BASIC_AUTH_KEY, BasicAuth};
use super::filters::body_max::BODY_MAX;
use super::filters::cache::{self, CACHE_KEY, Cache};
use super::filters::compress::{self, COMPRESS, Compress};
use super::filters::cookies::{self, COOKIES, CookieAttributes};
use super::filters::cors::{self, CORS, Cors};
use super::filters::forward_auth::{self, FORWARD_AUTH, ForwardAuth};
use super::filters::headers::{
    self, REQUEST_HEADERS, REQUEST_TRAILERS, RESPONSE_HEADERS, RequestHeaders, ResponseHeaders,
};
use super::filters::jwt::{self, JWT, Jwt};
use super::filters::limits::{self, LIMITS_KEY, Limit};
use super::filters::mirror::{self, MIRROR, Mirror};
use super::filters::rewrite::{self, RESTORE_PREFIX, REWRITE, Rewrite, SEND_HOST, STRIP_PREFIX, STRIP_SLASHES};
use super::filters::sets::USE;
use super::matching::{self, ALTERNATIVE, Match};
use super::pool::Pool;
use super::retry::{ROUTE_RETRY, Retry};
use super::timeouts::{ROUTE_TIMEOUTS, RouteTimeouts};
use crate::diagnostic::Findings;
use crate::form::{Form, PathPattern, SendHost};
use crate::table::{Absent, Declared, Key, Kind, Lines, Section, quote, table};
use std::sync::Arc;

table! {
    pub(crate) static ROUTE = "[[route]]",
        "Sends matching requests to a pool. Of several routes that match, the most specific wins, wherever it stands \
        in the file: an exact host before the longest wildcard before any host; then the path from the left, \
        fixed text before a parameter before a prefix, and any path last; then the longest `ends_with`, a `regex`, a \
        `method`, the number of `header`s, of `query` parameters and of `cookie`s, `client`, `scheme`, `not`; then a \
        route that names the listener; then the lower `order`. Two routes of which neither is more specific, with the same `order`, \
        are an error. Without any route, a file with one pool sends it all requests.";

    /// `[[route]]`. A request matches if its listener, host and path do. A session of a listener for TCP matches if its
    /// listener does, and what its client asks for by TLS: the server's name as the host, and `alpn`.
    ///
    /// The most specific of several matching routes wins: exact host before the longest wildcard before any host;
    /// then the path (fixed text before a parameter before a prefix, from the left; any path last); then the
    /// [`Rank`](super::matching::Rank) of the match; then a route that names the listener; then the lower
    /// [`order`](Self::order). No two routes of a plan are equal in all of this for a request.
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
        /// Hosts, path and criteria of requests.
        matching: Match, rows [], read |route| matches(route).matching, write |_, _, _| ();
        /// Alternatives, of which one must match too; empty = none.
        any: Vec<Match>, rows [], read |route| matches(route).any, write |_, _, _| ();
        /// ALPN protocols of which the client must offer one, for TLS sessions that are passed through; empty
        /// = any.
        alpn: Vec<Arc<str>>, rows [], read |route| matches(route).alpn, write |_, _, _| ();
        /// Position among routes that are equally specific: the lowest wins.
        order: u32 = Key {
            name: "order",
            kind: Kind::Int { min: 0, max: u32::MAX as u64 },
            absent: Absent::Default("0"),
            help: "Breaks ties: of two routes that match a request and of which neither is more specific, the one with the \
                lower number wins. A more specific route wins whatever its number.",
            why: "Routes that tie are more often a mistake than meant.",
        };
        /// Effect of the route on its requests.
        action: Action, rows [ACTIONS[0], ACTIONS[1], ACTIONS[2], ACTIONS[3], USE], read action::read,
            write |set: &Route, _: &Route, lines: &mut Lines| action::write(&set.action, lines);
        /// Maintenance, during which requests get 503; `None` = off.
        maintenance: Option<Maintenance> = MAINTENANCE;
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
        /// Changes to fields on their way to the endpoint.
        request_headers: RequestHeaders = REQUEST_HEADERS;
        /// Names of the trailers of requests that endpoints get.
        request_trailers: Vec<Arc<str>> = REQUEST_TRAILERS;
        /// Changes to fields on their way to the client, of endpoints and of evenkeel itself.
        response_headers: ResponseHeaders = RESPONSE_HEADERS;
        /// True if endpoints get the path without the prefix that the route matches.
        strip_prefix: bool = STRIP_PREFIX;
        /// True if a path that would begin with several slashes keeps one, instead of being refused.
        strip_slashes: bool = STRIP_SLASHES;
        /// Another path for endpoints; `None` keeps the client's.
        rewrite: Option<Rewrite> = REWRITE;
        /// True if links of responses get the prefix that was removed.
        restore_prefix: bool = RESTORE_PREFIX;
        /// Choice between the client's host, the endpoint's own and a fixed one.
        send_host: SendHost = SEND_HOST;
        /// Attributes for the cookies of endpoints.
        cookies: CookieAttributes = COOKIES;
        /// Networks whose clients are answered or refused; `None` = all are answered.
        access: Option<Access> = ACCESS_KEY;
        /// Limits of rates and of requests in flight, at most 8.
        limits: Vec<Limit> = LIMITS_KEY;
        /// Tokens that requests must carry; `None` = none.
        jwt: Option<Jwt> = JWT;
        /// Most bytes of the body of a request; `None` = no limit.
        body_max: Option<u64> = BODY_MAX;
        /// Most bytes of bodies in a second.
        bandwidth: Bandwidth = BANDWIDTH;
        /// Stored responses; `None` = none are stored.
        cache: Option<Cache> = CACHE_KEY;
        /// Compression of responses; `None` = they pass as they are.
        compress: Option<Compress> = COMPRESS;
        /// Pages of other origins that may read responses; `None` leaves CORS to the endpoint.
        cors: Option<Cors> = CORS;
        /// Users, one of which a request must name with its password; `None` = all requests pass.
        basic_auth: Option<BasicAuth> = BASIC_AUTH_KEY;
        /// Service that decides about each request; `None` = none is asked.
        forward_auth: Option<ForwardAuth> = FORWARD_AUTH;
        /// Copies of requests for other pools, at most 8.
        mirrors: Vec<Mirror> = MIRROR;
    }
}

table! {
    static MATCH = "match of [[route]]",
        "Condition for requests: all keys that are set must match.";

    /// `match` of a route.
    #[derive(PartialEq)]
    struct Matches {
        /// See [`Route::listeners`].
        listeners: Vec<Arc<str>> = Key {
            name: "listener",
            kind: Kind::List(&Kind::Text(Form::Name)),
            absent: Absent::Means("all listeners"),
            help: "Names of listeners.",
            why: "",
        };
        /// See [`Route::matching`].
        matching: Match, inline Match;
        /// See [`Route::any`].
        any: Vec<Match> = Key {
            name: "any",
            kind: Kind::Tables(&ALTERNATIVE),
            absent: Absent::Means("no alternatives"),
            help: "Alternatives, at least one of which must match beside the other keys.",
            why: "",
        };
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
    if is_named && *set.name != *set.derived_name() {
        lines.add("name", quote(&set.name));
    }
}

fn matches(route: &Section) -> Matches {
    Matches::of(&route.section("match"))
}

/// Reports contradictory matches, and what does not fit within a key or beside others.
pub(crate) fn check(route: &Section, findings: &mut Findings) {
    matching::check(&route.section("match"), findings);
    let paths = paths(&matches(route));
    action::check(route, &paths, findings);
    rewrite::check(route, &paths, findings);
    check_filters(route, findings);
}

/// Reports what does not fit within filters.
pub(crate) fn check_filters(route: &Section, findings: &mut Findings) {
    error_pages::check(route, findings);
    headers::check(route, findings);
    headers::check_trailers(route, findings);
    cookies::check(route, findings);
    access::check(route, findings);
    limits::check(route, findings);
    bandwidth::check(route, findings);
    cache::check(route, findings);
    compress::check(route, findings);
    jwt::check(route, findings);
    cors::check(route, findings);
    basic_auth::check(route, findings);
    forward_auth::check(route, findings);
    mirror::check(route, findings);
}

/// Path of each alternative of a match.
fn paths(Matches { matching, any, .. }: &Matches) -> Vec<PathPattern> {
    let each = any.iter().map(|alternative| matching.and(alternative).path);
    if any.is_empty() { vec![matching.path.clone()] } else { each.collect() }
}

fn write_matches(set: &Route, _: &Route, lines: &mut Lines) {
    let Route { listeners, matching, any, alpn, .. } = set.clone();
    let matches = Matches { listeners, matching, any, alpn }.lines(&Matches::unset());
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
            matching: Match::all(),
            any: Vec::new(),
            alpn: Vec::new(),
            action: Action::Pool(pool.name.clone()),
            timeouts: RouteTimeouts {
                connect: t.connect,
                response: t.response,
                request: t.request,
                idle: t.idle,
                half_closed: t.half_closed,
            },
            retry: pool.retry.clone(),
            ..Route::unset()
        }
    }

    /// Route that `pool` of a listener stands for, or a file without routes: as [`catch_all`](Self::catch_all), with the
    /// filters of `[defaults.route]`.
    pub(crate) fn implied(pool: &Pool, filters: &Section) -> Route {
        let Route { name, action, timeouts, retry, .. } = Route::catch_all(pool);
        let filters = Route::of(&Route::blank(filters.span).over(filters));
        Route { name, action, timeouts, retry, ..filters }
    }

    /// Matches of which one must hold: each alternative with the keys beside it.
    pub fn matches(&self) -> Vec<Match> {
        if self.any.is_empty() {
            return vec![self.matching.clone()];
        }
        self.any.iter().map(|alternative| self.matching.and(alternative)).collect()
    }

    /// Regular expressions of its match.
    pub fn expressions(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.matching).chain(&self.any).flat_map(Match::expressions)
    }

    /// Names of the pools that get requests, those of the action first, then those of filters.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<str>> {
        let auth = self.forward_auth.iter().map(|auth| &auth.pool);
        self.action.pools().chain(auth).chain(self.mirrors.iter().map(|mirror| &mirror.pool))
    }

    /// True if host and path alone decide, without alternatives.
    pub fn is_plain(&self) -> bool {
        self.any.is_empty() && self.matching.is_plain()
    }

    /// Name of a route without one: its first host and its path.
    pub(crate) fn derived_name(&self) -> String {
        let Match { hosts, path, .. } =
            self.any.first().map_or(self.matching.clone(), |first| self.matching.and(first));
        let host = hosts.first().map(ToString::to_string);
        match (host, path) {
            (None, PathPattern::Any) => "default".to_string(),
            (host, PathPattern::Any) => host.unwrap_or_default(),
            (host, PathPattern::Pattern(path)) => format!("{}{path}", host.unwrap_or_default()),
            (host, PathPattern::Prefix(path)) => format!("{}{path}/*", host.unwrap_or_default()),
            (host, PathPattern::StartsWith(text)) => format!("{}{text}*", host.unwrap_or_default()),
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

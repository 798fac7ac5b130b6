//! `[[route]]`: the match of a route, and its pool. See [`Route`].

use super::action::{self, ACTIONS, Action};
use super::error_pages::ErrorPage;
use super::filters::internal_redirects::INTERNAL;
use super::filters::sets::USE;
use super::filters::{self, Filters, Rewrite};
use super::matching::{self, Match, Paths, ROUTE_MATCH, ROUTE_PATHS, RouteMatch};
use super::pool::Pool;
use super::retry::{ROUTE_RETRY, Retry};
use super::timeouts::{ROUTE_TIMEOUTS, RouteTimeouts};
use crate::diagnostic::Findings;
use crate::form::{Extent, Form, PathPattern, Template};
use crate::table::{Absent, Declared, Key, Kind, Lines, Section, quote, table};
use std::sync::Arc;

table! {
    pub(crate) static ROUTE = "[[route]]",
        "Sends matching requests to a pool. If several routes match, the most specific route wins, whatever the order \
        in the file. The comparison goes by host (exact, then the longest wildcard, then any host); then by path from \
        the left (fixed text, then a parameter, then a prefix, then any path); then by the longest `ends_with`, a \
        `regex`, a `method`, the number of `header`s, of `query` parameters, of `cookie`s and of `map`s, `client`, `scheme`, \
        `not`; then a route that names the listener wins; then the lower `order`. Two equally specific routes with the \
        same `order` are an error. In a file without routes, the only pool gets all requests.";

    /// `[[route]]`. A request matches if its listener, host and path do. A session of a TCP listener matches if its
    /// listener does, and its TLS hello: the server name as the host, and `alpn`.
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
                    kind: Kind::Table(&ROUTE_MATCH),
                    absent: Absent::Means("all requests"),
                    help: "Condition for requests.",
                    why: "",
                },
            ],
            read |route| RouteMatch::of_route(route).listeners,
            write write_matches;
        /// Hosts, path and criteria of requests.
        matching: Match, rows [], read |route| RouteMatch::of_route(route).matching, write |_, _, _| ();
        /// Alternatives, of which one must match too; empty = none.
        any: Vec<Match>, rows [], read |route| RouteMatch::of_route(route).any, write |_, _, _| ();
        /// ALPN protocols of which the client must offer one, for TLS sessions that are passed through; empty
        /// = any.
        alpn: Vec<Arc<str>>, rows [], read |route| RouteMatch::of_route(route).alpn, write |_, _, _| ();
        /// Position among routes that are equally specific: the lowest wins.
        order: u32 = Key {
            name: "order",
            kind: Kind::Int { min: 0, max: u32::MAX as u64 },
            absent: Absent::Default("0"),
            help: "Breaks ties: of two equally specific routes that match a request, the route with the lower number \
                wins. A more specific route wins whatever its number.",
            why: "A tie between routes is more often a mistake than intended.",
        };
        /// Effect on paths with several readings; `None` = the listener's setting.
        paths: Option<Paths> = ROUTE_PATHS;
        /// True if no request of a client reaches the route, but error pages and internal redirects do.
        internal: bool = INTERNAL;
        /// Effect of the route on its requests.
        action: Action, rows [ACTIONS[0], ACTIONS[1], ACTIONS[2], ACTIONS[3], USE], read action::read,
            write |set: &Route, _: &Route, lines: &mut Lines| action::write(&set.action, lines);
        /// Time limits: the route's keys, over the pool's keys, over the defaults.
        timeouts: RouteTimeouts = Key {
            name: "timeouts",
            kind: Kind::Table(&ROUTE_TIMEOUTS),
            absent: Absent::Means("from the pool"),
            help: "Time limits for endpoints.",
            why: "",
        };
        /// Retries and hedging: the route's keys, over the pool's keys, over the defaults.
        retry: Retry = Key {
            name: "retry",
            kind: Kind::Table(&ROUTE_RETRY),
            absent: Absent::Means("from the pool"),
            help: "Retries and hedging.",
            why: "",
        };
        /// Filters that requests and their responses pass.
        filters: Filters, inline Filters;
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

/// Reports contradictory matches, and contradictions within a key or between keys.
pub(crate) fn check(route: &Section, findings: &mut Findings) {
    matching::check(&route.section("match"), findings);
    action::check(route, findings);
    filters::check(route, findings);
}

fn write_matches(set: &Route, _: &Route, lines: &mut Lines) {
    let Route { listeners, matching, any, alpn, .. } = set.clone();
    let matches = RouteMatch { listeners, matching, any, alpn }.lines(RouteMatch::unset());
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
            ..Route::unset().clone()
        }
    }

    /// Route of a listener's `pool`, or of a file without routes: as [`catch_all`](Self::catch_all), with the
    /// filters of `[defaults.route]`.
    pub(crate) fn implied(pool: &Pool, filters: &Section) -> Route {
        let Route { name, action, timeouts, retry, .. } = Route::catch_all(pool);
        let filters = Route::of(&Route::blank(filters.span).over(filters));
        Route { name, action, timeouts, retry, ..filters }
    }

    /// Matches of which one must hold: each alternative, combined with the other keys.
    pub fn matches(&self) -> Vec<Match> {
        if self.any.is_empty() {
            return vec![self.matching.clone()];
        }
        self.any.iter().map(|alternative| self.matching.and(alternative)).collect()
    }

    /// True if error pages alone lead to the route, by its name: it is internal and has no condition.
    pub fn is_by_name(&self) -> bool {
        self.internal && self.any.is_empty() && self.matching == Match::all()
    }

    /// Regular expressions of its match, its rewrite, and conditions of its changes to fields.
    pub fn expressions(&self) -> impl Iterator<Item = (&Arc<str>, Extent)> {
        let matches = std::iter::once(&self.matching).chain(&self.any).flat_map(Match::expressions);
        let found = self.filters.rewrite.iter().filter_map(Rewrite::found);
        let Filters { request_headers, response_headers, .. } = &self.filters;
        let found = found.map(|(text, extent, _)| (text, extent));
        matches.chain(found).chain(request_headers.expressions()).chain(response_headers.expressions())
    }

    /// Values with variables of its action and its filters.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let redirect = if let Action::Redirect(redirect) = &self.action { Some(redirect) } else { None };
        let redirect = redirect.into_iter().flat_map(|to| [&to.to, &to.host, &to.prefix, &to.path]).flatten();
        let rewrite = self.filters.rewrite.iter().flat_map(|to| [&to.prefix, &to.path, &to.to]).flatten();
        let fields = self.filters.request_headers.templates().chain(self.filters.response_headers.templates());
        redirect.chain(rewrite).chain(fields).chain(self.filters.error_pages.iter().flat_map(ErrorPage::templates))
    }

    /// Names of the pools that get requests: pools of the action first, then pools of filters.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<str>> {
        self.action.pools().chain(self.filters.pools())
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
            Some(Route { timeouts, retry, .. }) => self.lines(&Route { timeouts, retry, ..unset.clone() }),
            None => self.lines(unset),
        }
    }
}

//! Actions of a route: a pool, a split between pools, a redirect, or a fixed response. See [`Action`].

use super::matching::{RouteMatch, Scheme};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Cidr, Form, HashKey, PathPattern, Template, map_in_braces};
use crate::table::{Absent, DAY, Declared, Key, Kind, Lines, S, Section, Words, quote, table};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Statuses of redirects that clients follow (RFC 9110 section 15.4).
const REDIRECTS: [u64; 5] = [301, 302, 303, 307, 308];

/// Effect of a route on its requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Name of an existing pool, which gets the requests.
    Pool(Arc<str>),
    /// The pool that a map names.
    Choice(PoolChoice),
    Split(Split),
    Redirect(Redirect),
    /// Answers without an endpoint.
    Respond(Respond),
}

/// Choice of the pool by a map: `pool = "{map.NAME}"`.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolChoice {
    pub map: Arc<str>,
    /// Names of the pools that the map can choose, in the order of the plan. Filled in once all pools are known: they
    /// follow from the rows of the map, or are all pools of HTTP if these are in a file.
    pub pools: Arc<[Arc<str>]>,
}

/// Keys of which a route has exactly 1.
pub(crate) const ACTIONS: [Key; 4] = [
    Key {
        name: "pool",
        kind: Kind::Text(Form::PoolChoice),
        absent: Absent::Means("another action"),
        help: "Pool that gets the requests, or `\"{map.NAME}\"` for the pool that a map names. Each route has exactly one of `pool`, `split`, `redirect` and `respond`.",
        why: "",
    },
    Key {
        name: "split",
        kind: Kind::Table(&SPLIT),
        absent: Absent::Means("another action"),
        help: "Pools that share the requests, sessions or flows by weight, such as a stable version and a canary.",
        why: "",
    },
    Key {
        name: "redirect",
        kind: Kind::TableOr { table: &REDIRECT, key: "to" },
        absent: Absent::Means("another action"),
        help: "Redirects clients to another URL.",
        why: "",
    },
    Key {
        name: "respond",
        kind: Kind::TableOr { table: &RESPOND, key: "status" },
        absent: Absent::Means("another action"),
        help: "Returns a fixed response without an endpoint.",
        why: "",
    },
];

table! {
    static SPLIT = "split of [[route]]",
        "Pools that share the requests of the route by weight. TCP sessions and UDP flows are shared too, and each \
        stays in its pool until it ends. Health does not change the shares: if a pool has no healthy endpoint, its \
        share of requests gets a 503, its sessions are closed and its datagrams are dropped.";

    /// `split` of a route.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Split {
        /// Weights of pools, in the order of the file; not all are 0.
        weights: Vec<(Arc<str>, u32)> = Key {
            name: "weights",
            kind: Kind::Map { keys: Form::Name, of: &Kind::Int { min: 0, max: 1_000_000 } },
            absent: Absent::Required("{ stable = 95, canary = 5 }"),
            help: "Weight of each pool. The share of a pool is its weight divided by the sum of all weights.",
            why: "",
        };
        /// Part of requests that decides, so that equal requests get the same pool; `None` = each request is drawn.
        key: Option<HashKey> = Key {
            name: "key",
            kind: Kind::Text(Form::HashKey),
            absent: Absent::Means("each request is drawn at random"),
            help: "Part of requests that selects the pool, so that a client stays with its pool: `client-ip`, \
                `header:NAME`, `cookie:NAME`, `query:NAME` or `path`. When weights change, only the share that has to \
                move gets another pool. Requests without this part are drawn at random. For TCP sessions and UDP flows \
                only `client-ip` is possible.",
            why: "",
        };
    }
}

table! {
    static REDIRECT = "redirect of [[route]]",
        "Redirects clients. Parts of the URL that are not set stay as the client sent them. If the new path would \
        begin with two slashes, or contain a segment `..`, the client gets a 400 instead.";

    /// `redirect` of a route.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Redirect {
        /// Status, 301, 302, 303, 307 or 308.
        status: u16 = Key {
            name: "status",
            kind: Kind::Int { min: 301, max: 308 },
            absent: Absent::Default("302"),
            help: "301, 302, 303, 307 or 308. Clients keep the method only for 307 and 308, and remember 301 and 308.",
            why: "A wrong redirect that browsers remember is hard to undo.",
        };
        to: Option<Template> = Key {
            name: "to",
            kind: Kind::Text(Form::Location),
            absent: Absent::Means("built from the other keys"),
            help: "Whole URL, or a path with a query, instead of the other keys: `\"https://{host}{path}\"`.",
            why: "",
        };
        scheme: Option<Scheme> = Key {
            name: "scheme",
            kind: Kind::Choice(Scheme::WORDS),
            absent: Absent::Means("the client's scheme"),
            help: "Scheme of the URL.",
            why: "",
        };
        host: Option<Template> = Key {
            name: "host",
            kind: Kind::Text(Form::HostTemplate),
            absent: Absent::Means("the client's host"),
            help: "Host of the URL, without port. May have variables: `\"www.{host}\"`.",
            why: "",
        };
        port: Option<u16> = Key {
            name: "port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Means("the client's port, or none if the scheme changes"),
            help: "Port of the URL. The default port of the scheme is left out of the URL.",
            why: "",
        };
        /// Replacement of the prefix that the route matches.
        prefix: Option<Template> = Key {
            name: "prefix",
            kind: Kind::Text(Form::PathTemplate),
            absent: Absent::Means("the prefix is kept"),
            help: "Replaces the prefix that the route matches, as in `rewrite`.",
            why: "",
        };
        /// Replacement of the whole path.
        path: Option<Template> = Key {
            name: "path",
            kind: Kind::Text(Form::PathTemplate),
            absent: Absent::Means("the path is kept"),
            help: "Replaces the whole path. May have variables and the parameters of the route's path.",
            why: "",
        };
        /// True if the client's query is appended.
        keep_query: bool = Key {
            name: "keep_query",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Appends the client's query, unless `to` is set.",
            why: "",
        };
    }
}

table! {
    static RESPOND = "respond of [[route]]",
        "Returns a response without an endpoint. With a status of 400 or above, and without `body` and `file`, the \
        body is the error page for that status.";

    /// `respond` of a route.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Respond {
        /// Status, 200 to 599.
        status: u16 = Key {
            name: "status",
            kind: Kind::Int { min: 200, max: 599 },
            absent: Absent::Default("200"),
            help: "Status of the response.",
            why: "",
        };
        body: Option<Arc<str>> = Key {
            name: "body",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("empty, or an error page"),
            help: "Text of the body.",
            why: "",
        };
        /// File of the body, at most [`ERROR_PAGE_MAX`](super::error_pages::ERROR_PAGE_MAX) bytes.
        file: Option<PathBuf> = Key {
            name: "file",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("empty, or an error page"),
            help: "File of the body, at most 256 KiB. Read at startup and at each reload.",
            why: "",
        };
        /// Value of `Content-Type`.
        media_type: Option<Arc<str>> = Key {
            name: "type",
            kind: Kind::Text(Form::MediaType),
            absent: Absent::Means("text for `body`, HTML for `file`"),
            help: "`Content-Type` of the body.",
            why: "",
        };
    }
}

table! {
    static MAINTENANCE_TABLE = "maintenance of [[route]]",
        "Returns 503 instead of the route's action, during maintenance. The body is the error page for 503.";

    /// `maintenance` of a route.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Maintenance {
        /// Time that `Retry-After` states.
        retry_after: Duration = Key {
            name: "retry_after",
            kind: Kind::Duration { min: S, max: DAY, off: false },
            absent: Absent::Default("\"1m\""),
            help: "Time after which clients may try again, sent as `Retry-After`.",
            why: "",
        };
        /// Networks whose clients are served as usual; empty = none.
        allow: Vec<Cidr> = Key {
            name: "allow",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("no clients"),
            help: "Networks whose clients are served as usual, for example to test the application first.",
            why: "",
        };
    }
}

/// The key `maintenance` of routes.
pub(super) const MAINTENANCE: Key = Key {
    name: "maintenance",
    kind: Kind::TableOrBool(&MAINTENANCE_TABLE),
    absent: Absent::Means("off"),
    help: "Returns 503 with `Retry-After`: `true`, or a table.",
    why: "",
};

/// Reads the action of a route; a pool without a name if it has none, which is reported by [`check`].
pub(super) fn read(route: &Section) -> Action {
    if route.has("split") {
        return Action::Split(Split::of(&route.section("split")));
    }
    if route.has("redirect") {
        return Action::Redirect(Redirect::of(&route.section("redirect")));
    }
    if route.has("respond") {
        return Action::Respond(Respond::of(&route.section("respond")));
    }
    let pool = route.text("pool").unwrap_or_default();
    match map_in_braces(&pool) {
        Some(map) => Action::Choice(PoolChoice { map: map.into(), pools: Arc::default() }),
        None => Action::Pool(pool.into()),
    }
}

pub(super) fn write(action: &Action, lines: &mut Lines) {
    let kind = |name: &str| ACTIONS.iter().find(|key| key.name == name).map_or(Kind::Bool, |key| key.kind);
    match action {
        Action::Pool(pool) => lines.add("pool", quote(pool)),
        Action::Choice(choice) => lines.add("pool", quote(&choice.to_string())),
        Action::Split(split) => lines.add("split", split.lines(Split::unset()).value(&kind("split"))),
        Action::Redirect(redirect) => lines.add("redirect", redirect.lines(Redirect::unset()).value(&kind("redirect"))),
        // An empty table would be no short form.
        Action::Respond(respond) => {
            let written = respond.lines(Respond::unset());
            let written = if written.is_empty() { respond.status.to_string() } else { written.value(&kind("respond")) };
            lines.add("respond", written);
        }
    }
}

/// Reports a route without an action or with several, and misfits within an action.
pub(super) fn check(route: &Section, findings: &mut Findings) {
    let set: Vec<&str> = ACTIONS.iter().map(|key| key.name).filter(|key| route.has(key)).collect();
    match set[..] {
        [] => {
            findings
                .add(Code::Missing, route.span, "[[route]] has no \"pool\"")
                .help("add pool = \"web\"; or split, redirect or respond");
        }
        [first, second, ..] => {
            let message = format!("\"{first}\" and \"{second}\" exclude each other");
            let help = "a route has exactly one of pool, split, redirect and respond";
            route.contradiction(route.span_of(second), message, first, findings).help(help);
        }
        _ => {}
    }
    let split = route.section("split");
    if route.has("split")
        && split.has_read("weights")
        && Split::of(&split).weights.iter().all(|(_, weight)| *weight == 0)
    {
        findings
            .add(Code::OutOfRange, split.span_of("weights"), "no pool of \"weights\" has a weight above 0")
            .help("write weights = { stable = 95, canary = 5 }");
    }
    if route.has("redirect") {
        check_redirect(&route.section("redirect"), &RouteMatch::of_route(route).paths(), findings);
    }
    let respond = route.section("respond");
    if let (Some(body), Some(_)) = (respond.set("body"), respond.set("file")) {
        let message = "\"body\" and \"file\" exclude each other";
        respond.contradiction(body.span, message, "file", findings).help("keep one of the two");
    }
    for key in ["body", "file"].into_iter().filter(|_| matches!(respond.int("status"), 204 | 304)) {
        if let Some(set) = respond.set(key) {
            let message = format!("a response with status {} has no body", respond.int("status"));
            respond.contradiction(set.span, message, "status", findings).help("leave it out, or set another status");
        }
    }
}

fn check_redirect(redirect: &Section, paths: &[PathPattern], findings: &mut Findings) {
    if redirect.has_read("status") && !REDIRECTS.contains(&redirect.int("status")) {
        let message = format!("{} is not a status of redirects", redirect.int("status"));
        findings.add(Code::OutOfRange, redirect.span_of("status"), message).help("allowed: 301, 302, 303, 307, 308");
    }
    let parts: Vec<&str> =
        ["scheme", "host", "port", "prefix", "path"].into_iter().filter(|key| redirect.has(key)).collect();
    if let (Some(to), Some(part)) = (redirect.set("to"), parts.first()) {
        let message = format!("\"to\" is the whole URL, and excludes \"{part}\"");
        redirect.contradiction(to.span, message, part, findings).help("keep one of the two");
    }
    if !redirect.has("to") && parts.is_empty() {
        findings
            .add(Code::Missing, redirect.span, "the redirect leads to where it comes from")
            .help("write redirect = \"https://{host}{path}\", or set scheme, host, port, prefix or path");
    }
    if let (Some(prefix), Some(_)) = (redirect.set("prefix"), redirect.set("path")) {
        let message = "\"prefix\" and \"path\" of redirect exclude each other";
        redirect.contradiction(prefix.span, message, "path", findings).help("keep one of the two");
    }
    let Redirect { path, scheme, host, port, .. } = Redirect::of(redirect);
    let stays = scheme.is_none() && host.is_none() && port.is_none();
    let same = |path: &Template| paths.iter().any(|of| *of == PathPattern::Pattern(path.to_string()));
    if stays && path.as_ref().is_some_and(same) {
        findings
            .add(Code::Loop, redirect.span_of("path"), "the redirect leads to the path that the route matches")
            .help("set another path, or scheme, host or port");
    }
}

impl Action {
    /// Names of the pools that get requests.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<str>> {
        let (one, several) = match self {
            Action::Pool(pool) => (Some(pool), &[][..]),
            Action::Split(split) => (None, &split.weights[..]),
            Action::Choice(_) | Action::Redirect(_) | Action::Respond(_) => (None, &[][..]),
        };
        let chosen = if let Action::Choice(choice) = self { &choice.pools[..] } else { &[] };
        one.into_iter().chain(several.iter().map(|(pool, _)| pool)).chain(chosen)
    }

    /// Pool of the route; `None` if it has another action.
    pub fn pool(&self) -> Option<&Arc<str>> {
        if let Action::Pool(pool) = self { Some(pool) } else { None }
    }

    /// Statuses of the action's own responses.
    pub fn status(&self) -> Option<RangeInclusive<u16>> {
        match self {
            Action::Redirect(redirect) => Some(redirect.status..=redirect.status),
            Action::Respond(respond) => Some(respond.status..=respond.status),
            Action::Pool(_) | Action::Choice(_) | Action::Split(_) => None,
        }
    }
}

impl Redirect {
    /// URL that the redirect leads to, as a template; a prefix ends with `{*rest}`.
    pub fn target(&self) -> String {
        let Redirect { to, scheme, host, port, prefix, path, .. } = self;
        if let Some(to) = to {
            return to.to_string();
        }
        let rest = prefix.as_ref().map(|prefix| format!("{}/{{*rest}}", prefix.to_string().trim_end_matches('/')));
        let path = path.as_ref().map(ToString::to_string).or(rest).unwrap_or_else(|| "{path}".to_owned());
        if scheme.is_none() && host.is_none() && port.is_none() {
            return path;
        }
        let scheme = scheme.map_or("{scheme}", Words::word);
        let host = host.as_ref().map_or_else(|| "{host}".to_owned(), ToString::to_string);
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{host}{port}{path}")
    }
}

/// Formats the choice as it is written in a file.
impl fmt::Display for PoolChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{map.{}}}", self.map)
    }
}

/// Formats the action in a few words: a pool by its name, others by their effect.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Pool(pool) => f.write_str(pool),
            Action::Choice(choice) => choice.fmt(f),
            Action::Split(split) => {
                f.write_str("split ")?;
                let each = |(at, (pool, weight)): (usize, &(Arc<str>, u32))| {
                    write!(f, "{}{pool} {weight}", if at == 0 { "" } else { ", " })
                };
                split.weights.iter().enumerate().try_for_each(each)
            }
            Action::Redirect(redirect) => write!(f, "redirect {}", redirect.status),
            Action::Respond(respond) => write!(f, "respond {}", respond.status),
        }
    }
}

//! `match` of `[[route]]`: the requests that a route takes. See [`Match`] and [`Criteria`].

// Order: check, of_route, texts, expected, partial, paths
mod check;
mod expected;
mod of_route;
pub(in crate::sections) mod partial;
mod paths;
mod texts;

pub(crate) use check::{check, check_one};
pub use expected::Expected;
pub(crate) use expected::{EXPECTED, check as check_expected};
pub(crate) use of_route::{ROUTE_MATCH, RouteMatch};
pub use paths::Paths;
pub(crate) use paths::{IGNORE_CASE, PATHS, ROUTE_PATHS};

use crate::form::{Cidr, Extent, Form, Formed, HostPattern, PathPattern};
use crate::table::{Absent, Declared, Key, Kind, Lines, Section, quote, table, words};
use std::sync::Arc;

words! {
    /// Scheme of a client's request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Scheme {
        Http = "http",
        Https = "https",
    }
}

const HOST: Key = Key {
    name: "host",
    kind: Kind::List(&Kind::Text(Form::Host)),
    absent: Absent::Means("any host"),
    help: "Hosts, without port. `*.example.com` matches every host below example.com at any depth, but not example.com \
        itself.",
    why: "",
};
const PATH: Key = Key {
    name: "path",
    kind: Kind::Text(Form::Path),
    absent: Absent::Means("any path"),
    help: "Whole path, without query: fixed (`/x`), with parameters for single segments (`/users/{id}/posts`), or with \
        a rest at the end (`/v1/{*rest}`: everything below `/v1/`, and `/v1/` itself). `{{` and `}}` are literal \
        braces.",
    why: "",
};
const PREFIX: Key = Key {
    name: "prefix",
    kind: Kind::Text(Form::Prefix),
    absent: Absent::Means("any path"),
    help: "A path and everything below it; instead of `path`. `/api` matches `/api`, `/api/` and \
        `/api/x`, but not `/apix`. May have parameters (`/users/{id}`).",
    why: "",
};
const STARTS_WITH: Key = Key {
    name: "starts_with",
    kind: Kind::Text(Form::PathStart),
    absent: Absent::Means("any path"),
    help: "Text that the path begins with; instead of `path`. `/api` also matches `/apix`, like a prefix in HAProxy, \
        NGINX and Envoy. Prefer `prefix` unless that is intended.",
    why: "",
};
const GRPC: Key = Key {
    name: "grpc",
    kind: Kind::Table(&GRPC_CALL),
    absent: Absent::Means("any path"),
    help: "A gRPC service, or one of its methods; instead of `path`.",
    why: "",
};

table! {
    static GRPC_CALL = "grpc of match",
        "A gRPC service or method. Its path is `/SERVICE/METHOD`.";

    /// `grpc` of a match.
    #[derive(Clone, PartialEq)]
    struct GrpcCall {
        service: Option<Arc<str>> = Key {
            name: "service",
            kind: Kind::Text(Form::GrpcName),
            absent: Absent::Means("any service"),
            help: "Name of the service with its package, such as `shop.v1.Orders`.",
            why: "",
        };
        method: Option<Arc<str>> = Key {
            name: "method",
            kind: Kind::Text(Form::GrpcName),
            absent: Absent::Means("any method"),
            help: "Name of the method.",
            why: "",
        };
    }
}

table! {
    pub(in crate::sections) static ALTERNATIVE = "entry of any of match",
        "Condition for requests: all keys that are set must match.";

    /// Requests that match all of host, path and criteria.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Match {
        /// Hosts to match; empty = any.
        hosts: Vec<HostPattern> = HOST;
        /// Path to match; [`PathPattern::Any`] if not set.
        path: PathPattern, rows [PATH, PREFIX, STARTS_WITH, GRPC], read path, write write_path;
        /// Further criteria, which all have to hold.
        criteria: Criteria, inline Criteria;
        /// Criteria of which none may hold.
        not: Criteria = Key {
            name: "not",
            kind: Kind::Table(&CRITERIA),
            absent: Absent::Means("nothing"),
            help: "Criteria, none of which may match.",
            why: "",
        };
    }
}

table! {
    static CRITERIA = "not of match",
        "Criteria, none of which may match.";

    /// Criteria of a match other than host and path.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Criteria {
        ends_with: Option<Arc<str>> = Key {
            name: "ends_with",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("any path"),
            help: "Text that the path ends with, such as `.php`. Can be combined with `prefix`.",
            why: "",
        };
        /// Regular expression for the whole path.
        regex: Option<Arc<str>> = Key {
            name: "regex",
            kind: Kind::Text(Form::Regex),
            absent: Absent::Means("any path"),
            help: "Regular expression that the whole path must match: `.*\\.php` for paths that end with `.php`; \
                `search` matches a part. It has the syntax of Rust's regex crate, without look-around and back-references, and matches in linear \
                time. Can be combined with `prefix`. `runtime.regex_size` limits the compiled program.",
            why: "",
        };
        /// Regular expression for a part of the path.
        search: Option<Arc<str>> = Key {
            name: "search",
            kind: Kind::Text(Form::Regex),
            absent: Absent::Means("any path"),
            help: "Regular expression that some part of the path must match: `\\.php$` for paths that end with `.php`, \
                `^/admin` for paths that begin with `/admin`. Syntax as for `regex`. Can be combined with `prefix`.",
            why: "",
        };
        /// Methods, one of which must match; empty = any.
        methods: Vec<Arc<str>> = Key {
            name: "method",
            kind: Kind::List(&Kind::Text(Form::Method)),
            absent: Absent::Means("any method"),
            help: "Methods, one of which must match.",
            why: "",
        };
        /// Fields by name. The value of any line of the field must be as expected.
        headers: Vec<(Arc<str>, Expected)> = Key {
            name: "header",
            kind: Kind::Map { keys: Form::Token, of: &Kind::TableOr { table: &EXPECTED, key: "equal" } },
            absent: Absent::Means("any fields"),
            help: "Header fields by name, in any case, with the expected value. One line of the field must have it.",
            why: "",
        };
        /// Query parameters by name. The first value of the parameter, decoded, must be as expected.
        query: Vec<(Arc<str>, Expected)> = Key {
            name: "query",
            kind: Kind::Map { keys: Form::Content, of: &Kind::TableOr { table: &EXPECTED, key: "equal" } },
            absent: Absent::Means("any query"),
            help: "Query parameters by name, with the expected value. The first parameter of the name must have it, \
                percent-decoded.",
            why: "",
        };
        /// Cookies by name. The first value of the cookie must be as expected.
        cookies: Vec<(Arc<str>, Expected)> = Key {
            name: "cookie",
            kind: Kind::Map { keys: Form::Token, of: &Kind::TableOr { table: &EXPECTED, key: "equal" } },
            absent: Absent::Means("any cookies"),
            help: "Cookies by name, with the expected value. The first cookie of the name must have it.",
            why: "",
        };
        /// Maps by name. The value of the map must be as expected.
        maps: Vec<(Arc<str>, Expected)> = Key {
            name: "map",
            kind: Kind::Map { keys: Form::Name, of: &Kind::TableOr { table: &EXPECTED, key: "equal" } },
            absent: Absent::Means("any values of maps"),
            help: "Maps by name, with the expected value: `{ tenant = \"gold\" }`. A map without a value for the request \
                is absent.",
            why: "",
        };
        /// Networks, one of which must contain the client's address; empty = any.
        clients: Vec<Cidr> = Key {
            name: "client",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("any client"),
            help: "Networks of clients. Behind `trusted_proxies`, the client is the address that they report.",
            why: "",
        };
        /// Scheme of the client's request; `None` = any.
        scheme: Option<Scheme> = Key {
            name: "scheme",
            kind: Kind::Choice(Scheme::WORDS),
            absent: Absent::Means("any scheme"),
            help: "Scheme of the client's request. Behind `trusted_proxies`, the scheme that they report.",
            why: "",
        };
    }
}

/// Rank of a match among those with the same host and path: of two that match, the greater rank wins. In this order:
/// a longer `ends_with`, a regular expression, a method, the number of fields, of query parameters, of cookies and of maps,
/// client, scheme, the number of negated criteria.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank([usize; 10]);

impl Criteria {
    /// Regular expressions of the path.
    pub fn of_path(&self) -> impl Iterator<Item = (&Arc<str>, Extent)> {
        let whole = self.regex.iter().map(|text| (text, Extent::Whole));
        whole.chain(self.search.iter().map(|text| (text, Extent::Part)))
    }

    /// Regular expressions of the path, fields, query parameters and cookies.
    pub fn expressions(&self) -> impl Iterator<Item = (&Arc<str>, Extent)> {
        let named = [&self.headers, &self.query, &self.cookies, &self.maps].into_iter().flatten();
        self.of_path().chain(named.filter_map(|(_, expected)| expected.expression()))
    }

    /// True if every request matches.
    pub fn is_empty(&self) -> bool {
        self.rank() == [0; 9]
    }

    fn rank(&self) -> [usize; 9] {
        [
            self.ends_with.as_ref().map_or(0, |text| text.len()),
            usize::from(self.regex.is_some()) + usize::from(self.search.is_some()),
            (!self.methods.is_empty()).into(),
            self.headers.len(),
            self.query.len(),
            self.cookies.len(),
            self.maps.len(),
            (!self.clients.is_empty()).into(),
            self.scheme.is_some().into(),
        ]
    }
}

impl Match {
    /// Creates the match that every request meets.
    pub fn all() -> Match {
        Match::default()
    }

    /// Rank among the matches with the same host and path.
    pub fn rank(&self) -> Rank {
        let [ends_with, regex, method, headers, query, cookies, maps, client, scheme] = self.criteria.rank();
        let not = self.not.rank().iter().filter(|count| **count > 0).count();
        Rank([ends_with, regex, method, headers, query, cookies, maps, client, scheme, not])
    }

    /// Regular expressions, expressions of `not` last.
    pub fn expressions(&self) -> impl Iterator<Item = (&Arc<str>, Extent)> {
        self.criteria.expressions().chain(self.not.expressions())
    }

    /// True if host and path alone decide.
    pub fn is_plain(&self) -> bool {
        self.criteria.is_empty() && self.not.is_empty()
    }

    /// The match of requests that match both. Keys that can have only a single value are taken from `other` if it has
    /// them.
    pub(crate) fn and(&self, other: &Match) -> Match {
        fn list<T: Clone>(ours: &[T], theirs: &[T]) -> Vec<T> {
            ours.iter().chain(theirs).cloned().collect()
        }
        fn either<T: Clone>(ours: &[T], theirs: &[T]) -> Vec<T> {
            if theirs.is_empty() { ours.to_vec() } else { theirs.to_vec() }
        }
        let both = |ours: &Criteria, theirs: &Criteria| Criteria {
            ends_with: theirs.ends_with.clone().or(ours.ends_with.clone()),
            regex: theirs.regex.clone().or(ours.regex.clone()),
            search: theirs.search.clone().or(ours.search.clone()),
            methods: either(&ours.methods, &theirs.methods),
            headers: list(&ours.headers, &theirs.headers),
            query: list(&ours.query, &theirs.query),
            cookies: list(&ours.cookies, &theirs.cookies),
            maps: list(&ours.maps, &theirs.maps),
            clients: either(&ours.clients, &theirs.clients),
            scheme: theirs.scheme.or(ours.scheme),
        };
        Match {
            hosts: either(&self.hosts, &other.hosts),
            path: if other.path == PathPattern::Any { self.path.clone() } else { other.path.clone() },
            criteria: both(&self.criteria, &other.criteria),
            not: both(&self.not, &other.not),
        }
    }
}

/// Reads the path of a match, whichever key it has.
fn path(section: &Section) -> PathPattern {
    for key in ["path", "prefix", "starts_with"] {
        if let Some(Formed::Path(path)) = section.formed(key) {
            return path;
        }
    }
    let GrpcCall { service, method } = GrpcCall::of(&section.section("grpc"));
    match (service, method) {
        (Some(service), Some(method)) => PathPattern::Pattern(format!("/{service}/{method}")),
        (Some(service), None) => PathPattern::Prefix(format!("/{service}")),
        (None, Some(method)) => PathPattern::Pattern(format!("/{{service}}/{method}")),
        (None, None) => PathPattern::Any,
    }
}

fn write_path(set: &Match, _: &Match, lines: &mut Lines) {
    match &set.path {
        PathPattern::Any => {}
        PathPattern::Pattern(path) => lines.add("path", quote(path)),
        PathPattern::Prefix(path) => lines.add("prefix", quote(path)),
        PathPattern::StartsWith(text) => lines.add("starts_with", quote(text)),
    }
}

//! `match` of `[[route]]` as a whole: listeners and ALPN protocols beside host, path and criteria.

use super::{ALTERNATIVE, Match};
use crate::form::{Form, PathPattern};
use crate::table::{Absent, Declared, Key, Kind, Section, table};
use std::sync::Arc;

table! {
    pub(crate) static ROUTE_MATCH = "match of [[route]]",
        "Condition for requests: all keys that are set must match.";

    /// `match` of a route.
    #[derive(Clone, PartialEq)]
    pub(crate) struct RouteMatch {
        /// Names of listeners; empty = all HTTP listeners.
        listeners: Vec<Arc<str>> = Key {
            name: "listener",
            kind: Kind::List(&Kind::Text(Form::Name)),
            absent: Absent::Means("all listeners"),
            help: "Names of listeners.",
            why: "",
        };
        /// Hosts, path and criteria of requests.
        matching: Match, inline Match;
        /// Alternatives, one of which must match too; empty = none.
        any: Vec<Match> = Key {
            name: "any",
            kind: Kind::Tables(&ALTERNATIVE),
            absent: Absent::Means("no alternatives"),
            help: "Alternatives, at least one of which must match in addition to the other keys.",
            why: "",
        };
        /// ALPN protocols, one of which the client must offer; empty = any.
        alpn: Vec<Arc<str>> = Key {
            name: "alpn",
            kind: Kind::List(&Kind::Text(Form::Label)),
            absent: Absent::Means("any protocol"),
            help: "ALPN protocols, such as \"h2\". The client must offer at least one of them. Only for listeners with \
                `mode = \"tcp\"` that pass TLS through; there `host` matches the server name in the ClientHello.",
            why: "",
        };
    }
}

impl RouteMatch {
    /// Reads the match of a route.
    pub(in crate::sections) fn of_route(route: &Section) -> RouteMatch {
        RouteMatch::of(&route.section("match"))
    }

    /// The whole match of each alternative.
    pub(in crate::sections) fn alternatives(&self) -> Vec<Match> {
        let each = self.any.iter().map(|alternative| self.matching.and(alternative));
        if self.any.is_empty() { vec![self.matching.clone()] } else { each.collect() }
    }

    /// Path of each alternative.
    pub(in crate::sections) fn paths(&self) -> Vec<PathPattern> {
        self.alternatives().into_iter().map(|one| one.path).collect()
    }
}

//! `paths` of listeners, routes and `[defaults]`: requests whose paths servers may read in several ways; and `ignore_case`
//! of listeners and `[defaults]`.

use crate::table::{Absent, Key, Kind, words};

words! {
    /// Effect on a request whose path has readings for which different routes are chosen. The strictest comes first: of
    /// several settings the lowest applies.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Paths {
        /// The client gets a 400.
        #[default]
        Refuse = "refuse",
        /// The path is matched and forwarded in its normal form.
        Normalise = "normalise",
        /// The path is matched and forwarded as sent.
        AsSent = "as_sent",
    }
}

/// The key `paths` of `[defaults]` and of listeners.
pub(crate) const PATHS: Key = Key {
    name: "paths",
    kind: Kind::Choice(Paths::WORDS),
    absent: Absent::Default("\"refuse\""),
    help: "Effect on a request whose path servers may read in several ways, if these readings choose different routes: \
        `//admin`, `/x/..%2fadmin`, `/%61dmin`. `refuse`: the client gets a 400. `normalise`: the path is matched and \
        forwarded in its normal form (RFC 3986, with slashes merged), and refused if that is still read in several \
        ways. `as_sent`: the path is matched as sent. Paths whose readings all choose the same route are forwarded as \
        sent.",
    why: "An endpoint that decodes the path would otherwise serve a page whose protection was matched against another \
        path.",
};

/// The key `ignore_case` of `[defaults]` and of listeners.
pub(crate) const IGNORE_CASE: Key = Key {
    name: "ignore_case",
    kind: Kind::Bool,
    absent: Absent::Default("false"),
    help: "Ignores upper and lower case where the paths of requests are matched: by `path`, `prefix`, `starts_with`, \
        `ends_with`, `regex` and `search` of routes and of conditions. `prefix = \"/admin\"` then takes `/ADMIN`. The path \
        is forwarded as sent. For listeners whose endpoints ignore case, too: IIS, and servers of files on Windows and macOS.",
    why: "Most servers distinguish case. Behind a listener without it, `/ADMIN` passes the route for `/admin`, and an \
        endpoint that ignores case serves it.",
};

/// The key `paths` of routes.
pub(crate) const ROUTE_PATHS: Key = Key {
    name: "paths",
    kind: Kind::Choice(Paths::WORDS),
    absent: Absent::Means("from the listener"),
    help: "Effect on a request whose path servers may read in several ways, if these readings choose different routes: \
        `refuse`, `normalise` or `as_sent`, as for `paths` of `[listener.NAME]`. Of the routes that the readings choose, \
        the strictest setting applies; for a reading that chooses no route, the setting of the listener.",
    why: "A client must not pass the protection of a route by a spelling that chooses a route with a laxer setting.",
};

//! `underscores` of listeners and `[defaults]`: fields of requests with `_` in their names. See [`Underscores`].

use crate::table::{Absent, Key, Kind, words};

words! {
    /// Effect on a field of a request with `_` in its name. The strictest comes first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Underscores {
        /// The client gets a 400.
        Refuse = "refuse",
        /// The field is removed before the request is matched.
        Drop = "drop",
        /// The field passes as one without `_`.
        #[default]
        Keep = "keep",
    }
}

/// The key `underscores` of `[defaults]` and of listeners.
pub(crate) const UNDERSCORES: Key = Key {
    name: "underscores",
    kind: Kind::Choice(Underscores::WORDS),
    absent: Absent::Default("\"keep\""),
    help: "Effect on header fields of requests with `_` in their names, such as `X_User`. `keep`: they are forwarded. \
        `drop`: they are removed before routes and filters see them, as by NGINX. `refuse`: the client gets a 400. A name \
        that differs from a field of evenkeel's own only by underscores, such as `X_Forwarded_For`, is never forwarded.",
    why: "CGI, WSGI and PHP read `X_User` as `X-User`: set `drop` in front of them if they trust a field that clients \
        must not set. HTTP allows such names, and other endpoints may need them.",
};

//! `cookies` of a route: attributes for the cookies of endpoints. See [`CookieAttributes`].

use crate::diagnostic::Findings;
use crate::sections::same_site::SameSite;
use crate::table::{Absent, Key, Kind, Section, Words, table};

table! {
    static COOKIES_TABLE = "cookies of [[route]]",
        "Attributes for every `Set-Cookie` of an endpoint. Other attributes and evenkeel's own cookies are not \
        changed.";

    /// Attributes that the cookies of endpoints get.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CookieAttributes {
        /// True if `Secure` is added where it is missing.
        secure: bool = Key {
            name: "secure",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Adds `Secure`, so that clients send the cookie only over TLS.",
            why: "A client that uses plain HTTP would never send such a cookie back.",
        };
        /// True if `HttpOnly` is added where it is missing.
        http_only: bool = Key {
            name: "http_only",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Adds `HttpOnly`, so that scripts in pages cannot read the cookie.",
            why: "Some cookies are meant for scripts.",
        };
        /// `SameSite` of all cookies; `None` leaves it as it is.
        same_site: Option<SameSite> = Key {
            name: "same_site",
            kind: Kind::Choice(SameSite::WORDS),
            absent: Absent::Means("as the endpoint sent it"),
            help: "`SameSite` of the cookie, instead of the endpoint's value. It decides which requests from other \
                sites carry the cookie. `none` needs `secure`.",
            why: "",
        };
    }
}

/// The key `cookies` of routes.
pub(in crate::sections) const COOKIES: Key = Key {
    name: "cookies",
    kind: Kind::Table(&COOKIES_TABLE),
    absent: Absent::Means("cookies are returned unchanged"),
    help: "Attributes for the cookies of endpoints.",
    why: "",
};

/// Reports cookies that browsers drop.
pub(in crate::sections) fn check(owner: &Section, findings: &mut Findings) {
    let cookies = owner.section("cookies");
    if cookies.word("same_site") == SameSite::None.word() && !cookies.flag("secure") && !cookies.is_broken() {
        let span = cookies.span_of("same_site");
        let message = "browsers drop a cookie with \"same_site\" none that is not \"secure\"";
        cookies.contradiction(span, message, "secure", findings).help("add secure = true, or write \"lax\"");
    }
}

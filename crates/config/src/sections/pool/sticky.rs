//! How does a client come back to its endpoint? [`Sticky`], `sticky` of a pool.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, DAY, Key, Kind, Lines, S, Section, Words, quote, table, words};
use evenkeel_balance::picker::Algorithm;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

table! {
    pub(crate) static STICKY = "sticky of [pool.NAME]",
        "A signed cookie brings a client back to its endpoint, as long as that endpoint may be used. Exactly one of \
        `secret` and `secret_file` is needed.";

    /// `sticky` of a pool: a signed cookie that names the endpoint.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Sticky {
        /// Name of the cookie, a token (RFC 6265, section 4.1.1).
        cookie: String = Key {
            name: "cookie",
            kind: Kind::Text(Form::Token),
            absent: Absent::Default("\"evenkeel\""),
            help: "Name of the cookie.",
            why: "No other software uses this name.",
        };
        /// The key it is signed with.
        secret: Secret, rows [
            Key {
                name: "secret",
                kind: Kind::Text(Form::Secret),
                absent: Absent::Means("that of `secret_file`"),
                help: "The key that cookies are signed with, 16 bytes or more, the same on every instance: as \
                       `\"${STICKY_SECRET}\"`. It is never shown.",
                why: "",
            },
            Key {
                name: "secret_file",
                kind: Kind::Text(Form::File),
                absent: Absent::Means("that of `secret`"),
                help: "A file whose content is the key, without white space at its end.",
                why: "",
            },
        ], read secret, write write_secret;
        /// How long the cookie is valid; `None` = until the browser is closed.
        ttl: Option<Duration> = Key {
            name: "ttl",
            kind: Kind::Duration { min: S, max: 400 * DAY, off: true },
            absent: Absent::Default("\"off\""),
            help: "How long the cookie is valid. `\"off\"`: until the browser is closed.",
            why: "No cookie is stored on the client's disk.",
        };
        /// Its `Path`, without `;`.
        path: String = Key {
            name: "path",
            kind: Kind::Text(Form::CookiePath),
            absent: Absent::Default("\"/\""),
            help: "Its `Path`: clients send it with requests below that.",
            why: "Every path of the site.",
        };
        /// Whether it has `Secure`.
        secure: bool = Key {
            name: "secure",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Whether clients send it over TLS only. Turn it on where clients come by TLS.",
            why: "Listeners speak plain HTTP: a client that uses it would never send such a cookie back.",
        };
        /// Its `SameSite`; `None` only with `secure`, or browsers would drop it.
        same_site: SameSite = Key {
            name: "same_site",
            kind: Kind::Choice(SameSite::WORDS),
            absent: Absent::Default("\"lax\""),
            help: "With which requests from other sites clients send it. `none` needs `secure`.",
            why: "What browsers assume if a cookie does not say it.",
        };
    }
}

words! {
    /// With which requests from other sites a browser sends the cookie (RFC 6265bis, section 4.1.2.7).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SameSite {
        /// When the user follows a link.
        Lax = "lax",
        /// With none.
        Strict = "strict",
        /// With all.
        None = "none",
    }
}

impl SameSite {
    /// As it is written in a file; browsers compare without case.
    pub fn as_str(self) -> &'static str {
        self.word()
    }
}

/// A key, or where it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The key itself, 16 bytes or more.
    Inline(String),
    /// A file whose content it is, without white space at its end.
    File(PathBuf),
}

/// Never shows a key.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Inline(_) => f.write_str("Inline(***)"),
            Secret::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// That there is exactly one of the two is checked apart.
fn secret(sticky: &Section) -> Secret {
    match sticky.text("secret_file") {
        Some(path) => Secret::File(PathBuf::from(path)),
        None => Secret::Inline(sticky.text("secret").unwrap_or_default()),
    }
}

/// What is written in the place of a key. Too short to be one, so that a process cannot run with it by accident.
const MASK: &str = "***";

fn write_secret(set: &Sticky, _: &Sticky, lines: &mut Lines) {
    match &set.secret {
        Secret::Inline(_) => lines.add("secret", quote(MASK)),
        Secret::File(path) => lines.add("secret_file", quote(&path.display().to_string())),
    }
}

/// Reports a cookie beside an algorithm with keys of its own, one that browsers would drop, and a secret that is not there.
pub(super) fn check(pool: &Section, name: &str, algorithm: &Algorithm, findings: &mut Findings) {
    let Some(set) = pool.set("sticky").filter(|_| pool.has_read("sticky")) else { return };
    if algorithm.promises.affinity {
        let message = format!("the cookie of \"sticky\" goes before the key of \"{}\"", algorithm.name);
        findings
            .add(Code::AtOdds, set.span, message)
            .see("the algorithm is here", pool.span_of("balance"))
            .help("leave \"sticky\" out if the key is what matters, or choose another algorithm if the client is");
    }
    let sticky = pool.section("sticky");
    check_secret(&sticky, name, findings);
    if sticky.word("same_site") == SameSite::None.word() && !sticky.flag("secure") && !sticky.is_broken() {
        let span = sticky.span_of("same_site");
        let message = "browsers drop a cookie with \"same_site\" none that is not \"secure\"";
        sticky.contradiction(span, message, "secure", findings).help("add secure = true, or write \"lax\"");
    }
}

fn check_secret(sticky: &Section, name: &str, findings: &mut Findings) {
    match (sticky.set("secret"), sticky.set("secret_file")) {
        (None, None) => {
            findings
                .add(Code::Missing, sticky.span, format!("sticky of [pool.{name}] has no secret"))
                .help("add secret_file = \"/etc/evenkeel/sticky.key\" or secret = \"${STICKY_SECRET}\"");
        }
        (Some(_), Some(file)) => {
            let message = "\"sticky\" has both \"secret\" and \"secret_file\"";
            sticky.contradiction(file.span, message, "secret", findings).help("keep one of them");
        }
        _ => {}
    }
}

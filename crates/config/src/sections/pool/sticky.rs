//! `sticky` of a pool: session affinity by a signed cookie. See [`Sticky`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::sections::same_site::SameSite;
use crate::table::{Absent, DAY, Key, Kind, Lines, S, Section, Words, quote, table};
use evenkeel_balance::picker::Algorithm;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

table! {
    pub(crate) static STICKY = "sticky of [pool.NAME]",
        "Session affinity: a signed cookie keeps a client at its endpoint, as long as that endpoint is usable. Without \
        `secret` and `secret_file`, evenkeel generates a key and stores it.";

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
        /// Key that signs cookies, or the file that holds it.
        secret: Secret, rows [
            Key {
                name: "secret",
                kind: Kind::Text(Form::Secret),
                absent: Absent::Means("from `secret_file`, or else generated at the first start"),
                help: "Key that signs the cookies: at least 16 bytes, equal on every instance, such as \
                    `\"${STICKY_SECRET}\"`. It is never shown.",
                why: "",
            },
            Key {
                name: "secret_file",
                kind: Kind::Text(Form::File),
                absent: Absent::Means("`sticky.key` in the folder of `state` of `[runtime]`, or in `/var/lib/evenkeel`"),
                help: "File of the key, without trailing white space. The default file is created if it is missing, \
                    readable only by this user, and stays the same across reloads, restarts and upgrades. Other \
                    instances need a copy, or clients change endpoints when they change instances.",
                why: "",
            },
        ], read secret, write write_secret;
        /// Lifetime of the cookie; `None` = until the browser is closed.
        ttl: Option<Duration> = Key {
            name: "ttl",
            kind: Kind::Duration { min: S, max: 400 * DAY, off: true },
            absent: Absent::Default("\"off\""),
            help: "Lifetime of the cookie. `\"off\"`: until the browser is closed.",
            why: "A session cookie is not stored on the client's disk.",
        };
        /// Its `Path` attribute, without `;`.
        path: String = Key {
            name: "path",
            kind: Kind::Text(Form::CookiePath),
            absent: Absent::Default("\"/\""),
            help: "`Path` of the cookie. Clients send the cookie with requests below this path.",
            why: "Covers the whole site.",
        };
        /// True if the cookie has the `Secure` attribute.
        secure: bool = Key {
            name: "secure",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Adds `Secure`, so that clients send the cookie only over TLS. Turn it on if clients use HTTPS.",
            why: "A client that uses plain HTTP would never send such a cookie back.",
        };
        /// Its `SameSite` attribute; `None` only with `secure`, or browsers would drop the cookie.
        same_site: SameSite = Key {
            name: "same_site",
            kind: Kind::Choice(SameSite::WORDS),
            absent: Absent::Default("\"lax\""),
            help: "`SameSite` of the cookie. It decides which requests from other sites carry the cookie. `none` needs \
                `secure`.",
            why: "The value that browsers assume for a cookie without `SameSite`.",
        };
    }
}

/// Key that signs cookies, or its location.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The key itself, 16 bytes or more.
    Inline(String),
    /// File of the key, without trailing white space.
    File(PathBuf),
    /// A key that the process makes, in [`Runtime::sticky_key`](crate::plan::Runtime::sticky_key).
    Made,
}

/// Prints asterisks instead of a key.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Inline(_) => f.write_str("Inline(***)"),
            Secret::File(path) => f.debug_tuple("File").field(path).finish(),
            Secret::Made => f.write_str("Made"),
        }
    }
}

/// Reads the secret. [`check`] reports a table with both.
fn secret(sticky: &Section) -> Secret {
    match (sticky.text("secret_file"), sticky.set("secret")) {
        (Some(path), _) => Secret::File(PathBuf::from(path)),
        (None, Some(_)) => Secret::Inline(sticky.text("secret").unwrap_or_default()),
        (None, None) => Secret::Made,
    }
}

/// Text written instead of a key. Too short to be valid, so that no process runs with it by accident.
const MASK: &str = "***";

fn write_secret(set: &Sticky, _: &Sticky, lines: &mut Lines) {
    match &set.secret {
        Secret::Inline(_) => lines.add("secret", quote(MASK)),
        Secret::File(path) => lines.add("secret_file", quote(&path.display().to_string())),
        Secret::Made => {}
    }
}

/// Reports a cookie combined with an algorithm that has its own affinity, a cookie that browsers would drop,
/// and two secrets.
pub(super) fn check(pool: &Section, algorithm: &Algorithm, findings: &mut Findings) {
    let Some(set) = pool.set("sticky").filter(|_| pool.has_read("sticky")) else { return };
    if algorithm.promises.affinity {
        let message = format!("the cookie of \"sticky\" goes before the key of \"{}\"", algorithm.name);
        findings
            .add(Code::AtOdds, set.span, message)
            .see("the algorithm is here", pool.span_of("balance"))
            .help("leave \"sticky\" out if the key is what matters, or choose another algorithm if the client is");
    }
    let sticky = pool.section("sticky");
    if let (Some(_), Some(file)) = (sticky.set("secret"), sticky.set("secret_file")) {
        let message = "\"sticky\" has both \"secret\" and \"secret_file\"";
        sticky.contradiction(file.span, message, "secret", findings).help("keep one of them");
    }
    if sticky.word("same_site") == SameSite::None.word() && !sticky.flag("secure") && !sticky.is_broken() {
        let span = sticky.span_of("same_site");
        let message = "browsers drop a cookie with \"same_site\" none that is not \"secure\"";
        sticky.contradiction(span, message, "secure", findings).help("add secure = true, or write \"lax\"");
    }
}

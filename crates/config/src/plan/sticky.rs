//! How does a client find its endpoint again? [`Sticky`].

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// `sticky` of a pool: a signed cookie that names the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sticky {
    /// Name of the cookie, a token (RFC 6265, section 4.1.1).
    pub cookie: String,
    /// The key it is signed with.
    pub secret: Secret,
    /// How long it holds; `None` = until the browser ends.
    pub ttl: Option<Duration>,
    /// Its `Path`, without `;`.
    pub path: String,
    /// Whether it has `Secure`.
    pub secure: bool,
    /// Its `SameSite`; `None` only with `secure`, or browsers would drop it.
    pub same_site: SameSite,
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

/// With which requests from other sites a browser sends the cookie (RFC 6265bis, section 4.1.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    /// When somebody follows a link.
    Lax,
    /// With none.
    Strict,
    /// With all.
    None,
}

impl SameSite {
    /// As it is written in a file; browsers compare without case.
    pub fn as_str(self) -> &'static str {
        match self {
            SameSite::Lax => "lax",
            SameSite::Strict => "strict",
            SameSite::None => "none",
        }
    }
}

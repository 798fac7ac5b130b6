//! `same_site` of cookies: of sticky sessions, and of endpoints.

use crate::table::{Words, words};

words! {
    /// Requests from other sites that carry the cookie (RFC 6265bis, section 4.1.2.7).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SameSite {
        /// Only top-level navigation, as by following a link.
        Lax = "lax",
        /// No requests from other sites.
        Strict = "strict",
        /// All requests from other sites.
        None = "none",
    }
}

impl SameSite {
    /// Name in the configuration; browsers ignore its case.
    pub fn as_str(self) -> &'static str {
        self.word()
    }
}

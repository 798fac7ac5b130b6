//! `redirect_https` of a listener: requests without TLS are sent to the same URL over HTTPS. See [`RedirectHttps`].

use crate::table::{Absent, Key, Kind, table};

table! {
    pub(crate) static REDIRECT_HTTPS = "redirect_https of [listener.NAME]",
        "Redirects to HTTPS.";

    /// `redirect_https` of a listener.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RedirectHttps {
        /// Port of the URL over HTTPS.
        port: u16 = Key {
            name: "port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Default("443"),
            help: "Port at which clients reach the listener with TLS.",
            why: "The default port of HTTPS, which URLs leave out.",
        };
    }
}

//! Versions of TLS, for clients and endpoints alike.

use crate::table::words;

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TlsVersion {
        /// TLS 1.2 (RFC 5246).
        V12 = "1.2",
        /// TLS 1.3 (RFC 8446).
        V13 = "1.3",
    }
}

//! Which versions of TLS are there? The same with clients and with endpoints.

use crate::table::words;

words! {
    /// A version of TLS.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TlsVersion {
        /// TLS 1.2.
        V12 = "1.2",
        /// TLS 1.3.
        V13 = "1.3",
    }
}

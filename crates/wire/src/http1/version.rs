//! Versions of HTTP/1.

/// HTTP/1.0 or HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0: no chunks, and connections close unless asked not to.
    V10,
    /// HTTP/1.1, and later minor versions.
    V11,
}

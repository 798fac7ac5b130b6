//! What does a header say, in either version?

use std::fmt;
use std::net::SocketAddr;

/// Bytes of a header, the largest that is read. Version 1 ends at 107; version 2 could state 64 KiB, but the extensions
/// in use (TLS, cloud providers) stay far below this.
pub const LEN_MAX: usize = 4096;

/// A header that was read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its bytes; the client's own follow.
    pub len: usize,
    /// The client's addresses. `None`: the connection is the sender's own (a health check), or the client has no address.
    pub addresses: Option<Addresses>,
}

/// Both ends of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The client's.
    pub source: SocketAddr,
    /// What the client connected to.
    pub destination: SocketAddr,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They begin like neither version.
    Signature,
    /// No end within 107 bytes (version 1) or [`LEN_MAX`].
    TooLong,
    /// Version 1: not the six words of an address line, or `UNKNOWN`.
    Line,
    /// An address or a port that is none.
    Address,
    /// Version 2: a version other than 2, or a command other than LOCAL and PROXY.
    Command,
    /// Version 2: a family or a transport that the protocol does not know.
    Family,
    /// Version 2: shorter than its addresses, or extensions that do not end with the header.
    Length,
    /// Version 2: a checksum (CRC32c) that does not fit.
    Checksum,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Signature => "no PROXY header",
            Malformed::TooLong => "the PROXY header is longer than allowed",
            Malformed::Line => "the line of the PROXY header is malformed",
            Malformed::Address => "an address of the PROXY header is malformed",
            Malformed::Command => "the PROXY header's version or command is unknown",
            Malformed::Family => "the PROXY header's address family or transport is unknown",
            Malformed::Length => "the PROXY header's length does not match its content",
            Malformed::Checksum => "the PROXY header's checksum does not match",
        })
    }
}

impl std::error::Error for Malformed {}

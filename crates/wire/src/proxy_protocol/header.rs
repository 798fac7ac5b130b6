//! Contents of a PROXY protocol header, in either version.

use std::fmt;
use std::net::SocketAddr;

/// Longest header that is read, in bytes. Version 1 ends at 107. Version 2 could state 64 KiB, but the extensions in
/// use (TLS, cloud providers) stay far below this.
pub const LEN_MAX: usize = 4096;

/// A header that was read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the header in bytes; the client's bytes follow.
    pub len: usize,
    /// Addresses of the client's connection. `None`: the connection is the sender's own (a health check), or the client
    /// has no address.
    pub addresses: Option<Addresses>,
}

/// Both ends of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Address of the client, with its port.
    pub source: SocketAddr,
    /// Address that the client connected to.
    pub destination: SocketAddr,
}

/// Reason why bytes are not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes begin like neither version.
    Signature,
    /// There is no end within 107 bytes (version 1) or [`LEN_MAX`].
    TooLong,
    /// Version 1: neither the six words of an address line nor `UNKNOWN`.
    Line,
    /// An address or a port is malformed.
    Address,
    /// Version 2: the version is not 2, or the command is neither LOCAL nor PROXY.
    Command,
    /// Version 2: the address family or the transport is unknown.
    Family,
    /// Version 2: shorter than its addresses, or with extensions that do not end with the header.
    Length,
    /// Version 2: the checksum (CRC32c) is wrong.
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

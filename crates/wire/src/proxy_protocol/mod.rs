//! Who is the client behind a proxy that speaks TCP for it? The PROXY protocol, versions 1 and 2, read and written: a
//! sans-io codec, so that the live proxy, tests and fuzzers drive the same code.
//!
//! Source: HAProxy, doc/proxy-protocol.txt. Where that leaves a choice, the stricter reading is taken: whoever is
//! trusted to send this header has no reason to send it any other way.

mod v1;
mod v2;

use evenkeel_config::plan::ProxyVersion;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Bytes of a header, the largest that is read. Version 1 ends at 107; version 2 could state 64 KiB, but the extensions
/// in use (TLS, cloud providers) stay far below this.
pub const LEN_MAX: usize = 4096;

/// A header that was read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its bytes; the client's own follow.
    pub len: usize,
    /// Whom it speaks of. `None`: of the sender itself (a health check), or of nobody with an address.
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
            Malformed::Length => "the PROXY header's length does not fit what it holds",
            Malformed::Checksum => "the PROXY header's checksum does not fit",
        })
    }
}

impl std::error::Error for Malformed {}

/// Reads the header at the front of `bytes`; `None` while it is not whole. The answer for some bytes stays the same
/// whatever follows them.
///
/// # Errors
/// Why it is none, as soon as no further byte could mend it or, within a line or an announced length, at its end.
pub fn read(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(a, b)| a == b);
    if begins(v2::SIGNATURE) {
        v2::read(bytes)
    } else if begins(v1::PREFIX) {
        v1::read(bytes)
    } else {
        Err(Malformed::Signature)
    }
}

/// Appends a header that speaks of these addresses, or of nobody's.
pub fn write(version: ProxyVersion, addresses: Option<Addresses>, out: &mut Vec<u8>) {
    let addresses = addresses.map(Addresses::of_one_family);
    match version {
        ProxyVersion::V1 => v1::write(addresses, out),
        ProxyVersion::V2 => v2::write(addresses, out),
    }
}

/// Appends a header that says that the connection is the sender's own, and no client's.
pub fn write_local(version: ProxyVersion, out: &mut Vec<u8>) {
    match version {
        // Version 1 has no word for it; whoever reads this takes the addresses of the connection.
        ProxyVersion::V1 => v1::write(None, out),
        ProxyVersion::V2 => v2::write_local(out),
    }
}

impl Addresses {
    /// A header names one family for both ends, so an IPv4 address beside an IPv6 one is written as a mapped one.
    fn of_one_family(self) -> Addresses {
        let canonical = |addr: SocketAddr| SocketAddr::new(addr.ip().to_canonical(), addr.port());
        let (source, destination) = (canonical(self.source), canonical(self.destination));
        if source.is_ipv4() == destination.is_ipv4() {
            return Addresses { source, destination };
        }
        let mapped = |addr: SocketAddr| match addr.ip() {
            IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), addr.port()),
            IpAddr::V6(_) => addr,
        };
        Addresses { source: mapped(source), destination: mapped(destination) }
    }
}

#[cfg(test)]
mod tests;

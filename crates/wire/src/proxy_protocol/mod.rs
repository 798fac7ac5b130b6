//! The PROXY protocol, versions 1 and 2, by which a TCP proxy states the address of its client. A sans-io codec, so
//! that the live proxy, tests and fuzzers drive the same code.
//!
//! Source: HAProxy, doc/proxy-protocol.txt. Where that leaves a choice, the stricter reading is taken: a trusted sender
//! has no reason to send anything else.

// Order: v1, v2, header
mod header;
mod v1;
mod v2;

pub use header::{Addresses, Header, LEN_MAX, Malformed};

use std::net::{IpAddr, SocketAddr};

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// A line of text, of at most 107 bytes.
    V1,
    /// A binary header with extensions.
    V2,
}

/// Reads the header at the start of `bytes`; `None` while it is incomplete. The result for some bytes stays the same
/// whatever follows them.
///
/// # Errors
/// The reason why it is not a header: as soon as no further byte could make it valid or, inside a line or a stated
/// length, at its end.
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

/// Appends a header with these addresses, or a header without addresses.
pub fn write(version: ProxyVersion, addresses: Option<Addresses>, out: &mut Vec<u8>) {
    let addresses = addresses.map(Addresses::of_one_family);
    match version {
        ProxyVersion::V1 => v1::write(addresses, out),
        ProxyVersion::V2 => v2::write(addresses, out),
    }
}

/// Appends a header that states that the connection is the sender's own, not a client's.
pub fn write_local(version: ProxyVersion, out: &mut Vec<u8>) {
    match version {
        // Version 1 has no way to state it. After `UNKNOWN` a reader uses the addresses of the connection.
        ProxyVersion::V1 => v1::write(None, out),
        ProxyVersion::V2 => v2::write_local(out),
    }
}

impl Addresses {
    /// Converts both ends to one family, as a header has only one family: an IPv4 address with an IPv6 address becomes
    /// a mapped address.
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

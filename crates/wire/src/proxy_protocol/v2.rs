//! Version 2: sixteen bytes, binary addresses, then extensions (type, length, value).

use super::header::{Addresses, Header, LEN_MAX, Malformed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Length of signature, version and command, family and transport, and the length of the rest.
const FIXED: usize = 16;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

const INET: u8 = 1;
const INET6: u8 = 2;
const UNIX: u8 = 3;

/// Type of the extension with a checksum of the whole header.
const CRC32C: u8 = 0x03;

pub(super) fn read(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED>() else { return Ok(None) };
    let len = FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if fixed[12] != LOCAL && fixed[12] != PROXY {
        return Err(Malformed::Command);
    }
    if len > LEN_MAX {
        return Err(Malformed::TooLong);
    }
    let Some(rest) = rest.get(..len - FIXED) else { return Ok(None) };
    // A LOCAL connection is the sender's own: any addresses are to be skipped.
    if fixed[12] == LOCAL {
        return Ok(Some(Header { len, addresses: None }));
    }
    let (family, transport) = (fixed[13] >> 4, fixed[13] & 15);
    if family > UNIX || transport > 2 {
        return Err(Malformed::Family);
    }
    let (addresses, extensions) = addresses(family, rest).ok_or(Malformed::Length)?;
    check(&bytes[..len], len - extensions.len())?;
    Ok(Some(Header { len, addresses }))
}

/// Returns the addresses, which datagrams have as well as streams, and the bytes after them.
fn addresses(family: u8, rest: &[u8]) -> Option<(Option<Addresses>, &[u8])> {
    let port = |bytes: &[u8; 4], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let of = |[source, destination]: [IpAddr; 2], ports: &[u8; 4]| Addresses {
        source: SocketAddr::new(source, port(ports, 0)),
        destination: SocketAddr::new(destination, port(ports, 2)),
    };
    match family {
        INET => {
            let (ips, rest) = rest.split_first_chunk::<8>()?;
            let (ports, rest) = rest.split_first_chunk::<4>()?;
            let ip = |at: usize| Ipv4Addr::new(ips[at], ips[at + 1], ips[at + 2], ips[at + 3]).into();
            Some((Some(of([ip(0), ip(4)], ports)), rest))
        }
        INET6 => {
            let (source, rest) = rest.split_first_chunk::<16>()?;
            let (destination, rest) = rest.split_first_chunk::<16>()?;
            let (ports, rest) = rest.split_first_chunk::<4>()?;
            let ip = |octets: &[u8; 16]| Ipv6Addr::from(*octets).into();
            Some((Some(of([ip(source), ip(destination)], ports)), rest))
        }
        UNIX => rest.get(216..).map(|rest| (None, rest)),
        _ => Some((None, rest)),
    }
}

/// Walks through the extensions, which begin at `at` and must end with the header, and verifies the checksum if there
/// is any.
fn check(header: &[u8], mut at: usize) -> Result<(), Malformed> {
    while at < header.len() {
        let Some([kind, high, low]) = header.get(at..at + 3) else { return Err(Malformed::Length) };
        let value = at + 3;
        let end = value + usize::from(u16::from_be_bytes([*high, *low]));
        let stated = header.get(value..end).ok_or(Malformed::Length)?;
        if *kind == CRC32C {
            let stated: [u8; 4] = stated.try_into().map_err(|_| Malformed::Length)?;
            // Computed over the header with zeros in place of the checksum.
            let parts = [&header[..value], &[0; 4], &header[end..]];
            if crc32c(parts.into_iter().flatten().copied()) != u32::from_be_bytes(stated) {
                return Err(Malformed::Checksum);
            }
        }
        at = end;
    }
    Ok(())
}

/// The CRC of RFC 4960 appendix B, bit by bit: computed once per connection whose sender adds a checksum.
fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    let byte = |crc: u32, byte: u8| {
        let bit = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        (0..8).fold(crc ^ u32::from(byte), bit)
    };
    !bytes.fold(!0, byte)
}

pub(super) fn write(addresses: Option<Addresses>, out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    out.push(PROXY);
    let Some(Addresses { source, destination }) = addresses else { return out.extend_from_slice(&[0, 0, 0]) };
    let (family, len): (u8, u16) = if source.is_ipv4() { (INET, 12) } else { (INET6, 36) };
    out.push(family << 4 | 1);
    out.extend_from_slice(&len.to_be_bytes());
    for addr in [source, destination] {
        match addr.ip() {
            IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
        }
    }
    for addr in [source, destination] {
        out.extend_from_slice(&addr.port().to_be_bytes());
    }
}

pub(super) fn write_local(out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[LOCAL, 0, 0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // Test vectors of RFC 3720 appendix B.4.
        assert_eq!(crc32c([0; 32].into_iter()), 0x8a91_36aa);
        assert_eq!(crc32c(0..32), 0x46dd_794e);
    }
}

//! Version 1: a line of text, `PROXY TCP4 192.0.2.1 192.0.2.9 56324 443`.

use super::header::{Addresses, Header, Malformed};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) const PREFIX: &[u8] = b"PROXY ";

/// Longest line that the protocol allows, its CRLF included.
const LINE_MAX: usize = 107;

pub(super) fn read(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let within = &bytes[..bytes.len().min(LINE_MAX)];
    let Some(lf) = memchr::memchr(b'\n', within) else {
        return if within.len() == LINE_MAX { Err(Malformed::TooLong) } else { Ok(None) };
    };
    let line = within[..lf].strip_suffix(b"\r").ok_or(Malformed::Line)?;
    let words = line.strip_prefix(PREFIX).ok_or(Malformed::Line)?;
    Ok(Some(Header { len: lf + 1, addresses: addresses(words)? }))
}

fn addresses(words: &[u8]) -> Result<Option<Addresses>, Malformed> {
    // Anything after UNKNOWN is to be ignored.
    if words == b"UNKNOWN" || words.starts_with(b"UNKNOWN ") {
        return Ok(None);
    }
    let words = std::str::from_utf8(words).map_err(|_| Malformed::Line)?;
    let mut words = words.split(' ');
    let mut next = || words.next().ok_or(Malformed::Line);
    let (family, source, destination, source_port, destination_port) = (next()?, next()?, next()?, next()?, next()?);
    if words.next().is_some() {
        return Err(Malformed::Line);
    }
    let ip = |text: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            _ => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        }
    };
    if family != "TCP4" && family != "TCP6" {
        return Err(Malformed::Line);
    }
    let addr = |text, port_text| Some(SocketAddr::new(ip(text)?, port(port_text)?));
    let addresses = addr(source, source_port)
        .zip(addr(destination, destination_port))
        .map(|(source, destination)| Addresses { source, destination });
    addresses.ok_or(Malformed::Address).map(Some)
}

/// Reads decimal digits without a leading zero.
fn port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

pub(super) fn write(addresses: Option<Addresses>, out: &mut Vec<u8>) {
    let Some(Addresses { source, destination }) = addresses else {
        return out.extend_from_slice(b"PROXY UNKNOWN\r\n");
    };
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    // Writing to a Vec cannot fail.
    let _ =
        write!(out, "PROXY {family} {} {} {} {}\r\n", source.ip(), destination.ip(), source.port(), destination.port());
}

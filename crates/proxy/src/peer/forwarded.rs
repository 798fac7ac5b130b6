//! Who sent a request that came through proxies? `X-Forwarded-*` and `Forwarded` (RFC 7239), believed as far as each hop
//! is trusted: an address counts only if a trusted proxy wrote it down.

use evenkeel_config::plan::Cidr;
use evenkeel_wire::head::Request;
use evenkeel_wire::http1::fields::list;
use evenkeel_wire::http1::request::valid_host;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

/// What a request from a trusted proxy says of its origin.
#[derive(Debug, PartialEq, Eq)]
pub struct Origin {
    /// The client: from the right, the first address that is not a trusted proxy's.
    pub client: IpAddr,
    /// `X-Forwarded-For` to send on: what was sound of the list, and the proxy that sent it.
    pub list: String,
    /// `Forwarded` to send on, if there was one.
    pub forwarded: Option<Vec<u8>>,
    /// What the client spoke.
    pub scheme: Option<&'static str>,
    /// What the client asked for.
    pub host: Option<Box<[u8]>>,
    /// Values that were malformed, or that two fields disagreed about. They do not go on.
    pub malformed: u64,
}

/// Whether an address is in one of these networks.
pub fn is_in(networks: &[Cidr], ip: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(ip))
}

/// Reads what `peer`, a trusted proxy, says of a request's origin. `scheme` is what it speaks with us.
pub fn believe<'b>(request: &Request<'_, 'b>, trusted: &[Cidr], peer: IpAddr, scheme: &str) -> Origin {
    let mut malformed = 0;
    let hops = x_forwarded_for(request, &mut malformed);
    let elements = forwarded(request).unwrap_or_else(|Malformed| {
        malformed += 1;
        None
    });
    let from_list = hops.as_ref().map(|hops| client(hops, trusted, peer));
    let from_forwarded = elements.as_ref().map(|elements| {
        let hops: Vec<_> = elements.iter().rev().map_while(|e| e.client).collect();
        (client(&hops, trusted, peer), hops)
    });
    let mut origin = Origin { client: peer, list: String::new(), forwarded: None, scheme: None, host: None, malformed };
    // A proxy that writes only one of them lets the client's own pass as the other: what they disagree about is no news.
    let agree = match (&from_list, &from_forwarded) {
        (Some(list), Some((forwarded, _))) => list.0 == forwarded.0,
        _ => true,
    };
    let (mut hops, mut named) = (hops.unwrap_or_default(), None);
    if !agree {
        origin.malformed += 1;
    } else if let (Some(elements), Some(((ip, at), by_forwarded))) = (&elements, from_forwarded) {
        // The element that names the client was written by the proxy that it connected to.
        named = at.map(|at| &elements[elements.len() - 1 - at]);
        origin.client = ip;
        origin.forwarded = Some(extended(request, peer, scheme));
        if from_list.is_none() {
            hops = by_forwarded;
        }
    }
    if let Some((ip, _)) = from_list {
        origin.client = ip;
    }
    for hop in hops.iter().rev() {
        // Writing to a String cannot fail.
        let _ = write!(origin.list, "{hop}, ");
    }
    let _ = write!(origin.list, "{peer}");
    let scheme = |value: &'b [u8]| SCHEMES.into_iter().find(|s| value.eq_ignore_ascii_case(s.as_bytes()));
    origin.scheme = single(request, "x-forwarded-proto", scheme, &mut origin.malformed);
    origin.scheme = origin.scheme.or(named.and_then(|element| element.scheme));
    let host = single(request, "x-forwarded-host", valid_host, &mut origin.malformed);
    origin.host = host.or(named.and_then(|element| element.host)).map(Box::from);
    origin
}

const SCHEMES: [&str; 4] = ["https", "http", "wss", "ws"];

/// The first of `hops`, the nearest first, that is no trusted proxy, and which it is; the farthest if all are. Without
/// hops, the peer that sent the request.
fn client(hops: &[IpAddr], trusted: &[Cidr], peer: IpAddr) -> (IpAddr, Option<usize>) {
    let at = hops.iter().position(|hop| !is_in(trusted, *hop)).or(hops.len().checked_sub(1));
    (at.map_or(peer, |at| hops[at]), at)
}

/// The addresses of `X-Forwarded-For`, the nearest first, up to what is none: its writer may have made up all
/// that comes before it. `None` without the field.
fn x_forwarded_for(request: &Request<'_, '_>, malformed: &mut u64) -> Option<Vec<IpAddr>> {
    let mut nodes: Vec<Option<IpAddr>> = Vec::new();
    for value in request.values("x-forwarded-for") {
        nodes.extend(list(value).map(address));
    }
    *malformed += u64::from(nodes.contains(&None));
    (!nodes.is_empty()).then(|| nodes.into_iter().rev().map_while(|node| node).collect())
}

/// The value of a field that may be there once and must make sense.
fn single<'b, T>(
    request: &Request<'_, 'b>,
    name: &str,
    read: impl Fn(&'b [u8]) -> Option<T>,
    malformed: &mut u64,
) -> Option<T> {
    let mut values = request.values(name);
    let first = values.next()?;
    let value = if values.next().is_none() { read(first) } else { None };
    *malformed += u64::from(value.is_none());
    value
}

/// An address, with or without a port. The zone of an IPv6 address (RFC 4007: `fe80::1%eth0`) is left out: it is a name of an
/// interface of the proxy's, and means nothing here.
fn address(node: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(node).ok()?;
    let zoned = text.find('%').map(|at| without_zone(text, at));
    let text = match &zoned {
        None => text,
        Some(zoned) => zoned.as_deref()?,
    };
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let ip = bare.parse::<IpAddr>().or_else(|_| text.parse::<SocketAddr>().map(|addr| addr.ip()));
    ip.ok().map(|ip| ip.to_canonical())
}

/// The text without the zone that begins at `at`; `None` if that is no zone of an IPv6 address.
fn without_zone(text: &str, at: usize) -> Option<String> {
    let (address, zone) = (&text[..at], &text[at + 1..]);
    let (zone, rest) = zone.split_at(zone.find(']').unwrap_or(zone.len()));
    // RFC 6874, where `%` itself is written `%25`.
    let is_zone = |b: u8| b.is_ascii_alphanumeric() || b"-._~%".contains(&b);
    let fits = address.contains(':') && !zone.is_empty() && zone.bytes().all(is_zone);
    fits.then(|| format!("{address}{rest}"))
}

/// One element of `Forwarded`: what one proxy wrote down.
#[derive(Default)]
struct Element<'b> {
    /// `None` without an address: `unknown`, or a name that hides one.
    client: Option<IpAddr>,
    scheme: Option<&'static str>,
    host: Option<&'b [u8]>,
}

struct Malformed;

/// The elements of `Forwarded`, the farthest first.
fn forwarded<'b>(request: &Request<'_, 'b>) -> Result<Option<Vec<Element<'b>>>, Malformed> {
    let mut elements = Vec::new();
    for value in request.values("forwarded") {
        for part in split(value, b',') {
            elements.push(element(part.ok_or(Malformed)?)?);
        }
    }
    Ok((!elements.is_empty()).then_some(elements))
}

fn element(part: &[u8]) -> Result<Element<'_>, Malformed> {
    let mut element = Element::default();
    let mut seen = [false; 3];
    for pair in split(part, b';') {
        let pair = pair.ok_or(Malformed)?;
        let equals = memchr::memchr(b'=', pair).ok_or(Malformed)?;
        let (name, value) = (&pair[..equals], unquoted(&pair[equals + 1..]).ok_or(Malformed)?);
        let which = match name.to_ascii_lowercase().as_slice() {
            b"for" => {
                element.client = address(value);
                0
            }
            b"proto" => {
                element.scheme = SCHEMES.into_iter().find(|s| value.eq_ignore_ascii_case(s.as_bytes()));
                1
            }
            b"host" => {
                element.host = Some(valid_host(value).ok_or(Malformed)?);
                2
            }
            name if !name.is_empty() && name.iter().all(|b| is_token(*b)) => continue,
            _ => return Err(Malformed),
        };
        if std::mem::replace(&mut seen[which], true) {
            return Err(Malformed);
        }
    }
    Ok(element)
}

/// The parts between separators that are not within quotes, trimmed; `None` for one that is empty or whose quote stays
/// open.
fn split(value: &[u8], separator: u8) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let bytes = rest.take()?;
        let (mut quoted, mut escaped, mut end) = (false, false, bytes.len());
        for (at, &b) in bytes.iter().enumerate() {
            match b {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if b == separator && !quoted => {
                    end = at;
                    rest = Some(&bytes[at + 1..]);
                    break;
                }
                _ => {}
            }
        }
        let part = bytes[..end].trim_ascii();
        Some((!part.is_empty() && !quoted).then_some(part))
    })
}

/// A token (with what addresses and hosts need, which many write without the quotes they should have), or the inside of
/// quotes. No value that means anything here has an escape in it.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    match value.strip_prefix(b"\"") {
        Some(rest) => rest.strip_suffix(b"\"").filter(|inside| !inside.iter().any(|b| matches!(b, b'"' | b'\\'))),
        None => (!value.is_empty() && value.iter().all(|b| is_token(*b) || b":[]".contains(b))).then_some(value),
    }
}

fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// `Forwarded` as it came, with an element of ours.
fn extended(request: &Request<'_, '_>, peer: IpAddr, scheme: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for value in request.values("forwarded") {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
    // Writing to a Vec cannot fail.
    let _ = match peer {
        IpAddr::V4(ip) => write!(out, "for={ip};proto={scheme}"),
        IpAddr::V6(ip) => write!(out, "for=\"[{ip}]\";proto={scheme}"),
    };
    if !request.host.is_empty() {
        out.extend_from_slice(b";host=\"");
        out.extend_from_slice(request.host);
        out.push(b'"');
    }
    out
}

#[cfg(test)]
#[path = "forwarded_tests.rs"]
mod tests;

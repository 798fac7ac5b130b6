//! Origin of a request that came through proxies, from `X-Forwarded-*` and `Forwarded` (RFC 7239). Each hop is believed
//! only as far as it is trusted: an address counts only if a trusted proxy wrote it.

use evenkeel_config::plan::Cidr;
use evenkeel_wire::head::Request;
use evenkeel_wire::http1::fields::list;
use evenkeel_wire::http1::request::valid_host;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

/// Origin of a request, as stated by the trusted proxy that sent it.
#[derive(Debug, PartialEq, Eq)]
pub struct Origin {
    /// The client: the first address from the right that does not belong to a trusted proxy.
    pub client: IpAddr,
    /// `X-Forwarded-For` to forward: the valid tail of the list, and then the proxy that sent it.
    pub list: String,
    /// `Forwarded` to forward; `None` if there was none, or if it is malformed or contradicts the list.
    pub forwarded: Option<Vec<u8>>,
    /// Scheme that the client used: `https`, `http`, `wss` or `ws`.
    pub scheme: Option<&'static str>,
    /// Host that the client asked for.
    pub host: Option<Box<[u8]>>,
    /// Number of values that were dropped as malformed, or because two fields disagreed.
    pub malformed: u64,
}

/// True if any of these networks contains `ip`.
pub fn is_in(networks: &[Cidr], ip: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(ip))
}

/// Reads the origin of a request that `peer`, a trusted proxy, has sent over `scheme`.
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
    // A proxy that writes only one of the fields forwards the client's own value of the other. If they disagree,
    // `Forwarded` is dropped.
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

/// The client among `hops` (nearest first) and its index: the first hop that is not a trusted proxy, or the farthest if
/// all are. Without hops it is the peer, with no index.
fn client(hops: &[IpAddr], trusted: &[Cidr], peer: IpAddr) -> (IpAddr, Option<usize>) {
    let at = hops.iter().position(|hop| !is_in(trusted, *hop)).or(hops.len().checked_sub(1));
    (at.map_or(peer, |at| hops[at]), at)
}

/// The addresses of `X-Forwarded-For`, nearest first, up to the first entry that is not an address: its writer
/// may have made up everything before it. `None` without the field.
fn x_forwarded_for(request: &Request<'_, '_>, malformed: &mut u64) -> Option<Vec<IpAddr>> {
    let mut nodes: Vec<Option<IpAddr>> = Vec::new();
    for value in request.values("x-forwarded-for") {
        nodes.extend(list(value).map(address));
    }
    *malformed += u64::from(nodes.contains(&None));
    (!nodes.is_empty()).then(|| nodes.into_iter().rev().map_while(|node| node).collect())
}

/// The value of a field that may occur once. `None`, and counted as malformed, if it is repeated or `read` rejects it.
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

/// Parses an address, with or without a port. The zone of an IPv6 address (RFC 4007: `fe80::1%eth0`) is dropped: it
/// names an interface of the proxy and means nothing on this machine.
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

/// `text` without the zone that begins at `at`; `None` if that is not the zone of an IPv6 address.
fn without_zone(text: &str, at: usize) -> Option<String> {
    let (address, zone) = (&text[..at], &text[at + 1..]);
    let (zone, rest) = zone.split_at(zone.find(']').unwrap_or(zone.len()));
    // `%` is allowed as RFC 6874 writes the delimiter itself as `%25`.
    let is_zone = |b: u8| b.is_ascii_alphanumeric() || b"-._~%".contains(&b);
    let fits = address.contains(':') && !zone.is_empty() && zone.bytes().all(is_zone);
    fits.then(|| format!("{address}{rest}"))
}

/// An element of `Forwarded`, as a proxy has added it.
#[derive(Default)]
struct Element<'b> {
    /// `None` if `for=` is missing, or is `unknown` or an obfuscated identifier (RFC 7239 section 6).
    client: Option<IpAddr>,
    scheme: Option<&'static str>,
    host: Option<&'b [u8]>,
}

struct Malformed;

/// The elements of `Forwarded`, farthest first; `None` without the field.
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

/// Splits at separators outside of quotes and trims the parts. `None` for a part that is empty or whose quote is not
/// closed.
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

/// Returns the value of a parameter: a token, or the content of a quoted string. `:`, `[` and `]` are accepted in a
/// token, as many proxies omit the quotes around addresses. Escapes are rejected: no value that is used here needs
/// them.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    match value.strip_prefix(b"\"") {
        Some(rest) => rest.strip_suffix(b"\"").filter(|inside| !inside.iter().any(|b| matches!(b, b'"' | b'\\'))),
        None => (!value.is_empty() && value.iter().all(|b| is_token(*b) || b":[]".contains(b))).then_some(value),
    }
}

fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// Copies a valid `Forwarded` without the zones of addresses, which mean nothing to endpoints either.
fn copy(value: &[u8], out: &mut Vec<u8>) {
    if memchr::memchr(b'%', value).is_none() {
        return out.extend_from_slice(value);
    }
    for (at, element) in split(value, b',').flatten().enumerate() {
        out.extend_from_slice(if at == 0 { b"" } else { b", " });
        for (at, pair) in split(element, b';').flatten().enumerate() {
            out.extend_from_slice(if at == 0 { b"" } else { b";" });
            let name = pair.split(|b| *b == b'=').next().unwrap_or_default();
            let is_node = name.eq_ignore_ascii_case(b"for") || name.eq_ignore_ascii_case(b"by");
            // A percent sign behind a colon belongs to an IPv6 address.
            let zone = memchr::memchr(b'%', pair).filter(|at| is_node && pair[..*at].contains(&b':'));
            let (before, zoned) = pair.split_at(zone.unwrap_or(pair.len()));
            let zone_len = zoned.iter().position(|b| b"]\"".contains(b)).unwrap_or(zoned.len());
            out.extend_from_slice(before);
            out.extend_from_slice(&zoned[zone_len..]);
        }
    }
}

/// `Forwarded` as received, but for zones, followed by an element of this proxy.
fn extended(request: &Request<'_, '_>, peer: IpAddr, scheme: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for value in request.values("forwarded") {
        copy(value, &mut out);
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

//! What does the client ask for? A request's head, checked, and the head that goes on to the endpoint.

use super::fields::{self, Framing, Options, Stated};
use super::kind::{Kind, kind};
use super::tokens::{Target, Tokens};
use super::{Body, Limits, Reject, Version};
use super::{alphanumeric_and, head_len, leading_empty_lines};
use crate::head::{self, Field, Fields, Room};
use std::net::Ipv6Addr;
use std::ops::{Deref, DerefMut};

/// The head of a request. Borrows from the bytes it was read from.
#[derive(Debug)]
pub struct Request<'h, 'b> {
    /// What it asks for.
    pub head: head::Request<'h, 'b>,
    /// What the client speaks.
    pub version: Version,
    /// Whether the client wants to send another request afterwards.
    pub keep_alive: bool,
    /// Whether the client asks to switch to another protocol.
    pub upgrade: bool,
    /// Whether a `CDN-Loop` says which proxies it has passed.
    pub has_passed_proxies: bool,
    /// What follows the head.
    pub body: Body,
    /// The length of the head in the bytes it was read from, with the empty lines before it.
    pub head_len: usize,
    /// Whether a `Host` field goes on that names it.
    host_kept: bool,
    /// The framing to be written, if its field does not go on as it came.
    framing: Stated,
    /// Whether anything follows the head.
    has_body: bool,
}

/// How the fields of a head are written for an endpoint that speaks HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// True if the line before them goes on as it came, too.
    pub has_line: bool,
    /// True if they are lines of HTTP/1, which go on in runs of the bytes that came.
    pub as_lines: bool,
    /// True if one of them is the `Host` that is meant.
    pub has_host: bool,
    /// The framing that none of them states.
    pub framing: Stated,
}

impl<'h, 'b> Deref for Request<'h, 'b> {
    type Target = head::Request<'h, 'b>;

    #[inline]
    fn deref(&self) -> &head::Request<'h, 'b> {
        &self.head
    }
}

impl<'h, 'b> DerefMut for Request<'h, 'b> {
    #[inline]
    fn deref_mut(&mut self) -> &mut head::Request<'h, 'b> {
        &mut self.head
    }
}

impl<'h, 'b> Request<'h, 'b> {
    /// Reads the head at the front of `bytes`, if all of it is there. Looks at no more bytes than the limit.
    ///
    /// # Errors
    /// Anything malformed, ambiguous or over a limit.
    #[inline]
    pub fn read(bytes: &'b [u8], room: &'h mut Room, limits: &Limits) -> Result<Option<Request<'h, 'b>>, Reject> {
        let within = &bytes[..bytes.len().min(limits.head)];
        let before = leading_empty_lines(within);
        let (method, target, is_plain, version, head) = match parse(&within[before..], room, limits) {
            Ok(parsed) => parsed,
            // Nearly all come whole and are good: then the parser has found the end.
            Err(_) if head_len(bytes, limits)?.is_none() => return Ok(None),
            Err(reject) => return Err(reject),
        };
        let mut said = HeaderInfo::default();
        said.read(head, room, version)?;
        let HeaderInfo { host, framing, options, upgrade, expect, has_passed_proxies } = said;
        let (host, host_kept) = match host {
            // One that is empty names nothing.
            Some((b"", kept)) => (&b""[..], kept),
            Some((value, kept)) => (valid_host(value).ok_or(Reject::HostMalformed)?, kept),
            None if version == Version::V11 => return Err(Reject::HostMissing),
            None => (&b""[..], false),
        };
        let stated = framing.stated(version)?;
        let has_body = !matches!(stated, Stated::Nothing | Stated::Length(0));
        if let Some(expect) = expect
            && !has_body
        {
            // Nothing to be continued with; endpoints that answer 100 nevertheless confuse clients that did not mean it.
            expect.dropped = true;
        }
        let mut switches = false;
        if let Some(field) = upgrade
            && options.upgrade
            && version == Version::V11
        {
            // An endpoint that overlooks the body would take it for the first bytes of the tunnel.
            let may_switch = !has_body || !is_bodiless(method);
            switches = !fields::names_http2(field.value(head)) && may_switch;
            field.dropped = !switches;
        }
        if options.nominated > 0 {
            fields::drop_nominated(head, room, options)?;
        }
        let (target, host, wins) = origin_form(method, target, is_plain, host)?;
        if wins {
            fields::drop_all(Kind::Host, head, room);
        }
        let fields = Fields { bytes: head, rows: room };
        Ok(Some(Request {
            head: head::Request { method, target, host, fields },
            version,
            keep_alive: options.keep(version),
            upgrade: switches,
            has_passed_proxies,
            body: stated.body(Body::EMPTY),
            head_len: before + head.len(),
            host_kept: host_kept && !wins,
            framing: framing.odd(stated),
            has_body,
        }))
    }

    /// Whether the content has no meaning for the method (RFC 9110 sections 9.3.1, 9.3.2, 9.3.5, 9.3.8). An endpoint
    /// that does not even read it takes it for the next request, unless its connection carries no other.
    pub fn body_may_be_overlooked(&self) -> bool {
        self.has_body && is_bodiless(self.method)
    }

    /// How its fields are written for an endpoint that speaks HTTP/1, too.
    pub fn form(&self) -> Form {
        let behind_target = self.method.len() + 1 + self.target.len();
        // Nothing else is there if the target was made origin-form.
        let has_line = self.fields.bytes.get(behind_target..).is_some_and(|rest| rest.starts_with(b" HTTP/1.1\r\n"));
        Form { has_line, as_lines: true, has_host: self.host_kept, framing: self.framing }
    }
}

/// Returns true if content has no meaning for the method.
fn is_bodiless(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "DELETE" | "TRACE")
}

/// Method, target (and whether that is plain) and version of a request, and all of its head.
type Parsed<'b> = (&'b str, &'b str, bool, Version, &'b [u8]);

#[inline]
fn parse<'b>(bytes: &'b [u8], room: &mut Room, limits: &Limits) -> Result<Parsed<'b>, Reject> {
    let mut tokens = Tokens::new(bytes);
    let method = tokens.method()?.len();
    tokens.expect(b" ")?;
    let Target { bytes: target, is_plain } = tokens.target()?;
    let both = &bytes[..method + 1 + target.len()];
    let both = std::str::from_utf8(both).map_err(|_| Reject::Malformed)?;
    let (method, target) = (&both[..method], &both[method + 1..]);
    tokens.expect(b" ")?;
    let version =
        tokens.version().map_err(|_| if names_version(bytes) { Reject::Version } else { Reject::Malformed })?;
    tokens.expect(b"\r\n")?;
    Ok((method, target, is_plain, version, &bytes[..tokens.fields(room, limits)?]))
}

/// Whether a request line is well-formed but for the number of its version; else it is not HTTP at all.
#[cold]
fn names_version(head: &[u8]) -> bool {
    let line = head.split(|&b| b == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&b| b == b' ').skip(2);
    let version = words.next().and_then(|word| word.strip_prefix(b"HTTP/")).unwrap_or_default();
    words.next().is_none() && matches!(version, [b'0'..=b'9', b'.', b'0'..=b'9'])
}

/// What the fields of a request say.
#[derive(Default)]
struct HeaderInfo<'f, 'b> {
    /// The host, and whether its field goes on.
    host: Option<(&'b [u8], bool)>,
    framing: Framing,
    options: Options,
    upgrade: Option<&'f mut Field>,
    expect: Option<&'f mut Field>,
    has_passed_proxies: bool,
}

impl<'f, 'b> HeaderInfo<'f, 'b> {
    /// Reads all of them, and drops those that do not go on.
    #[inline]
    fn read(&mut self, head: &'b [u8], fields: &'f mut [Field], version: Version) -> Result<(), Reject> {
        for field in fields {
            let kind = kind(field.name(head));
            match kind {
                Kind::Other => continue,
                Kind::Host if self.host.is_some() => return Err(Reject::HostRepeated),
                Kind::Host => {
                    // An empty one names nothing, and some readers refuse tabs: another is written in its place.
                    self.host = Some((field.value(head), field.plain));
                    field.dropped = !field.plain;
                }
                Kind::ContentLength | Kind::TransferEncoding => self.framing.take(head, kind, field)?,
                Kind::Upgrade => {
                    field.dropped = true;
                    self.upgrade = Some(field);
                }
                Kind::Connection => {
                    self.options.read(field.value(head));
                    field.dropped = true;
                }
                // HTTP/1.0 knows no interim responses (RFC 9110 section 10.1.1).
                Kind::Expect if version == Version::V10 => field.dropped = true,
                // An expectation that is not known here might be met by one endpoint, and not by the next.
                Kind::Expect if self.expect.is_some() || !field.value(head).eq_ignore_ascii_case(b"100-continue") => {
                    return Err(Reject::Expectation);
                }
                Kind::Expect => self.expect = Some(field),
                Kind::Loop => self.has_passed_proxies = true,
                Kind::HopByHop | Kind::KeepAlive | Kind::Forwarded | Kind::Lookalike => field.dropped = true,
            }
        }
        Ok(())
    }
}

/// Makes a target origin-form (RFC 9112 section 3.2); the host that goes with it, and whether that is another than the field
/// says. `is_plain`: that of a [`Target`].
#[inline]
pub fn origin_form<'b>(
    method: &str,
    target: &'b str,
    is_plain: bool,
    host: &'b [u8],
) -> Result<(&'b str, &'b [u8], bool), Reject> {
    if !is_plain {
        return Err(Reject::Target);
    }
    match target.as_bytes() {
        // Whatever its target: an endpoint that takes it would make a tunnel of the connection.
        _ if method == "CONNECT" => Err(Reject::Connect),
        [b'/', ..] => Ok((target, host, false)),
        b"*" if method == "OPTIONS" => Ok((target, host, false)),
        _ => of_absolute_form(method, target, host),
    }
}

#[cold]
fn of_absolute_form<'b>(method: &str, target: &'b str, host: &'b [u8]) -> Result<(&'b str, &'b [u8], bool), Reject> {
    let (scheme, rest) = target.split_once("://").ok_or(Reject::Target)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(Reject::Target);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority = valid_host(authority.as_bytes()).ok_or(Reject::Target)?;
    let target = match path {
        "" if method == "OPTIONS" => "*",
        "" => "/",
        path if path.starts_with('/') => path,
        _ => return Err(Reject::Target),
    };
    // The target wins over the field (RFC 9112 section 3.2.2). Where both name the same, what the field says goes on, so that
    // both names of the host are spelled alike.
    let wins = !host.eq_ignore_ascii_case(authority);
    Ok((target, if wins { authority } else { host }, wins))
}

/// A DNS name has 253 bytes at most; more is an attack on what stores it.
const HOST_MAX: usize = 512;

/// What a host's name may be made of (RFC 3986 section 3.2.2).
const IN_NAME: [bool; 256] = alphanumeric_and(b"-._~%!$&'()*+,;=");
/// What the zone of an address may be made of (RFC 6874).
const IN_ZONE: [bool; 256] = alphanumeric_and(b"-._~%");

/// A host with an optional port: no user, no spaces, no path, and nothing that two readers could split differently.
#[inline]
pub fn valid_host(value: &[u8]) -> Option<&[u8]> {
    let (fits, port) = match value.strip_prefix(b"[") {
        None => {
            let end = value.iter().position(|&b| !IN_NAME[usize::from(b)]).unwrap_or(value.len());
            (end > 0, &value[end..])
        }
        Some(rest) => {
            let end = memchr::memchr(b']', rest)?;
            (is_address(&rest[..end]), &rest[end + 1..])
        }
    };
    (fits && is_port(port) && value.len() <= HOST_MAX).then_some(value)
}

/// What may stand in brackets: an IPv6 address, with or without a zone.
#[cold]
fn is_address(text: &[u8]) -> bool {
    let end = memchr::memchr(b'%', text).unwrap_or(text.len());
    let (address, zone) = text.split_at(end);
    let zone_fits = zone.is_empty()
        || zone
            .strip_prefix(b"%25")
            .is_some_and(|zone| !zone.is_empty() && zone.iter().all(|&b| IN_ZONE[usize::from(b)]));
    zone_fits && std::str::from_utf8(address).is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// Nothing, or a colon and up to 65535; RFC 3986 section 3.2.3 allows a colon alone.
#[inline]
fn is_port(text: &[u8]) -> bool {
    let digit = |n: u32, d: &u8| d.is_ascii_digit().then(|| n * 10 + u32::from(d - b'0')).filter(|n| *n <= 65535);
    match text {
        [] => true,
        [b':', digits @ ..] => digits.iter().try_fold(0, digit).is_some() && digits.len() <= 5,
        _ => false,
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "framing_tests.rs"]
mod framing_tests;

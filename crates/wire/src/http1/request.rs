//! Heads of requests: validation, and the form in which a head is forwarded to the endpoint.

use super::fields::{self, Framing, Options, Stated};
use super::kind::{Kind, kind};
use super::tokens::{Target, Tokens};
use super::{Body, FIELDS_MAX, Limits, Reject, Version};
use super::{alphanumeric_and, head_len, leading_empty_lines};
use crate::head::{self, Field, Fields, Room};
use std::net::Ipv6Addr;
use std::ops::{Deref, DerefMut};

/// The head of a request. Borrows from the bytes it was read from.
#[derive(Debug)]
pub struct Request<'h, 'b> {
    /// Method, target, host and fields.
    pub head: head::Request<'h, 'b>,
    /// Version of the client's request.
    pub version: Version,
    /// True if the client wants to send another request afterwards.
    pub keep_alive: bool,
    /// True if the client asks to switch to another protocol.
    pub upgrade: bool,
    /// True if the client may wait for a 100 before it sends the body (`Expect: 100-continue`).
    pub expects_continue: bool,
    /// True if a `CDN-Loop` lists proxies that the request has passed.
    pub has_passed_proxies: bool,
    /// Framing of the body after the head.
    pub body: Body,
    /// Length of the head in the bytes it was read from, including the empty lines before it.
    pub head_len: usize,
    /// True if a `Host` field with the right host is forwarded.
    host_kept: bool,
    /// Framing to be written, if its field is not forwarded as it came.
    framing: Stated,
    /// True if a body follows the head.
    has_body: bool,
}

/// Form of a head for an endpoint that speaks HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// True if the request line is forwarded as it came, like the fields.
    pub has_line: bool,
    /// True if the fields are lines of HTTP/1, which are forwarded in runs of the original bytes.
    pub as_lines: bool,
    /// True if the fields include the `Host` to forward.
    pub has_host: bool,
    /// Framing that none of the fields states.
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
    /// Reads the head at the start of `bytes`; `None` while it is incomplete. Looks at no more bytes than the limit.
    ///
    /// # Errors
    /// If anything is malformed, ambiguous or over a limit.
    #[inline]
    pub fn read(bytes: &'b [u8], room: &'h mut Room, limits: &Limits) -> Result<Option<Request<'h, 'b>>, Reject> {
        let limits = &Limits { fields: limits.fields.min(FIELDS_MAX), ..*limits };
        let within = &bytes[..bytes.len().min(limits.head)];
        let before = leading_empty_lines(within);
        let (method, target, is_plain, version, head) = match parse(&within[before..], room, limits) {
            Ok(parsed) => parsed,
            // Nearly all heads arrive complete and valid: then the parser has found the end.
            Err(_) if head_len(bytes, limits)?.is_none() => return Ok(None),
            Err(reject) => return Err(reject),
        };
        let mut said = HeaderInfo::default();
        said.read(head, room, version)?;
        let HeaderInfo { host, framing, options, upgrade, expect, has_passed_proxies } = said;
        let (host, host_kept) = match host {
            // An empty field names no host.
            Some((b"", kept)) => (&b""[..], kept),
            Some((value, kept)) => (valid_host(value).ok_or(Reject::HostMalformed)?, kept),
            None if version == Version::V11 => return Err(Reject::HostMissing),
            None => (&b""[..], false),
        };
        let stated = framing.stated(version)?;
        let has_body = !matches!(stated, Stated::Nothing | Stated::Length(0));
        let expects_continue = expect.is_some() && has_body;
        if let Some(expect) = expect
            && !has_body
        {
            // Nothing to continue with. Endpoints that answer 100 nevertheless confuse clients that did not expect it.
            expect.dropped = true;
        }
        let mut switches = false;
        if let Some(field) = upgrade
            && options.upgrade
            && version == Version::V11
        {
            // An endpoint that ignores the body would take it for the first bytes of the tunnel. A WebSocket never
            // follows a body (RFC 6455 section 4.1), and a server may ignore any upgrade (RFC 9110 section 7.8).
            let value = field.value(head);
            let may_switch = !has_body || !(is_bodiless(method) || fields::names_websocket(value));
            switches = !fields::names_http2(value) && may_switch;
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
            expects_continue,
            has_passed_proxies,
            body: stated.body(Body::EMPTY),
            head_len: before + head.len(),
            host_kept: host_kept && !wins,
            framing: framing.odd(stated),
            has_body,
        }))
    }

    /// True if there is a body although content has no meaning for the method (RFC 9110 sections 9.3.1, 9.3.2, 9.3.5,
    /// 9.3.8), or before a switch of protocols, which some parsers expect right behind the head. An endpoint that does
    /// not even read it takes it for the next request, unless its connection carries no other.
    pub fn body_may_be_overlooked(&self) -> bool {
        self.has_body && (self.upgrade || is_bodiless(self.method))
    }

    /// Returns the form of the head for an endpoint that speaks HTTP/1, too.
    #[inline]
    pub fn form(&self) -> Form {
        let target = self.method.len() + 1;
        // Another place holds a normalised path. The line differs if the target was converted to origin-form.
        let line = self.fields.bytes.get(target..).filter(|line| line.as_ptr() == self.target.as_ptr());
        let rest = line.and_then(|line| line.get(self.target.len()..));
        let has_line = rest.is_some_and(|rest| rest.starts_with(b" HTTP/1.1\r\n"));
        Form { has_line, as_lines: true, has_host: self.host_kept, framing: self.framing }
    }
}

/// True if content has no meaning for the method, so that an endpoint may not even read it.
pub fn is_bodiless(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "DELETE" | "TRACE")
}

/// Method, target (true if plain) and version of a request, and its whole head.
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

/// True if a request line is well-formed except for the number of its version; otherwise it is not HTTP at all.
#[cold]
fn names_version(head: &[u8]) -> bool {
    let line = head.split(|&b| b == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&b| b == b' ').skip(2);
    let version = words.next().and_then(|word| word.strip_prefix(b"HTTP/")).unwrap_or_default();
    words.next().is_none() && matches!(version, [b'0'..=b'9', b'.', b'0'..=b'9'])
}

/// Information from the fields of a request.
#[derive(Default)]
struct HeaderInfo<'f, 'b> {
    /// Value of the host, and true if its field is forwarded.
    host: Option<(&'b [u8], bool)>,
    framing: Framing,
    options: Options,
    upgrade: Option<&'f mut Field>,
    expect: Option<&'f mut Field>,
    has_passed_proxies: bool,
}

impl<'f, 'b> HeaderInfo<'f, 'b> {
    /// Reads all fields, and drops those that are not forwarded.
    #[inline]
    fn read(&mut self, head: &'b [u8], fields: &'f mut [Field], version: Version) -> Result<(), Reject> {
        for field in fields {
            let kind = kind(field.name(head));
            match kind {
                Kind::Other => continue,
                Kind::Host if self.host.is_some() => return Err(Reject::HostRepeated),
                Kind::Host => {
                    // An empty field names no host, and some readers refuse tabs: the field is replaced by another.
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
                // HTTP/1.0 has no interim responses (RFC 9110 section 10.1.1).
                Kind::Expect if version == Version::V10 => field.dropped = true,
                // An unknown expectation might be met by an endpoint, and not by the next.
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

/// Converts a target to origin-form (RFC 9112 section 3.2). Returns it with its host, and true if that differs from the
/// field. `is_plain`: the flag of a [`Target`].
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
        // Whatever its target: an endpoint that accepts it would turn the connection into a tunnel.
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
    // The target takes precedence over the field (RFC 9112 section 3.2.2). If both name the same host the field's
    // spelling is used, so that the host is spelled in a single way.
    let wins = !host.eq_ignore_ascii_case(authority);
    Ok((target, if wins { authority } else { host }, wins))
}

/// Longest host. A DNS name has at most 253 bytes; more is an attack on whatever stores it.
const HOST_MAX: usize = 512;

/// Bytes allowed in the name of a host (RFC 3986 section 3.2.2).
const IN_NAME: [bool; 256] = alphanumeric_and(b"-._~%!$&'()*+,;=");
/// Bytes allowed in the zone of an address (RFC 6874).
const IN_ZONE: [bool; 256] = alphanumeric_and(b"-._~%");

/// Validates a host with an optional port: no user, no spaces, no path, and nothing that two readers could split
/// differently.
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

/// True for the contents of brackets: an IPv6 address, with or without a zone.
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

/// True for nothing, or a colon and a number up to 65535. RFC 3986 section 3.2.3 allows a colon alone.
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

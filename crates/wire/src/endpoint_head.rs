//! Request heads as sent to an endpoint, as lines of HTTP/1 or as fields of HTTP/2. Every head for an endpoint is
//! assembled here, anew for each try, so anything that belongs to a single try (its span, the time that is left) is an
//! ordinary line.

use crate::head::{Edits, Field, Fields, Request, Room, Table};
use crate::http1;
use crate::http1::Reject;
use crate::http1::fields::{Stated, append, list, write_kept};
use crate::http1::kind::{Kind, kind};
use crate::http1::request::{Form, origin_form, valid_host};
use crate::http1::tokens::{Target, Tokens};
use std::borrow::Cow;
use std::ops::Range;

/// A request head to be written to an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct EndpointHead<'a> {
    /// Method, target, host and fields of the request.
    pub head: HeadParts<'a>,
    /// Added lines, each with its line end: first the lines of the try, then the lines of the request.
    pub added: [&'a [u8]; 2],
    /// Use of the endpoint's connection after the request.
    pub connection: Connection<'a>,
    /// Scheme of the endpoint's connection, `http` or `https`. Written only in HTTP/2.
    pub scheme: &'static str,
    /// Length of the body in digits, for HTTP/2; empty if its sender did not state it.
    pub length: &'a str,
    /// True if the client accepts trailers. Written only in HTTP/2.
    pub wants_trailers: bool,
}

/// The parts of a request head, wherever their bytes are.
#[derive(Clone, Copy, Debug)]
pub struct HeadParts<'a> {
    pub method: &'a [u8],
    /// Path and query, or `*`.
    pub target: &'a [u8],
    /// Host and port; empty if unknown.
    pub host: &'a [u8],
    /// Buffer that the rows point into.
    pub bytes: &'a [u8],
    /// Fields of the head; dropped ones are not written.
    pub rows: &'a [Field],
    /// Form of the head in HTTP/1.
    pub form: Form,
    /// True if the host replaces the client's host, which is still among the fields.
    pub is_host_new: bool,
}

/// Use of an endpoint's connection after a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connection<'a> {
    /// Kept open for other requests.
    #[default]
    Kept,
    /// Closed after the response.
    Closed,
    /// Switched to another protocol, which a field of the head names.
    Upgraded,
    /// Switched to another protocol, or closed after the response.
    UpgradedOrClosed,
    /// Switched to another protocol, for a request that came over HTTP/2 or is sent over it: there it is a tunnel (RFC
    /// 8441).
    Tunnel(Switch<'a>),
}

impl Connection<'_> {
    /// Returns the use of the connection for an HTTP/1 request. `upgrade`: it asks to switch protocols. `closes`: the
    /// connection must carry no other request.
    pub fn of(upgrade: bool, closes: bool) -> Connection<'static> {
        match (upgrade, closes) {
            (true, false) => Connection::Upgraded,
            (true, true) => Connection::UpgradedOrClosed,
            (false, true) => Connection::Closed,
            (false, false) => Connection::Kept,
        }
    }
}

/// A switch of protocols, which HTTP/1 and HTTP/2 request in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch<'a> {
    /// Protocol of the connection after the switch.
    pub protocol: &'a str,
    /// Further fields that HTTP/1 needs for the switch, each with its line end.
    pub fields: &'a [u8],
}

impl<'a> EndpointHead<'a> {
    /// Appends the head as lines of HTTP/1.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        let HeadParts { bytes, rows, form, .. } = self.head;
        if form.has_line && form.has_host {
            write_kept(bytes, 0, rows, out);
        } else {
            self.write_line_and_fields(out);
        }
        if form.framing != Stated::Nothing {
            form.framing.write(out);
        }
        let connection: &[u8] = match self.connection {
            Connection::Kept => b"",
            Connection::Closed => b"Connection: close\r\n",
            Connection::Upgraded => b"Connection: upgrade\r\n",
            Connection::UpgradedOrClosed => b"Connection: upgrade, close\r\n",
            Connection::Tunnel(Switch { protocol, fields }) => {
                append(&[b"Upgrade: ", protocol.as_bytes(), b"\r\n", fields], out);
                b"Connection: upgrade\r\n"
            }
        };
        append(&[connection, self.added[0], self.added[1], b"\r\n"], out);
    }

    /// Appends a head whose first lines differ from those received. Takes a copy, so that `self` need not be in memory
    /// otherwise.
    fn write_line_and_fields(self, out: &mut Vec<u8>) {
        let HeadParts { method, target, host, bytes, rows, form, is_host_new } = self.head;
        append(&[method, b" ", target, b" HTTP/1.1\r\n"], out);
        if !form.has_host {
            append(&[b"Host: ", host, b"\r\n"], out);
        }
        match rows.first() {
            Some(first) if form.as_lines && !is_host_new => write_kept(bytes, first.line().start, rows, out),
            _ => self.write_fields(out),
        }
    }

    /// Appends the fields, without a `Host` that was replaced.
    fn write_fields(&self, out: &mut Vec<u8>) {
        let HeadParts { bytes, rows, is_host_new, .. } = self.head;
        let kept = |field: &&Field| !(field.dropped || is_host_new && kind(field.name(bytes)) == Kind::Host);
        for field in rows.iter().filter(kept) {
            append(&[field.name(bytes), b": ", field.value(bytes), b"\r\n"], out);
        }
    }

    /// Returns the name and value of each field in HTTP/2, pseudo-header fields first (RFC 9113 section 8.3.1). Names
    /// from an HTTP/1 head keep the client's spelling: HPACK makes them lower case.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let HeadParts { method, target, host, bytes, rows, .. } = self.head;
        let protocol = if let Connection::Tunnel(switch) = self.connection { Some(switch.protocol) } else { None };
        let method = if protocol.is_some() { b"CONNECT" } else { method };
        let pseudo = [
            Some((&b":method"[..], method)),
            protocol.map(|protocol| (&b":protocol"[..], protocol.as_bytes())),
            Some((b":scheme", self.scheme.as_bytes())),
            (!host.is_empty()).then_some((b":authority", host)),
            Some((b":path", target)),
        ];
        let kept = rows.iter().filter(|field| !field.dropped);
        let kept = kept.map(move |field| (field.name(bytes), field.value(bytes)));
        // The only connection-specific field that HTTP/2 allows (RFC 9113 section 8.2.2).
        let te = self.wants_trailers.then_some((&b"te"[..], &b"trailers"[..]));
        let length = (!self.length.is_empty()).then_some((&b"content-length"[..], self.length.as_bytes()));
        let added = self.added.into_iter().flat_map(lines);
        pseudo.into_iter().flatten().chain(kept).chain(te).chain(length).chain(added)
    }
}

/// Splits lines that were validated before into name and value.
fn lines(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split_inclusive(|b| *b == b'\n').filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// A request head in a separate buffer, kept as long as the request may be sent again.
#[derive(Debug)]
pub struct KeptHead {
    bytes: Vec<u8>,
    rows: Room,
    place: Places,
}

/// Positions of the parts of a head in its buffer.
#[derive(Clone, Debug)]
pub struct Places {
    /// Length of the method, with which the buffer begins.
    method: usize,
    target: Range<usize>,
    /// Target that is not in the buffer, because an absolute URL has no path, or the path was normalised.
    replaced: Option<Cow<'static, str>>,
    host: Range<usize>,
    form: Form,
}

impl Places {
    /// Returns the positions in the buffer of an HTTP/1 head, which starts at its first line.
    #[inline]
    pub fn of(request: &http1::Request<'_, '_>) -> Places {
        let bytes = request.fields.bytes;
        let within = |part: &[u8]| {
            let at = (part.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize);
            (at <= bytes.len() && part.len() <= bytes.len() - at).then(|| at..at + part.len())
        };
        let target = within(request.target.as_bytes());
        let replaced = target.is_none().then(|| match request.target {
            "*" => "*".into(),
            "/" => "/".into(),
            other => other.to_owned().into(),
        });
        Places {
            method: request.method.len(),
            target: target.unwrap_or_default(),
            replaced,
            host: within(request.host).unwrap_or_default(),
            form: request.form(),
        }
    }
}

impl KeptHead {
    /// Returns a head with these bytes, from its first to its empty line, and these fields.
    pub fn new(bytes: Vec<u8>, rows: Room, place: Places) -> KeptHead {
        KeptHead { bytes, rows, place }
    }

    /// Returns the head of a request that was not read, without a body.
    pub fn of<'f>(
        method: &str,
        target: &str,
        host: &[u8],
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> KeptHead {
        let mut table = Table::behind([method.as_bytes(), target.as_bytes(), host].concat());
        fields.for_each(|(name, value)| table.push(name, value));
        let (bytes, rows) = table.into_memory();
        let behind = method.len() + target.len();
        let place = Places {
            method: method.len(),
            target: method.len()..behind,
            replaced: None,
            host: behind..behind + host.len(),
            form: Form { has_line: false, as_lines: false, has_host: false, framing: Stated::Nothing },
        };
        KeptHead { bytes, rows, place }
    }

    #[inline]
    pub fn parts(&self) -> HeadParts<'_> {
        let Places { method, target, replaced, host, form } = &self.place;
        HeadParts {
            method: &self.bytes[..*method],
            target: replaced.as_ref().map_or_else(|| &self.bytes[target.clone()], |target| target.as_bytes()),
            host: &self.bytes[host.clone()],
            bytes: &self.bytes,
            rows: &self.rows,
            form: *form,
            is_host_new: false,
        }
    }

    /// Returns the request as it was read.
    pub fn request(&mut self) -> Request<'_, '_> {
        let Places { method, target, replaced, host, .. } = &self.place;
        // Valid UTF-8, as it was text when the head was read.
        let text = |range: Range<usize>| std::str::from_utf8(&self.bytes[range]).unwrap_or_default();
        Request {
            method: text(0..*method),
            target: replaced.as_deref().unwrap_or_else(|| text(target.clone())),
            host: &self.bytes[host.clone()],
            fields: Fields { bytes: &self.bytes, rows: &mut self.rows },
        }
    }

    /// Replaces the path and query.
    pub fn set_target(&mut self, target: Box<str>) {
        (self.place.replaced, self.place.form.has_line) = (Some(String::from(target).into()), false);
    }

    /// Returns the buffers, to be reused for another head.
    pub fn into_memory(self) -> (Vec<u8>, Room) {
        (self.bytes, self.rows)
    }
}

impl<'a> HeadParts<'a> {
    /// Returns the parts of an HTTP/1 head.
    #[inline]
    pub fn of(request: &'a http1::Request<'_, '_>) -> HeadParts<'a> {
        HeadParts { form: request.form(), ..HeadParts::decoded(&request.head, Stated::Nothing) }
    }

    /// Returns the parts of a head that a protocol has decoded. `framing`: the framing of the body to state in HTTP/1.
    pub fn decoded(request: &'a Request<'_, '_>, framing: Stated) -> HeadParts<'a> {
        HeadParts {
            method: request.method.as_bytes(),
            target: request.target.as_bytes(),
            host: request.host,
            bytes: request.fields.bytes,
            rows: request.fields.rows,
            form: Form { has_line: false, as_lines: false, has_host: false, framing },
            is_host_new: false,
        }
    }

    /// Target for all tries: the target of `edits`, or the client's.
    pub fn target(self, edits: &'a Edits) -> &'a [u8] {
        edits.target().map_or(self.target, str::as_bytes)
    }

    /// Returns the parts with the replacements of `edits`. `of_try`: the host and the target for this try alone; each
    /// empty if it gets the target of all tries.
    #[inline]
    pub fn edited(self, edits: &'a Edits, of_try: [&'a [u8]; 2]) -> HeadParts<'a> {
        let mut parts = self;
        let [host, target] = of_try.map(|part| Some(part).filter(|part| !part.is_empty()));
        if let Some(host) = host.or(edits.host()) {
            parts.host = host;
            // If no field names a host, the lines are forwarded as they came.
            (parts.is_host_new, parts.form.has_host) = (parts.form.has_host, false);
        }
        if edits.is_length_open() {
            parts.form.framing = Stated::Chunked;
        }
        if let Some(target) = target.or(edits.target().map(str::as_bytes)) {
            (parts.target, parts.form.has_line) = (target, false);
        }
        parts
    }
}

/// Drops the fields that HTTP/2 expresses in other ways or forbids.
///
/// # Errors
/// If the request has an `Expect` other than `100-continue`.
pub fn suit_http2(request: &mut Request<'_, '_>, edits: &mut Edits) -> Result<(), Reject> {
    suit(request, edits, true, |_, _| Ok(()))
}

/// Drops the connection-specific fields of a decoded head, for HTTP/1. `has_body`: a body follows the head.
///
/// # Errors
/// If the head has anything that HTTP/1 cannot express, or would read in another way.
pub fn suit_http1(request: &mut Request<'_, '_>, edits: &mut Edits, has_body: bool) -> Result<(), Reject> {
    if !is_token(request.method.as_bytes()) {
        return Err(Reject::Malformed);
    }
    let none = Target { bytes: b"", is_plain: true };
    let token = Tokens::new(request.target.as_bytes()).target().unwrap_or(none);
    let (target, ..) = origin_form(request.method, request.target, token.is_plain, request.host)?;
    if target != request.target || token.bytes.len() != target.len() {
        return Err(Reject::Target);
    }
    if !request.host.is_empty() {
        valid_host(request.host).ok_or(Reject::HostMalformed)?;
    }
    suit(request, edits, has_body, |name, value| {
        let fits = is_token(name) && Tokens::new(value).text().len() == value.len();
        if fits { Ok(()) } else { Err(Reject::Malformed) }
    })
}

/// True if the bytes are a token (RFC 9110 section 5.6.2).
pub fn is_token(name: &[u8]) -> bool {
    Tokens::new(name).method().is_ok_and(|token| token.len() == name.len())
}

fn suit(
    request: &mut Request<'_, '_>,
    edits: &mut Edits,
    has_body: bool,
    check: impl Fn(&[u8], &[u8]) -> Result<(), Reject>,
) -> Result<(), Reject> {
    let bytes = request.fields.bytes;
    for field in request.fields.rows.iter_mut().filter(|field| !field.dropped) {
        check(field.name(bytes), field.value(bytes))?;
        match kind(field.name(bytes)) {
            Kind::Other | Kind::Loop => {}
            Kind::Expect if !field.value(bytes).eq_ignore_ascii_case(b"100-continue") => {
                return Err(Reject::Expectation);
            }
            Kind::Expect => {
                field.dropped = true;
                // Without a body there is nothing to continue with. Endpoints that answer 100 nevertheless confuse
                // clients that did not expect it.
                if has_body {
                    edits.add("Expect", b"100-continue");
                }
            }
            _ => field.dropped = true,
        }
    }
    Ok(())
}

/// True if the sender of a request accepts trailers.
pub fn wants_trailers(request: &Request<'_, '_>) -> bool {
    let named = |coding: &[u8]| coding.split(|b| *b == b';').next().unwrap_or_default().trim_ascii() == b"trailers";
    request.values("te").any(|value| list(value).any(|coding| named(&coding.to_ascii_lowercase())))
}

#[cfg(test)]
#[path = "endpoint_head_tests.rs"]
mod tests;

//! A request's head as an endpoint is to have it: the one place where such a head is put together, as lines of HTTP/1 or as fields of
//! HTTP/2. That is done for each try, so what belongs to one try alone (its span, the time that is left) is a line like any other.

use crate::head::{Edits, Field, Fields, Request, Room};
use crate::http1;
use crate::http1::Reject;
use crate::http1::fields::{Stated, append, list, write_kept};
use crate::http1::kind::{Kind, kind};
use crate::http1::request::{Form, origin_form, valid_host};
use crate::http1::tokens::{Target, Tokens};
use std::ops::Range;

/// A head for an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct EndpointHead<'a> {
    /// Method, target, host and fields.
    pub head: HeadParts<'a>,
    /// Lines that are added, each with its end: those of the try, and those of the request.
    pub added: [&'a [u8]; 2],
    /// What becomes of the endpoint's connection.
    pub connection: Connection<'a>,
    /// `http` or `https`: that of the endpoint's connection, which HTTP/2 states.
    pub scheme: &'static str,
    /// The length of the body in digits, for HTTP/2; empty if its sender did not state it.
    pub length: &'a str,
    /// True if the client takes trailers, which HTTP/2 states.
    pub wants_trailers: bool,
}

/// What came of a head, wherever its bytes are.
#[derive(Clone, Copy, Debug)]
pub struct HeadParts<'a> {
    /// The method.
    pub method: &'a [u8],
    /// Path and query, or `*`.
    pub target: &'a [u8],
    /// Host and port; empty if none is known.
    pub host: &'a [u8],
    /// The bytes that the rows are in.
    pub bytes: &'a [u8],
    /// The fields; those that are dropped stay behind.
    pub rows: &'a [Field],
    /// How they are written for HTTP/1.
    pub form: Form,
    /// True if the host is not that of the client, which a field still names.
    pub is_host_new: bool,
}

/// What becomes of a connection to an endpoint behind a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connection<'a> {
    /// It is kept for others.
    #[default]
    Kept,
    /// It is closed.
    Closed,
    /// It speaks another protocol, which a field of the head names.
    Upgraded,
    /// It speaks another protocol, for a request that came in HTTP/2 or goes to it: there it is a tunnel (RFC 8441).
    Tunnel(Switch<'a>),
}

/// A switch of protocols that HTTP/1 and HTTP/2 ask for in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch<'a> {
    /// The protocol that the connection is to speak then.
    pub protocol: &'a str,
    /// Further fields that HTTP/1 needs for that, each with the end of its line.
    pub fields: &'a [u8],
}

impl<'a> EndpointHead<'a> {
    /// Appends the head in HTTP/1.
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
            Connection::Tunnel(Switch { protocol, fields }) => {
                append(&[b"Upgrade: ", protocol.as_bytes(), b"\r\n", fields], out);
                b"Connection: upgrade\r\n"
            }
        };
        append(&[connection, self.added[0], self.added[1], b"\r\n"], out);
    }

    /// Appends a head whose first lines are not those that came. Takes a copy, so that `self` need not be in memory for the others.
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

    /// Appends the fields one by one, but for a `Host` that is not the one that is meant.
    fn write_fields(&self, out: &mut Vec<u8>) {
        let HeadParts { bytes, rows, is_host_new, .. } = self.head;
        let kept = |field: &&Field| !(field.dropped || is_host_new && kind(field.name(bytes)) == Kind::Host);
        for field in rows.iter().filter(kept) {
            append(&[field.name(bytes), b": ", field.value(bytes), b"\r\n"], out);
        }
    }

    /// Name and value of each field in HTTP/2, pseudo fields first (RFC 9113 section 8.3.1). Names of a head that came in HTTP/1
    /// are as its client spelled them: HPACK makes them lower case.
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
        // The one field about the connection that means something beyond it (RFC 9113 section 8.2.2).
        let te = self.wants_trailers.then_some((&b"te"[..], &b"trailers"[..]));
        let length = (!self.length.is_empty()).then_some((&b"content-length"[..], self.length.as_bytes()));
        let added = self.added.into_iter().flat_map(lines);
        pseudo.into_iter().flatten().chain(kept).chain(te).chain(length).chain(added)
    }
}

/// Name and value of lines that were checked before.
fn lines(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split_inclusive(|b| *b == b'\n').filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// A request's head in bytes of its own, for as long as it may be sent once more.
#[derive(Debug)]
pub struct KeptHead {
    bytes: Vec<u8>,
    rows: Room,
    place: Places,
}

/// Where the parts of a head are in its bytes.
#[derive(Clone, Debug)]
pub struct Places {
    /// Bytes of the method, with which it begins.
    method: usize,
    target: Range<usize>,
    /// A target that is not in the bytes: that of an absolute URL without a path.
    completed: Option<&'static str>,
    host: Range<usize>,
    form: Form,
}

impl Places {
    /// Those of a head of HTTP/1, in its bytes from its first line on.
    #[inline]
    pub fn of(request: &http1::Request<'_, '_>) -> Places {
        let bytes = request.fields.bytes;
        let within = |part: &[u8]| {
            let at = (part.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize);
            (at <= bytes.len() && part.len() <= bytes.len() - at).then(|| at..at + part.len())
        };
        let target = within(request.target.as_bytes());
        let completed = target.is_none().then_some(if request.target == "*" { "*" } else { "/" });
        Places {
            method: request.method.len(),
            target: target.unwrap_or_default(),
            completed,
            host: within(request.host).unwrap_or_default(),
            form: request.form(),
        }
    }
}

impl KeptHead {
    /// A head with these bytes, from its first line to its empty one, and these fields.
    pub fn new(bytes: Vec<u8>, rows: Room, place: Places) -> KeptHead {
        KeptHead { bytes, rows, place }
    }

    /// Its parts.
    #[inline]
    pub fn parts(&self) -> HeadParts<'_> {
        let Places { method, target, completed, host, form } = &self.place;
        HeadParts {
            method: &self.bytes[..*method],
            target: completed.map_or_else(|| &self.bytes[target.clone()], str::as_bytes),
            host: &self.bytes[host.clone()],
            bytes: &self.bytes,
            rows: &self.rows,
            form: *form,
            is_host_new: false,
        }
    }

    /// The request, as it was read.
    pub fn request(&mut self) -> Request<'_, '_> {
        let Places { method, target, completed, host, .. } = &self.place;
        // They were text when the head was read.
        let text = |range: Range<usize>| std::str::from_utf8(&self.bytes[range]).unwrap_or_default();
        Request {
            method: text(0..*method),
            target: completed.unwrap_or_else(|| text(target.clone())),
            host: &self.bytes[host.clone()],
            fields: Fields { bytes: &self.bytes, rows: &mut self.rows },
        }
    }

    /// The memory, for another head.
    pub fn into_memory(self) -> (Vec<u8>, Room) {
        (self.bytes, self.rows)
    }
}

impl<'a> HeadParts<'a> {
    /// Those of a head of HTTP/1.
    #[inline]
    pub fn of(request: &'a http1::Request<'_, '_>) -> HeadParts<'a> {
        HeadParts { form: request.form(), ..HeadParts::decoded(&request.head, Stated::Nothing) }
    }

    /// Those of a head that a protocol has decoded. `framing`: what HTTP/1 is to state of the body.
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

    /// The parts with what edits put in their place.
    #[inline]
    pub fn edited(self, edits: &'a Edits) -> HeadParts<'a> {
        let mut parts = self;
        if let Some(host) = edits.host() {
            parts.host = host;
            // Where no field names one, the lines go on as they came.
            (parts.is_host_new, parts.form.has_host) = (parts.form.has_host, false);
        }
        if edits.is_length_open() {
            parts.form.framing = Stated::Chunked;
        }
        if let Some(target) = edits.target() {
            (parts.target, parts.form.has_line) = (target.as_bytes(), false);
        }
        parts
    }
}

/// Drops the fields of a head that HTTP/2 has other ways for, or none.
///
/// # Errors
/// It expects what is not known.
pub fn suit_http2(request: &mut Request<'_, '_>, edits: &mut Edits) -> Result<(), Reject> {
    suit(request, edits, true, |_, _| Ok(()))
}

/// Drops the fields of a decoded head that mean something to a connection. `has_body`: something follows the head.
///
/// # Errors
/// Anything that HTTP/1 could not say, or would read in another way.
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

/// Returns true if the bytes are a name of HTTP.
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
                // Else there is nothing to be continued with; endpoints that answer 100 nevertheless confuse clients that did
                // not mean it.
                if has_body {
                    edits.add("Expect", b"100-continue");
                }
            }
            _ => field.dropped = true,
        }
    }
    Ok(())
}

/// True if who sent a request takes trailers.
pub fn wants_trailers(request: &Request<'_, '_>) -> bool {
    let named = |coding: &[u8]| coding.split(|b| *b == b';').next().unwrap_or_default().trim_ascii() == b"trailers";
    request.values("te").any(|value| list(value).any(|coding| named(&coding.to_ascii_lowercase())))
}

#[cfg(test)]
#[path = "endpoint_head_tests.rs"]
mod tests;

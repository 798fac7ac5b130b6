//! Heads of responses: validation, and the form in which a head is returned to the client.

use super::fields::{self, Framing, Options, Stated, append};
use super::kind::{Kind, kind};
use super::tokens::Tokens;
use super::{Body, Limits, Reject, Version, head_len};
use crate::head::{Field, Fields, Room, Table};
use std::ops::Range;

/// The head of a response. Borrows from the bytes it was read from.
#[derive(Debug)]
pub struct Response<'h, 'b> {
    /// Status code, 100 to 999.
    pub status: u16,
    /// True if the endpoint accepts another request on this connection.
    pub keep_alive: bool,
    /// Seconds without a request after which the endpoint closes the connection; `None` if it does not state them.
    pub kept_secs: Option<u32>,
    /// Framing of the body after the head.
    pub body: Body,
    reason: &'b [u8],
    pub fields: Fields<'h, 'b>,
    /// Framing to be written, if its field is not forwarded as it came.
    framing: Stated,
    /// True if a field states that the body is chunked.
    chunked: bool,
}

/// The properties of a request on which the reading of its response depends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestContext {
    /// True for HEAD: the response has no body, whatever its head states.
    pub head: bool,
    /// True if the request asked to switch protocols.
    pub upgrade: bool,
}

/// The client's side of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Towards {
    /// Version of the client's request.
    pub version: Version,
    /// True if the client's connection is kept for another request.
    pub keep_alive: bool,
}

impl<'h, 'b> Response<'h, 'b> {
    /// Reads the head at the start of `bytes`; `None` while it is incomplete. Looks at no more bytes than the limit.
    ///
    /// # Errors
    /// If anything is malformed, ambiguous or over a limit.
    #[inline]
    pub fn read(
        bytes: &'b [u8],
        room: &'h mut Room,
        asked: RequestContext,
        limits: &Limits,
    ) -> Result<Option<Response<'h, 'b>>, Reject> {
        let (version, status, reason, head) = match parse(&bytes[..bytes.len().min(limits.head)], room, limits) {
            Ok(parsed) => parsed,
            // Nearly all heads arrive complete and valid: then the parser has found the end.
            Err(_) if head_len(bytes, limits)?.is_none() => return Ok(None),
            Err(reject) => return Err(reject),
        };
        if !(100..=999).contains(&status) {
            return Err(Reject::Malformed);
        }
        let mut said = HeaderInfo::default();
        said.read(head, room, status)?;
        let HeaderInfo { framing, options, switches, kept_secs } = said;
        if status == 101 && !(asked.upgrade && switches) {
            return Err(Reject::SwitchNotAsked);
        }
        if options.nominated > 0 {
            fields::drop_nominated(head, room, options)?;
        }
        let stated = framing.stated(version)?;
        let bodiless = status < 200 || status == 204;
        if bodiless {
            // They never have a body (RFC 9110 sections 15.2 and 15.3.5). A field that promises a body would mislead
            // readers.
            fields::drop_all(Kind::ContentLength, head, room);
            fields::drop_all(Kind::TransferEncoding, head, room);
        }
        let body = if bodiless || status == 304 || asked.head { Body::EMPTY } else { stated.body(Body::UntilClose) };
        // After these, some servers send a last chunk or a whole body, and late: it would be taken for the next
        // response.
        let may_trail = match stated {
            Stated::Chunked => bodiless || status == 304,
            Stated::Length(n) => bodiless && n > 0,
            Stated::Nothing => false,
        };
        Ok(Some(Response {
            status,
            keep_alive: options.keep(version) && !matches!(body, Body::UntilClose) && !may_trail,
            kept_secs,
            body,
            reason,
            fields: Fields { bytes: head, rows: room },
            framing: if bodiless { Stated::Nothing } else { framing.odd(stated) },
            chunked: stated == Stated::Chunked,
        }))
    }

    /// Length of the head in the bytes it was read from.
    #[inline]
    pub fn head_len(&self) -> usize {
        self.fields.bytes.len()
    }

    /// True if the response is interim, so that another response follows (RFC 9110 section 15.2).
    #[inline]
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// First value of a field, by its name in any case.
    pub fn field(&self, name: &str) -> Option<&'b [u8]> {
        self.fields.first(name)
    }

    /// Returns the fields for a client that speaks another protocol, which frames bodies itself.
    pub fn translated(&self) -> Table {
        let framed = |(name, _): &(&[u8], &[u8])| kind(name) == Kind::TransferEncoding;
        let mut table: Table = self.fields.kept().filter(|field| !framed(field)).collect();
        if let Stated::Length(n) = self.framing {
            table.push(b"content-length", n.to_string().as_bytes());
        }
        table
    }

    /// Returns the only range of the head that has to be removed before it is forwarded as it came; empty if nothing
    /// has to. `None` if the head has to be rewritten.
    #[inline]
    pub fn all_but(&self, towards: Towards) -> Option<Range<usize>> {
        let as_sent = self.fields.bytes.starts_with(b"HTTP/1.1")
            && self.framing == Stated::Nothing
            && towards == (Towards { version: Version::V11, keep_alive: true })
            && self.status != 101
            // Some omit the space before an empty reason, which not all readers accept.
            && self.fields.bytes.get(12) == Some(&b' ');
        if as_sent { fields::only_dropped(self.fields.rows) } else { None }
    }

    /// Appends the head that is returned to the client. An HTTP/1.0 client knows no transfer codings, so for it a
    /// chunked body loses its framing. `added`: further fields, each with its line end.
    #[inline]
    pub fn write(&self, towards: Towards, added: &[u8], out: &mut Vec<u8>) {
        // The encoding of other bytes is unknown, so no client could read them.
        let reason = if self.reason.iter().all(u8::is_ascii) { self.reason } else { b"" };
        // Each head begins with a version, a space and three digits.
        append(&[b"HTTP/1.1 ", &self.fields.bytes[9..12], b" ", reason, b"\r\n"], out);
        self.write_fields(towards, added, out);
    }

    /// Like [`write`](Self::write), with another status and its reason phrase.
    #[cold]
    pub fn write_as(&self, (status, phrase): (u16, &str), towards: Towards, added: &[u8], out: &mut Vec<u8>) {
        append(&[b"HTTP/1.1 ", status.to_string().as_bytes(), b" ", phrase.as_bytes(), b"\r\n"], out);
        self.write_fields(towards, added, out);
    }

    #[inline]
    fn write_fields(&self, towards: Towards, added: &[u8], out: &mut Vec<u8>) {
        if self.chunked && towards.version == Version::V10 {
            self.write_without_coding(out);
        } else {
            self.write_kept(self.fields.rows, out);
            if self.framing != Stated::Nothing {
                self.framing.write(out);
            }
        }
        let connection: &[u8] = match (self.status, towards.version, towards.keep_alive) {
            (101, ..) => b"Connection: upgrade\r\n\r\n",
            (100..200, ..) | (_, Version::V11, true) => b"\r\n",
            (_, Version::V10, true) => b"Connection: keep-alive\r\n\r\n",
            (_, _, false) => b"Connection: close\r\n\r\n",
        };
        append(&[added, connection], out);
    }

    /// Appends the fields for a client that knows no transfer codings.
    #[cold]
    fn write_without_coding(&self, out: &mut Vec<u8>) {
        let mut fields = self.fields.rows.to_vec();
        for field in &mut fields {
            field.dropped |= kind(field.name(self.fields.bytes)) == Kind::TransferEncoding;
        }
        self.write_kept(&fields, out);
    }

    fn write_kept(&self, fields: &[Field], out: &mut Vec<u8>) {
        if let Some(first) = fields.first() {
            fields::write_kept(self.fields.bytes, first.line().start, fields, out);
        }
    }
}

/// Version, status and reason of a response, and its whole head.
type Parsed<'b> = (Version, u16, &'b [u8], &'b [u8]);

#[inline]
fn parse<'b>(bytes: &'b [u8], room: &mut Room, limits: &Limits) -> Result<Parsed<'b>, Reject> {
    // Only a request may follow empty lines.
    if bytes.first() != Some(&b'H') {
        return Err(Reject::Malformed);
    }
    let mut tokens = Tokens::new(bytes);
    let version = tokens.version()?;
    // Otherwise the version would be longer.
    tokens.expect(b" ").map_err(|_| Reject::Version)?;
    let status = tokens.status()?;
    // Some omit the space too if they have no reason.
    let reason = if tokens.expect(b" ").is_ok() { tokens.text() } else { b"" };
    tokens.expect(b"\r\n")?;
    Ok((version, status, reason, &bytes[..tokens.fields(room, limits)?]))
}

/// Information from the fields of a response.
#[derive(Default)]
struct HeaderInfo {
    framing: Framing,
    options: Options,
    /// True if a field names a protocol that the connection switches to.
    switches: bool,
    kept_secs: Option<u32>,
}

impl HeaderInfo {
    /// Reads all fields, and drops those that are not forwarded.
    #[inline]
    fn read(&mut self, head: &[u8], fields: &mut [Field], status: u16) -> Result<(), Reject> {
        for field in fields {
            let kind = kind(field.name(head));
            match kind {
                Kind::Other | Kind::Host | Kind::Expect | Kind::Forwarded | Kind::Loop | Kind::Lookalike => continue,
                Kind::ContentLength | Kind::TransferEncoding => self.framing.take(head, kind, field)?,
                Kind::Upgrade if status == 101 && fields::names_http2(field.value(head)) => {
                    return Err(Reject::SwitchNotAsked);
                }
                Kind::Upgrade if status == 101 => self.switches = true,
                Kind::Connection => {
                    self.options.read(field.value(head));
                    field.dropped = true;
                }
                Kind::KeepAlive => {
                    self.kept_secs = kept_secs(field.value(head));
                    field.dropped = true;
                }
                Kind::Upgrade | Kind::HopByHop => field.dropped = true,
            }
        }
        Ok(())
    }
}

/// Returns the `timeout` of a `Keep-Alive` field (RFC 2068 section 19.7.1), in seconds.
fn kept_secs(value: &[u8]) -> Option<u32> {
    let value = fields::list(value).find_map(|parameter| {
        let (name, value) = parameter.split_at_checked(7)?;
        let value = value.trim_ascii_start().strip_prefix(b"=").filter(|_| name.eq_ignore_ascii_case(b"timeout"))?;
        Some(value.trim_ascii())
    })?;
    let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    std::str::from_utf8(value).ok().filter(|value| value.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;

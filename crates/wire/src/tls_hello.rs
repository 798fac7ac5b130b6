//! Server name and protocols in a TLS ClientHello, which is sent in clear. A sans-io reader, so that the live proxy,
//! tests and fuzzers drive the same code.
//!
//! Source: RFC 8446 sections 4.1.2 and 5.1, RFC 6066 section 3 (server name), RFC 7301 (ALPN). Unknown values are
//! skipped, as GREASE (RFC 8701) requires. With Encrypted ClientHello this reads the outer hello, which names the
//! server that can decrypt the inner hello.

/// Longest ClientHello that is read, in bytes, its record headers included. With post-quantum key shares and tickets it
/// takes about 2 KiB; with a ticket that holds a chain of client certificates, tens of KiB.
pub const LEN_MAX: usize = 64 * 1024;

/// Contents of a ClientHello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Name of the server, in lower case and without a final dot; `None` if the client sent none.
    pub server_name: Option<String>,
    /// Protocols that the client offers, most preferred first.
    pub alpn: Vec<Box<[u8]>>,
}

/// Reason why bytes are not read as a ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Bytes of another protocol, or a hello against its syntax.
    Malformed,
    /// They may be a single entry of more than [`LEN_MAX`] bytes.
    TooLong,
}
use Unread::{Malformed, TooLong};

/// Types of the record, of the message, and of the extensions that are read.
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;

/// Largest payload of a record.
const RECORD_MAX: usize = 1 << 14;

/// Reads the ClientHello at the start of `bytes`; `None` while it is incomplete. The result for some bytes stays the
/// same whatever follows them.
///
/// # Errors
/// If it is not a ClientHello, or longer than [`LEN_MAX`]: as soon as no further byte could make it valid or, for
/// faults inside the message, at its end.
pub fn read(bytes: &[u8]) -> Result<Option<Hello>, Unread> {
    let within = &bytes[..bytes.len().min(LEN_MAX)];
    let (mut rest, mut message) = (within, Vec::new());
    loop {
        // A record may hold any part of the message, even of its four bytes of type and length.
        let (mut reader, begun) = (Reader(rest), rest.len().min(3));
        if begun > 0 && rest[0] != HANDSHAKE || begun > 1 && rest[1] != 3 {
            return Err(Malformed);
        }
        let more = || if within.len() == LEN_MAX { Err(TooLong) } else { Ok(None) };
        let (Ok(_), Ok(len)) = (reader.take(3), reader.u16()) else { return more() };
        let len = usize::from(len);
        if len == 0 || len > RECORD_MAX {
            return Err(Malformed);
        }
        let payload = &reader.0[..len.min(reader.0.len())];
        message.extend_from_slice(payload);
        if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(Malformed);
        }
        if let Some(head) = message.first_chunk::<4>() {
            let len = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
            if len > LEN_MAX {
                return Err(TooLong);
            }
            if let Some(body) = message.get(4..4 + len) {
                return hello(Reader(body)).map(Some);
            }
        }
        if payload.len() < len {
            return more();
        }
        rest = &reader.0[len..];
    }
}

fn hello(mut body: Reader<'_>) -> Result<Hello, Unread> {
    // Legacy version and random.
    body.take(2 + 32)?;
    let session = body.vec8()?;
    let suites = body.vec16()?;
    let compressions = body.vec8()?;
    if session.0.len() > 32 || suites.0.is_empty() || suites.0.len() % 2 == 1 || compressions.0.is_empty() {
        return Err(Malformed);
    }
    let mut hello = Hello::default();
    if body.0.is_empty() {
        return Ok(hello);
    }
    let mut extensions = body.vec16()?;
    body.end()?;
    let (mut named, mut chosen) = (false, false);
    while !extensions.0.is_empty() {
        let (kind, content) = (extensions.u16()?, extensions.vec16()?);
        match kind {
            SERVER_NAME if !std::mem::replace(&mut named, true) => hello.server_name = server_name(content)?,
            ALPN if !std::mem::replace(&mut chosen, true) => hello.alpn = protocols(content)?,
            // The extension is repeated (RFC 8446 section 4.2 forbids that).
            SERVER_NAME | ALPN => return Err(Malformed),
            _ => {}
        }
    }
    Ok(hello)
}

fn server_name(mut content: Reader<'_>) -> Result<Option<String>, Unread> {
    let mut list = content.vec16()?;
    content.end()?;
    let mut name = None;
    while !list.0.is_empty() {
        let (kind, value) = (list.u8()?, list.vec16()?.0);
        // Type 0 is a host name; no other type is defined.
        if kind == 0 && name.replace(host(value)?).is_some() {
            return Err(Malformed);
        }
    }
    name.map(Some).ok_or(Malformed)
}

/// Reads a host name of letters, digits, hyphens, underscores and dots.
fn host(value: &[u8]) -> Result<String, Unread> {
    let value = value.strip_suffix(b".").unwrap_or(value);
    let fits = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if value.is_empty() || value.len() > 253 || !value.iter().all(fits) {
        return Err(Malformed);
    }
    Ok(value.iter().map(|b| char::from(b.to_ascii_lowercase())).collect())
}

fn protocols(mut content: Reader<'_>) -> Result<Vec<Box<[u8]>>, Unread> {
    let mut list = content.vec16()?;
    content.end()?;
    let mut protocols = Vec::new();
    while !list.0.is_empty() {
        let protocol = list.vec8()?.0;
        if protocol.is_empty() {
            return Err(Malformed);
        }
        protocols.push(protocol.into());
    }
    if protocols.is_empty() { Err(Malformed) } else { Ok(protocols) }
}

/// Bytes that remain to be read.
#[derive(Clone, Copy)]
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, n: usize) -> Result<&'b [u8], Unread> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, Unread> {
        self.take(1).map(|b| b[0])
    }

    fn u16(&mut self) -> Result<u16, Unread> {
        self.take(2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }

    fn vec8(&mut self) -> Result<Reader<'b>, Unread> {
        let len = self.u8()?;
        self.take(len.into()).map(Reader)
    }

    fn vec16(&mut self) -> Result<Reader<'b>, Unread> {
        let len = self.u16()?;
        self.take(len.into()).map(Reader)
    }

    fn end(&self) -> Result<(), Unread> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

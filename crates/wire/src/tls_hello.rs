//! Which server does a client ask for, and for which protocol? Its TLS ClientHello says so in clear: a sans-io reader, so
//! that the live proxy, tests and fuzzers drive the same code.
//!
//! Source: RFC 8446 sections 4.1.2 and 5.1, RFC 6066 section 3 (server name), RFC 7301 (ALPN). What it does not know it
//! passes over: that is how GREASE (RFC 8701) asks to be treated. With Encrypted ClientHello, what is read is the outer one,
//! which names the server that can decrypt the other.

/// Bytes in which a ClientHello must be whole, those of its records included. With post-quantum key shares and tickets they
/// take some 2 KiB.
pub const LEN_MAX: usize = 16 * 1024;

/// What a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The server's name: lower case, without a final dot.
    pub server_name: Option<String>,
    /// Protocols that the client speaks, those that it likes best first.
    pub alpn: Vec<Box<[u8]>>,
}

/// Bytes that are no ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Type of a record and of a message, and of the extensions that are read.
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;

/// A record's largest payload.
const RECORD_MAX: usize = 1 << 14;

/// Reads the ClientHello at the front of `bytes`; `None` while it is not whole. The answer for some bytes stays the same
/// whatever follows them.
///
/// # Errors
/// It is none, or longer than [`LEN_MAX`]: as soon as no further byte could mend it or, within the message, at its end.
pub fn read(bytes: &[u8]) -> Result<Option<Hello>, Malformed> {
    let within = &bytes[..bytes.len().min(LEN_MAX)];
    let (mut rest, mut message) = (within, Vec::new());
    loop {
        // A record may hold any part of the message, its four bytes of type and length as well.
        let (mut reader, begun) = (Reader(rest), rest.len().min(3));
        if begun > 0 && rest[0] != HANDSHAKE || begun > 1 && rest[1] != 3 {
            return Err(Malformed);
        }
        let more = || if within.len() == LEN_MAX { Err(Malformed) } else { Ok(None) };
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
                return Err(Malformed);
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

fn hello(mut body: Reader<'_>) -> Result<Hello, Malformed> {
    // Version and random.
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
            // Two answers to one question.
            SERVER_NAME | ALPN => return Err(Malformed),
            _ => {}
        }
    }
    Ok(hello)
}

fn server_name(mut content: Reader<'_>) -> Result<Option<String>, Malformed> {
    let mut list = content.vec16()?;
    content.end()?;
    let mut name = None;
    while !list.0.is_empty() {
        let (kind, value) = (list.u8()?, list.vec16()?.0);
        // 0 is a host name, and there is no other kind.
        if kind == 0 && name.replace(host(value)?).is_some() {
            return Err(Malformed);
        }
    }
    name.map(Some).ok_or(Malformed)
}

/// A name of letters, digits, hyphens, underscores and dots.
fn host(value: &[u8]) -> Result<String, Malformed> {
    let value = value.strip_suffix(b".").unwrap_or(value);
    let fits = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if value.is_empty() || value.len() > 253 || !value.iter().all(fits) {
        return Err(Malformed);
    }
    Ok(value.iter().map(|b| char::from(b.to_ascii_lowercase())).collect())
}

fn protocols(mut content: Reader<'_>) -> Result<Vec<Box<[u8]>>, Malformed> {
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

/// What is left of some bytes.
#[derive(Clone, Copy)]
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, n: usize) -> Result<&'b [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.take(1).map(|b| b[0])
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.take(2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }

    fn vec8(&mut self) -> Result<Reader<'b>, Malformed> {
        let len = self.u8()?;
        self.take(len.into()).map(Reader)
    }

    fn vec16(&mut self) -> Result<Reader<'b>, Malformed> {
        let len = self.u16()?;
        self.take(len.into()).map(Reader)
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

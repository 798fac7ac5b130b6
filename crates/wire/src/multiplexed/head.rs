//! Heads of requests and responses, checked by the rules of RFC 9113 section 8 and RFC 9114 section 4.
//! Anything that an HTTP/1 reader could
//! take for something else is refused.

use super::limits::Over;
use crate::head::Table;
use std::fmt;

/// The head of a request or a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Status of a response; 0 for a request.
    pub status: u16,
    /// Method of a request; empty for a response.
    pub method: String,
    /// `http` or `https`; empty for `CONNECT` without a protocol.
    pub scheme: &'static str,
    /// Path and query, or `*`; empty for `CONNECT` without a protocol.
    pub path: String,
    /// Host and port, from `:authority` or `Host`; empty if neither is present.
    pub authority: Vec<u8>,
    /// Protocol that a request asks for on its stream (RFC 8441, RFC 9220).
    pub protocol: Option<String>,
    /// Stated length of the body; `None` if not stated.
    pub content_length: Option<u64>,
    /// True if no body and no trailers follow.
    pub ends: bool,
    /// All other fields except `Host`. Cookies are joined into a single field.
    pub fields: Table,
}

/// The kind of field section that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    Request,
    Response,
    Trailers,
}

/// Description of the rule that a message breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    why: &'static str,
    /// Name of the field that breaks it, if it is a field.
    field: Option<Box<str>>,
    /// Limit that the head is over, if that is the rule.
    pub over: Option<Over>,
}

/// Most bytes of a field's name that are shown.
const NAME_SHOWN: usize = 64;

impl Malformed {
    fn of_field(name: &[u8], why: &'static str) -> Malformed {
        let field = name[..name.len().min(NAME_SHOWN)].escape_ascii().to_string();
        Malformed { why, field: Some(field.into()), over: None }
    }
}

impl From<&'static str> for Malformed {
    fn from(why: &'static str) -> Malformed {
        Malformed { why, field: None, over: None }
    }
}

impl From<Over> for Malformed {
    fn from(over: Over) -> Malformed {
        let why = match over {
            Over::Bytes => "the head is over the size limit",
            Over::Fields => "the head has too many fields",
        };
        Malformed { why, field: None, over: Some(over) }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{} (field \"{field}\")", self.why),
            None => f.write_str(self.why),
        }
    }
}

/// A request that was refused for its head.
#[derive(Debug)]
pub struct Refused {
    /// The parts of the head that could be read.
    pub head: Head,
    /// Rule that the head breaks.
    pub why: Malformed,
    /// Status of the response that was sent; `None` if the stream was reset.
    pub status: Option<u16>,
}

/// Builds a head from field after field.
#[derive(Debug)]
pub struct HeadReader {
    reads: Reads,
    head: Head,
    cookie: Vec<u8>,
    host: Option<Vec<u8>>,
    has_authority: bool,
    /// True after the first field that is not a pseudo-header field.
    is_behind: bool,
    malformed: Option<Malformed>,
}

impl HeadReader {
    pub fn new(reads: Reads) -> HeadReader {
        // Room for most heads, so that the table does not grow field by field.
        let (bytes, fields) = if reads == Reads::Trailers { (64, 4) } else { (512, 16) };
        HeadReader {
            reads,
            head: Head { fields: Table::with_room(bytes, fields), ..Head::default() },
            cookie: Vec::new(),
            host: None,
            has_authority: false,
            is_behind: false,
            malformed: None,
        }
    }

    /// Adds the next field. Only the first fault is remembered.
    pub fn take(&mut self, name: &[u8], value: &[u8]) {
        if self.malformed.is_none()
            && let Err(why) = self.field(name, value)
        {
            self.malformed = Some(Malformed::of_field(name, why));
        }
    }

    fn field(&mut self, name: &[u8], mut value: &[u8]) -> Result<(), &'static str> {
        if !is_text(value) {
            return Err("a value has a control character");
        }
        if let [b':', ..] = name {
            return self.pseudo(name, value);
        }
        if is_blank(value.first()) || is_blank(value.last()) {
            // White space means nothing to either side, HTTP/1 drops it, and other servers accept it.
            value = value.trim_ascii();
        }
        if !is_name(name) {
            return Err("a field name is not a lowercase token");
        }
        self.is_behind = true;
        match name {
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                return Err("a connection-specific field of HTTP/1");
            }
            b"te" if self.reads == Reads::Trailers || !value.eq_ignore_ascii_case(b"trailers") => {
                return Err("TE is not \"trailers\"");
            }
            b"host" if self.reads == Reads::Request => {
                if self.host.is_some() {
                    return Err("Host is repeated");
                }
                self.host = Some(value.to_vec());
                return Ok(());
            }
            b"cookie" if self.reads == Reads::Request => {
                if !self.cookie.is_empty() {
                    self.cookie.extend_from_slice(b"; ");
                }
                self.cookie.extend_from_slice(value);
                return Ok(());
            }
            b"content-length" if self.reads == Reads::Trailers => return Err("Content-Length in trailers"),
            b"content-length" => {
                let length = length(value).ok_or("Content-Length is not a number")?;
                if self.head.content_length.replace(length).is_some() {
                    return Err("Content-Length is repeated");
                }
            }
            _ => {}
        }
        self.head.fields.push(name, value);
        Ok(())
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if self.is_behind {
            return Err("a pseudo-header field follows a regular one");
        }
        let head = &mut self.head;
        match (self.reads, name) {
            (Reads::Request, b":authority") => {
                if std::mem::replace(&mut self.has_authority, true) || value.is_empty() {
                    return Err(TWICE);
                }
                head.authority.extend_from_slice(value);
                Ok(())
            }
            (Reads::Request, b":method") => once(&mut head.method, value),
            (Reads::Request, b":scheme") if !head.scheme.is_empty() => Err(TWICE),
            (Reads::Request, b":scheme") => {
                let known = ["http", "https"].into_iter().find(|scheme| scheme.as_bytes() == value);
                head.scheme = known.ok_or(":scheme is neither http nor https")?;
                Ok(())
            }
            (Reads::Request, b":path") => once(&mut head.path, value),
            (Reads::Request, b":protocol") => once(head.protocol.get_or_insert_default(), value),
            (Reads::Response, b":status") => match value {
                &[a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] if head.status == 0 => {
                    head.status = [a, b, c].iter().fold(0, |n, digit| n * 10 + u16::from(digit - b'0'));
                    Ok(())
                }
                _ => Err(":status is not three digits, or is repeated"),
            },
            _ => Err("a pseudo-header field is unknown or not allowed here"),
        }
    }

    /// Returns the head, once all of its fields were added. `ends`: nothing follows the head.
    ///
    /// # Errors
    /// If the head is malformed.
    pub fn end(mut self, ends: bool, takes_connect: bool) -> Result<Head, Box<Refused>> {
        self.head.ends = ends;
        let checked = match self.malformed.take() {
            None => self.finish(ends, takes_connect).map_err(Malformed::from),
            Some(why) => Err(why),
        };
        match checked {
            Ok(()) => Ok(self.head),
            Err(why) => Err(self.refused(why)),
        }
    }

    /// Returns the refusal of a head, with the parts that could be read.
    #[cold]
    pub fn refused(mut self, why: Malformed) -> Box<Refused> {
        if self.head.authority.is_empty() {
            self.head.authority = self.host.unwrap_or_default();
        }
        Box::new(Refused { head: self.head, why, status: None })
    }

    fn finish(&mut self, ends: bool, takes_connect: bool) -> Result<(), &'static str> {
        let head = &mut self.head;
        match self.reads {
            Reads::Trailers => {}
            Reads::Response => {
                if head.status == 0 {
                    return Err(":status is missing");
                }
                if head.status == 101 || (head.status < 200 && ends) {
                    return Err("an interim response ends, or switches protocols");
                }
            }
            Reads::Request => {
                if !self.cookie.is_empty() {
                    head.fields.push(b"cookie", &self.cookie);
                }
                if let Some(host) = self.host.take() {
                    if self.has_authority && !host.eq_ignore_ascii_case(&head.authority) {
                        return Err("Host differs from :authority");
                    }
                    head.authority = host;
                }
                check(head, takes_connect)?;
            }
        }
        Ok(())
    }
}

const TWICE: &str = "a pseudo-header field is repeated or empty";

fn once(text: &mut String, value: &[u8]) -> Result<(), &'static str> {
    if !text.is_empty() || value.is_empty() {
        return Err(TWICE);
    }
    text.push_str(std::str::from_utf8(value).map_err(|_| "a pseudo-header field is not ASCII")?);
    Ok(())
}

/// Checks the combination of fields that a request must have.
fn check(head: &Head, takes_connect: bool) -> Result<(), &'static str> {
    if head.method.is_empty() {
        return Err(":method is missing");
    }
    if !head.method.bytes().all(is_token) {
        return Err(":method is not a token");
    }
    // The authority must not contain anything that could end it in a URL.
    if head.authority.iter().any(|&b| !b.is_ascii_graphic() || b"/?#@\\".contains(&b)) {
        return Err(":authority is not a host and port");
    }
    if head.protocol.is_some() && (head.method != "CONNECT" || !takes_connect) {
        return Err(":protocol is not allowed here");
    }
    if head.method == "CONNECT" && head.protocol.is_none() {
        let is_bare = head.scheme.is_empty() && head.path.is_empty() && !head.authority.is_empty();
        return if is_bare { Ok(()) } else { Err("CONNECT has more than :authority") };
    }
    if head.scheme.is_empty() || head.path.is_empty() {
        return Err(":scheme or :path is missing");
    }
    if head.protocol.is_some() && head.authority.is_empty() {
        return Err(":authority is missing");
    }
    let is_path = head.path.starts_with('/') || (head.path == "*" && head.method == "OPTIONS");
    if !is_path || !head.path.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
        return Err(":path is not a path");
    }
    Ok(())
}

fn length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

const NAME: [bool; 256] = {
    let mut table = [false; 256];
    let others = b"!#$%&'*+-.^_`|~";
    let mut i = 0;
    while i < others.len() {
        table[others[i] as usize] = true;
        i += 1;
    }
    let mut b = 0;
    while b < 128 {
        if (b as u8).is_ascii_lowercase() || (b as u8).is_ascii_digit() {
            table[b] = true;
        }
        b += 1;
    }
    table
};

fn is_name(name: &[u8]) -> bool {
    // Nearly all names are valid, so there is no early exit.
    !name.is_empty() && name.iter().fold(true, |is, &b| is & NAME[usize::from(b)])
}

fn is_blank(b: Option<&u8>) -> bool {
    matches!(b, Some(b' ' | b'\t'))
}

fn is_text(value: &[u8]) -> bool {
    // The rule of HTTP/1: no control characters except the tab.
    value.iter().fold(true, |is, &b| is & ((b >= b' ') & (b != 0x7f) | (b == b'\t')))
}

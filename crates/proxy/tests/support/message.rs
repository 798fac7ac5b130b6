//! HTTP/1 messages, read by a naive parser that shares no code with the proxy.

use std::io::{self, Read};

/// A message: its head as received, and its body decoded and as received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    pub head: String,
    /// Body without chunk framing.
    pub body: Vec<u8>,
    /// Body with chunk framing and trailers.
    pub wire: Vec<u8>,
}

impl Message {
    /// The first line of the head.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or("")
    }

    /// Status of a response; 0 if there is none.
    pub fn status(&self) -> u16 {
        self.line().split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0)
    }

    /// First value of a field, trimmed; `None` without the field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    pub fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Reads a head byte by byte, with its empty line; `None` if the peer closed before the first byte.
pub fn read_head(from: &mut impl Read) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match from.read(&mut byte)? {
            0 if head.is_empty() => return Ok(None),
            0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("within a head: {head:?}"))),
            _ => head.push(byte[0]),
        }
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

/// Reads a message whose body is framed as its head states. `bodiless`: it has none, whatever the head states.
pub fn read_message(from: &mut impl Read, bodiless: bool) -> io::Result<Option<Message>> {
    let Some(head) = read_head(from)? else { return Ok(None) };
    let mut message = Message { head, ..Message::default() };
    let response = message.line().starts_with("HTTP/");
    let none = bodiless || response && matches!(message.status(), 100..200 | 204 | 304);
    if none {
        return Ok(Some(message));
    }
    if message.field("transfer-encoding") == Some("chunked") {
        read_chunks(from, &mut message)?;
    } else if let Some(length) = message.field("content-length") {
        message.body = vec![0; length.parse().expect("a length is a number")];
        from.read_exact(&mut message.body)?;
        message.wire = message.body.clone();
    } else if response {
        from.read_to_end(&mut message.body)?;
        message.wire = message.body.clone();
    }
    Ok(Some(message))
}

fn read_chunks(from: &mut impl Read, message: &mut Message) -> io::Result<()> {
    loop {
        let line = read_line(from, &mut message.wire)?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or(""), 16).expect("a chunk has a size");
        if size == 0 {
            break;
        }
        let mut chunk = vec![0; size + 2];
        from.read_exact(&mut chunk)?;
        assert!(chunk.ends_with(b"\r\n"), "a chunk ends with a line end");
        message.wire.extend_from_slice(&chunk);
        message.body.extend_from_slice(&chunk[..size]);
    }
    while !read_line(from, &mut message.wire)?.is_empty() {}
    Ok(())
}

fn read_line(from: &mut impl Read, wire: &mut Vec<u8>) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        from.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    wire.extend_from_slice(&line);
    line.truncate(line.len() - 2);
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Start of the field with which evenkeel marks the requests that it forwards.
const MARK: &str = "CDN-Loop: evenkeel-";

/// All marks of a head, in order.
pub fn marks(head: &str) -> Vec<&str> {
    head.lines().filter(|line| line.starts_with(MARK)).map(|line| &line["CDN-Loop: ".len()..]).collect()
}

/// The head without its marks.
pub fn without_marks(head: &str) -> String {
    head.split_inclusive("\r\n").filter(|line| !line.starts_with(MARK)).collect()
}

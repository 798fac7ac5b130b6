//! Minimal HTTP/1 client that sends a single request at a time: enough to check an answer
//! byte by byte, and to keep a connection open.

use crate::error::{Error, Result, While};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Loopback address with a port.
pub fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Connects to a port of this machine, with timeouts of 5 s.
///
/// # Errors
/// If nothing listens there.
pub fn connect(port: u16) -> Result<TcpStream> {
    connect_to(local(port))
}

/// Checks that a process accepts connections at an address.
///
/// # Errors
/// If nothing listens there.
pub fn accepts(address: SocketAddr) -> Result<()> {
    connect_to(address).map(drop)
}

/// Connects like `connect`, to any address.
///
/// # Errors
/// If nothing listens there.
pub fn connect_to(address: SocketAddr) -> Result<TcpStream> {
    let doing = || format!("cannot connect to {address}");
    let patience = Duration::from_secs(5);
    let stream = TcpStream::connect_timeout(&address, patience).or_say(doing)?;
    stream.set_nodelay(true).or_say(doing)?;
    stream.set_read_timeout(Some(patience)).or_say(doing)?;
    stream.set_write_timeout(Some(patience)).or_say(doing)?;
    Ok(stream)
}

/// Requests `path` and returns the body of a 200. `version` is `1.0` or `1.1`; with the latter the connection stays
/// open.
///
/// # Errors
/// If the answer is anything else, or has no Content-Length.
pub fn get(stream: &mut (impl Read + Write), path: &str, version: &str) -> Result<Vec<u8>> {
    let head = format!("GET {path} HTTP/{version}\r\nHost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).or_say(|| format!("cannot get {path}"))?;
    body(stream, path)
}

/// Reads the response to a request of `path`, and returns the body of a 200.
///
/// # Errors
/// If the answer is anything else, or has no Content-Length.
pub fn body(stream: &mut impl Read, path: &str) -> Result<Vec<u8>> {
    let doing = || format!("cannot get {path}");
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let read = stream.read(&mut chunk).or_say(doing)?;
        bytes.extend_from_slice(&chunk[..read]);
        if let Some((head, body)) = split(&bytes) {
            let length = check_head(head)?;
            if body.len() > length {
                return Err(Error::Refused(format!("{path}: more bytes came than the Content-Length of {length}")));
            }
            if body.len() == length {
                return Ok(body.to_vec());
            }
        }
        if read == 0 {
            return Err(Error::Refused(format!("{path}: the answer ended after {} bytes", bytes.len())));
        }
    }
}

/// Requests `path` and returns everything until the connection ends, including the head.
///
/// # Errors
/// If the connection breaks.
pub fn read_all(stream: &mut TcpStream, path: &str) -> Result<String> {
    let doing = || format!("cannot get {path}");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").or_say(doing)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).or_say(doing)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Splits bytes into a head and the rest; `None` until the head is complete.
pub fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((&bytes[..end], &bytes[end + 4..]))
}

/// Head of a request or response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head(String);

impl Head {
    /// Creates a head from its bytes, without the empty line.
    pub fn new(bytes: &[u8]) -> Head {
        Head(String::from_utf8_lossy(bytes).into_owned())
    }

    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.lines().next().unwrap_or_default().split(' ')
    }

    /// Status of a response head.
    pub fn status(&self) -> Option<u16> {
        self.words().nth(1)?.parse().ok()
    }

    /// Value of the first field of this name, in any case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.0.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.into_iter().find_map(|(field, value)| field.eq_ignore_ascii_case(name).then(|| value.trim()))
    }

    /// Value of `Content-Length`, if any.
    pub fn length(&self) -> Option<usize> {
        self.field("content-length")?.parse().ok()
    }

    /// True if the connection ends with this message.
    pub fn closes(&self) -> bool {
        self.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// Checks that a response is a 200 and returns its Content-Length.
fn check_head(head: &[u8]) -> Result<usize> {
    let head = Head::new(head);
    if head.status() != Some(200) {
        let status = head.0.lines().next().unwrap_or_default();
        return Err(Error::Refused(format!("the answer is `{status}`, not a 200")));
    }
    head.length().ok_or_else(|| Error::Refused(format!("the answer has no Content-Length:\n{}", head.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_200_tells_the_length() {
        assert_eq!(check_head(b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-LENGTH: 12").expect("a 200"), 12);
    }

    #[test]
    fn anything_but_a_200_with_a_length_is_refused() {
        for head in [
            "HTTP/1.1 503 Busy\r\nContent-Length: 2",
            "HTTP/1.1 200 OK\r\nX: 1",
            "",
            "HTTP/1.1 200 OK\r\nContent-Length: x",
        ] {
            assert!(check_head(head.as_bytes()).is_err(), "{head}");
        }
    }

    #[test]
    fn a_head_tells_its_words_and_fields() {
        let head = Head::new(b"POST /upload HTTP/1.1\r\nHost: a:80\r\nCONTENT-length: 3\r\nConnection: Close");
        assert_eq!(head.words().collect::<Vec<_>>(), ["POST", "/upload", "HTTP/1.1"]);
        assert_eq!((head.field("host"), head.field("upgrade")), (Some("a:80"), None));
        assert_eq!((head.length(), head.closes(), head.status()), (Some(3), true, None));
    }

    #[test]
    fn a_head_ends_at_the_empty_line() {
        assert_eq!(split(b"a\r\nb\r\n\r\nbody"), Some((&b"a\r\nb"[..], &b"body"[..])));
        assert_eq!(split(b"a\r\n"), None);
    }
}

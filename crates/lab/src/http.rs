//! One request at a time, the plainest way: to check an answer byte by byte, and to keep a connection open.

use crate::error::{Error, Result, While};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A connection to a port of this machine, with five seconds of patience.
///
/// # Errors
/// If nobody listens.
pub fn connect(port: u16) -> Result<TcpStream> {
    let doing = || format!("cannot connect to port {port}");
    let patience = Duration::from_secs(5);
    let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), patience).or_say(doing)?;
    stream.set_nodelay(true).or_say(doing)?;
    stream.set_read_timeout(Some(patience)).or_say(doing)?;
    stream.set_write_timeout(Some(patience)).or_say(doing)?;
    Ok(stream)
}

/// Asks for `path` and gives the body of a 200. `version` is `1.0` or `1.1`; of the latter the connection stays open.
///
/// # Errors
/// If the answer is anything else, or has no Content-Length.
pub fn get(stream: &mut TcpStream, path: &str, version: &str) -> Result<Vec<u8>> {
    let doing = || format!("cannot get {path}");
    write!(stream, "GET {path} HTTP/{version}\r\nHost: lab.test\r\n\r\n").or_say(doing)?;
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

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((&bytes[..end], &bytes[end + 4..]))
}

/// The Content-Length of a 200.
fn check_head(head: &[u8]) -> Result<usize> {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(Error::Refused(format!("the answer is `{status}`, not a 200")));
    }
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    length.ok_or_else(|| Error::Refused(format!("the answer has no Content-Length:\n{head}")))
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
    fn a_head_ends_at_the_empty_line() {
        assert_eq!(split(b"a\r\nb\r\n\r\nbody"), Some((&b"a\r\nb"[..], &b"body"[..])));
        assert_eq!(split(b"a\r\n"), None);
    }
}

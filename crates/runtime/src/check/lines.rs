//! Checks of servers with line-based protocols: Redis and mail servers. Each check sends only commands that any client
//! may send, and `QUIT` at the end.

use super::failure::Failure;
use super::stream::{BODY_MAX, Carries, send, text};
use tokio::io::AsyncReadExt;

/// Sends `PING` to Redis. A server that asks for a password passes. A server that is loading data or has lost its
/// master fails.
pub(super) async fn redis(stream: &mut Box<dyn Carries>) -> Result<(), Failure> {
    send(stream, b"PING\r\n").await?;
    let line = Lines::of(stream).next().await?;
    // The result does not depend on it.
    let _ = send(stream, b"QUIT\r\n").await;
    match line.as_slice() {
        b"+PONG" => Ok(()),
        line if line.starts_with(b"-NOAUTH") || line.starts_with(b"-NOPERM") => Ok(()),
        [b'-', why @ ..] => Err(Failure::Says(text(why))),
        _ => Err(Failure::NotSpoken("Redis")),
    }
}

/// Reads the greeting of a mail server, and sends `EHLO` and `QUIT`.
pub(super) async fn smtp(stream: &mut Box<dyn Carries>) -> Result<(), Failure> {
    let mut greeted = reply(stream, b"220").await;
    if greeted.is_ok() {
        send(stream, b"EHLO localhost\r\n").await?;
        greeted = reply(stream, b"250").await;
    }
    // The result does not depend on it.
    let _ = send(stream, b"QUIT\r\n").await;
    greeted
}

/// Reads a reply of any number of lines, which must have this code (RFC 5321, section 4.2).
async fn reply(stream: &mut Box<dyn Carries>, code: &[u8]) -> Result<(), Failure> {
    let mut lines = Lines::of(stream);
    loop {
        let line = lines.next().await?;
        let is_reply = line.len() >= 3 && line[..3].iter().all(u8::is_ascii_digit);
        match line.get(3) {
            _ if !is_reply => return Err(Failure::NotSpoken("SMTP")),
            _ if line[..3] != *code => return Err(Failure::Says(text(&line))),
            Some(b'-') => {}
            _ => return Ok(()),
        }
    }
}

/// Reader of the lines of a single reply. A server sends nothing after the last line until asked, so dropping the
/// buffer loses nothing.
struct Lines<'s> {
    stream: &'s mut Box<dyn Carries>,
    bytes: Vec<u8>,
    used: usize,
}

impl<'s> Lines<'s> {
    fn of(stream: &'s mut Box<dyn Carries>) -> Lines<'s> {
        Lines { stream, bytes: Vec::new(), used: 0 }
    }

    /// Reads the next line, without its line end.
    async fn next(&mut self) -> Result<Vec<u8>, Failure> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.bytes[self.used..]) {
                let line = &self.bytes[self.used..self.used + end];
                self.used += end + 1;
                return Ok(line.strip_suffix(b"\r").unwrap_or(line).to_vec());
            }
            if self.bytes.len() >= BODY_MAX {
                return Err(Failure::Answer);
            }
            if self.stream.read_buf(&mut self.bytes).await.map_err(|_| Failure::Closed)? == 0 {
                return Err(Failure::Closed);
            }
        }
    }
}

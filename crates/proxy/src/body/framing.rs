//! HTTP/1 framing for a side that relays parts: a [`Reader`] extracts parts from received bytes, a [`Writer`] frames
//! parts to send.

use crate::body::part::Part;
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_net::transport::Transport;
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::chunked::{Keep, may_trail};
use evenkeel_wire::http1::{Body, Reject};
use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};

/// Unwritten bytes without data (heads, chunk framing) up to which there is still room for data.
const UNWRITTEN_MAX: usize = 4 * 1024;

/// Extracts the parts of a message from a connection's bytes.
pub struct Reader {
    /// Framing state of the rest of the body.
    pub body: Body,
    /// Bytes received and not yet parsed.
    pub came: Buf,
    /// Parsed content, not taken yet.
    content: Buf,
}

/// Reason why a body does not continue.
pub enum Unread {
    /// The sender closed or reset the connection.
    Closed,
    /// The framing is malformed.
    Malformed(Reject),
}

impl Reader {
    /// Creates a reader. `came` holds the bytes of the body that have arrived, possibly with bytes behind it.
    pub fn new(body: Body, came: Buf) -> Reader {
        let mut reader = Reader { body: Body::EMPTY, came, content: Buf::none() };
        reader.begin(body);
        reader
    }

    /// Begins the body of the next message on the connection.
    pub fn begin(&mut self, mut body: Body) {
        if let Body::Chunked(chunked) = &mut body {
            chunked.hold_trailers();
        }
        self.body = body;
    }

    /// Parses the received bytes of the body. Returns how many of them were framing.
    ///
    /// # Errors
    /// The framing is malformed.
    pub fn take(&mut self) -> Result<usize, Reject> {
        let taken = self.came.take_body(0, &mut self.body, Keep::Content)?;
        if taken.kept > 0 {
            let is_all = taken.kept == self.came.len();
            let behind = if is_all { Buf::none() } else { self.came.split_behind(taken.kept) };
            self.content = std::mem::replace(&mut self.came, behind);
        }
        Ok(taken.used - taken.kept)
    }

    /// True if all content was taken, and no more has to be read.
    pub fn is_done(&self) -> bool {
        self.content.is_empty() && self.body.is_done()
    }

    /// Takes the next part, reading from `from` if none is here; must not be called after the end. `on_framing` is
    /// called with the number of bytes that were framing.
    ///
    /// # Errors
    /// The body does not continue.
    pub fn poll_part(
        &mut self,
        from: &Transport,
        cx: &mut Context<'_>,
        on_framing: impl Fn(usize),
    ) -> Poll<Result<Part, Unread>> {
        loop {
            if !self.content.is_empty() {
                return Poll::Ready(Ok(Part::Data(self.content.take_out())));
            }
            if self.body.is_done() {
                return Poll::Ready(Ok(self.end()));
            }
            if self.came.is_empty() {
                // No buffer is held while waiting.
                self.came = Buf::none();
                let (n, buf) = ready!(from.poll_read_into(cx, Buf::take)).map_err(|_| Unread::Closed)?;
                if n == 0 {
                    return Poll::Ready(if self.body.may_end() { Ok(Part::End) } else { Err(Unread::Closed) });
                }
                self.came = buf;
            }
            on_framing(self.take().map_err(Unread::Malformed)?);
        }
    }

    fn end(&mut self) -> Part {
        let Body::Chunked(chunked) = &mut self.body else { return Part::End };
        let table = trailing(&chunked.take_trailers().unwrap_or_default());
        if table.is_empty() { Part::End } else { Part::Trailers(table) }
    }

    /// Discards the received content of the body. Returns true if the body is complete and no bytes are behind it.
    pub fn discard(&mut self) -> bool {
        let is_sound = self.body.is_done() || self.take().is_ok();
        self.content = Buf::none();
        is_sound && self.body.is_done() && self.came.is_empty()
    }
}

/// Returns the trailer fields that may be forwarded. `lines` end in CRLF each; the last line is empty.
pub fn trailing(lines: &[u8]) -> Table {
    let mut all = Table::default();
    all.push_lines(lines);
    let mut table = Table::default();
    all.iter().filter(|(name, _)| may_trail(name)).for_each(|(name, value)| table.push(name, value));
    table
}

/// Way in which the end of a body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Length stated in the head.
    Stated,
    /// Chunks; the last chunk ends the body and may have trailers.
    Chunks,
    /// End of the connection, which carries nothing afterwards.
    Close,
    /// End of a direction of the connection; the other may continue.
    Tunnel,
}

/// Frames parts and writes them to a connection.
pub struct Writer {
    framing: Framing,
    /// Heads and framing to be written before the next data.
    front: Vec<u8>,
    queue: VecDeque<Buf>,
    /// True if the end was sent, and remains to be shown by closing.
    ends: bool,
}

impl Writer {
    /// Creates a writer of a message whose head was written or is pushed next.
    pub fn new(framing: Framing) -> Writer {
        Writer { framing, front: Vec::new(), queue: VecDeque::new(), ends: false }
    }

    /// Begins a body with this framing. Where only the connection shows the end, a truncated body must end in a reset.
    pub fn begin(&mut self, framing: Framing, to: &Transport) {
        self.framing = framing;
        if matches!(framing, Framing::Close | Framing::Tunnel) {
            to.reset_on_close(true);
        }
    }

    /// Adds bytes other than data: a head, or framing.
    pub fn push(&mut self, bytes: &[u8]) {
        self.front.extend_from_slice(bytes);
    }

    /// Adds a part. `takes_trailers` is true if the receiver accepts trailers; otherwise their fields are dropped.
    pub fn send(&mut self, part: Part, takes_trailers: bool) {
        match (part, self.framing) {
            (Part::Data(buf), framing) => self.send_data(buf, framing == Framing::Chunks),
            (Part::Trailers(trailers), Framing::Chunks) => {
                self.push(b"0\r\n");
                for (name, value) in trailers.iter().filter(|(name, _)| takes_trailers && may_trail(name)) {
                    [name, b": ", value, b"\r\n"].into_iter().for_each(|bytes| self.push(bytes));
                }
                self.push(b"\r\n");
                // The end is complete: a following `Part::End` adds nothing.
                self.framing = Framing::Stated;
            }
            // Only chunked bodies can carry trailers.
            (Part::Trailers(_), _) | (Part::End, Framing::Stated) => {}
            (Part::End, Framing::Chunks) => self.push(b"0\r\n\r\n"),
            (Part::End, Framing::Close | Framing::Tunnel) => self.ends = true,
        }
    }

    /// Returns the bytes that were added and not written.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.queue.iter().flat_map(|buf| buf.filled()).copied().collect();
        bytes.extend_from_slice(&self.front);
        bytes
    }

    fn send_data(&mut self, mut buf: Buf, is_chunk: bool) {
        if is_chunk {
            self.push(format!("{:x}\r\n", buf.len()).as_bytes());
        }
        if !buf.replace_front(0, &self.front) {
            self.queue.extend(self.front.chunks(CAPACITY).map(Buf::holding));
        }
        self.front.clear();
        let fits = !is_chunk || buf.extend(b"\r\n");
        self.queue.push_back(buf);
        if !fits {
            self.push(b"\r\n");
        }
    }

    /// Waits until there is room for data: none while other data waits.
    ///
    /// # Errors
    /// The errors of `send(2)`.
    pub fn poll_room(&mut self, to: &Transport, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.queue.is_empty() && self.front.len() <= UNWRITTEN_MAX {
            return Poll::Ready(Ok(()));
        }
        self.poll_flush(to, cx)
    }

    /// Writes all that was added.
    ///
    /// # Errors
    /// The errors of `send(2)`.
    pub fn poll_flush(&mut self, to: &Transport, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(buf) = self.queue.front_mut() {
            while !buf.is_empty() {
                let n = ready!(to.poll_write(cx, buf.filled()))?;
                buf.consume(n);
            }
            self.queue.pop_front();
        }
        while !self.front.is_empty() {
            let n = ready!(to.poll_write(cx, &self.front))?;
            self.front.drain(..n);
        }
        ready!(to.poll_flush(cx))?;
        if std::mem::take(&mut self.ends) {
            to.reset_on_close(false);
            if self.framing == Framing::Tunnel {
                to.shutdown_write();
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(framing: Framing, parts: Vec<Part>, takes_trailers: bool) -> String {
        let mut writer = Writer::new(framing);
        writer.push(b"head ");
        parts.into_iter().for_each(|part| writer.send(part, takes_trailers));
        String::from_utf8(writer.into_bytes()).expect("ASCII")
    }

    fn data(text: &str) -> Part {
        Part::Data(Buf::holding(text.as_bytes()))
    }

    #[test]
    fn parts_are_framed_as_the_head_says() {
        let trailers = || Part::Trailers([(&b"a"[..], &b"1"[..]), (b"cookie", b"2")].into_iter().collect());
        let all = || vec![data("hello"), data("you"), trailers(), Part::End];
        assert_eq!(written(Framing::Stated, all(), true), "head helloyou");
        assert_eq!(written(Framing::Close, all(), true), "head helloyou");
        assert_eq!(written(Framing::Chunks, all(), true), "head 5\r\nhello\r\n3\r\nyou\r\n0\r\na: 1\r\n\r\n");
        assert_eq!(written(Framing::Chunks, all(), false), "head 5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n");
        assert_eq!(written(Framing::Chunks, vec![data("x"), Part::End], true), "head 1\r\nx\r\n0\r\n\r\n");
    }

    #[test]
    fn a_full_buffer_is_framed_around() {
        let full = "x".repeat(CAPACITY);
        let mut writer = Writer::new(Framing::Chunks);
        writer.send(data(&full), true);
        writer.send(data("y"), true);
        let pieces: Vec<_> = writer.queue.iter().map(|buf| buf.filled().to_vec()).collect();
        assert_eq!(pieces, [format!("8000\r\n{full}").into_bytes(), b"\r\n1\r\ny\r\n".to_vec()]);
    }
}

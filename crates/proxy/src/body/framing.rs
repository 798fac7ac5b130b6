//! Framing of HTTP/1 for a side that passes parts: a [`Reader`] takes parts out of what comes, a [`Writer`] frames those that go.

use crate::body::part::Part;
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_net::transport::Transport;
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::chunked::{Keep, may_trail};
use evenkeel_wire::http1::{Body, Reject};
use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};

/// Bytes without data that may wait to be written before more is asked for: heads.
const UNWRITTEN_MAX: usize = 4 * 1024;

/// Parts out of the bytes of a connection.
pub struct Reader {
    /// Framing state of the rest of the body.
    pub body: Body,
    /// Bytes received and not yet parsed.
    pub came: Buf,
    /// Parsed content, not yet taken.
    content: Buf,
}

/// The fault of a body that does not continue.
pub enum Unread {
    /// The sender has closed or reset the connection.
    Closed,
    /// The framing is malformed.
    Malformed(Reject),
}

impl Reader {
    /// A body of which `came` has arrived, perhaps with bytes behind it.
    pub fn new(body: Body, came: Buf) -> Reader {
        let mut reader = Reader { body: Body::EMPTY, came, content: Buf::none() };
        reader.begin(body);
        reader
    }

    /// Begins the body of another message, behind what was taken.
    pub fn begin(&mut self, mut body: Body) {
        if let Body::Chunked(chunked) = &mut body {
            chunked.hold_trailers();
        }
        self.body = body;
    }

    /// Takes what has come of the body out of its framing. Returns the number of bytes that were framing.
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

    /// True if all content was taken: nothing more has to be read.
    pub fn is_done(&self) -> bool {
        self.content.is_empty() && self.body.is_done()
    }

    /// The next part, read from `from` where nothing is here; nothing is asked for behind the end. `on_framing` gets the
    /// number of bytes that were framing.
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
                // None is held while waiting.
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

    /// Discards what has come of the body, whose content is not needed. True if that was all of it and nothing is behind it.
    pub fn discard(&mut self) -> bool {
        let is_sound = self.body.is_done() || self.take().is_ok();
        self.content = Buf::none();
        is_sound && self.body.is_done() && self.came.is_empty()
    }
}

/// The fields of trailers that may be forwarded. `lines`: each with its end, up to an empty one.
pub fn trailing(lines: &[u8]) -> Table {
    let mut all = Table::default();
    all.push_lines(lines);
    let mut table = Table::default();
    all.iter().filter(|(name, _)| may_trail(name)).for_each(|(name, value)| table.push(name, value));
    table
}

/// Sign by which a reader finds the end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The length is in the head.
    Stated,
    /// Ended by the last chunk, with trailers.
    Chunks,
    /// The end of the connection.
    Close,
    /// The end of one direction: the other may continue.
    Tunnel,
}

/// Parts that become bytes of a connection.
pub struct Writer {
    framing: Framing,
    /// Framing that goes before the next data.
    front: Vec<u8>,
    queue: VecDeque<Buf>,
    /// True if the end was sent and only the connection shows it.
    ends: bool,
}

impl Writer {
    /// A message whose head was written, or comes.
    pub fn new(framing: Framing) -> Writer {
        Writer { framing, front: Vec::new(), queue: VecDeque::new(), ends: false }
    }

    /// Begins a body with this framing. Where only the connection shows its end, a cut must not look like one.
    pub fn begin(&mut self, framing: Framing, to: &Transport) {
        self.framing = framing;
        if matches!(framing, Framing::Close | Framing::Tunnel) {
            to.reset_on_close(true);
        }
    }

    /// Adds bytes that are no data: a head, or framing.
    pub fn push(&mut self, bytes: &[u8]) {
        self.front.extend_from_slice(bytes);
    }

    /// Adds a part. `takes_trailers`: the receiver has a use for trailers.
    pub fn send(&mut self, part: Part, takes_trailers: bool) {
        match (part, self.framing) {
            (Part::Data(buf), framing) => self.send_data(buf, framing == Framing::Chunks),
            (Part::Trailers(trailers), Framing::Chunks) => {
                self.push(b"0\r\n");
                for (name, value) in trailers.iter().filter(|(name, _)| takes_trailers && may_trail(name)) {
                    [name, b": ", value, b"\r\n"].into_iter().for_each(|bytes| self.push(bytes));
                }
                self.push(b"\r\n");
                // The end was just stated.
                self.framing = Framing::Stated;
            }
            // Only chunks have a place for them.
            (Part::Trailers(_), _) | (Part::End, Framing::Stated) => {}
            (Part::End, Framing::Chunks) => self.push(b"0\r\n\r\n"),
            (Part::End, Framing::Close | Framing::Tunnel) => self.ends = true,
        }
    }

    /// All that was added and not written.
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

    /// Waits until data has room: there is none behind other data.
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

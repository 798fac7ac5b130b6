//! Lines of a stream in a buffer of fixed size. Lines longer than the limit are skipped as a whole.

use std::io::{self, Read};
use std::ops::Range;

/// Longest line in bytes. Most programs limit heads of requests to 8 to 64 KiB, and cut their lines earlier.
pub const LINE_MAX: usize = 64 << 10;

const BUFFER: usize = 4 * LINE_MAX;

/// Lines of a stream, in order.
pub struct Lines {
    from: Box<dyn Read>,
    buffer: Vec<u8>,
    /// Bytes that were read and not yet returned.
    filled: Range<usize>,
    is_end: bool,
    /// Error that ended the stream, until it is returned.
    failed: Option<io::Error>,
    /// True within a line that is too long.
    is_skipping: bool,
    /// Number of the latest line, from 1.
    pub number: u64,
}

/// Next line: where it is in the buffer, or a line that was skipped.
pub enum Line {
    At(Range<usize>),
    TooLong,
}

impl Lines {
    pub fn new(from: Box<dyn Read>) -> Lines {
        let buffer = vec![0; BUFFER];
        Lines { from, buffer, filled: 0..0, is_end: false, failed: None, is_skipping: false, number: 0 }
    }

    /// Moves to the next line that is not empty; `None` at the end.
    ///
    /// # Errors
    /// If the stream cannot be read further, once, after all lines before.
    pub fn next(&mut self) -> io::Result<Option<Line>> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.filled.clone()];
            let found = memchr::memchr(b'\n', &rest[searched..]).map(|at| searched + at);
            let is_last = found.is_none() && self.is_end;
            let length = match found {
                Some(at) => at,
                None if is_last && rest.is_empty() && !self.is_skipping => {
                    return self.failed.take().map_or(Ok(None), Err);
                }
                None if is_last => rest.len(),
                None if rest.len() > LINE_MAX => {
                    self.is_skipping = true;
                    self.filled = 0..0;
                    searched = 0;
                    continue;
                }
                None => {
                    searched = rest.len();
                    self.fill();
                    continue;
                }
            };
            let start = self.filled.start;
            self.filled.start += length + usize::from(!is_last);
            self.number += 1;
            searched = 0;
            if std::mem::take(&mut self.is_skipping) || length > LINE_MAX {
                return Ok(Some(Line::TooLong));
            }
            let line = start..start + length;
            let line = line.start..line.end - usize::from(self.buffer[line].ends_with(b"\r"));
            if !line.is_empty() {
                return Ok(Some(Line::At(line)));
            }
        }
    }

    /// Text of a line, until [`next`](Self::next) is called.
    pub fn text(&self, line: Range<usize>) -> &[u8] {
        &self.buffer[line]
    }

    /// First complete lines in the buffer, which are still to be returned.
    pub fn peek(&mut self, count: usize) -> Vec<&[u8]> {
        while !self.is_end && self.filled.len() < BUFFER / 2 {
            self.fill();
        }
        let text = &self.buffer[self.filled.clone()];
        let whole = match memchr::memrchr(b'\n', text) {
            Some(end) if !self.is_end => &text[..end],
            _ => text,
        };
        let lines = whole.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        lines.filter(|line| !line.is_empty() && line.len() <= LINE_MAX).take(count).collect()
    }

    /// Reads more, once at most. An error ends the stream.
    fn fill(&mut self) {
        if self.filled.start > 0 && self.filled.end + LINE_MAX > self.buffer.len() {
            self.buffer.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let room = &mut self.buffer[self.filled.end..];
        match self.from.read(room) {
            Ok(read) => {
                self.is_end = read == 0 && !room.is_empty();
                self.filled.end += read;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => (self.is_end, self.failed) = (true, Some(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reader that returns few bytes at a time.
    struct Pieces(Vec<u8>, usize);

    impl Read for Pieces {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(self.1).min(to.len());
            to[..length].copy_from_slice(&self.0[..length]);
            self.0.drain(..length);
            Ok(length)
        }
    }

    fn read(text: &[u8], piece: usize) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut lines = Lines::new(Box::new(Pieces(text.to_vec(), piece)));
        let mut out = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            let text = match line {
                Line::At(range) => Some(lines.text(range).to_vec()),
                Line::TooLong => None,
            };
            out.push((lines.number, text));
        }
        out
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let text = b"a\n\nbc\r\n \nlast";
        let expected =
            [(1, "a"), (3, "bc"), (4, " "), (5, "last")].map(|(n, text)| (n, Some(text.as_bytes().to_vec())));
        for piece in 1..20 {
            assert_eq!(read(text, piece), expected);
        }
        assert_eq!(read(b"", 1), []);
        assert_eq!(read(b"\n\n", 1), []);
    }

    #[test]
    fn a_line_beyond_the_limit_is_skipped_alone() {
        for length in [LINE_MAX - 1, LINE_MAX, LINE_MAX + 1, 3 * LINE_MAX, 10 * LINE_MAX] {
            for end in ["\nafter\n", ""] {
                let text = format!("before\n{}{end}", "x".repeat(length));
                for piece in [1 << 20, 7777] {
                    let lines = read(text.as_bytes(), piece);
                    assert_eq!(lines[0], (1, Some(b"before".to_vec())));
                    assert_eq!((lines[1].0, lines[1].1.is_some()), (2, length <= LINE_MAX), "{length}");
                    assert_eq!(lines.get(2).is_some(), !end.is_empty());
                }
            }
        }
    }

    #[test]
    fn peeked_lines_are_returned_later() {
        let text = "line\n".repeat(100_000);
        let mut lines = Lines::new(Box::new(Pieces(text.into_bytes(), 1000)));
        assert_eq!(lines.peek(50), vec![&b"line"[..]; 50]);
        let mut count = 0;
        while lines.next().unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, 100_000);
    }
}

//! Bodies that come line by line, as events do. See [`Lines`].

use crate::client::Streamed;
use crate::fault::{Fault, reason};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;

/// Lines of a body, without their ends.
#[derive(Debug)]
pub struct Lines {
    streamed: Streamed,
    read: BytesMut,
    /// Bytes of `read` that are known to hold no end of a line.
    searched: usize,
    max: usize,
}

impl Lines {
    /// Reads lines of at most `max` bytes.
    pub fn of(streamed: Streamed, max: usize) -> Lines {
        Lines { streamed, read: BytesMut::new(), searched: 0, max }
    }

    /// Returns the next line that is not empty; `None` at the end of the body, whose last line need not be ended. Cancel
    /// safe.
    ///
    /// # Errors
    /// The server breaks off, or sends a longer line.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.read.len() > self.max {
                return Err(format!("a line is longer than {} KiB", self.max / 1024).into());
            }
            match self.streamed.body.frame().await {
                Some(Ok(frame)) => self.read.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                Some(Err(error)) => return Err(reason(&error).into()),
                None if self.read.is_empty() => return Ok(None),
                None => {
                    self.searched = 0;
                    return Ok(Some(self.read.split().freeze()));
                }
            }
        }
    }

    /// Takes the next line that is complete and not empty.
    fn take(&mut self) -> Option<Bytes> {
        loop {
            let Some(end) = self.read[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.read.len();
                return None;
            };
            let mut line = self.read.split_to(self.searched + end);
            self.read.advance(1);
            self.searched = 0;
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            if !line.is_empty() {
                return Some(line.freeze());
            }
        }
    }
}

//! The framing of a message's body: the bytes that belong to it.

use super::Reject;
use super::chunked::{Chunked, Keep, Taken};

/// The part of a body that is still to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Number of bytes; 0 = none.
    Length(u64),
    /// Chunks, and then trailers.
    Chunked(Chunked),
    /// Everything until the sender closes the connection.
    UntilClose,
}

impl Body {
    /// The body of a message that has none.
    pub const EMPTY: Body = Body::Length(0);

    /// True if nothing more is to come.
    #[inline]
    pub fn is_done(&self) -> bool {
        match self {
            Body::Length(left) => *left == 0,
            Body::Chunked(chunked) => chunked.is_done(),
            Body::UntilClose => false,
        }
    }

    /// Consumes the part of `bytes` that belongs to the body, and moves the bytes to be kept to the front.
    ///
    /// # Errors
    /// If a chunk or a trailer is malformed.
    #[inline]
    pub fn advance(&mut self, bytes: &mut [u8], keep: Keep) -> Result<Taken, Reject> {
        let used = match self {
            Body::Length(left) => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= take as u64;
                take
            }
            Body::Chunked(chunked) => return chunked.advance(bytes, keep),
            Body::UntilClose => bytes.len(),
        };
        Ok(Taken { used, kept: used, steps: 0 })
    }

    /// True if the body may end here because the sender has closed the connection.
    pub fn may_end(&self) -> bool {
        self.is_done() || *self == Body::UntilClose
    }
}

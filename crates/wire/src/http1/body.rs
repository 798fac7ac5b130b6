//! How much of these bytes is body? [`Body`], the framing of one message.

use super::Reject;
use super::chunked::{Chunked, Keep, Taken};

/// What is still to come of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes; 0 = none.
    Length(u64),
    /// Chunks.
    Chunked(Chunked),
    /// All until the sender closes.
    UntilClose,
}

impl Body {
    /// A message without a body.
    pub const EMPTY: Body = Body::Length(0);

    /// Whether nothing more is to come.
    #[inline]
    pub fn is_done(&self) -> bool {
        match self {
            Body::Length(left) => *left == 0,
            Body::Chunked(chunked) => chunked.is_done(),
            Body::UntilClose => false,
        }
    }

    /// Takes as many of `bytes` as belong to the body and moves those to be kept to the front.
    ///
    /// # Errors
    /// A malformed chunk or trailer.
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

    /// Whether the body may end here because the sender closed.
    pub fn may_end(&self) -> bool {
        self.is_done() || *self == Body::UntilClose
    }
}

//! How much of these bytes is body? [`Body`], the framing of one message.

use super::{Reject, chunked::Chunked};

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

    /// Takes as much of `input` as belongs to the body; returns the number of bytes.
    ///
    /// # Errors
    /// A malformed chunk or trailer.
    #[inline]
    pub fn advance(&mut self, input: &[u8]) -> Result<usize, Reject> {
        match self {
            Body::Length(left) => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= take as u64;
                Ok(take)
            }
            Body::Chunked(chunked) => chunked.advance(input, |_| ()),
            Body::UntilClose => Ok(input.len()),
        }
    }

    /// Whether the body may end here because the sender closed.
    pub fn may_end(&self) -> bool {
        self.is_done() || *self == Body::UntilClose
    }
}

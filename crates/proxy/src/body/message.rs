//! Body of a request that is sent in parts, as far as it has arrived.

use crate::body::part::Part;
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_wire::head::Table;

/// Body of a request to an endpoint that takes parts, as far as it has arrived.
#[derive(Default)]
pub struct Message {
    /// Part of the body that arrived with the head.
    pub content: Buf,
    /// Part of the body that arrived since and is kept for a retry.
    pub kept: Vec<u8>,
    /// Trailer fields, if the body has arrived completely and has any.
    pub trailers: Option<Table>,
    /// True once the whole body has arrived.
    pub whole: bool,
    /// True for a request to open a tunnel (RFC 8441), which not every endpoint accepts.
    pub tunnel: bool,
}

impl Message {
    /// True if nothing follows the head.
    pub fn is_head_only(&self) -> bool {
        self.whole && self.content_len() == 0 && self.trailers.is_none()
    }

    /// Bytes of the body that have arrived and are kept.
    pub fn content_len(&self) -> usize {
        self.content.len() + self.kept.len()
    }

    /// Keeps `part` for a later attempt. Returns false, keeping nothing, if the body would exceed `max` bytes.
    pub fn keep(&mut self, part: &Part, max: usize) -> bool {
        match part {
            Part::Data(buf) if self.content_len() + buf.len() > max => return false,
            Part::Data(buf) => self.kept.extend_from_slice(buf.filled()),
            Part::Trailers(trailers) => {
                self.trailers = Some(trailers.clone());
                self.whole = true;
            }
            Part::End => self.whole = true,
        }
        true
    }

    /// True if the whole body can be sent with the head: it is at most a single part of data, for which a new stream
    /// has room.
    pub fn goes_at_once(&self) -> bool {
        let is_one = self.content.is_empty() || self.kept.is_empty();
        self.whole && is_one && self.content_len() <= CAPACITY
    }

    /// Parts that follow the head, as far as they have arrived.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        let content = (!self.content.is_empty()).then(|| Part::Data(Buf::holding(self.content.filled())));
        let kept = self.kept.chunks(CAPACITY).map(|bytes| Part::Data(Buf::holding(bytes)));
        let end = self.trailers.clone().map(Part::Trailers).or(Some(Part::End)).filter(|_| self.whole);
        content.into_iter().chain(kept).chain(end)
    }
}

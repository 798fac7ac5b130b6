//! What is a request as messages, as far as it has come? Its head, and perhaps all that follows it.

use super::part::Part;
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_wire::head::Table;

/// Bytes of a body that are kept while no response has come. Most unary calls are smaller by far, and what is larger costs more
/// to keep than a retry brings.
const KEPT_MAX: usize = 64 * 1024;

/// A request for an endpoint that takes it as messages.
pub struct Message {
    /// Its head, pseudo fields first.
    pub head: Table,
    /// What came of its body with it.
    pub content: Buf,
    /// What has come since, if that is kept.
    pub kept: Vec<u8>,
    /// The fields behind its body, if that has come whole.
    pub trailers: Option<Table>,
    /// Whether all of its body has come.
    pub whole: bool,
    /// Whether it asks for a tunnel (RFC 8441), which not every endpoint takes.
    pub tunnel: bool,
}

impl Message {
    /// Whether its head is all of it.
    pub fn is_head_only(&self) -> bool {
        self.whole && self.content.is_empty() && self.kept.is_empty() && self.trailers.is_none()
    }

    /// Whether all that follows its head leaves with it: one part of data at most, for which a new stream has room.
    pub fn goes_at_once(&self) -> bool {
        self.whole && self.kept.is_empty() && !self.is_head_only()
    }

    /// Keeps a part that has come, so that it can be sent again; `false` if that is more than is kept.
    pub fn keep(&mut self, part: &Part) -> bool {
        match part {
            Part::Data(buf) if self.content.len() + self.kept.len() + buf.len() > KEPT_MAX => return false,
            Part::Data(buf) => self.kept.extend_from_slice(buf.filled()),
            Part::Trailers(trailers) => (self.trailers, self.whole) = (Some(trailers.clone()), true),
            Part::End => self.whole = true,
        }
        true
    }

    /// What follows its head, a part after the other, as far as it has come.
    pub fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        let content = (!self.content.is_empty()).then(|| {
            let mut copy = Buf::take();
            // A buffer has room for what another one holds.
            copy.extend(self.content.filled());
            Part::Data(copy)
        });
        let kept = self.kept.chunks(CAPACITY).map(|bytes| {
            let mut copy = Buf::take();
            copy.extend(bytes);
            Part::Data(copy)
        });
        let end = self.trailers.clone().map(Part::Trailers).or(Some(Part::End)).filter(|_| self.whole);
        content.into_iter().chain(kept).chain(end)
    }
}

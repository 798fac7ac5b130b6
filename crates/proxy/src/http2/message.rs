//! What is a request as messages, as far as it has come? Its head, and perhaps all that follows it.

use super::part::Part;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;

/// A request for an endpoint that takes it as messages.
pub struct Message {
    /// Its head, pseudo fields first.
    pub head: Table,
    /// What came of its body with it.
    pub content: Buf,
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
        self.whole && self.content.is_empty() && self.trailers.is_none()
    }

    /// What follows its head, a part after the other, as far as it has come.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        let content = (!self.content.is_empty()).then(|| {
            let mut copy = Buf::take();
            // A buffer has room for what another one holds.
            copy.extend(self.content.filled());
            Part::Data(copy)
        });
        let end = self.trailers.clone().map(Part::Trailers).or(Some(Part::End)).filter(|_| self.whole);
        content.into_iter().chain(end)
    }
}

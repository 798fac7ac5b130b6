//! Facts that values are rendered from: the exchange, and the head of the request while it is there.

use crate::filters::exchange::Exchange;
use evenkeel_wire::head::Request;

/// Facts from which values are rendered.
pub struct Source<'s, 'c, 'h, 'b> {
    pub cx: &'s Exchange<'c>,
    /// The request; `None` for a response, whose request may be gone.
    pub request: Option<&'s Request<'h, 'b>>,
    /// Lines that are added to the request, as far as they are known.
    pub lines: &'s [u8],
    /// Values of the request that were kept for the response.
    pub kept: &'s [Vec<u8>],
    /// Status of the response; 0 for a request.
    pub status: u16,
}

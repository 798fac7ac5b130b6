//! Facts that values are rendered from: the exchange, and the head of the request while it is there.

use crate::filters::exchange::Exchange;
use evenkeel_config::plan::Groups;
use evenkeel_wire::head::Request;

/// Facts from which values are rendered.
#[derive(Clone, Copy)]
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
    /// Groups of the expression that found the value's place in the path of the request.
    pub groups: &'s Groups,
}

impl<'s, 'c, 'h, 'b> Source<'s, 'c, 'h, 'b> {
    /// Facts about a request, with the lines that are added to it.
    pub fn of_request(cx: &'s Exchange<'c>, request: &'s Request<'h, 'b>, lines: &'s [u8]) -> Self {
        Source { cx, request: Some(request), lines, kept: &[], status: 0, groups: Groups::NONE }
    }

    /// Facts about a response, with the values of its request.
    pub fn of_response(cx: &'s Exchange<'c>, status: u16, kept: &'s [Vec<u8>]) -> Self {
        Source { cx, request: None, lines: &[], kept, status, groups: Groups::NONE }
    }
}

//! Which trace does a request belong to, and who is told? It goes on with the trace that its client says, or begins one; each
//! try is told of as a span of its own. Where traces are off all of it is a branch.

use crate::observe::taps;
use crate::record::Record;
use crate::record::try_end::{Began, How};
use evenkeel_balance::Instant;
use evenkeel_wire::head::Request;

impl Record<'_> {
    /// What is kept of its head for its span.
    #[inline]
    pub fn head_of_span(&self, request: &Request<'_, '_>) -> Option<Box<taps::Head>> {
        let is_recorded = self.trace.as_ref().is_some_and(|trace| trace.is_recorded());
        is_recorded.then(|| taps::Head::of(request, Vec::new()))
    }

    /// Appends the fields that tell the endpoint of try number `number` of the trace, where there are any.
    #[inline]
    pub fn write_trace(&self, number: u32, lines: &mut Vec<u8>) {
        if let Some(trace) = &self.trace {
            trace.write(number, lines);
        }
    }

    /// Another try begins.
    #[inline]
    pub fn begin_try(&mut self, at: Instant, how: How) {
        self.tries += 1;
        self.began_try = Began { at, number: self.tries, how };
    }
}

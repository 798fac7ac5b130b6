//! The tries of a request, and what the endpoint of each alone is told: of which span it is, and how much time is left.

use crate::observe::taps;
use crate::record::try_end::{Began, How};
use crate::record::{Record, grpc};
use evenkeel_balance::Instant;
use evenkeel_wire::head::Request;
use std::time::Duration;

impl Record<'_> {
    /// What is kept of its head for its span.
    #[inline]
    pub fn head_of_span(&self, request: &Request<'_, '_>) -> Option<Box<taps::Head>> {
        let is_recorded = self.trace.as_ref().is_some_and(|trace| trace.is_recorded());
        is_recorded.then(|| taps::Head::of(request, Vec::new()))
    }

    /// Appends the fields that the endpoint of the try at hand alone gets: of which span it is, and how long the client of a call
    /// still waits.
    #[inline]
    pub fn write_try(&self, call_left: Option<Duration>, lines: &mut Vec<u8>) {
        if let Some(trace) = &self.trace {
            trace.write(self.began_try.number, lines);
        }
        if let Some(left) = call_left {
            grpc::write_timeout(left, lines);
        }
    }

    /// Another try begins.
    #[inline]
    pub fn begin_try(&mut self, at: Instant, how: How) {
        self.tries += 1;
        self.began_try = Began { at, number: self.tries, how };
    }
}

//! Which trace does a request belong to, and who is told? It goes on with the trace that its client says, or begins one; each
//! try is told of as a span of its own. Where traces are off all of it is a branch.

use crate::observe::taps;
use crate::observe::trace::Trace;
use crate::record::Record;
use crate::record::try_end::{Began, How};
use evenkeel_balance::Instant;
use evenkeel_wire::head::Request;
use evenkeel_wire::trace_context::{self, Came, Format, Sampled, Span};

impl Record<'_> {
    /// Finds out which trace it belongs to. What a client says of one is replaced where there is something to add.
    #[inline]
    pub fn take_trace(&mut self, request: &mut Request<'_, '_>) {
        if self.client.core.traces.is_on() {
            self.take_trace_now(request);
        }
    }

    #[inline(never)]
    fn take_trace_now(&mut self, request: &mut Request<'_, '_>) {
        let core = self.client.core;
        let Some((rules, drawn, seed)) = core.traces.draw() else { return };
        let believed = !rules.trusted_only || self.client.peer.is_trusted;
        let said = trace_context::read(&request.fields);
        let came = if believed { said } else { Came { formats: said.formats, ..Came::default() } };
        let sampled = match came.sampled {
            Sampled::Undecided if drawn => Sampled::Yes,
            Sampled::Undecided => Sampled::No,
            decided => decided,
        };
        if sampled == Sampled::No && came.sampled == Sampled::No {
            // It was decided, and nothing is to be added.
            self.trace = came.parent.map(|told| Trace::left_alone(told).into());
            return;
        }
        let (trace, is_random) = match came.parent {
            Some(parent) => (parent.trace, parent.is_random),
            None => (self.new_trace(), true),
        };
        trace_context::leave_out(&mut request.fields, came.by == Some(Format::W3c));
        let parent = came.parent.map(|parent| parent.span);
        let told = Span { trace, span: 0, is_random };
        self.trace = Some(Box::new(Trace::new(told, parent, sampled, rules.formats.and(came.formats), seed)));
    }

    /// The trace that begins with it: it has the request's id, unless a proxy in front has made that.
    fn new_trace(&self) -> u128 {
        let made = self.request_id().number().or_else(|| self.client.core.next_request_id().number());
        // 0 would be none.
        made.unwrap_or_default().max(1)
    }

    /// The trace, in digits.
    pub fn trace_id(&self) -> Option<String> {
        self.trace.as_ref().map(|trace| trace.id_text())
    }

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

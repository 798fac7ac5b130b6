//! The trace of a request: that of its client, or one that begins here. Endpoints get its fields with each try, as each is a span of
//! its own.

use super::exchange::Exchange;
use super::filter::{Filter, RequestHead, Verdict};
use super::row::Build;
use crate::observe::traces::Trace;
use evenkeel_wire::trace_context::{self, Came, Format, Sampled, Span};
use std::borrow::Cow;

struct Traces;

/// Traces are switched on and off for the whole process: where they are off, this is a branch.
pub fn build(_: &Build<'_>) -> Option<Box<dyn Filter>> {
    Some(Box::new(Traces))
}

impl Filter for Traces {
    #[inline]
    fn request<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        if cx.core.traces.is_on() {
            take(cx, head);
        }
        Verdict::Next
    }

    fn did(&self, cx: &Exchange<'_>) -> Cow<'static, str> {
        match &cx.trace {
            Some(trace) if trace.is_recorded() => format!("recorded as {}", trace.id_text()).into(),
            Some(trace) => format!("of trace {}, not recorded", trace.id_text()).into(),
            None => "".into(),
        }
    }
}

/// Finds the trace. What a client says of one is replaced where there is something to add.
#[inline(never)]
fn take(cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) {
    let Some((rules, drawn, seed)) = cx.core.traces.draw() else { return };
    let fields = &mut head.request.fields;
    let believed = !rules.trusted_only || cx.peer.is_trusted;
    let said = trace_context::read(fields);
    let came = if believed { said } else { Came { formats: said.formats, ..Came::default() } };
    let sampled = match came.sampled {
        Sampled::Undecided if drawn => Sampled::Yes,
        Sampled::Undecided => Sampled::No,
        decided => decided,
    };
    if sampled == Sampled::No && came.sampled == Sampled::No {
        // It was decided, and nothing is to be added.
        cx.trace = came.parent.map(|told| Trace::left_alone(told).into());
        return;
    }
    let (trace, is_random) = match came.parent {
        Some(parent) => (parent.trace, parent.is_random),
        None => (new_trace(cx), true),
    };
    trace_context::leave_out(fields, came.by == Some(Format::W3c));
    let parent = came.parent.map(|parent| parent.span);
    let told = Span { trace, span: 0, is_random };
    cx.trace = Some(Box::new(Trace::new(told, parent, sampled, rules.formats.and(came.formats), seed)));
}

/// The trace that begins with a request: it has the request's id, unless a proxy in front has made that.
fn new_trace(cx: &Exchange<'_>) -> u128 {
    let made = cx.request_id().number().or_else(|| cx.core.next_request_id().number());
    // 0 would be none.
    made.unwrap_or_default().max(1)
}

//! Trace of a request: the client's trace or a new trace. Endpoints get its fields anew with each try, as each try has
//! a separate span.

use super::exchange::Exchange;
use super::filter::{DryRun, Filter, Own, Predict, RequestHead, Verdict};
use super::row::Build;
use super::step::Step;
use crate::observe::traces::Trace;
use evenkeel_wire::trace_context::{self, Came, Format, Sampled, Span};
use std::borrow::Cow;

struct Traces;

/// Always built: tracing is switched on and off for the whole process, and costs one branch while off.
pub fn build(_: &Build<'_>) -> Option<Step> {
    Some(Box::new(Traces))
}

impl Filter for Traces {
    type State = ();

    #[inline]
    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        if cx.core.traces.is_on() {
            take(cx, head);
        }
        Verdict::Next
    }

    fn did(&self, _: Option<&()>, cx: &Exchange<'_>) -> Cow<'static, str> {
        match &cx.facts.trace {
            Some(trace) if trace.is_recorded() => format!("recorded as {}", trace.id_text()).into(),
            Some(trace) => format!("of trace {}, not recorded", trace.id_text()).into(),
            None => "".into(),
        }
    }
}

impl Predict for Traces {
    fn dry_run(&self, _: &mut Own<()>, _: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> DryRun {
        DryRun::nothing()
    }
}

/// Determines the trace. The client's fields are replaced, unless it decided not to sample and is believed.
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
        // The client decided not to sample: its fields are forwarded unchanged.
        cx.facts.trace = came.parent.map(|told| Trace::left_alone(told).into());
        return;
    }
    let (trace, is_random) = match came.parent {
        Some(parent) => (parent.trace, parent.is_random),
        None => (new_trace(cx), true),
    };
    trace_context::leave_out(fields, came.by == Some(Format::W3c));
    let parent = came.parent.map(|parent| parent.span);
    let told = Span { trace, span: 0, is_random };
    cx.facts.trace = Some(Box::new(Trace::new(told, parent, sampled, rules.formats.and(came.formats), seed)));
}

/// Id of a new trace: the request id if it was generated here, else a newly generated id.
fn new_trace(cx: &Exchange<'_>) -> u128 {
    let made = cx.request_id().number().or_else(|| cx.core.next_request_id().number());
    // A trace id of 0 is invalid.
    made.unwrap_or_default().max(1)
}

//! Traces: the [`Trace`] of a request with its spans, and the [`Traces`] of a worker, with its own sampler and a queue
//! to the exporting thread. A request never waits for the queue.

use super::finished::FinishedRequest;
use evenkeel_balance::Rng;
use evenkeel_balance::rng::mix;
use evenkeel_config::plan::{self, ContextFormat, Parents};
use evenkeel_wire::trace_context::{self, Format, Formats, Sampled, Span};
use std::cell::{Cell, Ref, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Recorded requests that may wait for the exporter; more are dropped.
pub const WAITING_MAX: usize = 4096;

/// Recorded requests dropped because the queue to the exporter was full.
static OVERRUN: AtomicU64 = AtomicU64::new(0);

/// Number of recorded requests dropped because the queue to the exporter was full.
pub fn overrun() -> u64 {
    OVERRUN.load(Relaxed)
}

/// Rules of a plan for traces.
#[derive(Clone, Debug)]
pub struct Rules {
    sample: f64,
    /// True if only trusted proxies may pass a trace context.
    pub trusted_only: bool,
    /// Formats of the trace context that endpoints get.
    pub formats: Formats,
}

impl Rules {
    /// Builds the rules of a plan.
    pub fn new(plan: &plan::Traces) -> Rules {
        let format = |format: &ContextFormat| match format {
            ContextFormat::W3c => Format::W3c,
            ContextFormat::B3 => Format::B3,
            ContextFormat::B3Multi => Format::B3Multi,
        };
        let formats = plan.formats.iter().map(format).fold(Formats::default(), Formats::with);
        Rules { sample: plan.sample, trusted_only: plan.parents == Parents::Trusted, formats }
    }
}

/// Traces of a worker, with its sampler and its queue to the exporter.
pub struct Traces {
    is_on: Cell<bool>,
    rules: RefCell<Option<(Rules, mpsc::Sender<Arc<FinishedRequest>>)>>,
    rng: RefCell<Rng>,
}

impl Default for Traces {
    fn default() -> Traces {
        // Seeded at random: span ids of two processes must differ.
        let rng = RefCell::new(Rng::new(RandomState::new().hash_one(0)));
        Traces { is_on: Cell::new(false), rules: RefCell::default(), rng }
    }
}

impl Traces {
    /// Applies the rules of another plan, with the queue for recorded requests; `None` switches tracing off.
    pub fn follow(&self, rules: Option<(Rules, mpsc::Sender<Arc<FinishedRequest>>)>) {
        self.is_on.set(rules.is_some());
        self.rules.replace(rules);
    }

    /// True if endpoints get a trace context.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Draws for the next request. Returns the rules, true if it is recorded unless its client decides, and a random
    /// seed for its span ids. `None` if tracing is off.
    pub fn draw(&self) -> Option<(Ref<'_, Rules>, bool, u64)> {
        let rules = Ref::filter_map(self.rules.borrow(), |rules| rules.as_ref().map(|(rules, _)| rules)).ok()?;
        let mut rng = self.rng.borrow_mut();
        let drawn = rng.unit() < rules.sample;
        Some((rules, drawn, rng.next_u64()))
    }

    /// Queues a recorded request that has ended for the exporter; drops it if the queue is full.
    pub fn tell(&self, request: &Arc<FinishedRequest>) {
        if let Some((_, to)) = &*self.rules.borrow()
            && let Err(TrySendError::Full(_)) = to.try_send(request.clone())
        {
            OVERRUN.fetch_add(1, Relaxed);
        }
    }
}

/// The trace of a request, and its spans.
pub struct Trace {
    /// Trace context for endpoints. [`write`](Self::write) replaces its span with the span of the try.
    told: Span,
    parent: Option<u64>,
    sampled: Sampled,
    /// Formats of the fields that are written; none if the client's fields are forwarded unchanged.
    formats: Formats,
    /// Random seed of the span ids.
    seed: u64,
}

impl Trace {
    /// Creates a trace that endpoints get in these formats, below the span `parent`, if any. `seed` is random.
    pub fn new(told: Span, parent: Option<u64>, sampled: Sampled, formats: Formats, seed: u64) -> Trace {
        Trace { told, parent, sampled, formats, seed }
    }

    /// Creates a trace that is not recorded. Its fields are forwarded as the client sent them.
    pub fn left_alone(told: Span) -> Trace {
        Trace { told, parent: None, sampled: Sampled::No, formats: Formats::default(), seed: 0 }
    }

    /// Id of the trace, 128 bits.
    pub fn id(&self) -> u128 {
        self.told.trace
    }

    /// Id of the trace as 32 hex digits.
    pub fn id_text(&self) -> String {
        format!("{:032x}", self.told.trace)
    }

    /// The span of the client, if it sent a span.
    pub fn parent(&self) -> Option<u64> {
        self.parent
    }

    /// True if its spans are exported.
    pub fn is_recorded(&self) -> bool {
        matches!(self.sampled, Sampled::Yes | Sampled::Debug)
    }

    /// Span id of try `number`, from 1; 0 gives the span of the request.
    pub fn span(&self, number: u32) -> u64 {
        // `mix` is a bijection, so ids of the same request differ. An id of 0 is invalid in all formats.
        mix(self.seed ^ u64::from(number)).max(1)
    }

    /// Appends the fields for the endpoint of try `number`, each ending in CRLF.
    pub fn write(&self, number: u32, lines: &mut Vec<u8>) {
        if self.formats != Formats::default() {
            let told = Span { span: self.span(number), ..self.told };
            trace_context::write(self.formats, told, self.sampled, lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_recorded_as_the_plan_says_and_what_is_not_taken_is_counted() {
        let traces = Traces::default();
        assert!(!traces.is_on() && traces.draw().is_none());
        let rules = |sample| Rules { sample, trusted_only: false, formats: Formats::default() };
        let (to, mut told) = mpsc::channel(1);
        for (sample, least, most) in [(0.0, 0, 0), (0.1, 850, 1150), (1.0, 10_000, 10_000)] {
            traces.follow(Some((rules(sample), to.clone())));
            let drawn = (0..10_000).filter(|_| traces.draw().is_some_and(|(_, drawn, _)| drawn)).count();
            assert!((least..=most).contains(&drawn), "{drawn}");
        }
        let (before, request) = (overrun(), Arc::<FinishedRequest>::default());
        (0..3).for_each(|_| traces.tell(&request));
        assert_eq!((overrun() - before, told.try_recv().is_ok()), (2, true));
        traces.follow(None);
        traces.tell(&request);
        assert!(!traces.is_on() && told.try_recv().is_err());
    }

    #[test]
    fn each_try_is_told_of_by_its_own_span_and_one_left_alone_by_none() {
        let formats = Formats::default().with(Format::W3c);
        let told = Span { trace: 7, span: 3, is_random: true };
        let trace = Trace::new(told, Some(3), Sampled::Yes, formats, 9);
        let lines = |trace: &Trace, number| {
            let mut lines = Vec::new();
            trace.write(number, &mut lines);
            String::from_utf8(lines).expect("ASCII")
        };
        for number in [1, 2, 1] {
            assert!(lines(&trace, number).contains(&format!("{:016x}", trace.span(number))));
        }
        let spans: std::collections::HashSet<u64> = (0..1000).map(|number| trace.span(number)).collect();
        assert_eq!((spans.len(), trace.is_recorded(), trace.parent()), (1000, true, Some(3)));
        let alone = Trace::left_alone(told);
        assert_eq!(
            (lines(&alone, 2), alone.is_recorded(), alone.id_text()),
            (String::new(), false, format!("{:032x}", 7))
        );
    }
}

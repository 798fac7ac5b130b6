//! Which requests leave spans, and where do these go? A worker's own sampler, and a queue to the thread that exports; a request
//! never waits for that.

use super::watched::Watched;
use evenkeel_balance::Rng;
use evenkeel_config::plan::{self, ContextFormat, Parents};
use evenkeel_wire::trace_context::{Format, Formats};
use std::cell::{Cell, Ref, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Recorded requests that wait for the exporter; more are dropped.
pub const WAITING_MAX: usize = 4096;

/// Recorded requests that the exporter did not take in time.
static OVERRUN: AtomicU64 = AtomicU64::new(0);

/// How many recorded requests were dropped, as the exporter did not take them in time.
pub fn overrun() -> u64 {
    OVERRUN.load(Relaxed)
}

/// What a plan says of traces.
#[derive(Clone, Debug)]
pub struct Rules {
    sample: f64,
    /// Whether only trusted proxies are believed.
    pub trusted_only: bool,
    /// How endpoints are told.
    pub formats: Formats,
}

impl Rules {
    /// As planned.
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

/// The traces of one worker.
pub struct Traces {
    is_on: Cell<bool>,
    rules: RefCell<Option<(Rules, mpsc::Sender<Arc<Watched>>)>>,
    rng: RefCell<Rng>,
}

impl Default for Traces {
    fn default() -> Traces {
        // Spans of two processes must differ.
        let rng = RefCell::new(Rng::new(RandomState::new().hash_one(0)));
        Traces { is_on: Cell::new(false), rules: RefCell::default(), rng }
    }
}

impl Traces {
    /// Follows another plan. With the rules: where requests that are over go.
    pub fn follow(&self, rules: Option<(Rules, mpsc::Sender<Arc<Watched>>)>) {
        self.is_on.set(rules.is_some());
        self.rules.replace(rules);
    }

    /// Whether endpoints are told of traces.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// By which rules the next request is traced, whether it is recorded if it is for us to say, and something random.
    pub fn draw(&self) -> Option<(Ref<'_, Rules>, bool, u64)> {
        let rules = Ref::filter_map(self.rules.borrow(), |rules| rules.as_ref().map(|(rules, _)| rules)).ok()?;
        let mut rng = self.rng.borrow_mut();
        let drawn = rng.unit() < rules.sample;
        Some((rules, drawn, rng.next_u64()))
    }

    /// A recorded request is over.
    pub fn tell(&self, request: &Arc<Watched>) {
        if let Some((_, to)) = &*self.rules.borrow()
            && let Err(TrySendError::Full(_)) = to.try_send(request.clone())
        {
            OVERRUN.fetch_add(1, Relaxed);
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
        let (before, request) = (overrun(), Arc::<Watched>::default());
        (0..3).for_each(|_| traces.tell(&request));
        assert_eq!((overrun() - before, told.try_recv().is_ok()), (2, true));
        traces.follow(None);
        traces.tell(&request);
        assert!(!traces.is_on() && told.try_recv().is_err());
    }
}

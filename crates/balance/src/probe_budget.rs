//! Who is asked for its load now? So many endpoints for each request, each of them once, under a rate.

use crate::params::{Kind, Param, Value};
use crate::picker::PickContext;
use crate::set::Slot;
use crate::time::{Instant, SECOND_NS};

/// For the tables of algorithms that ask.
pub(crate) const PROBE_RATE_MAX: Param = Param {
    name: "probe_rate_max",
    kind: Kind::Int { min: 0, max: 1_000_000 },
    default: Value::Int(10_000),
    help: "Most probes a second from each worker, whatever the rate of requests.",
    why: "At some 10 us of processor time for a probe and its answer this is a tenth of a core. Above it a worker goes by \
          what it was told before, and by its own requests since.",
};

/// What may be asked.
#[derive(Debug)]
pub(crate) struct ProbeBudget {
    per_request: f64,
    rate_max: f64,
    /// Starts since anybody was last asked.
    starts: u32,
    /// Questions for the requests so far.
    owed: f64,
    /// Probes that the rate allows, as of `allowed_at`.
    allowed: f64,
    allowed_at: Instant,
    /// Whom we asked since the latest start: distinct.
    asked: Vec<Slot>,
}

impl ProbeBudget {
    pub(crate) fn new(per_request: f64, rate_max: u64) -> ProbeBudget {
        let rate_max = rate_max as f64;
        let (allowed, allowed_at) = (burst(rate_max), Instant(0));
        ProbeBudget { per_request, rate_max, starts: 0, owed: 0.0, allowed, allowed_at, asked: Vec::new() }
    }

    #[inline]
    pub(crate) fn on_start(&mut self) {
        self.starts = self.starts.saturating_add(1);
    }

    /// Whether one more endpoint is to be asked; then it counts as asked.
    pub(crate) fn is_due(&mut self, cx: &PickContext<'_>) -> bool {
        if self.starts > 0 {
            // What could not be asked for two requests is forgotten: answers are wanted now, not many later.
            let owed = self.owed + self.per_request * f64::from(self.starts);
            self.owed = owed.min(2.0 * self.per_request.max(1.0));
            self.starts = 0;
            self.asked.clear();
        }
        // One endpoint alone gets all requests whatever it answers.
        let due = self.owed >= 1.0 && cx.set.len() > 1 && self.asked.len() < cx.set.len();
        self.owed -= f64::from(u8::from(due));
        due
    }

    /// Whether nobody was asked since the latest start.
    pub(crate) fn is_first(&self) -> bool {
        self.asked.is_empty()
    }

    /// Asks this one.
    pub(crate) fn ask(&mut self, slot: Slot) -> Option<Slot> {
        self.asked.push(slot);
        Some(slot)
    }

    /// Asks any that was not asked since the latest start.
    pub(crate) fn ask_any(&mut self, cx: &mut PickContext<'_>) -> Option<Slot> {
        let members = cx.set.members();
        // From a random place on: at most as many steps as were asked since the latest start, eight or so.
        let (before, from) = members.split_at(cx.rng.below(members.len() as u32) as usize);
        let slot = from.iter().chain(before).map(|m| m.slot).find(|s| !self.asked.contains(s))?;
        self.ask(slot)
    }

    /// Whether one more probe may be sent; then it counts as sent.
    pub(crate) fn may_send(&mut self, now: Instant) -> bool {
        let passed = now.since(self.allowed_at) as f64 / SECOND_NS as f64;
        self.allowed = (self.allowed + passed * self.rate_max).min(burst(self.rate_max));
        self.allowed_at = self.allowed_at.max(now);
        let may = self.allowed >= 1.0;
        self.allowed -= f64::from(u8::from(may));
        may
    }
}

/// Probes that may be sent at once after a pause: those of 10 ms, and those of a few requests.
fn burst(rate: f64) -> f64 {
    if rate > 0.0 { (rate / 100.0).max(16.0) } else { 0.0 }
}

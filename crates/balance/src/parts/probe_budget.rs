//! The number and the targets of probes: a fixed number of different endpoints per request, up to a maximum rate, and
//! none between requests. In a simulation with sidecars of 27 requests a second each, nine more probes per request
//! gained 1.5 % of throughput where processes stall half of the time and nothing elsewhere, and cost 15 % where cores
//! are few.

use crate::endpoints::set::Slot;
use crate::seam::params::{Kind, Param, Value};
use crate::seam::picker::PickContext;
use crate::structures::time::{Instant, MILLISECOND_NS};
use crate::structures::token_bucket::{Rate, TokenBucket};

/// Parameter for the tables of algorithms that send probes.
pub(crate) const PROBE_RATE_MAX: Param = Param {
    name: "probe_rate_max",
    kind: Kind::Int { min: 0, max: 1_000_000 },
    default: Value::Int(10_000),
    help: "Maximum probes per second from each worker, whatever the request rate.",
    why: "At about 10 us of processor time for a probe and its answer this is a tenth of a core. Over the limit, a \
          worker uses earlier answers and its own requests since then.",
};

/// Probes that may be sent at once after a pause: the probes of 10 ms, but at least [`BURST_MIN`], the probes of a few
/// requests.
const BURST_NS: u64 = 10 * MILLISECOND_NS;
const BURST_MIN: u32 = 16;

/// Budget of a worker's probes, and the endpoints it has asked.
#[derive(Debug)]
pub(crate) struct ProbeBudget {
    per_request: f64,
    rate_max: Rate,
    /// Time of the latest probe.
    asked_at: Instant,
    /// True once an endpoint was chosen to be asked.
    asks: bool,
    /// Starts that `owed` does not count yet.
    starts: u32,
    /// Probes due for the requests so far.
    owed: f64,
    /// Probes that the maximum rate allows.
    allowed: TokenBucket,
    /// Endpoints asked since the latest start. All different.
    asked: Vec<Slot>,
}

impl ProbeBudget {
    pub(crate) fn new(per_request: f64, rate_max: u64) -> ProbeBudget {
        ProbeBudget {
            per_request,
            rate_max: Rate::new(rate_max as f64, BURST_MIN).saving(BURST_NS),
            asked_at: Instant(0),
            asks: false,
            starts: 0,
            owed: 0.0,
            allowed: TokenBucket::default(),
            asked: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn on_start(&mut self) {
        self.starts = self.starts.saturating_add(1);
    }

    /// Returns true if another endpoint is to be asked; the probe counts as sent then.
    pub(crate) fn is_due(&mut self, cx: &PickContext<'_>) -> bool {
        if self.starts > 0 {
            // Probes beyond the need of two requests are dropped: answers are wanted now, not many later.
            let owed = self.owed + self.per_request * f64::from(self.starts);
            self.owed = owed.min(2.0 * self.per_request.max(1.0));
            self.starts = 0;
            self.asked.clear();
        }
        // A single endpoint gets all requests whatever it answers.
        let due = self.owed >= 1.0 && cx.set.len() > 1 && self.asked.len() < cx.set.len();
        if due {
            self.owed -= 1.0;
            self.asked_at = cx.now;
        }
        due
    }

    /// True if a probe was sent within the last `ns` nanoseconds.
    pub(crate) fn asked_within(&self, ns: u64, now: Instant) -> bool {
        self.asks && now.since(self.asked_at) <= ns
    }

    /// True if no endpoint was asked since the latest start.
    pub(crate) fn is_first(&self) -> bool {
        self.asked.is_empty()
    }

    /// Records that `slot` is asked, and returns it.
    pub(crate) fn ask(&mut self, slot: Slot) -> Option<Slot> {
        self.asks = true;
        self.asked.push(slot);
        Some(slot)
    }

    /// Chooses a random endpoint that was not asked since the latest start.
    pub(crate) fn ask_any(&mut self, cx: &mut PickContext<'_>) -> Option<Slot> {
        let members = cx.set.members();
        // From a random place on. Takes at most as many steps as endpoints were asked since the latest start, about
        // eight.
        let (before, from) = members.split_at(cx.rng.below(members.len() as u32) as usize);
        let slot = from.iter().chain(before).map(|m| m.slot).find(|s| !self.asked.contains(s))?;
        self.ask(slot)
    }

    /// Returns true if the maximum rate allows another probe, which counts as sent then.
    pub(crate) fn may_send(&mut self, now: Instant) -> bool {
        self.allowed.take(self.rate_max, now).is_ok()
    }
}

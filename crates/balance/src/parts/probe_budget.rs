//! Which endpoint is asked for its load now? A fixed number of different endpoints for each request, under a maximal
//! rate; and where requests are rare but not absent, a minimal number a second.

use crate::endpoints::set::Slot;
use crate::seam::params::{Kind, Param, Value};
use crate::seam::picker::PickContext;
use crate::structures::time::{Instant, MILLISECOND_NS, SECOND_NS};
use crate::structures::token_bucket::{Rate, TokenBucket};

/// For the tables of algorithms that ask.
pub(crate) const PROBE_RATE_MAX: Param = Param {
    name: "probe_rate_max",
    kind: Kind::Int { min: 0, max: 1_000_000 },
    default: Value::Int(10_000),
    help: "Most probes a second from each worker, whatever the rate of requests.",
    why: "At some 10 us of processor time for a probe and its answer this is a tenth of a core. Above it a worker goes by \
          earlier answers, and by its own requests since.",
};

/// After so long without a request no endpoint is asked, nanoseconds: the next request finds the answers too old to
/// believe, and asks anew.
const IDLE_NS: u64 = SECOND_NS;

/// Probes that may be sent at once after a pause: those of 10 ms, and those of a few requests.
const BURST_NS: u64 = 10 * MILLISECOND_NS;
const BURST_MIN: u32 = 16;

/// How many probes may be sent, and to which endpoints.
#[derive(Debug)]
pub(crate) struct ProbeBudget {
    per_request: f64,
    rate_max: Rate,
    /// Longest time between two probes right after a start, nanoseconds; `u64::MAX` = no bound.
    pause_max_ns: u64,
    /// The same now: it becomes half as long again with each such probe until the next start, so that what a request costs in probes
    /// grows with the logarithm of the time to the next.
    pause_ns: u64,
    /// When the latest request started, and when the latest probe was sent.
    started_at: Instant,
    asked_at: Instant,
    /// Whether a probe was ever sent.
    asks: bool,
    /// Starts since the latest probe.
    starts: u32,
    /// Probes due for the requests so far.
    owed: f64,
    /// Probes that the rate allows.
    allowed: TokenBucket,
    /// Endpoints asked since the latest start: distinct.
    asked: Vec<Slot>,
}

impl ProbeBudget {
    pub(crate) fn new(per_request: f64, rate_max: u64) -> ProbeBudget {
        ProbeBudget {
            per_request,
            rate_max: Rate::new(rate_max as f64, BURST_MIN).saving(BURST_NS),
            pause_max_ns: u64::MAX,
            pause_ns: u64::MAX,
            started_at: Instant(0),
            asked_at: Instant(0),
            asks: false,
            starts: 0,
            owed: 0.0,
            allowed: TokenBucket::default(),
            asked: Vec::new(),
        }
    }

    /// The same budget with at least `rate` probes a second right after a start, and then ever fewer; 0 = only those for requests.
    pub(crate) fn at_least(self, rate: f64) -> ProbeBudget {
        let pause_max_ns = if rate > 0.0 { (SECOND_NS as f64 / rate) as u64 } else { u64::MAX };
        ProbeBudget { pause_max_ns, pause_ns: pause_max_ns, ..self }
    }

    #[inline]
    pub(crate) fn on_start(&mut self, now: Instant) {
        self.starts = self.starts.saturating_add(1);
        self.pause_ns = self.pause_max_ns;
        self.started_at = now;
    }

    /// When the next probe is due even if no request starts; `None` while no requests come.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        let at = self.asked_at.after(self.pause_ns);
        (self.pause_max_ns != u64::MAX && at.since(self.started_at) <= IDLE_NS).then_some(at)
    }

    /// Whether one more endpoint is to be asked; if so, the probe counts as sent.
    pub(crate) fn is_due(&mut self, cx: &PickContext<'_>) -> bool {
        if self.starts > 0 {
            // Probes beyond those of two requests are forgotten: answers are wanted now, not many later.
            let owed = self.owed + self.per_request * f64::from(self.starts);
            self.owed = owed.min(2.0 * self.per_request.max(1.0));
            self.starts = 0;
            self.asked.clear();
        }
        // One endpoint alone gets all requests whatever it answers.
        let several = cx.set.len() > 1;
        let due = self.owed >= 1.0 && several && self.asked.len() < cx.set.len();
        self.owed -= f64::from(u8::from(due));
        let overdue = self.due_at().is_some_and(|at| at <= cx.now);
        if due || overdue {
            self.asked_at = cx.now;
        }
        if overdue && !due {
            self.pause_ns = self.pause_ns.saturating_add(self.pause_ns / 2);
        }
        if overdue && !due && several && self.asked.len() >= cx.set.len() {
            self.asked.clear(); // another round: each endpoint once in each
        }
        due || (overdue && several)
    }

    /// Whether a probe was sent within the last `ns` nanoseconds.
    pub(crate) fn asked_within(&self, ns: u64, now: Instant) -> bool {
        self.asks && now.since(self.asked_at) <= ns
    }

    /// Whether no endpoint was asked since the latest start.
    pub(crate) fn is_first(&self) -> bool {
        self.asked.is_empty()
    }

    /// Notes that `slot` is asked, and returns it.
    pub(crate) fn ask(&mut self, slot: Slot) -> Option<Slot> {
        self.asks = true;
        self.asked.push(slot);
        Some(slot)
    }

    /// Chooses any endpoint that was not asked since the latest start.
    pub(crate) fn ask_any(&mut self, cx: &mut PickContext<'_>) -> Option<Slot> {
        let members = cx.set.members();
        // From a random place on: at most as many steps as endpoints were asked since the latest start, eight or so.
        let (before, from) = members.split_at(cx.rng.below(members.len() as u32) as usize);
        let slot = from.iter().chain(before).map(|m| m.slot).find(|s| !self.asked.contains(s))?;
        self.ask(slot)
    }

    /// Whether the rate allows one more probe; if so, it counts as sent.
    pub(crate) fn may_send(&mut self, now: Instant) -> bool {
        self.allowed.take(self.rate_max, now).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_request_probes_become_rarer_until_the_next() {
        let now = Instant(SECOND_NS);
        let mut budget = ProbeBudget::new(2.0, 1000).at_least(1000.0);
        budget.on_start(now);
        budget.asked_at = now;
        let due = |budget: &ProbeBudget| budget.due_at().map(|at| at.since(now));
        assert_eq!(due(&budget), Some(MILLISECOND_NS));
        budget.pause_ns = 8 * MILLISECOND_NS;
        assert_eq!(due(&budget), Some(8 * MILLISECOND_NS));
        // Once it would be a second since the latest request, none is due.
        budget.pause_ns = SECOND_NS + 1;
        assert_eq!(due(&budget), None);
        budget.on_start(now);
        assert_eq!(due(&budget), Some(MILLISECOND_NS));
        // Without a bound none is due but for requests.
        let mut budget = ProbeBudget::new(2.0, 1000);
        budget.on_start(now);
        assert_eq!(budget.due_at(), None);
    }
}

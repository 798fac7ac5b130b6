//! Who is asked for its load now? So many endpoints for each request, each of them once, under a rate; and where requests
//! are rare but not absent, so many a second.

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
          what it was told before, and by its own requests since.",
};

/// Without a request for so long nobody is asked, nanoseconds: the next one finds answers too old to believe, and asks anew.
const IDLE_NS: u64 = SECOND_NS;

/// Probes that may be sent at once after a pause: those of 10 ms, and those of a few requests.
const BURST_NS: u64 = 10 * MILLISECOND_NS;
const BURST_MIN: u32 = 16;

/// What may be asked.
#[derive(Debug)]
pub(crate) struct ProbeBudget {
    per_request: f64,
    rate_max: Rate,
    /// Between two probes at most while requests come, nanoseconds; `u64::MAX` = as long as it takes.
    pause_max_ns: u64,
    /// When a request started last, and when somebody was asked last.
    started_at: Instant,
    asked_at: Instant,
    /// Whether anybody was ever asked.
    asks: bool,
    /// Starts since anybody was last asked.
    starts: u32,
    /// Questions for the requests so far.
    owed: f64,
    /// Probes that the rate allows.
    allowed: TokenBucket,
    /// Whom we asked since the latest start: distinct.
    asked: Vec<Slot>,
}

impl ProbeBudget {
    pub(crate) fn new(per_request: f64, rate_max: u64) -> ProbeBudget {
        ProbeBudget {
            per_request,
            rate_max: Rate::new(rate_max as f64, BURST_MIN).saving(BURST_NS),
            pause_max_ns: u64::MAX,
            started_at: Instant(0),
            asked_at: Instant(0),
            asks: false,
            starts: 0,
            owed: 0.0,
            allowed: TokenBucket::default(),
            asked: Vec::new(),
        }
    }

    /// With at least so many probes a second while requests come; 0 = none but for requests.
    pub(crate) fn at_least(self, rate: f64) -> ProbeBudget {
        let pause_max_ns = if rate > 0.0 { (SECOND_NS as f64 / rate) as u64 } else { u64::MAX };
        ProbeBudget { pause_max_ns, ..self }
    }

    #[inline]
    pub(crate) fn on_start(&mut self, now: Instant) {
        self.starts = self.starts.saturating_add(1);
        self.started_at = now;
    }

    /// When somebody is to be asked though no request starts; `None` while none comes.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        let at = self.asked_at.after(self.pause_max_ns);
        (self.pause_max_ns != u64::MAX && at.since(self.started_at) <= IDLE_NS).then_some(at)
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
        let several = cx.set.len() > 1;
        let due = self.owed >= 1.0 && several && self.asked.len() < cx.set.len();
        self.owed -= f64::from(u8::from(due));
        let overdue = self.due_at().is_some_and(|at| at <= cx.now);
        if due || overdue {
            self.asked_at = cx.now;
        }
        if overdue && !due && several && self.asked.len() >= cx.set.len() {
            self.asked.clear(); // another round: each endpoint once in each
        }
        due || (overdue && several)
    }

    /// Whether somebody was asked within so many nanoseconds.
    pub(crate) fn asked_within(&self, ns: u64, now: Instant) -> bool {
        self.asks && now.since(self.asked_at) <= ns
    }

    /// Whether nobody was asked since the latest start.
    pub(crate) fn is_first(&self) -> bool {
        self.asked.is_empty()
    }

    /// Asks this one.
    pub(crate) fn ask(&mut self, slot: Slot) -> Option<Slot> {
        self.asks = true;
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
        self.allowed.take(self.rate_max, now).is_ok()
    }
}

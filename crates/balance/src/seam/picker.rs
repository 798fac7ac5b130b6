//! What is an algorithm? A [`Picker`]: it chooses among the endpoints of a set by what is known of their loads,
//! and sees every start and end. [`Algorithm`] is its row in the registry.
//!
//! The template to copy for a new one is `algorithms/random.rs`: a row, a table of parameters, a picker, and the
//! explanation of its picks.
//!
//! The rule of ties: an algorithm that finds two endpoints equal gives the request to the one whose turn comes first by
//! weight (`is_due` in `parts/draw.rs`; [`Loads`] keeps the turns). If that is equal too, it takes the one it drew
//! first, as draws follow the weights. It never takes the one that is listed first: at low load nearly all endpoints
//! are idle, so nearly every pick is a tie, and the first would get them all. Nor does chance alone decide: then shares
//! would spread as widely as those of blind draws. `first` and hashes by key are exceptions, as their order is their
//! purpose.

use crate::endpoints::set::{EndpointSet, Member, Slot};
use crate::measurement::loads::Loads;
use crate::measurement::report::LoadReport;
use crate::measurement::request::End;
use crate::seam::explain::Explanation;
use crate::seam::params::{Param, ParamError, Params};
use crate::seam::tried::Tried;
use crate::structures::rng::Rng;
use crate::structures::time::Instant;
use std::fmt;

/// Why no endpoint was picked. Only `AllFull` and `Unchecked` may wait in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPick {
    /// The pool has no eligible endpoint.
    Empty,
    /// Each eligible endpoint was tried by this request already.
    AllTried,
    /// Each eligible endpoint that was not tried is at its limit.
    AllFull,
    /// None is eligible yet: first health checks are out, for at most [`crate::health::FIRST_CHECK_NS`].
    Unchecked,
}

impl NoPick {
    /// Whether waiting may help.
    pub fn may_wait(self) -> bool {
        matches!(self, NoPick::AllFull | NoPick::Unchecked)
    }
}

impl fmt::Display for NoPick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoPick::Empty => "no eligible endpoint",
            NoPick::AllTried => "every eligible endpoint was tried",
            NoPick::AllFull => "every eligible endpoint is at its limit",
            NoPick::Unchecked => "no endpoint has been checked yet",
        })
    }
}

impl std::error::Error for NoPick {}

/// Everything one pick may look at.
pub struct PickContext<'a> {
    /// The eligible endpoints.
    pub set: &'a EndpointSet,
    /// What is known of them.
    pub loads: &'a Loads,
    /// The moment of the pick.
    pub now: Instant,
    /// The worker's own generator.
    pub rng: &'a mut Rng,
    /// The hash of what the request is keyed by (client address, header, ...), if the algorithm needs one.
    pub key: Option<u64>,
    /// Endpoints that this request has tried, or this answer names, already.
    pub tried: Tried<'a>,
    /// Filled when the caller asks for an explanation.
    pub trace: Option<&'a mut Explanation>,
}

impl PickContext<'_> {
    /// Whether this endpoint may be picked now: not tried, not full. Eligibility is the set's matter.
    #[inline]
    pub fn admits(&self, member: &Member) -> bool {
        !self.tried.contains(member.slot) && !self.loads.is_full(member)
    }

    /// Why nothing could be picked, after every member was refused.
    #[cold]
    pub fn refusal(&self) -> NoPick {
        if self.set.is_empty() {
            if self.set.awaits_checks() { NoPick::Unchecked } else { NoPick::Empty }
        } else if self.set.members().iter().all(|m| self.tried.contains(m.slot)) {
            NoPick::AllTried
        } else {
            NoPick::AllFull
        }
    }
}

/// Chooses endpoints. One per worker, so `&mut self` and no lock.
pub trait Picker: Send {
    /// Chooses an endpoint of `cx.set` that `cx.admits`. Counts nothing: a choice may be thrown away.
    ///
    /// # Errors
    /// Why no endpoint can be chosen.
    fn choose(&mut self, cx: &mut PickContext<'_>) -> Result<Slot, NoPick>;

    /// The set changed. Called before the first `choose` too.
    fn on_set(&mut self, _set: &EndpointSet, _loads: &Loads, _now: Instant) {}

    /// A request started at `slot`, however that was chosen (sticky, hedge, queue). `loads` counts it already.
    fn on_start(&mut self, _slot: Slot, _loads: &Loads, _now: Instant) {}

    /// A request ended, exactly once per start, cancellations included. `loads` no longer counts it. The slot may
    /// have left the set meanwhile.
    fn on_end(&mut self, _slot: Slot, _end: &End, _loads: &Loads) {}

    /// An endpoint reported its load (in a probe's answer, or in a header on a response).
    fn on_report(&mut self, _slot: Slot, _report: &LoadReport, _now: Instant) {}

    /// The next endpoint to ask for its load, if any. Shells call it after each start until it gives `None`.
    fn poll_probe(&mut self, _cx: &mut PickContext<'_>) -> Option<Slot> {
        None
    }
}

/// What an algorithm cannot work without. A plane that lacks it refuses the algorithm at `check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// A hash key for each request.
    pub key: bool,
    /// Starts and ends of requests, so that in flight is known.
    pub in_flight: bool,
    /// Ends of requests: without them its picks would be blind chance. An algorithm that merely picks better when it
    /// knows how many are in flight does not need them, and serves planes that hand out addresses.
    pub ends: bool,
    /// Latencies at the end of requests.
    pub latency: bool,
    /// Answers to probes.
    pub probes: bool,
}

/// What an algorithm promises. The contract test checks exactly this; the rest (inside the set, never tried, never
/// full, weight 0 gets nothing, every count returns to 0, same seed same picks) holds for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Shares proportional to weights when requests come one at a time, so that all endpoints are idle at each pick.
    pub shares_when_idle: bool,
    /// Shares proportional to weights when requests overlap and take equally long.
    pub shares_when_busy: bool,
    /// Shares proportional to weights whatever the loads are: the algorithm does not look at them.
    pub shares_whatever_the_load: bool,
    /// The same key gets the same endpoint while the set stays and no bound is hit.
    pub affinity: bool,
}

/// Where a picker sits: which of how many workers of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// 0-based.
    pub worker: u32,
    /// At least 1.
    pub workers: u32,
}

impl Default for Seat {
    /// The only worker.
    fn default() -> Seat {
        Seat { worker: 0, workers: 1 }
    }
}

/// Compiles a set to a table of slots, which a plane walks or indexes by hash.
pub type MakeTable = fn(&EndpointSet, &Params) -> Box<[Slot]>;
/// Makes what all workers' pickers share of a set, and leaves it in the set; the last argument is the set before this
/// one.
pub type Prepare = fn(&EndpointSet, &Params, &EndpointSet);
/// Makes the picker of one worker, or says which parameter it refuses.
pub type MakePicker = fn(&Params, Seat) -> Result<Box<dyn Picker>, ParamError>;

/// One row of the registry.
pub struct Algorithm {
    /// Its name in the configuration.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// One sentence for lists.
    pub summary: &'static str,
    /// When to use it, when not, and how it works: the reference page's text, Markdown.
    pub docs: &'static str,
    /// Paper, RFC section or reference implementation.
    pub source: &'static str,
    /// What it cannot work without.
    pub needs: Needs,
    /// Whether it asks endpoints for their load where they can be asked: others never want a probe.
    pub asks: bool,
    /// What it promises.
    pub promises: Promises,
    /// Its parameters.
    pub params: &'static [Param],
    /// For planes that cannot call the picker per request (kernel maps): the slots in table order.
    pub table: Option<MakeTable>,
    /// For what takes long to compute from a set: a pool calls it on its own thread before it publishes the set. A
    /// picker must work without it too, as the set may be from elsewhere.
    pub prepare: Option<Prepare>,
    /// Makes a picker. Checks what ranges alone cannot express.
    pub new: MakePicker,
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

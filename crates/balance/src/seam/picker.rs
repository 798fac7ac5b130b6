//! The interface of an algorithm: a [`Picker`] chooses among the endpoints of a set by their loads, and sees every
//! start and end. [`Algorithm`] is its row in the registry.
//!
//! The template for a new algorithm is `algorithms/random.rs`: a row, a table of parameters, a picker, and the
//! explanation of its picks.
//!
//! Ties: an algorithm that finds two endpoints equal gives the request to the endpoint whose turn comes first by weight
//! (`is_due` in `parts/draw.rs`; [`Loads`] keeps the turns). If that is equal too, it takes the endpoint it drew first,
//! as draws follow the weights. An algorithm must not take the endpoint listed first: at low load nearly all endpoints
//! are idle, so nearly every pick is a tie, and the first would get them all. Chance alone is not enough either, as
//! shares would then spread as widely as blind draws. `first` and hashes by key are exceptions, as their order is
//! their purpose.

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

/// Reason why no endpoint was picked. A request may wait in a queue only after `AllFull` and `Unchecked`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPick {
    /// The pool has no eligible endpoint.
    Empty,
    /// This request has already tried every eligible endpoint.
    AllTried,
    /// Every eligible endpoint that was not tried is at its limit.
    AllFull,
    /// None is eligible yet: first health checks are pending, for at most [`crate::health::FIRST_CHECK_NS`].
    Unchecked,
}

impl NoPick {
    /// True if waiting may help.
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

/// Everything that a pick may look at.
pub struct PickContext<'a> {
    /// Eligible endpoints to choose from.
    pub set: &'a EndpointSet,
    /// Loads of the endpoints, as this worker sees them.
    pub loads: &'a Loads,
    /// Time at which the pick is made.
    pub now: Instant,
    /// Random generator of the worker.
    pub rng: &'a mut Rng,
    /// Hash of the part of the request that serves as key (client address, header, ...), if the algorithm needs one.
    pub key: Option<u64>,
    /// Endpoints that this request has tried, or that this answer already contains.
    pub tried: Tried<'a>,
    /// Explanation to fill in, if the caller asks for it.
    pub trace: Option<&'a mut Explanation>,
}

impl PickContext<'_> {
    /// True if this endpoint may be picked now: not tried, and not full. Eligibility is up to the set.
    #[inline]
    pub fn admits(&self, member: &Member) -> bool {
        !self.tried.contains(member.slot) && !self.loads.is_full(member)
    }

    /// Returns the reason why nothing could be picked, after every member was rejected.
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

/// Chooses endpoints. Each worker has its own, so methods take `&mut self` and need no lock.
pub trait Picker: Send {
    /// Chooses an endpoint of `cx.set` that `cx.admits`. Counts nothing, as the choice may be discarded.
    ///
    /// # Errors
    /// The reason why no endpoint can be chosen.
    fn choose(&mut self, cx: &mut PickContext<'_>) -> Result<Slot, NoPick>;

    /// Handles a new set. Also called before the first `choose`.
    fn on_set(&mut self, _set: &EndpointSet, _loads: &Loads, _now: Instant) {}

    /// Handles the start of a request at `slot`, however that was chosen (sticky, hedge, queue). Already counted in
    /// `loads`.
    fn on_start(&mut self, _slot: Slot, _loads: &Loads, _now: Instant) {}

    /// Handles the end of a request, exactly once per start, cancellations included. No longer counted in `loads`. The
    /// slot may have left the set meanwhile.
    fn on_end(&mut self, _slot: Slot, _end: &End, _loads: &Loads) {}

    /// Handles an endpoint's report of its load (from the answer to a probe, or from a response header).
    fn on_report(&mut self, _slot: Slot, _report: &LoadReport, _now: Instant) {}

    /// Returns the next endpoint to ask for its load; `None` if there is none to ask. Shells call this after each start
    /// until it returns `None`.
    fn poll_probe(&mut self, _cx: &mut PickContext<'_>) -> Option<Slot> {
        None
    }
}

/// Requirements of an algorithm. A plane that cannot meet them refuses the algorithm at `check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// A hash key for each request.
    pub key: bool,
    /// Starts and ends of requests, so that the number in flight is known.
    pub in_flight: bool,
    /// Ends of requests, without which picks would be blind chance. An algorithm that merely picks better if it knows
    /// how many are in flight does not need them, and serves planes that hand out addresses.
    pub ends: bool,
    /// Latencies at the end of requests.
    pub latency: bool,
    /// Answers to probes of endpoints.
    pub probes: bool,
}

/// Promises of an algorithm. The contract test checks exactly these; the rest (inside the set, never tried, never full,
/// weight 0 gets nothing, every count returns to 0, same seed same picks) holds for all algorithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Shares are proportional to weights when requests never overlap, so that all endpoints are idle at each
    /// pick.
    pub shares_when_idle: bool,
    /// Shares are proportional to weights when requests overlap and take equally long.
    pub shares_when_busy: bool,
    /// Shares are proportional to weights at any load, as the algorithm does not look at loads.
    pub shares_whatever_the_load: bool,
    /// Keys keep their endpoint as long as the set stays and no bound is hit.
    pub affinity: bool,
}

impl Promises {
    /// Promises of an algorithm whose shares depend on measurements.
    pub const NONE: Promises =
        Promises { shares_when_idle: false, shares_when_busy: false, shares_whatever_the_load: false, affinity: false };
}

/// Position of a picker among the workers of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Index of the worker, from 0.
    pub worker: u32,
    /// Number of workers; at least 1.
    pub workers: u32,
}

impl Default for Seat {
    /// Returns the seat of the only worker.
    fn default() -> Seat {
        Seat { worker: 0, workers: 1 }
    }
}

/// Compiles a set into a table of slots, which a plane walks or indexes by hash.
pub type MakeTable = fn(&EndpointSet, &Params) -> Box<[Slot]>;
/// Computes the state of a set that the pickers of all workers share, and stores it in the set. The last argument is
/// the previous set.
pub type Prepare = fn(&EndpointSet, &Params, &EndpointSet);
/// Makes the picker of a worker, or returns the parameter that it refuses.
pub type MakePicker = fn(&Params, Seat) -> Result<Box<dyn Picker>, ParamError>;

/// A row of [`algorithms::ALL`](crate::algorithms::ALL).
pub struct Algorithm {
    /// Name in the configuration.
    pub name: &'static str,
    /// Other names with the same meaning.
    pub aliases: &'static [&'static str],
    /// Summary for lists, a sentence.
    pub summary: &'static str,
    /// Text of the reference page in Markdown: when to use it, when not, and how it works.
    pub docs: &'static str,
    /// Paper, RFC section or reference implementation.
    pub source: &'static str,
    /// Requirements, without which it cannot work.
    pub needs: Needs,
    /// True if it asks endpoints for their load where that is possible. Others never want a probe.
    pub asks: bool,
    /// Promises that the contract test checks.
    pub promises: Promises,
    /// Table of its parameters, in the order of the docs.
    pub params: &'static [Param],
    /// Makes the slots in table order, for planes that cannot call the picker per request (kernel maps).
    pub table: Option<MakeTable>,
    /// Computes the slow part from a set: a pool calls it on its own thread before it publishes the set. A picker
    /// must work without it too, as the set may come from elsewhere.
    pub prepare: Option<Prepare>,
    /// Makes a picker. Checks conditions that ranges alone cannot express.
    pub new: MakePicker,
}

impl Algorithm {
    /// True if an endpoint gets more with a higher weight. Others follow a fixed order: they promise no shares, and learn
    /// nothing about endpoints.
    pub fn follows_weights(&self) -> bool {
        let Promises { shares_when_idle, shares_when_busy, shares_whatever_the_load, .. } = self.promises;
        shares_when_idle || shares_when_busy || shares_whatever_the_load || self.needs.latency || self.needs.probes
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

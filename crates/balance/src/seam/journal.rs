//! Journals of picks. A `Journal` has a line for each event that went into a balancer and for each pick that came
//! out, in order, since the balancer's start. That is all a pick depends on, so [`crate::replay`] arrives at the same
//! picks.
//!
//! The lines of version 1 are as follows. Times and durations are nanoseconds, ids and keys hexadecimal, and `-` means
//! none.
//!
//! ```text
//! evenkeel-journal 1 ALGORITHM WORKER WORKERS SEED [PARAM=VALUE]*   a new balancer; starts a journal
//! set NOW SLOTS PANIC [MEMBER]* [out [OUT]*] [overflow [MEMBER]*]* [draining [MEMBER]*]
//!                                        a new set, its overflow sets, and endpoints that keep their sessions
//!     MEMBER = SLOT:ID:WEIGHT:LIMIT:RAMP:TRIAL[:TIER]    OUT = SLOT:ID:WHY
//! pick NOW WAY KEY TRIED TOTAL PICKED    TRIED = SLOT[,SLOT]*[,beyond]; TOTAL: requests in flight in the pool before
//!     beyond: the request has to leave the set
//!     WAY = free: none waits | behind: others wait | waited: the request waited in the queue, and it is its turn
//! at NOW WAY SLOT PICKED                 a slot that was chosen otherwise (a session, a hedge)
//! end NOW SLOT HELD LATENCY OUTCOME RETRY_AFTER    HELD: 1 if the request had a place under a limit
//! report NOW SLOT IN_FLIGHT LATENCY STAMP
//! probe NOW PICKED                       the endpoint to ask for its load
//! lost LINES                             number of lines that could not be written here
//! PICKED = a slot, or the reason why there is none
//! ```

use crate::endpoints::set::{EndpointSet, Member, Slot};
use crate::measurement::report::LoadReport;
use crate::measurement::request::{End, Outcome, Request};
use crate::seam::params::{Params, Value};
use crate::seam::picker::{Algorithm, NoPick, Seat};
use crate::structures::time::Instant;
use std::fmt::{self, Write};

/// Version of the line format.
pub(crate) const VERSION: &str = "1";
/// First word of a journal, by which it is recognised.
pub(crate) const HEADER: &str = "evenkeel-journal";

/// The destination of journal lines. A shell implements it, as this crate writes no files.
pub trait Sink: Send {
    /// Adds lines, each with its line end.
    fn add(&mut self, lines: &str);

    /// Writes out buffered lines. Callers do so from time to time, or the last lines of a quiet pool would arrive late.
    fn flush(&mut self) {}
}

/// The journal of a balancer. Its writing functions are cold: a balancer without a journal pays a branch.
pub(crate) struct Journal {
    to: Box<dyn Sink>,
    /// Text not yet in `to`. Between two events this is at most the header, so a balancer that is never used writes
    /// none.
    text: String,
}

/// Relation of a pick to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// No request waits in the queue.
    Free,
    /// Others wait, so endpoints with a limit count as full.
    Behind,
    /// The request waited, and it is its turn.
    Waited,
}

impl Way {
    pub(crate) const ALL: [(Way, &'static str); 3] =
        [(Way::Free, "free"), (Way::Behind, "behind"), (Way::Waited, "waited")];
}

/// Names of refusals in the journal.
pub(crate) const REFUSALS: [(NoPick, &str); 4] = [
    (NoPick::Empty, "empty"),
    (NoPick::AllTried, "all_tried"),
    (NoPick::AllFull, "all_full"),
    (NoPick::Unchecked, "unchecked"),
];

impl Journal {
    pub(crate) fn new(to: Box<dyn Sink>, algorithm: &Algorithm, params: &Params, seat: Seat, seed: u64) -> Journal {
        let Seat { worker, workers } = seat;
        let mut text = format!("{HEADER} {VERSION} {} {worker} {workers} {seed:x}", algorithm.name);
        for (name, value) in params.values() {
            match value {
                Value::Int(n) | Value::Duration(n) => put(&mut text, format_args!(" {name}={n}")),
                Value::Float(x) => put(&mut text, format_args!(" {name}={x}")),
                // Pickers get the key already hashed.
                Value::Text(_) => {}
            }
        }
        text.push('\n');
        Journal { to, text }
    }

    /// Records that the balancer switched to a set.
    #[cold]
    pub(crate) fn set(&mut self, set: &EndpointSet, now: Instant) {
        put(&mut self.text, format_args!("set {} {} {}", now.0, set.slots(), u32::from(set.in_panic())));
        self.members(set.members());
        if !set.excluded().is_empty() {
            self.text.push_str(" out");
        }
        for (slot, id, why) in set.excluded() {
            put(&mut self.text, format_args!(" {}:{:x}:{why:?}", slot.0, id.0));
        }
        for overflow in set.overflow() {
            self.text.push_str(" overflow");
            self.members(overflow.members());
        }
        if !set.draining().is_empty() {
            self.text.push_str(" draining");
            self.members(set.draining());
        }
        self.write(format_args!(""));
    }

    fn members(&mut self, members: &[Member]) {
        for &Member { slot, id, weight, in_flight_max, ramp, trial, tier } in members {
            put(&mut self.text, format_args!(" {}:{:x}:{weight}:{in_flight_max}:{ramp}:{trial}", slot.0, id.0));
            if tier != 0 {
                put(&mut self.text, format_args!(":{tier}"));
            }
        }
    }

    /// Records a pick. `total`: requests in flight in the pool before it.
    #[cold]
    pub(crate) fn pick(
        &mut self,
        request: &Request<'_>,
        way: Way,
        total: u32,
        picked: Result<Slot, NoPick>,
        now: Instant,
    ) {
        put(&mut self.text, format_args!("pick {} {way} ", now.0));
        match request.key {
            Some(key) => put(&mut self.text, format_args!("{key:x}")),
            None => self.text.push('-'),
        }
        if request.tried.is_empty() {
            self.text.push_str(" -");
        }
        for (i, slot) in request.tried.iter().enumerate() {
            put(&mut self.text, format_args!("{}{}", if i == 0 { ' ' } else { ',' }, slot.0));
        }
        if request.beyond && !request.tried.is_empty() {
            self.text.push_str(",beyond");
        }
        self.write(format_args!(" {total} {}", Picked(picked)));
    }

    /// Records a start at an endpoint that the algorithm did not choose.
    #[cold]
    pub(crate) fn at(&mut self, slot: Slot, way: Way, picked: Result<Slot, NoPick>, now: Instant) {
        self.write(format_args!("at {} {way} {} {}", now.0, slot.0, Picked(picked)));
    }

    /// Records the end of a request. `held`: it had a place under a limit.
    #[cold]
    pub(crate) fn end(&mut self, slot: Slot, held: bool, end: &End) {
        let (outcome, retry_after) = match end.outcome {
            Outcome::Success => ("success", None),
            Outcome::Cancelled => ("cancelled", None),
            Outcome::Failure { kind, retry_after_ns } => (kind.name(), retry_after_ns),
        };
        let End { latency_ns, now, .. } = end;
        let held = u32::from(held);
        match retry_after {
            None => self.write(format_args!("end {} {} {held} {latency_ns} {outcome} -", now.0, slot.0)),
            Some(ns) => self.write(format_args!("end {} {} {held} {latency_ns} {outcome} {ns}", now.0, slot.0)),
        }
    }

    /// Records an endpoint's report of its load.
    #[cold]
    pub(crate) fn report(&mut self, slot: Slot, report: &LoadReport, now: Instant) {
        let LoadReport { in_flight, latency_ns, stamp } = report;
        self.write(format_args!("report {} {} {in_flight} {latency_ns} {stamp}", now.0, slot.0));
    }

    /// Records the endpoint that the algorithm wants probed, or that it wants none.
    #[cold]
    pub(crate) fn probe(&mut self, slot: Option<Slot>, now: Instant) {
        match slot {
            Some(slot) => self.write(format_args!("probe {} {}", now.0, slot.0)),
            None => self.write(format_args!("probe {} -", now.0)),
        }
    }

    /// Completes the line and passes it to the sink.
    fn write(&mut self, rest: fmt::Arguments<'_>) {
        put(&mut self.text, rest);
        self.text.push('\n');
        self.to.add(&self.text);
        self.text.clear();
    }

    pub(crate) fn flush(&mut self) {
        self.to.flush();
    }
}

fn put(text: &mut String, what: fmt::Arguments<'_>) {
    text.write_fmt(what).expect("writing to a String never fails");
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(named(&Way::ALL, *self))
    }
}

/// A slot, or the name of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Picked(pub(crate) Result<Slot, NoPick>);

impl fmt::Display for Picked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ok(slot) => write!(f, "{}", slot.0),
            Err(why) => f.write_str(named(&REFUSALS, why)),
        }
    }
}

fn named<T: PartialEq>(names: &'static [(T, &'static str)], value: T) -> &'static str {
    names.iter().find(|(v, _)| *v == value).map_or("", |(_, name)| name)
}

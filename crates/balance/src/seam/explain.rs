//! Explanations of picks. An [`Explanation`] is filled only if the caller asks for it; otherwise it costs a branch.
//! An explanation records the comparison, so that [`By::decide`] finds the same endpoint from it alone.

mod by;

use crate::endpoints::endpoint::EndpointId;
use crate::endpoints::set::{EndpointSet, Exclusion, Member, Slot};
use crate::measurement::loads::Loads;
use crate::seam::tried::Tried;
use std::fmt;

pub use by::By;

/// Most candidates that are listed when they were not compared individually.
pub(crate) const EXPLAINED_MAX: usize = 16;

/// Most excluded endpoints that are listed.
const EXCLUDED_MAX: usize = 256;

/// Virtual time in which an endpoint gets as many turns as its weight.
const ROUND: f64 = 4_294_967_296.0;

/// The reasons of a pick, or of a refusal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// Endpoints that were compared, in the order in which they were looked at.
    pub candidates: Vec<Candidate>,
    /// Number of further candidates, all of which come after those listed.
    pub unlisted: usize,
    /// Endpoints that could not be picked, with the reason.
    pub excluded: Vec<(Slot, EndpointId, Exclusion)>,
    /// Number of further endpoints that could not be picked.
    pub excluded_more: usize,
    /// Rule that decided among the candidates.
    pub rule: &'static str,
    /// Rule in a form that [`By::decide`] follows.
    pub by: By,
    /// Set of the candidates: 0 for the first, then the overflow sets, such as other zones and tiers, in order.
    pub level: usize,
    /// Hash of the part of the request that serves as key, if the pool has a key.
    pub key: Option<u64>,
    /// Requests in flight in the pool before this request.
    pub in_flight_total: u32,
    /// True if so few endpoints are healthy that the pool is in panic.
    pub in_panic: bool,
    /// Share of requests whose endpoint is drawn uniformly instead of picked; 0 if exploration is off.
    pub explored_share: f64,
    /// Slot that was picked; `None` if none was.
    pub picked: Option<Slot>,
}

/// An endpoint that was compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Slot of the endpoint in its pool.
    pub slot: Slot,
    /// Identity of the endpoint.
    pub id: EndpointId,
    /// Requests in flight at the endpoint.
    pub in_flight: u32,
    /// Weight in the set. While endpoints ramp or zones spill, all weights are scaled by a common factor.
    pub weight: u32,
    /// Number that the algorithm compared, lower is better; `None` if that is just the requests in flight per weight.
    pub score: Option<f64>,
    /// Lead of its picks over its share, in rounds of turns: of two equal endpoints, the endpoint with the smaller lead
    /// is due.
    pub ahead: f64,
    /// Load that the algorithm uses; `None` if that is just the requests in flight here.
    pub load: Option<f64>,
    /// Parts of `load`, for an algorithm that adds up counts from several sources.
    pub parts: Option<LoadParts>,
    /// Latency that the endpoint reported; 0 for none.
    pub latency_ns: u64,
    /// Class of its weight and its place in that class, for an algorithm that keeps endpoints in order.
    pub place: Option<(u32, u32)>,
}

/// Requests in flight at an endpoint, by the source of the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadParts {
    /// Requests of the worker that picks; exact.
    pub here: u32,
    /// Requests of other workers of this process, as last read.
    pub siblings: u32,
    /// Requests of other balancers, by the endpoint's reports, or the usual number if it has not reported lately;
    /// `None` if no endpoint of the pool reports.
    pub others: Option<u32>,
}

impl fmt::Display for LoadParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by this worker, {} by others", self.here, self.siblings)?;
        self.others.map_or(Ok(()), |others| write!(f, ", {others} by other balancers"))
    }
}

impl Explanation {
    pub(crate) fn begin(&mut self, set: &EndpointSet, loads: &Loads, key: Option<u64>, tried: &[Slot]) {
        let excluded = set.excluded();
        *self = Explanation {
            excluded: excluded.iter().take(EXCLUDED_MAX).copied().collect(),
            excluded_more: excluded.len().saturating_sub(EXCLUDED_MAX),
            key,
            in_flight_total: loads.in_flight_total(),
            in_panic: set.in_panic(),
            ..Explanation::default()
        };
        self.exclude(set, loads, tried);
    }

    /// Continues with `set`, as the previous set had nothing left for the request.
    pub(crate) fn go_on(&mut self, set: &EndpointSet, loads: &Loads, tried: &[Slot], level: usize) {
        self.level = level;
        self.again();
        self.excluded.retain(|(slot, ..)| set.get(*slot).is_none());
        self.exclude(set, loads, tried);
    }

    /// Restarts the choice, as the comparison so far led nowhere.
    pub(crate) fn again(&mut self) {
        (self.rule, self.by, self.unlisted) = ("", By::default(), 0);
        self.candidates.clear();
    }

    fn exclude(&mut self, set: &EndpointSet, loads: &Loads, tried: &[Slot]) {
        let tried = Tried::List(tried);
        for m in set.members() {
            let why = match () {
                () if tried.contains(m.slot) => Exclusion::Tried,
                () if loads.is_full(m) => Exclusion::Full,
                () => continue,
            };
            if self.excluded.len() < EXCLUDED_MAX {
                self.excluded.push((m.slot, m.id, why));
            } else {
                self.excluded_more += 1;
            }
        }
    }

    /// Adds a candidate. Called by pickers.
    pub fn candidate(&mut self, member: &Member, loads: &Loads, score: Option<f64>) {
        let Member { slot, id, weight, .. } = *member;
        let (in_flight, ahead) = (loads.in_flight(slot), loads.ahead(slot) as f64 / ROUND);
        self.candidates.push(Candidate {
            slot,
            id,
            in_flight,
            weight,
            score,
            ahead,
            load: None,
            parts: None,
            latency_ns: 0,
            place: None,
        });
    }

    /// Adds the first of many candidates, best first, and counts the others.
    pub(crate) fn list<'m>(
        &mut self,
        members: impl ExactSizeIterator<Item = &'m Member>,
        mut add: impl FnMut(&mut Explanation, &'m Member),
    ) {
        self.unlisted = members.len().saturating_sub(EXPLAINED_MAX);
        members.take(EXPLAINED_MAX).for_each(|m| add(self, m));
    }

    /// Sets the load and the latency that the algorithm uses for the last candidate.
    pub(crate) fn told(&mut self, load: f64, latency_ns: u64) {
        if let Some(last) = self.candidates.last_mut() {
            (last.load, last.latency_ns) = (Some(load), latency_ns);
        }
    }

    /// Sets the parts of the last candidate's load.
    pub(crate) fn counted(&mut self, parts: LoadParts) {
        if let Some(last) = self.candidates.last_mut() {
            last.parts = Some(parts);
        }
    }

    /// Sets the class of the last candidate, and its place in that class.
    pub(crate) fn placed(&mut self, class: u32, place: u32) {
        if let Some(last) = self.candidates.last_mut() {
            last.place = Some((class, place));
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in flight, weight {}", self.in_flight, self.weight)?;
        if let Some(load) = self.load.filter(|load| *load != f64::from(self.in_flight)) {
            write!(f, ", counted as {load}")?;
        }
        if let Some(parts) = self.parts {
            write!(f, " ({parts})")?;
        }
        if self.latency_ns != 0 {
            write!(f, ", answered {:.3} ms", self.latency_ns as f64 / 1e6)?;
        }
        if let Some(score) = self.score {
            write!(f, ", score {score}")?;
        }
        write!(f, ", ahead by {:.3}", self.ahead)
    }
}

/// Prints slots and ids, as only the shell knows names.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.picked {
            Some(slot) => writeln!(f, "picked slot {}: {}", slot.0, self.rule)?,
            None => writeln!(f, "picked none")?,
        }
        writeln!(f, "{}", self.by)?;
        write!(f, "{} in flight in the pool", self.in_flight_total)?;
        if let Some(key) = self.key {
            write!(f, ", key {key:x}")?;
        }
        if self.level > 0 {
            write!(f, ", from overflow {}", self.level)?;
        }
        f.write_str(if self.in_panic { ", in panic\n" } else { "\n" })?;
        if self.explored_share > 0.0 {
            writeln!(f, "explores a share of {} of all requests", self.explored_share)?;
        }
        for c in &self.candidates {
            writeln!(f, "  compared slot {} (endpoint {:x}): {c}", c.slot.0, c.id.0)?;
        }
        if self.unlisted > 0 {
            writeln!(f, "  and {} behind them", self.unlisted)?;
        }
        for (slot, id, why) in &self.excluded {
            writeln!(f, "  left out slot {} (endpoint {:x}): {why}", slot.0, id.0)?;
        }
        if self.excluded_more > 0 {
            writeln!(f, "  and {} more", self.excluded_more)?;
        }
        Ok(())
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Exclusion::WeightZero => "weight 0",
            Exclusion::Draining => "draining",
            Exclusion::Unresolved => "without an address: the name does not resolve",
            Exclusion::Unhealthy => "unhealthy",
            Exclusion::Unchecked => "not checked yet",
            Exclusion::Ejected => "ejected",
            Exclusion::LowerPriority => "a tier of higher priority is up",
            Exclusion::OtherZone => "in another zone",
            Exclusion::Panic => "held back: too few are healthy",
            Exclusion::Tried => "already tried",
            Exclusion::Full => "at its limit",
        })
    }
}

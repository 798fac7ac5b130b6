//! Eligibility: folds weight, drain, health, ejection, slow start, zone, tier and panic into an endpoint set.

use crate::endpoints::endpoint::{EndpointId, EndpointSpec};
use crate::endpoints::set::{EndpointSet, Exclusion, Member, Slot};
use crate::machines::slow_start;

/// Behaviour of a pool of which few endpoints are healthy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Panic {
    /// Share of healthy endpoints below which the pool panics, 0 to 1; 0 = never.
    pub healthy_below: f64,
    /// Response of the pool to panic.
    pub mode: PanicMode,
}

/// Behaviour of a pool in panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanicMode {
    /// Uses all endpoints, healthy or not: the few healthy endpoints would go down under the load of all.
    UseAll,
    /// Refuses requests with 503.
    Refuse,
}

impl Default for Panic {
    /// Envoy's threshold of 50 %.
    fn default() -> Panic {
        Panic { healthy_below: 0.5, mode: PanicMode::UseAll }
    }
}

/// Preference for endpoints of the own zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Locality {
    /// Hash of the own zone's name ([`crate::endpoint::stable_hash`]).
    pub zone: u64,
    /// Share of the own zone's weight that must be healthy for it to get all requests; above 0, at most 1. Below it,
    /// the rest of the load spills over to the other zones in proportion.
    pub spill_at: f64,
}

/// A configured endpoint, with the control side's knowledge of it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Slot of the endpoint in its pool.
    pub slot: Slot,
    /// Configuration of the endpoint.
    pub spec: &'a EndpointSpec,
    /// Result of its health checks and of its requests.
    pub standing: Standing,
    /// Part of its weight that slow start allows, of [`slow_start::FULL`].
    pub ramp: u16,
    /// Most requests in flight at once: the smaller of the configured and the adaptive limit; 0 for no limit.
    pub in_flight_max: u32,
}

/// Usability of an endpoint, as its checks and requests show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Usable without restriction.
    Fit,
    /// Usable for a single request at a time: the trial of this number, after an ejection.
    Trial(u16),
    /// Not usable before the result of its first health check.
    Unchecked,
    /// Not usable: health checks fail.
    Unhealthy,
    /// Not usable: too many of its requests failed or were slow.
    Ejected,
}

/// Rules that decide which fit endpoints are used, and when unfit endpoints are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rules {
    /// Behaviour when few endpoints are fit.
    pub panic: Panic,
    /// Preference for the own zone; `None` if zones do not matter.
    pub locality: Option<Locality>,
}

/// Bound of the heaviest weight when weights are scaled by a common factor, so that shares by turns stay exact to a
/// thousandth.
const SCALED_MAX: f64 = 65_536.0;

impl Candidate<'_> {
    /// Returns a candidate without any known fault.
    pub fn fit(slot: Slot, spec: &EndpointSpec) -> Candidate<'_> {
        let in_flight_max = spec.in_flight_max;
        Candidate { slot, spec, standing: Standing::Fit, ramp: slow_start::FULL, in_flight_max }
    }

    /// True if the configuration wants the endpoint used.
    fn counts(&self) -> bool {
        self.spec.counts()
    }

    /// True if the endpoint may get requests, even if only a single request at a time.
    fn serves(&self) -> bool {
        self.counts() && matches!(self.standing, Standing::Fit | Standing::Trial(_))
    }

    /// True if the endpoint drains and would otherwise serve, so that its sessions may stay.
    fn keeps_sessions(&self) -> bool {
        let EndpointSpec { drain, keeps_sessions, weight, unresolved, .. } = *self.spec;
        drain
            && keeps_sessions
            && weight > 0
            && !unresolved
            && matches!(self.standing, Standing::Fit | Standing::Trial(_))
    }

    fn is_fit(&self) -> bool {
        self.counts() && self.standing == Standing::Fit
    }

    /// Reason why the endpoint is not in the set; `unused` if it could be.
    fn exclusion(&self, unused: Exclusion) -> (Slot, EndpointId, Exclusion) {
        let why = match self.standing {
            _ if self.spec.drain => Exclusion::Draining,
            _ if self.spec.weight == 0 => Exclusion::WeightZero,
            _ if self.spec.unresolved => Exclusion::Unresolved,
            Standing::Unhealthy => Exclusion::Unhealthy,
            Standing::Unchecked => Exclusion::Unchecked,
            Standing::Ejected => Exclusion::Ejected,
            Standing::Fit | Standing::Trial(_) => unused,
        };
        (self.slot, self.spec.id, why)
    }
}

/// Folds everything known about the endpoints into the set that workers pick from. Keeps their order.
///
/// The set has the first tier with fit endpoints, and enough of them not to panic, together with the fit endpoints of
/// the tiers above it. While nothing is known of a tier yet, the pool waits for it: a standby must not serve just
/// because its check was the first to finish. If no tier has enough fit endpoints the pool panics, unless pending first
/// checks may still change that. Usable endpoints that are left out, in other zones and lower tiers, serve
/// requests that have tried all of the set or find it full.
pub fn fold(candidates: &[Candidate<'_>], rules: &Rules) -> EndpointSet {
    let draining: Vec<&Candidate<'_>> = candidates.iter().filter(|c| c.keeps_sessions()).collect();
    picked_from(candidates, rules).with_draining(members(&draining, &Near::ALL))
}

fn picked_from(candidates: &[Candidate<'_>], rules: &Rules) -> EndpointSet {
    let slots = candidates.iter().map(|c| c.slot.index() + 1).max().unwrap_or(0);
    let mut tiers: Vec<u8> = candidates.iter().filter(|c| c.counts()).map(|c| c.spec.priority).collect();
    tiers.sort_unstable();
    tiers.dedup();
    let counted: Vec<Tier> = tiers.iter().map(|&t| Tier::count(candidates, t)).collect();
    let holds = counted.iter().position(|t| (t.fit > 0 || t.is_unknown()) && t.is_enough(&rules.panic));
    let may_hold = counted.iter().any(|t| t.unchecked > 0 && t.is_enough(&rules.panic));
    if holds.is_none() && !may_hold && !tiers.is_empty() && rules.panic.healthy_below > 0.0 {
        return panicking(candidates, rules.panic.mode, slots);
    }
    let lowest = holds.or(tiers.len().checked_sub(1)).map(|at| tiers[at]);
    let (used, unused): (Vec<&Candidate<'_>>, Vec<&Candidate<'_>>) =
        candidates.iter().filter(|c| c.serves()).partition(|c| Some(c.spec.priority) <= lowest);
    let near = Near::new(candidates, &used, lowest, rules.locality);
    let (here, elsewhere): (Vec<&Candidate<'_>>, Vec<_>) = used.into_iter().partition(|c| near.uses(c));

    let mut in_set = vec![false; slots];
    here.iter().for_each(|c| in_set[c.slot.index()] = true);
    let leaves_out = |c: &Candidate<'_>| {
        let zone = c.serves() && Some(c.spec.priority) <= lowest;
        c.exclusion(if zone { Exclusion::OtherZone } else { Exclusion::LowerPriority })
    };
    let excluded = candidates.iter().filter(|c| !in_set[c.slot.index()]).map(leaves_out).collect();
    let below = tiers.iter().map(|&t| unused.iter().filter(|c| c.spec.priority == t).copied().collect::<Vec<_>>());
    let groups = std::iter::once(elsewhere).chain(below).filter(|group| !group.is_empty());
    let overflow = groups.map(|group| EndpointSet::of(members(&group, &Near::ALL), Vec::new(), slots)).collect();
    EndpointSet::of(members(&here, &near), excluded, slots).with_overflow(overflow)
}

impl EndpointSet {
    /// Returns the set of these endpoints, all healthy, each with its slot. Keeps their order.
    pub fn new(specs: &[(Slot, EndpointSpec)]) -> EndpointSet {
        let candidates: Vec<_> = specs.iter().map(|(slot, spec)| Candidate::fit(*slot, spec)).collect();
        fold(&candidates, &Rules::default())
    }
}

/// Endpoint counts of a priority tier.
struct Tier {
    /// Endpoints that the configuration wants used.
    counts: usize,
    fit: usize,
    unchecked: usize,
}

impl Tier {
    fn count(candidates: &[Candidate<'_>], tier: u8) -> Tier {
        let of = |standing: fn(&Candidate<'_>) -> bool| {
            candidates.iter().filter(|c| c.counts() && c.spec.priority == tier && standing(c)).count()
        };
        let unchecked = of(|c| c.standing == Standing::Unchecked);
        Tier { counts: of(|_| true), fit: of(|c| c.is_fit()), unchecked }
    }

    /// True if all of its first checks are still pending.
    fn is_unknown(&self) -> bool {
        self.unchecked == self.counts
    }

    /// True if the tier has, or may still have after its first checks, the share of fit endpoints that avoids panic.
    fn is_enough(&self, panic: &Panic) -> bool {
        (self.fit + self.unchecked) as f64 >= panic.healthy_below * self.counts as f64
    }
}

fn panicking(candidates: &[Candidate<'_>], mode: PanicMode, slots: usize) -> EndpointSet {
    let uses = |c: &&Candidate<'_>| mode == PanicMode::UseAll && c.counts();
    let member = |c: &Candidate<'_>| {
        // Without ramps and trial limits, as every endpoint that works is needed. The outcome of a trial still counts.
        let trial = if let Standing::Trial(number) = c.standing { number } else { 0 };
        let (in_flight_max, tier) = (c.in_flight_max, c.spec.priority);
        Member {
            slot: c.slot,
            id: c.spec.id,
            weight: c.spec.weight,
            in_flight_max,
            ramp: slow_start::FULL,
            trial,
            tier,
        }
    };
    let members = candidates.iter().filter(uses).map(member).collect();
    let excluded = candidates.iter().filter(|c| !uses(c)).map(|c| c.exclusion(Exclusion::Panic)).collect();
    EndpointSet::of(members, excluded, slots).panicking()
}

/// Returns the members with integer weights: as configured, or, if slow start or zones take parts of them, all
/// multiplied by a common factor.
fn members(used: &[&Candidate<'_>], near: &Near) -> Vec<Member> {
    let plain = near.is_even() && used.iter().all(|c| c.ramp == slow_start::FULL);
    let whole = |c: &Candidate<'_>| f64::from(c.spec.weight) * near.part(c);
    let heaviest = used.iter().map(|c| whole(c)).fold(1.0, f64::max);
    let factor = (SCALED_MAX / heaviest).min(f64::from(slow_start::FULL)) / f64::from(slow_start::FULL);
    let member = |c: &&Candidate<'_>| {
        let (trial, in_flight_max) = match c.standing {
            Standing::Trial(number) => (number, 1),
            _ => (0, c.in_flight_max),
        };
        let weight =
            if plain { c.spec.weight } else { (whole(c) * f64::from(c.ramp) * factor).round().max(1.0) as u32 };
        Member { slot: c.slot, id: c.spec.id, weight, in_flight_max, ramp: c.ramp, trial, tier: c.spec.priority }
    };
    used.iter().map(member).collect()
}

/// Split of the load between the own zone and the others.
#[derive(Clone, Copy)]
struct Near {
    zone: Option<u64>,
    /// Factors for each weight of the own zone, and for each of the others.
    parts: (f64, f64),
}

impl Near {
    /// All zones alike, by weight alone.
    const ALL: Near = Near { zone: None, parts: (1.0, 1.0) };

    /// Gives everything to the own zone while `spill_at` of its weight is healthy. Below that it gets the share that is
    /// healthy, and the others get the rest. Slow start has no effect here: an endpoint that ramps is healthy.
    fn new(candidates: &[Candidate<'_>], used: &[&Candidate<'_>], lowest: Option<u8>, rule: Option<Locality>) -> Near {
        let Some(Locality { zone, spill_at }) = rule else { return Near::ALL };
        let weight = |c: &Candidate<'_>| f64::from(c.spec.weight);
        let own = |c: &Candidate<'_>| c.spec.zone == Some(zone);
        let of_tiers = |c: &&Candidate<'_>| c.counts() && own(c) && Some(c.spec.priority) <= lowest;
        let configured: f64 = candidates.iter().filter(of_tiers).map(weight).sum();
        let sum = |near: bool| used.iter().filter(|c| c.is_fit() && own(c) == near).map(|c| weight(c)).sum::<f64>();
        let (near, far) = (sum(true), sum(false));
        if configured == 0.0 || near == 0.0 || far == 0.0 {
            return Near::ALL; // no usable endpoint in the own zone, or none outside
        }
        let share = near / (spill_at * configured);
        let parts =
            if share >= 1.0 { (1.0, 0.0) } else { (share * (near + far) / near, (1.0 - share) * (near + far) / far) };
        Near { zone: Some(zone), parts }
    }

    fn part(&self, c: &Candidate<'_>) -> f64 {
        if self.zone.is_none() || c.spec.zone == self.zone { self.parts.0 } else { self.parts.1 }
    }

    fn uses(&self, c: &Candidate<'_>) -> bool {
        self.part(c) > 0.0
    }

    /// True if members of the set keep their weights.
    fn is_even(&self) -> bool {
        self.parts.0 == 1.0 && [0.0, 1.0].contains(&self.parts.1)
    }
}

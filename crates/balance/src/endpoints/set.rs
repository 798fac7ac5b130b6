//! The immutable set of endpoints that may get a request now. Control code folds weights, health and priority into it
//! once ([`crate::eligible`]), so that no algorithm ever asks if an endpoint is up.

use crate::endpoints::endpoint::EndpointId;
use crate::machines::slow_start;
use crate::structures::rng::Rng;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// An endpoint's number in its pool: stable while the endpoint stays, and reused only after its last ticket has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub(crate) u32);

impl Slot {
    /// Index into arrays that are kept alongside a pool.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An eligible endpoint of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Number of the endpoint in its pool.
    pub slot: Slot,
    /// Identity of the endpoint.
    pub id: EndpointId,
    /// Weight in this set; at least 1.
    pub weight: u32,
    /// Most requests in flight at once; 0 for no limit.
    pub in_flight_max: u32,
    /// Part of its weight that slow start allows, of [`slow_start::FULL`]. Already applied to `weight`.
    pub ramp: u16,
    /// Number of its trial while it is on probation after an ejection; otherwise 0.
    pub trial: u16,
    /// Priority tier. A set may contain the rest of a tier and the next tier.
    pub tier: u8,
}

/// Reason why an endpoint cannot be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// The endpoint has weight 0.
    WeightZero,
    /// The configuration drains the endpoint.
    Draining,
    /// Its name has no address yet.
    Unresolved,
    /// Health checks of the endpoint fail.
    Unhealthy,
    /// Its first health check is pending.
    Unchecked,
    /// Too many of its requests failed or were slow.
    Ejected,
    /// A tier of higher priority has eligible endpoints.
    LowerPriority,
    /// The own zone has enough healthy endpoints.
    OtherZone,
    /// Few endpoints of the pool are healthy, and it refuses requests rather than overload those.
    Panic,
    /// The request has tried the endpoint.
    Tried,
    /// The endpoint is at its limit of requests in flight.
    Full,
}

impl Exclusion {
    /// Reasons for which an endpoint is outside the set for every request.
    pub const STANDING: [Exclusion; 9] = [
        Exclusion::Draining,
        Exclusion::WeightZero,
        Exclusion::Unresolved,
        Exclusion::Unhealthy,
        Exclusion::Unchecked,
        Exclusion::Ejected,
        Exclusion::LowerPriority,
        Exclusion::OtherZone,
        Exclusion::Panic,
    ];
}

/// The eligible endpoints of a pool at a moment, prepared for weighted draws.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointSet {
    members: Box<[Member]>,
    position: Box<[u32]>,
    excluded: Box<[(Slot, EndpointId, Exclusion)]>,
    weight_total: u64,
    draws: Draws,
    /// Draws by the weights without slow start; `None` if no member ramps.
    unramped: Option<Draws>,
    overflow: Box<[EndpointSet]>,
    /// Draining endpoints, for requests of their sessions.
    draining: Box<[Member]>,
    in_panic: bool,
    prepared: Prepared,
}

/// State that an algorithm computed from a set for all workers. Ignored when sets are compared.
#[derive(Clone, Default)]
struct Prepared(OnceLock<Arc<dyn Any + Send + Sync>>);

impl PartialEq for Prepared {
    fn eq(&self, _: &Prepared) -> bool {
        true
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "made" } else { "not made" })
    }
}

/// Walker's alias table (Vose's construction) of indices by weight; empty if all weights are equal.
#[derive(Clone, Debug, Default, PartialEq)]
struct Draws(Box<[Alias]>);

/// A column of the table: its own index is drawn if a uniform 32-bit number is below `keep`, else `other`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Alias {
    keep: u32,
    other: u32,
}

const ABSENT: u32 = u32::MAX;

impl EndpointSet {
    /// Returns the set of these members, with [`slots`](Self::slots) of `slots`.
    pub(crate) fn of(members: Vec<Member>, excluded: Vec<(Slot, EndpointId, Exclusion)>, slots: usize) -> EndpointSet {
        let mut position = vec![ABSENT; slots];
        for (i, m) in members.iter().enumerate() {
            position[m.slot.index()] = i as u32;
        }
        let ramps = members.iter().any(|m| m.ramp < slow_start::FULL);
        let unramped = |m: &Member| f64::from(m.weight) / f64::from(m.ramp);
        EndpointSet {
            position: position.into(),
            excluded: excluded.into(),
            weight_total: members.iter().map(|m| u64::from(m.weight)).sum(),
            draws: Draws::new(members.iter().map(|m| f64::from(m.weight))),
            unramped: ramps.then(|| Draws::new(members.iter().map(unramped))),
            members: members.into(),
            overflow: Box::default(),
            draining: Box::default(),
            in_panic: false,
            prepared: Prepared::default(),
        }
    }

    /// Adds the sets to try in turn when no endpoint of this set is left for a request.
    pub(crate) fn with_overflow(self, overflow: Vec<EndpointSet>) -> EndpointSet {
        EndpointSet { overflow: overflow.into(), ..self }
    }

    /// Adds the endpoints that drain and keep their sessions.
    pub(crate) fn with_draining(self, draining: Vec<Member>) -> EndpointSet {
        EndpointSet { draining: draining.into(), ..self }
    }

    /// Marks the set as the set of a pool in panic.
    pub(crate) fn panicking(self) -> EndpointSet {
        EndpointSet { in_panic: true, ..self }
    }

    /// Returns the part of the set whose slots `keeps` accepts, without overflow sets.
    pub(crate) fn part(&self, keeps: impl Fn(Slot) -> bool) -> EndpointSet {
        let members = self.members.iter().filter(|m| keeps(m.slot)).copied().collect();
        let excluded = self.excluded.iter().filter(|(slot, ..)| keeps(*slot)).copied().collect();
        EndpointSet::of(members, excluded, self.slots())
    }

    /// Eligible endpoints, in the order of the configuration.
    #[inline]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Number of eligible endpoints.
    #[inline]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True if no endpoint is eligible.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Endpoints that are configured but not eligible, with the reason.
    pub fn excluded(&self) -> &[(Slot, EndpointId, Exclusion)] {
        &self.excluded
    }

    /// Sets for requests that have tried all of this set or find the rest of it full, in the order to try them: other
    /// zones, then tiers of lower priority.
    #[inline]
    pub fn overflow(&self) -> &[EndpointSet] {
        &self.overflow
    }

    /// Draining endpoints. No pick returns them, but requests of their sessions still go there.
    pub fn draining(&self) -> &[Member] {
        &self.draining
    }

    /// Returns the endpoint at this slot if a session of it may use it.
    pub fn for_session(&self, slot: Slot) -> Option<&Member> {
        self.get(slot).or_else(|| self.draining.iter().find(|member| member.slot == slot))
    }

    /// True if so few endpoints are healthy that the pool is in panic.
    pub fn in_panic(&self) -> bool {
        self.in_panic
    }

    /// True if endpoints are left out only until their first health check.
    pub fn awaits_checks(&self) -> bool {
        self.excluded.iter().any(|(_, _, why)| *why == Exclusion::Unchecked)
    }

    /// Length of arrays indexed by slot: the highest slot plus 1, eligible or not.
    #[inline]
    pub fn slots(&self) -> usize {
        self.position.len()
    }

    /// Returns the member at this slot; `None` if it is not eligible.
    #[inline]
    pub fn get(&self, slot: Slot) -> Option<&Member> {
        self.members.get(self.position_of(slot)?)
    }

    /// Returns the index of this slot in [`members`](Self::members); `None` if it is not eligible.
    #[inline]
    pub fn position_of(&self, slot: Slot) -> Option<usize> {
        self.position.get(slot.index()).filter(|&&p| p != ABSENT).map(|&p| p as usize)
    }

    /// Sum of the members' weights.
    #[inline]
    pub fn weight_total(&self) -> u64 {
        self.weight_total
    }

    /// True if all weights are equal.
    #[inline]
    pub fn weights_equal(&self) -> bool {
        self.draws.0.is_empty()
    }

    /// True if slow start reduces the weight of a member.
    #[inline]
    pub fn ramps(&self) -> bool {
        self.unramped.is_some()
    }

    /// Draws the index of a random member, each with a probability in proportion to its weight, in O(1). The set must
    /// not be empty.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> usize {
        self.draws.draw(self.members.len(), rng)
    }

    /// Returns the state that an algorithm prepared for all workers; `None` if none did, or if it is not a `T`.
    pub(crate) fn prepared<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.prepared.0.get().cloned()?.downcast().ok()
    }

    /// Computes state that all workers share, unless that was done already. Blocks while another thread computes it, so
    /// picks must not call this.
    pub(crate) fn prepare<T: Any + Send + Sync>(&self, make: impl FnOnce() -> Arc<T>) {
        self.prepared.0.get_or_init(|| make());
    }

    /// Draws as [`draw`](Self::draw) does, by the weights without slow start.
    pub(crate) fn draw_unramped(&self, rng: &mut Rng) -> usize {
        self.unramped.as_ref().unwrap_or(&self.draws).draw(self.members.len(), rng)
    }
}

impl Draws {
    fn new(weights: impl ExactSizeIterator<Item = f64> + Clone) -> Draws {
        let first = weights.clone().next();
        if weights.clone().all(|w| Some(w) == first) {
            return Draws::default();
        }
        let (n, total) = (weights.len(), weights.clone().sum::<f64>());
        let mut scaled: Vec<f64> = weights.map(|w| w * n as f64 / total).collect();
        let mut table = vec![Alias { keep: u32::MAX, other: 0 }; n];
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| scaled[i] < 1.0);
        while let (Some(&s), Some(&l)) = (small.last(), large.last()) {
            small.pop();
            table[s] = Alias { keep: (scaled[s] * 4_294_967_296.0) as u32, other: l as u32 };
            scaled[l] -= 1.0 - scaled[s];
            if scaled[l] < 1.0 {
                large.pop();
                small.push(l);
            }
        }
        // The remaining columns are 1 up to rounding: they keep every draw, even the draw in 2^32 that equals `keep`.
        for i in small.into_iter().chain(large) {
            table[i] = Alias { keep: u32::MAX, other: i as u32 };
        }
        Draws(table.into())
    }

    #[inline]
    fn draw(&self, members: usize, rng: &mut Rng) -> usize {
        if self.0.is_empty() {
            return rng.below(members as u32) as usize;
        }
        // The high half picks the column and the low half decides within it: independent bits of the same number.
        let r = rng.next_u64();
        let column = ((r >> 32) * self.0.len() as u64) >> 32;
        let a = self.0[column as usize];
        if (r as u32) < a.keep { column as usize } else { a.other as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::endpoint::EndpointSpec;

    fn set(weights: &[u32]) -> EndpointSet {
        let spec = |(i, &w): (usize, &u32)| (Slot(i as u32), EndpointSpec::new(&i.to_string()).weight(w));
        EndpointSet::new(&weights.iter().enumerate().map(spec).collect::<Vec<_>>())
    }

    #[test]
    fn draws_follow_the_weights() {
        for weights in [vec![1, 1, 1], vec![10, 1, 1, 1], vec![1, 2, 3, 4, 5], vec![65535, 1], vec![7]] {
            let s = set(&weights);
            let (mut rng, draws) = (Rng::new(3), 200_000u32);
            let mut seen = vec![0u32; weights.len()];
            (0..draws).for_each(|_| seen[s.draw(&mut rng)] += 1);
            for (i, &w) in weights.iter().enumerate() {
                let p = f64::from(w) / s.weight_total() as f64;
                // 5 standard deviations of a binomial, and 1 for the rounding of tiny shares.
                let slack = 5.0 * (f64::from(draws) * p * (1.0 - p)).sqrt() + 1.0;
                let off = (f64::from(seen[i]) - f64::from(draws) * p).abs();
                assert!(off <= slack, "{weights:?}[{i}]: {} draws, off by {off}, allowed {slack}", seen[i]);
            }
        }
    }

    #[test]
    fn the_lowest_tier_with_an_eligible_endpoint_is_used() {
        let spec = |n: &str| EndpointSpec::new(n);
        let s = EndpointSet::new(&[
            (Slot(0), spec("a").drain(true)),
            (Slot(1), spec("b").weight(0)),
            (Slot(2), spec("c").priority(2)),
            (Slot(3), spec("d").priority(1)),
        ]);
        assert_eq!(s.members().iter().map(|m| m.slot).collect::<Vec<_>>(), [Slot(3)]);
        let why: Vec<_> = s.excluded().iter().map(|(_, _, why)| *why).collect();
        assert_eq!(why, [Exclusion::Draining, Exclusion::WeightZero, Exclusion::LowerPriority]);
        assert_eq!((s.slots(), s.position_of(Slot(3)), s.position_of(Slot(9))), (4, Some(0), None));
    }
}

//! The next endpoint for a request after a failure: away from endpoints on trial, and beyond the set if it has to leave
//! that.

use super::{Balancer, hold};
use crate::endpoints::set::{EndpointSet, Member, Slot};
use crate::measurement::request::Request;
use crate::measurement::ticket::Hold;
use crate::seam::explain::Explanation;
use crate::seam::picker::{NoPick, PickContext};
use crate::seam::tried::Tried;
use crate::structures::time::Instant;

impl Balancer {
    /// Chooses for a request that has tried an endpoint: beyond the set if it has to leave that, and otherwise first
    /// among members that are not on trial, as a single failure is enough.
    #[cold]
    pub(super) fn choose_again(
        &mut self,
        request: &Request<'_>,
        waited: bool,
        now: Instant,
        mut trace: Option<&mut Explanation>,
    ) -> Result<(Slot, Hold), NoPick> {
        self.refresh(now);
        let set = &self.reader.get().set;
        // If the endpoints it tried are out of use by now, a part of their tier may be left in the set.
        let left = || deepest(set, request.tried).or_else(|| set.members().iter().map(|m| m.tier).min());
        let left = if request.beyond { left() } else { None };
        if (request.beyond || self.has_trials) && !set.in_panic() {
            let mut marks = std::mem::take(&mut self.named);
            let avoided = || {
                let avoided = |m: &&Member| m.trial != 0 || left.is_some_and(|tier| m.tier <= tier);
                request.tried.iter().copied().chain(set.members().iter().filter(avoided).map(|m| m.slot))
            };
            avoided().for_each(|slot| marks.put(slot));
            let (loads, tried, rng, key) = (&self.loads, Tried::Marked(&marks), &mut self.rng, request.key);
            let mut cx = PickContext { set, loads, now, rng, key, tried, trace: trace.as_deref_mut() };
            let picked = self.picker.choose(&mut cx);
            avoided().for_each(|slot| marks.remove(slot));
            let held = picked.ok().and_then(|slot| Some((slot, hold(set, loads, &self.queue, waited, slot)?)));
            self.named = marks;
            if let Some(held) = held {
                return Ok(held);
            }
        }
        if request.beyond
            && let Ok(chosen) = self.choose_on(0, request, waited, now, trace.as_deref_mut())
        {
            return Ok(chosen);
        }
        if let Some(trace) = trace.as_deref_mut() {
            trace.begin(&self.reader.get().set, &self.loads, request.key, request.tried);
        }
        self.choose(request, waited, now, trace)
    }

    /// Returns true if a request that these endpoints failed could go beyond them: to a healthy endpoint of another
    /// zone or a lower tier that has room. If an endpoint it tried is out of use by now, or on trial, the set has
    /// changed since, and any other endpoint will do.
    pub fn has_beyond(&mut self, tried: &[Slot], now: Instant) -> bool {
        self.refresh(now);
        let set = &self.reader.get().set;
        let deepest = deepest(set, tried);
        let has_moved_on = tried.iter().any(|slot| set.get(*slot).is_none_or(|m| m.trial != 0));
        let own = set.members().iter().filter(|m| has_moved_on || deepest.is_some_and(|tier| m.tier > tier));
        let mut beyond = own.chain(set.overflow().iter().flat_map(EndpointSet::members));
        beyond.any(|m| m.trial == 0 && !tried.contains(&m.slot) && !self.loads.is_full(m))
    }
}

/// Lowest tier of the set that a request has tried; `None` if no tried endpoint is still in use.
fn deepest(set: &EndpointSet, tried: &[Slot]) -> Option<u8> {
    tried.iter().filter_map(|slot| set.get(*slot)).map(|m| m.tier).max()
}

//! Picks from a [`Part`] of a pool, such as an address family or a zone, with pickers that know only that part: drawing
//! from the whole pool and leaving out the rest would take longer the smaller the part is.

use super::Balancer;
use super::choose_k::Answer;
use crate::endpoints::set::{EndpointSet, Slot};
use crate::measurement::request::Request;
use crate::seam::picker::{NoPick, Picker};
use crate::seam::tried::Marks;
use crate::structures::time::Instant;

/// A part of the endpoints of a pool, for a balancer.
#[derive(Default)]
pub struct Part {
    slots: Marks,
    /// The part's share of the pool's set and of each of its `overflow`, with their pickers.
    levels: Vec<(EndpointSet, Box<dyn Picker>)>,
    /// Number of the set that `levels` were made from.
    made_of: Option<u64>,
}

impl Part {
    /// Returns the part with these endpoints.
    pub fn new(slots: impl Iterator<Item = Slot>) -> Part {
        Part { slots: slots.collect(), ..Part::default() }
    }

    /// Replaces the endpoints. Those that stay keep their turns.
    pub fn change(&mut self, slots: impl Iterator<Item = Slot>) {
        self.slots = slots.collect();
        self.made_of = None;
    }
}

impl Balancer {
    /// Picks as [`choose_k`](Self::choose_k) does, from a part of the pool. The sets of the part are computed once per
    /// set of the pool.
    ///
    /// # Errors
    /// Errors of `choose_k`.
    pub fn choose_k_of(
        &mut self,
        part: &mut Part,
        request: &Request<'_>,
        k: usize,
        now: Instant,
        out: &mut Vec<Slot>,
    ) -> Result<(), NoPick> {
        self.refresh(now);
        if part.made_of != Some(self.sets) {
            self.remake(part, now);
        }
        let levels = part.levels.iter_mut().map(|(set, picker)| (&*set, picker));
        let answer = Answer { loads: &self.loads, rng: &mut self.rng, named: &mut self.named, now, k };
        answer.fill(levels, request, out)
    }

    #[cold]
    fn remake(&self, part: &mut Part, now: Instant) {
        let set = &self.reader.get().set;
        let sets = || std::iter::once(set).chain(set.overflow()).map(|set| set.part(|slot| part.slots.has(slot)));
        let new_picker = || (self.new_picker)().expect("one was made of these parameters");
        let former = std::mem::take(&mut part.levels).into_iter().map(|(_, picker)| picker);
        let pickers = former.map(Some).chain(std::iter::repeat_with(|| None));
        part.levels = sets().zip(pickers).map(|(set, picker)| (set, picker.unwrap_or_else(new_picker))).collect();
        part.levels.iter_mut().for_each(|(set, picker)| picker.on_set(set, &self.loads, now));
        part.made_of = Some(self.sets);
    }
}

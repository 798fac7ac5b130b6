//! The control side's interface of a pool: assigns slots to configured endpoints, and publishes the set that every
//! worker sees. Counts and slots follow an endpoint's identity, so they survive joins, leaves, reorderings and reloads,
//! and so does its state in [`crate::control`].

use crate::endpoints::endpoint::{EndpointId, EndpointSpec};
use crate::endpoints::set::{EndpointSet, Slot};
use crate::endpoints::state::{Change, State};
use crate::machines::queue::Queue;
use crate::measurement::loads::Counts;
use crate::pools::control::{Control, Settings};
use crate::seam::balancer::Balancer;
use crate::seam::journal::{Journal, Sink};
use crate::seam::params::{ParamError, Params};
use crate::seam::picker::{Algorithm, Prepare, Seat};
use crate::structures::published::Published;
use crate::structures::time::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use crate::seam::view::View;

/// The control side of a pool. Lives on a single thread; workers hold [`Balancer`]s.
#[derive(Debug)]
pub struct Pool {
    published: Published<View>,
    /// Preparation of each set before it is published, for the algorithm of the latest balancer.
    prepares: Published<Option<(Prepare, Params)>>,
    queue: Arc<Queue>,
    counts: Counts,
    control: Control,
    slots: BTreeMap<EndpointId, Slot>,
    /// Slots whose endpoint has left, with the generation that no longer had it.
    left: Vec<Left>,
    slots_used: u32,
}

/// An endpoint that has left, whose tickets may still be out.
#[derive(Clone, Copy, Debug)]
struct Left {
    id: EndpointId,
    slot: Slot,
    generation: u64,
}

impl Pool {
    /// Returns a pool without endpoints for `workers` workers. Its queue accepts no requests yet.
    pub fn new(workers: u32) -> Pool {
        let counts = Counts::new(workers);
        let view = View { set: EndpointSet::default(), counts: counts.clone() };
        let (published, queue) = (Published::new(view), Arc::new(Queue::new(0)));
        let control = Control::default();
        let prepares = Published::new(None);
        Pool { published, prepares, queue, counts, control, slots: BTreeMap::new(), left: Vec::new(), slots_used: 0 }
    }

    /// Sets how the pool watches its endpoints. Their state is kept as far as it is still meaningful. To be called
    /// before the first [`update`](Self::update), if that is to follow the settings. Returns as [`poll`](Self::poll).
    pub fn configure(&mut self, settings: Settings, now: Instant) -> Option<Instant> {
        self.control.configure(settings, &self.counts, now);
        self.counts = self.counts.watching(self.control.watch());
        self.control.settle(&self.counts, now);
        self.publish(now);
        self.control.next(now)
    }

    /// Replaces the endpoints. Those that stay keep slot and counts, in whatever order. So do those that return while
    /// their tickets are out, or a flapping discovery would lose counts and double limits. Of specs with the same
    /// identity the first counts. Returns as [`poll`](Self::poll).
    pub fn update(&mut self, specs: &[EndpointSpec], now: Instant) -> Option<Instant> {
        let part = self.control.part(specs);
        let specs = part.as_deref().unwrap_or(specs);
        let mut placed: Vec<(Slot, EndpointSpec)> = Vec::with_capacity(specs.len());
        let mut slots = BTreeMap::new();
        self.reserve(specs);
        for spec in specs {
            if let Some(slot) = self.slots.remove(&spec.id) {
                slots.insert(spec.id, slot);
                placed.push((slot, spec.clone()));
            }
        }
        self.counts = self.counts.grown_to(self.slots_used as usize);
        self.control.update(placed, &self.counts, now);
        self.control.settle(&self.counts, now);
        let generation = self.publish(now);
        let gone = std::mem::replace(&mut self.slots, slots);
        self.left.extend(gone.into_iter().map(|(id, slot)| Left { id, slot, generation }));
        self.control.next(now)
    }

    /// Assigns slots to endpoints that are about to join. Shells that keep state by slot can thus prepare it before an
    /// [`update`](Self::update) with the same endpoints lets any worker pick an endpoint.
    pub fn reserve(&mut self, specs: &[EndpointSpec]) {
        self.bring_back(specs);
        let mut free = self.reclaim();
        for spec in specs {
            self.slots.entry(spec.id).or_insert_with(|| {
                free.pop().map(|left| left.slot).unwrap_or_else(|| {
                    self.slots_used += 1;
                    Slot(self.slots_used - 1)
                })
            });
        }
        self.left.extend(free); // not needed this time
    }

    fn publish(&self, now: Instant) -> u64 {
        let set = self.control.fold(now);
        if let Some((prepare, params)) = &*self.prepares.current() {
            prepare(&set, params, &self.published.current().set);
        }
        let generation = self.published.publish(View { set, counts: self.counts.clone() });
        self.queue.grant_all();
        generation
    }

    /// Applies the result of an active check. Returns as [`poll`](Self::poll).
    pub fn on_check(&mut self, id: EndpointId, passed: bool, now: Instant) -> Option<Instant> {
        self.control.on_check(id, passed, &self.counts);
        self.poll(now)
    }

    /// Ejects an endpoint for as long as an ejection lasts, whatever its requests show. `None` if there is no such
    /// endpoint, or it is out already; otherwise returns as [`poll`](Self::poll).
    pub fn eject(&mut self, id: EndpointId, now: Instant) -> Option<Option<Instant>> {
        self.control.eject_by_order(id, &self.counts, now).then(|| self.poll(now))
    }

    /// Ends the ejection or probation of an endpoint. `None` if there is none; otherwise returns as
    /// [`poll`](Self::poll).
    pub fn restore(&mut self, id: EndpointId, now: Instant) -> Option<Option<Instant>> {
        self.control.restore(id, &self.counts, now).then(|| self.poll(now))
    }

    /// Does everything that is due, and publishes the set if that changed it. Returns the time of the next call;
    /// `None`: not before something happens. The shell calls this at the time that the last call returned, and when
    /// [`Balancer::end`] returns true.
    pub fn poll(&mut self, now: Instant) -> Option<Instant> {
        self.control.settle(&self.counts, now);
        if self.control.fold(now) != self.published.current().set {
            self.publish(now);
        }
        self.control.next(now)
    }

    /// Returns the state changes of endpoints since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.control.take_changes()
    }

    /// Returns the state of each endpoint, as of the latest call that took the time as a parameter.
    pub fn states(&self) -> impl Iterator<Item = (EndpointId, State)> + '_ {
        self.control.states()
    }

    /// Assigns endpoints that left and are configured again their old slots.
    fn bring_back(&mut self, specs: &[EndpointSpec]) {
        if !self.left.is_empty() {
            let wanted: BTreeSet<EndpointId> = specs.iter().map(|s| s.id).collect();
            let back = self.left.extract_if(.., |left| wanted.contains(&left.id));
            self.slots.extend(back.map(|left| (left.id, left.slot)));
        }
    }

    /// Takes the slots that no worker can pick any more and whose last ticket has ended.
    fn reclaim(&mut self) -> Vec<Left> {
        let oldest = self.published.oldest_seen();
        let counts = &self.counts;
        let idle = |left: &mut Left| left.generation <= oldest && counts.in_flight(left.slot) == 0;
        self.left.extract_if(.., idle).collect()
    }

    /// Returns the slot of an endpoint; `None` if it is not configured.
    pub fn slot_of(&self, id: EndpointId) -> Option<Slot> {
        self.slots.get(&id).copied()
    }

    /// Requests in flight at an endpoint, over all workers.
    pub fn in_flight(&self, slot: Slot) -> u32 {
        self.counts.in_flight(slot)
    }

    /// Sets the connections that the kernel forwards to an endpoint by itself; they count as requests in flight.
    pub fn set_external(&mut self, slot: Slot, in_flight: u32) {
        self.counts.set_external(slot, in_flight);
    }

    /// Returns the view that workers see now.
    pub fn view(&self) -> Arc<View> {
        self.published.current()
    }

    /// Queue of requests that find every endpoint full.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Returns the balancer of a worker. Workers that share `seed` still draw differently.
    ///
    /// All balancers of a worker have to be used by a single thread at a time: state that only that worker writes is
    /// not locked.
    ///
    /// # Errors
    /// If the algorithm refuses a parameter.
    pub fn balancer(
        &self,
        algorithm: &Algorithm,
        params: &Params,
        seat: Seat,
        seed: u64,
    ) -> Result<Balancer, ParamError> {
        let balancer = Balancer::new(algorithm, params, self.published.reader(), self.queue.clone(), seat, seed)?;
        if let Some(prepare) = algorithm.prepare {
            let set = &self.view().set;
            prepare(set, params, set);
        }
        self.prepares.publish(algorithm.prepare.map(|prepare| (prepare, params.clone())));
        Ok(balancer)
    }

    /// Returns a [`balancer`](Self::balancer) with a [`journal`](crate::journal) of everything it sees and does.
    ///
    /// # Errors
    /// If the algorithm refuses a parameter.
    pub fn recorded_balancer(
        &self,
        algorithm: &Algorithm,
        params: &Params,
        seat: Seat,
        seed: u64,
        to: Box<dyn Sink>,
    ) -> Result<Balancer, ParamError> {
        let journal = Journal::new(to, algorithm, params, seat, seed);
        Ok(self.balancer(algorithm, params, seat, seed)?.recorded(journal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms;
    use crate::endpoints::subset::Subset;
    use crate::measurement::request::{Outcome, Request};
    use crate::structures::time::Instant;

    fn balancer(pool: &Pool) -> Balancer {
        let a = algorithms::default();
        pool.balancer(a, &Params::defaults(a.params), Seat { worker: 0, workers: 1 }, 1).unwrap()
    }

    #[test]
    fn a_slot_is_reused_only_after_its_last_ticket_ended_and_all_workers_moved_on() {
        let mut pool = Pool::new(1);
        pool.update(&[EndpointSpec::new("a")], Instant(0));
        let mut b = balancer(&pool);
        let ticket = b.start(&Request::default(), Instant(0)).unwrap();
        let old = ticket.slot();
        pool.update(&[EndpointSpec::new("b")], Instant(0));
        assert_ne!(pool.slot_of(EndpointId::of("b")), Some(old), "a ticket is still out");
        b.end(ticket, Outcome::Success, Instant(1));
        pool.update(&[EndpointSpec::new("b"), EndpointSpec::new("c")], Instant(0));
        assert_ne!(pool.slot_of(EndpointId::of("c")), Some(old), "the worker has not seen that it left");
        let ticket = b.start(&Request::default(), Instant(2)).unwrap();
        b.end(ticket, Outcome::Success, Instant(3));
        pool.update(&[EndpointSpec::new("b"), EndpointSpec::new("c"), EndpointSpec::new("d")], Instant(0));
        assert_eq!(pool.slot_of(EndpointId::of("d")), Some(old));
    }

    #[test]
    fn a_pool_of_which_a_part_is_used_knows_nothing_of_the_rest() {
        let specs: Vec<_> = (0..50).map(|i| EndpointSpec::new(&i.to_string())).collect();
        let mut pool = Pool::new(1);
        pool.configure(Settings { subset: Some(Subset { size: 8, instance: 5 }), ..Settings::default() }, Instant(0));
        pool.update(&specs, Instant(0));
        let used: Vec<_> = pool.view().set.members().iter().map(|m| m.id).collect();
        assert_eq!((used.len(), pool.states().count(), pool.view().set.excluded().len()), (8, 8, 0));
        assert!(specs.iter().all(|s| pool.slot_of(s.id).is_some() == used.contains(&s.id)));
        pool.configure(Settings::default(), Instant(0));
        pool.update(&specs, Instant(0));
        assert_eq!(pool.view().set.len(), 50);
    }

    #[test]
    fn an_endpoint_keeps_slot_and_counts_through_a_reordering() {
        let mut pool = Pool::new(1);
        pool.update(&[EndpointSpec::new("a"), EndpointSpec::new("b")], Instant(0));
        let mut b = balancer(&pool);
        let ticket = b.start(&Request::default(), Instant(0)).unwrap();
        let slots = ["a", "b"].map(|n| pool.slot_of(EndpointId::of(n)));
        pool.update(&[EndpointSpec::new("c"), EndpointSpec::new("b"), EndpointSpec::new("a")], Instant(0));
        assert_eq!(["a", "b"].map(|n| pool.slot_of(EndpointId::of(n))), slots);
        assert_eq!(pool.in_flight(ticket.slot()), 1);
        b.end(ticket, Outcome::Success, Instant(1));
    }
}

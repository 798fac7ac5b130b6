//! Members that join in the middle of a run, cold or warm, with or without slow start.

use super::run::Run;
use crate::engine::calendar::Event;
use evenkeel_balance::Instant;

impl Run<'_> {
    /// Adds the members that join to all pools.
    pub(super) fn join(&mut self) {
        self.joined_at = Some(self.now);
        for at in 0..self.pools.len() {
            let next = self.pools[at].update(self.system.members, Instant(self.now));
            self.poll_at(at, next);
        }
        for (member, spec) in self.system.members.iter().enumerate().skip(self.slots.len()) {
            let slot = self.pools[0].slot_of(spec.id).expect("it was just added");
            self.slots.push(slot);
            self.member_of.resize(self.member_of.len().max(slot.index() + 1), 0);
            self.member_of[slot.index()] = member;
        }
    }

    /// Lets a pool take the next step of its ramps.
    pub(super) fn poll(&mut self, pool: usize) {
        let next = self.pools[pool].poll(Instant(self.now));
        self.poll_at(pool, next);
    }

    fn poll_at(&mut self, pool: usize, next: Option<Instant>) {
        if let Some(next) = next {
            self.calendar.at(next.0.max(self.now), Event::Poll(pool as u32));
        }
    }

    /// Factor of the work of a request that comes to a member now.
    pub(super) fn coldness(&self, member: usize) -> f64 {
        let (Some(joining), Some(at)) = (self.course.joining, self.joined_at) else { return 1.0 };
        let is_new = member + joining.members >= self.system.members.len();
        if is_new { joining.factor(self.now - at) } else { 1.0 }
    }

    /// True once the requests of the time that is measured have had a quarter more to end.
    pub(super) fn is_measured(&self) -> bool {
        let (Some(joining), Some(at)) = (self.course.joining, self.joined_at) else { return false };
        self.now >= at.saturating_add(joining.window_ns + joining.window_ns / 4)
    }
}

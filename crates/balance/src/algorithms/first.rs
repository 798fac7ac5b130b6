//! First: the earliest listed endpoint with room.
//!
//! Source: HAProxy `balance first`. Use it with limits, so that the later endpoints can sleep, or for a standby. Not
//! suited to spread load, as it does the opposite.

use crate::endpoints::set::{EndpointSet, Member, Slot};
use crate::measurement::loads::Loads;
use crate::measurement::request::End;
use crate::seam::explain::By;
use crate::seam::picker::{Algorithm, Needs, NoPick, PickContext, Picker, Promises};
use crate::structures::time::Instant;

/// Row of the registry for `first`.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "first",
    aliases: &["failover"],
    summary: "picks the earliest listed endpoint that is up and below its limit",
    docs: include_str!("docs/first.md"),
    source: "HAProxy, balance first",
    needs: Needs { key: false, in_flight: true, ends: false, latency: false, probes: false },
    asks: false,
    promises: Promises::NONE,
    params: &[],
    table: None,
    prepare: None,
    new: |_, seat| Ok(Box::new(First { alone: seat.workers <= 1, ..First::default() })),
};

#[derive(Default)]
struct First {
    /// True if this worker sees every end of the pool.
    alone: bool,
    /// Index of a member before which none has room. Stays 0 with sibling workers, as their ends are not seen.
    from: usize,
    /// Index in the list of members, by slot.
    position: Vec<u32>,
}

impl Picker for First {
    #[inline]
    fn choose(&mut self, cx: &mut PickContext<'_>) -> Result<Slot, NoPick> {
        let members = cx.set.members();
        let from = self.from.min(members.len());
        let mut full_so_far = self.alone;
        for m in &members[from..] {
            if cx.admits(m) {
                if cx.trace.is_some() {
                    explain(cx, m.slot);
                }
                return Ok(m.slot);
            }
            // An endpoint that was merely tried has room for the next request.
            full_so_far &= cx.loads.is_full(m);
            self.from += usize::from(full_so_far);
        }
        Err(cx.refusal())
    }

    fn on_set(&mut self, set: &EndpointSet, _loads: &Loads, _now: Instant) {
        self.from = 0;
        self.position.clear();
        self.position.resize(set.slots(), u32::MAX);
        set.members().iter().enumerate().for_each(|(i, m)| self.position[m.slot.index()] = i as u32);
    }

    #[inline]
    fn on_end(&mut self, slot: Slot, _end: &End, _loads: &Loads) {
        // An endpoint that has left the set has the highest number as its index, or none.
        let position = self.position.get(slot.index()).map_or(usize::MAX, |&p| p as usize);
        self.from = self.from.min(position);
    }
}

/// Lists the endpoints with room in order, from the picked endpoint on.
#[cold]
fn explain(cx: &mut PickContext<'_>, picked: Slot) {
    let open: Vec<&Member> =
        cx.set.members().iter().skip_while(|m| m.slot != picked).filter(|m| cx.admits(m)).collect();
    if let Some(trace) = cx.trace.as_deref_mut() {
        trace.by = By::Order;
        trace.rule = "the earliest listed with room";
        trace.list(open.into_iter(), |trace, m| trace.candidate(m, cx.loads, None));
    }
}

#[cfg(test)]
mod tests {
    use crate::seam::picker::Seat;
    use crate::{Balancer, EndpointSpec, Instant, NoPick, Outcome, Params, Pool, Request, Ticket};

    fn pool(workers: u32) -> Pool {
        let mut pool = Pool::new(workers);
        pool.update(&["a", "b", "c"].map(|n| EndpointSpec::new(n).in_flight_max(2)), Instant(0));
        pool
    }

    fn balancer(pool: &Pool, seat: Seat) -> Balancer {
        pool.balancer(&super::ALGORITHM, &Params::defaults(&[]), seat, 1).unwrap()
    }

    fn start(b: &mut Balancer) -> Result<Ticket, NoPick> {
        b.start(&Request::default(), Instant(0))
    }

    #[test]
    fn fills_one_after_the_other_and_comes_back() {
        let pool = pool(1);
        let mut b = balancer(&pool, Seat::default());
        let mut held: Vec<_> = (0..6).map(|_| start(&mut b).unwrap()).collect();
        assert_eq!(held.iter().map(|t| t.slot().index()).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
        assert_eq!(start(&mut b).unwrap_err(), NoPick::AllFull);
        for at in [5, 2, 0] {
            b.end(held.remove(at), Outcome::Success, Instant(1));
        }
        let again: Vec<_> = (0..3).map(|_| start(&mut b).unwrap()).collect();
        assert_eq!(again.iter().map(|t| t.slot().index()).collect::<Vec<_>>(), [0, 1, 2]);
        for t in held.into_iter().chain(again) {
            b.end(t, Outcome::Success, Instant(2));
        }
    }

    #[test]
    fn sees_the_room_that_a_sibling_made() {
        let pool = pool(2);
        let mut siblings = [0, 1].map(|worker| balancer(&pool, Seat { worker, workers: 2 }));
        let theirs = [0, 1].map(|_| start(&mut siblings[1]).unwrap());
        let ours = start(&mut siblings[0]).unwrap();
        assert_eq!(ours.slot().index(), 1);
        for t in theirs {
            siblings[1].end(t, Outcome::Success, Instant(1));
        }
        let next = start(&mut siblings[0]).unwrap();
        assert_eq!(next.slot().index(), 0);
        for t in [ours, next] {
            siblings[0].end(t, Outcome::Success, Instant(1));
        }
    }

    #[test]
    fn a_retry_goes_on_and_the_next_request_starts_over() {
        let pool = pool(1);
        let mut b = balancer(&pool, Seat::default());
        let a = pool.view().set.members()[0].slot;
        let retry = b.start(&Request { tried: &[a], ..Request::default() }, Instant(0)).unwrap();
        let next = start(&mut b).unwrap();
        assert_eq!((retry.slot().index(), next.slot()), (1, a));
        for t in [retry, next] {
            b.end(t, Outcome::Success, Instant(1));
        }
    }
}

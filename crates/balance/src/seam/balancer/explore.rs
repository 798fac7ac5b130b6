//! Exploration: a small share of requests goes to an endpoint that is drawn uniformly instead of picked. As the
//! probability of these draws is known, their results estimate those of other policies without a model.
//!
//! Draws have their own random generator, so the picks of the algorithm are those it would make without exploration.
//! The algorithm sees an explored request as it sees a request of a session: it counts as load, but not as a pick.

use super::{Balancer, hold, is_behind, way};
use crate::endpoints::set::Member;
use crate::measurement::request::Request;
use crate::measurement::ticket::Ticket;
use crate::seam::explain::{By, Explanation};
use crate::structures::rng::{Rng, mix};
use crate::structures::time::Instant;

/// Largest share of requests that may be explored. Above it, results would show the exploration and not the algorithm.
pub const SHARE_MAX: f64 = 0.2;

/// Distinguishes the generator of draws from that of picks, which has the same seed.
const SALT: u64 = 0x6578_706c_6f72_6521;

const RULE: &str = "explored: each endpoint had the same chance";

/// Exploration of a balancer.
#[derive(Debug)]
pub(super) struct Explorer {
    /// Share of requests, from 0 to [`SHARE_MAX`].
    share: f64,
    rng: Rng,
    /// Number of endpoints that the latest pick was drawn from; 0 if the algorithm picked.
    drawn_from: u32,
}

impl Explorer {
    /// Notes that the endpoint of the latest start was not drawn.
    pub(super) fn picked(&mut self) {
        self.drawn_from = 0;
    }
}

impl Balancer {
    /// Returns this balancer with a share of its requests at uniformly drawn endpoints; shares above [`SHARE_MAX`] count
    /// as that. A share of 0 turns exploration off. The same seed gives the same draws.
    pub fn exploring(self, share: f64, seed: u64) -> Balancer {
        let explorer = || {
            let rng = Rng::new(seed ^ mix(SALT ^ u64::from(self.worker)));
            Box::new(Explorer { share: share.min(SHARE_MAX), rng, drawn_from: 0 })
        };
        let explorer = (share > 0.0).then(explorer);
        Balancer { explorer, ..self }
    }

    /// Number of endpoints from which the endpoint of the latest successful start was drawn uniformly; 0 if it was not
    /// drawn. Each of them had the same chance.
    #[inline]
    pub fn drawn_from(&self) -> u32 {
        self.explorer.as_ref().map_or(0, |explorer| explorer.drawn_from)
    }

    /// Share of requests that are explored; 0 if exploration is off.
    pub fn explored_share(&self) -> f64 {
        self.explorer.as_ref().map_or(0.0, |explorer| explorer.share)
    }

    /// Starts a request at a drawn endpoint, if it is to be explored. `None`: the algorithm picks. Tries after the first
    /// are never explored, so that the result of a request follows from one draw.
    #[cold]
    pub(super) fn explore(
        &mut self,
        request: &Request<'_>,
        waited: bool,
        now: Instant,
        trace: Option<&mut Explanation>,
    ) -> Option<Ticket> {
        let explorer = self.explorer.as_mut()?;
        explorer.picked();
        if !request.tried.is_empty() || explorer.rng.unit() >= explorer.share {
            return None;
        }
        self.refresh(now);
        let (set, loads, explorer) = (&self.reader.get().set, &self.loads, self.explorer.as_mut()?);
        // While others wait, an endpoint with a limit counts as full.
        let behind = is_behind(&self.queue, waited);
        let admits = |m: &&Member| !loads.is_full(m) && (m.in_flight_max == 0 || !behind);
        let admitted = set.members().iter().filter(admits).count() as u32;
        let drawn = explorer.rng.below(admitted) as usize;
        let member = set.members().iter().filter(admits).nth(drawn)?;
        let slot = member.slot;
        // A sibling worker may have taken the last place since; then the algorithm picks.
        let mut hold = hold(set, loads, &self.queue, waited, slot)?;
        explorer.drawn_from = admitted;
        if let Some(trace) = trace {
            trace.again();
            trace.candidate(member, loads, None);
            (trace.rule, trace.by, trace.unlisted) = (RULE, By::Order, admitted as usize - 1);
        }
        if let Some(journal) = &mut self.journal {
            journal.at(slot, way(&self.queue, waited), Ok(slot), now);
        }
        if let Some(recorder) = &mut self.recorder {
            hold = hold.marked(recorder.given(slot, now));
        }
        self.count(slot, false, now);
        Some(Ticket::new(slot, hold, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms;
    use crate::{EndpointSpec, Outcome, Params, Pool, Seat, Slot};

    const REQUESTS: u64 = 100_000;

    fn pool(weights: &[u16]) -> Pool {
        let spec = |(at, weight): (usize, &u16)| EndpointSpec::new(&at.to_string()).weight((*weight).into());
        let mut pool = Pool::new(1);
        pool.update(&weights.iter().enumerate().map(spec).collect::<Vec<_>>(), Instant(0));
        pool
    }

    fn balancer(pool: &Pool, algorithm: &str, seed: u64) -> Balancer {
        let algorithm = algorithms::find(algorithm).expect("it is registered");
        pool.balancer(algorithm, &Params::defaults(algorithm.params), Seat::default(), seed).expect("its defaults")
    }

    /// Slot and number of endpoints drawn from, of each request; every request ends before the next.
    fn picks(balancer: &mut Balancer) -> Vec<(Slot, u32)> {
        let pick = |at| {
            let request = Request { key: Some(mix(at)), ..Request::default() };
            let ticket = balancer.start(&request, Instant(at)).expect("there is room");
            let picked = (ticket.slot(), balancer.drawn_from());
            balancer.end(ticket, Outcome::Success, Instant(at));
            picked
        };
        (0..REQUESTS).map(pick).collect()
    }

    #[test]
    fn its_share_of_requests_is_uniform_whatever_the_algorithm_and_the_weights() {
        let pool = pool(&[1, 2, 3, 10, 4]);
        for algorithm in algorithms::ALL {
            let picked = picks(&mut balancer(&pool, algorithm.name, 7).exploring(0.02, 7));
            let drawn: Vec<_> = picked.iter().filter(|(_, from)| *from > 0).collect();
            assert!(drawn.iter().all(|(_, from)| *from == 5), "{}", algorithm.name);
            // Binomial: 2,000 with a standard deviation of 44.3; five of them.
            assert!((1779..=2221).contains(&drawn.len()), "{}: {} explored", algorithm.name, drawn.len());
            let fair = drawn.len() as f64 / 5.0;
            let counts = (0..5).map(|at| drawn.iter().filter(|(slot, _)| slot.index() == at).count() as f64);
            let chi_square: f64 = counts.map(|count| (count - fair).powi(2) / fair).sum();
            // Quantile 0.9999 of chi-square with 4 degrees of freedom.
            assert!(chi_square < 23.5, "{}: chi-square {chi_square}", algorithm.name);
        }
    }

    #[test]
    fn without_a_share_nothing_is_drawn_and_no_pick_changes() {
        let pool = pool(&[1, 2, 3]);
        for algorithm in algorithms::ALL {
            let plain = picks(&mut balancer(&pool, algorithm.name, 3));
            assert_eq!(plain, picks(&mut balancer(&pool, algorithm.name, 3).exploring(0.0, 3)), "{}", algorithm.name);
            assert!(plain.iter().all(|(_, from)| *from == 0));
        }
    }

    #[test]
    fn draws_leave_the_random_generator_of_picks_alone() {
        // Blind draws do not look at loads, so whatever was not explored is what it would have been.
        let pool = pool(&[1, 1, 1, 1]);
        let algorithm = algorithms::find("random").expect("it is registered");
        let mut params = Params::defaults(algorithm.params);
        params.set("draws", 1u64.into()).expect("1 is allowed");
        let made = || pool.balancer(algorithm, &params, Seat::default(), 5).expect("checked parameters");
        let (plain, explored) = (picks(&mut made()), picks(&mut made().exploring(0.2, 5)));
        let picked = explored.iter().filter(|(_, from)| *from == 0).map(|(slot, _)| slot);
        assert!(
            picked.eq(plain.iter().map(|(slot, _)| slot).take(explored.iter().filter(|(_, from)| *from == 0).count()))
        );
    }

    #[test]
    fn only_endpoints_with_room_are_drawn_and_only_on_the_first_try() {
        let mut pool = Pool::new(1);
        let specs = [EndpointSpec::new("a").in_flight_max(1), EndpointSpec::new("b"), EndpointSpec::new("c")];
        pool.update(&specs, Instant(0));
        let mut balancer = balancer(&pool, "leastconn", 1).exploring(SHARE_MAX, 1);
        let full = balancer.start_at(Slot(0), Instant(0)).expect("it has room");
        assert_eq!(balancer.drawn_from(), 0);
        let mut drawn = 0;
        for at in 0..1000 {
            let ticket = balancer.start(&Request::default(), Instant(at)).expect("two have room");
            assert!([0, 2].contains(&balancer.drawn_from()), "the first is full");
            drawn += balancer.drawn_from() / 2;
            balancer.end(ticket, Outcome::Success, Instant(at));
            let again = Request { tried: &[Slot(1)], ..Request::default() };
            let ticket = balancer.start(&again, Instant(at)).expect("one has room");
            assert_eq!((balancer.drawn_from(), ticket.slot()), (0, Slot(2)));
            balancer.end(ticket, Outcome::Success, Instant(at));
        }
        assert!((130..270).contains(&drawn), "a fifth of 1,000, within five standard deviations of 12.6: {drawn}");
        balancer.end(full, Outcome::Success, Instant(1000));
    }

    #[test]
    fn an_explored_pick_is_explained() {
        let pool = pool(&[1, 2, 3]);
        let mut balancer = balancer(&pool, "leastconn", 1).exploring(SHARE_MAX, 1);
        let mut why = Explanation::default();
        for at in 0..100 {
            let ticket = balancer.start_explained(&Request::default(), Instant(at), &mut why).expect("there is room");
            assert_eq!(why.explored_share, SHARE_MAX);
            if balancer.drawn_from() > 0 {
                assert_eq!((why.rule, why.unlisted, why.picked), (RULE, 2, Some(ticket.slot())));
                assert_eq!(why.by.decide(&why.candidates), why.picked);
            } else {
                assert_ne!(why.rule, RULE);
            }
            balancer.end(ticket, Outcome::Success, Instant(at));
        }
    }
}

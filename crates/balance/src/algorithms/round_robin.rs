//! Round robin: each endpoint in turn, smoothly by weight.
//!
//! Source: earliest deadline first over virtual time, as in start-time fair queueing (Goyal, Vin and Cheng 1996). Use
//! it if requests cost the same everywhere. Not if endpoints or requests differ: it never looks at load.

use crate::endpoints::set::{EndpointSet, Member, Slot};
use crate::measurement::loads::Loads;
use crate::seam::explain::By;
use crate::seam::picker::{Algorithm, Needs, NoPick, PickContext, Picker, Promises, Seat};
use crate::structures::heap::IndexedHeap;
use crate::structures::time::Instant;

/// Row of the registry for `round_robin`.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "round_robin",
    aliases: &["roundrobin", "rr"],
    summary: "picks each endpoint in turn, smoothly by weight, whatever the loads",
    docs: include_str!("docs/round_robin.md"),
    source: "Goyal, Vin and Cheng, Start-time Fair Queueing (1996); Envoy's and HAProxy's deadline schedulers",
    needs: Needs { key: false, in_flight: false, ends: false, latency: false, probes: false },
    asks: false,
    promises: Promises {
        shares_when_idle: true,
        shares_when_busy: true,
        shares_whatever_the_load: true,
        ..Promises::NONE
    },
    params: &[],
    table: None,
    prepare: None,
    new: |_, seat| Ok(Box::new(RoundRobin { seat, ..RoundRobin::default() })),
};

/// Virtual time in which every endpoint gets as many requests as its weight. An endpoint of weight w comes up every
/// `ROUND / w`; the rounding of that is below 2^-16 of a share for weights up to 65,535.
const ROUND: u64 = 1 << 32;

#[derive(Default)]
struct RoundRobin {
    seat: Seat,
    /// Virtual time of the next turn, by slot.
    due: IndexedHeap<u64>,
    /// Virtual time between two turns, by slot.
    stride: Vec<u64>,
    /// Virtual time of the latest pick.
    clock: u64,
    /// Endpoint whose turn it was at the latest choice.
    turn: Option<Slot>,
}

impl Picker for RoundRobin {
    #[inline]
    fn choose(&mut self, cx: &mut PickContext<'_>) -> Result<Slot, NoPick> {
        let admits = |slot: u32| cx.set.get(Slot(slot)).is_some_and(|m| cx.admits(m));
        let slot = self.due.first_where(admits).map(Slot).ok_or_else(|| cx.refusal())?;
        self.turn = Some(slot);
        if cx.trace.is_some() {
            self.explain(cx, slot);
        }
        Ok(slot)
    }

    /// Endpoints that stay keep their phase, in proportion if their weight changed.
    fn on_set(&mut self, set: &EndpointSet, _loads: &Loads, _now: Instant) {
        let old = std::mem::take(&mut self.due);
        let old_stride = std::mem::take(&mut self.stride);
        self.due.clear(set.slots());
        self.stride = vec![0; set.slots()];
        for (i, m) in set.members().iter().enumerate() {
            let stride = ROUND / u64::from(m.weight);
            let kept = old.key(m.slot.0).map(|due| {
                let wait = due.saturating_sub(self.clock).min(ROUND);
                (wait as f64 / old_stride[m.slot.index()] as f64).min(1.0)
            });
            // Workers start at different places of the round, or all would hit the same endpoint first.
            let start =
                (i as f64 + 0.5) / set.len() as f64 + f64::from(self.seat.worker) / f64::from(self.seat.workers);
            let part = kept.unwrap_or(start.fract());
            self.stride[m.slot.index()] = stride;
            self.due.push(m.slot.0, self.clock + (part * stride as f64) as u64);
        }
    }

    #[inline]
    fn on_start(&mut self, slot: Slot, _loads: &Loads, _now: Instant) {
        let Some(due) = self.due.key(slot.0) else { return };
        // Only a turn moves the clock, even past an endpoint that is due but full. A sticky session's start does not.
        if self.turn.take() == Some(slot) {
            self.clock = self.clock.max(due);
        }
        // An endpoint that was full for long is at most a round behind, or it would get a burst of all it missed.
        let next = (due + self.stride[slot.index()]).max(self.clock.saturating_sub(ROUND));
        self.due.update(slot.0, next);
        if self.clock > u64::MAX / 2 {
            self.rebase();
        }
    }
}

impl RoundRobin {
    /// Lists the endpoints whose turns come next. Their scores are the rounds until then.
    #[cold]
    fn explain(&self, cx: &mut PickContext<'_>, picked: Slot) {
        let due = |slot: Slot| i128::from(self.due.key(slot.0).unwrap_or_default()) - i128::from(self.clock);
        let mut open: Vec<&Member> = cx.set.members().iter().filter(|m| cx.admits(m)).collect();
        open.sort_by_key(|m| (due(m.slot), m.slot != picked));
        if let Some(trace) = cx.trace.as_deref_mut() {
            trace.by = By::Lowest;
            trace.rule = "its turn: the earliest virtual deadline";
            let rounds = |m: &Member| due(m.slot) as f64 / ROUND as f64;
            trace.list(open.into_iter(), |trace, m| trace.candidate(m, cx.loads, Some(rounds(m))));
        }
    }

    /// Moves virtual time back to 0 before it overflows, after 2^31 rounds.
    #[cold]
    fn rebase(&mut self) {
        let back = self.clock;
        self.due.shift(|due| due.saturating_sub(back));
        self.clock = 0;
    }
}

#[cfg(test)]
mod tests {
    use crate::seam::picker::Seat;
    use crate::{Balancer, EndpointSpec, Instant, Outcome, Params, Pool, Request};

    fn balancer(pool: &Pool, seat: Seat) -> Balancer {
        pool.balancer(&super::ALGORITHM, &Params::defaults(&[]), seat, 1).unwrap()
    }

    fn picks(b: &mut Balancer, count: usize) -> Vec<usize> {
        let mut pick = |_| {
            let t = b.start(&Request::default(), Instant(0)).unwrap();
            let slot = t.slot().index();
            b.end(t, Outcome::Success, Instant(0));
            slot
        };
        (0..count).map(&mut pick).collect()
    }

    #[test]
    fn takes_turns_smoothly_by_weight() {
        let mut pool = Pool::new(1);
        pool.update(&[("a", 5), ("b", 1), ("c", 1)].map(|(n, w)| EndpointSpec::new(n).weight(w)), Instant(0));
        let got = picks(&mut balancer(&pool, Seat { worker: 0, workers: 1 }), 7000);
        for window in got.windows(7) {
            let heavy = window.iter().filter(|&&s| s == 0).count();
            assert!((4..=6).contains(&heavy), "{window:?}");
        }
        assert_eq!([0, 1, 2].map(|s| got.iter().filter(|&&g| g == s).count()), [5000, 1000, 1000]);
    }

    #[test]
    fn workers_start_apart() {
        let mut pool = Pool::new(4);
        pool.update(&["a", "b", "c", "d"].map(EndpointSpec::new), Instant(0));
        let mut first: Vec<_> =
            (0..4).map(|worker| picks(&mut balancer(&pool, Seat { worker, workers: 4 }), 1)[0]).collect();
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2, 3]);
    }

    #[test]
    fn a_live_weight_change_takes_effect_at_once() {
        let mut pool = Pool::new(1);
        let specs = |w| [EndpointSpec::new("a").weight(w), EndpointSpec::new("b")];
        pool.update(&specs(1), Instant(0));
        let mut b = balancer(&pool, Seat { worker: 0, workers: 1 });
        assert_eq!(picks(&mut b, 1000).iter().filter(|&&s| s == 0).count(), 500);
        pool.update(&specs(3), Instant(0));
        let heavy = picks(&mut b, 1000).iter().filter(|&&s| s == 0).count();
        assert!((749..=751).contains(&heavy), "{heavy}");
    }
}

//! Random with draws (power of two choices): of two endpoints drawn at random, prefers the less loaded.
//! Source: Mitzenmacher 2001; HAProxy `random(N)`, with draws that are distinct and ties that keep the weights.
//! Use when in doubt. Not for affinity: the same client lands anywhere.

use crate::draw::{self, DRAWS_MAX};
use crate::params::{Kind, Param, Params, Value};
use crate::picker::{Algorithm, Needs, NoPick, PickContext, Picker, Promises};
use crate::set::Slot;

/// The row of the registry.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "random",
    aliases: &["power_of_two", "p2c"],
    summary: "draws distinct endpoints by weight, the one with fewer requests in flight per weight gets the request",
    docs: include_str!("docs/random.md"),
    source: "Mitzenmacher, The Power of Two Choices in Randomized Load Balancing (2001); HAProxy random(N)",
    needs: Needs { key: false, in_flight: true, latency: false, probes: false },
    promises: Promises {
        shares_when_idle: true,
        shares_when_busy: true,
        shares_whatever_the_load: false,
        affinity: false,
    },
    params: PARAMS,
    table: None,
    new: |params, _| Ok(Box::new(Random::new(params))),
};

static PARAMS: &[Param] = &[Param {
    name: "draws",
    kind: Kind::Int { min: 1, max: DRAWS_MAX as u64 },
    default: Value::Int(2),
    help: "How many distinct endpoints are drawn and compared; 1 is random without regard to load.",
    why: "The second draw brings nearly all of the gain (mean time in system at 90 % load: 10 with one draw, 2.6 with \
          two, 2.0 with three), and with load information that is late more draws do harm: they herd.",
}];

struct Random {
    draws: usize,
}

impl Random {
    fn new(params: &Params) -> Random {
        Random { draws: params.int("draws") as usize }
    }
}

impl Picker for Random {
    #[inline]
    fn choose(&mut self, cx: &mut PickContext<'_>) -> Result<Slot, NoPick> {
        less_loaded(cx, self.draws)
    }
}

/// Draws and compares; also for algorithms that have nothing better to go by at the moment.
///
/// # Errors
/// Why none could be drawn.
#[inline]
pub(super) fn less_loaded(cx: &mut PickContext<'_>, draws: usize) -> Result<Slot, NoPick> {
    let drawn = draw::distinct(cx, draws);
    let members = cx.set.members();
    let Some((&first, rest)) = drawn.as_slice().split_first() else { return Err(cx.refusal()) };
    let mut best = &members[first as usize];
    let mut best_in_flight = cx.loads.in_flight(best.slot);
    let mut rule = draw::ONLY_ONE;
    for &index in rest {
        let other = &members[index as usize];
        let in_flight = cx.loads.in_flight(other.slot);
        // In flight per weight, by cross-multiplication: exact, and no division. Less loaded is who would with this
        // request be no more loaded than the other is without it; anything less is the grain of whole requests, and
        // taking it for load would cost unequal weights their shares at low load. For equal weights: fewer in flight.
        let (a, b) = (scaled(best_in_flight, other.weight), scaled(in_flight, best.weight));
        let wins = match () {
            () if b + u64::from(best.weight) <= a => by_load(true, &mut rule),
            () if a + u64::from(other.weight) <= b => by_load(false, &mut rule),
            () => draw::wins_tie(cx, best, other, &mut rule),
        };
        if wins {
            (best, best_in_flight) = (other, in_flight);
        }
    }
    let slot = best.slot;
    if let Some(trace) = cx.trace.as_deref_mut() {
        for &i in drawn.as_slice() {
            trace.candidate(&members[i as usize], cx.loads, None);
        }
        trace.rule = rule;
    }
    Ok(slot)
}

#[inline]
fn scaled(in_flight: u32, weight: u32) -> u64 {
    u64::from(in_flight) * u64::from(weight)
}

#[inline]
fn by_load(wins: bool, rule: &mut &'static str) -> bool {
    *rule = "fewer in flight per weight";
    wins
}

#[cfg(test)]
mod tests {
    use crate::picker::Seat;
    use crate::{EndpointSpec, Instant, Outcome, Params, Pool, Request, algorithms};

    #[test]
    fn never_picks_the_more_loaded_of_two() {
        let mut pool = Pool::new(1);
        pool.update(&[EndpointSpec::new("a"), EndpointSpec::new("b")]);
        let seat = Seat { worker: 0, workers: 1 };
        let mut b = pool.balancer(&super::ALGORITHM, &Params::defaults(super::PARAMS), seat, 5).unwrap();
        let held = b.start(&Request::default(), Instant(0)).unwrap();
        for i in 1..1000 {
            let t = b.start(&Request::default(), Instant(i)).unwrap();
            assert_ne!(t.slot(), held.slot(), "a draw with replacement would land there once in four");
            b.end(t, Outcome::Success, Instant(i));
        }
        b.end(held, Outcome::Success, Instant(1000));
    }

    #[test]
    fn is_the_default_and_goes_by_its_aliases() {
        for name in ["random", "power_of_two", "p2c"] {
            assert_eq!(algorithms::find(name).unwrap().name, algorithms::default().name);
        }
    }
}

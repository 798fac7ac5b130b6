//! Random with draws (power of two choices): of two endpoints drawn at random, prefers the less loaded.
//!
//! Source: Mitzenmacher 2001; HAProxy `random(N)`, with draws that are distinct and ties that keep the weights. Use it
//! when in doubt. Not for affinity: the same client may land anywhere.

use crate::endpoints::set::{Member, Slot};
use crate::parts::draw::{self, DRAWS_MAX, Draws};
use crate::seam::explain::By;
use crate::seam::params::{Kind, Param, Params, Value};
use crate::seam::picker::{Algorithm, Needs, NoPick, PickContext, Picker, Promises};

/// Row of the registry for `random`.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "random",
    aliases: &["power_of_two", "p2c"],
    summary: "of distinct endpoints drawn by weight, picks the endpoint with the fewest requests in flight per weight",
    docs: include_str!("docs/random.md"),
    source: "Mitzenmacher, The Power of Two Choices in Randomized Load Balancing (2001); HAProxy random(N)",
    needs: Needs { key: false, in_flight: true, ends: false, latency: false, probes: false },
    asks: false,
    promises: Promises { shares_when_idle: true, shares_when_busy: true, ..Promises::NONE },
    params: PARAMS,
    table: None,
    prepare: None,
    new: |params, _| Ok(Box::new(Random::new(params))),
};

static PARAMS: &[Param] = &[Param {
    name: "draws",
    kind: Kind::Int { min: 1, max: DRAWS_MAX as u64 },
    default: Value::Int(2),
    help: "Number of distinct endpoints to draw and compare; 1 is random without regard to load.",
    why: "The second draw gives nearly all of the gain (mean time in system at 90 % load: 10 with one draw, 2.6 with \
          two, 2.0 with three), and if load information is late, more draws do harm, since they cause herding.",
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

/// Draws endpoints and picks the less loaded. Also used by algorithms that have no better information at the moment.
///
/// # Errors
/// The reason why none could be drawn.
#[inline]
pub(super) fn less_loaded(cx: &mut PickContext<'_>, draws: usize) -> Result<Slot, NoPick> {
    if draws != 2 {
        return of_many(cx, Draws::NONE, draws);
    }
    match draw::pair(cx) {
        Ok((first, second)) => Ok(better(cx, first, second).slot),
        Err(drawn) => of_many(cx, drawn, 2),
    }
}

#[cold]
fn of_many(cx: &mut PickContext<'_>, drawn: Draws, draws: usize) -> Result<Slot, NoPick> {
    let drawn = draw::more(cx, drawn, draws);
    let members = cx.set.members();
    let Some((&first, rest)) = drawn.as_slice().split_first() else { return Err(cx.refusal()) };
    let mut best = &members[first as usize];
    if rest.is_empty()
        && let Some(trace) = cx.trace.as_deref_mut()
    {
        trace.candidate(best, cx.loads, None);
        trace.rule = draw::ONLY_ONE;
    }
    for &other in rest {
        best = better(cx, best, &members[other as usize]);
    }
    Ok(best.slot)
}

/// Returns the less loaded of two: the endpoint that, with this request, would have no more in flight per weight than
/// the other has without it. A smaller difference is an artefact of whole requests, and treating it as load would cost
/// unequal weights their shares at low load. With equal weights, that is the endpoint with fewer in flight. If neither
/// is less loaded, the endpoint whose turn it is.
#[expect(clippy::inline_always, reason = "once in each pick; the other caller is a rare one")]
#[inline(always)]
fn better<'a>(cx: &mut PickContext<'_>, first: &'a Member, second: &'a Member) -> &'a Member {
    // By cross-multiplication: exact, and without division.
    let (weight_1, weight_2) = (u64::from(first.weight), u64::from(second.weight));
    let load_1 = u64::from(cx.loads.in_flight(first.slot)) * weight_2;
    let load_2 = u64::from(cx.loads.in_flight(second.slot)) * weight_1;
    let (less, more) = (load_2 + weight_1 <= load_1, load_1 + weight_2 <= load_2);
    let due = draw::is_due(cx.loads, second, first);
    // Without branches, as the better of two cannot be predicted, and a wrong guess costs more than all of this.
    let wins = less | (!more & due);
    if cx.trace.is_some() {
        explain(cx, first, second, if less | more { "fewer in flight per weight" } else { draw::TIE });
    }
    [first, second][usize::from(wins)]
}

#[cold]
fn explain(cx: &mut PickContext<'_>, first: &Member, second: &Member, rule: &'static str) {
    let Some(trace) = cx.trace.as_deref_mut() else { return };
    if trace.candidates.is_empty() {
        trace.candidate(first, cx.loads, None);
    }
    trace.candidate(second, cx.loads, None);
    trace.by = By::PerWeight;
    trace.rule = rule;
}

#[cfg(test)]
mod tests {
    use crate::seam::picker::Seat;
    use crate::{EndpointSpec, Instant, Outcome, Params, Pool, Request, algorithms};

    #[test]
    fn never_picks_the_more_loaded_of_two() {
        let mut pool = Pool::new(1);
        pool.update(&[EndpointSpec::new("a"), EndpointSpec::new("b")], Instant(0));
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

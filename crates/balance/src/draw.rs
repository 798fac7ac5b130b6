//! Which endpoints are compared? Distinct ones, drawn by weight.
//!
//! Distinct, since a draw with replacement compares an endpoint with itself once in n draws, and so gives the worst
//! of n endpoints 1/n^2 of the traffic however slow it is.

use crate::picker::{NoPick, PickContext};
use crate::set::{Member, Slot};

/// Most draws a pick may ask for.
pub const DRAWS_MAX: usize = 16;

/// Rejected draws in a row after which the rest is drawn by an exact scan: a set with one huge weight, or with nearly
/// all endpoints tried or full, would reject nearly every draw.
const REJECTIONS_MAX: usize = 8;

/// Indices of up to [`DRAWS_MAX`] distinct members.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    index: [u32; DRAWS_MAX],
    len: usize,
}

impl Draws {
    /// The indices into the set's members, in the order drawn.
    #[inline]
    pub fn as_slice(&self) -> &[u32] {
        &self.index[..self.len]
    }

    #[inline]
    fn push(&mut self, index: usize) {
        self.index[self.len] = index as u32;
        self.len += 1;
    }

    #[inline]
    fn has(&self, index: usize) -> bool {
        self.as_slice().contains(&(index as u32))
    }
}

/// Draws up to `k` distinct admitted members, each time by weight among those not yet drawn. Fewer when fewer are
/// admitted; none when none is.
#[inline]
pub fn distinct(cx: &mut PickContext<'_>, k: usize) -> Draws {
    let mut draws = Draws { index: [0; DRAWS_MAX], len: 0 };
    if cx.set.is_empty() {
        return draws;
    }
    let members = cx.set.members();
    let k = k.min(members.len()).min(DRAWS_MAX);
    let mut rejections = 0;
    while draws.len < k {
        let i = cx.set.draw(cx.rng);
        if !draws.has(i) && cx.admits(&members[i]) {
            draws.push(i);
            rejections = 0;
        } else {
            rejections += 1;
            if rejections > REJECTIONS_MAX {
                return scan(cx, draws, k);
            }
        }
    }
    draws
}

/// Of up to `k` distinct drawn members, the one whose `cost` is lowest; `by` says what the cost is. Ties as in
/// [`wins_tie`].
///
/// # Errors
/// Why none could be drawn.
#[inline]
pub(crate) fn lowest(
    cx: &mut PickContext<'_>,
    k: usize,
    by: &'static str,
    mut cost: impl FnMut(&PickContext<'_>, &Member) -> f32,
) -> Result<Slot, NoPick> {
    let draws = distinct(cx, k);
    let members = cx.set.members();
    let Some((&first, rest)) = draws.as_slice().split_first() else { return Err(cx.refusal()) };
    let mut best = &members[first as usize];
    let mut best_cost = cost(cx, best);
    let mut rule = ONLY_ONE;
    note(cx, best, best_cost);
    for &index in rest {
        let other = &members[index as usize];
        let other_cost = cost(cx, other);
        note(cx, other, other_cost);
        rule = by;
        let tied = other_cost == best_cost;
        if if tied { wins_tie(cx, best, other, &mut rule) } else { other_cost < best_cost } {
            (best, best_cost) = (other, other_cost);
        }
    }
    let slot = best.slot;
    if let Some(trace) = cx.trace.as_deref_mut() {
        trace.rule = rule;
    }
    Ok(slot)
}

/// The rule when nothing was compared.
pub(crate) const ONLY_ONE: &str = "the only one drawn";

#[inline]
fn note(cx: &mut PickContext<'_>, member: &Member, cost: f32) {
    if let Some(trace) = cx.trace.as_deref_mut() {
        trace.candidate(member, cx.loads, Some(f64::from(cost)));
    }
}

/// Whether `other` wins a tie: if it is due before `best` by the picks so far, so that a large pool at low load, where
/// nearly all show 0 in flight, does not fall back to blind chance. Else the one drawn first wins, as the first draw
/// alone follows the weights.
#[inline]
pub(crate) fn wins_tie(cx: &PickContext<'_>, best: &Member, other: &Member, rule: &mut &'static str) -> bool {
    let (a, b) = (cx.loads.ahead(best.slot), cx.loads.ahead(other.slot));
    *rule = if a == b { "drawn first, all else being equal" } else { "its turn, all else being equal" };
    b < a
}

/// Draws the rest by walking over the members. Rejection and scan have the same distribution: each draws by weight
/// among what is left.
#[cold]
fn scan(cx: &mut PickContext<'_>, mut draws: Draws, k: usize) -> Draws {
    let members = cx.set.members();
    while draws.len < k {
        let free = |i: &usize| !draws.has(*i) && cx.admits(&members[*i]);
        let total: u64 = (0..members.len()).filter(free).map(|i| u64::from(members[i].weight)).sum();
        let mut ticket = cx.rng.below_u64(total);
        let free = |i: &usize| !draws.has(*i) && cx.admits(&members[*i]);
        let hit = (0..members.len()).filter(free).find(|&i| {
            let weight = u64::from(members[i].weight);
            let hit = ticket < weight;
            ticket = ticket.saturating_sub(weight);
            hit
        });
        match hit {
            Some(i) => draws.push(i),
            None => break,
        }
    }
    draws
}

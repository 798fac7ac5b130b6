//! Draws of distinct endpoints by weight, and the comparison of those drawn.
//!
//! The draws are distinct because a draw with replacement compares an endpoint with itself once in n draws, and so
//! gives the worst of n endpoints 1/n^2 of the traffic however slow it is.

use crate::endpoints::set::{Member, Slot};
use crate::machines::slow_start::FULL;
use crate::measurement::loads::Loads;
use crate::seam::explain::By;
use crate::seam::picker::{NoPick, PickContext};

/// Most endpoints that a pick may draw.
pub const DRAWS_MAX: usize = 16;

/// Rejected draws in a row after which the rest is drawn by an exact scan. A set with a huge weight, or with nearly
/// all endpoints tried or full, would reject nearly every draw.
const REJECTIONS_MAX: usize = 8;

/// Indices of up to [`DRAWS_MAX`] distinct members.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    index: [u32; DRAWS_MAX],
    len: usize,
}

impl Draws {
    /// The state before the first draw.
    pub(crate) const NONE: Draws = Draws { index: [0; DRAWS_MAX], len: 0 };

    /// Indices into the set's members, in the order drawn.
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

/// Draws two distinct admitted members, with the distribution of [`distinct`], if the first draws are distinct and
/// admitted; otherwise returns the draws so far. This is the common case, without loops and arrays.
#[inline]
pub(crate) fn pair<'a>(cx: &mut PickContext<'a>) -> Result<(&'a Member, &'a Member), Draws> {
    let members = cx.set.members();
    let n = members.len() as u64;
    let (a, b) = if n < 2 {
        return Err(Draws::NONE);
    } else if cx.set.weights_equal() {
        // Both from the same number, 32 bits each. The second is moved past the first, so that they cannot be equal.
        let r = cx.rng.next_u64();
        let (a, b) = (((r >> 32) * n) >> 32, ((r & 0xffff_ffff) * (n - 1)) >> 32);
        (a as usize, (b + u64::from(b >= a)) as usize)
    } else {
        let a = cx.set.draw(cx.rng);
        (a, if n == 2 { 1 - a } else { cx.set.draw(cx.rng) })
    };
    let (first, second) = (&members[a], &members[b]);
    if a != b && cx.admits(first) && cx.admits(second) { Ok((first, second)) } else { Err(begun(cx, a)) }
}

/// Keeps the first draw if it is admitted, even if the second is not.
#[cold]
fn begun(cx: &PickContext<'_>, first: usize) -> Draws {
    let mut draws = Draws::NONE;
    if cx.admits(&cx.set.members()[first]) {
        draws.push(first);
    }
    draws
}

/// Draws up to `k` distinct admitted members, each by weight among those not yet drawn. Returns fewer if fewer are
/// admitted.
#[inline]
pub fn distinct(cx: &mut PickContext<'_>, k: usize) -> Draws {
    more(cx, Draws::NONE, k)
}

/// Continues the draws of [`distinct`] until there are `k`.
pub(crate) fn more(cx: &mut PickContext<'_>, mut draws: Draws, k: usize) -> Draws {
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

/// Returns the member with the lower `cost` of two distinct drawn members; `by` describes the cost in explanations.
/// [`is_due`] decides ties.
///
/// # Errors
/// The reason why none could be drawn.
#[inline]
pub(crate) fn lowest(
    cx: &mut PickContext<'_>,
    by: &'static str,
    mut cost: impl FnMut(&PickContext<'_>, &Member) -> f32,
) -> Result<Slot, NoPick> {
    let drawn = match pair(cx) {
        Ok((first, second)) => {
            let (a, b) = (cost(cx, first), cost(cx, second));
            note(cx, first, a, by);
            return Ok(cheaper(cx, (first, a), (second, b), by).0.slot);
        }
        Err(drawn) => drawn,
    };
    let draws = more(cx, drawn, 2);
    lowest_of(cx, &draws, by, cost)
}

/// Variant of [`lowest`] for sets with ramping members and costs that do not depend on the weight: the draw alone would
/// not hold those members back, as with two endpoints both are always drawn.
///
/// # Errors
/// The reason why none could be drawn.
#[cold]
pub(crate) fn lowest_thinned(
    cx: &mut PickContext<'_>,
    by: &'static str,
    cost: impl FnMut(&PickContext<'_>, &Member) -> f32,
) -> Result<Slot, NoPick> {
    let draws = thinned(cx);
    lowest_of(cx, &draws, by, cost)
}

/// Draws by the weights without slow start, and keeps each drawn member with the probability of its ramp, so that it
/// gets that part of its full share.
fn thinned(cx: &mut PickContext<'_>) -> Draws {
    let members = cx.set.members();
    let tries = if members.len() < 2 { 0 } else { REJECTIONS_MAX };
    for _ in 0..tries {
        let mut draws = Draws::NONE;
        let a = cx.set.draw_unramped(cx.rng);
        let b = if members.len() == 2 { 1 - a } else { cx.set.draw_unramped(cx.rng) };
        for i in [a, b] {
            let stays = cx.rng.below(u32::from(FULL)) < u32::from(members[i].ramp);
            if stays && a != b && cx.admits(&members[i]) {
                draws.push(i);
            }
        }
        if draws.len > 0 {
            return draws;
        }
    }
    more(cx, Draws::NONE, 2)
}

/// Returns the drawn member with the lowest cost.
fn lowest_of(
    cx: &mut PickContext<'_>,
    draws: &Draws,
    by: &'static str,
    mut cost: impl FnMut(&PickContext<'_>, &Member) -> f32,
) -> Result<Slot, NoPick> {
    let members = cx.set.members();
    let Some((&first, rest)) = draws.as_slice().split_first() else { return Err(cx.refusal()) };
    let first = &members[first as usize];
    let mut best = (first, cost(cx, first));
    note(cx, first, best.1, ONLY_ONE);
    for &index in rest {
        let other = &members[index as usize];
        let other = (other, cost(cx, other));
        best = cheaper(cx, best, other, by);
    }
    Ok(best.0.slot)
}

/// Returns the better of two members, with its cost.
#[inline]
fn cheaper<'a>(
    cx: &mut PickContext<'_>,
    best: (&'a Member, f32),
    other: (&'a Member, f32),
    by: &'static str,
) -> (&'a Member, f32) {
    let tied = other.1 == best.1;
    note(cx, other.0, other.1, if tied { TIE } else { by });
    // Without branches, as the better of two cannot be predicted.
    let wins = (other.1 < best.1) | (tied & is_due(cx.loads, other.0, best.0));
    [best, other][usize::from(wins)]
}

/// Rule in explanations of picks without a comparison.
pub(crate) const ONLY_ONE: &str = "the only one drawn";

#[inline]
fn note(cx: &mut PickContext<'_>, member: &Member, cost: f32, rule: &'static str) {
    if let Some(trace) = cx.trace.as_deref_mut() {
        trace.candidate(member, cx.loads, Some(f64::from(cost)));
        trace.by = By::Score;
        trace.rule = rule;
    }
}

/// Rule in explanations of ties.
pub(crate) const TIE: &str = "its turn, or else the first drawn, with all else equal";

/// True if `other` wins a tie because it is due before `best` by the picks so far. Without this, a large pool at low
/// load, where nearly all have 0 in flight, would fall back to blind chance. If it is false the member drawn first
/// wins, as only the first draw follows the weights.
#[inline]
pub(crate) fn is_due(loads: &Loads, other: &Member, best: &Member) -> bool {
    loads.ahead(other.slot) < loads.ahead(best.slot)
}

/// Draws the rest by walking over the members. Rejection and scan have the same distribution: each draws by weight
/// among the rest.
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

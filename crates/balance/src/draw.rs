//! Which endpoints are compared? Distinct ones, drawn by weight.
//!
//! Distinct, since a draw with replacement compares an endpoint with itself once in n draws, and so gives the worst
//! of n endpoints 1/n^2 of the traffic however slow it is.

use crate::picker::PickContext;

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

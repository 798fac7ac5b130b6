//! Picks of the [`Reference`] policies, which see the true state or the board.

use crate::scenario::Reference;
use evenkeel_balance::Rng;

/// Chooses a server in `open`, which it may reorder, by `load`. `None` if there are none.
pub(super) fn choose(reference: Reference, open: &mut [u32], load: impl Fn(u32) -> u32, rng: &mut Rng) -> Option<u32> {
    match reference {
        Reference::ShortestQueue | Reference::CentralQueue => shortest(open, load, rng),
        Reference::Draws(d) => {
            let d = (d as usize).min(open.len());
            for i in 0..d {
                let other = i + rng.below((open.len() - i) as u32) as usize;
                open.swap(i, other);
            }
            shortest(&open[..d], load, rng)
        }
        Reference::DrawsWithReplacement(d) => {
            if open.is_empty() {
                return None;
            }
            let mut draw = || open[rng.below(open.len() as u32) as usize];
            let first = draw();
            Some((1..d).map(|_| draw()).fold(first, |best, other| if load(other) < load(best) { other } else { best }))
        }
    }
}

/// Server with the lowest load; ties are broken uniformly (reservoir of size 1).
fn shortest(among: &[u32], load: impl Fn(u32) -> u32, rng: &mut Rng) -> Option<u32> {
    let (mut best, mut least, mut equal) = (None, u32::MAX, 0);
    for &i in among {
        let load = load(i);
        if best.is_none() || load < least {
            (best, least, equal) = (Some(i), load, 1);
        } else if load == least {
            equal += 1;
            if rng.below(equal) == 0 {
                best = Some(i);
            }
        }
    }
    best
}

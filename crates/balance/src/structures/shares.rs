//! Shares of requests by weight, such as of a stable version and a canary: drawn for each request, or stable by a key.
//! Keys use weighted rendezvous hashing, as an exponential race (Efraimidis and Spirakis, 2006): the part whose clock
//! `-ln(u) / weight` rings first wins, where `u` depends on the key and the part's name only.

use super::rng::mix;

/// Parts with their weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    parts: Box<[Part]>,
    total: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Part {
    /// Hash of the part's name, which makes its numbers independent of the numbers of other parts.
    id: u64,
    weight: f64,
    /// Sum of the weights up to this part.
    end: u64,
}

impl Shares {
    /// Creates shares of parts, each with the hash of its name and its weight.
    pub fn new(parts: impl IntoIterator<Item = (u64, u32)>) -> Shares {
        let mut total = 0;
        let part = |(id, weight): (u64, u32)| {
            total += u64::from(weight);
            Part { id, weight: weight.into(), end: total }
        };
        let parts = parts.into_iter().map(part).collect();
        Shares { parts, total }
    }

    /// Index of the part for a random number; `None` if all weights are 0.
    #[inline]
    pub fn drawn(&self, random: u64) -> Option<usize> {
        let at = ((u128::from(random) * u128::from(self.total)) >> 64) as u64;
        self.parts.iter().position(|part| at < part.end)
    }

    /// Index of the part for the hash of a key; `None` if all weights are 0. Keys move only to parts whose share grows
    /// against another's, and from parts whose share shrinks. If a weight changes, or the parts are two, exactly the
    /// difference of the shares moves.
    pub fn of_key(&self, hash: u64) -> Option<usize> {
        let mut first: Option<(f64, usize)> = None;
        for (at, part) in self.parts.iter().enumerate().filter(|(_, part)| part.weight > 0.0) {
            // 53 bits, and a half more, so that it is above 0 and below 1.
            let uniform = ((mix(hash ^ part.id) >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64);
            let rings = -uniform.ln() / part.weight;
            if first.is_none_or(|(earliest, _)| rings < earliest) {
                first = Some((rings, at));
            }
        }
        first.map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rng::Rng;
    use super::*;

    const KEYS: usize = 100_000;

    fn shares(weights: &[u32]) -> Shares {
        Shares::new(weights.iter().enumerate().map(|(at, weight)| (mix(at as u64 + 1), *weight)))
    }

    fn keys() -> impl Iterator<Item = u64> {
        let mut rng = Rng::new(20_261_126);
        (0..KEYS).map(move |_| rng.next_u64())
    }

    /// Share of the keys that change their part, by the part before and after.
    fn moved(before: &[u32], after: &[u32]) -> Vec<((usize, usize), f64)> {
        let (before, after) = (shares(before), shares(after));
        let mut moved = std::collections::BTreeMap::new();
        for key in keys() {
            let (from, to) = (before.of_key(key).unwrap(), after.of_key(key).unwrap());
            if from != to {
                *moved.entry((from, to)).or_insert(0.0) += 1.0 / KEYS as f64;
            }
        }
        moved.into_iter().collect()
    }

    /// Five standard deviations of a share of [`KEYS`] keys, at most: sqrt(1/4 / 100,000) is 0.16 %.
    const BOUND: f64 = 0.008;

    #[test]
    fn parts_get_their_shares_by_draw_and_by_key() {
        for weights in [&[90, 10][..], &[1, 0, 3], &[5], &[1_000_000, 1, 999_999]] {
            let (shares, sum) = (shares(weights), f64::from(weights.iter().sum::<u32>()));
            let picks: [fn(&Shares, u64) -> Option<usize>; 2] = [Shares::drawn, Shares::of_key];
            for pick in picks {
                let mut counts = vec![0u32; weights.len()];
                keys().for_each(|key| counts[pick(&shares, key).unwrap()] += 1);
                for (count, weight) in counts.iter().zip(weights) {
                    let (got, want) = (f64::from(*count) / KEYS as f64, f64::from(*weight) / sum);
                    assert!((got - want).abs() < BOUND, "{weights:?}: {counts:?}");
                }
            }
        }
        assert_eq!((shares(&[0, 0]).drawn(7), shares(&[0, 0]).of_key(7), shares(&[]).drawn(0)), (None, None, None));
        assert_eq!((shares(&[3, 4]).drawn(u64::MAX), shares(&[3, 4]).drawn(0)), (Some(1), Some(0)));
    }

    #[test]
    fn of_two_parts_exactly_the_difference_moves_and_only_one_way() {
        for (before, after, direction) in
            [([95, 5], [90, 10], (0, 1)), ([50, 50], [75, 25], (1, 0)), ([9, 1], [8, 2], (0, 1))]
        {
            let moved = moved(&before, &after);
            let share = |weights: [u32; 2]| f64::from(weights[1]) / f64::from(weights[0] + weights[1]);
            let [(way, part)] = moved[..] else { panic!("{before:?} to {after:?}: {moved:?}") };
            assert_eq!(way, direction);
            assert!((part - (share(after) - share(before)).abs()).abs() < BOUND, "{before:?} to {after:?}: {moved:?}");
        }
        assert_eq!(moved(&[90, 10], &[180, 20]), [], "only the ratio counts");
    }

    #[test]
    fn of_several_parts_keys_move_only_to_the_one_that_grows() {
        for (after, to) in [([80, 10, 20], 2), ([100, 10, 10], 0)] {
            let moved = moved(&[80, 10, 10], &after);
            assert!(moved.iter().all(|((_, part), _)| *part == to), "{moved:?}");
            let sum: f64 = moved.iter().map(|(_, part)| part).sum();
            let share = f64::from(after[to]) / f64::from(after.iter().sum::<u32>());
            assert!((sum - (share - [0.8, 0.1, 0.1][to])).abs() < BOUND, "{moved:?}");
        }
        // Two weights change at once: none moves against the change, and little more than the 10 % that has to.
        let moved = moved(&[80, 10, 10], &[70, 10, 20]);
        let sum: f64 = moved.iter().map(|(_, part)| part).sum();
        assert!(moved.iter().all(|((from, to), _)| from < to) && sum < 0.115, "{moved:?}");
    }
}

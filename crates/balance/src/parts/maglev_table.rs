//! Maglev's lookup table of keys: each endpoint has its own permutation of the table's places and takes the first free
//! a place at each of its turns, until all are taken.
//!
//! Source: Eisenbud et al., Maglev: A Fast and Reliable Software Network Load Balancer (NSDI 2016), section 3.4. Turns
//! are by weight, interleaved as in Katran's second version. The number of places of each endpoint is fixed beforehand,
//! exactly.

use crate::endpoints::endpoint::EndpointId;
use crate::endpoints::set::{EndpointSet, Member};
use crate::structures::heap::IndexedHeap;
use crate::structures::rng::mix;
use std::sync::Arc;

/// The table of a set, shared by all workers.
#[derive(Debug)]
pub(crate) struct KeyTable {
    places: u32,
    /// Endpoints and weights that the table was made from, in the order of the set.
    made_of: Box<[(EndpointId, u32)]>,
    /// Owner of each place, as an index into the set's members.
    pub(crate) owners: Arc<[u32]>,
}

impl KeyTable {
    /// Returns the table of `set`, or `former` if that would be equal: changes of limits or health do not change the
    /// table.
    fn new(set: &EndpointSet, places: u32, former: Option<&Arc<KeyTable>>) -> Arc<KeyTable> {
        let members = set.members().iter().map(|m| (m.id, m.weight));
        if let Some(former) = former.filter(|f| f.places == places && f.made_of.iter().copied().eq(members.clone())) {
            return former.clone();
        }
        let owners = table(set.members(), places).into();
        Arc::new(KeyTable { places, made_of: members.collect(), owners })
    }

    /// Makes the table of a set for all workers, before any of them sees the set.
    pub(crate) fn prepare(set: &EndpointSet, places: u32, former: Option<&Arc<KeyTable>>) {
        set.prepare(|| KeyTable::new(set, places, former));
    }

    /// Returns the table of a set: all workers share it, and the first of them makes it if it does not exist
    /// yet. If the shared table has another size, as it may after a change of the configuration, the worker makes its
    /// own.
    pub(crate) fn of(set: &EndpointSet, places: u32, former: Option<&Arc<KeyTable>>) -> Arc<KeyTable> {
        KeyTable::prepare(set, places, former);
        let shared = set.prepared::<KeyTable>().filter(|table| table.places == places);
        shared.unwrap_or_else(|| KeyTable::new(set, places, former))
    }
}

/// Owner of each of `places` places, as an index into `members`; `places` must be prime. Depends on identities and
/// weights, but not on their order. O(places x ln places). Empty if there are no members.
pub(crate) fn table(members: &[Member], places: u32) -> Box<[u32]> {
    // Everything below is ordered by identity, so that the order of the configuration does not matter.
    let mut by_id: Vec<u32> = (0..members.len() as u32).collect();
    by_id.sort_unstable_by_key(|&i| members[i as usize].id);
    let mut left = quotas(members, &by_id, places);
    let mut filling = Filling::new(members, &by_id, places);
    if members.windows(2).all(|w| w[0].weight == w[1].weight) {
        // The quotas differ by at most a place: plain rounds.
        for _ in 0..left.iter().copied().max().unwrap_or(0) {
            for (rank, left) in left.iter_mut().enumerate().filter(|(_, left)| **left > 0) {
                filling.take(rank, by_id[rank]);
                *left -= 1;
            }
        }
        return filling.table;
    }
    let stride = |rank: u32| (1u64 << 40) / u64::from(members[by_id[rank as usize] as usize].weight);
    let mut turns = IndexedHeap::default();
    turns.clear(by_id.len());
    (0..by_id.len() as u32).filter(|&r| left[r as usize] > 0).for_each(|r| turns.push(r, (stride(r), r)));
    while let Some((rank, (due, _))) = turns.first().and_then(|r| Some((r, turns.key(r)?))) {
        filling.take(rank as usize, by_id[rank as usize]);
        left[rank as usize] -= 1;
        if left[rank as usize] == 0 {
            turns.remove(rank);
        } else {
            turns.update(rank, (due + stride(rank), rank));
        }
    }
    filling.table
}

/// A lookup table in construction.
struct Filling {
    table: Box<[u32]>,
    /// Free and taken places, a bit each: a thirty-second of the table's size, so it stays in the fastest cache.
    taken: Vec<u64>,
    walks: Vec<Walk>,
}

impl Filling {
    fn new(members: &[Member], by_id: &[u32], places: u32) -> Filling {
        let size = if members.is_empty() { 0 } else { places as usize };
        let walks = by_id.iter().map(|&i| Walk::new(members[i as usize].id.0, places)).collect();
        Filling { table: vec![0; size].into(), taken: vec![0; size / 64 + 1], walks }
    }

    /// Gives the next free place on its walk to the endpoint of this rank.
    #[inline]
    fn take(&mut self, rank: usize, owner: u32) {
        let (walk, places) = (&mut self.walks[rank], self.table.len() as u32);
        while self.taken[walk.at as usize / 64] >> (walk.at % 64) & 1 == 1 {
            walk.step(places);
        }
        self.taken[walk.at as usize / 64] |= 1 << (walk.at % 64);
        self.table[walk.at as usize] = owner;
    }
}

/// Number of places of each endpoint, by rank: its share rounded down, plus 1 for those with the largest
/// remainders.
fn quotas(members: &[Member], by_id: &[u32], places: u32) -> Vec<u32> {
    let total: u64 = members.iter().map(|m| u64::from(m.weight)).sum();
    let exact = |i: &u32| u64::from(places) * u64::from(members[*i as usize].weight);
    let mut quotas: Vec<u32> = by_id.iter().map(|i| (exact(i) / total) as u32).collect();
    let mut ranks: Vec<u32> = (0..by_id.len() as u32).collect();
    ranks.sort_by_key(|&r| std::cmp::Reverse(exact(&by_id[r as usize]) % total));
    let missing = places - quotas.iter().sum::<u32>();
    ranks.iter().take(missing as usize).for_each(|&r| quotas[r as usize] += 1);
    quotas
}

/// An endpoint's walk through the places. Steps of a fixed length visit all of them, as their number is prime.
struct Walk {
    at: u32,
    skip: u32,
}

impl Walk {
    fn new(id: u64, places: u32) -> Walk {
        let below = |n: u32, salt: u64| (mix(id ^ salt) % u64::from(n)) as u32;
        Walk { at: below(places, 0x6f66_6673_6574), skip: 1 + below(places - 1, 0x736b_6970) }
    }

    #[inline]
    fn step(&mut self, places: u32) {
        self.at += self.skip;
        if self.at >= places {
            self.at -= places;
        }
    }
}

/// True if `n` is prime, by trial division.
pub(crate) fn is_prime(n: u64) -> bool {
    n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}

/// The prime closest to `n`; of two the smaller.
pub(crate) fn nearest_prime(n: u64) -> u64 {
    let near = (0..).flat_map(|d| [n.saturating_sub(d), n + d]);
    near.into_iter().find(|&p| is_prime(p)).expect("there is a prime between n and 2n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::endpoint::EndpointId;
    use crate::endpoints::set::Slot;
    use crate::machines::slow_start::FULL;

    fn members(weights: &[u32]) -> Vec<Member> {
        let member = |(i, &weight): (usize, &u32)| {
            let id = EndpointId::of(&format!("10.0.0.{i}:80"));
            Member { slot: Slot(i as u32), id, weight, in_flight_max: 0, ramp: FULL, trial: 0, tier: 0 }
        };
        weights.iter().enumerate().map(member).collect()
    }

    fn owners(members: &[Member], places: u32) -> Vec<EndpointId> {
        table(members, places).iter().map(|&i| members[i as usize].id).collect()
    }

    #[test]
    fn shares_are_the_weights_within_one_place() {
        for weights in [vec![1; 7], vec![10, 1, 1, 1], vec![65_535, 1], (1..=50).collect(), vec![3]] {
            let (m, places) = (members(&weights), 65_537u32);
            let got = table(&m, places);
            let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
            for (i, &w) in weights.iter().enumerate() {
                let count = got.iter().filter(|&&o| o == i as u32).count() as f64;
                let want = f64::from(places) * f64::from(w) / total as f64;
                assert!((count - want).abs() < 1.0, "{weights:?}[{i}]: {count} for {want}");
            }
        }
    }

    #[test]
    fn the_order_of_the_configuration_does_not_matter() {
        let mut m = members(&[1, 5, 2, 1, 9]);
        let first = owners(&m, 251);
        m.rotate_left(2);
        m.swap(0, 3);
        assert_eq!(first, owners(&m, 251));
    }

    #[test]
    fn few_places_change_their_owner_without_need() {
        // All places of the endpoint that leaves must change: 1 / n. The paper (figure 12) finds a few percent more
        // when an endpoint of 1000 leaves a table of 65,537. The limit here is 2 %, where a modulus would move 1 - 1/n
        // of all.
        for (n, weights) in [(10, [1, 1]), (100, [1, 1]), (50, [1, 7])] {
            let weights: Vec<u32> = (0..n).map(|i| weights[i % 2]).collect();
            let m = members(&weights);
            let mut fewer = m.clone();
            let gone = fewer.remove(n / 3).id;
            let (before, after) = (owners(&m, 65_537), owners(&fewer, 65_537));
            let moved = before.iter().zip(&after).filter(|(a, b)| a != b && **a != gone).count();
            assert!(moved as f64 <= 0.02 * 65_537.0, "{n} endpoints: {moved} places moved that had no reason to");
        }
    }

    #[test]
    fn more_endpoints_than_places_is_no_fault() {
        assert_eq!(table(&members(&vec![1; 300]), 251).len(), 251);
        assert!(table(&[], 251).is_empty());
    }

    #[test]
    fn knows_primes() {
        let primes: Vec<u64> = (0..30).filter(|&n| is_prime(n)).collect();
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
        assert_eq!((nearest_prime(65_536), nearest_prime(1000), nearest_prime(251)), (65_537, 997, 251));
        assert!(is_prime(5_000_011));
    }
}

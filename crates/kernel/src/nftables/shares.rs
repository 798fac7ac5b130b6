//! Shares of endpoints as ranges of numbers: a rule of nftables looks a random number, a turn or a hash up there.

use crate::service::Member;
use evenkeel_config::planes::algorithms::NFTABLES_ROUND;

/// Largest modulus of random numbers, so that scaled weights keep their ratios to a millionth.
const RANDOM_MAX: u64 = 1 << 24;

/// Ranges of numbers below `modulus`, each with the number of its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    pub modulus: u64,
    /// First and last number of each range, and the endpoint, in ascending order without gaps.
    pub ranges: Vec<(u64, u64, u32)>,
}

impl Shares {
    /// Returns shares by weight for uniform random numbers. Members of weight 0 have none.
    pub fn random(members: &[Member]) -> Shares {
        let weights = scaled(members, RANDOM_MAX);
        let mut shares = Shares { modulus: 0, ranges: Vec::new() };
        for (member, weight) in members.iter().zip(weights).filter(|(_, weight)| *weight > 0) {
            shares.push(weight, member.id);
        }
        shares
    }

    /// Returns a round in which turns of each member are as far apart as its weight allows.
    pub fn round(members: &[Member]) -> Shares {
        let weights = scaled(members, NFTABLES_ROUND);
        let places: u64 = weights.iter().sum();
        let mut shares = Shares { modulus: 0, ranges: Vec::new() };
        // Smooth weighted round robin: the member that is furthest behind its share gets the place.
        let mut behind: Vec<i64> = vec![0; weights.len()];
        for _ in 0..places {
            behind.iter_mut().zip(&weights).for_each(|(behind, weight)| *behind += *weight as i64);
            let Some(next) = (0..behind.len()).rev().max_by_key(|at| behind[*at]) else { break };
            behind[next] -= places as i64;
            shares.push(1, members[next].id);
        }
        shares
    }

    /// Returns the places of a table of indexes into the serving members, without places of members that `keeps`
    /// rejects.
    pub fn table(members: &[Member], table: &[u32], keeps: impl Fn(&Member) -> bool) -> Shares {
        let serving: Vec<&Member> = members.iter().filter(|member| member.weight > 0).collect();
        let mut shares = Shares { modulus: 0, ranges: Vec::new() };
        for member in table.iter().filter_map(|at| serving.get(*at as usize)).filter(|member| keeps(member)) {
            shares.push(1, member.id);
        }
        shares
    }

    fn push(&mut self, places: u64, id: u32) {
        let last = self.modulus + places - 1;
        match self.ranges.last_mut() {
            Some((_, end, of)) if *of == id => *end = last,
            _ => self.ranges.push((self.modulus, last, id)),
        }
        self.modulus += places;
    }
}

/// Weights whose sum is at most about `max`, in the smallest whole numbers; at least 1 for a weight that is not 0.
fn scaled(members: &[Member], max: u64) -> Vec<u64> {
    let weights: Vec<u64> = members.iter().map(|member| u64::from(member.weight)).collect();
    let divisor = weights.iter().copied().filter(|weight| *weight > 0).fold(0, gcd).max(1);
    let sum: u64 = weights.iter().map(|weight| weight / divisor).sum();
    let scale = |weight: &u64| match weight {
        0 => 0,
        _ if sum <= max => weight / divisor,
        _ => (u128::from(weight / divisor) * u128::from(max) / u128::from(sum)).max(1) as u64,
    };
    weights.iter().map(scale).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::State;
    use evenkeel_balance::params::Value;
    use evenkeel_balance::{EndpointSpec, Instant, Params, Pool, Rng, algorithms};
    use evenkeel_config::planes::algorithms::{
        NFTABLES_HASH, NFTABLES_HASH_ENDPOINTS, NFTABLES_HASH_ERROR, NFTABLES_ROUND_ERROR,
    };

    fn members(weights: &[u32]) -> Vec<Member> {
        let one = |(at, weight): (usize, &u32)| Member {
            id: at as u32 + 1,
            addr: ([127, 0, 0, 1], 80).into(),
            weight: *weight,
            state: State::Serving,
        };
        weights.iter().enumerate().map(one).collect()
    }

    fn counts(shares: &Shares, n: usize) -> Vec<u64> {
        let mut counts = vec![0; n];
        shares.ranges.iter().for_each(|(first, last, id)| counts[*id as usize - 1] += last - first + 1);
        counts
    }

    #[test]
    fn random_shares_are_in_proportion_and_have_no_gaps() {
        for weights in [vec![1], vec![5, 3, 2], vec![500, 0, 300, 200], vec![1 << 24, 1, 1 << 24], vec![7; 1000]] {
            let members = members(&weights);
            let shares = Shares::random(&members);
            let mut next = 0;
            for (first, last, _) in &shares.ranges {
                assert!(*first == next && last >= first);
                next = last + 1;
            }
            assert!(next == shares.modulus && next <= RANDOM_MAX + weights.len() as u64);
            let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
            for (count, weight) in counts(&shares, weights.len()).iter().zip(&weights) {
                let share = *count as f64 / shares.modulus as f64;
                assert!((share - f64::from(*weight) / sum).abs() < 1e-6, "{weights:?}: {share}");
                assert_eq!(*count > 0, *weight > 0);
            }
        }
    }

    #[test]
    fn turns_of_a_round_are_apart() {
        let shares = Shares::round(&members(&[5, 3, 2]));
        let order: Vec<u32> =
            shares.ranges.iter().flat_map(|(first, last, id)| (*first..=*last).map(|_| *id)).collect();
        assert_eq!(order, [1, 2, 3, 1, 1, 2, 1, 3, 2, 1]);
        assert_eq!(counts(&Shares::round(&members(&[1, 1, 1, 0])), 4), [1, 1, 1, 0]);
        assert!(Shares::round(&members(&[65_535, 7])).modulus <= NFTABLES_ROUND + 1);
    }

    #[test]
    fn no_member_that_serves_has_no_shares() {
        assert_eq!(Shares::random(&members(&[0, 0])), Shares { modulus: 0, ranges: Vec::new() });
        assert_eq!(Shares::round(&[]).modulus, 0);
    }

    #[test]
    fn a_table_refers_to_members_that_serve() {
        let shares = Shares::table(&members(&[1, 0, 1]), &[0, 1, 1, 0], |_| true);
        assert_eq!(shares.ranges, [(0, 0, 1), (1, 2, 3), (3, 3, 1)]);
        let part = Shares::table(&members(&[1, 0, 1]), &[0, 1, 1, 0], |member| member.id == 3);
        assert_eq!((part.modulus, &part.ranges[..]), (2, &[(0, 1, 3)][..]));
    }

    #[test]
    fn scaled_rounds_are_as_near_as_the_page_of_planes_says() {
        let mut rng = Rng::new(5);
        for _ in 0..500 {
            let weights: Vec<u32> = (0..2 + rng.below(40)).map(|_| 1 + rng.below(65_535)).collect();
            let shares = Shares::round(&members(&weights));
            let (n, sum) = (weights.len(), weights.iter().map(|weight| f64::from(*weight)).sum::<f64>());
            for (count, weight) in counts(&shares, n).iter().zip(&weights) {
                let off = (*count as f64 / shares.modulus as f64 - f64::from(*weight) / sum).abs();
                assert!(off <= NFTABLES_ROUND_ERROR * n as f64, "{weights:?}: {off}");
            }
        }
    }

    #[test]
    fn tables_of_clients_are_as_even_as_the_page_of_planes_says() {
        let maglev = algorithms::find("maglev").expect("it is in the registry");
        let mut params = Params::defaults(maglev.params);
        params.set("table", Value::Int(NFTABLES_HASH)).expect("a prime in its range");
        for n in 2..=NFTABLES_HASH_ENDPOINTS {
            let specs: Vec<EndpointSpec> = (0..n).map(|at| EndpointSpec::new(&format!("10.0.0.{at}:80"))).collect();
            let mut pool = Pool::new(1);
            pool.update(&specs, Instant(0));
            let slots = maglev.table.expect("it has a table")(&pool.view().set, &params);
            let table: Vec<u32> = slots.iter().map(|slot| slot.index() as u32).collect();
            let shares = Shares::table(&members(&vec![1; n]), &table, |_| true);
            let fair = shares.modulus as f64 / n as f64;
            for count in counts(&shares, n) {
                assert!((count as f64 / fair - 1.0).abs() <= NFTABLES_HASH_ERROR, "{n}: {count} of {fair}");
            }
        }
    }
}

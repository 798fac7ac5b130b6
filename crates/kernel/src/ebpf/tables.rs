//! Members of a service as programs read them: places with Vose's aliases, and orders of slots.

use super::layout::Place;
use crate::service::{Member, Policy};
use evenkeel_config::planes::algorithms::{EBPF_LEASTCONN, EBPF_ROUND};

/// Least slots of an order of turns whose weights are too large to be exact; 16 for each member, if that is more. A
/// share is off by rounding, and as each member has a slot at least.
const TURNS_MAX: u64 = EBPF_ROUND;

/// Draws that a program makes at most.
pub const DRAWS_MAX: u32 = 16;
/// Members up to which a program compares all: above that, as many in a row.
pub const SCAN_MAX: usize = EBPF_LEASTCONN;

/// Places of members, in their order, by Vose's method: exact up to 2^-32 of a share.
pub fn places(members: &[&Member]) -> Vec<Place> {
    let n = members.len() as u128;
    let total: u128 = members.iter().map(|member| u128::from(member.weight)).sum();
    let mut places: Vec<Place> = (0u32..)
        .zip(members)
        .map(|(i, member)| Place { endpoint: member.id, weight: member.weight, threshold: u32::MAX, alias: i })
        .collect();
    // Parts of a place, of `total`.
    let mut part: Vec<u128> = members.iter().map(|member| u128::from(member.weight) * n).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..members.len()).partition(|&i| part[i] < total);
    while let (Some(&less), Some(&more)) = (small.last(), large.last()) {
        small.pop();
        places[less].threshold = ((part[less] << 32) / total) as u32;
        places[less].alias = more as u32;
        part[more] -= total - part[less];
        if part[more] < total {
            large.pop();
            small.push(more);
        }
    }
    places
}

/// Order of turns: each member as often as its weight, evenly spread.
pub fn turns(members: &[&Member]) -> Vec<u32> {
    let divisor = members.iter().fold(0, |divisor, member| common_divisor(divisor, member.weight)).max(1);
    let mut times: Vec<u64> = members.iter().map(|member| u64::from(member.weight / divisor)).collect();
    let total: u64 = times.iter().sum();
    let most = TURNS_MAX.max(16 * members.len() as u64);
    if total > most {
        for times in &mut times {
            *times =
                ((u128::from(*times) * u128::from(most) + u128::from(total / 2)) / u128::from(total)).max(1) as u64;
        }
    }
    // The k-th turn of a member is due at (k + 1/2) / times of the round.
    let mut due: Vec<(f64, u32)> = Vec::new();
    for (i, &times) in (0u32..).zip(&times) {
        due.extend((0..times).map(|k| ((k as f64 + 0.5) / times as f64, i)));
    }
    due.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    due.into_iter().map(|(_, i)| i).collect()
}

fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// Slots of a table of Maglev for a single family: slots of members of the other family go to the next slot's member.
/// `kept` has the new index of each serving member, or `None` if it is of the other family.
pub fn slots(table: &[u32], kept: &[Option<u32>]) -> Vec<u32> {
    let own = |slot: usize| kept.get(table[slot % table.len()] as usize).copied().flatten();
    let Some(mut next) = (0..table.len()).find_map(own) else { return Vec::new() };
    let mut slots: Vec<u32> = (0..table.len())
        .rev()
        .map(|slot| {
            next = own(slot).unwrap_or(next);
            next
        })
        .collect();
    slots.reverse();
    slots
}

/// Slots of a policy that has a table.
pub fn order(policy: &Policy, members: &[&Member], kept: &[Option<u32>]) -> Vec<u32> {
    match policy {
        Policy::RoundRobin => turns(members),
        Policy::Maglev { table } => slots(table, kept),
        Policy::Random { .. } | Policy::LeastConn => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::State;
    use evenkeel_balance::Rng;
    use evenkeel_config::planes::algorithms::EBPF_ROUND_ERROR;

    fn members(weights: &[u32]) -> Vec<Member> {
        (1..)
            .zip(weights)
            .map(|(id, &weight)| Member { id, addr: "10.0.0.1:80".parse().unwrap(), weight, state: State::Serving })
            .collect()
    }

    #[test]
    fn scaled_rounds_are_as_near_as_the_page_of_planes_says() {
        let mut rng = Rng::new(5);
        for round in 0..300 {
            let n = 2 + rng.below(600) as usize;
            // Half of them have a single heavy member, of which all others take their least turn.
            let skewed = round % 2 == 0;
            let weight = |at| if skewed && at > 0 { 1 + rng.below(3) } else { 1 + rng.below(65_535) };
            let weights: Vec<u32> = (0..n).map(weight).collect();
            let members = members(&weights);
            let turns = turns(&members.iter().collect::<Vec<_>>());
            let mut counts = vec![0u32; n];
            turns.iter().for_each(|at| counts[*at as usize] += 1);
            let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
            for (count, weight) in counts.iter().zip(&weights) {
                let off = (f64::from(*count) / turns.len() as f64 - f64::from(*weight) / sum).abs();
                assert!(off <= EBPF_ROUND_ERROR * n as f64, "{n} members, a weight of {weight}: off by {off}");
            }
        }
    }

    #[test]
    fn places_share_by_weight() {
        for weights in [&[1u32][..], &[1, 1, 1], &[70, 10, 10, 10], &[1, 1 << 24, 5], &[3, 0x00ff_ffff, 1, 1, 77]] {
            let members = members(weights);
            let places = places(&members.iter().collect::<Vec<_>>());
            let mut share = vec![0.0; places.len()];
            for (i, place) in places.iter().enumerate() {
                let own =
                    (f64::from(place.threshold) + if place.alias as usize == i { 1.0 } else { 0.0 }) / 2f64.powi(32);
                share[i] += own;
                share[place.alias as usize] += 1.0 - own;
            }
            let total: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
            for (share, &weight) in share.iter().zip(weights) {
                let error = share / places.len() as f64 - f64::from(weight) / total;
                assert!(error.abs() < 1e-8, "{weights:?}: off by {error}");
            }
        }
    }

    #[test]
    fn turns_are_evenly_spread() {
        let members = members(&[6, 2, 4]);
        assert_eq!(turns(&members.iter().collect::<Vec<_>>()), [0, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn turns_of_large_weights_are_near() {
        let members = members(&[1 << 24, 3, (1 << 23) + 1]);
        let turns = turns(&members.iter().collect::<Vec<_>>());
        let count = |i| turns.iter().filter(|&&turn| turn == i).count();
        assert!(count(1) == 1 && count(0).abs_diff(2 * count(2)) <= 2, "{} {} {}", count(0), count(1), count(2));
    }

    #[test]
    fn slots_of_the_other_family_go_to_the_next() {
        assert_eq!(slots(&[0, 1, 2, 1], &[Some(0), None, Some(1)]), [0, 1, 1, 0]);
        assert_eq!(slots(&[0, 0], &[None]), [0u32; 0]);
    }
}

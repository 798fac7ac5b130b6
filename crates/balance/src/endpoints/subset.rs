//! Deterministic subsetting: the part of a large pool that this instance uses, so that hundreds of instances need not
//! each keep connections to, and check the health of, hundreds of endpoints.
//!
//! All instances put the endpoints of a tier on a ring at equal distances, in the order of their identities. Each takes
//! `size` of them from its own place on, which depends on its number alone. The places form the van der Corput
//! sequence: 0, 1/2, 1/4, 3/4, 1/8, ... It follows that
//! - an instance that joins or leaves changes nothing for the others;
//! - if instances are numbered from 0, the numbers of instances per endpoint differ by at most 1 if there is a
//!   power of two of them, and otherwise by at most 1 for each 1 among the binary digits of their number, as the
//!   first k places consist of that many even rings;
//! - an endpoint that joins or leaves moves the part of an instance by less than a place. With 20 of 100 endpoints
//!   used, an instance changes 0.43 of them on average, where 0.2 are inevitable, and never more than two;
//! - weights hold among the endpoints that an instance uses, and over all instances as far as each part has the mean
//!   weight of the whole.
//!
//! Source: van der Corput, Verteilungsfunktionen (1935). The aim is the same as of deterministic subsetting in Beyer et
//! al., Site Reliability Engineering (2016), chapter 20, where a part is taken from a shuffled round, and each change
//! shuffles anew.

use crate::endpoints::endpoint::{EndpointId, EndpointSpec, stable_hash};
use std::collections::BTreeSet;

/// The part of a pool that an instance uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subset {
    /// Endpoints to use from each tier, or all of a tier that has no more; at least 1.
    pub size: u32,
    /// Number of this instance. Instances numbered from 0 share best; other numbers share as well as random numbers.
    pub instance: u64,
}

impl Subset {
    /// Returns the part of the instance with this name: by the number at its end, as in `evenkeel-7`, or else by its
    /// hash.
    pub fn named(size: u32, instance: &str) -> Subset {
        let head = instance.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = instance[head.len()..].parse().ok();
        Subset { size, instance: number.unwrap_or_else(|| stable_hash(instance.as_bytes())) }
    }

    /// Returns the endpoints that this instance uses, in the order given. O(n log n).
    pub fn of(&self, specs: &[EndpointSpec]) -> Vec<EndpointSpec> {
        let ring: BTreeSet<(u8, EndpointId)> = specs.iter().map(|s| (s.priority, s.id)).collect();
        let ring: Vec<_> = ring.into_iter().collect();
        let mut used: BTreeSet<(u8, EndpointId)> = BTreeSet::new();
        for tier in ring.chunk_by(|a, b| a.0 == b.0) {
            let place = (u128::from(self.instance.reverse_bits()) * tier.len() as u128) >> 64;
            used.extend(tier.iter().cycle().skip(place as usize).take(tier.len().min(self.size as usize)));
        }
        specs.iter().filter(|s| used.contains(&(s.priority, s.id))).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::rng::Rng;

    fn specs(n: usize) -> Vec<EndpointSpec> {
        (0..n).map(|i| EndpointSpec::new(&format!("10.0.0.{i}:80"))).collect()
    }

    fn part(size: u32, instance: u64, specs: &[EndpointSpec]) -> BTreeSet<EndpointId> {
        Subset { size, instance }.of(specs).iter().map(|s| s.id).collect()
    }

    #[test]
    fn instances_get_their_size_and_endpoints_are_used_equally_often() {
        let mut rng = Rng::new(1);
        for case in 0..300 {
            let (n, size, instances) = (1 + rng.below(150), 1 + rng.below(40), 1 + u64::from(rng.below(300)));
            let specs = specs(n as usize);
            let mut uses = vec![0u32; n as usize];
            for instance in 0..instances {
                let part = part(size, instance, &specs);
                assert_eq!(part.len(), size.min(n) as usize, "case {case}");
                specs.iter().zip(&mut uses).for_each(|(s, uses)| *uses += u32::from(part.contains(&s.id)));
            }
            let apart = uses.iter().max().unwrap() - uses.iter().min().unwrap();
            let bound = instances.count_ones();
            assert!(apart <= bound, "{size} of {n} for {instances} instances: uses are {apart} apart, not {bound}");
        }
    }

    #[test]
    fn an_endpoint_that_joins_or_leaves_changes_little() {
        let (all, size) = (specs(100), 20);
        let (mut changed, mut instances) = (0, 0);
        for gone in 0..all.len() {
            let mut fewer = all.clone();
            fewer.remove(gone);
            for instance in 0..64 {
                let (before, after) = (part(size, instance, &all), part(size, instance, &fewer));
                let new = after.difference(&before).count();
                assert!(new <= 2, "without {gone}, instance {instance} has {new} new ones");
                (changed, instances) = (changed + new, instances + 1);
            }
        }
        let mean = f64::from(changed as u32) / f64::from(instances);
        println!("{mean:.3} of {size} change on average");
        assert!(mean < 0.6, "{mean}: 1/3 by the move and 1/5 for the one that is gone");
    }

    #[test]
    fn each_tier_has_its_part_and_the_order_of_the_file_does_not_matter() {
        let mut specs = specs(30);
        specs[20..].iter_mut().for_each(|s| s.priority = 1);
        for instance in [0, 1, 5, u64::MAX] {
            let chosen = Subset { size: 8, instance }.of(&specs);
            assert_eq!([0, 1].map(|tier| chosen.iter().filter(|s| s.priority == tier).count()), [8, 8]);
            let mut turned = specs.clone();
            turned.reverse();
            assert_eq!(part(8, instance, &specs), part(8, instance, &turned));
        }
        assert_eq!(Subset { size: 99, instance: 3 }.of(&specs), specs);
    }

    #[test]
    fn names_with_a_number_are_told_apart_by_it() {
        assert_eq!(["evenkeel-12", "12", "a0"].map(|name| Subset::named(1, name).instance), [12, 12, 0]);
        assert_ne!(Subset::named(1, "edge").instance, Subset::named(1, "core").instance);
        assert_ne!(Subset::named(1, "99999999999999999999").instance, 0, "too long for a number");
    }
}

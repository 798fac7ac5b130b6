//! Weights of destinations in the range of IPVS, by scheduler.

use evenkeel_config::planes::algorithms::{IPVS_HASH, IPVS_ROUND};

/// Largest weight of schedulers that only compare or draw by weights.
const MAX: u32 = 65_535;
/// Largest weight of `wrr`. It serves the heavier destinations alone before lighter destinations have their turn: with
/// weights of 65,535 and 6,553, tens of thousands of connections in a row. With this limit, ratios are kept to a
/// hundredth of the largest weight, and a run is at most as long.
const WRR_MAX: u32 = IPVS_ROUND;
/// Slots of the table of `mh`, as kernels are built by default.
const MH_SLOTS: f64 = IPVS_HASH as f64;

/// Scales shares to weights of a scheduler: in proportion as far as its range allows, at least 1, and 0 stays 0.
pub(super) fn scaled(scheduler: &str, shares: &[u32]) -> Vec<u32> {
    let serving = shares.iter().filter(|share| **share > 0).count();
    let largest = shares.iter().copied().max().unwrap_or(0);
    if largest == 0 {
        return vec![0; shares.len()];
    }
    let divisor = shares.iter().copied().fold(0, gcd);
    let sum: u64 = shares.iter().map(|share| u64::from(*share)).sum();
    let max = match scheduler {
        "wrr" => f64::from(WRR_MAX),
        // Destinations fill the table in rounds, each as many slots as its weight, until it is full: the last round may
        // stop before the last destination. Weights of sum S are wrong by about n/2S of a share for rounding, and by
        // S/4093 of a share for the last round: the sum of both is least here.
        "mh" => (f64::from(largest) / sum as f64 * (serving as f64 * MH_SLOTS / 2.0).sqrt()).max(1.0),
        // It draws a number from 0 to the sum, both included, so that the first destination is drawn too often by 1 of
        // the sum: weights are large. The kernel adds them in 31 bits.
        "twos" => f64::from(MAX).min((f64::from(i32::MAX) / serving as f64).floor() - 1.0).max(1.0),
        _ => f64::from(MAX),
    };
    // Whole multiples are exact.
    let exact = f64::from(largest / divisor);
    let scale = if scheduler == "twos" {
        if exact <= max { (max / exact).floor() / f64::from(divisor) } else { max / f64::from(largest) }
    } else if exact <= max {
        1.0 / f64::from(divisor)
    } else {
        max / f64::from(largest)
    };
    let weight = |share: u32| if share == 0 { 0 } else { ((f64::from(share) * scale).round() as u32).max(1) };
    shares.iter().map(|share| weight(*share)).collect()
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ratios_of_small_numbers_are_exact() {
        assert_eq!(scaled("wrr", &[1 << 24, 1 << 23, 0]), [2, 1, 0]);
        assert_eq!(scaled("wlc", &[3000, 1000]), [3, 1]);
        assert_eq!(scaled("mh", &[500, 500, 500]), [1, 1, 1]);
    }

    #[test]
    fn twos_has_large_weights() {
        assert_eq!(scaled("twos", &[1, 1]), [65_535, 65_535]);
        assert_eq!(scaled("twos", &[2, 1, 0]), [65_534, 32_767, 0]);
        let many = scaled("twos", &vec![7; 1 << 20]);
        let sum: u64 = many.iter().map(|weight| u64::from(*weight)).sum();
        assert!(sum < 1 << 31, "{sum}");
    }

    #[test]
    fn no_destination_serves_without_weights() {
        assert_eq!(scaled("wlc", &[0, 0]), [0, 0]);
        assert!(scaled("wlc", &[]).is_empty());
    }

    /// Fills a table of `mh` as the kernel does, by counts alone: each round, a destination takes as many slots as its
    /// weight.
    fn slots(weights: &[u32]) -> Vec<u32> {
        let divisor = weights.iter().copied().fold(0, gcd).max(1);
        let mut taken = vec![0; weights.len()];
        let mut left = MH_SLOTS as u32;
        while left > 0 {
            for (taken, weight) in taken.iter_mut().zip(weights) {
                let take = (weight / divisor).min(left);
                *taken += take;
                left -= take;
            }
        }
        taken
    }

    #[test]
    fn the_table_of_mh_keeps_shares_of_weights_without_a_common_divisor() {
        // Both errors are least at a sum of 64 for two destinations: 1.6 % each.
        let taken = slots(&scaled("mh", &[4001, 4000]));
        assert!(taken[0].abs_diff(taken[1]) < 4093 / 25, "{taken:?}");
    }

    proptest! {
        #[test]
        fn weights_keep_order_and_range(shares in prop::collection::vec(0u32..=1 << 24, 1..50)) {
            for (scheduler, max) in [("wrr", WRR_MAX), ("wlc", MAX), ("twos", MAX), ("mh", 4093)] {
                let weights = scaled(scheduler, &shares);
                prop_assert!(weights.iter().all(|weight| *weight <= max), "{scheduler}: {weights:?}");
                for (a, b) in shares.iter().zip(&weights) {
                    prop_assert_eq!(*a == 0, *b == 0);
                    for (c, d) in shares.iter().zip(&weights) {
                        prop_assert!(a > c || b <= d, "{}: {:?}", scheduler, weights);
                    }
                }
            }
        }

        #[test]
        fn wlc_keeps_ratios(shares in prop::collection::vec(1u32..=1 << 24, 1..50)) {
            let weights = scaled("wlc", &shares);
            let (sum, heavy) = (f64::from(*shares.iter().max().unwrap()), f64::from(*weights.iter().max().unwrap()));
            for (share, weight) in shares.iter().zip(&weights) {
                // Rounding, and the least weight.
                prop_assert!((f64::from(*weight) / heavy - f64::from(*share) / sum).abs() <= 1.0 / heavy);
            }
        }
    }
}

//! Balls into bins: maximum load for n balls into n bins with d choices. Source: Azar, Broder, Karlin and Upfal,
//! Balanced Allocations (1994); shares from published simulations.

use super::farm::{draws, farm, runs};
use evenkeel_sim::scenario::{Load, Serving};
use evenkeel_sim::work::Work;

/// Frequency of each maximum, over `seeds` experiments.
fn maxima(n: usize, d: u64, seeds: u64) -> [f64; 16] {
    // All requests arrive at once, and none is done before the last has arrived.
    let mut scenario = farm(n, Serving::Unlimited, Work::Constant(1_000_000_000), 0.5, n as u64);
    scenario.load = Load::Trace { at_ns: (0..n as u64).collect() };
    let mut seen = [0.0; 16];
    for run in runs(&scenario, &draws(d), seeds) {
        let most = run.services[0].servers.iter().map(|s| s.in_flight_max).max().unwrap();
        seen[most as usize] += 1.0 / seeds as f64;
    }
    seen
}

#[test]
fn two_choices_make_the_maximum_small() {
    // 400 experiments: 5 standard deviations of a share of 0.4 are 0.12.
    let one = maxima(256, 1, 400);
    assert!((one[4] - 0.42).abs() < 0.13 && (one[5] - 0.44).abs() < 0.13, "{one:?}");
    let two = maxima(256, 2, 400);
    assert!((two[3] - 0.885).abs() < 0.09 && (two[2] - 0.11).abs() < 0.09, "{two:?}");
}

#[test]
#[ignore = "long: make theory"]
fn and_grow_hardly_at_all() {
    let two = maxima(4096, 2, 200);
    assert!(two[3] > 0.93, "4096 bins, two choices: {two:?}");
    let two = maxima(65_536, 2, 60);
    assert!((two[3] - 0.64).abs() < 0.3 && two[3] + two[4] > 0.99, "65,536 bins, two choices: {two:?}");
    assert!(maxima(65_536, 3, 20)[3] > 0.99, "65,536 bins, three choices");
    let one = maxima(1_000_000, 1, 12);
    assert!(one[8] + one[9] + one[10] + one[11] > 0.99 && one[9] > 0.3, "a million bins, one choice: {one:?}");
    assert!(maxima(1_000_000, 3, 4)[3] > 0.99, "a million bins, three choices");
}

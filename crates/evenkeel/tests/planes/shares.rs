//! Shares of endpoints: by weight under each algorithm that promises it, and by its ramp while it starts
//! slowly.
//!
//! The bound is that of the contract (`crates/balance/tests/every_algorithm/shares.rs`): five standard deviations of a draw
//! by weight, which is passed once in 1.7 million, and one turn for each worker that takes turns by itself.

use super::plane::Plane;
use super::setup::{Setup, WORKERS, endpoints};
use super::site::Site;
use super::{CHECKED, in_each_plane, sites};
use evenkeel_balance::{Algorithm, algorithms};

const QUESTIONS: usize = 600;

/// The algorithms of a plane that promise shares when questions come one by one.
fn algorithms(plane: &'static dyn Plane) -> impl Iterator<Item = &'static Algorithm> {
    algorithms::ALL.iter().copied().filter(|a| a.promises.shares_when_idle && plane.serves(a))
}

/// Configuration of an algorithm. A question may come before the end of the one before it is counted, and should not go
/// elsewhere because of that load.
fn balance(algorithm: &Algorithm) -> String {
    let has_bound = algorithm.params.iter().any(|param| param.name == "bound");
    let params = if has_bound { "bound = 10" } else { "" };
    format!("balance = {{ {} = {{ {params} }} }}", algorithm.name)
}

/// Checks that so many of `n` are a share of `low` to `high`.
#[track_caller]
fn check(count: usize, n: usize, low: f64, high: f64, what: &str) {
    let n = n as f64;
    let slack = |p: f64| 5.0 * (n * p * (1.0 - p)).sqrt() + WORKERS as f64 + 1.0;
    let (least, most) = (n * low - slack(low), n * high + slack(high));
    assert!((least..=most).contains(&(count as f64)), "{what}: {count} of {n}, not {least:.0} to {most:.0}");
}

#[test]
fn shares_follow_weights_under_each_algorithm() {
    in_each_plane(|plane| {
        let addrs = sites().map(|site| site.addr);
        for algorithm in algorithms(plane) {
            let weights = [(0, "weight = 5"), (1, "weight = 3"), (2, "weight = 2")];
            let setup = Setup::start(plane, addrs, &format!("{}\n{}", balance(algorithm), endpoints(&addrs, &weights)));
            let counts = setup.counts(QUESTIONS);
            for (count, share) in counts.into_iter().zip([0.5, 0.3, 0.2]) {
                check(count, QUESTIONS, share, share, &format!("{} by {}: {counts:?}", plane.name(), algorithm.name));
            }
        }
    });
}

/// Way in which an endpoint begins its ramp.
type Comes = fn(&'static dyn Plane, &[Site; 3], balance: &str, ramp: &str) -> Setup;

/// Its checks failed, and pass again.
fn recovers(plane: &'static dyn Plane, sites: &[Site; 3], balance: &str, ramp: &str) -> Setup {
    let addrs = sites.each_ref().map(|site| site.addr);
    sites[2].is(false);
    let all = endpoints(&addrs, &[(0, ""), (1, ""), (2, "")]);
    let setup = Setup::start(plane, addrs, &format!("{balance}\n{ramp}\n{CHECKED}\n{all}"));
    setup.becomes(0, true);
    setup.becomes(1, true);
    setup.serves(&[0, 1]);
    sites[2].is(true);
    setup
}

/// The endpoint is new in the next plan.
fn joins(plane: &'static dyn Plane, sites: &[Site; 3], balance: &str, ramp: &str) -> Setup {
    let addrs = sites.each_ref().map(|site| site.addr);
    sites[2].is(true);
    let of = |list| format!("{balance}\n{ramp}\n{}", endpoints(&addrs, list));
    let setup = Setup::start(plane, addrs, &of(&[(0, ""), (1, "")]));
    setup.serves(&[0, 1]);
    setup.reload(&of(&[(0, ""), (1, ""), (2, "")]));
    setup
}

/// For each way to come and each algorithm.
fn in_each_case(plane: &'static dyn Plane, ramp: &str, scenario: impl Fn(&Setup, &str)) {
    let sites = sites();
    for (how, comes) in [("recovers", recovers as Comes), ("joins", joins)] {
        for algorithm in algorithms(plane) {
            let setup = comes(plane, &sites, &balance(algorithm), ramp);
            // It may be used now, by whatever part of its weight.
            crate::support::eventually("a ramp", || (setup.weight(2) > 0.0).then_some(()));
            scenario(&setup, &format!("{} by {}: it {how}", plane.name(), algorithm.name));
        }
    }
}

#[test]
fn whoever_comes_begins_with_a_part_of_its_share() {
    in_each_plane(|plane| {
        // A tenth of its weight for the first six minutes.
        in_each_case(plane, "slow_start = { window = '1h', min_weight = 0.1 }", |setup, what| {
            let weight = setup.weight(2);
            assert!((weight - 0.1).abs() < 0.01, "{what}: {weight}");
            let counts = setup.counts(QUESTIONS);
            let share = weight / (2.0 + weight);
            check(counts[2], QUESTIONS, share, share, &format!("{what}, {counts:?}"));
        });
    });
}

#[test]
fn its_share_rises_with_its_ramp_to_the_whole() {
    in_each_plane(|plane| {
        in_each_case(plane, "slow_start = '2s'", |setup, what| {
            // However fast time goes by: what counts of the weights before and after a batch are the bounds for it.
            let weights = || [0, 1, 2].map(|i| setup.weight(i));
            let (mut before, mut is_whole) = (weights(), false);
            while !is_whole {
                is_whole = before[2] == 1.0;
                let counts = setup.counts(100);
                let after = weights();
                let of_both = |pick: fn(f64, f64) -> f64| [0, 1, 2].map(|i| pick(before[i], after[i]));
                let (least, most) = (of_both(f64::min), of_both(f64::max));
                let low = least[2] / (least[2] + most[0] + most[1]);
                let high = most[2] / (most[2] + least[0] + least[1]);
                check(counts[2], 100, low, high, &format!("{what}, from {before:?} to {after:?}: {counts:?}"));
                before = after;
            }
        });
    });
}

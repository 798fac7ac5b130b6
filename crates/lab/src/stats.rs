//! Summary statistics: median, minimum and maximum of a few runs, and quantiles of many requests.

use crate::rng::Rng;

/// Median and range of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Middle run; for an even number, the mean of the two in the middle.
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Spread of runs; NaN stands for a failed run and is left out. `None` if there are none.
    pub fn of(runs: &[f64]) -> Option<Spread> {
        let mut sorted = measured(runs);
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Spread { median, min, max })
    }

    /// Spread of the ratios of `runs` to `base` by round: interleaved runs share the state of the machine, so ratios
    /// vary less than either. `None` unless there is a value of each per round.
    pub fn of_ratios(runs: &[f64], base: &[f64]) -> Option<Spread> {
        if runs.len() != base.len() || base.contains(&0.0) {
            return None;
        }
        Spread::of(&runs.iter().zip(base).map(|(run, base)| run / base).collect::<Vec<_>>())
    }
}

/// Confidence interval of a median, by bootstrap over the runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub median: f64,
    /// Lower end: nine of ten resampled medians lie between the two ends.
    pub low: f64,
    /// Upper end, see `low`.
    pub high: f64,
}

/// Minimum runs for an interval of a median.
pub const RUNS_MIN: usize = 3;

impl Interval {
    /// Interval of the median at 90 % by bootstrap (Efron, 1979): from the medians of 2,000 resamples of the runs with
    /// replacement. Deterministic. NaN stands for a failed run and is left out; `None` for fewer than [`RUNS_MIN`]
    /// runs.
    pub fn of(runs: &[f64]) -> Option<Interval> {
        let runs = &measured(runs);
        if runs.len() < RUNS_MIN {
            return None;
        }
        let mut rng = Rng::new(runs.len() as u64);
        let mut sample = || {
            let drawn: Vec<f64> = (0..runs.len()).map(|_| runs[rng.below(runs.len())]).collect();
            Spread::of(&drawn).map(|spread| spread.median)
        };
        let mut medians: Vec<f64> = (0..2000).filter_map(|_| sample()).collect();
        medians.sort_by(f64::total_cmp);
        Some(Interval {
            median: Spread::of(runs)?.median,
            low: quantile(&medians, 0.05)?,
            high: quantile(&medians, 0.95)?,
        })
    }

    /// Interval of the ratios of runs of the same rounds; `None` if the rounds differ or the base is 0.
    pub fn of_ratios(runs: &[f64], base: &[f64]) -> Option<Interval> {
        if runs.len() != base.len() || base.contains(&0.0) {
            return None;
        }
        Interval::of(&runs.iter().zip(base).map(|(run, base)| run / base).collect::<Vec<_>>())
    }
}

/// Runs without failed runs (NaN).
fn measured(runs: &[f64]) -> Vec<f64> {
    runs.iter().copied().filter(|run| !run.is_nan()).collect()
}

/// Quantile `share` (0 to 1) of ascending values, by nearest rank. `None` if there are none.
pub fn quantile(ascending: &[f64], share: f64) -> Option<f64> {
    let rank = (share * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_odd_number_is_the_middle_one() {
        assert_eq!(Spread::of(&[9.0, 1.0, 4.0]), Some(Spread { median: 4.0, min: 1.0, max: 9.0 }));
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
        assert_eq!(Spread::of(&[9.0, 1.0, 4.0, 2.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(
            [0.0, 0.5, 0.99, 0.999, 1.0].map(|share| quantile(&values, share)),
            [1.0, 50.0, 99.0, 100.0, 100.0].map(Some)
        );
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn an_interval_holds_the_median_and_narrows_with_runs() {
        assert_eq!(Interval::of(&[1.0, 2.0]), None);
        let draw = |runs: usize, seed| {
            let mut rng = Rng::new(seed);
            let runs: Vec<f64> = (0..runs).map(|_| rng.unit()).collect();
            Interval::of(&runs).expect("there are enough")
        };
        let held = (0..200).filter(|&seed| {
            let Interval { median, low, high } = draw(15, seed);
            assert!(low <= median && median <= high);
            (low..=high).contains(&0.5)
        });
        // Of 200 intervals at 90 %, 180 contain the true median on average; 5 standard deviations are 21.
        assert!((159..=200).contains(&held.count()));
        let width = |runs| {
            let Interval { low, high, .. } = draw(runs, 1);
            high - low
        };
        assert!(width(400) < width(10) / 2.0);
        let ratios = Interval::of_ratios(&[2.0, 4.0, 8.0], &[1.0, 2.0, 4.0]).expect("there are enough");
        assert_eq!(ratios, Interval { median: 2.0, low: 2.0, high: 2.0 });
    }

    #[test]
    fn a_run_that_failed_counts_for_nothing_nor_does_its_round() {
        let failed = f64::NAN;
        assert_eq!(Spread::of(&[failed, 2.0]), Some(Spread { median: 2.0, min: 2.0, max: 2.0 }));
        assert_eq!(Interval::of(&[1.0, 1.0, failed]), None, "two are too few");
        let ratios = Interval::of_ratios(&[2.0, failed, 2.0, 2.0, 9.0], &[1.0, 1.0, 1.0, 1.0, failed]);
        assert_eq!(ratios, Some(Interval { median: 2.0, low: 2.0, high: 2.0 }));
    }

    #[test]
    fn no_runs_have_no_median() {
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let ratio = Spread::of_ratios(&[10.0, 30.0, 12.0], &[20.0, 60.0, 12.0]);
        assert_eq!(ratio, Some(Spread { median: 0.5, min: 0.5, max: 1.0 }));
        assert_eq!(Spread::of_ratios(&[1.0], &[]), None, "rounds must match");
        assert_eq!(Spread::of_ratios(&[1.0], &[0.0]), None, "nothing is a multiple of zero");
    }
}

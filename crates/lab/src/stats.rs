//! Which number stands for many? Of a few runs the median, with the smallest and largest beside it; of many requests
//! their quantiles.

/// Several runs of one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle run; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// `None` when there are no runs.
    pub fn of(runs: &[f64]) -> Option<Spread> {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Spread { median, min, max })
    }

    /// The ratio of `runs` to `base`, round by round: interleaved rounds share the state of the machine, so their ratio
    /// spreads less than either. `None` unless there is one of each per round.
    pub fn of_ratios(runs: &[f64], base: &[f64]) -> Option<Spread> {
        if runs.len() != base.len() || base.contains(&0.0) {
            return None;
        }
        Spread::of(&runs.iter().zip(base).map(|(run, base)| run / base).collect::<Vec<_>>())
    }
}

/// The smallest of the values that at least `share` of them, 0 to 1, do not exceed (nearest rank). `None` without any.
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

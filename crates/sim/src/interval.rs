//! Student's confidence interval of a mean over seeds.

/// Mean with its confidence interval. The half width is infinite for a single value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub mean: f64,
    /// Half width of the interval.
    pub half: f64,
}

impl Interval {
    /// Interval of the mean of independent values, at a confidence between 0 and 1.
    pub fn of(values: &[f64], confidence: f64) -> Interval {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n.max(1.0);
        if values.len() < 2 {
            return Interval { mean, half: f64::INFINITY };
        }
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Interval { mean, half: student(values.len() - 1, confidence) * (variance / n).sqrt() }
    }

    pub fn low(self) -> f64 {
        self.mean - self.half
    }

    pub fn high(self) -> f64 {
        self.mean + self.half
    }
}

/// Two-sided quantile of Student's t for a confidence and degrees of freedom, by bisection.
fn student(freedom: usize, confidence: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..100 {
        let middle: f64 = (low + high) / 2.0;
        if within(middle, freedom) < confidence { low = middle } else { high = middle }
    }
    high
}

/// Probability that Student's t is between -t and t. Source: Abramowitz and Stegun, 26.7.3 and 26.7.4.
fn within(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    let (mut term, mut sum) = if odd { (cosine, cosine) } else { (1.0, 1.0) };
    let mut k = if odd { 2.0 } else { 1.0 };
    // Terms of the series, each computed from the term before.
    while k + 1.0 < freedom as f64 {
        term *= cosine * cosine * k / (k + 1.0);
        sum += term;
        k += 2.0;
    }
    match (odd, freedom) {
        (true, 1) => angle / std::f64::consts::FRAC_PI_2,
        (true, _) => (angle + sine * sum) / std::f64::consts::FRAC_PI_2,
        (false, _) => sine * sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_printed_tables() {
        let rows = [(1, 12.706, 6.314), (2, 4.303, 2.920), (3, 3.182, 2.353), (4, 2.776, 2.132), (9, 2.262, 1.833)];
        for (freedom, at_95, at_90) in rows {
            assert!((student(freedom, 0.95) - at_95).abs() < 1e-3, "{freedom}: {}", student(freedom, 0.95));
            assert!((student(freedom, 0.90) - at_90).abs() < 1e-3, "{freedom}: {}", student(freedom, 0.90));
        }
    }

    #[test]
    fn one_value_says_nothing_about_the_next() {
        assert_eq!(Interval::of(&[3.0], 0.95), Interval { mean: 3.0, half: f64::INFINITY });
        assert_eq!(Interval::of(&[3.0, 3.0], 0.95), Interval { mean: 3.0, half: 0.0 });
    }
}

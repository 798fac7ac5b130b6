//! Distributions of work and pauses, in nanoseconds.

use evenkeel_balance::Rng;

/// Distribution of durations, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    Constant(u64),
    /// Uniform over whole multiples of `step_ns`, from `min` to `max`, both included.
    Uniform {
        min: u64,
        max: u64,
        /// Length of a step in nanoseconds.
        step_ns: u64,
        /// Maximum lateness of a timer in nanoseconds; uniform from 0 to this is added.
        late_ns: u64,
    },
    /// Exponential distribution.
    Exponential {
        mean_ns: f64,
    },
    /// Normal distribution, redrawn until it is not below 0.
    TruncatedNormal {
        /// Mean before truncation, in nanoseconds.
        mean_ns: f64,
        /// Standard deviation before truncation, in nanoseconds.
        sd_ns: f64,
    },
    /// Lognormal: exponential of a normal distribution.
    Lognormal {
        /// Mean of the distribution in nanoseconds.
        mean_ns: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Pareto distribution between two bounds.
    BoundedPareto {
        /// Exponent; the smaller, the heavier the tail.
        alpha: f64,
        min_ns: f64,
        max_ns: f64,
    },
    /// Values of a table, each as likely as the others: a measured distribution. A constant of 0 without values.
    Table {
        values: &'static [u32],
        /// Nanoseconds of a unit of the values.
        unit_ns: f64,
    },
}

impl Work {
    /// Draws a duration in nanoseconds.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match *self {
            Work::Constant(ns) => ns,
            Work::Uniform { min, max, step_ns, late_ns } => {
                (min + rng.below_u64(max - min + 1)) * step_ns + rng.below_u64(late_ns)
            }
            Work::Exponential { mean_ns } => exponential(mean_ns, rng) as u64,
            Work::TruncatedNormal { mean_ns, sd_ns } => loop {
                let x = mean_ns + sd_ns * normal(rng);
                if x >= 0.0 {
                    return x as u64;
                }
            },
            Work::Lognormal { mean_ns, sigma } => (mean_ns * (sigma * normal(rng) - sigma * sigma / 2.0).exp()) as u64,
            Work::BoundedPareto { alpha, min_ns, max_ns } => {
                let (low, u) = ((min_ns / max_ns).powf(alpha), rng.unit());
                (min_ns / (1.0 - u * (1.0 - low)).powf(1.0 / alpha)) as u64
            }
            Work::Table { values, unit_ns } => {
                let at = (rng.unit() * values.len() as f64) as usize;
                values.get(at).map_or(0, |value| (f64::from(*value) * unit_ns) as u64)
            }
        }
    }

    pub fn mean_ns(&self) -> f64 {
        match *self {
            Work::Constant(ns) => ns as f64,
            Work::Uniform { min, max, step_ns, late_ns } => {
                (min + max) as f64 / 2.0 * step_ns as f64 + late_ns as f64 / 2.0
            }
            Work::Exponential { mean_ns } | Work::Lognormal { mean_ns, .. } => mean_ns,
            Work::TruncatedNormal { mean_ns, sd_ns } => {
                let z = mean_ns / sd_ns;
                let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
                mean_ns + sd_ns * density / normal_share_below(z)
            }
            Work::BoundedPareto { alpha, min_ns, max_ns } => {
                let low = (min_ns / max_ns).powf(alpha);
                if (alpha - 1.0).abs() < 1e-9 {
                    return min_ns / (1.0 - low) * (max_ns / min_ns).ln();
                }
                min_ns.powf(alpha) / (1.0 - low) * alpha / (alpha - 1.0)
                    * (min_ns.powf(1.0 - alpha) - max_ns.powf(1.0 - alpha))
            }
            Work::Table { values, unit_ns } => {
                values.iter().map(|value| f64::from(*value)).sum::<f64>() * unit_ns / values.len().max(1) as f64
            }
        }
    }
}

/// Draws from the exponential distribution with this mean.
pub(crate) fn exponential(mean: f64, rng: &mut Rng) -> f64 {
    -(1.0 - rng.unit()).ln() * mean
}

/// Draws from the standard normal distribution: Box and Muller 1958. Uses only the first of the pair, so that each draw
/// takes two numbers and streams stay in step.
fn normal(rng: &mut Rng) -> f64 {
    let (radius, angle) = ((-2.0 * (1.0 - rng.unit()).ln()).sqrt(), std::f64::consts::TAU * rng.unit());
    radius * angle.cos()
}

/// Standard normal distribution function by Simpson's rule, to 1e-9. Slow, but only means need it.
fn normal_share_below(z: f64) -> f64 {
    const STEPS: u32 = 2000;
    let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let (from, to) = (-10.0f64, z.clamp(-10.0, 10.0));
    let h = (to - from) / f64::from(STEPS);
    let weight = |i: u32| {
        if i == 0 || i == STEPS {
            1.0
        } else if i % 2 == 1 {
            4.0
        } else {
            2.0
        }
    };
    (0..=STEPS).map(|i| weight(i) * density(from + h * f64::from(i))).sum::<f64>() * h / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    #[test]
    fn draws_have_the_mean_they_claim() {
        let works = [
            Work::Constant(5_000_000),
            Work::Uniform { min: 0, max: 9, step_ns: 1_000_000, late_ns: 1_000_000 },
            Work::Exponential { mean_ns: 10.0 * MS },
            Work::TruncatedNormal { mean_ns: 10.0 * MS, sd_ns: 10.0 * MS },
            Work::TruncatedNormal { mean_ns: 10.0 * MS, sd_ns: 2.0 * MS },
            Work::Lognormal { mean_ns: 10.0 * MS, sigma: 1.0 },
            Work::BoundedPareto { alpha: 1.5, min_ns: MS, max_ns: 100.0 * MS },
            Work::BoundedPareto { alpha: 1.0, min_ns: MS, max_ns: 100.0 * MS },
            Work::Table { values: &[1, 2, 30], unit_ns: MS },
            Work::Table { values: &[], unit_ns: MS },
        ];
        for work in works {
            let (mut rng, draws) = (Rng::new(5), 400_000);
            let all: Vec<f64> = (0..draws).map(|_| work.draw(&mut rng) as f64).collect();
            let mean = all.iter().sum::<f64>() / f64::from(draws);
            let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(draws);
            // 5 standard errors, and 1 ns for rounding down.
            let slack = 5.0 * (variance / f64::from(draws)).sqrt() + 1.0;
            assert!((mean - work.mean_ns()).abs() <= slack, "{work:?}: {mean}, not {}", work.mean_ns());
        }
    }
}

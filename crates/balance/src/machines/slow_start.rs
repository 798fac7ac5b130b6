//! Slow start: the weight of an endpoint that was just added or has recovered ramps up.

use crate::structures::time::MILLISECOND_NS;

/// The shape of the ramp: weight x max(`min_weight`, (age / `window_ns`)^(1 / `aggression`)), as in Envoy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Length of the ramp, nanoseconds.
    pub window_ns: u64,
    /// Above 0. At 1 the ramp is linear, above 1 it rises faster at first.
    pub aggression: f64,
    /// Share of its weight that an endpoint starts with; above 0, at most 1.
    pub min_weight: f64,
}

/// Parts of a whole weight in which ramps are expressed, so that a weight of 1 can ramp too.
pub const FULL: u16 = 256;

/// Each step publishes a new set to all workers, so there are at most 20 steps, and at most ten per second.
const STEPS: u64 = 20;
const STEP_MIN_NS: u64 = 100 * MILLISECOND_NS;

impl Settings {
    /// Returns the nanoseconds between steps of the ramp.
    pub fn step_ns(&self) -> u64 {
        (self.window_ns / STEPS).max(STEP_MIN_NS)
    }

    /// Returns the part of its weight that an endpoint has at this age, from 1 to [`FULL`]: the formula, rounded. Never
    /// falls with age.
    pub fn ramp(&self, age_ns: u64) -> u16 {
        if age_ns >= self.window_ns {
            return FULL;
        }
        let age = age_ns as f64 / self.window_ns as f64;
        // `powf` may differ between platforms in its last bit; the rounding hides that except for an age in 2^44.
        let share = if self.aggression == 1.0 { age } else { age.powf(1.0 / self.aggression) };
        (share.max(self.min_weight) * f64::from(FULL)).round().clamp(1.0, f64::from(FULL)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::time::SECOND_NS;

    #[test]
    fn follows_the_formula_and_never_falls() {
        for (aggression, at_half) in [(1.0, 128), (2.0, 181), (0.5, 64)] {
            let settings = Settings { window_ns: 10 * SECOND_NS, aggression, min_weight: 0.1 };
            assert_eq!([0, 5, 10, 99].map(|s| settings.ramp(s * SECOND_NS)), [26, at_half, FULL, FULL]);
            let ramp: Vec<u16> = (0..=1000).map(|i| settings.ramp(i * 10 * MILLISECOND_NS)).collect();
            assert!(ramp.windows(2).all(|w| w[0] <= w[1]), "aggression {aggression}: {ramp:?}");
        }
    }

    #[test]
    fn no_settings_make_a_weight_vanish_or_exceed_itself() {
        for (window_ns, aggression, min_weight) in [(0, 1.0, 0.1), (1, 1e-9, 1e-9), (u64::MAX, 1e9, 1.0)] {
            let settings = Settings { window_ns, aggression, min_weight };
            assert!([0, 1, u64::MAX / 2, u64::MAX].iter().all(|&age| (1..=FULL).contains(&settings.ramp(age))));
            assert!(settings.step_ns() >= STEP_MIN_NS);
        }
    }
}

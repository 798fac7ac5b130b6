//! Exponential decay of old numbers over time, with the same result on every platform.
//!
//! `f32::exp` may differ between platforms in its last bits, but the same seed must give the same picks everywhere. So
//! the power of two is put together from exponent bits and a polynomial.

/// A rate of decay. Built once, to keep the division out of picks.
#[derive(Clone, Copy, Debug)]
pub struct Fade {
    /// Halvings per nanosecond.
    halvings_per_ns: f32,
}

impl Fade {
    /// Returns the decay with a time constant in nanoseconds. 0 forgets everything at once.
    #[inline]
    pub fn over(tau_ns: u64) -> Fade {
        // exp(-t/tau) = 2^(-x), x = t / (tau ln 2).
        Fade { halvings_per_ns: std::f32::consts::LOG2_E / tau_ns as f32 }
    }

    /// Share that is left: `exp(-elapsed / tau)`, with a relative error below 2e-4. Exactly 1 after no time, and 0
    /// after 87 `tau`.
    #[inline]
    pub fn left(self, elapsed_ns: u64) -> f32 {
        if elapsed_ns == 0 {
            return 1.0;
        }
        let x = elapsed_ns as f32 * self.halvings_per_ns;
        if x >= 126.0 || x.is_nan() {
            return 0.0;
        }
        let whole = x as u32;
        let f = x - whole as f32;
        // 2^-f on [0, 1): a cubic that is exact at both ends, so that the result is continuous and monotonic.
        let part = 1.0 - f * (0.691_4 - f * (0.230_5 - f * 0.039_1));
        part * f32::from_bits((127 - whole) << 23)
    }
}

/// Share that is left, as [`Fade::left`], for a time constant used only once. Both times are in nanoseconds.
#[inline]
pub fn decay(elapsed_ns: u64, tau_ns: u64) -> f32 {
    Fade::over(tau_ns).left(elapsed_ns)
}

#[cfg(test)]
mod tests {
    use super::decay;

    #[test]
    fn follows_the_exponential() {
        for i in 0..20_000u64 {
            let (t, tau) = (i * 1_000_000, 1_000_000_000);
            let want = (-(t as f64) / tau as f64).exp();
            let got = f64::from(decay(t, tau));
            assert!((got - want).abs() <= want * 2e-4 + 1e-12, "t = {i} ms: {got} for {want}");
        }
        assert_eq!(decay(0, 1), 1.0);
        assert_eq!(decay(u64::MAX, 1), 0.0);
        assert_eq!(decay(5, 0), 0.0);
    }

    #[test]
    fn never_rises_with_time() {
        let mut last = 1.0;
        for i in 0..100_000u64 {
            let d = decay(i * 777_777, 10_000_000_000);
            assert!(d <= last, "at step {i}");
            last = d;
        }
    }
}

//! Seeded random numbers. Each worker owns its generator, so the same seed gives the same picks.
//!
//! The generator is xoshiro256++ 1.0 (Blackman and Vigna, 2019), seeded by SplitMix64 as its authors advise: 1 ns per
//! number, no known statistical flaw, and the same output on every platform. The standard library has no seedable
//! generator.

/// A small seedable random generator. Not suited for secrets.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// Returns a generator whose whole sequence is determined by `seed`.
    pub fn new(seed: u64) -> Rng {
        let mut state = seed;
        Rng(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state)
        }))
    }

    /// Returns a number uniform over all 64-bit numbers.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// Returns a number uniform over `0..n`, or 0 if `n` is 0. Multiplies (Lemire 2019) without the rejection step: for
    /// `n` below 2^32 and 64 random bits the bias is under 2^-32, far below the precision of any count of requests.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u32
    }

    /// Returns a number uniform over `0..n`, for totals above 2^32. 0 if `n` is 0.
    #[inline]
    pub fn below_u64(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a number uniform over `[0, 1)`, with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with a probability of 1/2.
    #[inline]
    pub fn coin(&mut self) -> bool {
        // The lowest bits of xoshiro256++ are as good as any, but the top bit needs no such argument.
        (self.next_u64() >> 63) == 1
    }
}

/// Spreads every input bit over the whole word: the finaliser of SplitMix64, a bijection.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_published_sequence() {
        // Output of the reference C code of xoshiro256++ with the state {1, 2, 3, 4}.
        let mut rng = Rng([1, 2, 3, 4]);
        let got: Vec<u64> = (0..5).map(|_| rng.next_u64()).collect();
        assert_eq!(got, [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205]);
    }

    #[test]
    fn same_seed_gives_the_same_sequence() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Rng::new(7).next_u64(), Rng::new(8).next_u64());
    }

    #[test]
    fn below_stays_below_and_is_even() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 6];
        for _ in 0..60_000 {
            seen[rng.below(6) as usize] += 1;
        }
        // Binomial(60000, 1/6): sd 91; 5 sd = 456.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 456), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }
}

//! Gaps: times without lines that chance does not explain.

use crate::doubt::Doubt;
use crate::record::Record;
use crate::traffic::Traffic;

/// Requests expected in a gap by the rate around it; with Poisson arrivals, a gap of 30 has a chance of 1e-13.
const EXPECTED_MIN: f64 = 30.0;

/// Gap as a multiple of the longest usual gap: bursts come with long pauses, but with many.
const TIMES_OTHERS: f64 = 3.0;

/// Gaps of a log that are not usual: a share of all, and their least number.
const UNUSUAL: f64 = 0.002;
const UNUSUAL_MIN: usize = 20;

pub(super) fn gap(_: &Record, traffic: &Traffic) -> Option<Doubt> {
    let arrivals = &traffic.trace.arrivals;
    let mut gaps: Vec<(u64, usize)> = arrivals.windows(2).map(|pair| pair[1].at - pair[0].at).zip(1..).collect();
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    let (&(longest, at), others) = gaps.split_first()?;
    let rank = UNUSUAL_MIN.max((arrivals.len() as f64 * UNUSUAL) as usize);
    let usual = others.get(rank.min(others.len() / 2)).map_or(0, |other| other.0);
    let near = &arrivals[at.saturating_sub(300)..(at + 300).min(arrivals.len())];
    let span = near.last()?.at - near.first()?.at - longest;
    let expected = longest as f64 * near.len() as f64 / span.max(1) as f64;
    (expected > EXPECTED_MIN && longest as f64 > TIMES_OTHERS * usual as f64).then(|| {
        let text = format!(
            "no request starts for {:.1} s, {:.1} s after the first, where {expected:.0} would be expected: lines are missing, the clock \
             was set forward, or the pool was idle",
            longest as f64 / 1e9,
            arrivals[at - 1].at as f64 / 1e9
        );
        Doubt::new("gap", text, "give the part before or after it")
    })
}

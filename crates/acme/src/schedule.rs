//! When is a certificate renewed, and when is tried again what failed? All times are seconds since 1970; `jitter` is between 0 and 1, so
//! that many balancers do not come at once.

/// The first pause after a failure, and after one that says nothing about the order.
pub const FIRST_PAUSE: i64 = 60;
pub const SHORT_PAUSE: i64 = 1;

/// And the longest.
const LONGEST_PAUSE: i64 = 12 * 3_600;

/// When a certificate with these bounds of validity is renewed: when two thirds of its time are over, or up to a thirtieth before.
pub fn renewal((from, until): (i64, i64), jitter: f64) -> i64 {
    let life = (until - from).max(0) as f64;
    from + (life * (2.0 / 3.0 - jitter / 30.0)) as i64
}

/// When it is renewed if its authority suggests this window (RFC 9773): not in the last tenth of its time, as that may fail.
pub fn suggested((start, end): (i64, i64), (from, until): (i64, i64), jitter: f64) -> i64 {
    let at = start.saturating_add((end.saturating_sub(start).max(0) as f64 * jitter) as i64);
    at.min(until.saturating_sub(until.saturating_sub(from).max(0) / 10))
}

/// When the authority of a certificate that was just issued is asked for its window first: one that suggests what is over would be
/// asked for one certificate after the other.
pub fn first_ask((from, until): (i64, i64), at_most: i64) -> i64 {
    from.saturating_add((until.saturating_sub(from).max(0) / 4).min(at_most))
}

/// How long to wait after so many failures one after the other: `first`, and three times as long each time; with [`FIRST_PAUSE`] five tries
/// are not over within an hour, which is what Let's Encrypt allows.
pub fn pause(first: i64, failures: u32, jitter: f64) -> i64 {
    let whole = 3_i64.saturating_pow(failures.saturating_sub(1)).saturating_mul(first).min(LONGEST_PAUSE);
    whole - (whole as f64 * jitter / 4.0) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    #[test]
    fn a_third_of_the_time_is_left_for_failures() {
        assert_eq!(renewal((0, 90 * DAY), 0.0), 60 * DAY);
        assert_eq!(renewal((0, 90 * DAY), 1.0), 57 * DAY);
        assert_eq!(renewal((1_000, 1_030), 0.0), 1_020);
        // A clock that is wrong, or a certificate that is.
        assert_eq!(renewal((1_000, 0), 0.5), 1_000);
    }

    #[test]
    fn the_word_of_the_authority_counts() {
        assert_eq!(
            [(100, 200, 0.0), (100, 200, 0.5), (200, 100, 0.5), (880, 980, 0.5), (5_000, 6_000, 0.0), (-5, -1, 0.0)]
                .map(|(start, end, jitter)| suggested((start, end), (0, 1_000), jitter)),
            [100, 150, 200, 900, 900, -5]
        );
        assert_eq!((first_ask((100, 140), 1_000), first_ask((0, 90 * DAY), DAY)), (110, DAY));
    }

    #[test]
    fn pauses_grow_to_half_a_day() {
        assert_eq!([1, 2, 3, 4].map(|failures| pause(FIRST_PAUSE, failures, 0.0)), [60, 180, 540, 1_620]);
        assert_eq!(
            (pause(FIRST_PAUSE, 40, 0.0), pause(SHORT_PAUSE, u32::MAX, 1.0)),
            (LONGEST_PAUSE, LONGEST_PAUSE * 3 / 4)
        );
        // What Let's Encrypt allows to fail within an hour.
        assert!((1..=4).map(|failures| pause(FIRST_PAUSE, failures, 1.0)).sum::<i64>() > 1_700);
        assert!((1..=5).map(|failures| pause(FIRST_PAUSE, failures, 1.0)).sum::<i64>() > 3_600);
    }
}

//! Times of renewals and retries. All times are in seconds since 1970. `jitter`, between 0 and 1, spreads the requests
//! of many balancers.

/// First pause after a failure in seconds, and after a failure that is unrelated to the order.
pub const FIRST_PAUSE: i64 = 60;
pub const SHORT_PAUSE: i64 = 1;

/// Longest pause in seconds.
const LONGEST_PAUSE: i64 = 12 * 3_600;

/// Time of renewal for this start and end of validity: after two thirds of the lifetime, or up to a thirtieth earlier.
pub fn renewal((from, until): (i64, i64), jitter: f64) -> i64 {
    let life = (until - from).max(0) as f64;
    from + (life * (2.0 / 3.0 - jitter / 30.0)) as i64
}

/// Time of renewal within the window that the authority suggests (RFC 9773), but before the last tenth of the lifetime,
/// which is reserved for retries.
pub fn suggested((start, end): (i64, i64), (from, until): (i64, i64), jitter: f64) -> i64 {
    let at = start.saturating_add((end.saturating_sub(start).max(0) as f64 * jitter) as i64);
    at.min(until.saturating_sub(until.saturating_sub(from).max(0) / 10))
}

/// Time of the first question for the renewal window of a new certificate. Not at once: an authority that suggests a
/// window in the past would be asked for certificates in sequence.
pub fn first_ask((from, until): (i64, i64), at_most: i64) -> i64 {
    from.saturating_add((until.saturating_sub(from).max(0) / 4).min(at_most))
}

/// Pause after consecutive failures in seconds: `first`, then three times as long each time. With [`FIRST_PAUSE`], five
/// tries take more than an hour, and Let's Encrypt allows five failures an hour.
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
        // A wrong clock, or a malformed certificate.
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
        // Let's Encrypt allows five failures an hour.
        assert!((1..=4).map(|failures| pause(FIRST_PAUSE, failures, 1.0)).sum::<i64>() > 1_700);
        assert!((1..=5).map(|failures| pause(FIRST_PAUSE, failures, 1.0)).sum::<i64>() > 3_600);
    }
}

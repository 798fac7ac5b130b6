//! Times within the bounds of evenkeel's keys: 0 and values beyond them are written as the nearest that is allowed.

use crate::model::{Value, duration};

const HOUR: u64 = 3_600_000;

/// Longest time of a key, in milliseconds, and whether it can be off.
fn bounds(key: &str) -> (u64, u64, bool) {
    match key {
        "response" => (1, 24 * HOUR, true),
        "request" => (1, 720 * HOUR, true),
        "idle" | "half_closed" => (10, 720 * HOUR, false),
        "connect" => (1, 24 * HOUR, false),
        "upstream_idle" => (0, 24 * HOUR, false),
        "queue" => (1, HOUR, false),
        "interval" => (10, 24 * HOUR, false),
        "timeout" => (1, HOUR, false),
        _ => (10, 24 * HOUR, false),
    }
}

/// Value of a time for a key, where 0 means that there is no limit, and a note if it is not that time exactly.
pub(crate) fn timeout(key: &str, ms: u64) -> (Value, Option<String>) {
    let (least, most, can_be_off) = bounds(key);
    match ms {
        0 if can_be_off => ("off".into(), None),
        0 => (duration(most).into(), Some(format!("0 means no limit; the longest here is {}", duration(most)))),
        ms if ms > most && can_be_off => ("off".into(), None),
        ms if ms > most => (duration(most).into(), Some(format!("the longest here is {}", duration(most)))),
        ms if ms < least => (duration(least).into(), Some(format!("the shortest here is {}", duration(least)))),
        ms => (duration(ms).into(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_off_or_the_longest_time() {
        assert_eq!(timeout("response", 0), ("off".into(), None));
        assert!(timeout("idle", 0).1.is_some());
        assert_eq!(timeout("connect", 5000), ("5s".into(), None));
    }
}

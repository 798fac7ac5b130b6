//! Times and weights within the bounds of evenkeel's keys: times of 0 and beyond them are written as the nearest that is
//! allowed, and weights keep their shares.

use crate::ledger::{Ledger, Line};
use crate::model::{Endpoint, Value, duration};

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

/// Largest weight of a pool in a split, and of an endpoint.
pub(crate) const SPLIT_MAX: u64 = 1_000_000;
const ENDPOINT_MAX: u64 = 65_535;

/// Makes weights above `most` fit, all by one factor, so that shares stay; noted at a line.
pub(crate) fn fit_weights(weights: &mut [u64], most: u64, line: Line, ledger: &mut Ledger) {
    let largest = weights.iter().copied().max().unwrap_or(0);
    if largest <= most {
        return;
    }
    for weight in weights {
        let scaled = (u128::from(*weight) * u128::from(most)).div_ceil(u128::from(largest));
        *weight = u64::try_from(scaled).unwrap_or(most);
    }
    let reason = format!("weights above {most} are made smaller, all by one factor");
    ledger.changes(line, reason, "nothing, unless small shares matter");
}

/// [`fit_weights`] for the endpoints of a pool.
pub(crate) fn fit_endpoints(endpoints: &mut [Endpoint], line: Line, ledger: &mut Ledger) {
    let weight = |endpoint: &Endpoint| match endpoint.set.get("weight") {
        Some(Value::Int(weight)) => *weight,
        _ => 1,
    };
    let mut weights: Vec<u64> = endpoints.iter().map(weight).collect();
    let before = weights.clone();
    fit_weights(&mut weights, ENDPOINT_MAX, line, ledger);
    let changed = endpoints.iter_mut().zip(before.iter().zip(weights)).filter(|(_, (before, now))| *before != now);
    changed.for_each(|(endpoint, (_, now))| drop(endpoint.set.put("weight", now)));
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

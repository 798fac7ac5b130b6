//! Times and weights within the bounds of evenkeel's keys: times of 0 and beyond them are written as the nearest that is
//! allowed, and weights keep their shares. Limits of requests that several routes share.

use crate::ledger::{Ledger, Line};
use crate::model::{Draft, Endpoint, RouteKeys, Target, Value, duration};
use evenkeel_config::draft::KeyOf;
use evenkeel_config::tables::Kind;

/// Value of a time for a key, where 0 means no limit, and a note if the value is not exact.
pub(crate) fn timeout<T>(key: KeyOf<T>, ms: u64) -> (Value, Option<String>) {
    let Kind::Duration { min, max, off } = key.kind() else { return (duration(ms).into(), None) };
    let (least, most) = (min / 1_000_000, max / 1_000_000);
    match ms {
        0 if off => ("off".into(), None),
        0 => (duration(most).into(), Some(format!("0 means no limit; the longest here is {}", duration(most)))),
        ms if ms > most && off => ("off".into(), None),
        ms if ms > most => (duration(most).into(), Some(format!("the longest here is {}", duration(most)))),
        ms if ms < least => (duration(least).into(), Some(format!("the shortest here is {}", duration(least)))),
        ms => (duration(ms).into(), None),
    }
}

/// Sets a time, and returns the note of [`timeout`].
pub(crate) fn put_time<T>(set: &mut Draft<T>, key: KeyOf<T>, ms: u64) -> Option<String> {
    let (value, note) = timeout(key, ms);
    set.put(key, value);
    note
}

/// Largest weight of a pool in a split, and of an endpoint.
pub(crate) const SPLIT_MAX: u64 = 1_000_000;
const ENDPOINT_MAX: u64 = 65_535;

/// Scales weights down by the same factor if any is above `most`, so that shares stay. Noted at a line.
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
    let weight = |endpoint: &Endpoint| match endpoint.set.get(key!("weight")) {
        Some(Value::Int(weight)) => *weight,
        _ => 1,
    };
    let mut weights: Vec<u64> = endpoints.iter().map(weight).collect();
    let before = weights.clone();
    fit_weights(&mut weights, ENDPOINT_MAX, line, ledger);
    let changed = endpoints.iter_mut().zip(before.iter().zip(weights)).filter(|(_, (before, now))| *before != now);
    changed.for_each(|(endpoint, (_, now))| drop(endpoint.set.put(key!("weight"), now)));
}

/// Writes limits that a single route names into that route.
pub(crate) fn unshare(target: &mut Target) {
    let is_named = |value: &Value, name: &str| matches!(value, Value::Text(text) if text == name);
    let of = |set: &RouteKeys| match set.get(key!("limits")) {
        Some(Value::List(limits)) => limits.clone(),
        _ => Vec::new(),
    };
    for (name, limit) in std::mem::take(&mut target.limits) {
        let mut users: Vec<&mut RouteKeys> = target.routes.iter_mut().map(|route| &mut route.set).collect();
        users.retain(|set| of(set).iter().any(|value| is_named(value, &name)));
        match &mut users[..] {
            [] => {}
            [only] => {
                let all = of(only)
                    .into_iter()
                    .map(|value| if is_named(&value, &name) { limit.clone().into() } else { value });
                let all: Vec<Value> = all.collect();
                only.put(key!("limits"), all);
            }
            _ => target.limits.push((name, limit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::plan::Pool;

    #[test]
    fn no_limit_is_off_or_the_longest_time() {
        let (response, idle) = (key!("timeouts.response"), key!("timeouts.idle"));
        assert_eq!(timeout::<Pool>(response, 0), ("off".into(), None));
        assert!(timeout::<Pool>(idle, 0).1.is_some_and(|note| note.ends_with("the longest here is 30d")));
        assert_eq!(timeout::<Pool>(response, 5000), ("5s".into(), None));
    }
}

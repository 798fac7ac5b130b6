//! Words for states, times and names, as commands and pages write them.

use crate::orders::{Health, Order};
use crate::status::{Check, Endpoint};
use evenkeel_balance::state::State;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the reason why an endpoint is in its state; `None` if it is up by itself.
pub fn reason(state: State, order: Option<&Order>, check: Option<&Check>) -> Option<String> {
    let by = |what: &str| order.map(|order| format!("{what} by {}", order.by));
    let has = |has: fn(&Order) -> bool| order.is_some_and(has);
    let configured = || "by its configuration".to_owned();
    match state {
        State::Up if has(|order| order.health == Some(Health::Up)) => by("forced up"),
        State::Up => None,
        State::Draining if has(|order| order.drain.is_some()) => by("drained"),
        State::Disabled if has(|order| order.weight == Some(0)) => by("weight set to 0"),
        State::Draining | State::Disabled => Some(configured()),
        State::Down if has(|order| order.health == Some(Health::Down)) => by("forced down"),
        State::Down => {
            let failure = check.and_then(|check| check.failure.clone());
            Some(failure.unwrap_or_else(|| "never passed a check".into()))
        }
        State::Unresolved => Some("its name does not resolve".into()),
        State::Unchecked => Some("its first health check is under way".into()),
        State::Ejected(cause) => Some(cause.to_string()),
        State::Probation => Some("back from an ejection: one request at a time until one succeeds".into()),
        State::Ramping => Some("slow start".into()),
    }
}

/// Grade of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Gets its share of requests.
    Up,
    /// Gets a part of it, or waits for its first check.
    Partly,
    /// Gets none, as operators or the configuration want it.
    Out,
    /// Gets none, and should.
    Down,
}

impl Standing {
    /// Returns the grade of an endpoint's state.
    pub fn of(endpoint: &Endpoint) -> Standing {
        match endpoint.state.as_str() {
            "up" => Standing::Up,
            "ramping" | "probation" | "unchecked" => Standing::Partly,
            "draining" | "disabled" => Standing::Out,
            _ => Standing::Down,
        }
    }
}

/// Weights of an endpoint: as configured, and behind an arrow as it counts, if that differs.
pub fn weight(endpoint: &Endpoint, arrow: &str) -> String {
    let configured = f64::from(endpoint.weight.configured);
    match endpoint.weight.effective {
        effective if (effective - configured).abs() < 0.005 => format!("{configured}"),
        effective => format!("{configured}{arrow}{}", (effective * 100.0).round() / 100.0),
    }
}

/// A duration in one or two units.
pub fn ago(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A duration in milliseconds or seconds, with as few digits as tell its length.
pub fn milliseconds(ms: f64) -> String {
    duration(ms, "")
}

/// A duration as [`milliseconds`] writes it, with `gap` before the unit.
pub fn duration(ms: f64, gap: &str) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2}{gap}ms"),
        ms if ms < 1000.0 => format!("{ms:.0}{gap}ms"),
        ms => format!("{:.1}{gap}s", ms / 1000.0),
    }
}

/// The time of day of a moment, milliseconds since 1970: `14:05:30`, UTC.
pub fn time_of_day(ms: u64) -> String {
    let second = ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// A moment as milliseconds since 1970.
pub fn unix_ms(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A name as a part of a path.
pub fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                escaped.push(char::from(byte));
            }
            // A String takes everything.
            _ => _ = write!(escaped, "%{byte:02X}"),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units_at_most() {
        let times = [0, 59_999, 61_000, 3_600_000, 90_000_000].map(ago);
        assert_eq!(times, ["0s", "59s", "1m01s", "1h00m", "1d01h"]);
        assert_eq!([0.123, 12.6, 2500.0].map(milliseconds), ["0.12ms", "13ms", "2.5s"]);
        assert_eq!(time_of_day(1_700_000_000_000), "22:13:20");
        assert_eq!(escaped("a b/c:1"), "a%20b%2Fc:1");
    }
}

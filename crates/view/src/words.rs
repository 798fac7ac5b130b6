//! Words for states, times and names, as commands and pages write them.

use crate::orders::{Health, Order};
use crate::status::{Check, CompressionMemory, Endpoint, Http3, Pool, Status};
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

/// Grade of a state, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Gets its share of requests.
    Up,
    /// Gets a part of it, or waits for its first check.
    Partly,
    /// Gets none, as operators or the configuration want it.
    Out,
    /// Gets none, although it should.
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

/// Words for the traffic of a listener or pool, by its modes.
#[derive(Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Unit of the traffic, in the plural.
    pub many: &'static str,
    /// Unit at the beginning of a line.
    pub title: &'static str,
    /// Unit of the counts at endpoints, and the same at the beginning of a line.
    pub tries: &'static str,
    pub tries_title: &'static str,
    /// Name of the rate of the unit.
    pub rate: &'static str,
    /// Head of a column of rates.
    pub per_second: &'static str,
    /// Requests, sessions or flows that have not ended.
    pub open: &'static str,
    /// The time that is measured at endpoints.
    pub latency: &'static str,
    /// Events that end this time.
    pub measured: &'static str,
}

const REQUESTS: Traffic = Traffic {
    many: "requests",
    title: "Requests",
    tries: "tries",
    tries_title: "Tries",
    rate: "requests/s",
    per_second: "REQ/S",
    open: "Requests in flight",
    latency: "Latency to the first byte",
    measured: "responses",
};

const SESSIONS: Traffic = Traffic {
    many: "sessions",
    title: "Sessions",
    tries: "sessions",
    tries_title: "Sessions",
    rate: "sessions/s",
    per_second: "SESS/S",
    open: "Open sessions",
    latency: "Time to connect",
    measured: "connects",
};

const FLOWS: Traffic = Traffic {
    many: "flows",
    title: "Flows",
    tries: "flows",
    tries_title: "Flows",
    rate: "flows/s",
    per_second: "FLOWS/S",
    open: "Open flows",
    latency: "Time to the first answer",
    measured: "first answers",
};

const ANSWERS: Traffic = Traffic {
    many: "answers",
    title: "Answers",
    tries: "answers",
    tries_title: "Answers",
    rate: "answers/s",
    per_second: "ANSW/S",
    ..REQUESTS
};

const MIXED: Traffic = Traffic {
    many: "requests, sessions and flows",
    title: "Requests, sessions and flows",
    tries: "tries, sessions and flows",
    tries_title: "Tries, sessions and flows",
    rate: "all/s",
    per_second: "RATE/S",
    open: "In flight",
    latency: "Latency",
    measured: "measurements",
};

impl Traffic {
    /// Returns the words for these modes; without any, those for requests.
    pub fn of<'m>(modes: impl IntoIterator<Item = &'m str>) -> &'static Traffic {
        let words = modes.into_iter().map(|mode| match mode {
            "tcp" => &SESSIONS,
            "udp" => &FLOWS,
            "dns" => &ANSWERS,
            _ => &REQUESTS,
        });
        words.reduce(|all, one| if all == one { all } else { &MIXED }).unwrap_or(&REQUESTS)
    }

    /// Returns the words for a pool.
    pub fn of_pool(pool: &Pool) -> &'static Traffic {
        Traffic::of(pool.modes.iter().map(String::as_str))
    }

    /// Returns the words for all listeners of a process.
    pub fn of_all(status: &Status) -> &'static Traffic {
        Traffic::of(status.listeners.iter().map(|listener| &*listener.mode))
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

/// A duration in a unit or two.
pub fn ago(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A duration in milliseconds or seconds, with up to three digits.
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

/// A percentile in two digits: more would be false, as it is known to a step of a fifth. `gap` is before the unit.
pub fn percentile(ms: f64, gap: &str) -> String {
    let rounded = two_digits(ms);
    match rounded {
        ms if ms <= 0.0 => format!("0{gap}ms"),
        ms if ms < 0.1 => format!("{:.0}{gap}\u{b5}s", ms * 1000.0),
        ms if ms < 1000.0 => format!("{ms}{gap}ms"),
        ms if ms < 10_000.0 => format!("{:.1}{gap}s", ms / 1000.0),
        ms => format!("{:.0}{gap}s", ms / 1000.0),
    }
}

fn two_digits(x: f64) -> f64 {
    // The formatter rounds in decimal, where a division would leave 0.30000000000000004.
    format!("{x:.1e}").parse().unwrap_or(x)
}

/// A rate a second, without its unit: a decimal below 10, none above, as it is counted over a few seconds.
pub fn rate(per_second: f64) -> String {
    match per_second {
        x if x <= 0.0 => "0".to_owned(),
        x if x < 0.05 => "<0.1".to_owned(),
        x if x < 9.95 => format!("{x:.1}"),
        x if x < 9_999.5 => format!("{x:.0}"),
        x if x < 999_500.0 => format!("{:.0}k", x / 1e3),
        x => format!("{:.1}M", x / 1e6),
    }
}

/// A part of 1 in percent, with a decimal where that is worth reading. Never 0 % or 100 % unless it is.
pub fn percent(part: f64, gap: &str) -> String {
    let percent = part * 100.0;
    match percent {
        x if x <= 0.0 => format!("0{gap}%"),
        x if x < 0.05 => format!("<0.1{gap}%"),
        x if x < 9.95 => format!("{x:.1}{gap}%"),
        x if !(99.0..100.0).contains(&x) => format!("{x:.0}{gap}%"),
        x => format!("{:.1}{gap}%", x.min(99.9)),
    }
}

/// Bytes in the unit that suits them, powers of 1000: `950 B`, `12.3 kB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64;
    let mut unit = "B";
    for next in UNITS {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, next);
    }
    if value < 9.995 {
        format!("{value:.2} {unit}")
    } else if value < 99.95 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// Use of the memory for compression, and the effects of its lack, if any.
pub fn compression_memory(memory: &CompressionMemory) -> String {
    let mut text = format!("{} of {}", bytes(memory.bytes), bytes(memory.limit));
    let lacks = [
        (memory.small_window, "got a small window"),
        (memory.identity, "got no coding"),
        (memory.stored, "were stored"),
        (memory.given_up, "lost their compressor"),
    ];
    for (n, what) in lacks.into_iter().filter(|(n, _)| *n > 0) {
        text += &format!(", {} {what}", grouped(n));
    }
    text
}

/// Connections of a listener over HTTP/3, if there have been any.
pub fn http3(http3: &Http3) -> String {
    let Http3 { connections, handshakes, requests, migrations, packets_sent, packets_lost, retries } = *http3;
    if handshakes + retries == 0 {
        return "no connections so far".to_owned();
    }
    let mut text =
        format!("{} connections open of {}, {} requests", grouped(connections), grouped(handshakes), grouped(requests));
    if packets_lost > 0 {
        text += &format!(", {} of packets lost", percent(packets_lost as f64 / packets_sent.max(1) as f64, " "));
    }
    for (n, what) in [(migrations, "migrations"), (retries, "clients proved their address")] {
        if n > 0 {
            text += &format!(", {} {what}", grouped(n));
        }
    }
    text
}

/// A count with a comma between thousands: `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
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
    fn connections_over_http3_have_figures_that_are_not_zero() {
        let none = Http3::default();
        let some = Http3 { connections: 2, handshakes: 1500, requests: 20_000, packets_sent: 1000, ..none };
        let moved = Http3 { migrations: 3, packets_lost: 15, retries: 4, ..some };
        let text = "2 connections open of 1,500, 20,000 requests";
        assert_eq!(http3(&none), "no connections so far");
        assert_eq!(http3(&some), text);
        let rest = "1.5 % of packets lost, 3 migrations, 4 clients proved their address";
        assert_eq!(http3(&moved), format!("{text}, {rest}"));
    }

    #[test]
    fn times_have_two_units_at_most() {
        let times = [0, 59_999, 61_000, 3_600_000, 90_000_000].map(ago);
        assert_eq!(times, ["0s", "59s", "1m01s", "1h00m", "1d01h"]);
        assert_eq!([0.123, 12.6, 2500.0].map(milliseconds), ["0.12ms", "13ms", "2.5s"]);
        assert_eq!(time_of_day(1_700_000_000_000), "22:13:20");
        assert_eq!(escaped("a b/c:1"), "a%20b%2Fc:1");
    }

    #[test]
    fn what_is_counted_has_the_word_of_its_modes() {
        let words = [&[][..], &["http"], &["tcp", "tcp"], &["udp"], &["dns"], &["http", "tcp"], &["tcp", "udp", "udp"]];
        let words = words.map(|modes| Traffic::of(modes.iter().copied()).many);
        let mixed = "requests, sessions and flows";
        assert_eq!(words, ["requests", "requests", "sessions", "flows", "answers", mixed, mixed]);
    }

    #[test]
    fn figures_have_no_more_digits_than_are_known() {
        let times = [0.0, 0.0153, 0.123, 0.3, 4.687, 28.1, 123.4, 999.0, 2345.0, 12_345.0];
        let shown = times.map(|ms| percentile(ms, " "));
        let wanted = ["0 ms", "15 \u{b5}s", "0.12 ms", "0.3 ms", "4.7 ms", "28 ms", "120 ms", "1.0 s", "2.3 s", "12 s"];
        assert_eq!(shown, wanted);
        let rates = [0.0, 0.01, 0.4, 9.96, 171.6, 12_300.0, 4_560_000.0].map(rate);
        assert_eq!(rates, ["0", "<0.1", "0.4", "10", "172", "12k", "4.6M"]);
        let parts = [0.0, 0.0001, 0.0123, 0.125, 0.5, 0.9951, 0.9999, 1.0].map(|part| percent(part, " "));
        assert_eq!(parts, ["0 %", "<0.1 %", "1.2 %", "12 %", "50 %", "99.5 %", "99.9 %", "100 %"]);
        assert_eq!([0, 950, 1234, 12_345, 999_600].map(bytes), ["0 B", "950 B", "1.23 kB", "12.3 kB", "1.00 MB"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}

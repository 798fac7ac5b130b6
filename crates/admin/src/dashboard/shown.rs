//! How are figures, times and states written on pages?

use evenkeel_view::{Endpoint, Order};
use maud::{Markup, html};
use std::fmt::Write;

/// How long, in one or two units.
pub fn ago(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A moment, milliseconds since 1970: `14:05:30`, UTC.
pub fn since(ms: u64) -> String {
    let second = ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

/// Milliseconds with their unit.
pub fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1000.0),
    }
}

/// A number, in short.
pub fn brief(x: f64) -> String {
    if x.fract() == 0.0 { format!("{x}") } else { format!("{x:.3}") }
}

/// A part of 1, in percent.
pub fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// A figure, or a dash for none.
pub fn or_dash<T>(figure: Option<T>, written: impl Fn(T) -> String) -> String {
    figure.map_or_else(|| "\u{2013}".to_owned(), written)
}

/// A state: a word, and a colour for those who see it.
pub fn state(endpoint: &Endpoint) -> Markup {
    html! { span class={ "state " (kind(&endpoint.state)) } { (endpoint.state) } }
}

/// How good a state is.
fn kind(state: &str) -> &'static str {
    match state {
        "up" => "up",
        "ramping" | "probation" | "unchecked" => "partly",
        "draining" | "disabled" => "out",
        _ => "down",
    }
}

/// Weights, configured and effective.
pub fn weight(endpoint: &Endpoint) -> String {
    let configured = f64::from(endpoint.weight.configured);
    match endpoint.weight.effective {
        effective if (effective - configured).abs() < 0.005 => format!("{configured}"),
        effective => format!("{configured} \u{2192} {}", (effective * 100.0).round() / 100.0),
    }
}

/// What operators want of an endpoint, in words. `reason`: what is said beside it; who it was is said once.
pub fn order(order: &Order, reason: Option<&str>, now_ms: u64) -> String {
    use evenkeel_view::{Drain, Health};
    let drain = order.drain.map(|drain| match drain {
        Drain::KeepSessions => "drains, sticky clients stay".to_owned(),
        Drain::Now => "drains, sticky clients leave".to_owned(),
    });
    let weight = order.weight.map(|weight| format!("weight {weight}"));
    let health = order.health.map(|health| match health {
        Health::Up => "counts as up".to_owned(),
        Health::Down => "counts as down".to_owned(),
    });
    let what: Vec<String> = [drain, weight, health].into_iter().flatten().collect();
    let by = format!("by {}", order.by);
    let who = if reason.is_some_and(|reason| reason.ends_with(&by)) { String::new() } else { format!("{by}, ") };
    format!("{}: {who}{} ago", what.join(", "), ago(now_ms.saturating_sub(order.at_ms)))
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

/// The page of an endpoint.
pub fn page_of(pool: &str, endpoint: &str) -> String {
    format!("/ui/pools/{}/{}", escaped(pool), escaped(endpoint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_figures_have_units() {
        assert_eq!([0, 61_000, 3_600_000, 90_000_000].map(ago), ["0s", "1m01s", "1h00m", "1d01h"]);
        assert_eq!(since(1_700_000_000_000), "22:13:20 UTC");
        assert_eq!([0.123, 12.6, 2500.0].map(milliseconds), ["0.12 ms", "13 ms", "2.5 s"]);
        assert_eq!((percent(0.125), or_dash(None, percent)), ("12.5 %".to_owned(), "\u{2013}".to_owned()));
        let weight = Order { weight: Some(0), by: "user root".into(), at_ms: 1000, ..Order::default() };
        assert_eq!(order(&weight, Some("answered 500"), 3000), "weight 0: by user root, 2s ago");
        assert_eq!(order(&weight, Some("weight set to 0 by user root"), 3000), "weight 0: 2s ago");
        assert_eq!(page_of("a b", "[::1]:80/x"), "/ui/pools/a%20b/%5B::1%5D:80%2Fx");
    }
}

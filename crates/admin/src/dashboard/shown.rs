//! Figures, times and states as pages write them.

use evenkeel_view::words::{self, Standing, ago, duration, escaped, time_of_day};
use evenkeel_view::{Drain, Endpoint, Health, Order};
use maud::{Markup, html};

/// A moment, milliseconds since 1970: `14:05:30`, UTC.
pub fn since(ms: u64) -> String {
    format!("{} UTC", time_of_day(ms))
}

/// A duration that was measured, with its unit.
pub fn milliseconds(ms: f64) -> String {
    duration(ms, " ")
}

/// A percentile of durations, with its unit.
pub fn percentile(ms: f64) -> String {
    words::percentile(ms, " ")
}

/// A rate with its unit: `172/s`.
pub fn rate(per_second: f64) -> String {
    format!("{}/s", words::rate(per_second))
}

/// A number with up to three decimals.
pub fn brief(x: f64) -> String {
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A part of 1, in percent.
pub fn percent(part: f64) -> String {
    words::percent(part, " ")
}

/// A figure, or a dash for none.
pub fn or_dash<T>(figure: Option<T>, written: impl Fn(T) -> String) -> String {
    figure.map_or_else(|| "\u{2013}".to_owned(), written)
}

/// Most characters of a text that may be long.
const TEXT_MAX: usize = 60;

/// A text that may be long: cut, with the whole as its title.
pub fn cut(text: &str) -> Markup {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => html! { span title=(text) { (text[..end].trim_end()) "\u{2026}" } },
        None => html! { (text) },
    }
}

/// Class of a grade of states, which gives it colour and sign.
pub fn kind(standing: Standing) -> &'static str {
    match standing {
        Standing::Up => "up",
        Standing::Partly => "partly",
        Standing::Out => "out",
        Standing::Down => "down",
    }
}

/// A state: a word, and a colour for those who see it.
pub fn state(endpoint: &Endpoint) -> Markup {
    html! { span class={ "state " (kind(Standing::of(endpoint))) } { (endpoint.state) } }
}

/// Weights, configured and effective.
pub fn weight(endpoint: &Endpoint) -> String {
    words::weight(endpoint, " \u{2192} ")
}

/// Order of an operator for an endpoint, in words. `reason` is shown beside it: a name that ends it is not repeated.
pub fn order(order: &Order, reason: Option<&str>, now_ms: u64) -> String {
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

/// Path of the page of an endpoint.
pub fn page_of(pool: &str, endpoint: &str) -> String {
    format!("/ui/pools/{}/{}", escaped(pool), escaped(endpoint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_figures_have_units() {
        assert_eq!(since(1_700_000_000_000), "22:13:20 UTC");
        assert_eq!([0.123, 12.6, 2500.0].map(milliseconds), ["0.12 ms", "13 ms", "2.5 s"]);
        assert_eq!((percent(0.125), or_dash(None, percent)), ("12 %".to_owned(), "\u{2013}".to_owned()));
        let weight = Order { weight: Some(0), by: "user root".into(), at_ms: 1000, ..Order::default() };
        assert_eq!(order(&weight, Some("answered 500"), 3000), "weight 0: by user root, 2s ago");
        assert_eq!(order(&weight, Some("weight set to 0 by user root"), 3000), "weight 0: 2s ago");
        let long = cut(&format!("{}<b>", "a".repeat(60))).into_string();
        assert!(long.starts_with("<span title=\"aaa") && long.ends_with("a\u{2026}</span>"), "{long}");
        assert_eq!(cut("short").into_string(), "short");
        assert_eq!(page_of("a b", "[::1]:80/x"), "/ui/pools/a%20b/%5B::1%5D:80%2Fx");
    }
}

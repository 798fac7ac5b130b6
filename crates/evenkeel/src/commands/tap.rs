//! `evenkeel tap`: requests as they end, a line for each, or the JSON of the API.

use crate::arguments::Tap as Arguments;
use crate::commands::client::Client;
use crate::failure::Failure;
use crate::output::print_more;
use evenkeel_view::tap::Tapped;
use evenkeel_view::words::{escaped, milliseconds, time_of_day};
use std::fmt::Write;

/// Runs `evenkeel tap`.
pub fn tap(arguments: &Arguments) -> Result<(), Failure> {
    let client = Client::new(&arguments.place)?;
    let mut failed = None;
    client.follow(&path(arguments), |data| {
        let text = match serde_json::from_str::<Tapped>(data) {
            Ok(_) if arguments.json => format!("{data}\n"),
            Ok(request) => line(&request),
            // Number of requests that arrived too fast.
            Err(_) => {
                eprintln!("{data} requests came too fast to be shown; use --sample to show a fraction");
                return true;
            }
        };
        print_more(&text).unwrap_or_else(|error| {
            failed = Some(error);
            false
        })
    })?;
    failed.map_or(Ok(()), Err)
}

fn path(arguments: &Arguments) -> String {
    let Arguments { pool, sample, listener, route, endpoint, method, host, path, status, min_ms, limit, .. } =
        arguments;
    let texts = [
        ("pool", pool),
        ("listener", listener),
        ("route", route),
        ("endpoint", endpoint),
        ("method", method),
        ("host", host),
        ("path", path),
        ("status", status),
    ];
    let texts = texts.into_iter().filter_map(|(name, value)| Some((name, escaped(value.as_ref()?))));
    let sample = sample.map(|part| ("sample", part.to_string()));
    let min_ms = min_ms.map(|ms| ("min_ms", ms.to_string()));
    let limit = limit.map(|limit| ("limit", limit.to_string()));
    let all = texts.chain(sample).chain(min_ms).chain(limit);
    format!("/v1/tap?{}", all.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&"))
}

/// Returns the line of a request: time, status, duration, target, endpoint, and the time of each phase.
fn line(one: &Tapped) -> String {
    let endpoint = one.tries.last().map_or("-", |last| &last.endpoint);
    let (time, ms) = (time_of_day(one.at_ms), one.at_ms % 1000);
    let status = if one.status == 0 { "-".to_owned() } else { one.status.to_string() };
    let mut line = format!(
        "{time}.{ms:03}  {status:<3}  {:>7}  {} {}{}  {}/{endpoint}",
        milliseconds(one.total_ms),
        one.method,
        one.host,
        one.path,
        if one.pool.is_empty() { "-" } else { &one.pool },
    );
    let phases = [
        ("queue", Some(one.queue_ms).filter(|ms| *ms > 0.0)),
        ("connect", one.connect_ms),
        ("first byte", one.ttfb_ms),
    ];
    let phases = phases.into_iter().filter_map(|(name, ms)| Some(format!("{name} {}", milliseconds(ms?))));
    let phases = phases.collect::<Vec<_>>().join(", ");
    if !phases.is_empty() {
        let _ = write!(line, "  ({phases})");
    }
    if one.tries.len() > 1 {
        let tries = one.tries.iter().map(|t| format!("{} {} {}", t.endpoint, t.end, milliseconds(t.took_ms)));
        let _ = write!(line, "  tries: {}", tries.collect::<Vec<_>>().join(", "));
    }
    if one.end != "normal" {
        let _ = write!(line, "  ended by {} in {}", one.end, one.phase);
    }
    if let Some(reason) = &one.reason {
        let _ = write!(line, ": {reason}");
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_view::tap::TappedTry;

    #[test]
    fn a_line_has_the_way_and_the_times_of_a_request() {
        let tried = |endpoint: &str, end: &str| TappedTry {
            endpoint: endpoint.into(),
            end: end.into(),
            took_ms: 2.0,
            ..TappedTry::default()
        };
        let mut one = Tapped {
            at_ms: 86_400_000 + 3_723_004,
            status: 200,
            method: "GET".into(),
            host: "shop.test".into(),
            path: "/cart?x".into(),
            pool: "shop".into(),
            total_ms: 4.25,
            ttfb_ms: Some(4.0),
            end: "normal".into(),
            tries: vec![tried("a", "connect"), tried("b", "answered")],
            ..Tapped::default()
        };
        let want = "01:02:03.004  200   4.25ms  GET shop.test/cart?x  shop/b  (first byte 4.00ms)  tries: a connect \
                    2.00ms, b answered 2.00ms\n";
        assert_eq!(line(&one), want);
        (one.status, one.end, one.phase) = (0, "client".into(), "response".into());
        one.tries.clear();
        assert!(line(&one).ends_with("shop/-  (first byte 4.00ms)  ended by client in response\n"), "{}", line(&one));
    }
}

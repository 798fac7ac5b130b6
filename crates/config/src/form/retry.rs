//! Strings of `retry`: failures (`connect`, `503`), pauses (`25ms..250ms`) and percentiles (`p95`).

use super::misfit::Misfit;
use super::status;
use crate::code::Code;
use crate::nearest::nearest;
use crate::quantity::{duration_ns, duration_text};
use crate::tree::quoted;
use evenkeel_wire::grpc::Status as GrpcStatus;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Failure that can be retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RetryOn {
    Connect,
    Reset,
    Timeout,
    Statuses(RangeInclusive<u16>),
    Grpc(GrpcStatus),
}

pub(super) fn failure(text: &str) -> Result<RetryOn, Misfit> {
    if let Some(name) = text.strip_prefix("grpc:") {
        return grpc(text, name).map(RetryOn::Grpc);
    }
    match text {
        "connect" => Ok(RetryOn::Connect),
        "reset" => Ok(RetryOn::Reset),
        "timeout" => Ok(RetryOn::Timeout),
        _ if text.starts_with(|c: char| c.is_ascii_digit()) => status::read(text, 400..=599).map(RetryOn::Statuses),
        _ => {
            let did = match nearest(text, ["connect", "reset", "timeout"]) {
                Some(word) => format!("did you mean \"{word}\"? "),
                None => String::new(),
            };
            Err(Misfit::new(
                Code::NotAllowed,
                format!("{} is not a failure that can be tried again", quoted(text)),
                format!(
                    "{did}allowed: connect, reset, timeout, statuses as 503, \"500..=504\" or \"5xx\", and \"grpc:unavailable\" and so on"
                ),
            ))
        }
    }
}

fn grpc(text: &str, name: &str) -> Result<GrpcStatus, Misfit> {
    // `ok` is not a failure.
    let failures = &GrpcStatus::NAMES[1..];
    let lower = name.to_ascii_lowercase().replace('_', "-");
    match GrpcStatus::of_name(name).filter(|status| *status != GrpcStatus::Ok) {
        Some(status) => Ok(status),
        None => {
            let help = match nearest(&lower, failures.iter().copied()) {
                Some(word) => format!("did you mean \"grpc:{word}\"?"),
                None => format!("allowed behind \"grpc:\": {}", failures.join(", ")),
            };
            Err(Misfit::new(Code::NotAllowed, format!("{} is not a gRPC failure", quoted(text)), help))
        }
    }
}

/// Longest pause, in nanoseconds: a longer pause would outlast the patience of most clients.
const PAUSE_MAX: u64 = 60_000_000_000;

/// Parses the first and longest pause, in nanoseconds.
pub(super) fn backoff(text: &str) -> Result<(u64, u64), Misfit> {
    let bad = |why: &str, help: String| {
        Err(Misfit::new(Code::BadDuration, format!("{} is not a range of pauses: {why}", quoted(text)), help))
    };
    let Some((first, last)) = text.split_once("..") else {
        let help = match duration_ns(text) {
            Ok(_) => format!("write {} for pauses that stay as long", quoted(&format!("{text}..{text}"))),
            Err(_) => "write the first pause and the longest, as \"25ms..250ms\"".to_string(),
        };
        return bad("it has no \"..\"", help);
    };
    match (duration_ns(first), duration_ns(last)) {
        (Err(why), _) | (_, Err(why)) => bad(&why, "write the first pause and the longest, as \"25ms..250ms\"".into()),
        (Ok(first_ns), Ok(last_ns)) if first_ns > last_ns => {
            bad("the first pause is longer than the longest", format!("write \"{last}..{first}\""))
        }
        (Ok(_), Ok(last_ns)) if last_ns > PAUSE_MAX => {
            bad("it is too long", format!("allowed: up to {}", duration_text(Duration::from_nanos(PAUSE_MAX))))
        }
        (Ok(first_ns), Ok(last_ns)) => Ok((first_ns, last_ns)),
    }
}

/// Parses a percentile into a share above 0 and below 1; `None` for `"off"`.
pub(super) fn percentile(text: &str) -> Result<Option<f64>, Misfit> {
    if text == "off" {
        return Ok(None);
    }
    let number = text.strip_prefix(['p', 'P']).unwrap_or(text);
    // At most four decimals, so that writing and reading again gives the same number.
    let exact = number.split_once('.').is_none_or(|(_, behind)| (1..=4).contains(&behind.len()));
    let digits = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let percent = number.parse::<f64>().ok().filter(|p| exact && digits && *p > 0.0 && *p < 100.0);
    match percent {
        Some(percent) if number.len() < text.len() => Ok(Some(percent / 100.0)),
        _ => {
            let write = percent.map_or("p95".to_string(), |_| format!("p{number}"));
            Err(Misfit::new(
                Code::NotAllowed,
                format!("{} is not a percentile", quoted(text)),
                format!("write \"{write}\"; allowed: \"off\", and p0.0001 to p99.9999"),
            ))
        }
    }
}

/// Formats a share as the percentile that [`percentile`] reads.
pub(crate) fn percentile_text(percentile: f64) -> String {
    format!("p{}", (percentile * 1e6).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_failures() {
        assert_eq!(failure("reset"), Ok(RetryOn::Reset));
        assert_eq!(failure("5xx"), Ok(RetryOn::Statuses(500..=599)));
        assert_eq!(failure("grpc:resource-exhausted"), Ok(RetryOn::Grpc(GrpcStatus::ResourceExhausted)));
        for (text, help) in [
            ("grpc:UNAVAILABLE", "\"grpc:unavailable\""),
            ("grpc:data_loss", "\"grpc:data-loss\""),
            ("grpc:ok", "allowed behind"),
            ("grpc:", "unavailable"),
        ] {
            let misfit = failure(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
        for (text, help) in
            [("conect", "\"connect\""), ("200", "400 to 599"), ("", "allowed: connect"), ("gateway", "5xx")]
        {
            let misfit = failure(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
    }

    #[test]
    fn reads_pauses() {
        assert_eq!(backoff("25ms..250ms"), Ok((25_000_000, 250_000_000)));
        assert_eq!(backoff("0s..0s"), Ok((0, 0)));
        for (text, help) in [
            ("", "25ms..250ms"),
            ("25ms", "\"25ms..25ms\""),
            ("25..250", "25ms..250ms"),
            ("1s..25ms", "\"25ms..1s\""),
            ("1s..2m", "up to 1m"),
            ("1s...2s", "25ms..250ms"),
        ] {
            let misfit = backoff(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
    }

    #[test]
    fn reads_percentiles_and_writes_them_again() {
        assert_eq!(percentile("off"), Ok(None));
        for text in ["p95", "p99.5", "p50", "p0.0001", "p99.9999", "p99.99", "p33.3", "p7"] {
            let read = percentile(text).expect(text).expect(text);
            assert_eq!(percentile_text(read), text);
        }
        for (text, help) in [
            ("95", "\"p95\""),
            ("p0", "\"p95\""),
            ("p100", "\"p95\""),
            ("p99.99999", "\"p95\""),
            ("p1e1", "\"p95\""),
            ("pNaN", "\"p95\""),
            ("p9.", "\"p95\""),
            ("", "\"p95\""),
        ] {
            let misfit = percentile(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
    }
}

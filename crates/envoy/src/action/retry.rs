//! `retry_policy` of a route or a virtual host.

use crate::node::Node;
use evenkeel_config::plan::{GrpcStatus, Retry};
use std::time::Duration;

/// Most retries of a request that a plan can have.
const ATTEMPTS_MAX: u64 = 10;

/// Returns the retries of a policy. Without a policy there are none, as in Envoy.
///
/// # Errors
/// The condition that no retry of a plan can have.
pub fn retry(policy: Option<&Node<'_>>, request: Option<Duration>) -> Result<Retry, String> {
    let mut retry = Retry::default();
    let Some(policy) = policy else {
        retry.settings.attempts = 0;
        return Ok(retry);
    };
    let settings = &mut retry.settings;
    let attempts = policy.bounded("num_retries", policy.wrapped("num_retries").unwrap_or(1), 0..=ATTEMPTS_MAX);
    settings.attempts = u32::try_from(attempts).unwrap_or_default();
    // A try that may last longer than the request ends with it.
    let try_timeout = policy.duration("per_try_timeout").filter(|time| !time.is_zero());
    let try_timeout = try_timeout.filter(|time| request.is_none_or(|request| *time < request));
    settings.try_timeout_ns = try_timeout.and_then(|time| u64::try_from(time.as_nanos()).ok());
    if let Some(back_off) = policy.node("retry_back_off") {
        let ns = |name| back_off.duration(name).and_then(|time| u64::try_from(time.as_nanos()).ok());
        if let Some(base) = ns("base_interval").filter(|ns| *ns > 0) {
            (settings.backoff_ns, settings.backoff_max_ns) = (base, ns("max_interval").unwrap_or(base * 10).max(base));
        }
    }
    let codes = policy.numbers("retriable_status_codes");
    let statuses: Vec<u16> =
        codes.iter().filter_map(|n| u16::try_from(*n).ok().filter(|code| (400..600).contains(code))).collect();
    if statuses.len() < codes.len() {
        policy.differs("retriable_status_codes: only those from 400 to 599 are retried");
    }
    let on = &mut settings.on;
    (on.connect, on.reset, on.timeout, on.grpc) = (false, false, false, 0);
    on.statuses.clear();
    for word in policy.text("retry_on").unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word {
            "connect-failure" | "refused-stream" => on.connect = true,
            "reset" | "reset-before-request" => on.reset = true,
            "5xx" => {
                (on.connect, on.reset, on.timeout) = (true, true, settings.try_timeout_ns.is_some());
                on.statuses.extend(500..=599);
            }
            "gateway-error" => {
                on.timeout = settings.try_timeout_ns.is_some();
                on.statuses.extend([502, 503, 504]);
            }
            "retriable-4xx" => on.statuses.push(409),
            "retriable-status-codes" => on.statuses.extend(&statuses),
            word => match GrpcStatus::NAMES.iter().position(|name| *name == word) {
                Some(at) => on.grpc |= 1 << at,
                None => {
                    policy.without(format!("retry_policy.retry_on: {word:?} is not a condition of retries"))?;
                }
            },
        }
    }
    on.statuses.sort_unstable();
    on.statuses.dedup();
    Ok(retry)
}

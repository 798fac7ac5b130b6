//! `retry`: what a route sets, over its pool's, over the defaults.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Formed, RetryOn};
use crate::plan::Retry;
use crate::quantity::duration_text;
use crate::read::{Section, Value};
use evenkeel_balance::{hedge, retry};
use std::time::Duration;

/// `over`: the table itself, then the one it inherits from.
pub(super) fn retry(over: &[&Section], defaults: &Section) -> Retry {
    let from = |name: &str| Section::setter(over, defaults, name);
    let percentile = match from("hedge_after").formed("hedge_after") {
        Some(Formed::Percentile(percentile)) => percentile,
        _ => None,
    };
    Retry {
        settings: settings(over, defaults),
        hedge: percentile.map(|percentile| hedge::Settings {
            percentile,
            budget: from("hedge_budget").float("hedge_budget"),
            ..hedge::Settings::default()
        }),
    }
}

/// What the rows of [`TRIES`](crate::keys::TRIES) say.
pub(crate) fn settings(over: &[&Section], defaults: &Section) -> retry::Settings {
    let from = |name: &str| Section::setter(over, defaults, name);
    let (backoff_ns, backoff_max_ns) = match from("backoff").formed("backoff") {
        Some(Formed::Backoff(first, longest)) => (first, longest),
        _ => (0, 0),
    };
    let try_timeout = from("try_timeout");
    retry::Settings {
        attempts: from("attempts").number("attempts"),
        on: conditions(from("on")),
        non_idempotent: from("non_idempotent").flag("non_idempotent"),
        budget: from("budget").float("budget"),
        budget_floor: from("budget_floor").float("budget_floor"),
        backoff_ns,
        backoff_max_ns,
        try_timeout_ns: try_timeout.duration("try_timeout").map(|_| try_timeout.ns("try_timeout")),
    }
}

fn conditions(table: &Section) -> retry::Conditions {
    let mut on = retry::Conditions::default();
    for located in table.list("on") {
        match located.value {
            Value::Int(status) => on.statuses.extend(u16::try_from(status)),
            Value::Formed(Formed::RetryOn(RetryOn::Connect)) => on.connect = true,
            Value::Formed(Formed::RetryOn(RetryOn::Reset)) => on.reset = true,
            Value::Formed(Formed::RetryOn(RetryOn::Timeout)) => on.timeout = true,
            Value::Formed(Formed::RetryOn(RetryOn::Statuses(range))) => on.statuses.extend(range),
            _ => {}
        }
    }
    on.statuses.sort_unstable();
    on.statuses.dedup();
    on
}

/// Says so if a try may take longer than the whole request, or if nothing follows its end. Only about what is set here:
/// `own` and `timeouts` are tables of the same pool or route, `request` is its timeout.
pub(super) fn check(
    own: &Section,
    timeouts: &Section,
    retry: &Retry,
    request: Option<Duration>,
    findings: &mut Findings,
) {
    let set = own.set("try_timeout");
    let Some(try_timeout) = retry.settings.try_timeout_ns.map(Duration::from_nanos) else { return };
    if let Some(request) = request.filter(|request| try_timeout > *request)
        && let Some(place) = set.or(timeouts.set("request")).map(|located| located.place)
    {
        let (tried, whole) = (duration_text(try_timeout), duration_text(request));
        let message = format!("\"try_timeout\" is {tried}, longer than \"request\" ({whole}), so it never ends a try");
        let finding = findings.add(Code::TimeoutOrder, place, message);
        finding.help(format!("make \"try_timeout\" shorter: {whole} has to do for every try"));
        if let (Some(_), Some(request)) = (set, timeouts.set("request")) {
            finding.see("the whole request ends before", request.place);
        }
    }
    if let Some(set) = set.filter(|_| !retry.settings.on.timeout) {
        findings
            .add(Code::AtOdds, set.place, "\"try_timeout\" ends a try, but no other one follows")
            .help("add \"timeout\" to \"on\"; to end requests, set \"response\" of \"timeouts\" instead");
    }
}

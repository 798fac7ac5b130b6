//! Requests as they end: records of workers, converted to the types of the API.

use evenkeel_admin::api::problem::Problem;
use evenkeel_admin::api::running::{Requests, Told};
use evenkeel_proxy::finished::FinishedRequest;
use evenkeel_proxy::summary::Summary;
use evenkeel_proxy::taps::{Filter, OPEN_MAX, Statuses};
use evenkeel_proxy::timing::Timing;
use evenkeel_proxy::tries::Try;
use evenkeel_proxy::{Looker, Tap};
use evenkeel_runtime::Generation;
use evenkeel_view::tap::{self, Tapped, TappedTry};
use futures_core::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Opens a tap.
///
/// # Errors
/// A name is unknown, a status is none, or too many watch.
pub fn open(looker: &Arc<Looker>, now: &Generation, wanted: &tap::Filter) -> Result<Requests, Problem> {
    fn known<'n>(
        what: &str,
        wanted: Option<&String>,
        names: impl Iterator<Item = &'n Arc<str>> + Clone,
    ) -> Result<(), Problem> {
        let Some(wanted) = wanted.filter(|wanted| names.clone().all(|name| **name != ***wanted)) else { return Ok(()) };
        let names = names.take(20).map(|name| &**name).collect::<Vec<_>>().join(", ");
        Err(Problem::not_found(format!("unknown {what} \"{wanted}\"; {what}s: {names}")))
    }
    let plan = &now.plan;
    known("listener", wanted.listener.as_ref(), plan.listeners.iter().map(|listener| &listener.name))?;
    known("route", wanted.route.as_ref(), plan.routes.iter().map(|route| &route.name))?;
    known("pool", wanted.pool.as_ref(), plan.pools.iter().map(|pool| &pool.name))?;
    let pools = now.pools().filter(|(pool, _)| wanted.pool.as_ref().is_none_or(|name| *pool.name == **name));
    let endpoints: Vec<_> =
        if wanted.endpoint.is_some() { pools.map(|(_, found)| found).collect() } else { Vec::new() };
    let endpoints = endpoints.iter().flat_map(|found| found.iter()).map(|endpoint| &endpoint.name);
    known("endpoint", wanted.endpoint.as_ref(), endpoints)?;
    let filter = Filter {
        sample: wanted.sample,
        listener: wanted.listener.clone(),
        route: wanted.route.clone(),
        pool: wanted.pool.clone(),
        endpoint: wanted.endpoint.clone(),
        method: wanted.method.clone(),
        host: wanted.host.clone(),
        path: wanted.path.clone(),
        status: wanted.status.as_deref().map(statuses).transpose()?,
        min_ns: (wanted.min_ms.unwrap_or(0.0) * 1e6) as u64,
    };
    match looker.tap(&filter) {
        Some(tap) => Ok(Box::pin(Following(tap))),
        None => Err(Problem::refused(format!("too many taps: {OPEN_MAX} are open"))),
    }
}

fn statuses(text: &str) -> Result<Statuses, Problem> {
    let class = text.strip_suffix("xx").and_then(|class| class.parse().ok()).filter(|class| (1..=5).contains(class));
    let only = text.parse().ok().filter(|status| *status == 0 || (100..=599).contains(status));
    let parsed = class.map(Statuses::Class).or(only.map(Statuses::Only));
    parsed.ok_or_else(|| {
        Problem::malformed(format!(
            "status \"{text}\" is unknown: write a status such as 503, a class such as 5xx, or 0"
        ))
    })
}

struct Following(Tap);

impl Stream for Following {
    type Item = Told;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Told>> {
        match self.0.take_dropped() {
            0 => self.0.poll_next(cx).map(|one| one.map(|one| Told::Request(Box::new(tapped(&one))))),
            dropped => Poll::Ready(Some(Told::Dropped(dropped))),
        }
    }
}

fn tapped(one: &FinishedRequest) -> Tapped {
    let ms = |ns: u64| ns as f64 / 1e6;
    let Summary { status, call_status, bytes_in, bytes_out, timing, cause, phase, .. } = one.summary;
    let Timing { queue_ns, connect_ns, ttfb_ns, total_ns, .. } = timing;
    Tapped {
        request_id: one.request_id.clone(),
        trace_id: one.trace_id.clone(),
        at_ms: one.at_ns / 1_000_000,
        worker: one.worker as u64,
        listener: one.listener.to_string(),
        route: one.route.to_string(),
        pool: one.pool.to_string(),
        client: one.client.clone(),
        protocol: one.protocol.into(),
        method: one.method.clone(),
        host: one.host.clone(),
        path: one.path.clone(),
        status,
        grpc_status: call_status.map(|status| status.name().into()),
        bytes_in,
        bytes_out,
        queue_ms: ms(queue_ns),
        connect_ms: connect_ns.map(ms),
        ttfb_ms: ttfb_ns.map(ms),
        total_ms: ms(total_ns),
        end: cause.label().into(),
        phase: phase.label().into(),
        reason: one.reason.clone(),
        tries: one.tries.iter().map(tried).collect(),
    }
}

fn tried(one: &Try) -> TappedTry {
    TappedTry {
        endpoint: one.endpoint.to_string(),
        at_ms: one.at_ns as f64 / 1e6,
        took_ms: one.took_ns as f64 / 1e6,
        end: one.end.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_or_a_class() {
        assert_eq!(statuses("5xx").ok(), Some(Statuses::Class(5)));
        assert_eq!(statuses("404").ok(), Some(Statuses::Only(404)));
        assert_eq!(statuses("0").ok(), Some(Statuses::Only(0)));
        for wrong in ["", "xx", "9xx", "-1", "99", "600", "5x"] {
            assert!(statuses(wrong).is_err_and(|problem| problem.status == 400), "{wrong}");
        }
    }
}

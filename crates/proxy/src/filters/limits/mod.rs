//! Filters that answer 429 to requests over a limit: of a listener, by address, and of a route, by any key
//! ([`route_limits`]).

pub mod route_limits;

use super::exchange::Exchange;
use super::filter::{DryRun, Filter, Own, Predict, RequestHead, Verdict};
use super::row::Build;
use super::step::Step;
use crate::body::response::Response;
use crate::peer::admission::Admission;
use evenkeel_balance::Clock;
use evenkeel_balance::time::SECOND_NS;
use evenkeel_config::plan::Most;
use evenkeel_tokens::Checked;
use route_limits::{AllLimits, Held, Limit, Over, RouteLimits};
use std::borrow::Cow;
use std::sync::Arc;

/// Rate of each address at a listener.
struct Rate(Arc<Admission>);

pub fn of_listener(from: &Build<'_>) -> Option<Step> {
    from.admission.limits_requests().then(|| Box::new(Rate(from.admission.clone())) as _)
}

impl Filter for Rate {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        match self.0.request(cx.client(), || cx.core.clock.now()) {
            Ok(()) => Verdict::Next,
            Err(seconds) => Verdict::Answer(too_many(cx, seconds)),
        }
    }
}

impl Predict for Rate {
    fn dry_run(&self, _: &mut Own<()>, _: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> DryRun {
        DryRun::nothing()
    }
}

#[cold]
fn too_many(cx: &Exchange<'_>, seconds: u64) -> Response {
    cx.stats.rate_limited.add(1);
    let why = "too many requests from this address; try again later";
    Response::new(429, why).with("Retry-After", &seconds.to_string())
}

/// Limits of a route, shared by all workers.
struct Limits(Arc<RouteLimits>);

pub fn of_route(from: &Build<'_>) -> Option<Step> {
    let limits = from.resources.of::<AllLimits>().of(&from.route.as_ref()?.plan.name)?;
    let any = limits.all().iter().any(|limit| !limit.is_of_token());
    any.then(|| Box::new(Limits(limits.clone())) as _)
}

/// Limit that has refused a request, by its index among all of the route.
struct Refused(usize);

impl Refused {
    fn text(&self, limits: &RouteLimits) -> Cow<'static, str> {
        limits.all().get(self.0).map_or("".into(), |limit| format!("refused: {}", reason(limit)).into())
    }
}

/// Notes the result of limits: the places of a request in flight, or the limit that refuses it.
fn note(
    limits: &RouteLimits,
    counted: Result<Option<Box<Held>>, Over<'_>>,
    own: &mut Own<Refused>,
    cx: &mut Exchange<'_>,
) -> Verdict {
    match counted {
        Ok(held) => {
            cx.facts.held = held.map(|held| held as _);
            Verdict::Next
        }
        Err(over) => {
            let at = limits.all().iter().position(|limit| std::ptr::eq(limit, over.limit));
            *own = at.map(|at| Box::new(Refused(at)));
            Verdict::Answer(refusal(over))
        }
    }
}

impl Filter for Limits {
    type State = Refused;

    fn request(&self, own: &mut Own<Refused>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let counted = self.0.admit(head.request, cx.client(), || cx.core.clock.now());
        note(&self.0, counted, own, cx)
    }

    fn did(&self, own: Option<&Refused>, cx: &Exchange<'_>) -> Cow<'static, str> {
        match (own, &cx.facts.held) {
            (Some(refused), _) => refused.text(&self.0),
            (None, Some(_)) => "counted as in flight".into(),
            (None, None) => "".into(),
        }
    }
}

impl Predict for Limits {
    fn dry_run(&self, _: &mut Own<Refused>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        let over = self.0.would_refuse(head.request, cx.client(), cx.core.clock.now());
        over.map_or_else(
            || within(self.0.all().iter().filter(|limit| !limit.is_of_token())),
            |over| refusal(over).into(),
        )
    }
}

/// Limits of a route by claims of its tokens, which are verified behind the other limits.
struct OfClaims(Arc<RouteLimits>);

pub fn of_claims(from: &Build<'_>) -> Option<Step> {
    let limits = from.resources.of::<AllLimits>().of(&from.route.as_ref()?.plan.name)?;
    limits.all().iter().any(Limit::is_of_token).then(|| Box::new(OfClaims(limits.clone())) as _)
}

impl Filter for OfClaims {
    type State = Refused;

    fn request(&self, own: &mut Own<Refused>, cx: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let Some(Checked { token, .. }) = &cx.facts.token else { return Verdict::Next };
        let held = cx.facts.held.take().and_then(|held| held.downcast().ok());
        let counted = self.0.admit_token(held, token, || cx.core.clock.now());
        note(&self.0, counted, own, cx)
    }

    fn did(&self, own: Option<&Refused>, _: &Exchange<'_>) -> Cow<'static, str> {
        own.map_or("".into(), |refused| refused.text(&self.0))
    }
}

impl Predict for OfClaims {
    fn dry_run(&self, _: &mut Own<Refused>, cx: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> DryRun {
        let Some(Checked { token, .. }) = &cx.facts.token else { return DryRun::Next("".into()) };
        let over = self.0.would_refuse_token(token, cx.core.clock.now());
        over.map_or_else(
            || within(self.0.all().iter().filter(|limit| limit.is_of_token())),
            |over| refusal(over).into(),
        )
    }
}

/// Prediction for a request that none of these limits refuses.
fn within<'l>(limits: impl Iterator<Item = &'l Limit>) -> DryRun {
    DryRun::Next(format!("within {}", limits.map(most).collect::<Vec<_>>().join(", ")).into())
}

/// Returns the reason for a refusal in words, for the client and the log.
fn reason(limit: &Limit) -> String {
    format!("more than {}", most(limit))
}

fn most(limit: &Limit) -> String {
    let key = &limit.plan.key;
    match limit.plan.most {
        Most::Requests { rate, .. } => format!("{rate} by {key}"),
        Most::InFlight(max) => format!("{max} in flight by {key}"),
    }
}

/// Response with the fields of draft-ietf-httpapi-ratelimit-headers-11. The name of the policy is the key; its
/// characters need no escapes.
#[cold]
fn refusal(over: Over<'_>) -> Response {
    let key = &over.limit.plan.key;
    let seconds = over.wait_ns.div_ceil(SECOND_NS).max(1);
    let (policy, left) = match over.limit.plan.most {
        Most::Requests { rate, .. } => {
            (format!("\"{key}\";q={};w={}", rate.requests, rate.per.as_secs()), format!("\"{key}\";r=0;t={seconds}"))
        }
        Most::InFlight(max) => (format!("\"{key}\";q={max};qu=\"concurrent-requests\""), format!("\"{key}\";r=0")),
    };
    Response::new(429, format!("too many requests: {}; try again later", reason(over.limit)))
        .with("Retry-After", &seconds.to_string())
        .with("RateLimit-Policy", &policy)
        .with("RateLimit", &left)
}

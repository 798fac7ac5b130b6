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

/// State of a request at limits of its route.
enum Counted {
    /// Counted as in flight.
    Held(#[expect(dead_code, reason = "counts until it is dropped")] Held),
    /// Refused by this limit, in words.
    Over(String),
}

impl Counted {
    /// Keeps the result of the limits.
    fn keep(counted: Result<Option<Held>, Over<'_>>, own: &mut Own<Counted>) -> Verdict {
        match counted {
            Ok(held) => {
                *own = held.map(|held| Box::new(Counted::Held(held)));
                Verdict::Next
            }
            Err(over) => {
                *own = Some(Box::new(Counted::Over(reason(&over))));
                Verdict::Answer(refusal(over))
            }
        }
    }

    fn did(own: Option<&Counted>) -> Cow<'static, str> {
        match own {
            Some(Counted::Over(over)) => format!("refused: {over}").into(),
            Some(Counted::Held(_)) => "counted as in flight".into(),
            None => "".into(),
        }
    }
}

impl Filter for Limits {
    type State = Counted;

    fn request(&self, own: &mut Own<Counted>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        Counted::keep(self.0.admit(head.request, cx.client(), || cx.core.clock.now()), own)
    }

    fn did(&self, own: Option<&Counted>, _: &Exchange<'_>) -> Cow<'static, str> {
        Counted::did(own)
    }
}

impl Predict for Limits {
    fn dry_run(&self, _: &mut Own<Counted>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
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
    type State = Counted;

    fn request(&self, own: &mut Own<Counted>, cx: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let Some(Ok(Checked { token, .. })) = &cx.token else { return Verdict::Next };
        Counted::keep(self.0.admit_token(token, || cx.core.clock.now()), own)
    }

    fn did(&self, own: Option<&Counted>, _: &Exchange<'_>) -> Cow<'static, str> {
        Counted::did(own)
    }
}

impl Predict for OfClaims {
    fn dry_run(&self, _: &mut Own<Counted>, cx: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> DryRun {
        let Some(Ok(Checked { token, .. })) = &cx.token else { return DryRun::Next("".into()) };
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
fn reason(over: &Over<'_>) -> String {
    format!("more than {}", most(over.limit))
}

fn most(limit: &Limit) -> String {
    let key = &limit.plan.key;
    match limit.plan.most {
        Most::Requests { rate, .. } => format!("{rate} by {key}"),
        Most::InFlight(max) => format!("{max} in flight by {key}"),
    }
}

/// The answer, with the fields of draft-ietf-httpapi-ratelimit-headers-11. The name of the policy is the key; its
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
    Response::new(429, format!("too many requests: {}; try again later", reason(&over)))
        .with("Retry-After", &seconds.to_string())
        .with("RateLimit-Policy", &policy)
        .with("RateLimit", &left)
}

//! Filters that answer 429 to requests over a limit: of a listener, by address, and of a route, by any key
//! ([`route_limits`]).

pub mod route_limits;

use super::exchange::Exchange;
use super::filter::{DryRun, Filter, Own, Predict, RequestHead, Verdict};
use super::row::Build;
use super::step::Step;
use crate::body::response::Response;
use crate::filters::template::lookup::Lookup;
use crate::filters::template::parameters::Parameters;
use crate::filters::template::source::Source;
use crate::peer::admission::Admission;
use crate::peer::key_table::{KeyHash, KeyTable};
use evenkeel_balance::Clock;
use evenkeel_balance::time::SECOND_NS;
use evenkeel_config::plan::{LimitKey, Most};
use evenkeel_tokens::Checked;
use route_limits::{AllLimits, Held, Limit, Over, RouteLimits};
use std::borrow::Cow;
use std::rc::Rc;
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
struct Limits {
    all: Arc<RouteLimits>,
    /// Map of each limit whose key is a map.
    maps: Box<[Option<Lookup>]>,
}

pub fn of_route(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?.plan;
    let limits = from.resources.of::<AllLimits>().of(&route.name)?;
    let any = limits.all().iter().any(|limit| !limit.is_of_token());
    let path = Rc::new(Parameters::of_route(route, from.listener.ignore_case));
    let map = |limit: &Limit| match &limit.plan.key {
        LimitKey::Map(name) => Lookup::new(name, &path, from.resources.of()),
        _ => None,
    };
    any.then(|| Box::new(Limits { all: limits.clone(), maps: limits.all().iter().map(map).collect() }) as _)
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
        let of_map = |at: usize, table: &KeyTable| self.of_map(at, table, cx, head);
        let counted = self.all.admit(head.request, cx.client(), of_map, || cx.core.clock.now());
        note(&self.all, counted, own, cx)
    }

    fn did(&self, own: Option<&Refused>, cx: &Exchange<'_>) -> Cow<'static, str> {
        match (own, &cx.facts.held) {
            (Some(refused), _) => refused.text(&self.all),
            (None, Some(_)) => "counted as in flight".into(),
            (None, None) => "".into(),
        }
    }
}

impl Predict for Limits {
    fn dry_run(&self, _: &mut Own<Refused>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        let of_map = |at: usize, table: &KeyTable| self.of_map(at, table, cx, head);
        let over = self.all.would_refuse(head.request, cx.client(), of_map, cx.core.clock.now());
        over.map_or_else(
            || within(self.all.all().iter().filter(|limit| !limit.is_of_token())),
            |over| refusal(over).into(),
        )
    }
}

impl Limits {
    /// Key of a request for the limit of this index, by a map; `None` for other limits and without a value.
    fn of_map(
        &self,
        at: usize,
        table: &KeyTable,
        cx: &Exchange<'_>,
        head: &RequestHead<'_, '_, '_>,
    ) -> Option<KeyHash> {
        let lookup = self.maps.get(at)?.as_ref()?;
        let source = Source::of_request(cx, head.request, head.edits.added());
        let mut value = cx.core.scratch();
        lookup.write(&source, &mut value);
        let key = (!value.is_empty()).then(|| table.hash(&value[..]));
        value.clear();
        cx.core.give_back(value);
        key
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

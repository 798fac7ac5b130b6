//! Limit on the rate of requests of each client address.

use super::exchange::Exchange;
use super::filter::{Filter, RequestHead, Verdict};
use super::row::Build;
use crate::body::response::Response;
use crate::peer::admission::Admission;
use evenkeel_balance::Clock;
use std::sync::Arc;

struct Limit(Arc<Admission>);

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    from.admission.limits_requests().then(|| Box::new(Limit(from.admission.clone())) as _)
}

impl Filter for Limit {
    fn request<'c>(&'c self, cx: &mut Exchange<'c>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        match self.0.request(cx.client(), || cx.core.clock.now()) {
            Ok(()) => Verdict::Next,
            Err(seconds) => Verdict::Answer(too_many(cx, seconds)),
        }
    }
}

#[cold]
fn too_many(cx: &Exchange<'_>, seconds: u64) -> Response {
    cx.stats.rate_limited.add(1);
    let why = "too many requests from this address; try again later";
    Response::new(429, why).with("Retry-After", &seconds.to_string())
}

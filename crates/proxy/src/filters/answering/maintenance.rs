//! Maintenance of a route: 503 for all clients but some.

use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use evenkeel_config::plan;

struct Maintenance(plan::Maintenance);

pub fn build(from: &Build<'_>) -> Option<Step> {
    let maintenance = from.route.as_ref()?.plan.filters.maintenance.clone()?;
    Some(Box::new(Maintenance(maintenance)))
}

impl Filter for Maintenance {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let client = cx.client();
        if self.0.allow.iter().any(|network| network.contains(client)) {
            return Verdict::Next;
        }
        let response = Response::new(503, "the route is under maintenance");
        Verdict::Answer(response.with("Retry-After", &self.0.retry_after.as_secs().to_string()))
    }
}

impl Pure for Maintenance {}

//! Maintenance of a route: 503 for all clients but some.

use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, Filter, RequestHead, Verdict};
use crate::filters::row::Build;
use evenkeel_config::plan;

struct Maintenance(plan::Maintenance);

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    let maintenance = from.route.as_ref()?.plan.filters.maintenance.clone()?;
    Some(Box::new(Maintenance(maintenance)))
}

impl Filter for Maintenance {
    fn request<'c>(&'c self, cx: &mut Exchange<'c>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let client = cx.client();
        if self.0.allow.iter().any(|network| network.contains(client)) {
            return Verdict::Next;
        }
        let response = Response::new(503, "the route is under maintenance");
        Verdict::Answer(response.with("Retry-After", &self.0.retry_after.as_secs().to_string()))
    }

    fn dry_run<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        self.request(cx, head).into()
    }
}

//! Page with the listener's load, for balancers in front. Needs no route, but the limits apply as to any request.

use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, Filter, Own, Predict, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::load::load_report::{self, Reporter};
use evenkeel_balance::Clock;
use std::rc::Rc;

struct Report(Rc<Reporter>);

pub fn build(from: &Build<'_>) -> Option<Step> {
    Some(Box::new(Report(from.reporter?.clone())))
}

impl Filter for Report {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        if head.request.path() != self.0.plan.path {
            return Verdict::Next;
        }
        cx.stats.reports_given[2].add(1);
        let load = self.0.load(cx.core.clock.now());
        let mut field = Vec::new();
        load_report::write_field(&load, &mut field);
        let mut response = Response::page("application/json", load_report::json(&load).into_bytes());
        response.fields.push(b"Cache-Control", b"no-store");
        response.fields.push_lines(&field);
        Verdict::Answer(response)
    }
}

impl Predict for Report {
    /// Makes no report, as each takes a stamp.
    fn dry_run(&self, _: &mut Own<()>, _: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        match head.request.path() == self.0.plan.path {
            true => DryRun::Answer(Response::page("application/json", ""), "the load of the listener".into()),
            false => DryRun::nothing(),
        }
    }
}

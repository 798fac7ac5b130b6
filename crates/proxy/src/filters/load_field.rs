//! Filter that counts requests as in flight, and reports the listener's load to balancers in front in a response field.

use super::exchange::Exchange;
use super::filter::{Filter, RequestHead, ResponseHead, Verdict};
use super::row::Build;
use crate::load::load_report::{self, Reporter};
use evenkeel_balance::{Clock, Outcome};
use std::rc::Rc;

struct Load(Rc<Reporter>);

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    Some(Box::new(Load(from.reporter?.clone())))
}

impl Filter for Load {
    fn request<'c>(&'c self, cx: &mut Exchange<'c>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        cx.working = Some(self.0.begin());
        Verdict::Next
    }

    fn response(&self, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        let Some(working) = &cx.working else { return };
        let now = cx.core.clock.now();
        // A switch of protocols (101) is not a latency sample.
        if head.outcome == Some(Outcome::Success) && head.status != 101 {
            working.answered(now.since(cx.timing.get().began), now);
        }
        if self.0.plan.header {
            load_report::write_field(&working.load(now), head.added);
            cx.stats.reports_given[0].add(1);
        }
    }
}

//! Filter that counts requests as in flight, and reports the listener's load to balancers in front in a response field.

use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, Filter, Own, Predict, RequestHead, ResponseHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::load::load_report::{self, Reporter, Working};
use evenkeel_balance::{Clock, Outcome};
use std::rc::Rc;

struct Load(Rc<Reporter>);

pub fn build(from: &Build<'_>) -> Option<Step> {
    Some(Box::new(Load(from.reporter?.clone())))
}

impl Filter for Load {
    /// Counts the request as in flight.
    type State = Working;

    fn request(&self, own: &mut Own<Working>, _: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        *own = Some(Box::new(self.0.begin()));
        Verdict::Next
    }

    fn response(&self, own: &mut Own<Working>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        let Some(working) = own else { return };
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

impl Predict for Load {
    fn dry_run(&self, _: &mut Own<Working>, _: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> DryRun {
        DryRun::nothing()
    }
}

//! Filter that has the bytes of bodies paced. The relay does so: a filter sees a part of a body and cannot hold it.

use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::peer::bandwidth::{Bandwidth, Bandwidths};
use std::sync::Arc;

struct Paced(Arc<Bandwidth>);

pub fn build(from: &Build<'_>) -> Option<Step> {
    let bandwidth = from.resources.of::<Bandwidths>().of(&from.route.as_ref()?.plan.name)?;
    Some(Box::new(Paced(bandwidth.clone())))
}

impl Filter for Paced {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        cx.bandwidth = Some(self.0.clone());
        Verdict::Next
    }
}

impl Pure for Paced {}

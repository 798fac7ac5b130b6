//! Filter that limits the bodies of requests. A stated length is checked with the head, before an endpoint is picked,
//! and the body is then forwarded as it comes. A body without a stated length is counted while it passes.

use crate::body::fault::Unfit;
use crate::body::filter::{BodyFilter, Pace};
use crate::body::response::Response;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, Filter, Own, Predict, RequestHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::observe::stats::ListenerStats;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Request;
use evenkeel_wire::http1::fields::Stated;
use std::borrow::Cow;
use std::sync::Arc;

struct BodyMax {
    max: u64,
    stats: Arc<ListenerStats>,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?;
    Some(Box::new(BodyMax { max: route.plan.filters.body_max?, stats: route.stats.clone() }))
}

impl Filter for BodyMax {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        match cx.facts.framing {
            Stated::Length(length) if length > self.max => Verdict::Answer(self.refuse(cx, length)),
            _ => Verdict::Next,
        }
    }

    fn request_body(&self, _: &mut Own<()>, cx: &Exchange<'_>, _: &Request<'_, '_>) -> Option<Box<dyn BodyFilter>> {
        match cx.facts.framing {
            Stated::Chunked => Some(Box::new(Counted { left: self.max, stats: self.stats.clone() })),
            _ => None,
        }
    }

    fn did(&self, _: Option<&()>, cx: &Exchange<'_>) -> Cow<'static, str> {
        match cx.facts.framing {
            Stated::Length(length) if length > self.max => format!("refused: a body of {length} bytes").into(),
            Stated::Chunked => format!("counted the body, up to {} bytes", self.max).into(),
            _ => "".into(),
        }
    }
}

impl Predict for BodyMax {
    fn dry_run(&self, own: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        match self.request(own, cx, head) {
            Verdict::Next if cx.facts.framing == Stated::Chunked => {
                DryRun::Next(format!("counts the body, up to {} bytes", self.max).into())
            }
            verdict => verdict.into(),
        }
    }
}

impl BodyMax {
    #[cold]
    fn refuse(&self, cx: &Exchange<'_>, length: u64) -> Response {
        cx.stats.body_refused.add(1);
        Response::new(413, format!("a body of {length} bytes is over the route's limit of {}", self.max))
    }
}

/// Counter of a body whose length is not stated.
struct Counted {
    /// Bytes that may still come.
    left: u64,
    stats: Arc<ListenerStats>,
}

impl BodyFilter for Counted {
    fn keeps_length(&self) -> bool {
        true
    }

    fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<Pace, Unfit> {
        match self.left.checked_sub(from.len() as u64) {
            Some(left) => self.left = left,
            None => {
                self.stats.body_refused.add(1);
                return Err(Unfit { status: 413, why: "the body is over the route's limit" });
            }
        }
        // Passed on without a copy.
        *to = std::mem::replace(from, Buf::none());
        Ok(Pace::On)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_passes_unchanged_up_to_its_last_byte_and_no_further() {
        let stats = Arc::new(ListenerStats::default());
        let mut counted = Counted { left: 5, stats: stats.clone() };
        for piece in ["abc", "de"] {
            let (mut from, mut to) = (Buf::holding(piece.as_bytes()), Buf::none());
            assert_eq!(counted.data(&mut from, &mut to), Ok(Pace::On));
            assert_eq!((to.filled(), from.is_empty()), (piece.as_bytes(), true));
        }
        let refused = counted.data(&mut Buf::holding(b"f"), &mut Buf::none());
        assert_eq!(refused.map_err(|unfit| unfit.status), Err(413));
        assert_eq!(stats.body_refused.get(), 1);
    }
}

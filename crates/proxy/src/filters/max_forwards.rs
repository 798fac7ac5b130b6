//! `Max-Forwards` of OPTIONS and TRACE: decremented, and answered at zero (RFC 9110 section 7.6.2).

use super::exchange::Exchange;
use super::filter::{DryRun, Filter, RequestHead, Verdict};
use super::row::Build;
use crate::body::response::Response;
use evenkeel_wire::head::Request;
use evenkeel_wire::http1::max_forwards::{self, Hops};

struct MaxForwards;

pub fn build(_: &Build<'_>) -> Option<Box<dyn Filter>> {
    Some(Box::new(MaxForwards))
}

impl Filter for MaxForwards {
    #[inline]
    fn request<'c>(&'c self, _: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        match max_forwards::take(head.request) {
            Ok(Hops::Left(None)) => {}
            Ok(Hops::Left(Some(left))) => max_forwards::write(left, head.edits.lines()),
            Ok(Hops::None) => return Verdict::Answer(last_hop(head.request)),
            Err(reject) => return Verdict::Answer(reject.into()),
        }
        Verdict::Next
    }

    fn dry_run<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        self.request(cx, head).into()
    }
}

/// Response to a request that must not be forwarded: for TRACE the request as received, for OPTIONS an empty body.
#[cold]
fn last_hop(request: &Request<'_, '_>) -> Response {
    let body = if request.method == "TRACE" { max_forwards::reflection(request) } else { Vec::new() };
    Response::page("message/http", body)
}

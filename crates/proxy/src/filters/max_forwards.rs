//! `Max-Forwards` of OPTIONS and TRACE: decremented, and answered at zero (RFC 9110 section 7.6.2).

use super::exchange::Exchange;
use super::filter::{Filter, Own, Pure, RequestHead, Verdict};
use super::row::Build;
use super::step::Step;
use crate::body::response::Response;
use evenkeel_wire::head::Request;
use evenkeel_wire::http1::max_forwards::{self, Hops};

struct MaxForwards;

pub fn build(_: &Build<'_>) -> Option<Step> {
    Some(Box::new(MaxForwards))
}

impl Filter for MaxForwards {
    type State = ();

    #[inline]
    fn request(&self, _: &mut Own<()>, _: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        match max_forwards::take(head.request) {
            Ok(Hops::Left(None)) => {}
            Ok(Hops::Left(Some(left))) => max_forwards::write(left, head.edits.lines()),
            Ok(Hops::None) => return Verdict::Answer(last_hop(head.request)),
            Err(reject) => return Verdict::Answer(reject.into()),
        }
        Verdict::Next
    }
}

impl Pure for MaxForwards {}

/// Response to a request that must not be forwarded: for TRACE the request as received, for OPTIONS an empty body.
#[cold]
fn last_hop(request: &Request<'_, '_>) -> Response {
    let body = if request.method == "TRACE" { max_forwards::reflection(request) } else { Vec::new() };
    Response::page("message/http", body)
}

//! Copy of a client's request as the endpoint gets it, for requests that this proxy sends itself, and for other routes.

use crate::filters::exchange::Exchange;
use crate::filters::filter::RequestHead;
use crate::filters::redirects::Redirects;
use crate::side::request::SideRequest;
use evenkeel_wire::grpc::is_grpc;
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::fields::Stated;

/// Copies a request for another route that may answer it, unless a filter before has. A gRPC call and a request for
/// another protocol are answered by no other route: to a client of HTTP/2, its 200 would open the tunnel.
pub fn keep(cx: &mut Exchange<'_>, head: &RequestHead<'_, '_, '_>) {
    let is_call = || head.request.field("content-type").is_some_and(is_grpc);
    if cx.facts.redirects.is_none() && !cx.facts.switches && !is_call() {
        cx.facts.redirects = Some(Redirects::of(copied(cx, head)).into());
    }
}

/// Copies a head with all changes to it, but without a body.
pub fn copied(cx: &Exchange<'_>, head: &RequestHead<'_, '_, '_>) -> SideRequest {
    let (request, edits) = (&*head.request, &*head.edits);
    let host = edits.host().unwrap_or(request.host);
    SideRequest {
        method: request.method.into(),
        host: (!cx.facts.sends_host_of_endpoint && !host.is_empty()).then(|| host.into()),
        fields: request.fields.kept().collect::<Table>(),
        lines: edits.added().to_vec(),
        has_body: cx.facts.framing != Stated::Nothing,
        ..SideRequest::get(edits.target().unwrap_or(request.target))
    }
}

//! Copy of a client's request as the endpoint gets it, for requests that this proxy sends itself.

use crate::filters::exchange::Exchange;
use crate::filters::filter::RequestHead;
use crate::side::request::SideRequest;
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::fields::Stated;

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

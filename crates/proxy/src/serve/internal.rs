//! Answer of another route to a request, whatever the client's protocol: as the page of an error, or by an internal
//! redirect of an endpoint.

use super::until_gone;
use crate::body::downstream::Downstream;
use crate::body::internal_redirect::InternalRedirect;
use crate::body::message::Message;
use crate::body::response::Response;
use crate::filters::filter::RequestHead;
use crate::forward::Forward;
use crate::forward::outgoing::{Head, Outgoing};
use crate::forward::relay::Answered;
use crate::observe::end::{Cause, Phase};
use crate::pipeline::redirect;
use crate::pipeline::route::{self, Normal, Opened, Passage, Route, Stop};
use crate::pipeline::trailers::Trailers;
use crate::record::Record;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::endpoint_head::{Connection, suit_http1, suit_http2, wants_trailers};
use evenkeel_wire::http1::Version;
use evenkeel_wire::http1::response::{RequestContext, Towards};

/// Has the route of an internal redirect answer: the request passes its filters, and its endpoint's response is relayed.
/// `keep_alive`: the client's connection can carry another request.
///
/// # Errors
/// The response for the client instead; `None` if it is gone, or if a response had begun.
pub(super) async fn answer<'r, D: Downstream>(
    record: &mut Record<'r>,
    down: &D,
    redirect: InternalRedirect,
    keep_alive: bool,
) -> Result<Answered, Option<Response>> {
    let (head, lines) = redirect::begin(record, redirect).map_err(Some)?;
    let mut out = Outgoing::new(record.client.core);
    out.set_head(Head::Kept(head));
    out.outfit.edits.lines().extend_from_slice(&lines);
    let route = find(record, down, &mut out).await?;
    let head_only = suit(&route, &mut out).map_err(Some)?;
    let version = if record.exchange.facts.is_http10 { Version::V10 } else { Version::V11 };
    let opened = Opened {
        close: route.pool.connects_for_each(),
        route,
        towards: Towards { version, keep_alive },
        asked: RequestContext { head: head_only, upgrade: false },
        idempotent: true,
        expects_continue: false,
        trailers: Trailers::None,
        accept: None,
    };
    let answered = Forward::new(record.client, down, record, &opened, &mut out).send().await?;
    record.phase.set(Phase::Done);
    Ok(answered)
}

/// Passes the request through the filters of the route.
async fn find<'r, D: Downstream>(
    record: &mut Record<'r>,
    down: &D,
    out: &mut Outgoing<'r>,
) -> Result<Route<'r>, Option<Response>> {
    let mut passage = Passage::routed();
    loop {
        let normal = Normal::new();
        let (mut request, outfit) = out.kept().ok_or(None)?;
        let mut head = RequestHead { request: &mut request, edits: &mut outfit.edits };
        match route::route(record, &mut head, &normal, &mut passage, down.timer()) {
            Ok(route) => return Ok(route),
            Err(Stop::Answer(response)) => return Err(Some(response)),
            Err(Stop::Wait(mut waiting)) => match until_gone(down, waiting.as_mut()).await {
                None => {
                    record.blame(Cause::Client);
                    return Err(None);
                }
                there => passage.resume = there,
            },
        }
    }
}

/// Adapts the request to the protocol of the endpoints. Returns true for HEAD.
fn suit(route: &Route<'_>, out: &mut Outgoing<'_>) -> Result<bool, Response> {
    let takes_messages = route.pool.takes_messages(false);
    let Some((mut request, outfit)) = out.kept() else { return Ok(false) };
    let head_only = request.is_head();
    outfit.scheme = route.pool.scheme();
    outfit.connection = if route.pool.connects_for_each() { Connection::Closed } else { Connection::Kept };
    outfit.in_parts = takes_messages;
    outfit.wants_trailers = takes_messages && wants_trailers(&request);
    match takes_messages {
        true => suit_http2(&mut request, &mut outfit.edits)?,
        false => suit_http1(&mut request, &mut outfit.edits, false)?,
    }
    if takes_messages {
        out.set_message(Box::new(Message { whole: true, ..Message::default() }), Buf::none());
    }
    Ok(head_only)
}

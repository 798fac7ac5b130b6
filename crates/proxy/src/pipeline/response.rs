//! Responses on their way to the client. Responses of endpoints and responses that this proxy generates pass the same
//! filters.

use crate::body::chain::{BodyChain, Pulled};
use crate::body::fault::Unfit;
use crate::body::filter::Direction;
use crate::body::part::Part;
use crate::body::response::{Content, Response, TEXT};
use crate::cache::encodings::Whole;
use crate::cache::filling::Filling;
use crate::cache::growing::{Cut, Reader};
use crate::filters::filter::ResponseHead;
use crate::observe::end::Cause;
use crate::pipeline::redirect;
use crate::record::Record;
use crate::record::grpc::{self, Call};
use bytes::Bytes;
use evenkeel_balance::Outcome;
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_wire::grpc::{Status, is_grpc, of_http};
use evenkeel_wire::head::{Fields, Table};
use std::borrow::Cow;
use std::task::{Context, Poll};

/// Largest body of the proxy's own that passes its filters at once, so that its length is known when its head is sent.
const WHOLE_MAX: usize = CAPACITY;

/// Result of the filters for the head of a response.
#[derive(Default)]
pub struct Filtered {
    /// Header lines to add, each with its CRLF, in a scratch buffer to be given back; `None` if there are none.
    pub added: Option<Vec<u8>>,
    /// Filters for the body, if any apply.
    pub body_chain: Option<Box<BodyChain>>,
    /// Fetch of the cache that takes the body from the endpoint.
    pub filling: Option<Box<Filling>>,
    /// Response of the proxy that the client gets instead, if a filter replaces the response.
    pub instead: Option<Box<Response>>,
    /// Body that the client gets instead of the body of a response of the proxy itself, if a filter replaces it.
    pub body: Option<Bytes>,
    /// Status that the client gets instead of the status of the response.
    pub status: Option<u16>,
}

/// Facts about a response that are not in its head.
pub struct Arrived {
    /// True if no body follows the head, as for HEAD.
    pub ends: bool,
    /// Outcome of its endpoint; `None` if it does not come from an endpoint.
    pub outcome: Option<Outcome>,
    /// Length of the body of a response of the proxy itself.
    pub length: Option<u64>,
    /// True if the body is the proxy's own line of text.
    pub is_line: bool,
    /// Stored response whose body it has.
    pub whole: Option<Box<Whole>>,
}

/// Runs the filters on the head of a final response.
#[inline]
pub fn filter(record: &Record<'_>, status: u16, fields: &mut Fields<'_, '_>, arrived: Arrived) -> Filtered {
    let Arrived { ends, outcome, length, is_line, whole } = arrived;
    let (of_route, of_listener) = (record.rules.filters_of(record.route), &record.rules.filters);
    let look_at_bodies = of_route.look_at_bodies() || of_listener.look_at_bodies();
    let redirects = record.exchange.facts.redirects.as_deref();
    if !look_at_bodies && !of_route.look_at_responses() && !of_listener.look_at_responses() && redirects.is_none() {
        return Filtered::default();
    }
    let (cx, mut added) = (&record.exchange, record.client.core.scratch());
    let (instead, body, filling, added_lines) = (None, None, None, &mut added);
    let mut head = ResponseHead {
        status,
        fields,
        ends,
        length,
        added: added_lines,
        outcome,
        is_line,
        instead,
        whole,
        body,
        filling,
    };
    of_route.response(cx, &mut head);
    let is_kept = head.instead.is_none() && !is_line;
    let sent_as = redirects.filter(|_| is_kept).and_then(|redirects| redirect::apply(redirects, &mut head));
    of_listener.response(cx, &mut head);
    let (instead, body, filling) = (head.instead.take(), head.body.take(), head.filling.take());
    let body_chain = if look_at_bodies && instead.is_none() { body_chain(record, &mut head) } else { None };
    if added.is_empty() || instead.is_some() {
        record.client.core.give_back(added);
        return Filtered { added: None, body_chain, filling, instead, body, status: sent_as };
    }
    Filtered { added: Some(added), body_chain, filling, instead, body, status: sent_as }
}

/// Runs the filters on the head of an interim response. Returns the lines that they add, if any, in a scratch buffer to be
/// given back.
pub fn filter_interim(record: &Record<'_>, fields: &mut Fields<'_, '_>) -> Option<Vec<u8>> {
    let of_route = record.rules.filters_of(record.route);
    if !of_route.look_at_responses() {
        return None;
    }
    let mut added = record.client.core.scratch();
    of_route.interim(&record.exchange, fields, &mut added);
    if added.is_empty() {
        record.client.core.give_back(added);
        return None;
    }
    Some(added)
}

/// The filters for the body of a response. Removes `Content-Length` if they may change the length.
fn body_chain(record: &Record<'_>, head: &mut ResponseHead<'_, '_, '_>) -> Option<Box<BodyChain>> {
    if head.status == 101 {
        return tunnel_chain(record, Direction::Download);
    }
    if head.status < 200 || matches!(head.status, 204 | 304) {
        return None;
    }
    let (of_route, of_listener) = (record.rules.filters_of(record.route), &record.rules.filters);
    let cx = &record.exchange;
    let chain = BodyChain::new(of_route.response_body(cx, head).chain(of_listener.response_body(cx, head)))?;
    if !chain.keeps_length() {
        head.fields.leave_out("content-length");
    }
    Some(chain)
}

/// Returns the filters for a direction of a tunnel.
pub fn tunnel_chain(record: &Record<'_>, direction: Direction) -> Option<Box<BodyChain>> {
    let (of_route, of_listener) = (record.rules.filters_of(record.route), &record.rules.filters);
    BodyChain::new(of_listener.tunnel(&record.exchange, direction).chain(of_route.tunnel(&record.exchange, direction)))
}

/// A response that this proxy generates, ready to be sent.
pub struct Own {
    /// Status of the head; 200 for a gRPC call, whose status is among the fields.
    pub status: u16,
    /// All fields but `Content-Length`.
    pub fields: Table,
    /// The body; empty for a gRPC call.
    pub body: OwnBody,
    /// True if the head ends a gRPC call (trailers-only), so that there is no body.
    pub ends_call: bool,
}

/// Builds the response: a page or a line of text for a request, a status for a gRPC call. Then runs the filters.
///
/// # Errors
/// A filter replaces it by a response that is still to come, or that another route gives.
#[cold]
pub fn own(record: &Record<'_>, mut response: Response) -> Result<Own, Box<Response>> {
    let is_line = !matches!(response.content, Content::Page { .. } | Content::Growing(_));
    if is_line {
        record.blame(Cause::Proxy);
    }
    if let Some(reason) = &record.exchange.facts.refusal {
        record.blame(Cause::Proxy);
        record.note_reason(reason);
    }
    if let Content::Malformed(_) = response.content {
        record.exchange.stats.malformed.add(1);
    }
    if let (true, Some(redirects)) = (is_line, &record.exchange.facts.redirects) {
        // The route that was to answer has failed. Its line is for the error whose page it was to send.
        response.status = redirects.fail().unwrap_or(response.status);
    }
    let is_call = record.call.get() != Call::Not && !is_of_grpc(&response);
    let whole = response.whole.take();
    let mut own = if is_call { of_call(record, response) } else { of_request(record, response) };
    record.status.set(own.status);
    let (ends, length, is_line) = (own.body.is_empty(), own.body.left.length(), is_line && !is_call);
    let arrived = Arrived { ends, outcome: None, length, is_line, whole };
    let Filtered { added, body_chain, instead, body, filling: _, status } =
        filter(record, own.status, &mut own.fields.fields(), arrived);
    match instead {
        Some(later) if matches!(later.content, Content::Later(_) | Content::Redirected(_)) => return Err(later),
        Some(instead) => return self::own(record, *instead),
        None => {}
    }
    if let Some(status) = status {
        own.status = status;
        record.sent_as.set(status);
    }
    if let Some(added) = added {
        own.fields.push_lines(&added);
        record.client.core.give_back(added);
    }
    if let Some(body) = body {
        own.body.left = Left::Here(body);
    }
    let Some(chain) = body_chain.filter(|_| !own.body.is_empty()) else { return Ok(own) };
    own.body = match own.body.left {
        Left::Here(body) if body.len() <= WHOLE_MAX || chain.keeps_length() || record.exchange.facts.is_http10 => {
            // A filter that rejects the body leaves the head alone.
            let (body, chain) = chain.pass(body).unwrap_or_default();
            OwnBody { left: Left::Here(body), chain }
        }
        left => OwnBody { left, chain: Some(chain) },
    };
    Ok(own)
}

/// Body of a response that this proxy generates. While it is sent, it passes filters that pause; a large body passes all
/// its filters then.
#[derive(Default)]
pub struct OwnBody {
    left: Left,
    chain: Option<Box<BodyChain>>,
}

enum Left {
    Here(Bytes),
    /// Body that is still arriving.
    Growing(Reader),
}

impl Default for Left {
    fn default() -> Left {
        Left::Here(Bytes::new())
    }
}

impl Left {
    fn length(&self) -> Option<u64> {
        match self {
            Left::Here(body) => Some(body.len() as u64),
            Left::Growing(reader) => reader.length(),
        }
    }
}

/// Error for a body whose rest will not arrive.
const CUT: Unfit = Unfit { status: 502, why: "the response of the endpoint was cut off" };

impl OwnBody {
    fn new(left: Bytes) -> OwnBody {
        OwnBody { left: Left::Here(left), chain: None }
    }

    fn is_empty(&self) -> bool {
        self.left.length() == Some(0)
    }

    /// Length of the body; `None` if it passes filters that change it, or is not known. To be called before any part is
    /// taken.
    pub fn length(&self) -> Option<usize> {
        let length = self.left.length().filter(|_| self.chain.as_ref().is_none_or(|chain| chain.keeps_length()));
        length.and_then(|length| usize::try_from(length).ok())
    }

    /// The whole body; `None` if it passes filters while it is sent, or is still arriving.
    pub fn whole(&self) -> Option<&Bytes> {
        if let (Left::Here(body), None) = (&self.left, &self.chain) { Some(body) } else { None }
    }

    /// True if there are bytes that its filters have not had yet.
    pub fn is_filtered(&self) -> bool {
        self.chain.is_some() && !matches!(&self.left, Left::Here(body) if body.is_empty())
    }

    /// Next piece of a body that is here and has no filters; `None` at its end, and for other bodies.
    pub fn next_piece(&mut self) -> Option<Bytes> {
        let (Left::Here(body), None) = (&mut self.left, &self.chain) else { return None };
        let len = body.len().min(CAPACITY);
        (len > 0).then(|| body.split_to(len))
    }

    /// Waits for the next part; must not be called after the end.
    ///
    /// # Errors
    /// The body does not pass its filters, or is cut off.
    pub fn poll_part(&mut self, cx: &Context<'_>) -> Poll<Result<Pulled, Unfit>> {
        loop {
            if let Some(chain) = &mut self.chain
                && let Some(pulled) = chain.pull()?
            {
                return Poll::Ready(Ok(pulled));
            }
            let (piece, trailers) = match &mut self.left {
                Left::Here(body) => (body.split_to(body.len().min(CAPACITY)), None),
                Left::Growing(reader) => match reader.poll_next(cx) {
                    Poll::Ready(next) => match next.map_err(|Cut| CUT)? {
                        Some(piece) => (piece, None),
                        None => (Bytes::new(), reader.trailers()),
                    },
                    Poll::Pending => {
                        // The client gets everything that has arrived.
                        let held = self.chain.as_mut().map_or(Ok(None), |chain| chain.pull_held())?;
                        return held.map_or(Poll::Pending, |pulled| Poll::Ready(Ok(pulled)));
                    }
                },
            };
            let part = match trailers {
                Some(trailers) => Part::Trailers(trailers),
                None if piece.is_empty() => Part::End,
                None => Part::Data(Buf::holding(&piece)),
            };
            match &mut self.chain {
                Some(chain) => chain.push(part),
                None => return Poll::Ready(Ok(Pulled::Part(part))),
            }
        }
    }
}

/// True if the response has the form of a gRPC response, as a service of `forward_auth` may send it.
fn is_of_grpc(response: &Response) -> bool {
    matches!(&response.content, Content::Page { media_type, .. } if is_grpc(media_type.as_bytes()))
}

fn of_call(record: &Record<'_>, mut response: Response) -> Own {
    let mut status = of_http(response.status);
    if let Content::Page { .. } | Content::Growing(_) = response.content {
        // A page is not a message of the call, whatever its status (gRPC's doc/http-grpc-status-mapping.md).
        status = if status == Status::Ok { Status::Unknown } else { status };
        let reason = record.exchange.facts.refusal.as_deref().map(str::to_string);
        response.content = Content::Reason(reason.unwrap_or_else(|| format!("the route answers {}", response.status)));
    }
    let fields = grpc::answer(status, &record.text_of(&response), &response);
    record.call.set(Call::Ended(status));
    Own { status: 200, fields, body: OwnBody::default(), ends_call: true }
}

fn of_request(record: &Record<'_>, response: Response) -> Own {
    let status = response.status;
    let (media_type, body) = match response.content {
        Content::Page { media_type, body } => (media_type, OwnBody::new(body)),
        Content::Growing(reader) => (Cow::Borrowed(""), OwnBody { left: Left::Growing(reader), chain: None }),
        _ => (Cow::Borrowed(TEXT), OwnBody::new(record.text_of(&response).into_bytes().into())),
    };
    let mut fields = Table::default();
    // A response of gRPC without a message has its type, too.
    if !media_type.is_empty() && (!body.is_empty() || is_grpc(media_type.as_bytes())) {
        fields.push(b"Content-Type", media_type.as_bytes());
    }
    response.fields.iter().for_each(|(name, value)| fields.push(name, value));
    Own { status, fields, body, ends_call: false }
}

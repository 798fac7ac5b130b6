//! A request over HTTP/1: its head is read and routed, the request is forwarded or answered, and the connection is left
//! in a state for the next request.

use super::h1::{After, H1, Terms, Unsent};
use crate::body::framing::{Framing, Writer, trailing};
use crate::body::message::Message;
use crate::body::part::Part;
use crate::body::response::Response;
use crate::filters::filter::{RequestHead, Waiting};
use crate::forward::Forward;
use crate::forward::outgoing::{BodyRest, Head, Outfit, Outgoing, REPLAY_MAX};
use crate::listener::client::Client;
use crate::listener::rules::Rules;
use crate::observe::end::{Cause, Phase};
use crate::pipeline::route::{self, Normal, Opened, Passage, Route, Stop};
use crate::pipeline::trailers::Trailers;
use crate::pipeline::websocket;
use crate::record::Record;
use crate::serve::until_gone;
use crate::upstream::pool::WorkerPool;
use evenkeel_net::buffer::Buf;
use evenkeel_net::event_loop::budget;
use evenkeel_wire::endpoint_head::{Connection, KeptHead, Places, Switch, suit_http2, wants_trailers};
use evenkeel_wire::head;
use evenkeel_wire::http1::chunked::{Keep, Taken};
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::http1::response::{RequestContext, Towards};
use evenkeel_wire::http1::{Body, Reject, Request, Version};

/// Units of the turn's budget that a request costs: its head is read and routed, and it is logged.
const HEAD: u32 = 2;

/// A request that was read and routed.
struct Ready<'r> {
    opened: Opened<'r>,
    /// True if the client intends to send another request.
    more_wanted: bool,
}

/// Reason why a request does not proceed now.
enum Stopped {
    /// The head is malformed or too large.
    Malformed(Reject),
    /// This proxy answers the request.
    Answered(Response, Terms),
    /// A filter waits for something, with the request parked.
    Waits(Box<Parked>),
}

impl From<Reject> for Stopped {
    fn from(reject: Reject) -> Self {
        Stopped::Malformed(reject)
    }
}

impl From<Response> for Stopped {
    fn from(response: Response) -> Self {
        Stopped::Answered(response, Terms::LAST)
    }
}

impl H1 {
    /// Serves the request whose head is at the front of `buf`. With `last` the connection closes afterwards.
    pub async fn serve(&self, client: &Client<'_>, rules: &Rules, buf: &mut Buf, last: bool) -> After {
        let mut record = Record::new(client, rules);
        let mut out = Outgoing::new(client.core);
        // Matched in place, as it is large to move.
        let mut ready = self.open(&mut record, buf, last, &mut out);
        if let Err(Stopped::Waits(parked)) = ready {
            // Boxed, as few requests wait.
            ready = match Box::pin(self.wait(&mut record, parked, buf, &mut out)).await {
                Some(ready) => ready,
                None => return After::Close,
            };
        }
        let ready = match ready {
            Ok(ref ready) => ready,
            Err(stopped) => return Box::pin(self.stop(&mut record, stopped, buf.take_out())).await,
        };
        let opened = &ready.opened;
        let sent = Forward::new(client, self, &mut record, opened, &mut out).send().await;
        let is_whole = out.rest.body.is_done();
        match sent {
            Ok(answered) => {
                record.phase.set(Phase::Done);
                match (answered.keep_alive, out.finish()) {
                    (true, rest) if is_whole => After::Next(rest),
                    (true, rest) => {
                        let body = std::mem::replace(&mut out.rest.body, Body::EMPTY);
                        After::Discard(Box::new(Unsent { body, came: rest.unwrap_or_else(Buf::none) }))
                    }
                    // A client that asked for the close sends no more; others may, and a close would reset them before
                    // they read the response.
                    (false, None) if is_whole && !ready.more_wanted => After::Close,
                    _ => After::Linger,
                }
            }
            Err(Some(response)) => {
                let keep_alive = opened.towards.keep_alive && is_whole;
                let terms = Terms { keep_alive, head_only: opened.asked.head };
                Box::pin(self.answer(&mut record, response, terms, out.finish())).await
            }
            Err(None) => After::Close,
        }
    }

    /// Reads and routes a request: everything that needs the bytes of the head, so that no buffer is held for it later.
    /// If the request is refused, `buf` keeps the bytes after it.
    fn open<'r>(
        &self,
        record: &mut Record<'r>,
        buf: &mut Buf,
        last: bool,
        out: &mut Outgoing<'r>,
    ) -> Result<Ready<'r>, Stopped> {
        let (client, rules) = (record.client, record.rules);
        budget::charge(HEAD);
        let mut rows = client.core.rows();
        let normal = Normal::new();
        let mut read = Request::read(buf.filled(), &mut rows, &rules.compiled.limits);
        // Borrowed, as it is large, and everything that is needed of it is read here.
        let request = match &mut read {
            Ok(Some(request)) => request,
            // `next_head` returns only heads that are whole or can be refused.
            Ok(None) => return Err(Reject::Malformed.into()),
            Err(reject) => return Err((*reject).into()),
        };
        record.proto = proto(request.version);
        record.exchange.facts.has_passed_proxies = request.has_passed_proxies;
        let mut came = Came {
            version: request.version,
            keep_alive: request.keep_alive && !last && !client.is_ending(),
            more_wanted: request.keep_alive,
            upgrade: request.upgrade,
            expects_continue: request.expects_continue,
            may_be_overlooked: request.body_may_be_overlooked(),
            is_head: request.is_head(),
            is_idempotent: request.is_idempotent(),
            head_len: request.head_len,
            rest: BodyRest { body: std::mem::replace(&mut request.body, Body::EMPTY), chain: None },
            passage: Passage::default(),
        };
        record.exchange.facts.switches = came.upgrade;
        record.exchange.facts.is_http10 = came.version == Version::V10;
        record.exchange.facts.framing = match &came.rest.body {
            Body::Chunked(_) => Stated::Chunked,
            Body::Length(length) => Stated::Length(*length),
            Body::UntilClose => Stated::Nothing,
        };
        let routed = self.route(record, &mut request.head, &normal, &mut came, &mut out.outfit);
        if let Err(Stop::Answer(response)) = routed {
            return Err(came.refused(record, response, buf));
        }
        let (places, mut bytes) = (Places::of(request), client.core.scratch());
        bytes.extend_from_slice(request.fields.bytes);
        out.set_head(Head::Kept(KeptHead::new(bytes, rows, places)));
        buf.consume(came.head_len);
        match routed {
            Ok(route) => came.ready(record, route, out, buf),
            Err(Stop::Wait(waiting)) => Err(Stopped::Waits(Parked { came, waiting }.into())),
            Err(Stop::Answer(response)) => Err(response.into()),
        }
    }

    /// Runs the filters and finds the route of a request, and prepares the head for its endpoint.
    fn route<'r, 'b>(
        &self,
        record: &mut Record<'r>,
        request: &mut head::Request<'_, 'b>,
        normal: &'b Normal,
        came: &mut Came,
        outfit: &mut Outfit<'r>,
    ) -> Result<Route<'r>, Stop> {
        let mut head = RequestHead { request, edits: &mut outfit.edits };
        let routed = route::route(record, &mut head, normal, &mut came.passage, &self.timer);
        if let Ok(route) = &routed {
            if route.wants_body && !came.rest.body.is_done() {
                came.rest.chain = route::body_chain(record, &mut head);
            }
            self.suit(route.pool, request, came, outfit)?;
        }
        routed
    }

    /// Adapts a request to the protocol of a pool's endpoints.
    fn suit(
        &self,
        pool: &WorkerPool,
        request: &mut head::Request<'_, '_>,
        came: &mut Came,
        outfit: &mut Outfit<'_>,
    ) -> Result<(), Response> {
        outfit.scheme = pool.scheme();
        // A plain upgrade needs no `close`, also where each request gets a new connection.
        let closes = came.may_be_overlooked || !came.upgrade && pool.connects_for_each();
        outfit.connection = Connection::of(came.upgrade, closes);
        came.may_be_overlooked |= pool.connects_for_each();
        // Between two HTTP/1 connections, trailers are forwarded as they are.
        self.takes_trailers.set(true);
        outfit.in_parts = pool.takes_messages(came.upgrade);
        if outfit.in_parts {
            outfit.wants_trailers = wants_trailers(request);
            self.takes_trailers.set(outfit.wants_trailers);
            let asked = websocket::asked(request, came.upgrade, came.version);
            came.upgrade = asked.is_some();
            if came.upgrade {
                request.fields.leave_out(websocket::KEY);
                came.rest.body = Body::UntilClose;
                outfit.connection = Connection::Tunnel(Switch { protocol: websocket::PROTOCOL, fields: b"" });
            }
            self.websocket.set(asked);
            let length = stated_length(request, &came.rest.body).filter(|_| !outfit.edits.is_length_open());
            outfit.length = length.map(|length| length.to_string()).unwrap_or_default();
            suit_http2(request, &mut outfit.edits)?;
        }
        Ok(())
    }

    /// Waits for the filter of a parked request, and routes it further; `None` if the client leaves before. No buffer
    /// or borrow is held meanwhile.
    async fn wait<'r>(
        &self,
        record: &mut Record<'r>,
        mut parked: Box<Parked>,
        buf: &mut Buf,
        out: &mut Outgoing<'r>,
    ) -> Option<Result<Ready<'r>, Stopped>> {
        if buf.is_empty() {
            *buf = Buf::none();
        } else {
            buf.shrink();
        }
        loop {
            let Some(resume) = until_gone(self, parked.waiting.as_mut()).await else {
                record.blame(Cause::Client);
                return None;
            };
            let came = &mut parked.came;
            came.passage.resume = Some(resume);
            let mut normal = Normal::new();
            let (mut request, outfit) = out.kept()?;
            let routed = self.route(record, &mut request, &normal, came, outfit);
            if let Some(target) = normal.take() {
                out.set_target(target);
            }
            match routed {
                Err(Stop::Wait(waiting)) => parked.waiting = waiting,
                Err(Stop::Answer(response)) => {
                    came.head_len = 0;
                    return Some(Err(came.refused(record, response, buf)));
                }
                Ok(route) => return Some(parked.came.ready(record, route, out, buf)),
            }
        }
    }

    /// Ends a request that does not proceed. `buf` holds the bytes after it.
    async fn stop(&self, record: &mut Record<'_>, stopped: Stopped, buf: Buf) -> After {
        match stopped {
            Stopped::Answered(response, terms) => {
                self.answer(record, response, terms, (!buf.is_empty()).then_some(buf)).await
            }
            Stopped::Malformed(reject) => self.answer(record, reject.into(), Terms::LAST, None).await,
            Stopped::Waits(_) => After::Close,
        }
    }
}

/// Facts from a request's head that are needed after its buffer is reused.
struct Came {
    version: Version,
    /// True if the client's connection can carry another request.
    keep_alive: bool,
    /// True if the client intends to send another request.
    more_wanted: bool,
    /// True if the client asks to switch to another protocol.
    upgrade: bool,
    /// True if the client may wait for a 100 before it sends the body.
    expects_continue: bool,
    /// True if the endpoint's connection must not be reused, as the endpoint may overlook the body or the pool connects
    /// each time.
    may_be_overlooked: bool,
    is_head: bool,
    is_idempotent: bool,
    /// Length of the head at the front of the buffer, in bytes.
    head_len: usize,
    rest: BodyRest,
    passage: Passage,
}

impl Came {
    /// Ends the request with `response`. Skips the part of the body that is in `buf`; bytes after it stay.
    fn refused(&mut self, record: &Record<'_>, response: Response, buf: &mut Buf) -> Stopped {
        let advanced = self.rest.body.advance(&mut buf.filled_mut()[self.head_len..], Keep::Content);
        let used = match advanced {
            Ok(taken) => self.head_len + taken.used,
            Err(reject) => return reject.into(),
        };
        buf.consume(used);
        record.count_in(used);
        let keep_alive = self.keep_alive && self.rest.body.is_done();
        Stopped::Answered(response, Terms { keep_alive, head_only: self.is_head })
    }

    /// Completes the request for sending, with the part of the body that is in `buf`. The head was taken out before.
    fn ready<'r>(
        self,
        record: &mut Record<'r>,
        route: Route<'r>,
        out: &mut Outgoing<'r>,
        buf: &mut Buf,
    ) -> Result<Ready<'r>, Stopped> {
        let Came { version, keep_alive, more_wanted, upgrade, expects_continue, may_be_overlooked, head_len, .. } =
            self;
        let (towards, asked) = (Towards { version, keep_alive }, RequestContext { head: self.is_head, upgrade });
        let in_parts = out.outfit.in_parts;
        let idempotent = self.is_idempotent && !(in_parts && upgrade);
        let trailers = Trailers::of(record, &out.outfit.edits);
        out.rest = self.rest;
        let used = if in_parts {
            let (message, used) = take_message(&mut out.rest, &trailers, buf)?;
            out.set_message(message, buf.take_out());
            used
        } else if route.wants_body {
            let in_chunks = out.outfit.edits.is_length_open() || matches!(out.rest.body, Body::Chunked(_));
            let (message, used) = take_message(&mut out.rest, &trailers, buf)?;
            out.set_framed(frame(&message, in_chunks), buf.take_out());
            used
        } else {
            if let Body::Chunked(chunked) = &mut out.rest.body {
                chunked.drop_trailers();
            }
            let Taken { used, kept, .. } = buf.take_body(0, &mut out.rest.body, Keep::Framed)?;
            out.set_bytes(buf.take_out(), kept);
            used
        };
        record.count_in(head_len + used);
        let close = may_be_overlooked && !in_parts;
        let opened = Opened { route, towards, asked, idempotent, close, expects_continue, trailers, accept: None };
        Ok(Ready { opened, more_wanted })
    }
}

/// A request that waits for a filter.
struct Parked {
    came: Came,
    waiting: Waiting,
}

/// Value of the request's `Content-Length`; `None` if it has none or is chunked.
fn stated_length(request: &head::Request<'_, '_>, body: &Body) -> Option<u64> {
    let Body::Length(length) = body else { return None };
    request.field("content-length").map(|_| *length)
}

/// Takes the part of the body that is in `buf`, with the `wanted` trailers, through its filters. Returns it with the
/// number of bytes taken; `buf` keeps the bytes after them.
fn take_message(rest: &mut BodyRest, wanted: &Trailers, buf: &mut Buf) -> Result<(Box<Message>, usize), Stopped> {
    let BodyRest { body, chain } = rest;
    match body {
        Body::Chunked(chunked) => chunked.hold_trailers(),
        // Nothing of a tunnel is forwarded before the endpoint accepts it.
        Body::UntilClose => return Ok((Box::new(Message { tunnel: true, ..Message::default() }), 0)),
        Body::Length(_) => {}
    }
    let Taken { used, kept, .. } = buf.take_body(0, body, Keep::Content)?;
    let behind = if kept < buf.len() { buf.split_behind(kept) } else { Buf::none() };
    let content = std::mem::replace(buf, behind);
    let whole = body.is_done();
    let mut trailers = None;
    if let Body::Chunked(chunked) = body
        && let Some(lines) = chunked.take_trailers()
    {
        trailers = wanted.kept(&trailing(&lines));
    }
    let mut message = Message { content, trailers, whole, ..Message::default() };
    if let Some(chain) = chain {
        let mut passed = Message::default();
        let keep = |part: &Part| {
            passed.keep(part, usize::MAX);
            // Only as much as may be kept for a retry; the filters hold the rest.
            passed.content_len() < REPLAY_MAX
        };
        chain.begin(message.parts(), keep).map_err(Response::from)?;
        message = passed;
    }
    Ok((Box::new(message), used))
}

/// Frames the part of a body that has come, for an HTTP/1 endpoint.
fn frame(message: &Message, in_chunks: bool) -> Vec<u8> {
    let mut writer = Writer::new(if in_chunks { Framing::Chunks } else { Framing::Stated });
    message.parts().for_each(|part| writer.send(part, true));
    writer.into_bytes()
}

/// Name of the version in the access log.
fn proto(version: Version) -> &'static str {
    match version {
        Version::V11 => "HTTP/1.1",
        Version::V10 => "HTTP/1.0",
    }
}

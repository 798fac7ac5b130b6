//! How does a client that speaks HTTP/1 send a request and take its response? As bytes, on a connection that each request has
//! to itself while it runs.

use super::Downstream;
use super::h1_parts::H1Parts;
use super::websocket;
use crate::core::Core;
use crate::core::linger::LINGER;
use crate::http::attempts;
use crate::http::exchange::{self, Opened, Refused};
use crate::http::fault::Fault;
use crate::http::outgoing::Outgoing;
use crate::http::record::Record;
use crate::http::relay::{Answered, Relay};
use crate::http::reply::{Content, Page, Reply};
use crate::http2::message::Message;
use crate::listener::client::Client;
use crate::listener::rules::Rules;
use crate::observe::end::{Cause, Phase};
use crate::upstream::pick::InFlight;
use crate::upstream::stream::EndpointStream;
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_net::deadline::{Elapsed, Timer};
use evenkeel_net::event_loop::budget;
use evenkeel_net::transport::Transport;
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::chunked::{Keep, Taken, may_trail};
use evenkeel_wire::http1::response::{RequestContext, Towards};
use evenkeel_wire::http1::translate::{request_table, wants_trailers};
use evenkeel_wire::http1::{self, Body, Reject, Request, Version, reply};
use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll};

/// Units of a turn's budget that a head draws: it is read and routed, and the request is logged.
const HEAD: u32 = 2;

/// A client connection that speaks HTTP/1, and so the one request on it.
pub struct H1 {
    /// What carries it.
    pub transport: Transport,
    /// Its one deadline, whatever it waits for.
    pub timer: Timer,
    /// Whether the client takes trailers, as the request at hand says.
    pub takes_trailers: Cell<bool>,
    /// What tells the client that its WebSocket begins, if it asks for one.
    pub websocket: Cell<Option<websocket::Accept>>,
}

/// What came next from a client.
pub enum Next {
    /// A head at the front of the buffer: a whole one, or as much as it takes to refuse it.
    Head(Buf),
    /// Nothing: it closed, or was idle for too long, or its worker or listener ends.
    End,
    /// Part of a head, and then no more in time.
    Late,
}

/// How a client connection goes on after a request.
pub enum After {
    /// With the next request, of which these bytes came already.
    Next(Option<Buf>),
    /// It is closed.
    Close,
    /// It is closed once the client has read our last words.
    Linger,
}

impl Downstream for H1 {
    fn timer(&self) -> &Timer {
        &self.timer
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.transport.poll_reset(cx)
    }

    async fn relay(
        &self,
        relay: &Relay<'_, '_>,
        ticket: &mut InFlight<'_>,
        body: &mut Body,
        out: &mut Outgoing<'_>,
        again: bool,
    ) -> Result<Answered, Fault> {
        relay.bytes(self, ticket, body, out, again).await
    }

    async fn relay_parts(
        &self,
        relay: &Relay<'_, '_, EndpointStream>,
        ticket: &mut InFlight<'_>,
        body: &mut Body,
        out: &mut Outgoing<'_>,
    ) -> Result<Answered, Fault> {
        let framed = std::mem::replace(body, Body::EMPTY);
        let mut left = match &framed {
            Body::Chunked(chunked) if !chunked.is_done() => Body::UntilClose,
            Body::Length(left) => Body::Length(*left),
            Body::UntilClose => Body::UntilClose,
            Body::Chunked(_) => Body::EMPTY,
        };
        let parts = H1Parts::new(self, relay, framed, out.take_behind());
        let relayed = relay.parts(&parts, ticket, &mut left, out).await;
        let (keep_alive, malformed) = (parts.keeps_alive(), parts.malformed());
        let (framed, behind) = parts.into_rest();
        *body = framed;
        out.put_behind(behind);
        match (relayed, malformed) {
            (Err(Fault::ClientGone), Some(reject)) => Err(Fault::Request(reject)),
            (Err(fault), _) => Err(fault),
            (Ok(answered), _) => Ok(Answered { keep_alive, ..answered }),
        }
    }
}

/// A request's head, read and routed, as HTTP/1 has it.
struct Head<'r> {
    opened: Opened<'r>,
    /// All that has come of the request, if the endpoint takes messages; then the buffer has what came behind it.
    message: Option<Box<Message>>,
    /// The head for the endpoint, unless it is in the buffer, or in the message.
    bytes: Vec<u8>,
    /// Bytes at the front of the buffer that go to the endpoint: the head, and what came with it of the body.
    send: usize,
    /// Whether the client wants to send another request.
    more_wanted: bool,
}

/// A head that goes no further.
enum Stopped {
    /// For its bytes.
    Malformed(Reject),
    /// Though there is nothing wrong with them.
    Refused { refused: Refused, keep_alive: bool, head_only: bool },
}

impl From<Reject> for Stopped {
    fn from(reject: Reject) -> Stopped {
        Stopped::Malformed(reject)
    }
}

impl H1 {
    /// Takes over an accepted connection.
    pub fn new(transport: Transport, core: &Core) -> H1 {
        H1 { transport, timer: core.wheel.timer(), takes_trailers: Cell::new(false), websocket: Cell::new(None) }
    }

    /// Waits for the next request's head. Takes `held`, which came with the request before.
    pub async fn next_head(&self, client: &Client<'_>, held: &mut Option<Buf>, first: bool) -> Next {
        let has_head = |buf: &Buf| http1::has_head(buf.filled(), &client.listener.limits().0);
        let mut partial: Vec<u8> = Vec::new();
        if let Some(held) = held.take() {
            if has_head(&held) {
                // A client may send any number of heads together, and read the answers.
                budget::proceed().await;
                return Next::Head(held);
            }
            partial = held.filled().to_vec();
        }
        let timeouts = client.listener.limits().1;
        let wait = if first || !partial.is_empty() { timeouts.client_header } else { timeouts.client_idle };
        let mut due = self.timer.tick_after(wait);
        loop {
            let (n, buf) = match self.timer.limit_by(due, pin!(client.read_after(&self.transport, &partial))).await {
                Ok(Some(read)) => read,
                Ok(None) => return Next::End,
                // Who never said a word is not waiting for one.
                Err(Elapsed) if partial.is_empty() => return Next::End,
                Err(Elapsed) => return Next::Late,
            };
            if n == 0 {
                return Next::End;
            }
            if has_head(&buf) {
                return Next::Head(buf);
            }
            if partial.is_empty() && !first {
                due = self.timer.tick_after(client.listener.limits().1.client_header);
            }
            // A connection that waits keeps just its bytes, not the buffer.
            partial.clear();
            partial.extend_from_slice(buf.filled());
        }
    }

    /// Serves the request whose head is at the front of `buf`, which is used up. `last`: the connection closes afterwards.
    pub async fn serve(&self, client: &Client<'_>, rules: &Rules, buf: &mut Buf, last: bool) -> After {
        let mut record = Record::new(client, rules);
        // Used where it is, as it is large.
        let mut head = self.open(client, &mut record, buf, last);
        let head = match head {
            Ok(ref mut head) => head,
            // Boxed, as most requests need no room for this.
            Err(stopped) => return Box::pin(self.stop(client, &record, stopped, buf.take_out())).await,
        };
        let mut out = match head.message.take() {
            None => Outgoing::new(client.core, std::mem::take(&mut head.bytes), buf.take_out(), head.send),
            Some(message) => Outgoing::of_message(client.core, message, buf.take_out()),
        };
        let opened = &mut head.opened;
        match attempts::send(client, self, &mut record, opened, &mut out).await {
            Ok(answered) => {
                record.phase.set(Phase::Done);
                let whole = opened.body.is_done();
                match (answered.keep_alive, out.into_rest()) {
                    (true, rest) if whole => After::Next(rest),
                    // A client that asked for the close sends no more; another may, and must not be reset for it.
                    (false, None) if whole && !head.more_wanted => After::Close,
                    _ => After::Linger,
                }
            }
            Err(Some(reply)) => {
                let keep_alive = opened.towards.keep_alive && opened.body.is_done();
                Box::pin(self.answer(&record, &reply, keep_alive, opened.asked.head, out.into_rest())).await
            }
            Err(None) => After::Close,
        }
    }

    /// Reads and routes: everything that needs the head's bytes, in one go, so that nothing of it is kept. If the request is
    /// refused the buffer keeps what came behind it.
    fn open<'r>(
        &self,
        client: &Client<'_>,
        record: &mut Record<'r>,
        buf: &mut Buf,
        last: bool,
    ) -> Result<Head<'r>, Stopped> {
        let (core, rules) = (client.core, record.rules);
        budget::charge(HEAD);
        let mut room = core.room.borrow_mut();
        let mut read = Request::read(buf.filled(), &mut room, &rules.compiled.limits);
        // Looked at where it is: it is large, and all that is needed of it is read here.
        let request = match &mut read {
            Ok(Some(request)) => request,
            // The client was waited for until there is something to be said of its head.
            Ok(None) => return Err(Reject::Malformed.into()),
            Err(reject) => return Err((*reject).into()),
        };
        let (head_len, version) = (request.head_len, request.version);
        record.proto = proto(version);
        let keep_alive = request.keep_alive && !last && !client.is_ending();
        let mut body = std::mem::replace(&mut request.body, Body::EMPTY);
        let has_passed_proxies = request.has_passed_proxies;
        let (route, origin) = match exchange::route(client, record, request, has_passed_proxies, &self.timer) {
            Ok(routed) => routed,
            Err(refused) => {
                let head_only = request.is_head();
                let used = head_len + body.advance(&mut buf.filled_mut()[head_len..], Keep::Content)?.used;
                buf.consume(used);
                record.count_in(used);
                let keep_alive = keep_alive && body.is_done();
                return Err(Stopped::Refused { refused, keep_alive, head_only });
            }
        };
        let pool = route.pool;
        let mut bytes = core.scratch();
        let close = pool.connects_for_each() || request.body_may_be_overlooked();
        let here = if request.host.is_empty() { client.peer.authority() } else { String::new() };
        let names = record.names_for_endpoint();
        let forward = exchange::forward(client, origin.as_ref(), &route, &here, &names, close);
        let mut table = None;
        if pool.takes_messages(request.upgrade) {
            self.takes_trailers.set(wants_trailers(request));
            let asked = websocket::asked(request);
            if asked.is_some() {
                request.fields.leave_out(websocket::KEY);
                body = Body::UntilClose;
            }
            let protocol = asked.map(|_| websocket::PROTOCOL);
            self.websocket.set(asked);
            table = Some(request_table(request, pool.scheme(), stated_length(request, &body), protocol, &forward)?);
        } else {
            request.write(&forward, &mut bytes);
        }
        core.give_back(names);
        let more_wanted = request.keep_alive;
        let upgrade = if table.is_some() { body == Body::UntilClose } else { request.upgrade };
        let asked = RequestContext { head: request.is_head(), upgrade };
        let (towards, idempotent) = (Towards { version, keep_alive }, request.is_idempotent());
        buf.consume(head_len);
        if let Some(head) = table {
            let (message, used) = take_message(head, &mut body, buf)?;
            record.count_in(head_len + used);
            let idempotent = idempotent && !upgrade;
            let opened = Opened { route, towards, asked, idempotent, close: false, body };
            return Ok(Head { opened, message: Some(message), bytes, send: 0, more_wanted });
        }
        let Taken { used, kept, .. } = buf.take_body(0, &mut body, Keep::Framed)?;
        record.count_in(head_len + used);
        let mut send = 0;
        if kept > 0 {
            // In one piece with what came of its body.
            if !buf.replace_front(0, &bytes) {
                return Err(Reject::HeadTooLarge.into());
            }
            send = bytes.len() + kept;
            core.give_back(std::mem::take(&mut bytes));
        }
        let opened = Opened { route, towards, asked, idempotent, close, body };
        Ok(Head { opened, message: None, bytes, send, more_wanted })
    }

    /// Tells the client that its request goes no further. `buf`: what came behind it.
    async fn stop(&self, client: &Client<'_>, record: &Record<'_>, stopped: Stopped, buf: Buf) -> After {
        match stopped {
            Stopped::Malformed(reject) => self.malformed(client, record, reject).await,
            Stopped::Refused { refused, keep_alive, head_only } => {
                let rest = (!buf.is_empty()).then_some(buf);
                match refused {
                    Refused::Answered(reply) => {
                        record.blame(Cause::Proxy);
                        self.answer(record, &reply, keep_alive, head_only, rest).await
                    }
                    Refused::Served(Page { mut fields, kind, body }) => {
                        record.write_id_for_client(&mut fields);
                        let page = reply::Reply { status: 200, fields: &fields, kind, body: &body };
                        self.say(record, &page, keep_alive, head_only, rest).await
                    }
                    Refused::Malformed(reject) => self.malformed(client, record, reject).await,
                }
            }
        }
    }

    /// Answers a client whose request means nothing, or several things.
    async fn malformed(&self, client: &Client<'_>, record: &Record<'_>, reject: Reject) -> After {
        client.listener.stats.malformed.add(1);
        record.blame(Cause::Proxy);
        self.answer(record, &reject.into(), false, false, None).await
    }

    /// Answers a client that sent no whole head in time.
    pub async fn give_up(&self, client: &Client<'_>) -> After {
        let rules = client.listener.rules();
        let record = Record::new(client, &rules);
        record.blame(Cause::ClientSlow);
        let late = Reply::new(408, "no whole request in time".to_string());
        self.answer(&record, &late, false, false, None).await
    }

    /// Answers a client that sent its request without the TLS that is spoken here.
    pub async fn expected_tls(&self, client: &Client<'_>) -> After {
        let rules = client.listener.rules();
        let record = Record::new(client, &rules);
        record.blame(Cause::Proxy);
        client.listener.stats.malformed.add(1);
        let why = "a plain HTTP request was sent to a port that speaks TLS; use https://";
        let _ = record.tell(&Reply::new(400, why.to_string()));
        // Its client reads why, however terse other answers are: it says nothing of the inside.
        let body = format!("400 Bad Request: {why}\n");
        let reply = reply::Reply { status: 400, fields: &[], kind: reply::TEXT, body: body.as_bytes() };
        self.say(&record, &reply, false, false, None).await
    }

    /// Answers in the endpoint's place. The connection is kept only if the request's end is known to be here.
    async fn answer(
        &self,
        record: &Record<'_>,
        reply: &Reply,
        keep_alive: bool,
        head_only: bool,
        rest: Option<Buf>,
    ) -> After {
        let Content { media_type, body } = record.tell(reply);
        let mut fields = Vec::new();
        if let Some(seconds) = reply.retry_after {
            fields.extend_from_slice(format!("Retry-After: {seconds}\r\n").as_bytes());
        }
        if let Some(location) = &reply.location {
            fields.extend_from_slice(format!("Location: {location}\r\n").as_bytes());
        }
        record.write_load(&mut fields);
        record.write_id_for_client(&mut fields);
        let reply = reply::Reply { status: reply.status, fields: &fields, kind: media_type, body: &body };
        self.say(record, &reply, keep_alive, head_only, rest).await
    }

    /// Sends a whole response of the proxy's own.
    async fn say(
        &self,
        record: &Record<'_>,
        reply: &reply::Reply<'_>,
        keep_alive: bool,
        head_only: bool,
        rest: Option<Buf>,
    ) -> After {
        record.status.set(reply.status);
        // They do not say `keep-alive`, without which HTTP/1.0 means close.
        let keep_alive = keep_alive && record.proto == proto(Version::V11);
        let bytes = reply.write(!keep_alive, head_only);
        for part in bytes.chunks(CAPACITY) {
            let mut buf = Buf::take();
            if !buf.extend(part) {
                return After::Linger;
            }
            self.timer.set(self.timer.tick_after(LINGER));
            let written = self.timer.limit(pin!(self.transport.write_all(&mut buf))).await;
            if !matches!(written, Ok(Ok(()))) {
                return After::Linger;
            }
        }
        record.count_out(bytes.len());
        if keep_alive { After::Next(rest) } else { After::Linger }
    }
}

/// The length that a request states of its body.
fn stated_length(request: &Request<'_, '_>, body: &Body) -> Option<u64> {
    let Body::Length(length) = body else { return None };
    request.field("content-length").map(|_| *length)
}

/// Takes what has come of a request's body, which may be all of it, and of its trailers; how many bytes that were. What came
/// behind it stays.
fn take_message(head: Table, body: &mut Body, buf: &mut Buf) -> Result<(Box<Message>, usize), Reject> {
    match body {
        Body::Chunked(chunked) => chunked.hold_trailers(),
        // A tunnel, of which nothing goes on before the endpoint takes it.
        Body::UntilClose => {
            let message =
                Message { head, content: Buf::none(), kept: Vec::new(), trailers: None, whole: false, tunnel: true };
            return Ok((Box::new(message), 0));
        }
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
        trailers = Some(trailing(&lines)).filter(|table| !table.is_empty());
    }
    Ok((Box::new(Message { head, content, kept: Vec::new(), trailers, whole, tunnel: false }), used))
}

/// The fields of trailers that may go on, names in lower case.
pub(super) fn trailing(lines: &[u8]) -> Table {
    let mut all = Table::default();
    all.push_lines(lines);
    let mut table = Table::default();
    all.iter().filter(|(name, _)| may_trail(name)).for_each(|(name, value)| table.push_lower(name, value));
    table
}

/// As the access log says it.
fn proto(version: Version) -> &'static str {
    match version {
        Version::V11 => "HTTP/1.1",
        Version::V10 => "HTTP/1.0",
    }
}

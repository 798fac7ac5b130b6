//! How does a request come that is decoded already? As messages: its head a table of fields, its body in parts. Many such
//! requests may share one connection, each with its own deadline and its own back-pressure.

use super::Downstream;
use super::linger::LINGER;
use crate::http::attempts;
use crate::http::exchange::{self, Opened, Refused};
use crate::http::outgoing::Outgoing;
use crate::http::record::Record;
use crate::http::reply::{Content, Page, Reply};
use crate::http2::message::Message;
use crate::http2::part::{Gone, Part};
use crate::listener::client::Client;
use crate::listener::rules::Rules;
use crate::observe::end::{Cause, Phase};
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_wire::head::{Request, Table};
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::http1::request::write_translated;
use evenkeel_wire::http1::response::{RequestContext, Towards};
use evenkeel_wire::http1::translate::request_table;
use evenkeel_wire::http1::{Body, Reject, Version};
use std::task::{Context, Poll};

/// A request whose parts come one by one, as streams of HTTP/2 do.
pub trait Messages: Downstream {
    /// The next part of the request's body; nothing is asked for behind its end. A part that is not taken keeps the client
    /// from sending more than it may.
    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Gone>>;

    /// Waits until the client takes another part of the response.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>>;

    /// Ready when nothing that was sent is held back on this side. Where many share a connection, that sends by itself.
    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        Poll::Ready(Ok(()))
    }

    /// Sends the head of a response; any number of interim ones (1xx) go before the final one. `ends`: nothing follows.
    fn send_head(&self, status: u16, fields: Table, ends: bool);

    /// Sends a part of the response's body; there must be room.
    fn send(&self, part: Part);

    /// Ends the response before its end, so that the client knows.
    fn reset(&self);
}

/// Serves a request with this head, spoken in `proto`. `framing`: what it says of its body; `Nothing` with parts to come means
/// that they end with their end. `ended`: none come.
pub async fn serve<D: Messages>(
    client: &Client<'_>,
    rules: &Rules,
    down: &D,
    request: &mut Request<'_, '_>,
    framing: Stated,
    ended: bool,
    proto: &'static str,
) {
    let mut record = Record::new(client, rules);
    record.proto = proto;
    let head_only = request.is_head();
    let (route, origin) = match exchange::route(client, &mut record, request, true, down.timer()) {
        Ok(routed) => routed,
        Err(refused) => return Box::pin(refuse(client, &record, down, refused, head_only)).await,
    };
    let takes_messages = route.pool.takes_messages();
    // A length that is known goes on; other bodies go in chunks.
    let framing = match framing {
        Stated::Length(n) => Stated::Length(n),
        _ if ended => Stated::Nothing,
        _ => Stated::Chunked,
    };
    // An endpoint that does not read a body without meaning takes it for the next request.
    let overlooked = !ended && matches!(request.method, "GET" | "HEAD" | "DELETE" | "TRACE");
    let single = route.pool.limits.get().idle_per_endpoint == 0 || route.pool.announce.get().is_some();
    let close = single || overlooked;
    let here = if request.host.is_empty() { client.peer.authority() } else { String::new() };
    let forward = exchange::forward(client, origin.as_ref(), &route, &here, close);
    let written = match framing {
        // The endpoint would take the next request for the body that is missing.
        Stated::Length(1..) if ended => Err(Reject::LengthMalformed),
        _ if takes_messages => {
            let length = if let Stated::Length(n) = framing { Some(n) } else { None };
            let head = request_table(request, route.pool.scheme(), length, None, &forward);
            head.map(|head| {
                let message = Message { head, content: Buf::none(), trailers: None, whole: ended };
                Outgoing::of_message(client.core, Box::new(message), Buf::none())
            })
        }
        _ => {
            let mut bytes = client.core.scratch();
            let written = write_translated(request, framing, &forward, &mut bytes);
            let out = Outgoing::new(client.core, bytes, Buf::none(), 0);
            written.map(|()| out)
        }
    };
    let mut out = match written {
        Ok(out) => out,
        Err(reject) => return Box::pin(refuse(client, &record, down, Refused::Malformed(reject), head_only)).await,
    };
    let body = match framing {
        _ if ended => Body::EMPTY,
        Stated::Length(n) => Body::Length(n),
        _ => Body::UntilClose,
    };
    let mut opened = Opened {
        route,
        towards: Towards { version: Version::V11, keep_alive: true },
        asked: RequestContext { head: head_only, upgrade: false },
        idempotent: request.is_idempotent(),
        close,
        body,
    };
    match attempts::send(client, down, &mut record, &mut opened, &mut out).await {
        Ok(_) => record.phase.set(Phase::Done),
        Err(Some(reply)) => Box::pin(answer(&record, down, &reply, head_only)).await,
        Err(None) => down.reset(),
    }
}

/// Tells the client that its request goes no further.
async fn refuse<D: Messages>(client: &Client<'_>, record: &Record<'_>, down: &D, refused: Refused, head_only: bool) {
    match refused {
        Refused::Answered(reply) => {
            record.blame(Cause::Proxy);
            answer(record, down, &reply, head_only).await;
        }
        Refused::Malformed(reject) => {
            client.listener.stats.malformed.add(1);
            record.blame(Cause::Proxy);
            answer(record, down, &reject.into(), head_only).await;
        }
        Refused::Served(Page { fields: lines, kind, body }) => {
            record.status.set(200);
            let mut fields = Table::default();
            fields.push(b"content-type", kind.as_bytes());
            fields.push_lines(&lines);
            say(record, down, 200, fields, &body, head_only).await;
        }
    }
}

/// Answers in the endpoint's place.
async fn answer<D: Messages>(record: &Record<'_>, down: &D, reply: &Reply, head_only: bool) {
    let Content { media_type, body } = record.tell(reply);
    let mut fields = Table::default();
    fields.push(b"content-type", media_type.as_bytes());
    if let Some(seconds) = reply.retry_after {
        fields.push(b"retry-after", seconds.to_string().as_bytes());
    }
    let mut load = Vec::new();
    record.write_load(&mut load);
    fields.push_lines(&load);
    say(record, down, reply.status, fields, &body, head_only).await;
}

/// Sends a whole response of the proxy's own.
async fn say<D: Messages>(record: &Record<'_>, down: &D, status: u16, mut fields: Table, body: &[u8], head_only: bool) {
    fields.push(b"content-length", body.len().to_string().as_bytes());
    down.send_head(status, fields, head_only);
    if head_only {
        return;
    }
    let timer = down.timer();
    for part in body.chunks(CAPACITY) {
        let mut buf = Buf::take();
        timer.set(timer.tick_after(LINGER));
        let room = timer.limit(std::pin::pin!(std::future::poll_fn(|cx| down.poll_room(cx)))).await;
        if !matches!(room, Ok(Ok(()))) || !buf.extend(part) {
            return down.reset();
        }
        record.count_out(buf.len());
        down.send(Part::Data(buf));
    }
    down.send(Part::End);
}

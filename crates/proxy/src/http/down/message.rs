//! How does a request come that is decoded already? As messages: its head a table of fields, its body in parts. Many such
//! requests may share one connection, each with its own deadline and its own back-pressure.

use super::Downstream;
use crate::core::linger::LINGER;
use crate::http::attempts;
use crate::http::exchange::{self, Opened, Refused};
use crate::http::grpc::{self, Call};
use crate::http::outgoing::Outgoing;
use crate::http::record::Record;
use crate::http::reply::{Content, Page, Reply};
use crate::http2::message::Message;
use crate::http2::part::{Gone, Part};
use crate::listener::client::Client;
use crate::listener::rules::Rules;
use crate::observe::end::{Cause, Phase};
use evenkeel_balance::endpoint::stable_hash;
use evenkeel_balance::rng::mix;
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_wire::grpc::Status;
use evenkeel_wire::h2::Malformed;
use evenkeel_wire::head::{Request, Table};
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::http1::request::{Switch, write_translated};
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

    /// Whether the client does not take what was sent last: what is read now would only be held beside it.
    fn is_held_back(&self) -> bool {
        false
    }

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

    /// The rule that the client broke behind its head, if its request ended by that.
    fn broken(&self) -> Option<Malformed> {
        None
    }
}

/// What belongs to a request besides its head.
#[derive(Clone, Copy, Debug)]
pub struct Spoken<'p> {
    /// The protocol, as the access log says it.
    pub proto: &'static str,
    /// What the head says of its body; `Nothing` with parts to come means that they end with their end.
    pub framing: Stated,
    /// No parts come.
    pub ended: bool,
    /// What its stream is to carry in the place of messages, once the endpoint has switched to it.
    pub switch: Option<&'p str>,
}

/// Serves a request with this head.
pub async fn serve<D: Messages>(
    client: &Client<'_>,
    rules: &Rules,
    down: &D,
    request: &mut Request<'_, '_>,
    spoken: Spoken<'_>,
) {
    let Spoken { proto, framing, ended, switch } = spoken;
    let is_known = |protocol: &str| protocol.eq_ignore_ascii_case("websocket");
    let mut record = Record::new(client, rules);
    record.proto = proto;
    record.count_in(request.method.len() + request.target.len() + request.host.len() + request.fields.bytes.len());
    let head_only = request.is_head();
    record.call.set(Call::of(request));
    let (mut route, origin) = match exchange::route(client, &mut record, request, true, down.timer()) {
        Ok(routed) => routed,
        Err(refused) => return Box::pin(refuse(client, &record, down, refused, head_only)).await,
    };
    if switch.is_some_and(|protocol| !is_known(protocol)) {
        // A tunnel of HTTP would carry requests that are neither routed nor counted, and other tunnels are not tested.
        return Box::pin(refuse(client, &record, down, Refused::Malformed(Reject::Protocol), head_only)).await;
    }
    if record.call.get() != Call::Not
        && let Some(limit) = grpc::timeout(request)
    {
        route.limit_call(limit, down.timer().tick_after(limit));
    }
    let takes_messages = route.pool.takes_messages(switch.is_some());
    // A length that is known goes on; other bodies go in chunks.
    let framing = match framing {
        _ if switch.is_some() => Stated::Nothing,
        Stated::Length(n) => Stated::Length(n),
        _ if ended => Stated::Nothing,
        _ => Stated::Chunked,
    };
    let key = switch.map(|_| websocket_key(client)).unwrap_or_default();
    let switch = switch.map(|protocol| Switch { protocol, fields: &key });
    // An endpoint that does not read a body without meaning takes it for the next request.
    let overlooked = !ended && switch.is_none() && matches!(request.method, "GET" | "HEAD" | "DELETE" | "TRACE");
    let close = route.pool.connects_for_each() || overlooked;
    let here = if request.host.is_empty() { client.peer.authority() } else { String::new() };
    let names = record.names_for_endpoint();
    let forward = exchange::forward(client, origin.as_ref(), &route, &here, &names, close);
    let written = match framing {
        // The endpoint would take the next request for the body that is missing.
        Stated::Length(1..) if ended => Err(Reject::LengthMalformed),
        _ if takes_messages => {
            let length = if let Stated::Length(n) = framing { Some(n) } else { None };
            let protocol = switch.map(|switch| switch.protocol);
            let head = request_table(request, route.pool.scheme(), length, protocol, &forward);
            head.map(|head| {
                let tunnel = switch.is_some();
                let message = Message {
                    head,
                    content: Buf::none(),
                    kept: Vec::new(),
                    trailers: None,
                    whole: ended && !tunnel,
                    tunnel,
                };
                Outgoing::of_message(client.core, Box::new(message), Buf::none())
            })
        }
        _ => {
            let mut bytes = client.core.scratch();
            let written = write_translated(request, framing, switch, &forward, &mut bytes);
            let out = Outgoing::new(client.core, bytes, Buf::none(), 0);
            written.map(|()| out)
        }
    };
    client.core.give_back(names);
    let mut out = match written {
        Ok(out) => out,
        Err(reject) => return Box::pin(refuse(client, &record, down, Refused::Malformed(reject), head_only)).await,
    };
    let body = match framing {
        // What a tunnel carries is a body, where messages go on as such.
        _ if ended || (switch.is_some() && !takes_messages) => Body::EMPTY,
        Stated::Length(n) => Body::Length(n),
        _ => Body::UntilClose,
    };
    let mut opened = Opened {
        route,
        towards: Towards { version: Version::V11, keep_alive: true },
        asked: RequestContext { head: head_only, upgrade: switch.is_some() },
        idempotent: request.is_idempotent() && switch.is_none(),
        close,
        body,
    };
    match attempts::send(client, down, &mut record, &mut opened, &mut out).await {
        Ok(_) => record.phase.set(Phase::Done),
        // Whatever it waited for: that its time is over says more.
        Err(Some(reply))
            if reply.status == 503
                && record.call.get() != Call::Not
                && down.timer().left_ns(opened.route.deadline) == Some(0) =>
        {
            Box::pin(answer(&record, down, &Reply { status: 504, ..reply }, head_only)).await
        }
        Err(Some(reply)) => Box::pin(answer(&record, down, &reply, head_only)).await,
        Err(None) => match record.cut.take() {
            Some(cut) => end_call(&record, down, *cut),
            None => {
                if let Some(why) = down.broken() {
                    record.note_reason(&why.to_string());
                }
                down.reset();
            }
        },
    }
}

/// Ends a gRPC call whose response has begun and does not continue.
#[cold]
fn end_call<D: Messages>(record: &Record<'_>, down: &D, (status, reply): (Status, Reply)) {
    record.call.set(Call::Ended(status));
    let mut trailers = Table::default();
    grpc::push_status(status, &record.text_of(&reply), &mut trailers);
    record.count_out(trailers.size());
    down.send(Part::Trailers(trailers));
    down.send(Part::End);
}

/// The key by which HTTP/1 asks for WebSocket (RFC 6455 section 4.1), which HTTP/2 does without: it only has to differ.
#[cold]
fn websocket_key(client: &Client<'_>) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut line = b"Sec-WebSocket-Key: ".to_vec();
    let id = stable_hash(client.core.next_request_id().to_string().as_bytes());
    let random = u128::from(mix(id)) << 64 | u128::from(mix(!id));
    // 16 bytes are 21 digits of 6 bits, and one of the 2 that are left.
    line.extend((0..21).map(|n| DIGITS[(random >> (122 - 6 * n)) as usize & 63]));
    line.push(DIGITS[(random as usize & 3) << 4]);
    line.extend_from_slice(b"==\r\n");
    line
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
        Refused::Served(Page { fields: mut lines, kind, body }) => {
            record.status.set(200);
            let mut fields = Table::default();
            fields.push(b"content-type", kind.as_bytes());
            record.write_id_for_client(&mut lines);
            fields.push_lines(&lines);
            say(record, down, 200, fields, &body, head_only).await;
        }
    }
}

/// Answers in the endpoint's place.
async fn answer<D: Messages>(record: &Record<'_>, down: &D, reply: &Reply, head_only: bool) {
    let mut added = Vec::new();
    record.write_load(&mut added);
    record.write_id_for_client(&mut added);
    if record.call.get() != Call::Not {
        let mut fields = grpc::answer(record, reply);
        fields.push_lines(&added);
        return down.send_head(200, fields, true);
    }
    let Content { media_type, body } = record.tell(reply);
    let mut fields = Table::default();
    fields.push(b"content-type", media_type.as_bytes());
    if let Some(seconds) = reply.retry_after {
        fields.push(b"retry-after", seconds.to_string().as_bytes());
    }
    if let Some(location) = &reply.location {
        fields.push(b"location", location.as_bytes());
    }
    fields.push_lines(&added);
    say(record, down, reply.status, fields, &body, head_only).await;
}

/// Sends a whole response of the proxy's own.
async fn say<D: Messages>(record: &Record<'_>, down: &D, status: u16, mut fields: Table, body: &[u8], head_only: bool) {
    fields.push(b"content-length", body.len().to_string().as_bytes());
    record.count_out(fields.size());
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

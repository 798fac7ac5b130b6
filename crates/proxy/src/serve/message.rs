//! Requests that arrive decoded, as messages: the head as a table of fields, the body in parts. Many of them may share
//! a connection, each with a separate deadline and back-pressure.

use crate::body::chain::Pulled;
use crate::body::downstream::{ClientParts, Downstream};
use crate::body::message::Message;
use crate::body::part::Part;
use crate::body::response::Response;
use crate::core::linger::{LINGER, Patience};
use crate::filters::filter::RequestHead;
use crate::forward::Forward;
use crate::forward::outgoing::{Head, Outgoing};
use crate::listener::client::Client;
use crate::listener::rules::Rules;
use crate::observe::end::{Cause, Phase};
use crate::pipeline::response::Own;
use crate::pipeline::route::{self, Normal, Opened, Passage, Stop};
use crate::pipeline::trailers::Trailers;
use crate::pipeline::websocket::{Accept, KEY_LEN};
use crate::record::Record;
use crate::record::grpc::{self, Call};
use crate::serve::{Settled, next_part, patience_for, settled, until_gone};
use bytes::Bytes;
use evenkeel_balance::endpoint::stable_hash;
use evenkeel_balance::rng::mix;
use evenkeel_net::buffer::Buf;
use evenkeel_net::event_loop::alarm::sleep;
use evenkeel_net::event_loop::budget;
use evenkeel_wire::endpoint_head::{Connection, HeadParts, Switch, is_token, suit_http1, suit_http2, wants_trailers};
use evenkeel_wire::grpc::{Status, TIMEOUT};
use evenkeel_wire::h2::{Malformed, Refused};
use evenkeel_wire::head::{Request, Table};
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::http1::request::is_bodiless;
use evenkeel_wire::http1::response::{RequestContext, Towards};
use evenkeel_wire::http1::{Body, Reject, Version};
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

/// A request as a message. Responses of this proxy are sent in parts, too.
pub trait Messages: Downstream + ClientParts {
    /// Sends data that other streams may send too. Needs room, as [`ClientParts::send`] does.
    fn send_shared(&self, bytes: Bytes);

    /// Cuts the response off so that the client notices (RST_STREAM).
    fn reset(&self);

    /// The rule that the client broke after its head, if that has ended its request.
    fn broken(&self) -> Option<Malformed> {
        None
    }

    /// True if more of the request may arrive: it is neither complete nor lost.
    fn is_receiving(&self) -> bool;
}

/// Properties of a request that are not in its head.
#[derive(Clone, Copy, Debug)]
pub struct Spoken<'p> {
    /// Name of the protocol in the access log.
    pub proto: &'static str,
    /// Framing that the head states; with `Nothing`, parts may still come, and the body ends with them.
    pub framing: Stated,
    /// True if no parts follow the head.
    pub ended: bool,
    /// Protocol for which the stream becomes a tunnel once the endpoint accepts it.
    pub switch: Option<&'p str>,
    /// Empty memory for another target.
    pub normal: &'p Normal,
}

/// Serves a request from its head to the end of its response.
pub async fn serve<'b, D: Messages>(
    client: &Client<'_>,
    rules: &Rules,
    down: &D,
    request: &mut Request<'_, 'b>,
    spoken: Spoken<'b>,
) {
    let Spoken { proto, framing, ended, switch, normal } = spoken;
    let is_known = |protocol: &str| protocol.eq_ignore_ascii_case("websocket");
    // Declared before `record` and `out`, which may borrow it.
    let key = switch.map(|_| websocket_key(client)).unwrap_or_default();
    let mut record = Record::new(client, rules);
    record.proto = proto;
    record.count_in(request.method.len() + request.target.len() + request.host.len() + request.fields.bytes.len());
    let head_only = request.is_head();
    record.call.set(Call::of(request));
    let core = client.core;
    let mut out = Outgoing::new(core);
    // A known length is kept; other bodies are chunked for HTTP/1.
    let framing = match framing {
        _ if switch.is_some() => Stated::Nothing,
        Stated::Length(n) => Stated::Length(n),
        _ if ended => Stated::Nothing,
        _ => Stated::Chunked,
    };
    record.exchange.facts.framing = match framing {
        // Content may follow as long as the stream is open, and filters cannot wait for it to be refused.
        Stated::Length(0) if !ended && switch.is_none() => Stated::Chunked,
        stated => stated,
    };
    record.exchange.facts.switches = switch.is_some();
    let mut passage = Passage::default();
    let mut route = loop {
        let mut head = RequestHead { request, edits: &mut out.outfit.edits };
        match route::route(&mut record, &mut head, normal, &mut passage, down.timer()) {
            Ok(route) => break route,
            Err(Stop::Answer(response)) => return Box::pin(answer(&mut record, down, response, head_only)).await,
            Err(Stop::Wait(mut waiting)) => match Box::pin(until_gone(down, waiting.as_mut())).await {
                None => return record.blame(Cause::Client),
                there => passage.resume = there,
            },
        }
    };
    if switch.is_some_and(|protocol| !is_known(protocol)) {
        // Other tunnels are refused: requests of HTTP inside would be neither routed nor counted.
        return Box::pin(answer(&mut record, down, Reject::Protocol.into(), head_only)).await;
    }
    if record.call.get() != Call::Not
        && let Some(limit) = grpc::timeout(request)
    {
        route.limit_call(limit, down.timer().tick_after(limit));
    }
    let takes_messages = route.pool.takes_messages(switch.is_some());
    if route.wants_body && !ended && switch.is_none() {
        out.rest.chain = route::body_chain(&record, &mut RequestHead { request, edits: &mut out.outfit.edits });
    }
    let switch = switch.map(|protocol| Switch { protocol, fields: &key });
    // An endpoint that ignores the body of such a method would take it for the next request, so it has to close.
    let overlooked = !ended && switch.is_none() && is_bodiless(request.method);
    let close = route.pool.connects_for_each() || overlooked;
    out.outfit.scheme = route.pool.scheme();
    if route.call_timeout.is_some() {
        request.fields.leave_out(TIMEOUT);
    }
    out.outfit.wants_trailers = takes_messages && wants_trailers(request);
    out.outfit.connection = match switch {
        Some(switch) => Connection::Tunnel(switch),
        None if close => Connection::Closed,
        None => Connection::Kept,
    };
    let has_body = !matches!(framing, Stated::Nothing | Stated::Length(0));
    let suits = match framing {
        // The stream has ended before its stated length: the endpoint would take the next request for the rest.
        Stated::Length(1..) if ended => Err(Reject::LengthMalformed),
        _ if takes_messages => suit_http2(request, &mut out.outfit.edits),
        _ if switch.is_some_and(|switch| !is_token(switch.protocol.as_bytes())) => Err(Reject::Malformed),
        _ => suit_http1(request, &mut out.outfit.edits, has_body),
    };
    if let Err(reject) = suits {
        return Box::pin(answer(&mut record, down, reject.into(), head_only)).await;
    }
    out.set_head(Head::Came(HeadParts::decoded(request, framing)));
    if takes_messages {
        out.outfit.length = match framing {
            Stated::Length(n) if !out.outfit.edits.is_length_open() => n.to_string(),
            _ => String::new(),
        };
        let tunnel = switch.is_some();
        let whole = ended && !tunnel;
        out.set_message(Box::new(Message { whole, tunnel, ..Message::default() }), Buf::none());
    }
    out.rest.body = match framing {
        // In HTTP/1 the bytes of a tunnel follow the switch and are no body; as a message they are.
        _ if ended || (switch.is_some() && !takes_messages) => Body::EMPTY,
        Stated::Length(n) => Body::Length(n),
        _ => Body::UntilClose,
    };
    let opened = Opened {
        route,
        towards: Towards { version: Version::V11, keep_alive: true },
        asked: RequestContext { head: head_only, upgrade: switch.is_some() },
        idempotent: request.is_idempotent() && switch.is_none(),
        close,
        // On a stream, a rest that is never sent delays no other request.
        expects_continue: false,
        trailers: Trailers::of(&record, &out.outfit.edits),
        accept: (switch.is_some() && !takes_messages).then(|| Accept::of(&key[KEY_AT..][..KEY_LEN])),
    };
    let sent = Forward::new(client, down, &mut record, &opened, &mut out).send().await;
    match sent {
        Ok(_) => record.phase.set(Phase::Done),
        // The deadline of the call has passed while it was queued: DEADLINE_EXCEEDED is more precise than UNAVAILABLE.
        Err(Some(reply))
            if reply.status == 503
                && record.call.get() != Call::Not
                && down.timer().left_ns(opened.route.deadline) == Some(0) =>
        {
            Box::pin(answer(&mut record, down, Response { status: 504, ..reply }, head_only)).await
        }
        Err(Some(reply)) => Box::pin(answer(&mut record, down, reply, head_only)).await,
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

/// Reads and discards the rest of a request that nothing needs. The stream is reset only if the client does not end it in
/// time, as many clients take a reset for a failure even after a whole response (curl 7.88). `is_ending` shortens that
/// time.
pub async fn discard_rest<D: Messages>(down: &D, is_ending: impl Fn() -> bool) {
    if !down.is_receiving() {
        return;
    }
    let (timer, Patience { time, silence, .. }) = (down.timer(), Patience::UPLOAD);
    let by = timer.tick_after(time);
    while down.is_receiving() {
        let silence = if is_ending() { LINGER } else { silence };
        timer.set(timer.tick_after(silence).min(by));
        let part = timer.limit(pin!(poll_fn(|cx| down.poll_part(cx)))).await;
        if !matches!(part, Ok(Ok(Part::Data(_)))) {
            return;
        }
    }
}

/// Counts and logs a request whose head was refused. Without a status, its stream was reset.
#[cold]
pub fn note_refused(client: &Client<'_>, rules: &Rules, proto: &'static str, refused: Refused) {
    let Refused { mut head, why, status } = refused;
    let mut record = Record::new(client, rules);
    record.proto = proto;
    record.count_in(head.method.len() + head.path.len() + head.authority.len() + head.fields.size());
    let request =
        Request { method: &head.method, target: &head.path, host: &head.authority, fields: head.fields.fields() };
    record.note_asked(&request);
    record.blame(Cause::Proxy);
    record.note_reason(&why.to_string());
    if let Some(status) = status {
        // Resets are counted where they are sent.
        client.listener.stats.malformed.add(1);
        record.status.set(status);
    }
}

/// Head of a response as it is sent on a stream: a switch is a 200 without the fields of HTTP/1 (RFC 8441 section 5, RFC
/// 9220 section 3).
pub fn on_stream(status: u16, fields: &mut Table) -> u16 {
    if status != 101 {
        return status;
    }
    fields.fields().leave_out("upgrade");
    fields.fields().leave_out("sec-websocket-accept");
    200
}

/// Ends a gRPC call that was cut short after its response began, with its status in trailers.
#[cold]
fn end_call<D: Messages>(record: &Record<'_>, down: &D, (status, reply): (Status, Response)) {
    record.call.set(Call::Ended(status));
    let mut trailers = Table::default();
    grpc::push_status(status, &record.text_of(&reply), &mut trailers);
    record.count_out(trailers.size());
    down.send(Part::Trailers(trailers));
    down.send(Part::End);
}

/// Position of the key in its line.
const KEY_AT: usize = "Sec-WebSocket-Key: ".len();

/// A `Sec-WebSocket-Key` line (RFC 6455 section 4.1) for a client of HTTP/2, which sends none. The key need not be
/// secret, only different for each request.
#[cold]
fn websocket_key(client: &Client<'_>) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut line = b"Sec-WebSocket-Key: ".to_vec();
    let id = stable_hash(client.core.next_request_id().to_string().as_bytes());
    let random = u128::from(mix(id)) << 64 | u128::from(mix(!id));
    // 16 bytes of base64 are 21 digits of 6 bits and one of 2 bits.
    line.extend((0..21).map(|n| DIGITS[(random >> (122 - 6 * n)) as usize & 63]));
    line.push(DIGITS[(random as usize & 3) << 4]);
    line.extend_from_slice(b"==\r\n");
    line
}

/// Sends a response of this proxy.
async fn answer<D: Messages>(record: &mut Record<'_>, down: &D, response: Response, head_only: bool) {
    let own = match settled(record, down, response, true).await {
        Some(Settled::Own(own)) => own,
        Some(Settled::Relayed(_)) => return,
        None => return down.reset(),
    };
    let record = &*record;
    let Own { status, mut fields, mut body, ends_call } = own;
    if ends_call {
        down.send_head(status, fields, true);
        return;
    }
    // A 204 has no length, and a 304 would have the length of the 200 that it replaces (RFC 9110 section 8.6).
    let is_bare = matches!(status, 204 | 304);
    let ends = head_only || is_bare;
    if let Some(length) = body.length().filter(|_| !is_bare) {
        fields.push(b"content-length", length.to_string().as_bytes());
    }
    record.count_out(fields.size());
    down.send_head(status, fields, ends);
    if ends {
        return;
    }
    let (timer, patience) = (down.timer(), patience_for(record, body.length()));
    let room = async |len| {
        timer.set(timer.tick_after(patience));
        let has_room = matches!(timer.limit(pin!(poll_fn(|cx| down.poll_room(cx)))).await, Ok(Ok(())));
        record.count_out(if has_room { len } else { 0 });
        has_room
    };
    while let Some(piece) = body.next_piece() {
        if !room(piece.len()).await {
            return down.reset();
        }
        down.send_shared(piece);
    }
    loop {
        // Other tasks get their turn between the parts that filters take time for.
        budget::proceed().await;
        if body.is_filtered() {
            timer.set(timer.tick_after(patience));
            if !matches!(timer.limit(pin!(poll_fn(|cx| down.poll_open(cx)))).await, Ok(Ok(()))) {
                return down.reset();
            }
        }
        let part = match next_part(down, &mut body).await {
            Some(Ok(Pulled::Part(part))) => part,
            Some(Ok(Pulled::Pause(ns))) => {
                sleep(Duration::from_nanos(ns)).await;
                continue;
            }
            Some(Err(unfit)) => {
                record.note_reason(unfit.why);
                return down.reset();
            }
            None => return record.blame(Cause::Client),
        };
        let buf = match part {
            Part::Data(buf) => buf,
            end => {
                record.count_out(if let Part::Trailers(trailers) = &end { trailers.size() } else { 0 });
                return down.send(end);
            }
        };
        if !room(buf.len()).await {
            return down.reset();
        }
        down.send(Part::Data(buf));
    }
}

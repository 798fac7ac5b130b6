//! Attempt to send a request of this proxy to an endpoint: connects or takes an idle connection, sends the request, and
//! reads the head of the response, with the body up to a limit if that is wanted.

use super::fill::{Rest, Source};
use super::request::SideRequest;
use crate::body::fault::{Due, Fault};
use crate::body::message::Message;
use crate::body::part::Part;
use crate::body::upstream::Upstream;
use crate::core::Core;
use crate::load::reports::Received;
use crate::upstream::connections::{Acquired, Wanted, unreachable};
use crate::upstream::h1_endpoint::{H1Endpoint, Leniency};
use crate::upstream::pick::{self, InFlight, OwnedInFlight};
use crate::upstream::pool::WorkerPool;
use evenkeel_balance::retry::Failure;
use evenkeel_balance::{Clock, Outcome};
use evenkeel_net::buffer::{Buf, CAPACITY};
use evenkeel_net::deadline::{Elapsed, Timer};
use evenkeel_net::transport::Transport;
use evenkeel_wire::endpoint_head::{Connection, EndpointHead, HeadParts, suit_http1, suit_http2};
use evenkeel_wire::head::{Edits, Request, Table};
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::http1::request::is_bodiless;
use evenkeel_wire::http1::response::RequestContext;
use evenkeel_wire::http1::{INTERIM_MAX, Reject};
use evenkeel_wire::path::prefixed;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

/// Limits of an attempt, and the parts of its worker that it uses.
#[derive(Clone, Copy)]
pub struct Terms<'t> {
    pub core: &'t Rc<Core>,
    pub pool: &'t Rc<WorkerPool>,
    pub timer: &'t Timer,
    /// Tick at which everything that is read has to be there.
    pub deadline: u64,
    pub reads: Reads,
}

/// Part of a response that an attempt reads.
#[derive(Clone, Copy, Debug)]
pub enum Reads {
    /// The head. The caller reads the body.
    Head,
    /// The head, and the body up to this many bytes.
    Whole(u64),
    /// Like `Whole`, but the body is dropped as it comes.
    Nothing(u64),
}

/// Response of an endpoint, as far as it was to be read.
pub struct Answer {
    pub status: u16,
    /// Fields, without the fields of the connection.
    pub fields: Table,
    pub body: Vec<u8>,
    /// False if the body was not read to its end.
    pub is_whole: bool,
}

impl Answer {
    /// Length of the body as the head states it; `None` if it is not stated.
    pub fn length(&self) -> Option<u64> {
        if self.is_whole {
            return Some(self.body.len() as u64);
        }
        let (_, length) = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"content-length"))?;
        std::str::from_utf8(length).ok()?.parse().ok()
    }
}

/// Attempt without a response.
pub struct Failed {
    /// Failure as retry rules classify it, if another attempt could help.
    pub failure: Option<Failure>,
    /// True if the endpoint has not processed the request.
    pub is_unprocessed: bool,
    /// Reason in words, for the client and the log.
    pub why: String,
}

/// Sends the request to the endpoint of `ticket`. If an idle connection turns out to be closed, a new connection is
/// opened. Returns the response, and the rest of it to be ended.
///
/// # Errors
/// Not all that was to be read came by the deadline.
pub async fn run(terms: Terms<'_>, ticket: InFlight<'_>, request: &mut SideRequest) -> Result<(Answer, Rest), Failed> {
    let pool = ticket.pool;
    let (in_parts, context, is_idempotent) = (pool.takes_messages(false), request.context(), request.is_idempotent());
    let (mut of_endpoint, mut below) = (Vec::new(), Vec::new());
    let SideRequest { method, target, host, fields, lines, message, has_body } = request;
    if host.is_none() {
        pool.write_host(&ticket.endpoint, &mut of_endpoint);
    }
    let host = host.as_deref().unwrap_or(&of_endpoint);
    if let Some(prefix) = &ticket.endpoint.own.path_prefix {
        prefixed(prefix, target.as_bytes(), &mut below).map_err(|why| {
            let why = format!("pool \"{}\": endpoint {}: {why}", pool.name, ticket.endpoint.name);
            Failed { failure: None, is_unprocessed: false, why }
        })?;
    }
    // Only ASCII was let through.
    let target = std::str::from_utf8(&below).ok().filter(|below| !below.is_empty()).unwrap_or(target);
    let mut head = Request { method, target, host, fields: fields.fields() };
    let suits = match in_parts {
        true => suit_http2(&mut head, &mut Edits::default()),
        false => suit_http1(&mut head, &mut Edits::default(), *has_body),
    };
    if let Err(reject) = suits {
        let why = format!("the request does not suit the protocol of pool \"{}\": {reject}", pool.name);
        return Err(Failed { failure: None, is_unprocessed: false, why });
    }
    let length = message.content_len();
    let framing = if *has_body { Stated::Length(length as u64) } else { Stated::Nothing };
    // An endpoint that ignores the body would take it for the next request, as for requests of clients.
    let closes = pool.connects_for_each() || length > 0 && is_bodiless(head.method);
    let digits = if *has_body { length.to_string() } else { String::new() };
    let head = EndpointHead {
        head: HeadParts::decoded(&head, framing),
        added: [lines, b""],
        connection: Connection::of(false, closes),
        scheme: pool.scheme(),
        length: &digits,
        wants_trailers: false,
    };
    if in_parts {
        return on_stream(terms, ticket, &head, message).await;
    }
    let mut bytes = Vec::new();
    head.write(&mut bytes);
    on_connection(terms, ticket, (&bytes, message, closes), (context, is_idempotent)).await
}

/// Sends a request over HTTP/1.
async fn on_connection(
    terms: Terms<'_>,
    mut ticket: InFlight<'_>,
    (head, message, closes): (&[u8], &Message, bool),
    (context, is_idempotent): (RequestContext, bool),
) -> Result<(Answer, Rest), Failed> {
    let Terms { core, pool, timer, deadline, .. } = terms;
    let wanted = Wanted { core, peer: None, origin: None, pool };
    let mut idle = pool.take_idle(&ticket.endpoint, core.clock.now());
    loop {
        let is_reused = idle.is_some();
        let connect_by = timer.tick_after(connect_timeout(pool)).min(deadline);
        let acquiring = wanted.acquire(&ticket.endpoint, idle.take(), head);
        let acquired = timer.limit_by(connect_by, pin!(acquiring)).await;
        let Acquired { transport, sent, .. } =
            match acquired.map_err(|Elapsed| None).and_then(|acquired| acquired.map_err(Some)) {
                Ok(acquired) => acquired,
                Err(Some(_)) if is_reused => continue,
                Err(error) => return Err(no_connection(ticket, error)),
            };
        let leniency = Leniency::of(&pool.plan(), is_reused);
        let up = H1Endpoint::new(&transport, core, context, leniency, false);
        let may_be_stray = is_reused && is_idempotent;
        let read = {
            let upload = pin!(upload_bytes(&transport, &head[sent..], message));
            exchange(terms, &up, &mut ticket, upload, may_be_stray).await
        };
        match read {
            Err(Fault::NoResponse | Fault::Stray) if may_be_stray => {}
            Err(fault) => return Err(failed(ticket, fault)),
            Ok((read, is_sent)) => {
                let rest = up.into_rest();
                return Ok(read.split(terms, ticket, Source::Connection(transport, rest), is_sent && !closes));
            }
        }
    }
}

/// Sends a request over HTTP/2.
async fn on_stream(
    terms: Terms<'_>,
    mut ticket: InFlight<'_>,
    head: &EndpointHead<'_>,
    message: &Message,
) -> Result<(Answer, Rest), Failed> {
    let Terms { pool, timer, deadline, .. } = terms;
    let connect = connect_timeout(pool);
    let sessions = ticket.endpoint.sessions.clone();
    let beginning = sessions.stream(pool.way(&ticket.endpoint), head, message, connect);
    let by = timer.tick_after(connect.max(pool.queue_time())).min(deadline);
    let begun = match timer.limit_by(by, pin!(beginning)).await.map_err(|Elapsed| None) {
        Ok(begun) => begun.map_err(Some),
        Err(none) => Err(none),
    };
    let begun = match begun {
        Ok(begun) => begun,
        Err(error) => return Err(no_connection(ticket, error)),
    };
    let read = {
        let up = &begun.stream;
        let upload = pin!(upload_parts(up, message));
        exchange(terms, up, &mut ticket, upload, false).await
    };
    match read {
        Ok((read, _)) => Ok(read.split(terms, ticket, Source::Stream(begun.stream), false)),
        Err(fault) => Err(failed(ticket, fault)),
    }
}

fn connect_timeout(pool: &WorkerPool) -> Duration {
    pool.plan().timeouts.connect
}

/// Sends the rest of the head, and the body. An endpoint that takes no more may have sent a response already, which the
/// other direction reads.
async fn upload_bytes(transport: &Transport, head: &[u8], message: &Message) {
    for part in head.chunks(CAPACITY).chain(message.kept.chunks(CAPACITY)) {
        if transport.write_all(&mut Buf::holding(part)).await.is_err() {
            return;
        }
    }
}

/// Sends the body, unless it was sent with the head.
async fn upload_parts(up: &impl Upstream, message: &Message) {
    if message.goes_at_once() {
        return;
    }
    for part in message.parts() {
        if poll_fn(|cx| up.poll_room(cx)).await.is_err() {
            return;
        }
        up.send(part);
    }
}

/// A response that was read, and the load that the endpoint reports in it.
struct Read {
    answer: Answer,
    outcome: Outcome,
    received: Option<Received>,
}

impl Read {
    /// Returns the response, and the rest of it.
    fn split(self, terms: Terms<'_>, ticket: InFlight<'_>, source: Source, may_keep: bool) -> (Answer, Rest) {
        let Read { answer, outcome, received } = self;
        let (core, status, ends) = (terms.core.clone(), answer.status, answer.is_whole);
        let ticket = OwnedInFlight::new(ticket, terms.pool, terms.core);
        (answer, Rest { core, source, ticket, outcome, status, ends, received, may_keep })
    }
}

/// Sends and reads at the same time, until everything is there that is to be read. Returns true with it if all of the request was sent.
async fn exchange<U: Upstream>(
    terms: Terms<'_>,
    up: &U,
    ticket: &mut InFlight<'_>,
    mut upload: Pin<&mut impl Future<Output = ()>>,
    may_be_stray: bool,
) -> Result<(Read, bool), Fault> {
    let mut is_sent = false;
    let mut download = pin!(download(terms, up, ticket, may_be_stray));
    let both = poll_fn(|cx| {
        is_sent = is_sent || upload.as_mut().poll(cx).is_ready();
        download.as_mut().poll(cx)
    });
    let read = terms.timer.limit_by(terms.deadline, pin!(both)).await;
    let read = read.unwrap_or(Err(Fault::TimedOut(Due::Response)))?;
    Ok((read, is_sent))
}

/// Reads the response. `may_be_stray`: a 408 with which the endpoint closes may be the end of an idle connection.
async fn download(
    terms: Terms<'_>,
    up: &impl Upstream,
    ticket: &mut InFlight<'_>,
    may_be_stray: bool,
) -> Result<Read, Fault> {
    let mut interim = 0;
    let mut head = loop {
        let head = poll_fn(|cx| up.poll_head(cx)).await?;
        match head.status {
            101 => return Err(Fault::Response(Reject::SwitchNotAsked)),
            200.. => break head,
            _ => interim += 1,
        }
        if interim > INTERIM_MAX {
            return Err(Fault::Response(Reject::InterimTooMany));
        }
    };
    if head.status == 408 && head.closes && may_be_stray {
        return Err(Fault::Stray);
    }
    let now = terms.core.clock.now();
    ticket.answered(now);
    let fields = head.fields.fields();
    let outcome = pick::outcome(head.status, &fields);
    let pool = ticket.pool;
    let received = pool.hears().and_then(|reports| pool.hear(&reports, &fields, now));
    let (mut body, mut len, mut is_whole) = (Vec::new(), 0, head.ends);
    while !is_whole && let Reads::Whole(most) | Reads::Nothing(most) = terms.reads {
        match poll_fn(|cx| up.poll_part(cx)).await? {
            Part::Data(buf) => {
                len += buf.len() as u64;
                if len > most {
                    break;
                }
                if let Reads::Whole(_) = terms.reads {
                    body.extend_from_slice(buf.filled());
                }
            }
            Part::Trailers(_) | Part::End => is_whole = true,
        }
    }
    let answer = Answer { status: head.status, fields: head.fields, body, is_whole };
    Ok(Read { answer, outcome, received })
}

/// Ends an attempt that got no connection. `error` is `None` if there was none in time.
#[cold]
fn no_connection(ticket: InFlight<'_>, error: Option<io::Error>) -> Failed {
    let why = unreachable(ticket, error).why;
    Failed { failure: Some(Failure::Connect), is_unprocessed: false, why }
}

/// Ends an attempt by a fault.
#[cold]
fn failed(ticket: InFlight<'_>, fault: Fault) -> Failed {
    let pool = ticket.pool;
    let endpoint = ticket.give_up(fault);
    let (_, text) = fault.reply().unwrap_or_default();
    Failed {
        failure: fault.failure(),
        is_unprocessed: fault.is_unprocessed(),
        why: format!("pool \"{}\": endpoint {}: {text}", pool.name, endpoint.name),
    }
}

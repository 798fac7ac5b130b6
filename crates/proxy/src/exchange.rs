//! What happens to one request? Read, routed, picked for, sent, answered, counted: the walk that ARCHITECTURE.md tells.

use crate::access_log;
use crate::buffer::Buf;
use crate::client::Client;
use crate::connection;
use crate::fault::Fault;
use crate::hash_key;
use crate::http1::request::{Forward, Room};
use crate::http1::response::{Asked, Towards};
use crate::http1::{Body, FIELDS_MAX, Reject, Request, Version};
use crate::outgoing::Outgoing;
use crate::pick::{self, InFlight};
use crate::record::{Cause, Phase, Record};
use crate::rules::Rules;
use crate::stage;
use crate::stats::{self, ErrorKind};
use crate::stream::Stream;
use crate::talk::{Answered, Talk, write_some};
use crate::upstream::{self, Endpoint, WorkerPool};
use evenkeel_balance::{Clock, Outcome, Slot};
use evenkeel_config::plan::RouteTimeouts;
use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::pin::pin;

/// How a client connection goes on after a request.
pub enum After {
    /// With the next request, of which these bytes came already.
    Next(Option<Buf>),
    /// It is closed.
    Close,
    /// It is closed once the client has read our last words.
    Linger,
}

/// A request that was read and routed.
struct Opened<'r> {
    pool: &'r WorkerPool,
    key: Option<u64>,
    towards: Towards,
    /// Whether the client wants to send another request.
    more_wanted: bool,
    asked: Asked,
    idempotent: bool,
    timeouts: RouteTimeouts,
    /// The tick by which all must be over.
    deadline: u64,
    /// What of the body is still to come.
    body: Body,
    /// Bytes at the front of the buffer that go to the endpoint.
    send: usize,
}

/// What we say in an endpoint's place.
struct Reply {
    status: u16,
    why: String,
}

/// How one endpoint did.
enum Tried {
    /// It answered, or began to.
    Answered(Answered),
    /// It could not be connected to: nothing of the request has left.
    Unreachable(Reply),
    /// It took the request and failed.
    Failed(Fault, Option<Reply>),
}

/// Serves the request whose head is the first `head_len` bytes of `buf`. `last`: the connection closes afterwards.
pub async fn run(client: &Client<'_>, rules: &Rules, mut buf: Buf, head_len: usize, last: bool) -> After {
    let mut record = Record::new(client, rules);
    let mut opened = match open(client, &mut record, &mut buf, head_len, last) {
        Ok(Ok(opened)) => opened,
        Ok(Err(NoRoute { why, keep_alive, head_only })) => {
            record.blame(Cause::Proxy);
            let reply = Reply { status: 404, why };
            return answer(client, &record, &reply, keep_alive, head_only, (!buf.is_empty()).then_some(buf)).await;
        }
        Err(reject) => {
            connection::refuse_malformed(client, &record, reject).await;
            return After::Linger;
        }
    };
    let mut out = Outgoing::new(client.worker, buf, opened.send);
    match send(client, &mut record, &mut opened, &mut out).await {
        Ok(answered) => {
            record.phase.set(Phase::Done);
            let whole = opened.body.is_done();
            match (answered.keep_alive, out.into_rest()) {
                (true, rest) if whole => After::Next(rest),
                // A client that asked for the close sends no more; another may, and must not be reset for it.
                (false, None) if whole && !opened.more_wanted => After::Close,
                _ => After::Linger,
            }
        }
        Err(Some(reply)) => {
            let keep_alive = opened.towards.keep_alive && opened.body.is_done();
            answer(client, &record, &reply, keep_alive, opened.asked.head, out.into_rest()).await
        }
        Err(None) => After::Close,
    }
}

/// A request that no route takes.
struct NoRoute {
    why: String,
    keep_alive: bool,
    head_only: bool,
}

/// Reads and routes: everything that needs the head's bytes, in one go, so that nothing of it is kept. Without a route
/// the buffer keeps what came behind the request.
fn open<'r>(
    client: &Client<'_>,
    record: &mut Record<'r>,
    buf: &mut Buf,
    head_len: usize,
    last: bool,
) -> Result<Result<Opened<'r>, NoRoute>, Reject> {
    let (worker, rules) = (client.worker, record.rules);
    let mut room: Room<'_> = [MaybeUninit::uninit(); FIELDS_MAX];
    let request = Request::parse(&buf.filled()[..head_len], &mut room, &rules.limits)?;
    record.version = request.version;
    record.method = stats::method_index(request.method);
    if worker.log.borrow().is_some() {
        record.asked = worker.scratch();
        let trace = request.field("traceparent");
        access_log::asked(&mut record.asked, request.method, request.host, request.target, trace);
    }
    let keep_alive = request.keep_alive && !last && !client.is_ending();
    let mut body = request.body.clone();
    let Some(route) = rules.router.find(request.host, request.path()) else {
        let why = format!("no route for host \"{}\" and path \"{}\"", request.host, request.path());
        let head_only = request.is_head();
        let used = head_len + body.advance(&buf.filled()[head_len..])?;
        buf.consume(used);
        record.count_in(used);
        return Ok(Err(NoRoute { why, keep_alive: keep_alive && body.is_done(), head_only }));
    };
    let pool = &*rules.pools[route];
    let key = pool.key.as_ref().and_then(|key| hash_key::hash(key, &request, client.ip));
    record.route = route;
    record.pool = Some(pool);

    let mut head = worker.scratch();
    let (client_text, host_if_none) = (client.ip_text(), &*pool.name);
    let close = pool.limits.get().idle_per_endpoint == 0;
    request.write(&Forward { client: client_text, scheme: "http", host_if_none, close }, &mut head);
    let more_wanted = request.keep_alive;
    let asked = Asked { head: request.is_head(), upgrade: request.upgrade };
    let towards = Towards { version: request.version, keep_alive };
    let idempotent = request.is_idempotent();
    let (fits, new_len) = (buf.replace_front(head_len, &head), head.len());
    worker.give_back(head);
    if !fits {
        return Err(Reject::HeadTooLarge);
    }
    let send = new_len + body.advance(&buf.filled()[new_len..])?;
    record.count_in(head_len + send - new_len);
    let timeouts = rules.plan.routes[route].timeouts;
    let deadline = timeouts.request.map_or(u64::MAX, |limit| client.timer.tick_after(limit));
    Ok(Ok(Opened { pool, key, towards, more_wanted, asked, idempotent, timeouts, deadline, body, send }))
}

/// Finds an endpoint for the request. One that cannot be connected to is passed over for another, once.
async fn send(
    client: &Client<'_>,
    record: &mut Record<'_>,
    opened: &mut Opened<'_>,
    out: &mut Outgoing<'_>,
) -> Result<Answered, Option<Reply>> {
    let pool = opened.pool;
    let mut failed: Option<(Slot, Reply)> = None;
    loop {
        let tried = failed.as_ref().map(|(slot, _)| [*slot]);
        let tried = tried.as_ref().map_or(&[][..], |slot| &slot[..]);
        let ticket = match InFlight::start(&client.worker.clock, pool, opened.key, tried) {
            Ok(ticket) => ticket,
            Err(why) => {
                record.blame(if failed.is_some() { Cause::Endpoint } else { Cause::Proxy });
                let no_pick = || Reply { status: 503, why: pick::no_pick_text(pool, why) };
                return Err(Some(failed.map_or_else(no_pick, |(_, reply)| reply)));
            }
        };
        let slot = ticket.slot();
        record.endpoint = Some(ticket.endpoint.clone());
        record.tries += 1;
        match at_endpoint(client, record, opened, out, ticket).await {
            Tried::Answered(answered) => return Ok(answered),
            Tried::Unreachable(reply) if failed.is_none() => {
                pool.stats.retries.add(1);
                failed = Some((slot, reply));
            }
            Tried::Unreachable(reply) => {
                record.blame(Cause::Endpoint);
                return Err(Some(reply));
            }
            Tried::Failed(fault, reply) => {
                record.blame(fault.cause());
                return Err(reply);
            }
        }
    }
}

/// Sends the request to one endpoint. If the endpoint closed an idle connection just when it was used, a new one is
/// opened, provided that asking twice does no harm.
async fn at_endpoint(
    client: &Client<'_>,
    record: &Record<'_>,
    opened: &mut Opened<'_>,
    out: &mut Outgoing<'_>,
    mut ticket: InFlight<'_>,
) -> Tried {
    let worker = client.worker;
    let pool = opened.pool;
    let endpoint = record.endpoint.as_deref().expect("it is recorded before it is asked");
    let mut idle = pool.take_idle(endpoint, worker.clock.now());
    loop {
        record.phase.set(Phase::Connect);
        let reused = idle.is_some();
        let connect_by = client.timer.tick_after(opened.timeouts.connect).min(opened.deadline);
        client.timer.set(connect_by);
        let (stream, n) = match client.timer.limit(pin!(reach(client, record, endpoint, idle.take(), out))).await {
            Ok(Ok(reached)) => reached,
            // It had closed the idle connection, and took nothing: a new one will do.
            Ok(Err(_)) if reused => continue,
            result => {
                let (kind, status, why) = match result {
                    Ok(Err(error)) => (ErrorKind::Connect, 502, error.to_string()),
                    _ => (ErrorKind::Timeout, 504, "no connection in time".to_string()),
                };
                endpoint.stats.errors[kind as usize].add(1);
                ticket.end(Outcome::Failure { retry_after_ns: None });
                let why = format!("pool \"{}\": cannot connect to endpoint {}: {why}", pool.name, endpoint.name);
                return Tried::Unreachable(Reply { status, why });
            }
        };
        out.advance(n);
        record.phase.set(Phase::Head);
        let again = reused && opened.idempotent && opened.body.is_done() && out.is_small();
        let talk = Talk {
            client,
            record,
            upstream: &stream,
            asked: opened.asked,
            towards: opened.towards,
            timeouts: opened.timeouts,
            deadline: opened.deadline,
            client_due: Cell::new(0),
        };
        let fault = match talk.run(&mut ticket, &mut opened.body, out, again).await {
            Err(Fault::NoResponse) if again && out.again() => continue,
            Err(fault) => fault,
            Ok(answered) => {
                ticket.end(answered.outcome);
                endpoint.stats.requests[stats::class(record.status.get())].add(1);
                if answered.reusable && opened.body.is_done() {
                    pool.keep_idle(endpoint, stream, worker.clock.now());
                }
                return Tried::Answered(answered);
            }
        };
        let phase = record.phase.get();
        ticket.end(fault.outcome());
        endpoint.stats.requests[stats::class(0)].add(1);
        if let Some(kind) = fault.error_kind() {
            endpoint.stats.errors[kind as usize].add(1);
        }
        // A response that has begun cannot be taken back: closing tells the client that it is not whole.
        let begun = record.status.get() != 0 && phase == Phase::Data;
        let reply = fault.reply().filter(|_| !begun);
        let reply = reply.map(|(status, why)| match fault.error_kind() {
            Some(_) => Reply { status, why: format!("pool \"{}\": endpoint {}: {why}", pool.name, endpoint.name) },
            None => Reply { status, why },
        });
        return Tried::Failed(fault, reply);
    }
}

/// A connection to the endpoint that has taken so many bytes of the request: the idle one, or a new one.
async fn reach(
    client: &Client<'_>,
    record: &Record<'_>,
    endpoint: &Endpoint,
    idle: Option<Stream>,
    out: &Outgoing<'_>,
) -> io::Result<(Stream, usize)> {
    if let Some(stream) = idle {
        stage::after_others().await;
        let n = write_some(&stream, out.unsent()).await?;
        return Ok((stream, n));
    }
    let worker = client.worker;
    let addr = endpoint.addr.ok_or_else(|| io::Error::other("its name does not resolve"))?;
    endpoint.stats.connects.add(1);
    let began = worker.clock.now();
    let stream = upstream::dial(addr)?;
    let n = write_some(&stream, out.unsent()).await?;
    // The request has left: a failure here must not count as unreachable, or it would be sent to another endpoint too. The
    // read that follows meets it again, and knows that.
    let _ = stream.watch();
    record.connect_ns.set(Some(worker.clock.read().since(began)));
    Ok((stream, n))
}

/// Answers in the endpoint's place. The connection is kept only if the request's end is known to be here.
async fn answer(
    client: &Client<'_>,
    record: &Record<'_>,
    reply: &Reply,
    keep_alive: bool,
    head_only: bool,
    rest: Option<Buf>,
) -> After {
    record.status.set(reply.status);
    // Our own replies do not say `keep-alive`, without which HTTP/1.0 means close.
    let keep_alive = keep_alive && record.version == Version::V11;
    let sent = client.reply(reply.status, &reply.why, !keep_alive, head_only).await;
    record.count_out(sent as usize);
    if keep_alive && sent > 0 { After::Next(rest) } else { After::Linger }
}

//! How does one endpoint do with a request? Reached, sent to, listened to.

use crate::attempts::{Opened, Reply};
use crate::buffer::Buf;
use crate::client::Client;
use crate::deadline::Elapsed;
use crate::dial::dial;
use crate::end::{Cause, Phase};
use crate::fault::Fault;
use crate::hedge;
use crate::outgoing::Outgoing;
use crate::pick::InFlight;
use crate::proxy_protocol;
use crate::record::Record;
use crate::retries::Tries;
use crate::stats::{self, ErrorKind};
use crate::stream::Stream;
use crate::talk::{Answered, Talk, write_some};
use crate::upstream::{Endpoint, WorkerPool};
use evenkeel_balance::retry::Failure;
use evenkeel_balance::{Clock, FailureKind, Instant, Outcome, Slot};
use evenkeel_config::plan::{ProxyVersion, SpeakAs};
use rustix::io::Errno;
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;

/// A try that failed.
pub struct Failed {
    /// Who ended it.
    pub cause: Cause,
    /// In which way, if another try could mend it.
    pub failure: Option<Failure>,
    /// What the client is told if there is no other try; `None` if nobody is to be told.
    pub reply: Option<Reply>,
}

/// A request at an endpoint, on a connection.
pub struct Lane<'r> {
    pub ticket: InFlight<'r>,
    pub stream: Stream,
}

/// Sends the request to one endpoint. If the endpoint closed an idle connection just when it was used, a new one is
/// opened, provided that asking twice does no harm.
///
/// # Errors
/// How it failed.
pub async fn run<'r>(
    client: &'r Client<'_>,
    record: &mut Record<'_>,
    opened: &mut Opened<'r>,
    out: &mut Outgoing<'_>,
    tries: &Tries<'r>,
    mut ticket: InFlight<'r>,
) -> Result<Answered, Failed> {
    let worker = client.worker;
    let pool = opened.pool;
    let slot = ticket.slot();
    let mut idle = pool.take_idle(&ticket.endpoint, worker.clock.now());
    loop {
        record.phase.set(Phase::Connect);
        let reused = idle.is_some();
        let timeouts = tries.timeouts(opened.timeouts);
        let connect_by = client.timer.tick_after(timeouts.connect).min(opened.deadline);
        let reaching = reach(client, record, pool, &ticket.endpoint, idle.take(), out.unsent());
        let reached = client.timer.limit_by(connect_by, pin!(reaching)).await;
        let (mut stream, n) = match reached.map_err(|Elapsed| None).and_then(|reached| reached.map_err(Some)) {
            Ok(reached) => reached,
            // It had closed the idle connection, and took nothing: a new one will do.
            Err(Some(_)) if reused => continue,
            Err(error) => return Err(unreachable(pool, ticket, error)),
        };
        out.advance(n);
        record.phase.set(Phase::Head);
        let repeatable = opened.body.is_done() && out.is_small() && (opened.idempotent || tries.may_repeat());
        if repeatable
            && opened.idempotent
            && out.unsent().is_empty()
            && let Some(delay_ns) = tries.hedge_after(client.timer.left_ns(opened.deadline))
        {
            out.let_go(true);
            // Boxed, as only routes with hedging need room for it.
            let lane = Lane { ticket, stream };
            match Box::pin(hedge::race(client, record, opened, out.request(), tries, lane, delay_ns)).await {
                Ok(first) => Lane { ticket, stream } = first,
                Err((lane, fault)) => return Err(failed(record, pool, lane.ticket, fault)),
            }
        }
        let second = ticket.slot() != slot;
        let cookie = opened.session.as_ref().and_then(|session| session.cookie_for(worker, &ticket));
        let talk = Talk {
            client,
            record,
            upstream: &stream,
            asked: opened.asked,
            towards: opened.towards,
            timeouts,
            deadline: opened.deadline,
            client_due: Cell::new(0),
            tries: repeatable.then_some((tries, opened.idempotent)),
            cookie: cookie.as_deref(),
        };
        let talked = talk.run(&mut ticket, &mut opened.body, out, repeatable).await;
        let answered = match talked {
            Err(Fault::NoResponse) if reused && repeatable && opened.idempotent && out.again() => continue,
            Err(fault) => {
                if let Fault::Refused { reusable: true, .. } = fault
                    && !opened.close
                {
                    pool.keep_idle(&ticket.endpoint, stream, worker.clock.now());
                }
                return Err(failed(record, pool, ticket, fault));
            }
            Ok(answered) => answered,
        };
        let endpoint = ticket.endpoint.clone();
        if !second {
            tries.on_answer(ticket.latency_ns(), worker.clock.now());
        }
        let slot = ticket.slot();
        ticket.end(answered.outcome);
        take_received(record, pool, slot, &endpoint, worker.clock.now());
        endpoint.stats.requests[stats::class(record.status.get())].add(1);
        if answered.reusable && opened.body.is_done() && !opened.close {
            pool.keep_idle(&endpoint, stream, worker.clock.now());
        }
        return Ok(answered);
    }
}

/// Gives the balancer what came with a response about the endpoint's load, now that the request is over.
#[inline]
fn take_received(record: &Record<'_>, pool: &WorkerPool, slot: Slot, endpoint: &Rc<Endpoint>, now: Instant) {
    if let Some(received) = record.received.take() {
        pool.take_received(slot, endpoint, received, now);
    }
}

/// An endpoint that could not be connected to; without an error, not in time.
#[cold]
pub fn unreachable(pool: &WorkerPool, ticket: InFlight<'_>, error: Option<io::Error>) -> Failed {
    let endpoint = ticket.endpoint.clone();
    let why = error.as_ref().map_or("no connection in time".to_string(), io::Error::to_string);
    let (cause, status) = match error {
        // No connection was even tried: to hold it against the endpoint would eject it for our lack.
        Some(error) if is_ours(&error) => {
            ticket.end(Outcome::Cancelled);
            (Cause::Proxy, 503)
        }
        error => {
            let (kind, status) = if error.is_some() { (ErrorKind::Connect, 502) } else { (ErrorKind::Timeout, 504) };
            endpoint.stats.errors[kind as usize].add(1);
            ticket.end(Outcome::failed(FailureKind::Connect));
            (Cause::Endpoint, status)
        }
    };
    let why = format!("pool \"{}\": cannot connect to endpoint {}: {why}", pool.name, endpoint.name);
    Failed { cause, failure: Some(Failure::Connect), reply: Some(Reply::new(status, why)) }
}

/// Whether this process or its machine has run out of something: descriptors, memory, local ports.
fn is_ours(error: &io::Error) -> bool {
    let lack = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|errno| lack.contains(&errno))
}

/// An endpoint that took the request and failed, or whose client did.
#[cold]
fn failed(record: &Record<'_>, pool: &WorkerPool, ticket: InFlight<'_>, fault: Fault) -> Failed {
    // A response that has begun cannot be taken back: closing tells the client that it is not whole.
    let begun = record.status.get() != 0 && record.phase.get() == Phase::Data;
    let (slot, now) = (ticket.slot(), ticket.now());
    let endpoint = give_up(ticket, fault);
    take_received(record, pool, slot, &endpoint, now);
    let reply = fault.reply().filter(|_| !begun);
    let reply = reply.map(|(status, why)| match fault.is_of_endpoint() {
        true => Reply::new(status, format!("pool \"{}\": endpoint {}: {why}", pool.name, endpoint.name)),
        false => Reply::new(status, why),
    });
    Failed { cause: fault.cause(), failure: fault.failure().filter(|_| !begun), reply }
}

/// Ends a request that an endpoint took, and counts how.
pub fn give_up(ticket: InFlight<'_>, fault: Fault) -> Rc<Endpoint> {
    let endpoint = ticket.endpoint.clone();
    ticket.end(fault.outcome());
    endpoint.stats.requests[stats::class(fault.status())].add(1);
    if let Some(kind) = fault.error_kind() {
        endpoint.stats.errors[kind as usize].add(1);
    }
    endpoint
}

/// A connection to the endpoint that has taken so many of `bytes`: the idle one, or a new one.
///
/// # Errors
/// It cannot be opened, or takes nothing.
pub async fn reach(
    client: &Client<'_>,
    record: &Record<'_>,
    pool: &WorkerPool,
    endpoint: &Endpoint,
    idle: Option<Stream>,
    bytes: &[u8],
) -> io::Result<(Stream, usize)> {
    if let Some(stream) = idle {
        let n = write_some(&stream, bytes).await?;
        return Ok((stream, n));
    }
    let clock = &client.worker.clock;
    let began = clock.now();
    let connected = connect(client, record.origin, pool, endpoint, bytes).await?;
    record.connect_ns.set(Some(clock.read().since(began)));
    Ok(connected)
}

/// A new connection to the endpoint that has taken so many of `bytes`; without any, one that is open.
///
/// # Errors
/// It cannot be opened, or takes nothing.
pub async fn connect(
    client: &Client<'_>,
    origin: Option<IpAddr>,
    pool: &WorkerPool,
    endpoint: &Endpoint,
    bytes: &[u8],
) -> io::Result<(Stream, usize)> {
    let addr = endpoint.addr.ok_or_else(|| io::Error::other("its name does not resolve"))?;
    endpoint.stats.connects.add(1);
    let announce = pool.announce.get();
    let source = (pool.source.get() == SpeakAs::Client).then_some(client.ip);
    let stream = dial(addr, source, announce.is_some() || !bytes.is_empty())?;
    if let Some(version) = announce {
        stream.write(&mut header(client, origin, version), !bytes.is_empty()).await?;
    }
    let n = write_some(&stream, bytes).await?;
    // The request has left: a failure here must not count as unreachable, or it would be sent to another endpoint too. The
    // read that follows meets it again, and knows that.
    let _ = stream.watch();
    Ok((stream, n))
}

/// The PROXY protocol header that tells an endpoint who the client is. Of a client behind a trusted proxy only the address
/// is known: port 0.
fn header(client: &Client<'_>, origin: Option<IpAddr>, version: ProxyVersion) -> Buf {
    let mut addresses = client.addresses();
    if let (Some(ip), Some(addresses)) = (origin, &mut addresses) {
        addresses.source = SocketAddr::new(ip, 0);
    }
    let mut header = client.worker.scratch();
    proxy_protocol::write(version, addresses, &mut header);
    let mut buf = Buf::take();
    // A header is far shorter than a buffer.
    buf.extend(&header);
    client.worker.give_back(header);
    buf
}

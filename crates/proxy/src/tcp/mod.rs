//! Sessions: client connections whose bytes are not interpreted. Each is routed, gets an endpoint, is relayed and
//! counted. Read this file first, then [`duplex`] (the bytes), [`lifetime`] (the end) and [`record`] (counters and
//! log).

pub mod duplex;
pub mod lifetime;
mod record;

use crate::core::linger::Patience;
use crate::listener::admit::admit;
use crate::listener::client::Client;
use crate::listener::secure::secure;
use crate::listener::tls_route::TlsRoutes;
use crate::observe::end::{Cause, Phase};
use crate::observe::stats::{ErrorKind, Rejected};
use crate::peer::hash_key;
use crate::peer::per_address::OpenConnection;
use crate::upstream::connections::{Unreachable, Wanted, unreachable};
use crate::upstream::pick::{self, InFlight, NoPlace, Wait};
use crate::upstream::retries::{self, Left, Tries};
use duplex::{Duplex, Side};
use evenkeel_balance::retry::{Decision, Failed, Failure};
use evenkeel_balance::{Clock, FailureKind, Outcome};
use evenkeel_config::plan::OnDown;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::{Elapsed, Timer};
use evenkeel_net::tls::Info;
use evenkeel_net::transport::Transport;
use evenkeel_wire::tls_hello::{self, Hello, LEN_MAX, Unread};
use lifetime::{SessionEnd, Silence};
use record::Record;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Serves a client connection from its accept to the end of its session.
pub async fn serve(client: &mut Client<'_>, transport: &Transport, timer: &Timer, place: &mut Option<OpenConnection>) {
    let Ok(held) = Box::pin(admit(client, transport, timer, place)).await else { return };
    let mut held = held;
    if let Some(tls) = transport.as_tls()
        && let Err(error) = Box::pin(secure(client, tls, timer, held.take())).await
    {
        if error.is_told() {
            client.linger(transport, timer, Patience::FAULT).await;
        }
        return;
    }
    let down = &Down { transport, timer };
    let rules = client.listener.rules();
    let Some(routes) = &rules.compiled.tcp else { return };
    let mut record = Record::new(client, transport, &rules);
    // Boxed, so that the memory is free while the session runs.
    let opened = Box::pin(open(down, routes, &mut record, held)).await;
    let Some((session, early)) = opened.map(|opened| opened.begin(&record)) else { return };
    let ended = session.run(down, early).await;
    session.end(ended);
}

/// The client's side of a session, before it is relayed.
struct Down<'d> {
    transport: &'d Transport,
    timer: &'d Timer,
}

/// Everything that a session begins with.
struct Opened<'r> {
    ticket: InFlight<'r>,
    endpoint: Transport,
    /// The client's bytes that the endpoint has not taken with the connect.
    early: Option<Buf>,
    silence: Silence,
}

impl<'r> Opened<'r> {
    fn begin(self, record: &'r Record<'r>) -> (Session<'r>, Option<Buf>) {
        let Opened { ticket, endpoint, early, silence } = self;
        let downs = ticket.endpoint.downs.get();
        (Session { ticket, endpoint: Whole { transport: endpoint, record }, silence, downs }, early)
    }
}

/// A session whose endpoint is connected.
struct Session<'r> {
    ticket: InFlight<'r>,
    endpoint: Whole<'r>,
    silence: Silence,
    /// Number of times that the endpoint had gone down at its begin.
    downs: u32,
}

/// Finds the route and connects to an endpoint. `None` if that fails; the cause is in `record`.
async fn open<'r>(
    down: &Down<'_>,
    routes: &TlsRoutes,
    record: &mut Record<'r>,
    held: Option<Buf>,
) -> Option<Opened<'r>> {
    let (client, rules) = (record.client, record.rules);
    let (first, hello) = if let Some(info) = client.peer.tls() {
        (first_bytes(down, record, held).await?, Some(asked_for(info)))
    } else if routes.by_hello() {
        let (first, hello) = read_hello(down, record, held).await?;
        (Some(first), hello)
    } else {
        (first_bytes(down, record, held).await?, None)
    };
    let Some(route) = routes.find(hello.as_ref()) else {
        client.listener.stats.rejected[Rejected::NoRoute as usize].add(1);
        record.note_routed(rules.unrouted(), None);
        record.blame(Cause::Proxy);
        return None;
    };
    record.host = hello.and_then(|hello| hello.server_name).map(String::into_boxed_str);
    // Routes of sessions have no other action, as the configuration was checked.
    let target = rules.target(route);
    let pool = target.pool_of_client(client.core, client.peer.ip).expect("a route of sessions leads to a pool");
    record.note_routed(route, Some(&**pool));
    let mut early = first.unwrap_or_else(Buf::none);
    record.count_in(early.len());
    let timeouts = rules.routes.planned[route].timeouts;
    let key = pool.plan().key().map(|_| hash_key::of_client(client.peer.ip));
    let (timer, clock) = (down.timer, &client.core.clock);
    let tries = Tries::begin(rules.retries(route, client.core), pool, clock, key);
    let wanted = Wanted { core: client.core, peer: Some(&client.peer), origin: None, pool };
    let mut last: Option<String> = None;
    loop {
        let placed = match pick::place(&tries) {
            Ok(ticket) => Ok(ticket),
            Err(why) => {
                let (phase, timing) = (&record.phase, &record.timing);
                let wait = Wait { timer, deadline: u64::MAX, phase, timing, why: None };
                wait.place(&tries, why, |cx| down.transport.poll_reset(cx)).await
            }
        };
        let mut ticket = match placed {
            Ok(ticket) => ticket,
            Err(none) => {
                record.blame(match none {
                    NoPlace::ClientGone => Cause::Client,
                    _ if record.tries > 0 => Cause::Endpoint,
                    _ => Cause::Proxy,
                });
                // A session has no reply, but the access log has a reason. The reason of an earlier try comes first.
                let why = none.count(pool);
                record.reason = last.or(why);
                return None;
            }
        };
        record.note_try_began(&ticket);
        let began = clock.now();
        timer.set(timer.tick_after(tries.timeouts(timeouts).connect));
        let connected = timer.limit(pin!(wanted.connect(&ticket.endpoint, early.filled()))).await;
        let error = match connected {
            Ok(Ok((endpoint, n))) => {
                let now = clock.read();
                record.note_connected(now.since(began));
                ticket.answered(now);
                if pool.plan().on_down == OnDown::Close {
                    pool.endpoints.mark.set();
                }
                early.consume(n);
                let early = (!early.is_empty()).then_some(early);
                let silence = Silence {
                    idle: timeouts.idle,
                    half_closed: timeouts.half_closed,
                    keepalive: pool.plan().keepalive,
                    deadline: u64::MAX,
                };
                return Some(Opened { ticket, endpoint, early, silence });
            }
            Ok(Err(error)) => Some(error),
            Err(Elapsed) => None,
        };
        let slot = ticket.slot();
        let Unreachable { cause, why, .. } = unreachable(ticket, error);
        // Nothing was sent, so the session counts as idempotent and replayable.
        let (failure, beyond) = (Failure::Connect, tries.has_beyond(slot));
        match tries.decide(&Failed { failure, idempotent: true, replayable: true, left_ns: None, beyond }) {
            Decision::Again { after_ns, .. } => {
                tries.tried.borrow_mut().push(slot);
                if let Err(Left) = retries::pause(after_ns, |cx| down.transport.poll_reset(cx)).await {
                    record.blame(Cause::Client);
                    return None;
                }
                pool.stats.retries.add(1);
                last = Some(why);
            }
            Decision::Stop(_) => {
                record.blame(cause);
                record.reason = Some(why);
                return None;
            }
        }
    }
}

/// Server name and protocol that were agreed in a terminated handshake, in the form that routes match.
fn asked_for(info: &Info) -> Hello {
    Hello { server_name: info.server_name.as_deref().map(str::to_string), alpn: info.alpn.iter().cloned().collect() }
}

/// The bytes that the client has sent so far, without waiting for any. `None` if it has reset its connection.
async fn first_bytes(down: &Down<'_>, record: &Record<'_>, held: Option<Buf>) -> Option<Option<Buf>> {
    if held.is_some() {
        return Some(held);
    }
    let mut buf = Buf::take();
    let read = poll_fn(|cx| match down.transport.poll_read(cx, &mut buf) {
        Poll::Ready(read) => Poll::Ready(Some(read)),
        Poll::Pending => Poll::Ready(None),
    });
    match read.await {
        // The end of the stream is read again when the session is relayed.
        Some(Ok(n)) => Some((n > 0).then_some(buf)),
        None => Some(None),
        Some(Err(_)) => {
            record.reset_by(Side::Client);
            None
        }
    }
}

/// Reads until the client's TLS request is known. Returns the bytes, with the ClientHello if they are a TLS request.
/// `None` if too little came in time.
async fn read_hello(down: &Down<'_>, record: &mut Record<'_>, held: Option<Buf>) -> Option<(Buf, Option<Hello>)> {
    let listener = record.client.listener;
    down.timer.set(down.timer.tick_after(listener.limits().1.client_header));
    let mut buf = held.unwrap_or_else(Buf::take);
    loop {
        match tls_hello::read(buf.filled()) {
            Ok(Some(hello)) => return Some((buf, Some(hello))),
            Ok(None) => {}
            Err(Unread::Malformed) => return Some((buf, None)),
            Err(Unread::TooLong) => {
                // It names a server, and the proxy cannot know which.
                listener.stats.rejected[Rejected::HelloTooLong as usize].add(1);
                record.blame(Cause::Proxy);
                record.reason = Some(format!("the ClientHello is longer than {} KiB", LEN_MAX >> 10));
                return None;
            }
        }
        if buf.spare().is_empty() {
            buf.grow(LEN_MAX);
        }
        let read = down.timer.limit(pin!(down.transport.read(&mut buf))).await;
        match read {
            Ok(Ok(0)) => return Some((buf, None)),
            Ok(Ok(_)) => {}
            Ok(Err(_)) => {
                record.reset_by(Side::Client);
                return None;
            }
            Err(Elapsed) => {
                record.blame(Cause::ClientSlow);
                return None;
            }
        }
    }
}

impl Session<'_> {
    /// Relays until the session ends. `early` are bytes of the client that the endpoint does not have yet. (`self` is
    /// borrowed, as a future that owned the session would store it twice.)
    async fn run(&self, down: &Down<'_>, early: Option<Buf>) -> SessionEnd {
        let Whole { transport: endpoint, record } = &self.endpoint;
        // The client's first bytes were read, and more are rarely there yet: wait for readiness before the next read.
        let _ = down.transport.watch();
        let mut duplex = Duplex::new(down.transport, endpoint, early);
        let is_cut = || self.ticket.endpoint.cut.get() || self.is_downed();
        let moved = |from, n| match from {
            Side::Client => record.count_in(n),
            Side::Endpoint => record.count_out(n),
        };
        lifetime::run(&mut duplex, down.timer, self.silence, is_cut, moved).await
    }

    /// True if the endpoint has gone down since, in a pool that then ends sessions.
    fn is_downed(&self) -> bool {
        self.ticket.endpoint.downs.get() != self.downs
    }

    /// Ends the ticket with the outcome for the endpoint, and completes the record.
    fn end(self, ended: SessionEnd) {
        let Session { ticket, endpoint: Whole { record, .. }, .. } = &self;
        ticket.endpoint.stats.errors[ErrorKind::Reset as usize]
            .add(u64::from(ended == SessionEnd::Reset(Side::Endpoint)));
        let outcome = match ended {
            SessionEnd::Reset(Side::Endpoint) if !record.is_answered() => Outcome::failed(FailureKind::Gateway),
            SessionEnd::Reset(Side::Client) | SessionEnd::Cut => Outcome::Cancelled,
            _ => Outcome::Success,
        };
        match ended {
            SessionEnd::Whole => record.done(),
            SessionEnd::Reset(side) => record.reset_by(side),
            SessionEnd::Idle(Side::Endpoint) => record.blame(Cause::EndpointSlow),
            SessionEnd::Idle(Side::Client) => record.blame(Cause::ClientSlow),
            SessionEnd::Cut if self.is_downed() => record.blame(Cause::Endpoint),
            SessionEnd::Cut => record.blame(Cause::Proxy),
        }
        self.ticket.end(outcome);
    }
}

/// An endpoint's connection that is reset on drop unless its session ended normally: a cut must not look like the end
/// of the data.
struct Whole<'s> {
    transport: Transport,
    record: &'s Record<'s>,
}

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        if self.record.phase.get() != Phase::Done {
            self.transport.reset_on_close(true);
        }
    }
}

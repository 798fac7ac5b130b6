//! How does a client that speaks HTTP/2 send its requests and take their responses? As messages, on streams that share a
//! connection: each request is a task of its own, and one more reads and writes for all of them.

mod request;

use super::h1::H1;
use crate::core::linger::{LINGER, Patience};
use crate::http::open::Open;
use crate::http2::session::Session;
use crate::http2::stream::StreamHandle;
use crate::http2::turn::{Ended, Role};
use crate::observe::end::Cause;
use crate::observe::stats::{code_index, method_index};
use crate::peer::Identity;
use evenkeel_balance::Clock;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::{Elapsed, Timer};
use evenkeel_net::event_loop;
use evenkeel_wire::h2::{self, ErrorCode, Flood, Head, Refused};
use request::{Connection, request};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// The head that a client's connection begins with, as HTTP/1 would read it.
const PREFACE_HEAD: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// Time in which a client may still begin requests after the notice to begin no more, unless its answers to two pings come before.
/// A client whose event loop is busy answers late, and requests that it sent meanwhile would be refused.
const DRAIN_NOTICE: Duration = Duration::from_secs(5);

/// What the pings carry that ask whether the client has read that.
const DRAIN_PING: u64 = 0x6472_6169_6e00_0001;

/// What one carries that asks for a sign of life.
const LIFE_PING: u64 = 0x6c69_6665_0000_0001;

const NEVER: u64 = u64::MAX;

/// Whether a connection begins as one of HTTP/2 does.
pub fn is_preface(bytes: &[u8]) -> bool {
    bytes.starts_with(PREFACE_HEAD)
}

/// Serves a connection that speaks HTTP/2, of which these bytes came already.
pub fn start(open: Open, down: H1, identity: Identity, came: Buf) {
    event_loop::spawn_made(|| serve(open, down, identity, came));
}

/// What the connection's task waits for.
struct Server {
    connection: Rc<Connection>,
    timer: Timer,
    /// When that passes.
    due: Cell<u64>,
    /// By when the next request has to begin, while there is none.
    idle_due: Cell<u64>,
    /// By when a head that has begun has to be whole.
    head_due: Cell<u64>,
    /// When the client has to give a sign of life, or be asked for one.
    life_due: Cell<u64>,
    is_asked: Cell<bool>,
    /// Whether and when it is told the last request that is served.
    drain: Cell<Drain>,
    /// True if the client has wasted too many streams.
    is_flooded: Cell<bool>,
    /// Whether it has answered the first of the pings after that.
    has_answered: Cell<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    /// Requests may begin.
    Not,
    /// The client was told to begin no more; those that have begun by this tick are served.
    Notice(u64),
    /// No more are served.
    Last,
}

async fn serve(open: Open, down: H1, identity: Identity, came: Buf) {
    let H1 { transport, timer, .. } = down;
    let limits = open.listener.plan().http2;
    let (head, timeouts) = open.listener.limits();
    let now = || open.core.clock.now().0;
    let config = h2::Config {
        max_streams: limits.streams,
        stream_window: limits.stream_window as u32,
        connection_window: limits.connection_window as u32,
        header_table: limits.header_table,
        max_header_list: head.head,
        max_fields: head.fields,
        ..h2::Config::default()
    };
    let session = Rc::new(Session::new(transport, h2::Connection::server(config, now()), Vec::new()));
    open.listener.stats.http2.connections.add(1);
    let idle_due = timer.tick_after(timeouts.client_header);
    let connection = Rc::new(Connection { open, identity, session, served: Cell::new(0) });
    let server = Server {
        connection,
        timer,
        due: Cell::new(NEVER),
        idle_due: Cell::new(idle_due),
        head_due: Cell::new(NEVER),
        life_due: Cell::new(NEVER),
        is_asked: Cell::new(false),
        drain: Cell::new(Drain::Not),
        is_flooded: Cell::new(false),
        has_answered: Cell::new(false),
    };
    server.run(came).await;
}

impl Server {
    async fn run(&self, came: Buf) {
        let session = &self.connection.session;
        let core = &self.connection.open.core;
        // The streams are told whatever ends this task.
        let _ends = Ends(self);
        let ended = match session.take_in(came.filled(), core.clock.now().0, self) {
            Ok(()) => {
                drop(came);
                self.turns().await
            }
            Err(error) => Some(Ended::Failed(error)),
        };
        let mut patience = if self.is_flooded.get() { Patience::FAULT } else { Patience::UPLOAD };
        match ended {
            None => {}
            Some(Ended::Closed) => return,
            Some(Ended::Failed(error)) => {
                patience = Patience::FAULT;
                let stats = &self.connection.open.listener.stats.http2;
                stats.errors[error.code as usize].add(1);
                self.connection.open.listener.stats.malformed.add(1);
                if let Some(flood) = error.flood {
                    stats.floods[flood as usize].add(1);
                }
                session.end();
            }
        }
        self.timer.set(self.timer.tick_after(LINGER));
        let written = self.timer.limit(pin!(poll_fn(|cx| session.poll_write(cx)))).await;
        if matches!(written, Ok(Ok(()))) {
            self.connection.client().linger(&session.transport, &self.timer, patience).await;
        }
    }

    /// Has one turn after the other, until the connection ends; `None` if its requests were served and no more are.
    async fn turns(&self) -> Option<Ended> {
        let session = &self.connection.session;
        let open = &self.connection.open;
        loop {
            let turn = poll_fn(|cx| {
                if open.listener.cut.get() {
                    return Poll::Ready(Some(Ended::Closed));
                }
                if self.drain.get() == Drain::Not && self.connection.client().is_ending() {
                    self.begin_drain();
                }
                if let Poll::Ready(ended) = session.poll_turn(cx, open.core.clock.now().0, self) {
                    return Poll::Ready(Some(ended));
                }
                if self.drain.get() == Drain::Last && session.streams() == 0 && session.is_written() {
                    return Poll::Ready(None);
                }
                self.set_timer();
                Poll::Pending
            });
            match self.timer.limit(pin!(turn)).await {
                Ok(ended) => return ended,
                Err(Elapsed) => {
                    if let Some(ended) = self.on_elapsed() {
                        return Some(ended);
                    }
                }
            }
        }
    }

    /// Sets the deadline to what is due next.
    fn set_timer(&self) {
        let session = &self.connection.session;
        let timeouts = self.connection.open.listener.limits().1;
        if session.is_within_head() {
            if self.head_due.get() == NEVER {
                self.head_due.set(self.timer.tick_after(timeouts.client_header));
            }
        } else {
            self.head_due.set(NEVER);
        }
        let mut due = self.head_due.get();
        if session.streams() > 0 {
            self.idle_due.set(NEVER);
            due = due.min(self.life_due.get());
        } else {
            if self.idle_due.get() == NEVER {
                self.idle_due.set(self.timer.tick_after(timeouts.client_idle));
            }
            due = due.min(self.idle_due.get());
        }
        if let Drain::Notice(by) = self.drain.get() {
            due = due.min(by);
        }
        // Setting it again would forget that it has passed.
        if self.due.replace(due) != due {
            self.timer.set(due);
        }
    }

    /// Something was due; whether that ends the connection.
    fn on_elapsed(&self) -> Option<Ended> {
        self.due.set(NEVER);
        self.timer.set(NEVER);
        let session = &self.connection.session;
        let has_passed = |tick: u64| self.timer.left_ns(tick) == Some(0);
        if matches!(self.drain.get(), Drain::Notice(by) if has_passed(by)) {
            self.end_drain();
        }
        if has_passed(self.head_due.get()) {
            return Some(Ended::Closed);
        }
        if session.streams() == 0 {
            if has_passed(self.idle_due.get()) {
                if self.drain.get() != Drain::Not {
                    // It does not even read that.
                    return Some(Ended::Closed);
                }
                // It may send a request just now.
                self.begin_drain();
                self.idle_due.set(self.timer.tick_after(2 * DRAIN_NOTICE));
            }
        } else if has_passed(self.life_due.get()) {
            if self.is_asked.replace(true) {
                return Some(Ended::Closed);
            }
            let limits = self.connection.open.listener.plan().http2;
            self.life_due.set(self.timer.tick_after(limits.ping_timeout));
            session.engine(|engine| engine.ping(LIFE_PING));
        }
        None
    }

    /// Tells the client to begin no more requests; those that it has sent by then are served.
    fn begin_drain(&self) {
        self.drain.set(Drain::Notice(self.timer.tick_after(DRAIN_NOTICE)));
        self.connection.session.engine(|engine| {
            engine.go_away_soon();
            engine.ping(DRAIN_PING);
        });
    }

    /// Serves no request that has not begun.
    fn end_drain(&self) {
        self.drain.set(Drain::Last);
        self.connection.session.engine(|engine| engine.go_away(ErrorCode::NoError));
    }
}

/// Ends what is left of a connection when its task does.
struct Ends<'s>(&'s Server);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.connection.session.end();
    }
}

impl Role for Server {
    fn on_begin(&self) {
        let listener = &self.connection.open.listener;
        let served = self.connection.served.get() + 1;
        self.connection.served.set(served);
        listener.stats.http2.streams.add(1);
        if self.drain.get() == Drain::Not && listener.peek().is_last(served) {
            // Requests that it has sent by now are served, too.
            self.begin_drain();
        }
    }

    fn on_request(&self, stream: StreamHandle, head: Head) {
        let incoming = Box::new((self.connection.clone(), stream, head));
        event_loop::spawn_made(|| request(incoming));
    }

    /// A client that asks and takes back in one breath, over and over, costs neither a task nor an endpoint.
    fn on_taken_back(&self, head: &Head) {
        let listener = &self.connection.open.listener;
        listener.stats.ends[Cause::Client as usize].add(1);
        let rules = listener.rules();
        rules.stats(rules.unrouted()).count(method_index(&head.method), 0, 0);
    }

    fn on_refused(&self, refused: Box<Refused>) {
        request::note_refused(&self.connection, *refused);
    }

    fn on_flooded(&self, flood: Flood) {
        let stats = &self.connection.open.listener.stats;
        stats.malformed.add(1);
        stats.http2.errors[ErrorCode::EnhanceYourCalm as usize].add(1);
        stats.http2.floods[flood as usize].add(1);
        self.is_flooded.set(true);
        // The engine has written the GOAWAY.
        self.drain.set(Drain::Last);
    }

    fn on_read(&self, _: usize) {
        self.is_asked.set(false);
        let limits = self.connection.open.listener.plan().http2;
        self.life_due.set(limits.ping_after.map_or(NEVER, |after| self.timer.tick_after(after)));
    }

    fn on_reset(&self, by_peer: bool, code: u32) {
        let stats = &self.connection.open.listener.stats;
        // No other code of this side's says that a request was malformed.
        if !by_peer && code == ErrorCode::ProtocolError as u32 {
            stats.malformed.add(1);
        }
        let counters = if by_peer { &stats.http2.resets_received } else { &stats.http2.resets_sent };
        counters[code_index(code)].add(1);
    }

    fn on_pong(&self, payload: u64) {
        if payload != DRAIN_PING || !matches!(self.drain.get(), Drain::Notice(_)) {
            return;
        }
        // A client may answer a ping ahead of requests that it had ready before it read the notice (the h2 crate does). These are
        // on their way with the first answer, so they are here before the second.
        match self.has_answered.replace(true) {
            false => self.connection.session.engine(|engine| engine.ping(DRAIN_PING)),
            true => self.end_drain(),
        }
    }
}

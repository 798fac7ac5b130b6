//! The client's side of HTTP/2: each request is a separate task that exchanges messages on a stream, and a further task
//! reads and writes for all streams of the connection.

mod request;

use crate::core::linger::{LINGER, Patience};
use crate::http2::session::Session;
use crate::http2::stream::StreamHandle;
use crate::http2::turn::{Ended, Role};
use crate::observe::end::Cause;
use crate::observe::stats::{code_index, method_index};
use crate::peer::Identity;
use crate::serve::h1::H1;
use crate::serve::open::Open;
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

/// The part of the connection preface that an HTTP/1 parser takes for a head (RFC 9113 section 3.4).
const PREFACE_HEAD: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// Grace period between the two GOAWAYs of a drain, in which requests may still begin. Acknowledgements of two pings
/// and a quiet time end it early. A client with a busy event loop acknowledges late, and without the grace its requests
/// of that time would be refused.
const DRAIN_NOTICE: Duration = Duration::from_secs(5);

/// Time without a new request after which no more are on their way. A client with several threads may answer pings in
/// one thread, and begin a request in another that has not seen the notice yet.
const DRAIN_QUIET: Duration = Duration::from_secs(1);

/// Payload of the pings that check whether the client has read the first GOAWAY.
const DRAIN_PING: u64 = 0x6472_6169_6e00_0001;

/// Payload of the pings that check whether the client is alive.
const LIFE_PING: u64 = 0x6c69_6665_0000_0001;

const NEVER: u64 = u64::MAX;

/// True if `bytes` begin with the HTTP/2 preface.
pub fn is_preface(bytes: &[u8]) -> bool {
    bytes.starts_with(PREFACE_HEAD)
}

/// Spawns the task that serves an HTTP/2 connection; `came` are bytes that were already read.
pub fn start(open: Open, down: H1, identity: Identity, came: Buf) {
    event_loop::spawn_made(|| serve(open, down, identity, came));
}

/// State of the connection's task: deadlines (in ticks, [`NEVER`] if none) and the progress of a drain.
struct Server {
    connection: Rc<Connection>,
    timer: Timer,
    /// The tick that `timer` is set to.
    due: Cell<u64>,
    /// End of the idle time, while there are no streams.
    idle_due: Cell<u64>,
    /// Tick by which a header block that has begun must be complete.
    head_due: Cell<u64>,
    /// Tick at which a silent client is pinged or, if it was, given up.
    life_due: Cell<u64>,
    is_asked: Cell<bool>,
    /// Progress of the connection's end.
    drain: Cell<Drain>,
    /// True once the engine has ended the connection over a flood, such as too many resets.
    is_flooded: Cell<bool>,
    /// Number of the pings of a drain that the client has answered, of two.
    answers: Cell<u8>,
    /// End of the quiet time of a drain, if no request begins before.
    quiet_due: Cell<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    /// No drain: requests may begin.
    Not,
    /// The first GOAWAY was sent; requests that begin by this tick are served.
    Notice(u64),
    /// The last GOAWAY was sent; no more requests are served.
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
    let connection = Rc::new(Connection { open, identity, session, served: Cell::new(0), allowance: Rc::default() });
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
        answers: Cell::new(0),
        quiet_due: Cell::new(NEVER),
    };
    server.run(came).await;
}

impl Server {
    async fn run(&self, came: Buf) {
        let session = &self.connection.session;
        let core = &self.connection.open.core;
        // The streams must learn of the end, however this task ends.
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

    /// Runs the connection's turns until it ends; `None` if it was drained and its last request is done.
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

    /// Sets the timer to the next deadline.
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
        due = due.min(self.notice_due());
        // Setting an equal deadline again would lose that it has passed.
        if self.due.replace(due) != due {
            self.timer.set(due);
        }
    }

    /// Handles the deadlines that have passed. Returns the end of the connection if any of them ends it.
    fn on_elapsed(&self) -> Option<Ended> {
        self.due.set(NEVER);
        self.timer.set(NEVER);
        let session = &self.connection.session;
        let has_passed = |tick: u64| self.timer.left_ns(tick) == Some(0);
        if has_passed(self.notice_due()) {
            self.end_drain();
        }
        if has_passed(self.head_due.get()) {
            return Some(Ended::Closed);
        }
        if session.streams() == 0 {
            if has_passed(self.idle_due.get()) {
                if self.drain.get() != Drain::Not {
                    // The client has not even read the GOAWAY.
                    return Some(Ended::Closed);
                }
                // A request may be under way, so the client gets a notice first.
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

    /// Sends the first GOAWAY: the client should begin no more requests, but those that arrive before
    /// [`end_drain`](Self::end_drain) are served.
    fn begin_drain(&self) {
        self.drain.set(Drain::Notice(self.timer.tick_after(DRAIN_NOTICE)));
        self.quiet_due.set(self.timer.tick_after(DRAIN_QUIET));
        self.connection.session.engine(|engine| {
            engine.go_away_soon();
            engine.ping(DRAIN_PING);
        });
    }

    /// Tick at which the notice of a drain ends.
    fn notice_due(&self) -> u64 {
        match self.drain.get() {
            Drain::Notice(by) if self.answers.get() >= 2 => by.min(self.quiet_due.get()),
            Drain::Notice(by) => by,
            Drain::Not | Drain::Last => NEVER,
        }
    }

    /// Sends the last GOAWAY: requests that have not begun are refused.
    fn end_drain(&self) {
        self.drain.set(Drain::Last);
        self.connection.session.engine(|engine| engine.go_away(ErrorCode::NoError));
    }
}

/// Ends the streams of a connection when its task is dropped.
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
        match self.drain.get() {
            // Requests that are under way are served, too.
            Drain::Not if listener.peek().is_last(served) => self.begin_drain(),
            Drain::Notice(_) => self.quiet_due.set(self.timer.tick_after(DRAIN_QUIET)),
            Drain::Not | Drain::Last => {}
        }
    }

    fn on_request(&self, stream: StreamHandle, head: Head) {
        let incoming = Box::new((self.connection.clone(), stream, head));
        event_loop::spawn_made(|| request(incoming));
    }

    /// Counts a request that was reset in the same read that began it. It never costs a task or an endpoint (rapid
    /// reset, CVE-2023-44487).
    fn on_taken_back(&self, head: &Head) {
        let listener = &self.connection.open.listener;
        listener.stats.ends[Cause::Client as usize].add(1);
        let rules = listener.rules();
        rules.stats(rules.unrouted()).count(method_index(&head.method), 0, 0, false);
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
        // The engine has already written a GOAWAY.
        self.drain.set(Drain::Last);
    }

    fn on_read(&self, _: usize) {
        self.is_asked.set(false);
        let limits = self.connection.open.listener.plan().http2;
        self.life_due.set(limits.ping_after.map_or(NEVER, |after| self.timer.tick_after(after)));
    }

    fn on_reset(&self, by_peer: bool, code: u32) {
        let stats = &self.connection.open.listener.stats;
        // This side resets with PROTOCOL_ERROR only if a request was malformed.
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
        // A client may answer a ping ahead of requests that it had ready before it read the notice (the h2 crate does).
        // These are on their way with the first answer, so they are here before the second.
        self.answers.update(|answers| answers.saturating_add(1));
        if self.answers.get() == 1 {
            self.connection.session.engine(|engine| engine.ping(DRAIN_PING));
        }
    }
}

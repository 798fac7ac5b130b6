//! An HTTP/2 connection to an endpoint, shared by many requests. It takes requests until it drains, and ends with the
//! last of them; or at once if the endpoint shows no sign of life.

use super::allowance::{Allowance, Concurrency, PINGS_MAX};
use super::waiting::Queue;
use crate::core::Core;
use crate::http2::session::{Lost, Session};
use crate::http2::stream::StreamHandle;
use crate::http2::turn::{Ended, Role};
use crate::observe::stats::{CODES, EndpointStats};
use evenkeel_balance::{Clock, Instant};
use evenkeel_config::plan::EndpointHttp2;
use evenkeel_wire::h2::{ErrorCode, Head, StreamId};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Silence after which the kernel probes the endpoint (TCP keepalive), as HTTP/2 pings are few.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Time for which sent bytes may stay unacknowledged before the kernel ends the connection (`TCP_USER_TIMEOUT`).
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// Payload of the pings that check whether the endpoint is alive.
const LIFE_PING: u64 = 0x6c69_6665_0000_0002;

/// A shared connection to an endpoint.
pub struct Link {
    pub(super) session: Rc<Session>,
    core: Rc<Core>,
    /// Requests that wait for room on any of the endpoint's connections.
    queue: Rc<Queue>,
    stats: Arc<EndpointStats>,
    /// Learned limits that hold for all of the endpoint's connections.
    allowance: Rc<Allowance>,
    /// Learned limit on the streams of this connection.
    concurrency: Concurrency,
    /// Number of requests that have used the connection.
    opened: Cell<u32>,
    /// Number of requests whose streams the endpoint took and ended.
    finished: Cell<u32>,
    /// True if the endpoint's GOAWAY names stream 0: it has processed none.
    took_none: Cell<bool>,
    /// Number of requests that have a stream now.
    streams: Cell<u32>,
    stage: Cell<Stage>,
    /// True if no stream can be opened until a stream ends or the endpoint raises its limit.
    is_full: Cell<bool>,
    /// True once the endpoint's SETTINGS have arrived.
    is_settled: Cell<bool>,
    /// True if the connection failed before the endpoint's SETTINGS: it may not speak HTTP/2.
    spoke_other: Cell<bool>,
    /// Time of the last read that brought something.
    heard_at: Cell<Instant>,
    /// Time of the ping that has no answer yet.
    asked_at: Cell<Option<Instant>>,
    /// Pings since the last progress of a response; `messages` is that progress at the last look.
    pings: Cell<u32>,
    messages: Cell<u64>,
    /// True if the ping was overdue at the last look; it counts only if it is at the next look, too.
    is_overdue: Cell<bool>,
    /// Time since which there are no requests.
    idle_since: Cell<Instant>,
    /// True if it counts among the worker's idle connections.
    is_idle: Cell<bool>,
    /// True once a request has used it.
    has_served: Cell<bool>,
    /// True if this side has drained the connection.
    is_left: Cell<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Takes requests; the initial stage.
    Open,
    /// Takes no more requests, and ends with the last of them.
    Draining,
    /// Has ended; requests that were left are lost.
    Over,
}

impl Link {
    pub(super) fn new(
        session: Rc<Session>,
        core: &Rc<Core>,
        queue: Rc<Queue>,
        stats: Arc<EndpointStats>,
        allowance: Rc<Allowance>,
    ) -> Link {
        let now = core.clock.now();
        stats.http2.connections.add(1);
        session.transport.keep_alive(KEEP_ALIVE);
        session.transport.limit_unacknowledged(UNACKNOWLEDGED_MAX);
        Link {
            session,
            core: core.clone(),
            queue,
            stats,
            allowance,
            concurrency: Concurrency::default(),
            opened: Cell::new(0),
            finished: Cell::new(0),
            took_none: Cell::new(false),
            streams: Cell::new(0),
            stage: Cell::new(Stage::Open),
            is_full: Cell::new(false),
            is_settled: Cell::new(false),
            spoke_other: Cell::new(false),
            heard_at: Cell::new(now),
            asked_at: Cell::new(None),
            pings: Cell::new(0),
            messages: Cell::new(0),
            is_overdue: Cell::new(false),
            idle_since: Cell::new(now),
            is_idle: Cell::new(false),
            has_served: Cell::new(false),
            is_left: Cell::new(false),
        }
    }

    /// Number of requests that have a stream now.
    pub fn streams(&self) -> u32 {
        self.streams.get()
    }

    /// Number of requests that run at the endpoint; those that it refused or has not seen do not count.
    pub fn running(&self) -> u32 {
        if self.took_none() { 0 } else { self.streams.get().saturating_sub(self.concurrency.refused()) }
    }

    /// True if the connection takes requests.
    pub fn is_open(&self) -> bool {
        self.stage.get() == Stage::Open
    }

    /// True if it counts towards the limit of connections. A connection that has had as many requests as the endpoint
    /// takes is about to end and does not count.
    pub fn counts(&self) -> bool {
        self.is_open() && (self.streams.get() == 0 || !self.is_spent())
    }

    /// True if it has had as many requests as the endpoint takes on a connection, if that is known.
    fn is_spent(&self) -> bool {
        self.opened.get() >= self.allowance.lifetime()
    }

    /// True if another request may try to open a stream, with at most `most` at a time.
    pub fn has_room(&self, most: u32) -> bool {
        // A single stream before the endpoint has stated its limit, or if it may end the connection any moment.
        let most = if self.is_settled.get() && !self.is_spent() { most } else { 1 };
        let streams = self.streams.get();
        self.is_open()
            && !self.is_full.get()
            && streams < most
            && streams < self.concurrency.most(self.core.clock.now())
    }

    /// Rest of the pause after the endpoint refused the only stream of the connection, in nanoseconds.
    pub fn pause_left_ns(&self) -> u64 {
        self.concurrency.pause_left_ns(self.core.clock.now())
    }

    /// True if the endpoint ended the connection without having processed any stream.
    pub fn took_none(&self) -> bool {
        self.took_none.get()
    }

    /// True while the endpoint's SETTINGS are awaited, which may give it more room.
    pub fn is_beginning(&self) -> bool {
        self.is_open() && !self.is_settled.get()
    }

    /// True if the endpoint's SETTINGS lack ENABLE_CONNECT_PROTOCOL (RFC 8441).
    pub fn refuses_tunnels(&self) -> bool {
        self.is_open() && self.is_settled.get() && !self.session.engine(|engine| engine.peer_takes_connect())
    }

    /// Notes that the endpoint takes no further stream now.
    pub fn note_full(&self) {
        self.is_full.set(true);
    }

    /// True if the connection failed before the endpoint's SETTINGS: it may not speak HTTP/2.
    pub fn spoke_other(&self) -> bool {
        self.spoke_other.get()
    }

    pub(super) fn begin(&self) {
        self.streams.set(self.streams.get() + 1);
        self.opened.set(self.opened.get().saturating_add(1));
        self.note_used();
        self.has_served.set(true);
        self.stats.http2.streams.add(1);
    }

    /// Ends a request's use of the connection. `lost` is the end of its stream, if that was early.
    pub(super) fn end(&self, lost: Option<Lost>) {
        self.streams.set(self.streams.get() - 1);
        self.stats.http2.streams.sub(1);
        match lost {
            Some(Lost::Reset(code)) if code == ErrorCode::RefusedStream as u32 => self.concurrency.give_back(),
            Some(Lost::Unseen) => {}
            _ => {
                self.is_full.set(false);
                self.concurrency.took(self.core.clock.now());
                self.finished.set(self.finished.get().saturating_add(1));
                self.allowance.outlived(self.finished.get());
            }
        }
        if self.streams.get() == 0 {
            self.idle_since.set(self.core.clock.now());
            if !self.is_open() {
                self.wake();
            }
            self.note_idle();
        }
        self.queue.tell_first();
    }

    /// Wakes the connection's task.
    fn wake(&self) {
        self.session.engine(|_| ());
    }

    /// Adds the connection to the worker's count of idle connections, if it is idle.
    pub(super) fn note_idle(&self) {
        if self.is_open() && self.streams.get() == 0 && !self.is_idle.replace(true) {
            self.core.idle.add(1);
        }
    }

    /// Removes the connection from the worker's count of idle connections.
    fn note_used(&self) {
        if self.is_idle.replace(false) {
            self.core.idle.sub(1);
        }
    }

    /// Time since which the connection is idle, if it is.
    pub fn idle_since(&self) -> Option<Instant> {
        self.is_idle.get().then(|| self.idle_since.get())
    }

    /// Sends GOAWAY and takes no more requests; the connection ends with the last that it has.
    pub fn drain(&self) {
        if self.is_open() {
            self.is_left.set(true);
            self.stage.set(Stage::Draining);
            self.note_used();
            self.session.engine(|engine| engine.go_away(ErrorCode::NoError));
            self.queue.tell();
        }
    }

    /// Drains the connection if it was idle for `kept_ns`. If it has requests, sends pings, and ends it when the
    /// endpoint does not answer them in time. Called once a second.
    pub fn look_after(&self, settings: &EndpointHttp2, kept_ns: u64, now: Instant) {
        if self.streams.get() == 0 {
            let idle_ns = now.since(self.idle_since.get());
            if !self.is_open() && idle_ns >= settings.ping_timeout.as_nanos() as u64 {
                // The endpoint does not even read the GOAWAY.
                self.stage.set(Stage::Over);
                self.wake();
            } else if idle_ns >= kept_ns {
                self.drain();
            }
            return;
        }
        let Some(after) = settings.ping_after.map(|after| self.allowance.ping_after(after)) else { return };
        let messages = self.session.messages();
        if self.messages.replace(messages) != messages {
            self.pings.set(0);
        }
        match self.asked_at.get() {
            Some(asked) => {
                let is_overdue = now.since(asked) >= settings.ping_timeout.as_nanos() as u64;
                // If this thread stood still, the answer may be waiting to be read, which happens before the next look.
                if self.is_overdue.replace(is_overdue) && is_overdue {
                    self.stats.http2.silent.add(1);
                    self.stage.set(Stage::Over);
                    self.wake();
                }
            }
            None if now.since(self.heard_at.get()) >= after.as_nanos() as u64 && self.pings.get() < PINGS_MAX => {
                self.asked_at.set(Some(now));
                self.pings.set(self.pings.get() + 1);
                self.session.engine(|engine| engine.ping(LIFE_PING));
            }
            None => {}
        }
    }

    /// Reads and writes for its requests until it ends. Returns true if the endpoint ended it before it had a request.
    pub(super) async fn run(&self) -> bool {
        let ended = poll_fn(|cx| self.poll_run(cx)).await;
        if matches!(ended, Ended::Failed(_)) {
            self.spoke_other.set(!self.is_settled.get());
            // The GOAWAY with the reason is written only if the socket takes it at once.
            poll_fn(|cx| {
                let _ = self.session.poll_write(cx);
                Poll::Ready(())
            })
            .await;
        }
        self.stage.set(Stage::Over);
        self.note_used();
        self.session.end();
        !self.has_served.get() && !self.is_left.get()
    }

    fn poll_run(&self, cx: &mut Context<'_>) -> Poll<Ended> {
        if self.stage.get() == Stage::Over {
            return Poll::Ready(Ended::Closed);
        }
        if let Poll::Ready(ended) = self.session.poll_turn(cx, self.core.clock.now().0, self) {
            return Poll::Ready(ended);
        }
        let is_done = self.stage.get() == Stage::Draining && self.streams.get() == 0 && self.session.is_written();
        if is_done { Poll::Ready(Ended::Closed) } else { Poll::Pending }
    }
}

impl Role for Link {
    fn on_request(&self, _: StreamHandle, _: Head) {}

    fn on_read(&self, _: usize) {
        self.heard_at.set(self.core.clock.now());
        self.asked_at.set(None);
        self.is_overdue.set(false);
    }

    fn on_reset(&self, by_peer: bool, code: u32) {
        if by_peer {
            self.stats.http2.resets[(code as usize).min(CODES.len() - 1)].add(1);
            if code == ErrorCode::RefusedStream as u32 {
                self.concurrency.refuse(self.streams.get(), self.core.clock.now());
            }
        }
    }

    fn on_interim_dropped(&self, count: u64) {
        self.stats.http2.interim_dropped.add(count);
    }

    fn on_limits(&self) {
        self.is_settled.set(true);
        self.is_full.set(false);
        self.concurrency.restate();
        self.queue.tell();
    }

    fn on_go_away(&self, last: StreamId, code: u32) {
        self.stats.http2.go_aways.add(1);
        self.allowance.ended_with(code);
        // Streams of this side have the ids 1, 3, 5 and so on.
        let taken = last.div_ceil(2);
        if taken < self.opened.get() {
            self.allowance.ended_after(taken);
            self.took_none.set(taken == 0);
        }
        if self.is_open() {
            self.stage.set(Stage::Draining);
            self.note_used();
        }
        self.queue.tell();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.note_used();
        self.stats.http2.connections.sub(1);
    }
}

//! How does one connection to an endpoint live that many requests share? It takes requests, then no more, and ends with the last
//! of them; or all at once, when the endpoint gives no sign of life.

use super::waiting::Queue;
use crate::core::Core;
use crate::http2::session::Session;
use crate::http2::stream::StreamHandle;
use crate::http2::turn::{Ended, Role};
use crate::observe::stats::{CODES, EndpointStats};
use evenkeel_balance::{Clock, Instant};
use evenkeel_config::plan::EndpointHttp2;
use evenkeel_wire::h2::{ErrorCode, Head};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What a ping carries that asks for a sign of life.
const LIFE_PING: u64 = 0x6c69_6665_0000_0002;

/// One connection.
pub struct Link {
    pub(super) session: Rc<Session>,
    core: Rc<Core>,
    /// Requests that wait for room.
    queue: Rc<Queue>,
    stats: Arc<EndpointStats>,
    /// Requests that have it.
    streams: Cell<u32>,
    stage: Cell<Stage>,
    /// Whether the endpoint takes no more at the moment: a stream has to end, or the endpoint to allow more.
    is_full: Cell<bool>,
    /// Whether the endpoint has begun as one that speaks HTTP/2 does.
    is_settled: Cell<bool>,
    /// Whether it began in another way.
    spoke_other: Cell<bool>,
    /// When something came last.
    heard_at: Cell<Instant>,
    /// When the endpoint was asked for a sign of life, if it was since.
    asked_at: Cell<Option<Instant>>,
    /// Whether that was too long ago when it was looked after last.
    is_overdue: Cell<bool>,
    /// Since when no request has it.
    idle_since: Cell<Instant>,
    /// Whether a request has had it.
    has_served: Cell<bool>,
    /// Whether this side ends it.
    is_left: Cell<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It takes requests.
    Open,
    /// It takes no more.
    Draining,
    /// Its requests are lost.
    Over,
}

impl Link {
    pub(super) fn new(session: Rc<Session>, core: &Rc<Core>, queue: Rc<Queue>, stats: Arc<EndpointStats>) -> Link {
        let now = core.clock.now();
        stats.http2.connections.add(1);
        Link {
            session,
            core: core.clone(),
            queue,
            stats,
            streams: Cell::new(0),
            stage: Cell::new(Stage::Open),
            is_full: Cell::new(false),
            is_settled: Cell::new(false),
            spoke_other: Cell::new(false),
            heard_at: Cell::new(now),
            asked_at: Cell::new(None),
            is_overdue: Cell::new(false),
            idle_since: Cell::new(now),
            has_served: Cell::new(false),
            is_left: Cell::new(false),
        }
    }

    /// Requests that have it.
    pub fn streams(&self) -> u32 {
        self.streams.get()
    }

    /// Whether it counts among those that may be opened.
    pub fn is_open(&self) -> bool {
        self.stage.get() == Stage::Open
    }

    /// Whether another request may be tried.
    pub fn has_room(&self, most: u32) -> bool {
        // Before the endpoint has said how many it takes, one.
        let most = if self.is_settled.get() { most } else { 1 };
        self.is_open() && !self.is_full.get() && self.streams.get() < most
    }

    /// Whether it will have room when the endpoint has said how much.
    pub fn is_beginning(&self) -> bool {
        self.is_open() && !self.is_settled.get()
    }

    /// Whether the endpoint has said that it takes no tunnels.
    pub fn refuses_tunnels(&self) -> bool {
        self.is_open() && self.is_settled.get() && !self.session.engine(|engine| engine.peer_takes_connect())
    }

    /// The endpoint takes no other request now.
    pub fn note_full(&self) {
        self.is_full.set(true);
    }

    /// Whether the endpoint spoke something else.
    pub fn spoke_other(&self) -> bool {
        self.spoke_other.get()
    }

    pub(super) fn begin(&self) {
        self.streams.set(self.streams.get() + 1);
        self.has_served.set(true);
        self.stats.http2.streams.add(1);
    }

    pub(super) fn end(&self) {
        self.streams.set(self.streams.get() - 1);
        self.stats.http2.streams.sub(1);
        self.is_full.set(false);
        if self.streams.get() == 0 {
            self.idle_since.set(self.core.clock.now());
            if !self.is_open() {
                self.wake();
            }
        }
        self.queue.tell_first();
    }

    /// Has its task look again.
    fn wake(&self) {
        self.session.engine(|_| ());
    }

    /// Takes no more requests, and ends with the last that has it.
    pub fn drain(&self) {
        if self.is_open() {
            self.is_left.set(true);
            self.stage.set(Stage::Draining);
            self.session.engine(|engine| engine.go_away(ErrorCode::NoError));
            self.queue.tell();
        }
    }

    /// Ends it if it was idle for too long, or the endpoint gives no sign of life while it has requests.
    pub fn look_after(&self, settings: &EndpointHttp2, kept_ns: u64, now: Instant) {
        if self.streams.get() == 0 {
            let idle_ns = now.since(self.idle_since.get());
            if !self.is_open() && idle_ns >= settings.ping_timeout.as_nanos() as u64 {
                // The endpoint does not even read the last words.
                self.stage.set(Stage::Over);
                self.wake();
            } else if idle_ns >= kept_ns {
                self.drain();
            }
            return;
        }
        let Some(after) = settings.ping_after else { return };
        match self.asked_at.get() {
            Some(asked) => {
                let is_overdue = now.since(asked) >= settings.ping_timeout.as_nanos() as u64;
                // If this thread stood still, the sign of life may wait to be read: that is done before the next look.
                if self.is_overdue.replace(is_overdue) && is_overdue {
                    self.stats.http2.silent.add(1);
                    self.stage.set(Stage::Over);
                    self.wake();
                }
            }
            None if now.since(self.heard_at.get()) >= after.as_nanos() as u64 => {
                self.asked_at.set(Some(now));
                self.session.engine(|engine| engine.ping(LIFE_PING));
            }
            None => {}
        }
    }

    /// Reads and writes for its requests until it ends; whether the endpoint ended it before it took a request.
    pub(super) async fn run(&self) -> bool {
        let ended = poll_fn(|cx| self.poll_run(cx)).await;
        if matches!(ended, Ended::Failed(_)) {
            self.spoke_other.set(!self.is_settled.get());
            // The endpoint is told why, if it takes a word.
            poll_fn(|cx| {
                let _ = self.session.poll_write(cx);
                Poll::Ready(())
            })
            .await;
        }
        self.stage.set(Stage::Over);
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
        }
    }

    fn on_interim_dropped(&self, count: u64) {
        self.stats.http2.interim_dropped.add(count);
    }

    fn on_limits(&self) {
        self.is_settled.set(true);
        self.is_full.set(false);
        self.queue.tell();
    }

    fn on_go_away(&self) {
        self.stats.http2.go_aways.add(1);
        if self.is_open() {
            self.stage.set(Stage::Draining);
        }
        self.queue.tell();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stats.http2.connections.sub(1);
    }
}

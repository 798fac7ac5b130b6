//! The client's side of HTTP/1: reads requests and writes responses as bytes, on a connection that carries a single
//! request at a time.

use crate::body::downstream::{Downstream, Flow};
use crate::body::response::{Response, TEXT};
use crate::core::Core;
use crate::core::linger::LINGER;
use crate::listener::client::Client;
use crate::observe::end::Cause;
use crate::peer::min_rate::MinRate;
use crate::pipeline::websocket;
use crate::record::Record;
use crate::serve::h1_parts::H1Parts;
use evenkeel_balance::Clock;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::{Elapsed, Timer};
use evenkeel_net::event_loop::budget;
use evenkeel_net::transport::Transport;
use evenkeel_wire::http1::chunked::{Keep, Taken};
use evenkeel_wire::http1::{self, Body};
use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A client connection that speaks HTTP/1, with at most one request at a time.
pub struct H1 {
    /// The client's end, plain or TLS.
    pub transport: Transport,
    /// The connection's only deadline, set anew for each wait.
    pub timer: Timer,
    /// True if the current request allows trailers in its response.
    pub takes_trailers: Cell<bool>,
    /// Value of `Sec-WebSocket-Accept` for a WebSocket request, sent with the switch of protocols.
    pub websocket: Cell<Option<websocket::Accept>>,
}

/// Result of waiting for a request.
pub enum Next {
    /// The buffer begins with a whole head, or with enough of a head to refuse it.
    Head(Buf),
    /// No request: the client has closed or was idle for too long, or the worker or listener ends.
    End,
    /// Part of a head came, but not the rest in time.
    Late,
}

/// State of a client connection after a request.
pub enum After {
    /// The next request may follow; these bytes of it were already read.
    Next(Option<Buf>),
    /// The next request may follow once the rest of this request was read.
    Discard(Box<Unsent>),
    /// The connection is closed at once.
    Close,
    /// The connection is closed once the client has read the response.
    Linger,
}

/// Rest of a request that was answered before the client had sent all of it.
pub struct Unsent {
    pub(super) body: Body,
    /// Bytes of it that were read already.
    pub(super) came: Buf,
}

/// Conditions under which a response of this proxy is sent.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// True if the connection can carry another request.
    pub keep_alive: bool,
    /// True if the response has no body, as for HEAD.
    pub head_only: bool,
}

impl Terms {
    /// The connection closes after the response.
    pub const LAST: Terms = Terms { keep_alive: false, head_only: false };
}

impl Downstream for H1 {
    type Parts<'p> = H1Parts<'p>;

    fn timer(&self) -> &Timer {
        &self.timer
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.transport.poll_reset(cx)
    }

    fn connection(&self) -> Option<&Transport> {
        Some(&self.transport)
    }

    fn parts<'p>(&'p self, flow: Flow<'p>, body: Body, came: Buf) -> H1Parts<'p> {
        H1Parts::new(self, flow, body, came)
    }
}

impl H1 {
    /// Wraps an accepted connection. Over TLS, the handshake is still due.
    pub fn new(transport: Transport, core: &Core) -> H1 {
        H1 { transport, timer: core.wheel.timer(), takes_trailers: Cell::new(false), websocket: Cell::new(None) }
    }

    /// Waits for the head of the next request. `held` are bytes that came with the previous request.
    pub async fn next_head(&self, client: &Client<'_>, held: &mut Option<Buf>, first: bool) -> Next {
        let has_head = |buf: &Buf| http1::has_head(buf.filled(), &client.listener.limits().0);
        let mut partial: Vec<u8> = Vec::new();
        if let Some(held) = held.take() {
            if has_head(&held) {
                // A client may pipeline any number of heads: other tasks get their turn between them.
                budget::proceed().await;
                return Next::Head(held);
            }
            partial = held.filled().to_vec();
        }
        let timeouts = client.listener.limits().1;
        let wait = if first || !partial.is_empty() { timeouts.client_header } else { timeouts.client_idle };
        let mut due = self.timer.tick_after(wait);
        loop {
            let (n, buf) = match self.timer.limit_by(due, pin!(client.read_after(&self.transport, &partial))).await {
                Ok(Some(read)) => read,
                Ok(None) => return Next::End,
                // A client that has sent nothing gets no 408.
                Err(Elapsed) if partial.is_empty() => return Next::End,
                Err(Elapsed) => return Next::Late,
            };
            if n == 0 {
                return Next::End;
            }
            if has_head(&buf) {
                return Next::Head(buf);
            }
            if partial.is_empty() && !first {
                due = self.timer.tick_after(client.listener.limits().1.client_header);
            }
            // A waiting connection keeps the bytes only, not the buffer.
            partial.clear();
            partial.extend_from_slice(buf.filled());
        }
    }

    /// Reads and discards the rest of a request whose response announced that the connection stays open. The client has
    /// as much time for it as for any body.
    pub async fn discard(&self, client: &Client<'_>, unsent: Box<Unsent>) -> After {
        let Unsent { mut body, mut came } = *unsent;
        let clock = &client.core.clock;
        let mut rate = MinRate::new(client.listener.limits().1.client_body);
        loop {
            let Ok(Taken { kept, .. }) = came.take_body(0, &mut body, Keep::Framed) else { return After::Linger };
            came.consume(kept);
            if body.is_done() {
                return After::Next((!came.is_empty()).then_some(came));
            }
            budget::proceed().await;
            let since = clock.now();
            let patience = if client.is_ending() { LINGER.min(rate.left()) } else { rate.left() };
            self.timer.set(self.timer.tick_after(patience));
            came = match self.timer.limit(pin!(self.transport.read_some())).await {
                Ok(Ok(came)) if !came.is_empty() => came,
                _ => return After::Linger,
            };
            if !rate.came(came.len(), Duration::from_nanos(clock.now().since(since))) {
                return After::Linger;
            }
        }
    }

    /// Answers 408 to a client that has sent only part of a head in time.
    pub async fn give_up(&self, client: &Client<'_>) -> After {
        let rules = client.listener.rules();
        let mut record = Record::new(client, &rules);
        record.blame(Cause::ClientSlow);
        self.answer(&mut record, Response::new(408, "no complete request in time"), Terms::LAST, None).await
    }

    /// Answers 400 to a plain HTTP request on a port that expects TLS.
    pub async fn expected_tls(&self, client: &Client<'_>) -> After {
        let rules = client.listener.rules();
        let mut record = Record::new(client, &rules);
        record.blame(Cause::Proxy);
        client.listener.stats.malformed.add(1);
        let why = "plain HTTP request sent to a TLS port; use https://";
        record.note_reason(why);
        // The client reads the reason even where other errors are terse: it reveals nothing internal.
        let page = Response::page(TEXT, format!("400 Bad Request: {why}\n").into_bytes());
        self.answer(&mut record, Response { status: 400, ..page }, Terms::LAST, None).await
    }
}

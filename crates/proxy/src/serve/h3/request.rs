//! A request on a stream of an HTTP/3 client connection, served as messages in a separate task with a separate deadline.

use super::early::mark;
use super::session::{Session, Uses};
use super::stream::StreamHandle;
use crate::body::downstream::{ClientParts, Downstream, Flow};
use crate::body::fault::Fault;
use crate::body::part::{Gone, Part};
use crate::http2::stream::with_status;
use crate::pipeline::route::Normal;
use crate::serve::message::{self, Messages, Spoken};
use bytes::Bytes;
use evenkeel_net::boxed::reused;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Timer;
use evenkeel_net::event_loop;
use evenkeel_net::event_loop::alarm::timeout;
use evenkeel_net::event_loop::allowance::Member;
use evenkeel_wire::h3::{ErrorCode, Head, Malformed, Refused};
use evenkeel_wire::head::{Request, Table};
use evenkeel_wire::http1::Body;
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::http1::request::is_bodiless;
use evenkeel_wire::priority::Priority;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Name of the protocol in the access log.
const PROTO: &str = "HTTP/3";

/// Longest wait for the end of a request that states no body. Many clients send the end in another packet than the head, and
/// a request with a body can be neither retried on all failures nor sent without `Transfer-Encoding`.
const END_WAIT: Duration = Duration::from_millis(5);

/// Requests that run as tasks of the event loop, apart from their connection.
pub(super) const USES: Uses = Uses { begin, refused: note_refused };

fn begin(session: Rc<Session>, stream: StreamHandle, mut head: Head, is_early: bool) {
    if is_early {
        mark(&mut head);
    }
    let incoming = Box::new((session, stream, head));
    event_loop::spawn_made(|| request(incoming));
}

/// Serves a request from its head until its stream has ended in both directions.
async fn request(incoming: Box<(Rc<Session>, StreamHandle, Head)>) {
    let (session, stream, mut head) = *incoming;
    let Some(client) = session.client() else { return };
    let rules = session.open.listener.rules();
    let down = H3 { stream, timer: session.open.core.wheel.timer(), first: Cell::default() };
    let normal = Normal::new();
    let states_no_body = match head.content_length {
        Some(length) => length == 0,
        None => is_bodiless(&head.method),
    };
    let spoken = Spoken {
        proto: PROTO,
        framing: head.content_length.map_or(Stated::Nothing, Stated::Length),
        ended: head.ends || head.protocol.is_none() && states_no_body && down.ends_soon().await,
        switch: head.protocol.as_deref(),
        normal: &normal,
    };
    // In HTTP/1 an upgrade is a GET; in HTTP/3 it is a CONNECT (RFC 9220).
    let method = if spoken.switch.is_some() { "GET" } else { &head.method };
    let mut request = Request { method, target: &head.path, host: &head.authority, fields: head.fields.fields() };
    if let Some(priority) = request.field("priority") {
        down.stream.set_urgency(Priority::read(priority).urgency);
    }
    {
        let mut serving = pin!(reused(|| message::serve(&client, &rules, &down, &mut request, spoken)));
        let mut member = Member::new(session.allowance.clone());
        poll_fn(|cx| member.poll(cx, |cx| serving.as_mut().poll(cx))).await;
    }
    // The rest of the response is sent as the client's window allows.
    down.timer.set(down.timer.tick_after(rules.plan.timeouts.client_idle));
    if down.timer.limit(pin!(poll_fn(|cx| down.stream.poll_sent(cx)))).await.is_err() {
        down.stream.reset(ErrorCode::RequestCancelled);
    }
    message::discard_rest(&down, || client.is_ending()).await;
}

/// Counts and logs a request whose head was refused.
fn note_refused(session: &Session, refused: Refused) {
    if let Some(client) = session.client() {
        message::note_refused(&client, &session.open.listener.rules(), PROTO, refused);
    }
}

/// The client's side of a request.
struct H3 {
    stream: StreamHandle,
    timer: Timer,
    /// Part that arrived before the request was served.
    first: Cell<Option<Result<Part, Gone>>>,
}

impl H3 {
    /// Waits briefly for the end of the stream.
    async fn ends_soon(&self) -> bool {
        match timeout(END_WAIT, poll_fn(|cx| self.stream.poll_part(cx))).await {
            Some(Ok(Part::End)) => true,
            part => {
                self.first.set(part);
                false
            }
        }
    }
}

impl Downstream for H3 {
    type Parts<'p> = &'p H3;

    fn timer(&self) -> &Timer {
        &self.timer
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_gone(cx)
    }

    fn parts<'p>(&'p self, _: Flow<'p>, _: Body, _: Buf) -> &'p H3 {
        self
    }
}

impl ClientParts for H3 {
    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>> {
        let part = self.first.take().map_or_else(|| self.stream.poll_part(cx), Poll::Ready);
        part.map_err(|Gone| Fault::ClientGone)
    }

    fn is_held_back(&self) -> bool {
        self.stream.is_held_back()
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.stream.poll_room(cx).map_err(|Gone| Fault::ClientGone)
    }

    fn send_head(&self, status: u16, mut fields: Table, ends: bool) -> u16 {
        let status = message::on_stream(status, &mut fields);
        self.stream.send_head(with_status(status, &mut [0; 3], &fields), ends);
        status
    }

    fn send(&self, part: Part) {
        self.stream.send(part);
    }
}

impl Messages for H3 {
    fn send_shared(&self, bytes: Bytes) {
        self.stream.send_shared(bytes);
    }

    fn reset(&self) {
        self.stream.reset(ErrorCode::InternalError);
    }

    fn broken(&self) -> Option<Malformed> {
        self.stream.broken()
    }

    fn is_receiving(&self) -> bool {
        self.stream.is_receiving()
    }
}

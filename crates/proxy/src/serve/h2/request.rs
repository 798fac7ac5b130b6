//! A request on a stream of an HTTP/2 client connection, served as messages in a separate task with a separate
//! deadline.

use crate::body::downstream::{ClientParts, Downstream, Flow};
use crate::body::fault::Fault;
use crate::body::part::{Gone, Part};
use crate::http2::session::Session;
use crate::http2::stream::{StreamHandle, with_status};
use crate::listener::client::Client;
use crate::peer::{Identity, Peer};
use crate::pipeline::route::Normal;
use crate::serve::message::{self, Messages, Spoken};
use crate::serve::open::Open;
use bytes::Bytes;
use evenkeel_net::boxed::reused;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Timer;
use evenkeel_net::event_loop::allowance::{Allowance, Member};
use evenkeel_wire::h2::{ErrorCode, Head, Malformed, Refused};
use evenkeel_wire::head::{Request, Table};
use evenkeel_wire::http1::Body;
use evenkeel_wire::http1::fields::Stated;
use evenkeel_wire::priority::Priority;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Name of the protocol in the access log.
const PROTO: &str = "HTTP/2";

/// A client connection, shared by its requests.
pub struct Connection {
    pub open: Open,
    pub identity: Identity,
    pub session: Rc<Session>,
    /// Number of requests that have begun.
    pub served: Cell<u64>,
    /// Time of the worker for all requests of the connection, before other connections have theirs.
    pub allowance: Rc<Allowance>,
}

impl Connection {
    /// The client, for the record of a request.
    pub fn client(&self) -> Client<'_> {
        let peer = Peer::known(self.identity.clone(), &self.session.transport, &self.open.states);
        Client { core: &self.open.core, listener: &self.open.listener, peer }
    }
}

/// Serves a request from its head until its stream has ended in both directions.
pub async fn request(incoming: Box<(Rc<Connection>, StreamHandle, Head)>) {
    let (connection, stream, mut head) = *incoming;
    let (client, rules) = (connection.client(), connection.open.listener.rules());
    let down = H2 { stream, timer: connection.open.core.wheel.timer() };
    let normal = Normal::new();
    let spoken = Spoken {
        proto: PROTO,
        framing: head.content_length.map_or(Stated::Nothing, Stated::Length),
        ended: head.ends,
        switch: head.protocol.as_deref(),
        normal: &normal,
    };
    // In HTTP/1 an upgrade is a GET; in HTTP/2 it is a CONNECT (RFC 8441).
    let method = if spoken.switch.is_some() { "GET" } else { &head.method };
    let mut request = Request { method, target: &head.path, host: &head.authority, fields: head.fields.fields() };
    if let Some(priority) = request.field("priority") {
        down.stream.set_urgency(Priority::read(priority).urgency);
    }
    {
        let mut serving = pin!(reused(|| message::serve(&client, &rules, &down, &mut request, spoken)));
        let mut member = Member::new(connection.allowance.clone());
        poll_fn(|cx| member.poll(cx, |cx| serving.as_mut().poll(cx))).await;
    }
    // The rest of the response, at most a buffer, is sent as the client's window allows.
    down.timer.set(down.timer.tick_after(rules.plan.timeouts.client_idle));
    if down.timer.limit(pin!(poll_fn(|cx| down.stream.poll_sent(cx)))).await.is_err() {
        down.stream.reset(ErrorCode::Cancel);
    }
    message::discard_rest(&down, || client.is_ending()).await;
}

/// Counts and logs a request whose head was refused; the engine has sent a response or reset the stream.
pub fn note_refused(connection: &Connection, refused: Refused) {
    message::note_refused(&connection.client(), &connection.open.listener.rules(), PROTO, refused);
}

/// The client's side of a request.
struct H2 {
    stream: StreamHandle,
    timer: Timer,
}

impl Downstream for H2 {
    type Parts<'p> = &'p H2;

    fn timer(&self) -> &Timer {
        &self.timer
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_gone(cx)
    }

    fn parts<'p>(&'p self, _: Flow<'p>, _: Body, _: Buf) -> &'p H2 {
        self
    }
}

impl ClientParts for H2 {
    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>> {
        self.stream.poll_part(cx).map_err(|Gone| Fault::ClientGone)
    }

    fn is_held_back(&self) -> bool {
        self.stream.is_held_back()
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.stream.poll_room(cx).map_err(|Gone| Fault::ClientGone)
    }

    fn poll_open(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.stream.poll_open(cx).map_err(|Gone| Fault::ClientGone)
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

impl Messages for H2 {
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

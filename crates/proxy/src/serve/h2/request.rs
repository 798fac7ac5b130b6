//! How is one request of a client that speaks HTTP/2 served? As messages over its stream, in a task of its own with its own deadline.

use crate::body::downstream::{ClientParts, Downstream, Flow};
use crate::body::fault::Fault;
use crate::body::part::{Gone, Part};
use crate::core::linger::{LINGER, Patience};
use crate::http2::session::Session;
use crate::http2::stream::{StreamHandle, with_status};
use crate::listener::client::Client;
use crate::observe::end::Cause;
use crate::peer::{Identity, Peer};
use crate::record::Record;
use crate::serve::message::{self, Messages, Spoken};
use crate::serve::open::Open;
use evenkeel_net::boxed::reused;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Timer;
use evenkeel_wire::h2::{ErrorCode, Head, Malformed, Refused};
use evenkeel_wire::head::{Request, Table};
use evenkeel_wire::http1::Body;
use evenkeel_wire::http1::fields::Stated;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// What the access log calls it.
const PROTO: &str = "HTTP/2";

/// A connection, as its requests see it.
pub struct Connection {
    pub open: Open,
    pub identity: Identity,
    pub session: Rc<Session>,
    /// Requests so far.
    pub served: Cell<u64>,
}

impl Connection {
    /// The client of a request.
    pub fn client(&self) -> Client<'_> {
        let peer = Peer::known(self.identity.clone(), &self.session.transport);
        Client { core: &self.open.core, listener: &self.open.listener, peer }
    }
}

/// Serves one request.
pub async fn request(incoming: Box<(Rc<Connection>, StreamHandle, Head)>) {
    let (connection, stream, mut head) = *incoming;
    let (client, rules) = (connection.client(), connection.open.listener.rules());
    let down = H2 { stream, timer: connection.open.core.wheel.timer() };
    let spoken = Spoken {
        proto: PROTO,
        framing: head.content_length.map_or(Stated::Nothing, Stated::Length),
        ended: head.ends,
        switch: head.protocol.as_deref(),
    };
    // HTTP/1 asks for another protocol by a GET.
    let method = if spoken.switch.is_some() { "GET" } else { &head.method };
    let mut request = Request { method, target: &head.path, host: &head.authority, fields: head.fields.fields() };
    if let Some(priority) = request.field("priority") {
        down.stream.set_urgency(urgency(priority));
    }
    reused(|| message::serve(&client, &rules, &down, &mut request, spoken)).await;
    // What is left of a response, at most a buffer, goes as the client makes room for it.
    down.timer.set(down.timer.tick_after(rules.plan.timeouts.client_idle));
    if down.timer.limit(pin!(poll_fn(|cx| down.stream.poll_sent(cx)))).await.is_err() {
        down.stream.reset(ErrorCode::Cancel);
    }
    down.discard_rest(|| client.is_ending()).await;
}

/// Counts and logs a request that was refused for its head, and that the engine has answered.
#[cold]
pub fn note_refused(connection: &Connection, refused: Refused) {
    let Refused { mut head, why, status } = refused;
    let (client, rules) = (connection.client(), connection.open.listener.rules());
    let mut record = Record::new(&client, &rules);
    record.proto = PROTO;
    record.count_in(head.method.len() + head.path.len() + head.authority.len() + head.fields.size());
    let request =
        Request { method: &head.method, target: &head.path, host: &head.authority, fields: head.fields.fields() };
    record.note_asked(&request);
    record.blame(Cause::Proxy);
    record.reason.get_or_init(|| why.to_string().into());
    if let Some(status) = status {
        // Resets by this side are counted where they are sent.
        client.listener.stats.malformed.add(1);
        record.status.set(status);
    }
}

/// What a `Priority` field asks for (RFC 9218): `u=0` is the most urgent, `u=7` the least.
fn urgency(value: &[u8]) -> u8 {
    let mut members = value.split(|&b| b == b',').map(<[u8]>::trim_ascii);
    let member = members.rfind(|member| member.starts_with(b"u="));
    match member {
        Some([b'u', b'=', digit @ b'0'..=b'7']) => digit - b'0',
        _ => 3,
    }
}

/// One request of a client that speaks HTTP/2.
struct H2 {
    stream: StreamHandle,
    timer: Timer,
}

impl H2 {
    /// Reads and discards the rest of a request that nothing needs. Many clients take a reset for a failure even when the response
    /// is whole before it (curl 7.88), so it comes only if the client does not end its request. `is_ending`: there is less time for
    /// that.
    async fn discard_rest(&self, is_ending: impl Fn() -> bool) {
        if !self.stream.is_receiving() {
            return;
        }
        let Patience { time, silence, .. } = Patience::UPLOAD;
        let by = self.timer.tick_after(time);
        while self.stream.is_receiving() {
            let silence = if is_ending() { LINGER } else { silence };
            self.timer.set(self.timer.tick_after(silence).min(by));
            let part = self.timer.limit(pin!(poll_fn(|cx| self.stream.poll_part(cx)))).await;
            if !matches!(part, Ok(Ok(Part::Data(_)))) {
                return;
            }
        }
    }
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

    fn send_head(&self, mut status: u16, mut fields: Table, ends: bool) -> u16 {
        if status == 101 {
            // For a stream it is a success, without what HTTP/1 needs for it (RFC 8441 section 5).
            status = 200;
            fields.fields().leave_out("upgrade");
            fields.fields().leave_out("sec-websocket-accept");
        }
        self.stream.send_head(with_status(status, &mut [0; 3], &fields), ends);
        status
    }

    fn send(&self, part: Part) {
        self.stream.send(part);
    }
}

impl Messages for H2 {
    fn reset(&self) {
        self.stream.reset(ErrorCode::InternalError);
    }

    fn broken(&self) -> Option<Malformed> {
        self.stream.broken()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgency_is_a_digit_up_to_7_and_3_without_one() {
        for (value, want) in
            [("u=0", 0), ("i, u=7", 7), ("u=1,u=2", 2), ("u=8", 3), ("u=", 3), ("i", 3), ("", 3), ("u=12", 3)]
        {
            assert_eq!(urgency(value.as_bytes()), want, "{value}");
        }
    }
}

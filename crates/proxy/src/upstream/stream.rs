//! What does a request have that shares its connection to an endpoint? A [`EndpointStream`]: dropped before its end, it is cancelled, and
//! the others go on.

use super::link::Link;
use crate::body::part::{Gone, Part};
use crate::http2::session::Lost;
use crate::http2::stream::StreamHandle;
use evenkeel_wire::h2::{Head, Malformed};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A stream to an endpoint, whose request's head is on its way.
pub struct EndpointStream {
    /// There until it is dropped.
    handle: Option<StreamHandle>,
    link: Rc<Link>,
}

/// A request that has begun.
pub struct Begun {
    pub stream: EndpointStream,
    /// Whether its connection was there before.
    pub reused: bool,
    /// How long it took until it was, if not.
    pub connect_ns: Option<u64>,
}

impl EndpointStream {
    pub(super) fn new(handle: StreamHandle, link: Rc<Link>) -> EndpointStream {
        link.begin();
        EndpointStream { handle: Some(handle), link }
    }

    fn handle(&self) -> &StreamHandle {
        self.handle.as_ref().expect("it is taken only by drop")
    }

    /// The next head of the response.
    pub fn poll_head(&self, cx: &Context<'_>) -> Poll<Result<Head, Gone>> {
        self.handle().poll_head(cx)
    }

    /// Waits until there is a head of a response, without taking it; `false` if none comes.
    pub fn poll_answered(&self, cx: &Context<'_>) -> Poll<bool> {
        self.handle().poll_answered(cx)
    }

    /// The next part of the response's body.
    pub fn poll_part(&self, cx: &Context<'_>) -> Poll<Result<Part, Gone>> {
        self.handle().poll_part(cx)
    }

    /// Waits until another part of the request can be sent.
    pub fn poll_room(&self, cx: &Context<'_>) -> Poll<Result<(), Gone>> {
        self.handle().poll_room(cx)
    }

    /// Sends a part of the request; there must be room for data.
    pub fn send(&self, part: Part) {
        self.handle().send(part);
    }

    /// How it ended, if early.
    pub fn lost(&self) -> Option<Lost> {
        self.handle().lost()
    }

    /// The rule that the endpoint broke, if the stream ended by that.
    pub fn broken(&self) -> Option<Malformed> {
        self.handle().broken()
    }

    /// Returns the rest of the pause of its connection, whose endpoint refuses streams, in nanoseconds.
    pub fn pause_left_ns(&self) -> u64 {
        self.link.pause_left_ns()
    }

    /// True if the endpoint works on other requests of its connection.
    pub fn is_running(&self) -> bool {
        self.link.running() > 0
    }

    /// True if the endpoint ended the connection without having looked at any stream.
    pub fn took_none(&self) -> bool {
        self.link.took_none()
    }

    /// Whether its connection ended as the endpoint spoke something else.
    pub fn spoke_other(&self) -> bool {
        self.link.spoke_other()
    }
}

impl Drop for EndpointStream {
    fn drop(&mut self) {
        let lost = self.handle.take().and_then(|handle| handle.cancel());
        self.link.end(lost);
    }
}

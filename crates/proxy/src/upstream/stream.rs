//! A request's stream on a shared connection to its endpoint. Dropping an [`EndpointStream`] before its end cancels the
//! request; others on the connection continue.

use super::link::Link;
use crate::body::fault::Fault;
use crate::body::part::{Gone, Part};
use crate::body::upstream::{Head, Upstream};
use crate::http2::session::Lost;
use crate::http2::stream::StreamHandle;
use evenkeel_wire::h2::{self, ErrorCode, Malformed, Over};
use evenkeel_wire::http1::Reject;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A stream to an endpoint, on which the head of a request was sent.
pub struct EndpointStream {
    /// `Some` until the drop.
    handle: Option<StreamHandle>,
    link: Rc<Link>,
}

/// A stream that was just opened.
pub struct Begun {
    pub stream: EndpointStream,
    /// True if the stream did not have to wait for a connection.
    pub reused: bool,
    /// Time that it waited for a connection, nanoseconds; `None` if it did not.
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

    /// Waits until the head of a response has arrived, and leaves it in place; `false` if none will arrive.
    pub fn poll_answered(&self, cx: &Context<'_>) -> Poll<bool> {
        self.handle().poll_answered(cx)
    }

    /// Rest of the pause of its connection, after the endpoint refused its only stream, in nanoseconds.
    pub fn pause_left_ns(&self) -> u64 {
        self.link.pause_left_ns()
    }

    /// True if other requests of its connection run at the endpoint.
    pub fn is_running(&self) -> bool {
        self.link.running() > 0
    }

    /// True if the endpoint ended the connection without having processed any stream.
    pub fn took_none(&self) -> bool {
        self.link.took_none()
    }

    /// Fault of a stream that ended before the head of a response.
    #[cold]
    fn lost(&self) -> Fault {
        match self.handle().lost() {
            Some(Lost::Unseen) => Fault::Unseen,
            Some(Lost::Reset(code)) if code == ErrorCode::RefusedStream as u32 => {
                Fault::Declined { is_running: self.is_running() }
            }
            Some(Lost::Reset(code)) => Fault::StreamReset(code),
            Some(Lost::Broken) => self.unreadable(),
            Some(Lost::Ended) | None if self.link.spoke_other() => Fault::NotHttp2,
            Some(Lost::Ended) | None => Fault::NoResponse,
        }
    }

    /// Fault of a connection that ended because of invalid bytes from the endpoint. A head or trailers that are too
    /// large exceed only a limit.
    fn unreadable(&self) -> Fault {
        match self.handle().broken().and_then(|why| why.over) {
            Some(Over::Bytes) => Fault::Response(Reject::HeadTooLarge),
            Some(Over::Fields) => Fault::Response(Reject::TooManyFields),
            None => Fault::Broken,
        }
    }

    /// Fault of a stream that ended within a response.
    #[cold]
    fn cut_short(&self) -> Fault {
        match self.handle().lost() {
            Some(Lost::Reset(code)) => Fault::StreamReset(code),
            Some(Lost::Broken) => self.unreadable(),
            Some(Lost::Unseen | Lost::Ended) | None => Fault::CutShort,
        }
    }
}

impl Upstream for EndpointStream {
    fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Result<Head, Fault>> {
        let head = ready!(self.handle().poll_head(cx)).map_err(|Gone| self.lost())?;
        let h2::Head { status, fields, ends, .. } = head;
        Poll::Ready(Ok(Head { status, fields, ends, closes: false }))
    }

    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>> {
        self.handle().poll_part(cx).map_err(|Gone| self.cut_short())
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.handle().poll_room(cx)
    }

    fn send(&self, part: Part) {
        self.handle().send(part);
    }

    fn broken(&self) -> Option<Malformed> {
        self.handle().broken()
    }
}

impl Drop for EndpointStream {
    fn drop(&mut self) {
        let lost = self.handle.take().and_then(|handle| handle.cancel());
        self.link.end(lost);
    }
}

//! What does a request have that shares its connection to an endpoint? A [`EndpointStream`]: dropped before its end, it is cancelled, and
//! the others go on.

use super::link::Link;
use crate::body::fault::Fault;
use crate::body::part::{Gone, Part};
use crate::body::upstream::{Head, Upstream};
use crate::http2::session::Lost;
use crate::http2::stream::StreamHandle;
use evenkeel_wire::h2::{self, ErrorCode, Malformed};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

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

    /// Waits until there is a head of a response, without taking it; `false` if none comes.
    pub fn poll_answered(&self, cx: &Context<'_>) -> Poll<bool> {
        self.handle().poll_answered(cx)
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

    /// The fault of a response that does not begin.
    #[cold]
    fn lost(&self) -> Fault {
        match self.handle().lost() {
            Some(Lost::Unseen) => Fault::Unseen,
            Some(Lost::Reset(code)) if code == ErrorCode::RefusedStream as u32 => {
                Fault::Declined { is_running: self.is_running() }
            }
            Some(Lost::Reset(code)) => Fault::StreamReset(code),
            Some(Lost::Broken) => Fault::Broken,
            Some(Lost::Ended) | None if self.link.spoke_other() => Fault::NotHttp2,
            Some(Lost::Ended) | None => Fault::NoResponse,
        }
    }

    /// The fault of a response that has begun and does not continue.
    #[cold]
    fn cut_short(&self) -> Fault {
        match self.handle().lost() {
            Some(Lost::Reset(code)) => Fault::StreamReset(code),
            Some(Lost::Broken) => Fault::Broken,
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

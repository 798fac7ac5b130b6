//! An HTTP/1 endpoint that exchanges parts with a client of any protocol: frames the request's body, unframes the
//! response.

use crate::body::fault::Fault;
use crate::body::framing::{Framing, Reader, Unread, Writer};
use crate::body::part::{Gone, Part};
use crate::body::upstream::{Head, Kept, Upstream};
use crate::core::Core;
use evenkeel_config::plan::{self, Tolerance, Tolerated};
use evenkeel_net::buffer::Buf;
use evenkeel_net::transport::Transport;
use evenkeel_wire::http1::mend::{self, Mended};
use evenkeel_wire::http1::response::RequestContext;
use evenkeel_wire::http1::{Body, Limits, RESPONSE_FIELDS_MAX, Reject, Response};
use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, ready};

/// A request on an HTTP/1 connection to an endpoint, which it has to itself.
pub struct H1Endpoint<'t> {
    transport: &'t Transport,
    core: &'t Core,
    asked: RequestContext,
    leniency: Leniency,
    reader: RefCell<Reader>,
    /// Bytes of an incomplete head that were already parsed; no need to parse again before more have arrived.
    looked_at: Cell<usize>,
    has_spoken: Cell<bool>,
    writer: RefCell<Writer>,
    /// Statement of the response's head about reuse of the connection.
    kept: Cell<Kept>,
}

/// Rest of a response over HTTP/1, without its connection.
pub struct H1Rest {
    reader: Reader,
    kept: Kept,
}

impl H1Rest {
    /// Takes the next part of the body; must not be called after the end.
    ///
    /// # Errors
    /// The body does not continue, or is malformed.
    pub fn poll_part(&mut self, from: &Transport, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>> {
        self.reader.poll_part(from, cx, |_| {}).map_err(fault)
    }

    /// State of the connection after the response.
    pub fn kept(&mut self) -> Kept {
        Kept { reusable: self.reader.discard() && self.kept.reusable, secs: self.kept.secs }
    }
}

fn fault(unread: Unread) -> Fault {
    match unread {
        Unread::Closed => Fault::CutShort,
        Unread::Malformed(reject) => Fault::Response(reject),
    }
}

/// Limits on responses of an endpoint, and the deviations from HTTP/1 that are accepted of it.
#[derive(Clone, Copy)]
pub struct Leniency {
    pub tolerated: Tolerated,
    /// True if the connection has carried earlier requests.
    pub is_reused: bool,
    /// Limits on the head of a response.
    pub limits: Limits,
}

impl Leniency {
    /// Returns the faults that the plan of a pool tolerates. `is_reused`: the connection has carried earlier requests.
    pub fn of(plan: &plan::Pool, is_reused: bool) -> Leniency {
        let limits = Limits { head: plan.limits.response_headers, fields: RESPONSE_FIELDS_MAX };
        Leniency { tolerated: plan.tolerate, is_reused, limits }
    }

    /// Makes room for more of a head in `buf`, if it is full and the limit allows more.
    pub fn make_room(self, buf: &mut Buf) {
        if buf.spare().is_empty() {
            buf.grow((2 * buf.len()).min(self.limits.head));
        }
    }

    /// Replaces a refused head in `buf` by a head that can be parsed, if the pool tolerates the fault. Returns true if
    /// more of the head has to be read first.
    ///
    /// # Errors
    /// The head cannot be mended, or its fault is not tolerated.
    #[cold]
    pub fn mend(self, buf: &mut Buf, refused: Reject) -> Result<bool, Fault> {
        match mend::mend(buf.filled(), refused, &self.limits, self.tolerated) {
            Ok(Mended::More) => Ok(true),
            Ok(Mended::Head(len, head)) if buf.replace_front(len, &head) => Ok(false),
            Ok(Mended::Head(..)) => Err(Fault::Response(Reject::HeadTooLarge)),
            // Not a head but a body that the previous response should not have had.
            Err(_) if self.is_reused && !buf.filled().starts_with(b"HTTP/") => Err(Fault::Stray),
            Err(reject) => Err(Fault::Response(reject)),
        }
    }

    /// Relaxes the parser of a chunked body as far as the pool tolerates.
    #[inline]
    pub fn apply(self, body: &mut Body) {
        if let Body::Chunked(chunked) = body
            && self.tolerated.has(Tolerance::ChunkSizePadding)
        {
            chunked.tolerate_padding();
        }
    }
}

impl<'t> H1Endpoint<'t> {
    /// A request whose head is sent over `transport`. `in_chunks`: that head announces a chunked body.
    pub fn new(
        transport: &'t Transport,
        core: &'t Core,
        asked: RequestContext,
        leniency: Leniency,
        in_chunks: bool,
    ) -> H1Endpoint<'t> {
        transport.send_at_once();
        H1Endpoint {
            transport,
            core,
            asked,
            leniency,
            reader: Reader::new(Body::EMPTY, Buf::none()).into(),
            looked_at: Cell::new(0),
            has_spoken: Cell::new(false),
            writer: Writer::new(if in_chunks { Framing::Chunks } else { Framing::Stated }).into(),
            kept: Cell::default(),
        }
    }

    /// Rest of the response, once its head has arrived, without the connection.
    pub fn into_rest(self) -> H1Rest {
        H1Rest { reader: self.reader.into_inner(), kept: self.kept.get() }
    }

    /// Takes a head off the front of the bytes read; `None` if it is incomplete.
    fn take_head(&self, reader: &mut Reader) -> Result<Option<Head>, Reject> {
        let mut room = self.core.room.borrow_mut();
        let read = Response::read(reader.came.filled(), &mut room, self.asked, &self.leniency.limits)?;
        let Some(mut response) = read else { return Ok(None) };
        let (status, len, keep_alive) = (response.status, response.head_len(), response.keep_alive);
        let mut body = std::mem::replace(&mut response.body, Body::EMPTY);
        self.leniency.apply(&mut body);
        self.kept.set(Kept { reusable: keep_alive, secs: response.kept_secs });
        let ends = status >= 200 && body.is_done();
        let head = Head { status, fields: response.translated(), ends, closes: !keep_alive };
        reader.came.consume(len);
        // The parser accepts a 101 only if the request asked for a switch.
        reader.begin(if status == 101 { Body::UntilClose } else { body });
        Ok(Some(head))
    }
}

impl Upstream for H1Endpoint<'_> {
    fn connection(&self) -> Option<&Transport> {
        Some(self.transport)
    }

    fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Result<Head, Fault>> {
        let mut reader = self.reader.borrow_mut();
        let reader = &mut *reader;
        loop {
            if reader.came.len() > self.looked_at.get() {
                let is_short = match self.take_head(reader) {
                    Ok(Some(head)) => {
                        self.looked_at.set(0);
                        if head.status >= 200 {
                            // Nothing was sent yet, so a fault in the first part of the body can still be answered with
                            // an error.
                            reader.take().map_err(Fault::Response)?;
                        }
                        return Poll::Ready(Ok(head));
                    }
                    Ok(None) => true,
                    Err(reject) => self.leniency.mend(&mut reader.came, reject)?,
                };
                self.looked_at.set(if is_short { reader.came.len() } else { 0 });
                if !is_short {
                    continue;
                }
            }
            let n = if reader.came.is_empty() {
                let no_response = |_| match self.has_spoken.get() {
                    false => Fault::no_response(self.transport),
                    true => Fault::CutShort,
                };
                let (n, buf) = ready!(self.transport.poll_read_into(cx, Buf::take)).map_err(no_response)?;
                reader.came = buf;
                n
            } else {
                self.leniency.make_room(&mut reader.came);
                ready!(self.transport.poll_read(cx, &mut reader.came)).unwrap_or_default()
            };
            match (n, self.has_spoken.replace(true)) {
                (0, false) => return Poll::Ready(Err(Fault::NoResponse)),
                (0, true) => return Poll::Ready(Err(Fault::CutShort)),
                _ => {}
            }
        }
    }

    fn poll_part(&self, cx: &mut Context<'_>) -> Poll<Result<Part, Fault>> {
        self.reader.borrow_mut().poll_part(self.transport, cx, |_| {}).map_err(fault)
    }

    fn is_done(&self) -> bool {
        self.reader.borrow().is_done()
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.writer.borrow_mut().poll_room(self.transport, cx).map_err(|_| Gone)
    }

    fn send(&self, part: Part) {
        // Trailers are not negotiated: an endpoint ignores those that it has no use for.
        self.writer.borrow_mut().send(part, true);
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.writer.borrow_mut().poll_flush(self.transport, cx).map_err(|_| Gone)
    }

    fn begin_tunnel(&self) {
        self.writer.borrow_mut().begin(Framing::Tunnel, self.transport);
    }

    fn kept(&self) -> Kept {
        let Kept { reusable, secs } = self.kept.get();
        Kept { reusable: self.reader.borrow_mut().discard() && reusable, secs }
    }
}

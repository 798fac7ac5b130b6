//! A request to be sent: its head, which is written anew for each attempt, the bytes that are still to be sent, the
//! parts that are kept for another attempt, and the rest of its body, which has not arrived yet.

use crate::body::chain::BodyChain;
use crate::body::downstream::ClientParts;
use crate::body::message::Message;
use crate::body::part::Part;
use crate::core::Core;
use crate::record::Record;
use crate::upstream::pool::Endpoint;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::endpoint_head::{Connection, EndpointHead, HeadParts, KeptHead};
use evenkeel_wire::head::{Edits, Request};
use evenkeel_wire::http1::Body;
use evenkeel_wire::path::{Unsendable, prefixed};
use std::time::Duration;

/// Bytes of a request that are kept for another attempt.
pub const REPLAY_MAX: usize = 8 * 1024;

/// A request, and the bytes that the client sent behind it.
pub struct Outgoing<'w> {
    core: &'w Core,
    /// Part of the body that did not arrive with the head.
    pub rest: BodyRest,
    head: Head<'w>,
    /// Changes to the client's fields, the same for each endpoint.
    pub outfit: Outfit<'w>,
    /// Parts for the current attempt only.
    of_try: OfTry,
    /// The request in HTTP/1 for the current attempt, unless it was written into `buf` in front of its body.
    bytes: Vec<u8>,
    /// The head for the endpoint, the framed body as far as it arrived with the client's head, and the bytes behind the
    /// request.
    buf: Buf,
    /// Bytes of the head at the front of `buf`.
    head_len: usize,
    /// Bytes of the body behind the head.
    body_len: usize,
    /// The body, once it was copied out of `buf` for another attempt, or if it was framed anew.
    body: Vec<u8>,
    /// Bytes that were sent on the current connection.
    sent: usize,
    /// The body, if it is sent in parts, and as long as all that was read of it is kept.
    message: Option<Box<Message>>,
}

/// Rest of the body of a request, which the client still sends or body filters hold.
pub struct BodyRest {
    /// Bytes that are still to be read from the client.
    pub body: Body,
    /// Filters for the body, if any apply. They may hold some of it.
    pub chain: Option<Box<BodyChain>>,
}

impl Default for BodyRest {
    fn default() -> BodyRest {
        BodyRest { body: Body::EMPTY, chain: None }
    }
}

impl BodyRest {
    /// True if the whole body was read and has passed its filters.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.body.is_done() && self.chain.as_ref().is_none_or(|chain| chain.is_done())
    }

    /// True if the length of the body is unknown to the endpoint, so that HTTP/1 sends it in chunks.
    pub fn is_length_open(&self) -> bool {
        !matches!(self.body, Body::Length(_)) || self.chain.as_ref().is_some_and(|chain| !chain.keeps_length())
    }
}

/// Head as the client sent it.
pub enum Head<'w> {
    /// Copied into its own buffer.
    Kept(KeptHead),
    /// Borrowed from the memory into which the protocol decoded it.
    Came(HeadParts<'w>),
    /// No head: not set yet, or released.
    Gone,
}

/// Changes to the client's fields, the same for each endpoint.
#[derive(Default)]
pub struct Outfit<'w> {
    /// Fields that are added or replaced.
    pub edits: Edits,
    /// `Connection` field for the endpoint.
    pub connection: Connection<'w>,
    /// True if the endpoint gets the request in parts, as over HTTP/2.
    pub in_parts: bool,
    /// The scheme of the endpoint's connection.
    pub scheme: &'static str,
    /// Length of a body sent in parts, in decimal digits; empty if unknown.
    pub length: String,
    /// True if the client takes trailers.
    pub wants_trailers: bool,
}

/// Parts of a head for a single attempt.
#[derive(Debug, Default)]
struct OfTry {
    /// Field lines, each ending in CRLF.
    lines: Vec<u8>,
    /// Host; empty if the attempt gets the host of all attempts.
    host: Vec<u8>,
    /// Target behind the endpoint's own prefix; empty if the attempt gets the target of all attempts.
    target: Vec<u8>,
}

impl<'w> Outgoing<'w> {
    /// Creates an empty request. It is filled in place, as it is large.
    #[inline]
    pub fn new(core: &'w Core) -> Outgoing<'w> {
        Outgoing {
            core,
            rest: BodyRest::default(),
            head: Head::Gone,
            outfit: Outfit { edits: Edits::new(core.scratch()), ..Outfit::default() },
            of_try: OfTry::default(),
            bytes: Vec::new(),
            buf: Buf::none(),
            head_len: 0,
            body_len: 0,
            body: Vec::new(),
            sent: 0,
            message: None,
        }
    }

    /// Sets the head of the client's request.
    pub fn set_head(&mut self, head: Head<'w>) {
        self.head = head;
    }

    /// The kept head as it was read, and the changes to it; `None` if none is kept.
    pub fn kept(&mut self) -> Option<(Request<'_, '_>, &mut Outfit<'w>)> {
        if let Head::Kept(head) = &mut self.head { Some((head.request(), &mut self.outfit)) } else { None }
    }

    /// Replaces the path and query of a kept head.
    pub fn set_target(&mut self, target: Box<str>) {
        if let Head::Kept(head) = &mut self.head {
            head.set_target(target);
        }
    }

    /// Sets the body, to be sent as bytes: its beginning is the first `len` bytes of `buf`.
    pub fn set_bytes(&mut self, buf: Buf, len: usize) {
        (self.buf, self.body_len) = (buf, len);
    }

    /// Sets the body, framed anew, to be sent as bytes. `behind` holds the bytes behind the request.
    pub fn set_framed(&mut self, framed: Vec<u8>, behind: Buf) {
        (self.body, self.buf) = (framed, behind);
    }

    /// Sets the body, to be sent in parts. `behind` holds the bytes behind the request.
    pub fn set_message(&mut self, message: Box<Message>, behind: Buf) {
        (self.message, self.buf) = (Some(message), behind);
    }

    /// Begins an attempt, with separate field lines and with the host and the path prefix of its endpoint.
    ///
    /// # Errors
    /// The path cannot follow the prefix.
    #[inline]
    pub fn begin_try(
        &mut self,
        record: &Record<'_>,
        endpoint: &Endpoint,
        call_left: Option<Duration>,
    ) -> Result<(), Unsendable> {
        let OfTry { lines, host, target } = &mut self.of_try;
        lines.clear();
        host.clear();
        target.clear();
        record.write_try(endpoint, call_left, lines, host);
        match &endpoint.own.path_prefix {
            Some(prefix) => self.put_before(prefix),
            None => Ok(()),
        }
    }

    /// Puts a prefix before the target of the current attempt.
    #[cold]
    fn put_before(&mut self, prefix: &str) -> Result<(), Unsendable> {
        let target = match &self.head {
            Head::Kept(head) => head.parts().target(&self.outfit.edits),
            Head::Came(head) => head.target(&self.outfit.edits),
            Head::Gone => return Ok(()),
        };
        prefixed(prefix, target, &mut self.of_try.target)
    }

    /// The head for the current attempt; `None` once it was released.
    #[inline(always)]
    pub fn endpoint_head(&self) -> Option<EndpointHead<'_>> {
        let head = match &self.head {
            Head::Kept(head) => head.parts(),
            Head::Came(head) => *head,
            Head::Gone => return None,
        };
        let Outfit { edits, connection, scheme, length, wants_trailers, .. } = &self.outfit;
        Some(EndpointHead {
            head: head.edited(edits, [&self.of_try.host, &self.of_try.target]),
            added: [&self.of_try.lines, edits.added()],
            connection: *connection,
            scheme,
            length,
            wants_trailers: *wants_trailers,
        })
    }

    /// Writes the request, as far as it is here, for the current attempt, to be sent from the start on a fresh
    /// connection.
    pub fn write(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() == 0 {
            bytes = self.core.scratch();
        }
        bytes.clear();
        self.buf.consume(self.head_len);
        (self.head_len, self.sent) = (0, 0);
        if let Some(head) = self.endpoint_head() {
            head.write(&mut bytes);
        }
        if self.body_len > 0 && self.buf.replace_front(0, &bytes) {
            // The head fits in front of the body, so both are sent as a single piece.
            self.head_len = bytes.len();
            self.core.give_back(bytes);
            return;
        }
        bytes.extend_from_slice(&self.buf.filled()[..self.body_len]);
        bytes.extend_from_slice(&self.body);
        self.bytes = bytes;
    }

    /// The body, if it is sent in parts and is kept.
    pub fn message(&self) -> Option<&Message> {
        self.message.as_deref()
    }

    /// Keeps a part of the body that was read from the client for another attempt. If the body then exceeds `most`
    /// bytes, releases the request instead, and returns false.
    pub fn keep(&mut self, part: &Part, most: usize) -> bool {
        let is_kept = self.message.as_mut().is_some_and(|message| message.keep(part, most));
        if !is_kept {
            self.message = None;
            self.forget();
        }
        is_kept
    }

    /// The request as written; empty once it was released.
    pub fn request(&self) -> &[u8] {
        if self.head_len > 0 { &self.buf.filled()[..self.head_len + self.body_len] } else { &self.bytes }
    }

    /// Written bytes of the request that are still to be sent.
    pub fn unsent(&self) -> &[u8] {
        &self.request()[self.sent..]
    }

    /// Notes that `n` more bytes were sent.
    pub fn advance(&mut self, n: usize) {
        self.sent += n;
    }

    /// True if nothing was sent on the current connection; always true of a body in parts that is kept.
    pub fn is_whole(&self) -> bool {
        self.message.is_some() || (self.sent == 0 && !self.request().is_empty())
    }

    /// True if the request has at most [`REPLAY_MAX`] bytes, so that a copy may be kept.
    pub fn is_small(&self) -> bool {
        let content = self.message().map_or(0, Message::content_len);
        self.request().len().max(content) <= REPLAY_MAX
    }

    /// Releases the memory of the bytes sent. With `again`, keeps the head and a copy of the body for another attempt.
    /// So most connections hold no buffer while they wait for the endpoint, and the few in use stay in the cache.
    pub fn let_go(&mut self, again: bool) {
        if again && self.body_len > 0 {
            self.body = self.core.scratch();
            self.body.extend_from_slice(&self.buf.filled()[self.head_len..][..self.body_len]);
        }
        self.consume();
        if !again {
            self.forget();
        }
        self.core.take_back(&mut self.bytes);
        if self.buf.is_empty() {
            self.buf = Buf::none();
        }
    }

    /// True if the request is still kept, so that it can be sent again.
    pub fn again(&self) -> bool {
        self.message.is_some() || !matches!(self.head, Head::Gone)
    }

    /// Puts back bytes that the client sent behind the request.
    pub fn put_behind(&mut self, buf: Buf) {
        if self.head_len + self.body_len == 0 {
            self.buf = buf;
        } else if !self.buf.extend(buf.filled()) {
            // More than arrived with the request, so that was sent already.
            self.consume();
            self.forget();
            self.buf = buf;
        }
    }

    /// Takes the rest of the request from the client's side, whose response has ended. Returns true if its connection can
    /// carry another request; `None` if it has none to itself.
    pub fn take_rest(&mut self, side: impl ClientParts) -> Option<bool> {
        let rest = side.into_rest()?;
        self.rest.body = rest.body;
        self.put_behind(rest.behind);
        Some(rest.keep_alive)
    }

    /// Takes the bytes behind the request, to be put back later.
    pub fn take_behind(&mut self) -> Buf {
        match self.head_len + self.body_len {
            0 => self.buf.take_out(),
            len if len < self.buf.len() => self.buf.split_behind(len),
            _ => Buf::none(),
        }
    }

    /// Releases the request. Returns the bytes that the client sent behind it, if any.
    pub fn finish(&mut self) -> Option<Buf> {
        self.consume();
        self.forget();
        let buf = self.buf.take_out();
        (!buf.is_empty()).then_some(buf)
    }

    /// Removes the request from the buffer.
    fn consume(&mut self) {
        self.buf.consume(self.head_len + self.body_len);
        (self.head_len, self.body_len, self.sent) = (0, 0, 0);
    }

    fn forget(&mut self) {
        if let Head::Kept(head) = std::mem::replace(&mut self.head, Head::Gone) {
            let (bytes, rows) = head.into_memory();
            self.core.give_back(bytes);
            self.core.give_back_rows(rows);
        }
        let OfTry { lines, host, target } = &mut self.of_try;
        for memory in [self.outfit.edits.lines(), lines, host, target, &mut self.bytes, &mut self.body] {
            self.core.take_back(memory);
        }
    }
}

impl Drop for Outgoing<'_> {
    fn drop(&mut self) {
        if !matches!(self.head, Head::Gone) {
            self.forget();
        }
    }
}

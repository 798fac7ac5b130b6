//! A request on its way: its head, which is written for each try, the bytes of it that are still to be sent, and whether it could be
//! sent once more.

use crate::body::message::Message;
use crate::body::part::Part;
use crate::core::Core;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::endpoint_head::{Connection, EndpointHead, HeadParts, KeptHead};
use evenkeel_wire::head::{Edits, Request};

/// Bytes of a request that are kept so that it can be sent again on another connection.
pub const REPLAY_MAX: usize = 8 * 1024;

/// A request, and whatever the client sent behind it.
pub struct Outgoing<'w> {
    core: &'w Core,
    head: Head<'w>,
    /// Changes to the client's fields, the same for each endpoint.
    pub outfit: Outfit<'w>,
    /// Lines for the endpoint of the try at hand alone, each with its end.
    of_try: Vec<u8>,
    /// The request as it goes to that endpoint in HTTP/1, unless it is in `buf`, where its body is.
    bytes: Vec<u8>,
    /// The head for that endpoint, the framed body as far as it came with the client's head, and what came behind the request.
    buf: Buf,
    /// Bytes of the head at the front of `buf`.
    head_len: usize,
    /// Bytes of the body behind them.
    body_len: usize,
    /// The body, once it was taken out of `buf` to be sent once more.
    body: Vec<u8>,
    /// Bytes that were sent on the current connection.
    sent: usize,
    /// The body, if it goes in parts; as long as all is here that was taken of it from the client.
    message: Option<Box<Message>>,
}

/// Head as the client sent it.
pub enum Head<'w> {
    /// Copied into a buffer of its own.
    Kept(KeptHead),
    /// In those that a protocol has decoded.
    Came(HeadParts<'w>),
    /// No head: not here yet, or let go of.
    Gone,
}

/// Changes to the client's fields, the same for each endpoint.
#[derive(Default)]
pub struct Outfit<'w> {
    /// Fields that are added or replaced.
    pub edits: Edits,
    /// `Connection` field for the endpoint.
    pub connection: Connection<'w>,
    /// True if the endpoint takes messages in parts, as HTTP/2 does.
    pub in_parts: bool,
    /// The scheme of the endpoint's connection.
    pub scheme: &'static str,
    /// The length of the body in digits, where it goes in parts; empty if it was not stated.
    pub length: String,
    /// True if the client takes trailers.
    pub wants_trailers: bool,
}

impl<'w> Outgoing<'w> {
    /// A request of which nothing is here yet. It is filled where it is, as it is large.
    #[inline]
    pub fn new(core: &'w Core) -> Outgoing<'w> {
        Outgoing {
            core,
            head: Head::Gone,
            outfit: Outfit { edits: Edits::new(core.scratch()), ..Outfit::default() },
            of_try: Vec::new(),
            bytes: Vec::new(),
            buf: Buf::none(),
            head_len: 0,
            body_len: 0,
            body: Vec::new(),
            sent: 0,
            message: None,
        }
    }

    /// Takes the head of the client.
    pub fn set_head(&mut self, head: Head<'w>) {
        self.head = head;
    }

    /// The kept head as it was read, and what is said besides; `None` if none is kept.
    pub fn kept(&mut self) -> Option<(Request<'_, '_>, &mut Outfit<'w>)> {
        if let Head::Kept(head) = &mut self.head { Some((head.request(), &mut self.outfit)) } else { None }
    }

    /// Takes the body, for an endpoint that takes bytes: it begins with the first `len` bytes of `buf`.
    pub fn set_bytes(&mut self, buf: Buf, len: usize) {
        (self.buf, self.body_len) = (buf, len);
    }

    /// Takes the body, framed anew, for an endpoint that takes bytes; `behind` is what came behind it.
    pub fn set_framed(&mut self, framed: Vec<u8>, behind: Buf) {
        (self.body, self.buf) = (framed, behind);
    }

    /// Takes the body, for an endpoint that takes parts; `behind` is what came behind it.
    pub fn set_message(&mut self, message: Box<Message>, behind: Buf) {
        (self.message, self.buf) = (Some(message), behind);
    }

    /// Begins a try, whose endpoint alone gets the lines that `write` appends.
    pub fn begin_try(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.of_try.clear();
        write(&mut self.of_try);
    }

    /// The head for the endpoint of the try at hand; `None` once it was let go of.
    #[inline(always)]
    pub fn endpoint_head(&self) -> Option<EndpointHead<'_>> {
        let head = match &self.head {
            Head::Kept(head) => head.parts(),
            Head::Came(head) => *head,
            Head::Gone => return None,
        };
        let Outfit { edits, connection, scheme, length, wants_trailers, .. } = &self.outfit;
        Some(EndpointHead {
            head: head.edited(edits),
            added: [&self.of_try, edits.added()],
            connection: *connection,
            scheme,
            length,
            wants_trailers: *wants_trailers,
        })
    }

    /// Writes all of the request that is here for the endpoint of the try at hand, of whose connection nothing was used.
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
            // In one piece with what came of its body.
            self.head_len = bytes.len();
            self.core.give_back(bytes);
            return;
        }
        bytes.extend_from_slice(&self.buf.filled()[..self.body_len]);
        bytes.extend_from_slice(&self.body);
        self.bytes = bytes;
    }

    /// The body, if it goes in parts, and is here.
    pub fn message(&self) -> Option<&Message> {
        self.message.as_deref()
    }

    /// A part of the body was taken from the client. It is kept with the message, which may have so many bytes of it then; else
    /// the request cannot be sent once more. Whether it was.
    pub fn keep(&mut self, part: &Part, most: usize) -> bool {
        let is_kept = self.message.as_mut().is_some_and(|message| message.keep(part, most));
        if !is_kept {
            self.message = None;
            self.forget();
        }
        is_kept
    }

    /// The request as it was written; of one that was let go of, nothing.
    pub fn request(&self) -> &[u8] {
        if self.head_len > 0 { &self.buf.filled()[..self.head_len + self.body_len] } else { &self.bytes }
    }

    /// Bytes of the request that are still to be sent.
    pub fn unsent(&self) -> &[u8] {
        &self.request()[self.sent..]
    }

    /// `n` more bytes were sent.
    pub fn advance(&mut self, n: usize) {
        self.sent += n;
    }

    /// True if nothing of it was sent on the current connection.
    pub fn is_whole(&self) -> bool {
        self.message.is_some() || (self.sent == 0 && !self.request().is_empty())
    }

    /// True if it is small enough to keep a copy.
    pub fn is_small(&self) -> bool {
        let content = self.message().map_or(0, Message::content_len);
        self.request().len().max(content) <= REPLAY_MAX
    }

    /// Lets go of the bytes sent, but for small ones if `again`: while the endpoint thinks, most connections hold no
    /// buffer, and the few in use stay in the cache.
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

    /// True if the whole request is still here, so that it can be sent once more.
    pub fn again(&self) -> bool {
        self.message.is_some() || !matches!(self.head, Head::Gone)
    }

    /// Puts bytes behind the request that the client sent behind it.
    pub fn put_behind(&mut self, buf: Buf) {
        if self.head_len + self.body_len == 0 {
            self.buf = buf;
        } else if !self.buf.extend(buf.filled()) {
            // More than came with the request: it was sent.
            self.consume();
            self.forget();
            self.buf = buf;
        }
    }

    /// Takes the bytes that came behind the request, to be put back.
    pub fn take_behind(&mut self) -> Buf {
        match self.head_len + self.body_len {
            0 => self.buf.take_out(),
            len if len < self.buf.len() => self.buf.split_behind(len),
            _ => Buf::none(),
        }
    }

    /// Takes what the client sent behind the request, which is given up if not all of it was sent.
    pub fn take_rest(&mut self) -> Option<Buf> {
        self.consume();
        self.forget();
        let buf = self.buf.take_out();
        (!buf.is_empty()).then_some(buf)
    }

    /// Takes the request out of the buffer.
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
        for memory in [self.outfit.edits.lines(), &mut self.of_try, &mut self.bytes, &mut self.body] {
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

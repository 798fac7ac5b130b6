//! Which bytes of a request are on their way, and could they be sent once more?

use crate::body::message::Message;
use crate::body::part::Part;
use crate::core::Core;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::grpc;
use evenkeel_wire::head::overwrite;
use evenkeel_wire::trace_context::digits;
use std::time::Duration;

/// Bytes of a request that are kept so that it can be sent again on another connection.
pub const REPLAY_MAX: usize = 8 * 1024;

/// A request, and whatever the client sent behind it.
pub struct Outgoing<'w> {
    core: &'w Core,
    /// The request, if it has these bytes to itself: nothing of a body came with its head, or it was copied to be kept.
    alone: Vec<u8>,
    buf: Buf,
    /// Otherwise its bytes at the front of `buf`.
    len: usize,
    /// How many of them were sent on the current connection.
    sent: usize,
    /// The request, if it goes as messages; as long as all is here that was taken of it from the client.
    message: Option<Box<Message>>,
}

impl<'w> Outgoing<'w> {
    /// The request is the first `len` bytes of `buf`, or, if that is 0, `alone`.
    pub fn new(core: &'w Core, alone: Vec<u8>, buf: Buf, len: usize) -> Outgoing<'w> {
        Outgoing { core, alone, buf, len, sent: 0, message: None }
    }

    /// The request is a message; `behind` is what came behind that.
    pub fn of_message(core: &'w Core, message: Box<Message>, behind: Buf) -> Outgoing<'w> {
        Outgoing { core, alone: Vec::new(), buf: behind, len: 0, sent: 0, message: Some(message) }
    }

    /// The request, if it is a message, and is here.
    pub fn message(&self) -> Option<&Message> {
        self.message.as_deref()
    }

    /// A part of the body was taken from the client. It is kept with the message, which may have so many bytes of it then; else
    /// the request cannot be sent once more. Whether it was.
    pub fn keep(&mut self, part: &Part, most: usize) -> bool {
        let is_kept = self.message.as_mut().is_some_and(|message| message.keep(part, most));
        if !is_kept {
            self.message = None;
        }
        is_kept
    }

    /// Tells the endpoint how long the client of a call still waits.
    pub fn set_call_timeout(&mut self, left: Duration) {
        let text = grpc::timeout_text(left);
        if let Some(message) = &mut self.message {
            message.head.fields().leave_out(grpc::TIMEOUT);
            return message.head.push(grpc::TIMEOUT.as_bytes(), text.as_bytes());
        }
        // In bytes it is a line of its own: no value has an end of line in it.
        let line = format!("\r\n{}: ", grpc::TIMEOUT);
        if self.sent == 0
            && let Some(at) = memchr::memmem::find(&self.alone, line.as_bytes()).map(|at| at + line.len())
            && let Some(len) = memchr::memchr(b'\r', &self.alone[at..])
        {
            self.alone.splice(at..at + len, text.bytes());
        }
    }

    /// Tells the endpoint of another span of its trace. What names one is random, and found nowhere else.
    pub fn set_span(&mut self, before: u64, now: u64) {
        let (before, now) = (digits(before), digits(now));
        if let Some(message) = &mut self.message {
            return message.head.overwrite(&before, &now);
        }
        overwrite(&mut self.alone, &before, &now);
        overwrite(&mut self.buf.filled_mut()[..self.len], &before, &now);
    }

    /// The request; of one that was let go of and not kept, nothing.
    pub fn request(&self) -> &[u8] {
        if self.len > 0 { &self.buf.filled()[..self.len] } else { &self.alone }
    }

    /// What is still to be sent.
    pub fn unsent(&self) -> &[u8] {
        &self.request()[self.sent..]
    }

    /// `n` more bytes were sent.
    pub fn advance(&mut self, n: usize) {
        self.sent += n;
    }

    /// Whether nothing of it has left on the current connection.
    pub fn is_whole(&self) -> bool {
        self.message.is_some() || (self.sent == 0 && !self.request().is_empty())
    }

    /// Whether a copy of it may be kept.
    pub fn is_small(&self) -> bool {
        let content = self.message().map_or(0, Message::content_len);
        self.request().len().max(content) <= REPLAY_MAX
    }

    /// Lets go of the bytes sent, but for small ones if `again`: while the endpoint thinks, most connections hold no
    /// buffer, and the few in use stay in the cache.
    pub fn let_go(&mut self, again: bool) {
        if !again {
            self.forget();
        } else if self.len > 0 {
            self.alone = self.core.scratch();
            self.alone.extend_from_slice(&self.buf.filled()[..self.len]);
        }
        self.sent = self.alone.len();
        self.buf.consume(self.len);
        self.len = 0;
        if self.buf.is_empty() {
            self.buf = Buf::none();
        }
    }

    /// Takes the request up again from its start; whether that worked.
    pub fn again(&mut self) -> bool {
        self.sent = 0;
        self.message.is_some() || !self.request().is_empty()
    }

    /// Puts bytes behind the request that the client sent behind it.
    pub fn put_behind(&mut self, buf: Buf) {
        if self.len == 0 {
            self.buf = buf;
        } else if !self.buf.extend(buf.filled()) {
            // More than came with the request: it was sent.
            self.forget();
            (self.len, self.sent, self.buf) = (0, 0, buf);
        }
    }

    /// Takes the bytes that came behind the request, to be put back.
    pub fn take_behind(&mut self) -> Buf {
        match self.len {
            0 => self.buf.take_out(),
            len if len < self.buf.len() => self.buf.split_behind(len),
            _ => Buf::none(),
        }
    }

    /// What the client sent behind the request.
    pub fn into_rest(mut self) -> Option<Buf> {
        self.take_rest()
    }

    /// Takes what the client sent behind the request, which is given up if not all of it was sent.
    pub fn take_rest(&mut self) -> Option<Buf> {
        self.forget();
        self.buf.consume(self.len);
        (self.len, self.sent) = (0, 0);
        let buf = self.buf.take_out();
        (!buf.is_empty()).then_some(buf)
    }

    fn forget(&mut self) {
        self.core.give_back(std::mem::take(&mut self.alone));
    }
}

impl Drop for Outgoing<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}

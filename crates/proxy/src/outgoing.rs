//! Which bytes of a request are on their way, and could they be sent once more?

use crate::buffer::Buf;
use crate::worker::Worker;

/// Bytes of a request that are kept so that it can be sent again on another connection.
const REPLAY_MAX: usize = 8 * 1024;

/// The head of a request and what of its body came with it, then whatever the client sent behind it.
pub struct Outgoing<'w> {
    worker: &'w Worker,
    buf: Buf,
    /// Bytes of the request at the front of `buf`.
    len: usize,
    /// How many of them were sent on the current connection.
    sent: usize,
    /// The request itself, once sent, if it may have to be sent again.
    kept: Vec<u8>,
}

impl<'w> Outgoing<'w> {
    /// The first `len` bytes of `buf` are the request.
    pub fn new(worker: &'w Worker, buf: Buf, len: usize) -> Outgoing<'w> {
        Outgoing { worker, buf, len, sent: 0, kept: Vec::new() }
    }

    /// What is still to be sent.
    #[inline]
    pub fn unsent(&self) -> &[u8] {
        &self.buf.filled()[self.sent..self.len]
    }

    /// `n` more bytes were sent.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        self.sent += n;
    }

    /// Whether nothing of it has left on the current connection.
    pub fn is_whole(&self) -> bool {
        self.len > 0 && self.sent == 0
    }

    /// The request itself, if it was kept when its bytes were let go of.
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Whether a copy of it may be kept.
    pub fn is_small(&self) -> bool {
        self.len <= REPLAY_MAX
    }

    /// Lets go of the bytes sent, but for a small copy if `again`: while the endpoint thinks, most connections hold no
    /// buffer, and the few in use stay in the cache.
    #[inline]
    pub fn let_go(&mut self, again: bool) {
        if again && self.len > 0 {
            self.kept = self.worker.scratch();
            self.kept.extend_from_slice(&self.buf.filled()[..self.len]);
        }
        self.buf.consume(self.len);
        (self.len, self.sent) = (0, 0);
        if self.buf.is_empty() {
            self.buf = Buf::none();
        }
    }

    /// Takes the request up again from its start; whether that worked.
    pub fn again(&mut self) -> bool {
        if self.len > 0 {
            self.sent = 0;
            return true;
        }
        // Back to where it was: before what the client sent behind it, which may fill the rest of the buffer.
        let fits = if self.buf.is_empty() {
            self.buf = Buf::take();
            self.buf.extend(&self.kept)
        } else {
            self.buf.replace_front(0, &self.kept)
        };
        let fits = fits && !self.kept.is_empty();
        if fits {
            self.len = self.kept.len();
            self.worker.give_back(std::mem::take(&mut self.kept));
        }
        fits
    }

    /// Puts bytes behind the request that the client sent behind it.
    pub fn put_behind(&mut self, buf: Buf) {
        self.buf = buf;
    }

    /// What the client sent behind the request.
    pub fn into_rest(mut self) -> Option<Buf> {
        self.take_rest()
    }

    /// Takes what the client sent behind the request, which is given up if not all of it was sent.
    pub fn take_rest(&mut self) -> Option<Buf> {
        self.buf.consume(self.len);
        (self.len, self.sent) = (0, 0);
        let buf = self.buf.take_out();
        (!buf.is_empty()).then_some(buf)
    }
}

impl Drop for Outgoing<'_> {
    fn drop(&mut self) {
        if self.kept.capacity() > 0 {
            self.worker.give_back(std::mem::take(&mut self.kept));
        }
    }
}

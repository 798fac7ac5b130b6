//! Byte buffers of 32 KiB that a worker passes from connection to connection, so that a few of them stay in
//! the CPU cache. A connection holds a buffer only while it has bytes to move.
//!
//! Measured: 32 KiB instead of 64 KiB cut the cost of relaying 1 MB from 469 to 273 us.

use crate::event_loop::budget::charge;
use evenkeel_wire::http1::chunked::{Keep, Taken};
use evenkeel_wire::http1::{Body, Reject};
use std::cell::RefCell;
use std::ops::Range;

/// Most bytes of a read, and size of the largest head.
pub const CAPACITY: usize = 32 * 1024;

/// Room before the bytes read, so that a head can grow (`X-Forwarded-*`) without moving the body after it.
const HEADROOM: usize = 2 * 1024;

/// Decoder steps of a body that cost a unit of a turn's budget.
const STEPS: usize = 256;

/// Most buffers that an idle worker keeps.
const KEPT_MAX: usize = 64;

/// Size of a standard buffer. Only those return to their worker.
const USUAL: usize = HEADROOM + CAPACITY;

thread_local! {
    static FREE: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer with bytes in `start..end`. Returns to its worker when dropped.
#[derive(Debug)]
pub struct Buf {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buf {
    /// Takes an empty buffer, preferably the buffer returned last.
    #[inline]
    pub fn take() -> Buf {
        let bytes = FREE.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; USUAL].into());
        Buf { bytes, start: HEADROOM, end: HEADROOM }
    }

    /// Takes an empty buffer without headroom, for bytes that nothing is prepended to.
    #[inline]
    pub fn take_whole() -> Buf {
        let mut buf = Buf::take();
        (buf.start, buf.end) = (0, 0);
        buf
    }

    /// A buffer with a copy of these bytes, and as much headroom as they leave. Larger than usual if they do
    /// not fit otherwise.
    pub fn holding(bytes: &[u8]) -> Buf {
        let mut buf = if bytes.len() <= CAPACITY { Buf::take() } else { Buf::take_whole() };
        if !buf.extend(bytes) {
            buf = Buf { start: 0, end: bytes.len(), bytes: bytes.into() };
        }
        buf
    }

    /// Shrinks the memory to the bytes in it, for bytes that have to wait for more.
    pub fn shrink(&mut self) {
        if self.bytes.len() == USUAL {
            let kept: Box<[u8]> = self.filled().into();
            *self = Buf { start: 0, end: kept.len(), bytes: kept };
        }
    }

    /// Makes room for `capacity` bytes in all, in memory of another size than usual.
    pub fn grow(&mut self, capacity: usize) {
        if capacity > self.len() + self.spare().len() {
            let mut bytes = Vec::with_capacity(capacity);
            bytes.extend_from_slice(self.filled());
            let end = bytes.len();
            bytes.resize(capacity, 0);
            *self = Buf { bytes: bytes.into(), start: 0, end };
        }
    }

    /// Limits the room of an empty buffer to `n` bytes.
    #[cfg(feature = "tokio-io")]
    pub(crate) fn limit(&mut self, n: usize) {
        self.start = self.bytes.len() - n.min(self.bytes.len() - self.start);
        self.end = self.start;
    }

    /// Makes the room of an empty buffer `n` bytes larger, at the cost of headroom.
    #[inline]
    pub fn widen(&mut self, n: usize) {
        if self.is_empty() {
            self.start = self.start.saturating_sub(n);
            self.end = self.start;
        }
    }

    /// A buffer without memory, neither bytes nor room.
    #[inline]
    pub fn none() -> Buf {
        Buf { bytes: Box::default(), start: 0, end: 0 }
    }

    /// Takes the buffer, leaving a buffer without memory.
    #[inline]
    pub fn take_out(&mut self) -> Buf {
        std::mem::take(self)
    }

    /// The bytes in the buffer.
    #[inline]
    pub fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The bytes in the buffer, to be changed in place.
    #[inline]
    pub fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Number of bytes in the buffer.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// True if the buffer holds no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Decodes the body that starts at byte `at`. Of the body, only the parts to keep remain, followed by the
    /// bytes after it.
    ///
    /// # Errors
    /// If a chunk or trailer is malformed.
    #[inline]
    pub fn take_body(&mut self, at: usize, body: &mut Body, keep: Keep) -> Result<Taken, Reject> {
        let taken = body.advance(&mut self.filled_mut()[at..], keep)?;
        if taken.steps >= STEPS {
            // A body in chunks of a byte takes a hundred times as long as a body in large chunks.
            charge((taken.steps / STEPS) as u32);
        }
        self.remove(at + taken.kept, taken.used - taken.kept);
        Ok(taken)
    }

    /// Moves all bytes after the first `at` into a separate buffer.
    pub fn split_behind(&mut self, at: usize) -> Buf {
        let behind = Buf::holding(&self.filled()[at.min(self.len())..]);
        self.truncate(at);
        behind
    }

    /// Room after the bytes.
    #[inline]
    pub fn spare(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// Adds `n` bytes that were written to [`spare`](Self::spare).
    #[inline]
    pub fn fill(&mut self, n: usize) {
        self.end = (self.end + n).min(self.bytes.len());
    }

    /// Drops the first `n` bytes.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
    }

    /// Drops all but the first `n` bytes.
    #[inline]
    pub fn truncate(&mut self, n: usize) {
        self.end = self.end.min(self.start + n);
    }

    /// Removes `n` bytes at `at` by moving the bytes after them.
    #[inline]
    pub fn remove(&mut self, at: usize, n: usize) {
        if n > 0 {
            self.filled_mut().copy_within(at + n.., at);
            self.end -= n;
        }
    }

    /// Removes a range by moving the bytes before it, for use where those are fewer.
    #[inline]
    pub fn cut(&mut self, stretch: Range<usize>) {
        if !stretch.is_empty() {
            let moved = self.start + stretch.len();
            self.bytes.copy_within(self.start..self.start + stretch.start, moved);
            self.start = moved;
        }
    }

    /// Appends all bytes; if they do not fit, returns `false` and changes nothing.
    #[must_use]
    pub fn extend(&mut self, bytes: &[u8]) -> bool {
        let Some(room) = self.spare().get_mut(..bytes.len()) else { return false };
        room.copy_from_slice(bytes);
        self.end += bytes.len();
        true
    }

    /// Appends as many bytes as fit, and returns their number.
    #[must_use]
    pub fn extend_some(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.spare().len());
        self.spare()[..n].copy_from_slice(&bytes[..n]);
        self.fill(n);
        n
    }

    /// Replaces the first `old` bytes by `new` without moving those after them; if there is no room, returns
    /// `false` and changes nothing.
    #[inline]
    pub fn replace_front(&mut self, old: usize, new: &[u8]) -> bool {
        let split = self.start + old;
        let Some(start) = split.checked_sub(new.len()) else { return false };
        self.bytes[start..split].copy_from_slice(new);
        self.start = start;
        true
    }
}

impl Default for Buf {
    fn default() -> Buf {
        Buf::none()
    }
}

impl Drop for Buf {
    #[inline]
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.len() != USUAL {
            return;
        }
        // During thread teardown the buffer is simply freed.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT_MAX {
                free.push(bytes);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_can_grow_and_shrink_without_moving_the_body() {
        let mut buf = Buf::take();
        assert!(buf.extend(b"head body"));
        assert!(buf.replace_front(4, b"longer head"));
        assert_eq!(buf.filled(), b"longer head body");
        assert!(buf.replace_front(11, b"h"));
        assert_eq!(buf.filled(), b"h body");
        assert!(!buf.replace_front(1, &[0; HEADROOM + 100]));
        buf.consume(2);
        buf.truncate(2);
        assert_eq!(buf.filled(), b"bo");
        buf.cut(2..2);
        buf.cut(1..2);
        assert_eq!(buf.filled(), b"b");
        assert!(!buf.extend(&[0; CAPACITY]));
    }

    #[test]
    fn no_byte_is_lost_that_does_not_fit() {
        for len in [0, 1, CAPACITY, CAPACITY + 1, USUAL, USUAL + 1, 3 * USUAL] {
            let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
            assert_eq!(Buf::holding(&bytes).filled(), bytes, "{len}");
            let mut all = Buf::holding(&bytes);
            assert_eq!(all.split_behind(len / 3).filled(), &bytes[len / 3..], "{len}");
            assert_eq!(all.filled(), &bytes[..len / 3], "{len}");
        }
        let mut buf = Buf::take_whole();
        assert_eq!(buf.extend_some(&[1; USUAL + 5]), USUAL);
        assert_eq!((buf.len(), buf.extend_some(&[1])), (USUAL, 0));
    }

    #[test]
    fn a_buffer_may_grow() {
        let mut buf = Buf::holding(b"begun");
        buf.grow(2 * CAPACITY);
        assert_eq!(buf.filled(), b"begun");
        assert_eq!(buf.spare().len(), 2 * CAPACITY - 5);
        buf.grow(CAPACITY);
        assert_eq!(buf.spare().len(), 2 * CAPACITY - 5, "it has as much already");
    }

    #[test]
    fn bytes_that_wait_hold_no_more_memory_than_they_need() {
        let mut buf = Buf::holding(b"\x17\x03\x03\x40\x00waits");
        buf.consume(5);
        buf.shrink();
        assert_eq!((buf.filled(), buf.bytes.len()), (&b"waits"[..], 5));
        let mut none = Buf::take();
        none.shrink();
        assert!(none.is_empty() && none.bytes.is_empty());
        // Memory of another size does not return to the worker.
        drop(buf);
        assert_eq!(Buf::take().bytes.len(), USUAL);
    }
}

//! Output of a connection that waits to be written: output of the protocol engine, and parts of bodies between it.
//! Such parts are not copied: other streams may send them, too.

use bytes::{Buf, Bytes};
use evenkeel_net::transport::Transport;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

/// Fewest bytes of a body that are not copied: with less than a page, two more slices are not worth it.
const SHARED_MIN: usize = 4096;

/// Most slices of a `sendmsg(2)`: two for each frame of the backlog, and some more.
const SLICES_MAX: usize = 32;

/// Output that is not in the engine's buffer, and the written length of that buffer.
#[derive(Debug)]
pub struct Output {
    /// True if the transport writes several slices at once. TLS seals each write by itself.
    is_plain: bool,
    /// Bytes of the engine's buffer that were written already.
    written: usize,
    /// Parts of bodies, each with its place in the engine's buffer.
    shared: VecDeque<(usize, Bytes)>,
    /// Sum of their lengths, in bytes.
    shared_len: usize,
}

impl Output {
    pub fn new(transport: &Transport) -> Output {
        let is_plain = transport.as_plain().is_some();
        Output { is_plain, written: 0, shared: VecDeque::new(), shared_len: 0 }
    }

    /// True if a part of a body with this number of bytes is better not copied.
    pub fn takes_shared(&self, len: usize) -> bool {
        self.is_plain && len >= SHARED_MIN
    }

    /// Adds a part of a body, behind this number of bytes of the engine's buffer.
    pub fn push(&mut self, behind: usize, part: Bytes) {
        self.shared_len += part.len();
        self.shared.push_back((behind, part));
    }

    /// Bytes that are not written yet. `of_engine`: length of the engine's buffer.
    pub fn len(&self, of_engine: usize) -> usize {
        of_engine - self.written + self.shared_len
    }

    /// Writes everything, and empties the engine's buffer.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        transport: &Transport,
        engine: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        while self.len(engine.len()) > 0 {
            let n = match transport.as_plain().filter(|_| !self.shared.is_empty()) {
                None => ready!(transport.poll_write(cx, &engine[self.written..]))?,
                Some(plain) => {
                    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                    let count = self.slices(engine, &mut slices);
                    ready!(plain.poll_write_slices(cx, &slices[..count]))?
                }
            };
            self.advance(n);
        }
        self.written = 0;
        engine.clear();
        Poll::Ready(Ok(()))
    }

    /// Collects the first slices that are not written yet. Returns their number.
    fn slices<'s>(&'s self, engine: &'s [u8], slices: &mut [IoSlice<'s>; SLICES_MAX]) -> usize {
        let mut at = self.written;
        let parts = self.shared.iter().flat_map(|(behind, part)| {
            let before = &engine[std::mem::replace(&mut at, *behind)..*behind];
            [before, part]
        });
        let last = self.shared.back().map_or(self.written, |(behind, _)| *behind);
        let all = parts.chain([&engine[last..]]).filter(|slice| !slice.is_empty());
        slices.iter_mut().zip(all).map(|(slice, bytes)| *slice = IoSlice::new(bytes)).count()
    }

    /// Notes that this number of bytes is written.
    fn advance(&mut self, mut n: usize) {
        while let Some((behind, part)) = self.shared.front_mut() {
            let before = n.min(*behind - self.written);
            self.written += before;
            n -= before;
            if n == 0 {
                return;
            }
            let of_part = n.min(part.len());
            part.advance(of_part);
            self.shared_len -= of_part;
            n -= of_part;
            if !part.is_empty() {
                return;
            }
            self.shared.pop_front();
        }
        self.written += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_are_what_is_left_in_its_order(
            pieces in proptest::collection::vec((any::<bool>(), 1..9_usize), 0..60),
            writes in proptest::collection::vec(0..40_usize, 0..40),
        ) {
            let mut output = Output { is_plain: true, written: 0, shared: VecDeque::new(), shared_len: 0 };
            let (mut engine, mut all) = (Vec::new(), Vec::new());
            for (n, (is_shared, len)) in pieces.into_iter().enumerate() {
                let piece = vec![n as u8; len];
                all.extend_from_slice(&piece);
                if is_shared {
                    output.push(engine.len(), piece.into());
                } else {
                    engine.extend_from_slice(&piece);
                }
            }
            let mut left = &all[..];
            for write in writes {
                prop_assert_eq!(output.len(engine.len()), left.len());
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let count = output.slices(&engine, &mut slices);
                let next: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                prop_assert!(left.starts_with(&next) && (count == SLICES_MAX || next.len() == left.len()));
                let n = write.min(next.len());
                output.advance(n);
                left = &left[n..];
            }
        }
    }
}

//! Bytes received for a stream and not yet taken by its task, bounded by the stream's window. Small pieces share
//! memory, so that a peer that sends single bytes cannot make this side hold much more than the bytes themselves.

use evenkeel_net::buffer::{Buf, CAPACITY};
use std::collections::VecDeque;

/// Bytes from which a piece gets a separate buffer.
const LARGE: usize = 8 * 1024;

/// Received data, in the order of arrival.
#[derive(Debug, Default)]
pub struct Arrived {
    pieces: VecDeque<Piece>,
    /// Bytes of the flow-control windows that it holds, including padding.
    flow: usize,
}

#[derive(Debug)]
enum Piece {
    Large(Buf),
    Small(Vec<u8>),
}

impl Arrived {
    /// Adds received bytes. `flow` is the part of the windows that they took, including padding.
    pub fn push(&mut self, bytes: &[u8], flow: usize) {
        self.flow += flow;
        if bytes.is_empty() {
            return;
        }
        let fits = match self.pieces.back_mut() {
            Some(Piece::Large(buf)) => buf.extend(bytes),
            Some(Piece::Small(small)) if small.len() + bytes.len() <= LARGE => {
                small.extend_from_slice(bytes);
                true
            }
            _ => false,
        };
        if fits {
            return;
        }
        if bytes.len() < LARGE {
            return self.pieces.push_back(Piece::Small(bytes.to_vec()));
        }
        self.pieces.extend(bytes.chunks(CAPACITY).map(|chunk| Piece::Large(Buf::holding(chunk))));
    }

    /// Takes the front piece. Returns it with the bytes of the windows that it frees.
    pub fn pop(&mut self) -> Option<(Buf, usize)> {
        let buf = match self.pieces.pop_front()? {
            Piece::Large(buf) => buf,
            Piece::Small(small) => Buf::holding(&small),
        };
        // Padding is freed with the last piece: few peers send any.
        let freed = if self.pieces.is_empty() { self.flow } else { buf.len().min(self.flow) };
        self.flow -= freed;
        Some((buf, freed))
    }

    /// Takes the flow control held by padding alone, which can be returned immediately.
    pub fn take_padding(&mut self) -> usize {
        if self.pieces.is_empty() { std::mem::take(&mut self.flow) } else { 0 }
    }

    /// Number of pieces for which memory is allocated.
    pub fn capacity(&self) -> usize {
        self.pieces.capacity()
    }

    /// Drops all data. Returns the bytes of the windows that this frees.
    pub fn clear(&mut self) -> usize {
        self.pieces.clear();
        std::mem::take(&mut self.flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_come_out_in_order_and_free_what_they_took() {
        let mut arrived = Arrived::default();
        let mut sent = Vec::new();
        for (at, len) in [1, 5, 9000, 3, 100, 20_000, 20_000, 1, 8191, 2].into_iter().enumerate() {
            let bytes = vec![at as u8; len];
            arrived.push(&bytes, len + at % 2);
            sent.extend_from_slice(&bytes);
        }
        let (mut came, mut freed) = (Vec::new(), 0);
        while let Some((buf, flow)) = arrived.pop() {
            assert!(!buf.is_empty());
            came.extend_from_slice(buf.filled());
            freed += flow;
        }
        assert_eq!((came == sent, freed), (true, sent.len() + 5));
    }

    #[test]
    fn single_bytes_share_memory_and_padding_alone_is_free_at_once() {
        let mut arrived = Arrived::default();
        (0..LARGE).for_each(|_| arrived.push(b"x", 1));
        assert_eq!(arrived.pieces.len(), 1);
        assert_eq!(arrived.take_padding(), 0);
        assert_eq!(arrived.clear(), LARGE);
        arrived.push(b"", 7);
        assert_eq!((arrived.take_padding(), arrived.pop().is_none()), (7, true));
    }
}

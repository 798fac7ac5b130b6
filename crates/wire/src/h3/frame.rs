//! Frames (RFC 9114 section 7): a type, a length and a payload. Fronts may be cut anywhere. Payloads are passed on as
//! they arrive.

use super::varint::{self, Partial};

/// Types of frames (RFC 9114 section 7.2, RFC 9218 section 7.2).
pub mod kind {
    pub const DATA: u64 = 0x0;
    pub const HEADERS: u64 = 0x1;
    pub const CANCEL_PUSH: u64 = 0x3;
    pub const SETTINGS: u64 = 0x4;
    pub const PUSH_PROMISE: u64 = 0x5;
    pub const GOAWAY: u64 = 0x7;
    pub const MAX_PUSH_ID: u64 = 0xd;
    /// New priority of a request (RFC 9218 section 7.2).
    pub const PRIORITY_UPDATE: u64 = 0xf_0700;
    /// New priority of a push (RFC 9218 section 7.2).
    pub const PUSH_PRIORITY_UPDATE: u64 = 0xf_0701;
}

/// True for types that only HTTP/2 has: PRIORITY, PING, WINDOW_UPDATE and CONTINUATION (section 7.2.8).
pub fn is_of_http2(kind: u64) -> bool {
    matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
}

/// Type of a frame, and length of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    pub kind: u64,
    pub len: u64,
}

impl Front {
    pub fn write(self, out: &mut Vec<u8>) {
        varint::write(self.kind, out);
        varint::write(self.len, out);
    }
}

/// Next thing on a stream of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A frame begins. A payload follows, even if its length is 0.
    Front(Front),
    /// The next `len` bytes are payload of the current frame. `ends`: all of it has arrived.
    Payload { len: usize, ends: bool },
}

/// Position in a stream of frames. Each byte is looked at once.
#[derive(Debug, Default)]
pub struct FrameReader {
    number: Partial,
    /// Type of a frame whose length is incomplete.
    kind: Option<u64>,
    /// Bytes of the current frame's payload that are still to come.
    left: Option<u64>,
}

impl FrameReader {
    /// Consumes a front, or as much payload as has arrived; `None` if more bytes are needed.
    #[inline]
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<Piece> {
        if let Some(left) = self.left {
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            if len == 0 && left > 0 {
                return None;
            }
            let left = left - len as u64;
            self.left = (left > 0).then_some(left);
            *bytes = &bytes[len..];
            return Some(Piece::Payload { len, ends: left == 0 });
        }
        let kind = match self.kind {
            Some(kind) => kind,
            None => *self.kind.insert(self.number.read(bytes)?),
        };
        let len = self.number.read(bytes)?;
        (self.kind, self.left) = (None, Some(len));
        Some(Piece::Front(Front { kind, len }))
    }

    /// True if no frame is incomplete.
    pub fn is_between(&self) -> bool {
        self.kind.is_none() && self.left.is_none() && !self.number.is_begun()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fronts_may_be_cut_anywhere_and_payloads_are_passed_on_as_they_arrive() {
        let mut bytes = Vec::new();
        Front { kind: kind::PRIORITY_UPDATE, len: 70 }.write(&mut bytes);
        bytes.extend([7; 70]);
        Front { kind: kind::DATA, len: 0 }.write(&mut bytes);
        for cut in 1..bytes.len() {
            let (mut reader, mut fronts, mut payload) = (FrameReader::default(), Vec::new(), 0);
            for mut part in bytes.chunks(cut) {
                while let Some(piece) = reader.next(&mut part) {
                    match piece {
                        Piece::Front(front) => fronts.push((front.kind, front.len)),
                        Piece::Payload { len, .. } => payload += len,
                    }
                }
                assert!(part.is_empty());
            }
            assert_eq!((fronts, payload), (vec![(kind::PRIORITY_UPDATE, 70), (kind::DATA, 0)], 70));
            assert!(reader.is_between());
        }
    }

    #[test]
    fn an_incomplete_frame_is_noticed() {
        for bytes in [&[0x40][..], &[0x1], &[0x1, 0x40], &[0x0, 0x2, 7]] {
            let (mut reader, mut rest) = (FrameReader::default(), bytes);
            while reader.next(&mut rest).is_some() {}
            assert!(!reader.is_between(), "{bytes:x?}");
        }
    }
}

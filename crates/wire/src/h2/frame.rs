//! Frame headers of nine bytes (RFC 9113 section 4.1).

use super::StreamId;

/// Length of a frame header, which precedes the payload.
pub const LEN: usize = 9;

/// Largest payload that every peer accepts.
pub const PAYLOAD: usize = 16_384;

/// Types of frames (RFC 9113 section 6).
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames (RFC 9113 section 6).
pub mod flag {
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 32;
}

/// A frame header: length, type, flags and stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    pub len: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: StreamId,
}

impl Front {
    /// Reads a frame header; `None` while it is incomplete.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Front> {
        let &[a, b, c, kind, flags, s1, s2, s3, s4] = bytes.first_chunk::<LEN>()?;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        // The first bit is reserved.
        let stream = u32::from_be_bytes([s1, s2, s3, s4]) & super::MAX;
        Some(Front { len, kind, flags, stream })
    }

    /// Returns the header as bytes.
    #[inline]
    pub fn bytes(self) -> [u8; LEN] {
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        let [s1, s2, s3, s4] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s1, s2, s3, s4]
    }

    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }

    /// True if this bit of the flags is set.
    #[inline]
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame with this payload.
pub fn write(kind: u8, flags: u8, stream: StreamId, payload: &[u8], out: &mut Vec<u8>) {
    Front { len: payload.len(), kind, flags, stream }.write(out);
    out.extend_from_slice(payload);
}

/// Reads the first four bytes of a payload as a number; `None` if it is shorter.
#[inline]
pub fn number(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

//! Frame of a record: 32 bytes with its kind, its lengths, a number and two checksums.
//!
//! | bytes | |
//! |---|---|
//! | 0 to 3 | `ekr` |
//! | 3 | [`VERSION`] |
//! | 4 | [`Kind`] |
//! | 5 to 8 | zero |
//! | 8 to 12, 12 to 16 | lengths of head and body |
//! | 16 to 24 | number, whose meaning depends on the stream or file |
//! | 24 to 28 | CRC-32 of the other bytes of the frame and of the head |
//! | 28 to 32 | CRC-32 of the body |
//!
//! Numbers are in little-endian order. Heads and bodies have separate checksums, so a file can be searched for heads
//! without reading bodies.

use std::fmt;

/// Version of frames and heads. A reader takes only its own.
pub const VERSION: u8 = 2;

/// Length of a frame in bytes.
pub const FRAME: usize = 32;

/// Longest head in bytes: several times a key with the longest target, 32 KiB of fields and 256 tags.
pub const HEAD_MAX: usize = 1 << 20;

const MAGIC: [u8; 3] = *b"ekr";

/// Content of a record, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Response = 1,
    Purge = 2,
    /// End of a stored response: a newer response replaced it, or its endpoint invalidated it.
    Dropped = 3,
    /// State of the clocks of a writer: its number is the moment on the clock of the file.
    Clock = 4,
    /// Purges up to this number hold for the writer, too; in a file: all records before are on the disk for good.
    Done = 5,
    /// No more records follow. In a stream, its number counts the responses before it; in a segment, it marks the end.
    End = 6,
    /// Beginning of a segment of a file.
    Segment = 7,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::Response, Kind::Purge, Kind::Dropped, Kind::Clock, Kind::Done, Kind::End, Kind::Segment];
}

/// Reason why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// They do not begin as a record does.
    Magic,
    /// They are a record of another version.
    Version(u8),
    /// A length, a kind or a byte that is always zero is wrong.
    Frame,
    /// Head or body do not match their checksums.
    Sum,
    /// No writer of this version produces such a head.
    Content,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Magic => f.write_str("not a record"),
            Broken::Version(version) => write!(f, "record of format {version}; this build reads format {VERSION}"),
            Broken::Frame => f.write_str("record with a frame that cannot be"),
            Broken::Sum => f.write_str("record with another checksum"),
            Broken::Content => f.write_str("record with a head that cannot be"),
        }
    }
}

impl std::error::Error for Broken {}

/// Frame of a record: kind, lengths, number and checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    pub head_len: u32,
    pub body_len: u32,
    pub number: u64,
    head_sum: u32,
    body_sum: u32,
}

impl Frame {
    /// Makes the frame of a head and a body. `None` if they are too long for a record.
    pub fn of(kind: Kind, number: u64, head: &[u8], body: &[u8]) -> Option<Frame> {
        let body_len = u32::try_from(body.len()).ok().filter(|_| head.len() <= HEAD_MAX)?;
        let body_sum = crc32fast::hash(body);
        let mut frame = Frame { kind, head_len: head.len() as u32, body_len, number, head_sum: 0, body_sum };
        frame.head_sum = frame.sum(head);
        Some(frame)
    }

    /// Writes its bytes.
    pub fn bytes(&self) -> [u8; FRAME] {
        let mut bytes = [0; FRAME];
        bytes[..3].copy_from_slice(&MAGIC);
        bytes[3] = VERSION;
        bytes[4] = self.kind as u8;
        bytes[8..12].copy_from_slice(&self.head_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.body_len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.head_sum.to_le_bytes());
        bytes[28..].copy_from_slice(&self.body_sum.to_le_bytes());
        bytes
    }

    /// Reads a frame. Its checksums are not checked yet.
    ///
    /// # Errors
    /// The bytes are not a frame of this version.
    pub fn read(bytes: &[u8; FRAME]) -> Result<Frame, Broken> {
        if bytes[..3] != MAGIC {
            return Err(Broken::Magic);
        }
        if bytes[3] != VERSION {
            return Err(Broken::Version(bytes[3]));
        }
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == bytes[4]).ok_or(Broken::Frame)?;
        let [head_len, body_len, head_sum, body_sum] = [8, 12, 24, 28].map(|at| u32::from_le_bytes(part(bytes, at)));
        let frame = Frame { kind, head_len, body_len, number: u64::from_le_bytes(part(bytes, 16)), head_sum, body_sum };
        let is_possible =
            bytes[5..8] == [0; 3] && head_len as usize <= HEAD_MAX && (body_len == 0 || kind == Kind::Response);
        if is_possible { Ok(frame) } else { Err(Broken::Frame) }
    }

    /// Checks the head against its checksum.
    ///
    /// # Errors
    /// Frame or head are not those that were written.
    pub fn check_head(&self, head: &[u8]) -> Result<(), Broken> {
        let is_whole = head.len() == self.head_len as usize && self.sum(head) == self.head_sum;
        if is_whole { Ok(()) } else { Err(Broken::Sum) }
    }

    /// Checks the body against its checksum.
    ///
    /// # Errors
    /// The body differs from the written body.
    pub fn check_body(&self, body: &[u8]) -> Result<(), Broken> {
        let is_whole = body.len() == self.body_len as usize && crc32fast::hash(body) == self.body_sum;
        if is_whole { Ok(()) } else { Err(Broken::Sum) }
    }

    /// Bytes of the whole record.
    pub fn record_len(&self) -> u64 {
        FRAME as u64 + u64::from(self.head_len) + u64::from(self.body_len)
    }

    fn sum(&self, head: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        let bytes = self.bytes();
        hasher.update(&bytes[..24]);
        // A body of another record must not pass for this one's.
        hasher.update(&bytes[28..]);
        hasher.update(head);
        hasher.finalize()
    }
}

fn part<const N: usize>(bytes: &[u8; FRAME], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

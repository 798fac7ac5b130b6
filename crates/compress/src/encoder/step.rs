//! Input and output of a call of a compressor, the same for all codings.

use std::fmt;

/// Purpose of a call of a compressor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Compresses; bytes may be held back until there are more.
    Go,
    /// Writes all that is held back, so that the receiver can decode all bytes given so far.
    Flush,
    /// Ends the body. No bytes may be given after it.
    End,
}

/// Memory that a compressor may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// At most about 4 MiB, and 2 MiB at the default levels.
    Usual,
    /// At most `Usual`. The window fits a body of at most 2 to this power of bytes, if that saves memory.
    Fitted(u8),
    /// Some hundred KiB, for a body that is sent in small pieces over a long time, as events are.
    Small,
    /// Tens of MiB, for a body that is there as a whole, and is compressed once for many clients.
    Large,
}

/// Result of a call of a compressor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of bytes taken from the input.
    pub taken: usize,
    /// Number of bytes written to the output.
    pub written: usize,
    /// True if the call has done all that was asked: all input was taken and, for a flush or the end, all output was written.
    pub is_done: bool,
}

/// Error of a compressor. None is known to occur: it would be an error of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the compressor failed")
    }
}

impl std::error::Error for Failed {}

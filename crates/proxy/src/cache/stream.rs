//! Records on a stream between two processes.

use evenkeel_cache::record::{Broken, FRAME, Frame, Kind};
use std::io::{self, ErrorKind, IoSlice, Read, Write};

/// Reason why no record arrived.
#[derive(Debug)]
pub enum Failed {
    /// The stream has ended, or it fails.
    Closed,
    Broken(Broken),
}

/// Writes a record.
///
/// # Errors
/// The stream fails, or the record is too large for the format.
pub fn write(out: &mut impl Write, kind: Kind, number: u64, head: &[u8], body: &[u8]) -> io::Result<()> {
    let frame = Frame::of(kind, number, head, body).ok_or(ErrorKind::InvalidInput)?.bytes();
    let mut parts = [IoSlice::new(&frame), IoSlice::new(head), IoSlice::new(body)];
    let mut left = &mut parts[..];
    while !left.is_empty() {
        match out.write_vectored(left) {
            Ok(0) if left.iter().all(|part| part.is_empty()) => return Ok(()),
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads the next frame and its head.
///
/// # Errors
/// The stream fails, or this is not a record of this version.
pub fn read(from: &mut impl Read) -> Result<(Frame, Vec<u8>), Failed> {
    let mut bytes = [0; FRAME];
    from.read_exact(&mut bytes).map_err(|_| Failed::Closed)?;
    let frame = Frame::read(&bytes).map_err(Failed::Broken)?;
    let head = take(from, frame.head_len)?;
    frame.check_head(&head).map_err(Failed::Broken)?;
    Ok((frame, head))
}

/// Reads the body of a record. `None` if it is larger than `body_max`: it is then skipped.
///
/// # Errors
/// The stream fails, or the body differs from the written body.
pub fn read_body(from: &mut impl Read, frame: &Frame, body_max: u64) -> Result<Option<Vec<u8>>, Failed> {
    let length = u64::from(frame.body_len);
    if length > body_max {
        let skipped = io::copy(&mut from.take(length), &mut io::sink()).map_err(|_| Failed::Closed)?;
        return if skipped == length { Ok(None) } else { Err(Failed::Closed) };
    }
    let body = take(from, frame.body_len)?;
    frame.check_body(&body).map_err(Failed::Broken)?;
    Ok(Some(body))
}

/// Reads a number of bytes. Allocates memory as they arrive.
fn take(from: &mut impl Read, length: u32) -> Result<Vec<u8>, Failed> {
    let mut bytes = Vec::with_capacity(length.min(1 << 16) as usize);
    from.take(length.into()).read_to_end(&mut bytes).map_err(|_| Failed::Closed)?;
    if bytes.len() == length as usize { Ok(bytes) } else { Err(Failed::Closed) }
}

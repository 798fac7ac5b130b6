//! Response at a place of the log, read into the memory of its body and checked against its checksums.

use crate::file::{Ring, Wait};
use crate::index::Place;
use bytes::Bytes;
use evenkeel_cache::record::{FRAME, Frame, Kind, ResponseRecord};
use std::io;

/// Makes a body: memory of a length, which the function fills. `None` if the function returns false.
pub type MakeBody = fn(usize, &mut dyn FnMut(&mut [u8]) -> bool) -> Option<Bytes>;

/// Bytes of the first read: a frame, nearly every head, and the whole of a small response.
const FIRST: usize = 4096;

/// Makes a body in a buffer of its size.
pub fn plain_body(len: usize, fill: &mut dyn FnMut(&mut [u8]) -> bool) -> Option<Bytes> {
    let mut body = vec![0; len];
    fill(&mut body).then(|| body.into())
}

/// Reads the response at a place of the log. `None` if the place was overwritten or is damaged.
///
/// # Errors
/// The disk fails, or the read would wait and must not. The record may be intact nevertheless.
pub fn read(
    ring: &Ring,
    place: Place,
    sequence: u64,
    make: MakeBody,
    wait: Wait,
) -> io::Result<Option<(ResponseRecord, Bytes)>> {
    let (length, mut first) = (place.length as usize, [0; FIRST]);
    let first = &mut first[..length.min(FIRST)];
    let at = u64::from(place.offset);
    ring.read(place.slot, at, first, wait)?;
    let Some((frame, rest)) = first.split_first_chunk() else { return Ok(None) };
    let Ok(frame) = Frame::read(frame) else { return Ok(None) };
    if frame.number != sequence || frame.kind != Kind::Response || frame.record_len() != length as u64 {
        return Ok(None);
    }
    let (head_len, mut long) = (frame.head_len as usize, Vec::new());
    let head = match rest.get(..head_len) {
        Some(head) => head,
        None => {
            long.extend_from_slice(rest);
            long.resize(head_len, 0);
            ring.read(place.slot, at + (FRAME + rest.len()) as u64, &mut long[rest.len()..], wait)?;
            &long
        }
    };
    let Ok(record) = frame.check_head(head).and_then(|()| ResponseRecord::read(head)) else { return Ok(None) };
    let known = rest.get(head_len..).unwrap_or_default();
    let mut result = Ok(());
    // A segment that is reclaimed between two reads changes the checksum.
    let body = make(frame.body_len as usize, &mut |into| {
        let (begin, left) = into.split_at_mut(known.len());
        begin.copy_from_slice(known);
        if !left.is_empty() {
            result = ring.read(place.slot, at + (FRAME + head_len + known.len()) as u64, left, wait);
        }
        result.is_ok()
    });
    result?;
    let body = body.filter(|body| frame.check_body(body).is_ok());
    Ok(body.map(|body| (ring.clock.response(record), body)))
}

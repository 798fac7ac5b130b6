//! Memory of large bodies that many peers get: separate pages, to which a socket can refer instead of copying them
//! ([`Pipe::fill_from`](crate::splice::Pipe::fill_from)).
//!
//! The kernel refers to such a page until the peer has acknowledged it, which may be long after the body is gone here.
//! So it must never be written again: these pages are filled once, and unmapped instead of used for something else. The
//! kernel frees each when nothing refers to it any more.

#![allow(
    clippy::disallowed_types,
    reason = "locked for a lookup among large bodies, which takes less than sending a page"
)]

use bytes::Bytes;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::ptr::{NonNull, null_mut};
use std::sync::{PoisonError, RwLock};

/// Smallest body in bytes that gets separate pages. A bare server took for a response from its buffers and from such
/// pages, in microseconds of CPU time: 8 and 7 for 64 KiB, 15 and 8 for 128 KiB, 195 and 150 for 1 MiB.
pub const PAGES_MIN: usize = 64 * 1024;

/// Most bodies with separate pages: the kernel allows a process some 65,000 mappings.
const COUNT_MAX: usize = 16 * 1024;

/// Bytes of a page. Fewer are copied.
const PAGE: usize = 4096;

/// Pages that are mapped: where they begin and end.
static MAPPED: RwLock<BTreeMap<usize, usize>> = RwLock::new(BTreeMap::new());

/// Pages with a body. Unmapped when dropped.
struct Pages {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is only read, and belongs to no thread.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Copies the pieces of a body into new pages; `None` if there are too many, or no memory for them.
    fn filled<P: AsRef<[u8]>>(pieces: &[P]) -> Option<Pages> {
        let len = length(pieces);
        if len < PAGES_MIN || count() >= COUNT_MAX {
            return None;
        }
        let (all, how) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping overlaps nothing.
        let at = unsafe { mmap_anonymous(null_mut(), len, all, how).ok()? };
        let at = NonNull::new(at.cast::<u8>())?;
        // SAFETY: the mapping has this length, is writable and zeroed, and is known to no other code yet.
        let mut left = unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), len) };
        for piece in pieces.iter().map(AsRef::as_ref) {
            let (here, behind) = left.split_at_mut(piece.len());
            here.copy_from_slice(piece);
            left = behind;
        }
        let begin = at.addr().get();
        MAPPED.write().unwrap_or_else(PoisonError::into_inner).insert(begin, begin + len);
        Some(Pages { at, len })
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the mapping has this length, is initialised, and is not written any more.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // Before others can map something there.
        MAPPED.write().unwrap_or_else(PoisonError::into_inner).remove(&self.at.addr().get());
        // SAFETY: nothing refers to the mapping in this process any more.
        if let Err(error) = unsafe { munmap(self.at.as_ptr().cast(), self.len) } {
            tracing::warn!(%error, "cannot release the memory of a body");
        }
    }
}

/// Shares a body between those who send it: in separate pages if it is large, else in a buffer of its size.
pub fn shared(body: Vec<u8>) -> Bytes {
    let pages = Pages::filled(std::slice::from_ref(&body));
    pages.map_or_else(|| body.into_boxed_slice().into(), Bytes::from_owner)
}

/// Like [`shared`], for a body in pieces: each byte is copied once.
pub fn joined<P: AsRef<[u8]>>(pieces: &[P]) -> Bytes {
    Pages::filled(pieces).map_or_else(
        || {
            let mut body = Vec::with_capacity(length(pieces));
            pieces.iter().for_each(|piece| body.extend_from_slice(piece.as_ref()));
            body.into_boxed_slice().into()
        },
        Bytes::from_owner,
    )
}

fn length<P: AsRef<[u8]>>(pieces: &[P]) -> usize {
    pieces.iter().map(|piece| piece.as_ref().len()).sum()
}

/// Bodies that have separate pages, of 16,384 at most.
pub fn count() -> usize {
    MAPPED.read().unwrap_or_else(PoisonError::into_inner).len()
}

/// True if these bytes are in separate pages, which sockets may refer to.
pub fn are_own(bytes: &[u8]) -> bool {
    let begin = bytes.as_ptr().addr();
    bytes.len() >= PAGE && {
        let mapped = MAPPED.read().unwrap_or_else(PoisonError::into_inner);
        let before = mapped.range((Bound::Unbounded, Bound::Included(begin))).next_back();
        before.is_some_and(|(_, end)| begin + bytes.len() <= *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_have_pages_of_their_own_while_anything_of_them_is_left() {
        let text: Vec<u8> = (0..PAGES_MIN + 5).map(|n| n as u8).collect();
        let body = shared(text.clone());
        assert_eq!(body, text);
        assert!(are_own(&body) && are_own(&body[1..]) && !are_own(&text) && !are_own(&body[..PAGE - 1]));
        let part = body.slice(PAGE..3 * PAGE);
        drop(body);
        assert!(are_own(&part));
        assert_eq!(part, text[PAGE..3 * PAGE]);
        let small = shared(vec![7; PAGES_MIN - 1]);
        assert!(!are_own(&small) && small.iter().all(|b| *b == 7));
    }

    #[test]
    fn pieces_are_joined_in_order() {
        let text: Vec<u8> = (0..2 * PAGES_MIN + 7).map(|n| (n / 3) as u8).collect();
        let large: Vec<&[u8]> = text.chunks(10_000).collect();
        let body = joined(&large);
        assert!(are_own(&body) && body == text);
        assert_eq!(joined(&large[..2]), text[..20_000]);
        assert!(joined::<Bytes>(&[]).is_empty());
    }
}

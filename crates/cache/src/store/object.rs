//! An object of the store: head, body, and encoded forms of the body that are added later.

use bytes::Bytes;
use std::sync::{Arc, OnceLock};

/// Bytes that an allocator adds to an allocation: the header of glibc's `malloc`, and half of its rounding to 16.
pub(super) const ALLOCATION: usize = 16;

/// Parts of a stored response that the store itself asks for.
pub trait Head {
    /// Bytes of memory that it takes, itself included.
    fn weight(&self) -> usize;

    /// True if a purge of this tag is meant for it.
    fn has_tag(&self, tag: &[u8]) -> bool;
}

impl Head for crate::stored::Stored {
    fn weight(&self) -> usize {
        self.size() + ALLOCATION
    }

    fn has_tag(&self, tag: &[u8]) -> bool {
        self.tags().any(|known| known == tag)
    }
}

/// Content codings that a body can be kept in besides its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    Gzip,
    Brotli,
    Zstd,
}

/// Encoded body, with those that were added after it.
#[derive(Debug)]
struct Encoded {
    coding: Coding,
    body: Bytes,
    next: OnceLock<Box<Encoded>>,
}

/// A stored response. Shared by `Arc` between the store and those who send it.
#[derive(Debug)]
pub struct Object<H> {
    head: H,
    body: Bytes,
    encoded: OnceLock<Box<Encoded>>,
}

impl<H: Head> Object<H> {
    /// Puts head and body together. `body` should be a buffer of its own: a slice keeps all of its buffer in memory,
    /// and counts only as the slice.
    pub fn new(head: H, body: Bytes) -> Object<H> {
        Object { head, body, encoded: OnceLock::new() }
    }

    /// Returns the same bodies under another head, as after a 304. No body is copied.
    pub fn with_head<G: Head>(&self, head: G) -> Object<G> {
        let object = Object::new(head, self.body.clone());
        for known in self.encodings() {
            object.push(known.coding, known.body.clone());
        }
        object
    }

    pub fn head(&self) -> &H {
        &self.head
    }

    /// Body in the coding that it was stored with.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Body in a coding, if [`super::Store::add_encoded`] added it.
    pub fn encoded(&self, coding: Coding) -> Option<&Bytes> {
        self.encodings().find(|known| known.coding == coding).map(|known| &known.body)
    }

    /// Bytes of memory that it takes: head, all bodies, and the counts and headers of their allocations.
    pub fn weight(&self) -> u64 {
        let bodies = self.encodings().map(|known| Object::<H>::weight_of(&known.body)).sum::<u64>();
        Object::weight_with(&self.head, self.body.len() as u64) + bodies
    }

    /// Bytes of an object with this head and a body of this length.
    pub(super) fn weight_with(head: &H, length: u64) -> u64 {
        let shared = size_of::<Object<H>>() - size_of::<H>() + 2 * size_of::<usize>() + ALLOCATION;
        ((shared + head.weight() + SHARED_BODY) as u64).saturating_add(length)
    }

    /// Bytes that an encoded body adds.
    pub(super) fn weight_of(body: &Bytes) -> u64 {
        (size_of::<Encoded>() + ALLOCATION + body.len() + SHARED_BODY) as u64
    }

    fn encodings(&self) -> impl Iterator<Item = &Encoded> {
        std::iter::successors(self.encoded.get(), |known| known.next.get()).map(|known| &**known)
    }

    /// Adds an encoded body. False if there is one in that coding.
    pub(super) fn push(&self, coding: Coding, body: Bytes) -> bool {
        let mut at = &self.encoded;
        let mut new = Box::new(Encoded { coding, body, next: OnceLock::new() });
        // `set` fails if another thread was faster: the new one is then put behind that one.
        while let Err(back) = at.set(new) {
            let Some(known) = at.get().filter(|known| known.coding != coding) else { return false };
            (at, new) = (&known.next, back);
        }
        true
    }
}

/// Counts of a shared body, with the headers of both its allocations.
const SHARED_BODY: usize = 24 + 2 * ALLOCATION;

/// An object that is one of several under its key.
#[derive(Debug)]
pub(super) struct Variant<H> {
    pub object: Arc<Object<H>>,
    /// Moment in ms of the soft purge that was meant for it, or `FRESH`.
    pub stale_from: u64,
}

/// Mark of a variant that no soft purge was meant for.
pub(super) const FRESH: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Plain;
    impl Head for Plain {
        fn weight(&self) -> usize {
            10
        }
        fn has_tag(&self, _: &[u8]) -> bool {
            false
        }
    }

    #[test]
    fn each_coding_is_kept_once_and_outlives_a_new_head() {
        let object = Object::new(Plain, Bytes::from_static(b"body"));
        let before = object.weight();
        assert!(object.push(Coding::Gzip, Bytes::from_static(b"g")));
        assert!(object.push(Coding::Zstd, Bytes::from_static(b"zz")));
        assert!(!object.push(Coding::Gzip, Bytes::from_static(b"other")));
        let added = [&b"g"[..], b"zz"].map(|body| Object::<Plain>::weight_of(&Bytes::from_static(body)));
        assert_eq!(object.weight(), before + added.iter().sum::<u64>());
        let renewed = object.with_head(Plain);
        assert_eq!(renewed.encoded(Coding::Zstd).map(|body| &body[..]), Some(&b"zz"[..]));
        assert_eq!((renewed.encoded(Coding::Brotli), renewed.weight()), (None, object.weight()));
    }
}

//! An object of the store: head, body, and encoded forms of the body that are added later.

use super::forms::{Coding, Forms};
use bytes::Bytes;
use std::sync::{Arc, OnceLock};

/// Bytes that an allocator adds to an allocation: the header of glibc's `malloc`, and half of its rounding to 16.
pub(super) const ALLOCATION: usize = 16;

/// Parts of a stored response that the store itself asks for.
pub trait Head {
    /// Bytes of memory that it takes, itself included.
    fn weight(&self) -> usize;

    /// True if a purge of this tag covers it.
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

/// A stored response. Shared by `Arc` between the store and those who send it.
#[derive(Debug)]
pub struct Object<H> {
    head: H,
    body: Bytes,
    /// Forms of the body, once they were asked for. Objects with the same body under other heads share them.
    forms: OnceLock<Arc<Forms>>,
}

impl<H: Head> Object<H> {
    /// Joins head and body. `body` should be a separate buffer: a slice keeps all of its buffer in memory, and counts
    /// only as the slice.
    pub fn new(head: H, body: Bytes) -> Object<H> {
        Object { head, body, forms: OnceLock::new() }
    }

    /// Returns the same bodies under another head, as after a 304. No body is copied.
    pub fn with_head<G: Head>(&self, head: G) -> Object<G> {
        Object { head, body: self.body.clone(), forms: self.forms.clone() }
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
        self.forms.get()?.encoded(coding)
    }

    /// Encoded forms of the body, to be added to.
    pub fn forms(&self) -> &Arc<Forms> {
        self.forms.get_or_init(|| Arc::new(Forms::new(self.body.clone())))
    }

    /// True if these are the forms of its body.
    pub(super) fn has_forms(&self, forms: &Arc<Forms>) -> bool {
        self.forms.get().is_some_and(|known| Arc::ptr_eq(known, forms))
    }

    /// Bytes of memory that it takes: head, all bodies, and the counts and headers of their allocations.
    pub fn weight(&self) -> u64 {
        let forms = self.forms.get().map_or(0, |forms| forms.weight());
        Object::weight_with(&self.head, self.body.len() as u64) + forms
    }

    /// Bytes of an object with this head and a body of this length.
    pub(super) fn weight_with(head: &H, length: u64) -> u64 {
        let shared = size_of::<Object<H>>() - size_of::<H>() + 2 * size_of::<usize>() + ALLOCATION;
        ((shared + head.weight() + SHARED_BODY) as u64).saturating_add(length)
    }
}

/// Counts of a shared body, with the headers of both its allocations.
pub(super) const SHARED_BODY: usize = 24 + 2 * ALLOCATION;

/// An object among several under its key.
#[derive(Debug)]
pub(super) struct Variant<H> {
    pub object: Arc<Object<H>>,
    /// Moment in ms of the soft purge that covers it, or `FRESH`.
    pub stale_from: u64,
}

/// Mark of a variant that no soft purge covers.
pub(super) const FRESH: u64 = u64::MAX;

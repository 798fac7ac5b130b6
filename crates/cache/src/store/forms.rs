//! Encoded forms of a stored body. A caller claims a form and makes it once, for all.

use super::object::{ALLOCATION, SHARED_BODY};
use bytes::Bytes;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Content codings in which a body can be kept, in addition to its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    Gzip,
    Brotli,
    Zstd,
}

const CODINGS: u8 = 3;

/// Encoded forms of a body. They outlive the head that a 304 replaces.
#[derive(Debug)]
pub struct Forms {
    /// Body in the coding that it was stored with.
    body: Bytes,
    encoded: [OnceLock<Bytes>; CODINGS as usize],
    /// A bit for each claimed coding, and above them a bit for each coding that makes the body no smaller. Relaxed: a
    /// bit guards no other data, and bodies pass by `encoded`.
    marks: AtomicU8,
}

impl Forms {
    pub(super) fn new(body: Bytes) -> Forms {
        Forms { body, encoded: Default::default(), marks: AtomicU8::new(0) }
    }

    /// Body in the coding that it was stored with.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Body in a coding, if it was added.
    pub fn encoded(&self, coding: Coding) -> Option<&Bytes> {
        self.encoded[coding as usize].get()
    }

    /// Claims a coding: the caller makes the form. True for a single caller, until it gives the claim back. A claim
    /// that is kept without a result stops further tries.
    pub fn claim(&self, coding: Coding) -> bool {
        let mark = claimed(coding);
        // Read first: a hit must not take the cache line from other CPUs.
        self.marks.load(Ordering::Relaxed) & mark == 0 && self.marks.fetch_or(mark, Ordering::Relaxed) & mark == 0
    }

    /// Gives a claim back, so that another caller may make the form.
    pub fn give_back(&self, coding: Coding) {
        self.marks.fetch_and(!claimed(coding), Ordering::Relaxed);
    }

    /// True if the body is known to become no smaller in a coding.
    pub fn is_no_smaller(&self, coding: Coding) -> bool {
        self.marks.load(Ordering::Relaxed) & no_smaller(coding) != 0
    }

    /// Notes that the body becomes no smaller in a coding.
    pub fn set_no_smaller(&self, coding: Coding) {
        self.marks.fetch_or(no_smaller(coding), Ordering::Relaxed);
    }

    /// Bytes of memory that the forms take, without the body. Those without any form are not worth counting.
    pub(super) fn weight(&self) -> u64 {
        let bodies: u64 = self.encoded.iter().filter_map(|body| body.get()).map(weight_of).sum();
        if bodies == 0 { 0 } else { bodies + OVERHEAD }
    }

    /// Bytes of memory that the forms take with a further form.
    pub(super) fn weight_with(&self, body: &Bytes) -> u64 {
        self.weight().max(OVERHEAD) + weight_of(body)
    }

    /// Adds a form. Returns false if there is a form in that coding already.
    pub(super) fn add(&self, coding: Coding, body: Bytes) -> bool {
        self.encoded[coding as usize].set(body).is_ok()
    }
}

/// Bytes of the forms themselves: with the counts of their `Arc`, and a header.
const OVERHEAD: u64 = (size_of::<Forms>() + 2 * size_of::<usize>() + ALLOCATION) as u64;

fn weight_of(body: &Bytes) -> u64 {
    (body.len() + SHARED_BODY) as u64
}

fn claimed(coding: Coding) -> u8 {
    1 << coding as u8
}

fn no_smaller(coding: Coding) -> u8 {
    1 << (coding as u8 + CODINGS)
}

#[cfg(test)]
mod tests {
    use super::super::object::{Head, Object};
    use super::*;

    const ALL: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

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
        let forms = object.forms();
        assert_eq!(object.weight(), before);
        let with = forms.weight_with(&Bytes::from_static(b"g"));
        assert!(forms.add(Coding::Gzip, Bytes::from_static(b"g")));
        assert_eq!((object.weight(), with), (before + with, OVERHEAD + weight_of(&Bytes::from_static(b"g"))));
        assert!(forms.add(Coding::Zstd, Bytes::from_static(b"zz")));
        assert!(!forms.add(Coding::Gzip, Bytes::from_static(b"other")));
        let renewed = object.with_head(Plain);
        assert_eq!(renewed.encoded(Coding::Zstd).map(|body| &body[..]), Some(&b"zz"[..]));
        assert_eq!((renewed.encoded(Coding::Brotli), renewed.weight()), (None, object.weight()));
    }

    #[test]
    fn one_caller_makes_a_form_also_under_a_new_head() {
        let object = Object::new(Plain, Bytes::from_static(b"body"));
        let forms = object.forms();
        assert!(ALL.into_iter().all(|coding| forms.claim(coding) && !forms.claim(coding)));
        forms.give_back(Coding::Gzip);
        forms.set_no_smaller(Coding::Brotli);
        let renewed = object.with_head(Plain);
        assert_eq!(ALL.map(|coding| renewed.forms().is_no_smaller(coding)), [false, true, false]);
        assert_eq!(ALL.map(|coding| renewed.forms().claim(coding)), [true, false, false]);
        assert!(renewed.forms().add(Coding::Zstd, Bytes::from_static(b"z")) && object.encoded(Coding::Zstd).is_some());
    }
}

//! How does a future that is large get onto the heap? It is made there: `Box::pin` makes it on the stack, and copies all
//! of it, though at its beginning there is little in it but its arguments.
//!
//! They had better be no larger than a word: one that is has to be copied, and what lies beside it in the future with it.

use std::pin::Pin;

/// What `make` makes, in a box.
#[inline(always)]
pub fn boxed<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}

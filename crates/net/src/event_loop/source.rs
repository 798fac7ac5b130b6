//! Watched descriptors other than connections, which may be shared with other threads or processes.

use super::reactor::{self, Watched};
use rustix::fd::AsFd;
use std::future::poll_fn;
use std::io;
use std::ops::Deref;

/// A descriptor that is watched until this is dropped.
#[derive(Debug)]
pub struct Source<T: AsFd> {
    watched: Watched,
    inner: T,
}

impl<T: AsFd> Source<T> {
    /// Watches a non-blocking descriptor.
    ///
    /// # Errors
    /// Errors of `epoll_ctl(2)`.
    pub fn new(inner: T) -> io::Result<Source<T>> {
        Ok(Source { watched: Watched::new(&inner)?, inner })
    }

    /// Waits until a read may succeed.
    pub async fn readable(&self) {
        poll_fn(|cx| self.watched.poll_readable(cx)).await;
    }

    /// Notes that nothing is left to read.
    pub fn note_empty(&self) {
        self.watched.note_empty();
    }
}

impl<T: AsFd> Deref for Source<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: AsFd> Drop for Source<T> {
    fn drop(&mut self) {
        // Closing ends a watch only with the last copy of the descriptor.
        reactor::forget(&self.inner);
    }
}

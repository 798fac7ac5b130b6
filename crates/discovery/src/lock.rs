//! Locks that are taken after a panic, too.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it in any case: what a panic left half done is at worst an old list, or an old plan.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

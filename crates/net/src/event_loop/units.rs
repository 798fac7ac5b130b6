//! The work that is left to the task whose turn it is, in units: see [`budget`](super::budget).

use std::cell::Cell;

/// Units of a turn. One is two or three microseconds of work: a read or write of some hundred bytes, or a part of a larger
/// one. A request that is answered at once takes four.
pub const TURN: u32 = 128;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(TURN) };
}

/// Begins a turn.
#[inline]
pub fn renew() {
    LEFT.set(TURN);
}

/// Draws one; false if none are left.
#[inline]
pub fn draw() -> bool {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(1));
    left > 0
}

/// Draws some, or those that are left if they are fewer.
#[inline]
pub fn charge(units: u32) {
    LEFT.set(LEFT.get().saturating_sub(units));
}

/// True if none are left.
#[inline]
pub fn is_spent() -> bool {
    LEFT.get() == 0
}

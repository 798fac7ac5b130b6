//! Remaining budget of the current turn, in units: see [`budget`](super::budget).

use std::cell::Cell;

/// Units of a turn. One unit is two or three microseconds of work: a read or write of some hundred bytes, or
/// part of a larger one. A request that is answered at once takes four.
pub const TURN: u32 = 128;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(TURN) };
}

/// Starts a turn with a full budget.
#[inline]
pub fn renew() {
    LEFT.set(TURN);
}

/// Draws one unit; false if none is left.
#[inline]
pub fn draw() -> bool {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(1));
    left > 0
}

/// Draws several units, or all that are left.
#[inline]
pub fn charge(units: u32) {
    LEFT.set(LEFT.get().saturating_sub(units));
}

/// True if no units are left.
#[inline]
pub fn is_spent() -> bool {
    LEFT.get() == 0
}

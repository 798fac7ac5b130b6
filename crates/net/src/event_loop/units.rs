//! Remaining budget of the current turn, in units: see [`budget`](super::budget).

use std::cell::Cell;

/// Units of a turn. A unit is two or three microseconds of work: a read or write of some hundred bytes, or
/// part of a larger read. A request with an immediate response takes four.
pub const TURN: u32 = 128;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(TURN) };
    /// Units that were charged beyond those that were left, since they were lent.
    static OWED: Cell<u32> = const { Cell::new(0) };
}

/// Starts a turn with a full budget.
#[inline]
pub fn renew() {
    LEFT.set(TURN);
}

/// Draws a unit; false if none is left.
#[inline]
pub fn draw() -> bool {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(1));
    left > 0
}

/// Draws several units, or all that are left.
#[inline]
pub fn charge(units: u32) {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(units));
    if units > left {
        OWED.set(OWED.get().saturating_add(units - left));
    }
}

/// Draws all units that are left.
pub fn end() {
    LEFT.set(0);
}

/// Units of a turn that were lent for a part of its work.
pub struct Lent {
    before: u32,
    lent: u32,
}

/// Lends the units of this turn, but no more than `most`.
#[inline]
pub fn lend(most: i64) -> Lent {
    let before = LEFT.get();
    let lent = u32::try_from(most).unwrap_or(u32::MAX).min(before);
    LEFT.set(lent);
    OWED.set(0);
    Lent { before, lent }
}

impl Lent {
    /// Gives back the rest. Returns the units that were used, also units beyond the lent number.
    #[inline]
    pub fn give_back(self) -> i64 {
        let used = self.lent - LEFT.get().min(self.lent);
        LEFT.set(self.before - used);
        i64::from(used) + i64::from(OWED.get())
    }
}

/// True if no units are left.
#[inline]
pub fn is_spent() -> bool {
    LEFT.get() == 0
}

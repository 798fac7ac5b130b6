//! `tolerate` of a pool: the words of [`Tolerated`], read and written.

use crate::table::{Field, Kind, Located, Value, list, quote};
use evenkeel_wire::http1::tolerance::{Tolerance, Tolerated};

/// Word of each fault, in the order of the reference.
pub(super) const FAULTS: &[&str] = &{
    let mut words = [""; Tolerance::ALL.len()];
    let mut at = 0;
    while at < words.len() {
        words[at] = Tolerance::ALL[at].name();
        at += 1;
    }
    words
};

impl Field for Tolerated {
    fn read(value: Value) -> Tolerated {
        let Value::List(words) = value else { return Tolerated::default() };
        let is_named = |fault: &Tolerance| {
            words.iter().any(|Located { value, .. }| matches!(value, Value::Word(word) if *word == fault.name()))
        };
        Tolerance::ALL.into_iter().filter(is_named).fold(Tolerated::default(), Tolerated::with)
    }

    fn write(&self, _: &Tolerated, _: &Kind) -> String {
        list(Tolerance::ALL.iter().filter(|fault| self.has(**fault)).map(|fault| quote(fault.name())))
    }
}

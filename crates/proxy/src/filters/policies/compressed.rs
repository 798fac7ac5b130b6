//! State of a request at `compress` of its route: the coding, the decision about the response, and its bytes. It counts
//! the response when it ends.

use crate::observe::route_stats::{Compressed, RouteStats};
use evenkeel_compress::coding::Coding;
use evenkeel_compress::encoder::Room;
use evenkeel_compress::refusal::Refusal;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// State of a request at `compress` of its route.
pub struct CompressState {
    /// Coding that the client gets, or the reason why it gets none.
    pub coding: Result<Coding, Refusal>,
    /// True if the client may get gzip too, as far as that was looked at: only while memory is tight.
    pub takes_gzip: bool,
    /// Values of `If-None-Match` as the client sent them, if there is a coding.
    pub asked: Vec<u8>,
    pub is_head: bool,
    pub decision: Decision,
    pub tally: Rc<Tally>,
    /// Statistics of the route, which count the response when this is dropped.
    pub stats: Arc<RouteStats>,
}

impl Drop for CompressState {
    fn drop(&mut self) {
        if let Some(compressed) = self.compressed() {
            self.stats.compression.count(&compressed);
        }
    }
}

/// Decision of the filter about a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// There is no response yet, or it is a 304.
    None,
    Refused(Refusal),
    Compressed(Coding, Room),
    /// Sent in a compressed form that was stored, with the lengths of both bodies.
    Stored(Coding, [u64; 2]),
}

/// Bytes of a response, counted while it passes.
#[derive(Debug, Default)]
pub struct Tally {
    pub before: Cell<u64>,
    pub after: Cell<u64>,
}

impl CompressState {
    /// The response, if it was compressed and has a body.
    fn compressed(&self) -> Option<Compressed> {
        match self.decision {
            Decision::Compressed(coding, _) => {
                let (before, after) = (self.tally.before.get(), self.tally.after.get());
                (after > 0).then_some(Compressed { coding, before, after, is_stored: false })
            }
            Decision::Stored(coding, [before, after]) if !self.is_head => {
                Some(Compressed { coding, before, after, is_stored: true })
            }
            _ => None,
        }
    }

    /// Decision in words; empty if there is none.
    pub fn text(&self) -> String {
        match (self.decision, self.compressed()) {
            (Decision::None, _) => String::new(),
            (Decision::Refused(refusal), _) => format!("not compressed: {refusal}"),
            (_, Some(Compressed { coding, before, after, is_stored })) => {
                let how = if is_stored { ", stored so" } else { "" };
                format!("{coding}, {} to {} bytes{how}", grouped(before), grouped(after))
            }
            (Decision::Compressed(coding, _) | Decision::Stored(coding, _), None) => format!("{coding}, no body"),
        }
    }
}

/// Number with a comma between groups of three digits.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_read_in_groups() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(n), text);
        }
    }
}

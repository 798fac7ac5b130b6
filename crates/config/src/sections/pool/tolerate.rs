//! Which faults of old servers are let through? [`Tolerated`], `tolerate` of a pool.

use crate::table::{Field, Kind, Located, Value, Words, list, quote, words};

words! {
    /// A fault in responses that evenkeel can repair without doubt about what was meant.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Tolerance {
        /// White space behind the size of a chunk.
        ChunkSizePadding = "chunk-size-padding",
        /// Lines of a head that end in LF alone.
        BareLfHead = "bare-lf-head",
        /// A field that goes on in the next line.
        FoldedFields = "folded-fields",
        /// The same length, stated more than once.
        DuplicateContentLength = "duplicate-content-length",
        /// `Transfer-Encoding: chunked`, stated more than once.
        DuplicateChunked = "duplicate-chunked",
        /// `Transfer-Encoding: identity`.
        Identity = "identity",
    }
}

impl Tolerance {
    /// Its word in the configuration.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

/// A set of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tolerated(u8);

impl Tolerated {
    /// Whether this fault is let through.
    pub fn has(self, fault: Tolerance) -> bool {
        self.0 & 1 << fault as u8 != 0
    }

    /// The same, and this fault.
    #[must_use]
    pub fn with(self, fault: Tolerance) -> Tolerated {
        Tolerated(self.0 | 1 << fault as u8)
    }
}

impl Field for Tolerated {
    fn read(value: Value) -> Tolerated {
        let Value::List(faults) = value else { return Tolerated::default() };
        faults.into_iter().fold(Tolerated::default(), |set, Located { value, .. }| match value {
            Value::Word(word) => Tolerance::of_word(word).map_or(set, |fault| set.with(fault)),
            _ => set,
        })
    }

    fn write(&self, _: &Tolerated, _: &Kind) -> String {
        list(Tolerance::ALL.iter().filter(|(fault, _)| self.has(*fault)).map(|(_, word)| quote(word)))
    }
}

//! Faults of old servers that a pool may tolerate: [`Tolerated`], a set of [`Tolerance`]. [`super::mend`] repairs them.

/// A fault in responses that can be repaired without doubt about the meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// White space after the size of a chunk.
    ChunkSizePadding,
    /// Lines of a head that end in LF alone.
    BareLfHead,
    /// A field that continues in the next line.
    FoldedFields,
    /// The length stated more than once, always with the same value.
    DuplicateContentLength,
    /// `Transfer-Encoding: chunked`, stated more than once.
    DuplicateChunked,
    /// `Transfer-Encoding: identity`.
    Identity,
}

impl Tolerance {
    /// All faults, in the order of the docs.
    pub const ALL: [Tolerance; 6] = [
        Tolerance::ChunkSizePadding,
        Tolerance::BareLfHead,
        Tolerance::FoldedFields,
        Tolerance::DuplicateContentLength,
        Tolerance::DuplicateChunked,
        Tolerance::Identity,
    ];

    /// Name in the configuration and the access log.
    pub const fn name(self) -> &'static str {
        match self {
            Tolerance::ChunkSizePadding => "chunk-size-padding",
            Tolerance::BareLfHead => "bare-lf-head",
            Tolerance::FoldedFields => "folded-fields",
            Tolerance::DuplicateContentLength => "duplicate-content-length",
            Tolerance::DuplicateChunked => "duplicate-chunked",
            Tolerance::Identity => "identity",
        }
    }
}

/// A set of tolerated faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tolerated(u8);

impl Tolerated {
    /// True if this fault is tolerated.
    pub fn has(self, fault: Tolerance) -> bool {
        self.0 & 1 << fault as u8 != 0
    }

    /// Returns the set with this fault added.
    #[must_use]
    pub fn with(self, fault: Tolerance) -> Tolerated {
        Tolerated(self.0 | 1 << fault as u8)
    }
}

//! Traces and spans, and their digits.

/// Format of trace context in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// W3C: `traceparent` and `tracestate`.
    W3c,
    /// B3 in the single field `b3`.
    B3,
    /// B3 in `X-B3-TraceId` and other fields.
    B3Multi,
}

/// A set of formats, such as those to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Formats(pub(super) u8);

impl Formats {
    /// Returns the set with this format added.
    #[must_use]
    pub fn with(self, format: Format) -> Formats {
        Formats(self.0 | 1 << format as u8)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub fn and(self, other: Formats) -> Formats {
        Formats(self.0 | other.0)
    }

    /// True if this format is in the set.
    pub fn has(self, format: Format) -> bool {
        self.0 & 1 << format as u8 != 0
    }
}

/// Decision to record a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampled {
    /// No decision yet, which only B3 can express.
    #[default]
    Undecided,
    /// The trace is not recorded.
    No,
    /// The trace is recorded as usual.
    Yes,
    /// The trace is recorded at all costs (B3 only).
    Debug,
}

/// A span of a trace. Further spans of the request are its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Identifier of the trace; not 0.
    pub trace: u128,
    /// Identifier of the span; not 0.
    pub span: u64,
    /// True if the last 7 bytes of the trace are known to be random.
    pub is_random: bool,
}

/// Returns a span in 16 hexadecimal digits.
pub fn digits(span: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    for (at, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(span >> (60 - 4 * at)) as usize & 15];
    }
    digits
}

/// Reads digits in lower case; `None` for 0.
pub(super) fn hex(digits: &[u8]) -> Option<u128> {
    hex_or_zero(digits).filter(|n| *n > 0)
}

/// Reads at most 32 digits in lower case.
pub(super) fn hex_or_zero(digits: &[u8]) -> Option<u128> {
    debug_assert!(digits.len() <= 32, "more would not fit");
    digits.iter().try_fold(0, |n: u128, digit| match digit {
        b'0'..=b'9' => Some(n << 4 | u128::from(digit - b'0')),
        b'a'..=b'f' => Some(n << 4 | u128::from(digit - b'a' + 10)),
        _ => None,
    })
}

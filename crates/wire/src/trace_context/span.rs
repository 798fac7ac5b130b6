//! What are a trace and a span, and how are they written in digits?

/// How a trace is told of in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `traceparent`, and `tracestate`.
    W3c,
    /// `b3`.
    B3,
    /// `X-B3-TraceId` and others.
    B3Multi,
}

/// A set of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Formats(pub(super) u8);

impl Formats {
    /// That one too.
    #[must_use]
    pub fn with(self, format: Format) -> Formats {
        Formats(self.0 | 1 << format as u8)
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, other: Formats) -> Formats {
        Formats(self.0 | other.0)
    }

    /// Whether it is one of them.
    pub fn has(self, format: Format) -> bool {
        self.0 & 1 << format as u8 != 0
    }
}

/// Whether a trace is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampled {
    /// It was not decided yet, which only B3 can say.
    #[default]
    Undecided,
    /// It is not.
    No,
    /// It is.
    Yes,
    /// It is, at all costs (B3 alone).
    Debug,
}

/// A span of a trace: what goes on belongs below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace; not 0.
    pub trace: u128,
    /// The span; not 0.
    pub span: u64,
    /// Whether the last 7 bytes of the trace are random, as far as is known.
    pub is_random: bool,
}

/// A span in 16 digits.
pub fn digits(span: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    for (at, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(span >> (60 - 4 * at)) as usize & 15];
    }
    digits
}

/// Digits in lower case, of which one is not 0.
pub(super) fn hex(digits: &[u8]) -> Option<u128> {
    hex_or_zero(digits).filter(|n| *n > 0)
}

/// At most 32 digits in lower case.
pub(super) fn hex_or_zero(digits: &[u8]) -> Option<u128> {
    debug_assert!(digits.len() <= 32, "more would not fit");
    digits.iter().try_fold(0, |n: u128, digit| match digit {
        b'0'..=b'9' => Some(n << 4 | u128::from(digit - b'0')),
        b'a'..=b'f' => Some(n << 4 | u128::from(digit - b'a' + 10)),
        _ => None,
    })
}

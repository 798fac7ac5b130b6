//! Content codings that responses are compressed with, and their levels.

use std::fmt;
use std::ops::RangeInclusive;

/// A content coding of responses (RFC 9110 section 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Zstandard (RFC 8878).
    Zstd,
    /// Brotli (RFC 7932).
    Brotli,
    /// gzip (RFC 1952).
    Gzip,
}

impl Coding {
    /// All codings, in the order of their variants.
    pub const ALL: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];

    /// Name in `Content-Encoding` and `Accept-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }

    /// Coding of this name in any case. `x-gzip` is another name of gzip.
    pub fn named(name: &[u8]) -> Option<Coding> {
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Coding::Gzip);
        }
        Coding::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }

    /// Lowest and highest level. At higher levels than these, the pieces of a body keep a worker busy for several
    /// milliseconds each, and a compressor needs tens of megabytes.
    pub fn levels(self) -> RangeInclusive<u8> {
        match self {
            Coding::Zstd => 1..=7,
            Coding::Brotli => 0..=5,
            Coding::Gzip => 1..=9,
        }
    }

    /// Level for the least time, for the default, or for the fewest bytes. The default of gzip needs about as much time
    /// as level 1 of zlib, for responses nearly as small as the results of its level 6.
    pub fn level(self, effort: Effort) -> u8 {
        let [fast, usual, best] = match self {
            Coding::Zstd => [1, 3, 6],
            Coding::Brotli => [2, 4, 5],
            Coding::Gzip => [2, 5, 7],
        };
        match effort {
            Effort::Fast => fast,
            Effort::Usual => usual,
            Effort::Best => best,
        }
    }

    /// Level of a body that is compressed once for many clients. It takes the time of two to ten streams at the default
    /// level, for 1 to 9 % fewer bytes, and about a millisecond at most for 16 KiB. The next levels take several times
    /// as long, which a response that is stored for seconds would not be worth.
    pub fn level_of_whole(self) -> u8 {
        match self {
            Coding::Zstd => 9,
            Coding::Brotli => 6,
            Coding::Gzip => 7,
        }
    }
}

/// Effort of compression, for any coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Least time, about 3 ms a megabyte for zstd.
    Fast,
    /// Balance of time and bytes.
    #[default]
    Usual,
    /// Fewest bytes, for two to three times the default time.
    Best,
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

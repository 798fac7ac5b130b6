//! Limits of a field section, counted while it is decoded.

use super::integer::Error;

/// Limits of a block's fields. Those beyond are not passed on.
#[derive(Clone, Copy, Debug)]
pub struct HeaderLimits {
    /// Most bytes of names and values.
    pub bytes: usize,
    /// Most fields. The crumbs of a cookie count as a single field (RFC 9113 section 8.2.3).
    pub fields: usize,
}

/// Result of decoding a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Limit that the block exceeds, if any.
    pub over: Option<Over>,
}

/// A limit of [`HeaderLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The block has more bytes than allowed.
    Bytes,
    /// The block has more fields than allowed.
    Fields,
}

/// Factor above the limits from which a block is not read to its end: few bytes can decode to many megabytes.
const FAR_OVER: usize = 8;

/// Counts the fields of a block.
#[derive(Debug)]
pub struct Meter {
    limits: HeaderLimits,
    bytes: usize,
    fields: usize,
    has_cookie: bool,
}

impl Meter {
    pub fn new(limits: HeaderLimits) -> Meter {
        Meter { limits, bytes: 0, fields: 0, has_cookie: false }
    }

    /// Counts a field; true if the block is still within the limits.
    ///
    /// # Errors
    /// If the block is many times larger than the limits.
    #[inline]
    pub fn count(&mut self, name: &[u8], value: &[u8]) -> Result<bool, Error> {
        // Clients send a crumb per cookie, so that their tables hold them; `; ` joins them.
        if name == b"cookie" && std::mem::replace(&mut self.has_cookie, true) {
            self.bytes = self.bytes.saturating_add(2 + value.len());
        } else {
            self.fields += 1;
            self.bytes = self.bytes.saturating_add(name.len() + value.len());
        }
        let HeaderLimits { bytes, fields } = self.limits;
        if self.fields <= fields && self.bytes <= bytes {
            return Ok(true);
        }
        if self.fields / FAR_OVER > fields || self.bytes / FAR_OVER > bytes {
            return Err(Error::TooLarge);
        }
        Ok(false)
    }

    /// Returns the limit that the block exceeds, if any.
    pub fn decoded(&self) -> Decoded {
        let HeaderLimits { bytes, fields } = self.limits;
        let over = if self.bytes > bytes { Some(Over::Bytes) } else { (self.fields > fields).then_some(Over::Fields) };
        Decoded { over }
    }
}

//! Ids of requests, the same for the client, the endpoint, the log and every other record: 16 bytes that are generated
//! here, or the id that a trusted proxy sent.
//!
//! Half of a generated id is random and fixed per worker, the other half is the worker's count of requests, scrambled
//! with random keys: ids do not repeat, and the next id cannot be guessed from the last. An id is a name, not a secret:
//! it must not grant anything.

use evenkeel_balance::rng::mix;
use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

/// Longest id accepted from a proxy, in bytes.
pub const TAKEN_MAX: usize = 128;

/// Number of digits of a generated id.
pub const DIGITS: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestId {
    /// Generated here: 32 digits.
    Made {
        /// Random half, of the worker.
        origin: u64,
        /// Scrambled count of the request there.
        number: u64,
    },
    /// Id sent by a trusted proxy: visible ASCII.
    Taken(Rc<str>),
}

impl RequestId {
    /// The id that a proxy sent; `None` unless it is 1 to [`TAKEN_MAX`] bytes of visible ASCII.
    pub fn take(value: &[u8]) -> Option<RequestId> {
        let fits = (1..=TAKEN_MAX).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic);
        fits.then(|| RequestId::Taken(String::from_utf8_lossy(value).into()))
    }

    /// A generated id as a number, usable as a trace id; `None` for ids sent by a proxy.
    pub fn number(&self) -> Option<u128> {
        match self {
            RequestId::Made { origin, number } => Some(u128::from(*origin) << 64 | u128::from(*number)),
            RequestId::Taken(_) => None,
        }
    }

    /// Appends the id as text. It has no spaces or control characters, so it is safe in a header field and a log line.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            RequestId::Made { origin, number } => {
                let mut digits = [0; DIGITS];
                let (first, last) = digits.split_at_mut(DIGITS / 2);
                hex(first, *origin);
                hex(last, *number);
                out.extend_from_slice(&digits);
            }
            RequestId::Taken(text) => out.extend_from_slice(text.as_bytes()),
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestId::Made { origin, number } => write!(f, "{origin:016x}{number:016x}"),
            RequestId::Taken(text) => f.write_str(text),
        }
    }
}

/// Generator of ids of a worker.
#[derive(Debug)]
pub struct RequestIds {
    origin: u64,
    keys: [u64; 3],
    count: Cell<u64>,
}

impl RequestIds {
    /// Creates a generator with random keys.
    pub fn random() -> RequestIds {
        let random = RandomState::new();
        let key = |n: u64| random.hash_one(n);
        RequestIds { origin: key(0), keys: [key(1), key(2), key(3)], count: Cell::new(0) }
    }

    #[inline]
    pub fn make(&self) -> RequestId {
        let count = self.count.get();
        self.count.set(count.wrapping_add(1));
        // Each step is a bijection, so no two counts give the same number.
        let [first, second, third] = self.keys;
        let number = mix(mix(count ^ first) ^ second) ^ third;
        RequestId::Made { origin: self.origin, number }
    }
}

/// Writes a number as hexadecimal digits: 16 if `room` has 16 bytes.
pub fn hex(room: &mut [u8], n: u64) {
    for (digits, byte) in room.as_chunks_mut().0.iter_mut().zip(n.to_be_bytes()) {
        *digits = HEX[usize::from(byte)];
    }
}

/// Two hexadecimal digits for each byte value.
const HEX: [[u8; 2]; 256] = {
    let (mut hex, mut i, digits) = ([[0; 2]; 256], 0, b"0123456789abcdef");
    while i < 256 {
        hex[i] = [digits[i >> 4], digits[i & 15]];
        i += 1;
    }
    hex
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn text(id: &RequestId) -> String {
        let mut out = Vec::new();
        id.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn no_id_comes_twice_and_none_tells_the_next() {
        let (ids, others) = (RequestIds::random(), RequestIds::random());
        let made: Vec<RequestId> = (0..1000).map(|_| ids.make()).chain((0..1000).map(|_| others.make())).collect();
        assert_eq!(made.iter().map(text).collect::<HashSet<_>>().len(), 2000);
        assert!(made.iter().all(|id| text(id).len() == DIGITS && text(id) == id.to_string()));
        let RequestIds { origin, .. } = ids;
        assert_ne!(origin, others.origin);
        // Neighbours differ in about half of 64 bits: outside of 9..56 with a probability of 6e-10 per pair.
        let numbers: Vec<u64> =
            made[..1000].iter().map(|id| if let RequestId::Made { number, .. } = id { *number } else { 0 }).collect();
        assert!(numbers.windows(2).all(|pair| (9..56).contains(&(pair[0] ^ pair[1]).count_ones())));
        let same =
            numbers.windows(3).filter(|three| three[1].wrapping_sub(three[0]) == three[2].wrapping_sub(three[1]));
        assert_eq!(same.count(), 0);
    }

    #[test]
    fn only_what_can_be_a_field_and_a_word_is_taken_over() {
        for good in ["a", "0af7651916cd43dd8448eb211c80319c", "Root=1-67891233-abcdef012345678912345678", "\"\\"] {
            assert_eq!(RequestId::take(good.as_bytes()).map(|id| text(&id)).as_deref(), Some(good));
        }
        let (longest, too_long) = ([b'x'; TAKEN_MAX], [b'x'; TAKEN_MAX + 1]);
        assert!(RequestId::take(&longest).is_some());
        for bad in [&b""[..], b"a b", b"a\tb", b"a\r\nb", b"\x7f", b"\xc3\xb6", &too_long] {
            assert_eq!(RequestId::take(bad), None, "{bad:?}");
        }
    }
}

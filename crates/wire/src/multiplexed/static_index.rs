//! The search for fields in the static tables of HPACK and QPACK.

/// A static table: name and value of each field.
type Fields<const N: usize> = [(&'static str, &'static str); N];

/// Hash table of the names in a static table of `N` fields, at most 255.
#[derive(Debug)]
pub struct StaticIndex<const N: usize> {
    fields: &'static Fields<N>,
    /// Position of the first field of each name, plus 1; 0 for none.
    first: [u8; 256],
    /// Position of the next field with the same name, plus 1; 0 for none.
    next: [u8; N],
}

impl<const N: usize> StaticIndex<N> {
    /// Returns the index of a table.
    pub const fn new(fields: &'static Fields<N>) -> StaticIndex<N> {
        let (mut first, mut next) = ([0u8; 256], [0u8; N]);
        let mut at = 0;
        while at < N {
            let name = fields[at].0.as_bytes();
            let mut slot = hash(name) as usize % 256;
            while first[slot] != 0 && !same(fields[first[slot] as usize - 1].0.as_bytes(), name) {
                slot = (slot + 1) % 256;
            }
            if first[slot] == 0 {
                first[slot] = at as u8 + 1;
            } else {
                let mut last = first[slot] as usize - 1;
                while next[last] != 0 {
                    last = next[last] as usize - 1;
                }
                next[last] = at as u8 + 1;
            }
            at += 1;
        }
        StaticIndex { fields, first, next }
    }

    /// Returns the position of a field, and true if its value matches too; `None` if its name is unknown. `hash`: hash
    /// of the name. A value that is empty never matches, as it only means that the name has no usual value.
    pub fn find(&self, hash: u32, name: &[u8], value: &[u8]) -> Option<(usize, bool)> {
        let mut slot = hash as usize % 256;
        let first = loop {
            match usize::from(self.first[slot]) {
                0 => return None,
                at if self.fields[at - 1].0.as_bytes() == name => break at - 1,
                _ => slot = (slot + 1) % 256,
            }
        };
        let mut at = first;
        while !value.is_empty() {
            if self.fields[at].1.as_bytes() == value {
                return Some((at, true));
            }
            match usize::from(self.next[at]) {
                0 => break,
                next => at = next - 1,
            }
        }
        Some((first, false))
    }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Hashes a name or a value, eight bytes at a time. Peers can choose colliding fields, but that only costs time, which
/// is bounded.
pub const fn hash(text: &[u8]) -> u32 {
    // The mix of FxHash: a factor that is odd, with bits everywhere.
    const FACTOR: u64 = 0x517c_c1b7_2722_0a95;
    let (mut hash, mut rest) = (text.len() as u64, text);
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR);
        rest = behind;
    }
    let (mut word, mut i) = (0, 0);
    while i < rest.len() {
        word = word << 8 | rest[i] as u64;
        i += 1;
    }
    hash = (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    // The upper bits are mixed best.
    (hash >> 32) as u32
}

//! The static table of fields that every peer knows (RFC 7541 appendix A).

/// Name and value of each field, from index 1 on.
pub const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Hash table of names, with the first index of each name; 0 for none.
static BY_NAME: [u8; 256] = by_name();

const fn by_name() -> [u8; 256] {
    let mut slots = [0; 256];
    let mut at = 0;
    while at < STATIC.len() {
        if at == 0 || !same(STATIC[at].0.as_bytes(), STATIC[at - 1].0.as_bytes()) {
            let mut slot = hash(STATIC[at].0.as_bytes()) as usize % 256;
            while slots[slot] != 0 {
                slot = (slot + 1) % 256;
            }
            slots[slot] = at as u8 + 1;
        }
        at += 1;
    }
    slots
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

/// Returns the index of a field, and true if its value matches too; `None` if its name is unknown. `hash`: hash of the
/// name.
pub fn find(hash: u32, name: &[u8], value: &[u8]) -> Option<(usize, bool)> {
    let mut slot = hash as usize % 256;
    let first = loop {
        match usize::from(BY_NAME[slot]) {
            0 => return None,
            index if STATIC[index - 1].0.as_bytes() == name => break index,
            _ => slot = (slot + 1) % 256,
        }
    };
    let alike = STATIC[first - 1..].iter().take_while(|(other, _)| other.as_bytes() == name);
    let whole = alike.enumerate().find(|(_, (_, other))| other.as_bytes() == value && !value.is_empty());
    Some(whole.map_or((first, false), |(n, _)| (first + n, true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_found() {
        for (i, (name, value)) in STATIC.iter().enumerate() {
            let (index, whole) = find(hash(name.as_bytes()), name.as_bytes(), value.as_bytes()).expect(name);
            assert_eq!(STATIC[index - 1].0, *name);
            assert!(!whole && value.is_empty() || index == i + 1, "{name}");
        }
        assert_eq!(find(hash(b"x-other"), b"x-other", b""), None);
        assert_eq!(find(hash(b":status"), b":status", b"299"), Some((8, false)));
    }
}

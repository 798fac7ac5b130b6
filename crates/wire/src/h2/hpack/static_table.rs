//! The static table of fields that every peer knows (RFC 7541 appendix A).

use crate::multiplexed::static_index::StaticIndex;

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

static INDEX: StaticIndex<61> = StaticIndex::new(&STATIC);

/// Returns the index of a field, and true if its value matches too; `None` if its name is unknown. `hash`: hash of the
/// name.
pub fn find(hash: u32, name: &[u8], value: &[u8]) -> Option<(usize, bool)> {
    INDEX.find(hash, name, value).map(|(at, whole)| (at + 1, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multiplexed::static_index::hash;

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

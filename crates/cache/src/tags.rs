//! Tags of responses that purges go by: `Surrogate-Key`, separated by white space, and `Cache-Tag`, separated by commas.

use evenkeel_wire::head::Fields;

/// Fields that carry tags. Clients get them only if the policy allows it.
pub const FIELDS: [&str; 2] = ["surrogate-key", "cache-tag"];

/// Most tags of a response. Common CDNs allow some hundreds to a thousand.
pub const TAGS_MAX: usize = 256;

/// Longest tag in bytes.
pub const TAG_MAX: usize = 256;

/// Reads the distinct tags of a response, each with LF. `None` if there are too many tags, or a tag is too long: a
/// purge would not find a response whose tags were cut, so it must not be stored.
pub(crate) fn read(fields: &Fields<'_, '_>) -> Option<Vec<u8>> {
    let by_space = fields.values(FIELDS[0]).flat_map(|line| line.split(|b| matches!(b, b' ' | b'\t')));
    let by_comma = fields.values(FIELDS[1]).flat_map(|line| line.split(|b| *b == b',')).map(<[u8]>::trim_ascii);
    let mut tags: Vec<&[u8]> = Vec::new();
    for tag in by_space.chain(by_comma).filter(|tag| !tag.is_empty()) {
        if tag.len() > TAG_MAX || tag.contains(&b'\n') {
            return None;
        }
        if !tags.contains(&tag) {
            if tags.len() == TAGS_MAX {
                return None;
            }
            tags.push(tag);
        }
    }
    let mut text = Vec::with_capacity(tags.iter().map(|tag| tag.len() + 1).sum());
    for tag in tags {
        text.extend_from_slice(tag);
        text.push(b'\n');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::head::Table;

    fn of(fields: &[(&str, &str)]) -> Option<String> {
        let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        read(&table.fields()).map(|tags| String::from_utf8(tags).unwrap())
    }

    #[test]
    fn both_fields_are_read_each_in_its_own_way() {
        let tags = of(&[("Surrogate-Key", "a  b,c"), ("Cache-Tag", " d e ,, f"), ("cache-tag", "a")]);
        assert_eq!(tags.as_deref(), Some("a\nb,c\nd e\nf\n"));
        assert_eq!(of(&[]).as_deref(), Some(""));
    }

    #[test]
    fn what_a_purge_could_miss_is_refused() {
        let tags = |count: usize| (0..count).map(|i| i.to_string()).collect::<Vec<_>>().join(" ");
        assert!(of(&[("Surrogate-Key", &tags(TAGS_MAX))]).is_some());
        assert!(of(&[("Surrogate-Key", &tags(TAGS_MAX + 1))]).is_none());
        assert!(of(&[("Cache-Tag", &"x".repeat(TAG_MAX))]).is_some());
        assert!(of(&[("Cache-Tag", &"x".repeat(TAG_MAX + 1))]).is_none());
    }
}

//! Entity tags (RFC 9110 section 8.8.3) and their comparison.
//!
//! A tag that is not well formed is compared byte for byte and is never strong.

use super::list;

/// Returns the tag without its mark of weakness.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// True if the tag is well formed and not weak.
pub fn is_strong(tag: &[u8]) -> bool {
    tag.len() >= 2 && tag.starts_with(b"\"") && tag.ends_with(b"\"") && !tag[1..tag.len() - 1].contains(&b'"')
}

/// Weak comparison: true if the tags name the same content, perhaps not byte for byte.
pub fn is_weakly_equal(a: &[u8], b: &[u8]) -> bool {
    opaque(a) == opaque(b)
}

/// Strong comparison: true if the tags name the same bytes.
pub fn is_strongly_equal(a: &[u8], b: &[u8]) -> bool {
    is_strong(a) && a == b
}

/// True if a value of `If-None-Match` names this tag by weak comparison, or is `*`.
pub fn is_named(value: &[u8], tag: Option<&[u8]>) -> bool {
    value.trim_ascii() == b"*" || tag.is_some_and(|tag| list::members(value).any(|named| is_weakly_equal(named, tag)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_follow_the_table_of_the_rfc() {
        for (a, b, strongly, weakly) in [
            (r#"W/"1""#, r#"W/"1""#, false, true),
            (r#"W/"1""#, r#"W/"2""#, false, false),
            (r#"W/"1""#, r#""1""#, false, true),
            (r#""1""#, r#""1""#, true, true),
            ("1", "1", false, true),
            (r#"w/"1""#, r#""1""#, false, false),
        ] {
            assert_eq!(is_strongly_equal(a.as_bytes(), b.as_bytes()), strongly, "{a} {b}");
            assert_eq!(is_weakly_equal(a.as_bytes(), b.as_bytes()), weakly, "{a} {b}");
        }
    }

    #[test]
    fn a_list_names_each_of_its_tags() {
        let tag = Some(&br#""a,b""#[..]);
        assert!(is_named(br#""1", "a,b", "2""#, tag) && is_named(br#"W/"a,b""#, tag) && is_named(b" * ", None));
        assert!(!is_named(br#""a", "b""#, tag) && !is_named(br#""1""#, None) && !is_named(b"", tag));
    }
}

//! Conditions of a client, evaluated against a stored response (RFC 9111 section 4.3.2, RFC 9110 section 13).

use crate::moment::Date;
use crate::stored::{Stored, Terms};
use crate::syntax::{date, entity_tag};
use evenkeel_wire::head::Request;

/// True if the client already has the stored response, so that it gets a 304: by `If-None-Match`, or without that field
/// by `If-Modified-Since`. Only for a response with status 200 that may be served now.
///
/// A response without `Last-Modified` counts as modified at its `Date`.
pub fn is_not_modified(request: &Request<'_, '_>, stored: &Stored) -> bool {
    if stored.status != 200 {
        return false;
    }
    if request.field("if-none-match").is_some() {
        let etag = stored.etag();
        return request.values("if-none-match").any(|value| entity_tag::is_named(value, etag));
    }
    let since = request.field("if-modified-since").and_then(date::read);
    since.is_some_and(|since| stored.terms.last_modified.unwrap_or(stored.terms.date) <= since)
}

/// True if the client's range applies to the stored response: without `If-Range`, or if that field names its strong
/// `ETag` or exactly its strong `Last-Modified` (RFC 9110 section 13.1.5).
pub fn is_range_valid(request: &Request<'_, '_>, stored: &Stored) -> bool {
    let Some(value) = request.field("if-range") else { return true };
    if let Some(wanted) = date::read(value) {
        return stored.terms.last_modified == Some(wanted) && is_date_strong(&stored.terms, wanted);
    }
    stored.etag().is_some_and(|etag| entity_tag::is_strongly_equal(value, etag))
}

/// True if content with this `Last-Modified` cannot have been modified again within the same second (RFC 9110 section
/// 8.8.2.2): its `Date` is at least a second later. Without a `Date` of the endpoint, the clock of this cache must be a
/// minute later.
fn is_date_strong(terms: &Terms, modified: Date) -> bool {
    modified.plus(if terms.is_dated { 1 } else { 60 }) <= terms.date
}

/// True if a 304 has this field: all but fields that describe the content (RFC 9110 section 15.4.5). `Last-Modified`
/// stays if there is no `ETag`.
pub fn is_in_304(name: &[u8], has_etag: bool) -> bool {
    const OF_CONTENT: [&str; 9] = [
        "content-type",
        "content-encoding",
        "content-language",
        "content-range",
        "content-md5",
        "content-digest",
        "repr-digest",
        "digest",
        "accept-ranges",
    ];
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    !(OF_CONTENT.into_iter().any(is) || has_etag && is("last-modified"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::tests::TERMS;
    use evenkeel_wire::head::Table;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn stored(etag: &str, dated: &str) -> Stored {
        let of = |text: &str| date::read(text.as_bytes()).unwrap();
        let terms = Terms { last_modified: Some(of(MODIFIED)), date: of(dated), ..TERMS };
        let etag = if etag.is_empty() { String::new() } else { format!("etag: {etag}\r\n") };
        Stored::new(200, terms, etag.into_bytes(), b"", b"")
    }

    fn with<T>(fields: &[(&str, &str)], f: impl FnOnce(&Request<'_, '_>) -> T) -> T {
        let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        f(&Request { method: "GET", target: "/", host: b"a", fields: table.fields() })
    }

    #[test]
    fn a_tag_decides_before_a_date() {
        for (fields, expected) in [
            (&[("If-None-Match", "\"a\"")][..], true),
            (&[("If-None-Match", "\"b\", W/\"a\"")], true),
            (&[("If-None-Match", "\"b\""), ("If-None-Match", "\"a\"")], true),
            (&[("If-None-Match", "*")], true),
            (&[("If-None-Match", "\"a\""), ("If-Modified-Since", BEFORE)], true),
            (&[("If-None-Match", "\"b\""), ("If-Modified-Since", AFTER)], false),
            (&[("If-Modified-Since", MODIFIED)], true),
            (&[("If-Modified-Since", BEFORE)], false),
            (&[("If-Modified-Since", "x")], false),
            (&[], false),
        ] {
            assert_eq!(
                with(fields, |request| is_not_modified(request, &stored("\"a\"", AFTER))),
                expected,
                "{fields:?}"
            );
        }
        let mut gone = stored("\"a\"", AFTER);
        gone.status = 404;
        assert!(!with(&[("If-None-Match", "\"a\"")], |request| is_not_modified(request, &gone)));
    }

    #[test]
    fn a_range_is_valid_for_the_same_bytes_only() {
        let strong = stored("\"a\"", AFTER);
        for (value, expected) in
            [("\"a\"", true), ("W/\"a\"", false), ("\"b\"", false), (MODIFIED, true), (AFTER, false), ("", false)]
        {
            assert_eq!(with(&[("If-Range", value)], |request| is_range_valid(request, &strong)), expected, "{value}");
        }
        assert!(!with(&[("If-Range", "W/\"a\"")], |request| is_range_valid(request, &stored("W/\"a\"", AFTER))));
        // Modified within the second in which it was sent: it may have been modified again.
        assert!(!with(&[("If-Range", MODIFIED)], |request| is_range_valid(request, &stored("", MODIFIED))));
        assert!(with(&[], |request| is_range_valid(request, &strong)));
        // Without a `Date` from the endpoint: its clock and the clock of this cache may differ.
        let undated = |date: Date| {
            let mut stored = stored("", AFTER);
            (stored.terms.date, stored.terms.is_dated) = (date, false);
            with(&[("If-Range", MODIFIED)], |request| is_range_valid(request, &stored))
        };
        let modified = date::read(MODIFIED.as_bytes()).unwrap();
        assert!(!undated(modified.plus(59)) && undated(modified.plus(60)));
    }

    #[test]
    fn a_304_describes_no_content() {
        assert!(is_in_304(b"ETag", true) && is_in_304(b"Vary", true) && is_in_304(b"Last-Modified", false));
        assert!(!is_in_304(b"Content-Type", true) && !is_in_304(b"Last-Modified", true));
    }
}

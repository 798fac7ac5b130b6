//! Entity tags of compressed responses (RFC 9110 section 8.8.3).
//!
//! Each coding of a response needs a separate tag, or a cache could confuse them, and a download be continued
//! with bytes of another. A compressed response gets the tag of the endpoint with the name of the coding at its end:
//! `"abc"` becomes `"abc-gzip"`. Requests with such a tag name the endpoint's tag in addition, so that the endpoint
//! recognises it; a tag that the endpoint itself has made so is still there, too. A 304 gets the tag that the client
//! has.
//!
//! The alternative, to make the tag weak, breaks `If-Match`, which compares strongly: a client could no longer change
//! what it has read.

use crate::coding::Coding;

/// Tag of a compressed response, from the endpoint's tag. `None` if that is malformed, so that it cannot be told apart.
pub fn coded(tag: &[u8], coding: Coding) -> Option<Vec<u8>> {
    let front = opaque(tag).and(tag.strip_suffix(b"\""))?;
    Some([front, b"-", coding.name().as_bytes(), b"\""].concat())
}

/// Tag of the endpoint, from the tag of a compressed response; `None` if the tag is not of that coding.
pub fn plain(tag: &[u8], coding: Coding) -> Option<Vec<u8>> {
    opaque(tag)?;
    let front = tag.strip_suffix(b"\"")?.strip_suffix(coding.name().as_bytes())?.strip_suffix(b"-")?;
    Some([front, b"\""].concat())
}

/// Value of `If-None-Match` or `If-Match` for the endpoint: with the endpoint's tag before each of these codings.
/// `None` if the value names none, so that it stays as it is.
///
/// For `If-None-Match`, only the coding that a response would get now counts: the client may have another coding that
/// it does not accept any more, or may be a cache that asks for someone else.
pub fn for_endpoint(value: &[u8], codings: &[Coding]) -> Option<Vec<u8>> {
    let (mut sent, mut is_changed) = (Vec::with_capacity(2 * value.len()), false);
    for tag in members(value) {
        for plain in codings.iter().filter_map(|coding| plain(tag, *coding)) {
            push(&mut sent, &plain);
            is_changed = true;
        }
        push(&mut sent, tag);
    }
    is_changed.then_some(sent)
}

/// Tag of a 304 for the client: the tag of the compressed response if the client has that, and not also the plain
/// response alone. `asked`: values of `If-None-Match` as the client sent them. `None` if the endpoint's tag stays.
pub fn not_modified(tag: &[u8], coding: Coding, asked: &[u8]) -> Option<Vec<u8>> {
    let coded = coded(tag, coding)?;
    members(asked).any(|named| opaque(named) == opaque(&coded)).then_some(coded)
}

/// Characters between the quotes; `None` if the tag is malformed.
fn opaque(tag: &[u8]) -> Option<&[u8]> {
    let quoted = tag.strip_prefix(b"W/").unwrap_or(tag);
    let opaque = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    (!opaque.contains(&b'"')).then_some(opaque)
}

fn push(list: &mut Vec<u8>, tag: &[u8]) {
    if !list.is_empty() {
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(tag);
}

/// Members of a list in which commas within quotes separate nothing. A backslash escapes nothing in a tag.
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    let ends = move |byte: &u8| {
        is_quoted ^= *byte == b'"';
        *byte == b',' && !is_quoted
    };
    value.split(ends).map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Coding::{Brotli, Gzip, Zstd};

    fn text(value: Option<Vec<u8>>) -> Option<String> {
        value.map(|value| String::from_utf8(value).expect("text"))
    }

    #[test]
    fn each_coding_has_a_tag_of_its_own_that_leads_back_to_the_endpoints() {
        assert_eq!(text(coded(br#""abc""#, Gzip)).as_deref(), Some(r#""abc-gzip""#));
        assert_eq!(text(coded(br#"W/"abc""#, Brotli)).as_deref(), Some(r#"W/"abc-br""#));
        for tag in ["abc", r#""abc"#, r#"abc""#, r#"""#, r#""a"b""#, ""] {
            assert_eq!(coded(tag.as_bytes(), Zstd), None, "{tag}");
        }
        for tag in [&br#""abc""#[..], br#""""#, br#"W/"a,b""#] {
            for coding in Coding::ALL {
                let coded = coded(tag, coding).expect("it is well formed");
                assert_eq!(plain(&coded, coding).as_deref(), Some(tag));
                assert_eq!(plain(tag, coding), None);
            }
        }
        assert_eq!(plain(br#""abc-br""#, Gzip), None);
    }

    #[test]
    fn a_condition_names_the_tag_of_the_endpoint_beside_that_of_the_client() {
        let sent = |value: &str, codings: &[Coding]| text(for_endpoint(value.as_bytes(), codings));
        assert_eq!(sent(r#""a-gzip""#, &[Gzip]).as_deref(), Some(r#""a", "a-gzip""#));
        assert_eq!(sent(r#""a-gzip""#, &[Brotli]), None, "a response in this coding has another tag");
        assert_eq!(
            sent(r#""x", W/"a,b-br" ,"a-gzip""#, &[Brotli]).as_deref(),
            Some(r#""x", W/"a,b", W/"a,b-br", "a-gzip""#)
        );
        assert_eq!(sent(r#""a-zstd", "b-gzip""#, &Coding::ALL).as_deref(), Some(r#""a", "a-zstd", "b", "b-gzip""#));
        for value in ["*", "", r#""a""#, r#""a-gzip"#, ","] {
            assert_eq!(sent(value, &Coding::ALL), None, "{value}");
        }
    }

    #[test]
    fn a_304_has_the_tag_that_the_client_has() {
        let tag = |tag: &str, asked: &str| text(not_modified(tag.as_bytes(), Gzip, asked.as_bytes()));
        assert_eq!(tag(r#""a""#, r#""a-gzip""#).as_deref(), Some(r#""a-gzip""#));
        assert_eq!(tag(r#"W/"a""#, r#""b", "a-gzip""#).as_deref(), Some(r#"W/"a-gzip""#));
        assert_eq!(tag(r#""a""#, r#""a""#), None);
        assert_eq!(tag(r#""a""#, "*"), None);
        assert_eq!(tag(r#""a-gzip""#, r#""a-gzip""#), None, "the endpoint's own tag");
    }
}

//! Variants: the responses under a key that differ by fields of the request (RFC 9111 section 4.1).

mod coding;

use crate::policy::Policy;
use crate::stored::Stored;
use crate::syntax::list;
use coding::thousandths;
use evenkeel_wire::endpoint_head::is_token;
use evenkeel_wire::head::{Fields, Request};

/// Most names in `Vary`. A response that depends on more is not stored.
pub const NAMES_MAX: usize = 16;

/// Fields whose value is not a list: commas and white space are part of it.
const NOT_LISTS: [&str; 8] =
    ["authorization", "cookie", "from", "host", "origin", "proxy-authorization", "referer", "user-agent"];

/// Fields whose members mean the same in any case and any order (RFC 9110 sections 12.5.2 to 12.5.4).
const UNORDERED: [&str; 3] = ["accept-charset", "accept-encoding", "accept-language"];

/// Names in `Vary`, in lower case, sorted, each once. `None` if `*` is among them, or if there are too many.
fn names(fields: &Fields<'_, '_>) -> Option<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for name in fields.values("vary").flat_map(list::tokens) {
        if name == b"*" || names.len() == NAMES_MAX {
            return None;
        }
        names.push(name.to_ascii_lowercase());
    }
    names.sort_unstable();
    names.dedup();
    Some(names)
}

/// Writes the request's values of the fields that a response varies by: for each name, sorted, a line `name: value`, or
/// `name` alone if the request does not have it. `None` if the response cannot be stored for it.
///
/// Values are normalised as far as their meaning is known to stay: lines are joined, white space around commas is
/// removed, and lists of languages and charsets are sorted. Of `Accept-Encoding` only the coding of the response counts.
pub fn write(request: &Request<'_, '_>, response: &Fields<'_, '_>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for name in names(response)? {
        let name = std::str::from_utf8(&name).ok().filter(|name| is_token(name.as_bytes()))?;
        let coding = (name == coding::ACCEPT).then(|| coding::line(request, response.values("content-encoding")));
        match coding.flatten().filter(|_| !has_lookalike(request, name)) {
            Some(line) => [name.as_bytes(), b": ", &line, b"\n"].iter().for_each(|part| text.extend_from_slice(part)),
            None => write_line(request, name, &mut text)?,
        }
    }
    Some(text)
}

fn write_line(request: &Request<'_, '_>, name: &str, text: &mut Vec<u8>) -> Option<()> {
    if has_lookalike(request, name) {
        return None;
    }
    text.extend_from_slice(name.as_bytes());
    if request.field(name).is_some() {
        text.extend_from_slice(b": ");
        let at = text.len();
        normalise(request, name, text);
        if memchr::memchr(b'\n', &text[at..]).is_some() {
            return None;
        }
    }
    text.push(b'\n');
    Some(())
}

/// True if the request has another field that CGI and its descendants cannot tell from this field. Only the endpoint
/// knows which of the two it reads.
fn has_lookalike(request: &Request<'_, '_>, name: &str) -> bool {
    let ours = name.as_bytes();
    let mut fields = request.fields.kept();
    fields.any(|(other, _)| list::is_like(other, ours) && !other.eq_ignore_ascii_case(ours))
}

fn normalise(request: &Request<'_, '_>, name: &str, text: &mut Vec<u8>) {
    let at = text.len();
    if UNORDERED.contains(&name) {
        sort_members(request, name, text);
        return;
    }
    let is_list = !NOT_LISTS.contains(&name);
    // HTTP/2 may cut a cookie into several fields (RFC 9113 section 8.2.3).
    let between: &[u8] = if name == "cookie" { b"; " } else { b"," };
    for value in request.values(name) {
        if text.len() > at {
            text.extend_from_slice(between);
        }
        if is_list { push_without_space(value, text) } else { text.extend_from_slice(value) }
    }
}

/// Adds the members of a list in the order of their bytes, each once, in lower case and without white space around them
/// and their weights.
fn sort_members(request: &Request<'_, '_>, name: &str, text: &mut Vec<u8>) {
    let (mut squeezed, mut bounds) = (Vec::with_capacity(64), Vec::with_capacity(8));
    for member in request.values(name).flat_map(list::members) {
        let start = squeezed.len();
        for (index, part) in parts(member).enumerate() {
            if index > 0 {
                squeezed.push(b';');
            }
            squeezed.extend(part.iter().map(u8::to_ascii_lowercase));
        }
        bounds.push(start..squeezed.len());
    }
    bounds.sort_unstable_by(|a, b| squeezed[a.clone()].cmp(&squeezed[b.clone()]));
    bounds.dedup_by(|a, b| squeezed[a.clone()] == squeezed[b.clone()]);
    for (index, member) in bounds.into_iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(&squeezed[member]);
    }
}

/// Adds a value without the white space around its commas. Quoted strings stay as they are.
fn push_without_space(value: &[u8], text: &mut Vec<u8>) {
    let mut rest = value.trim_ascii();
    while let Some(comma) = unquoted_comma(rest) {
        text.extend_from_slice(rest[..comma].trim_ascii());
        text.push(b',');
        rest = rest[comma + 1..].trim_ascii();
    }
    text.extend_from_slice(rest);
}

fn unquoted_comma(bytes: &[u8]) -> Option<usize> {
    let end = list::end_of_member(bytes);
    (end < bytes.len()).then_some(end)
}

/// True if the stored response matches this request. It may still be stale.
///
/// If several match, the response with the latest [`crate::stored::Terms::date`] is to be used (RFC 9111 section 4).
pub fn serves(stored: &Stored, request: &Request<'_, '_>, policy: &Policy) -> bool {
    let mut line = Vec::new();
    let lines = stored.varying().split(|b| *b == b'\n').filter(|line| !line.is_empty());
    for known in lines {
        let name = memchr::memchr(b':', known).map_or(known, |colon| &known[..colon]);
        let Ok(name) = std::str::from_utf8(name) else { return false };
        if has_lookalike(request, name) {
            return false;
        }
        line.clear();
        let value = known.get(name.len() + 2..);
        let coding = if name == coding::ACCEPT { value } else { None };
        let serves = coding.and_then(|coding| coding::serves(request, coding, encodings(stored)));
        let is_same = serves.or_else(|| is_plainly_same(request, name, value)).unwrap_or_else(|| {
            write_line(request, name, &mut line).is_some() && line.strip_suffix(b"\n") == Some(known)
        });
        let is_preferred = || policy.selects_language && name == "accept-language" && prefers(request, stored);
        if !is_same && !is_preferred() {
            return false;
        }
    }
    true
}

/// Lines of the `Content-Encoding` of a stored response.
fn encodings(stored: &Stored) -> impl Iterator<Item = &[u8]> {
    stored.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"content-encoding")).map(|(_, value)| value)
}

/// Compares the usual values without a copy: a line in normal form, or a list of few members. `known`: the normalised
/// value, if the request had a value. `None` if the comparison takes more.
fn is_plainly_same(request: &Request<'_, '_>, name: &str, known: Option<&[u8]>) -> Option<bool> {
    let mut values = request.values(name);
    let (first, second) = (values.next(), values.next());
    let (Some(value), Some(known)) = (first, known) else { return Some(first.is_none() && known.is_none()) };
    // Quotes may hide commas.
    if second.is_some() || memchr::memchr(b'"', value).is_some() {
        return None;
    }
    if !UNORDERED.contains(&name) {
        // A value in normal form stays the same when normalised.
        return (value == known).then_some(true);
    }
    let mut found: u32 = 0;
    for member in list::members(value) {
        let at = known.split(|b| *b == b',').position(|known| is_squeezed(member, known));
        match at {
            Some(at) => found |= 1u32.checked_shl(at as u32)?,
            None => return Some(false),
        }
    }
    let count = if known.is_empty() { 0 } else { known.split(|b| *b == b',').count() };
    Some(found.count_ones() as usize == count)
}

/// True if a member equals `known` in lower case and without the white space around its weight.
fn is_squeezed(member: &[u8], known: &[u8]) -> bool {
    let (mut parts, mut known) = (parts(member), known.split(|b| *b == b';'));
    loop {
        match (parts.next(), known.next()) {
            (None, None) => return true,
            (Some(part), Some(known)) if part.eq_ignore_ascii_case(known) => {}
            _ => return false,
        }
    }
}

/// Parts of a member, before and after each semicolon, where white space means nothing (RFC 9110 section 12.4.2). Within
/// a part it stays: an endpoint that does not know "g zip" must not answer for all that ask for "gzip".
fn parts(member: &[u8]) -> impl Iterator<Item = &[u8]> {
    member.split(|b| *b == b';').map(<[u8]>::trim_ascii)
}

/// True if the request prefers the language of a stored response to any other.
fn prefers(request: &Request<'_, '_>, stored: &Stored) -> bool {
    let Some(language) = stored.field("content-language").filter(|language| is_token(language)) else {
        return false;
    };
    let mut wanted: Option<u32> = None;
    let mut others = 0;
    for member in request.values("accept-language").flat_map(list::members) {
        let mut parts = member.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        let range = parts.next().unwrap_or_default();
        let weight = parts.next().map_or(Some(1000), thousandths);
        let Some(weight) = weight else { return false };
        if range.eq_ignore_ascii_case(language) {
            wanted = Some(wanted.map_or(weight, |known| known.min(weight)));
        } else {
            others = others.max(weight);
        }
    }
    wanted.is_some_and(|wanted| wanted > others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::tests::TERMS;
    use evenkeel_wire::head::Table;

    fn table(fields: &[(&str, &str)]) -> Table {
        fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
    }

    fn stored(vary: &[(&str, &str)], asked: &[(&str, &str)], language: &str) -> Option<Stored> {
        let (mut asked, mut vary) = (table(asked), table(vary));
        let request = Request { method: "GET", target: "/", host: b"a", fields: asked.fields() };
        let lines = format!("content-language: {language}\r\n").into_bytes();
        Some(Stored::new(200, TERMS, lines, &write(&request, &vary.fields())?, b""))
    }

    fn is_served(name: &str, stored_for: &[&str], asked: &[&str]) -> bool {
        let lines = |values: &[&str]| values.iter().map(|value| (name.as_bytes(), value.as_bytes())).collect::<Table>();
        let (mut first, mut vary, mut second) = (lines(stored_for), table(&[("Vary", name)]), lines(asked));
        let request = Request { method: "GET", target: "/", host: b"a", fields: first.fields() };
        let stored = Stored::new(200, TERMS, Vec::new(), &write(&request, &vary.fields()).unwrap(), b"");
        let request = Request { method: "GET", target: "/", host: b"a", fields: second.fields() };
        serves(&stored, &request, &Policy::default())
    }

    #[test]
    fn a_field_that_an_endpoint_may_take_for_another_one_forbids_storing() {
        let vary = [("Vary", "X-Tenant")];
        assert!(stored(&vary, &[("x-tenant", "a"), ("x-tenants", "b")], "").is_some());
        assert!(stored(&vary, &[("X_Tenant", "a")], "").is_none());
        for (first, second) in
            [(&[][..], &[("x_tenant", "a")][..]), (&[("x-tenant", "a")], &[("x-tenant", "a"), ("x_tenant", "b")])]
        {
            let plain = stored(&vary, first, "").unwrap();
            let mut asked = table(second);
            let request = Request { method: "GET", target: "/", host: b"a", fields: asked.fields() };
            assert!(!serves(&plain, &request, &Policy::default()), "{second:?}");
        }
    }

    #[test]
    fn values_must_mean_the_same() {
        for (name, first, second, is_same) in [
            ("Foo", &["1"][..], &["1"][..], true),
            ("Foo", &["1"], &["2"], false),
            ("Foo", &["1"], &[], false),
            ("Foo", &[], &["1"], false),
            ("Foo", &[], &[""], false),
            ("Foo", &[], &[], true),
            ("Foo", &["1, 2"], &["1", "2"], true),
            ("Foo", &["1,2"], &[" 1, 2 "], true),
            ("Foo", &["1,,2"], &["1,2"], false),
            ("Foo", &["\"1, 2\""], &["\"1,2\""], false),
            ("Foo", &["a"], &["A"], false),
            ("Accept-Language", &["en, de"], &["de,  EN"], true),
            ("Accept-Language", &["en, de;q=0.5"], &["de; q=0.5", "en"], true),
            ("Accept-Language", &["en"], &["en;q=0.5"], false),
            ("Accept-Charset", &["a, b"], &["b,a, B"], true),
            ("Accept-Charset", &["a, b"], &["a"], false),
            ("Accept-Charset", &["a"], &["a, b"], false),
            ("Accept-Charset", &["a b"], &["ab"], false),
            ("Accept-Charset", &["a;q=1"], &["a ; q=1"], true),
            ("Accept-Charset", &["a;q=1"], &["a;q= 1"], false),
            ("Accept-Charset", &[""], &[" , "], true),
            ("Accept-Charset", &["\"a,b\""], &["\"a,b\""], true),
            ("Cookie", &["a=1; b=2"], &["a=1", "b=2"], true),
            ("Cookie", &["a=1,2"], &["a=1, 2"], false),
            ("User-Agent", &["x (y, z)"], &["x (y,z)"], false),
        ] {
            assert_eq!(is_served(name, first, second), is_same, "{name} {first:?} {second:?}");
        }
    }

    /// True if a response in a coding that was fetched for one `Accept-Encoding` serves a request with another. `-` stands
    /// for a request without the field.
    fn is_coded(coding: &str, stored_for: &str, asked: &str) -> bool {
        let field = |value: &str| match value {
            "-" => Table::default(),
            value => table(&[("Accept-Encoding", value)]),
        };
        let mut response = table(&[("Vary", "Accept-Encoding")]);
        if coding != "-" {
            response.push(b"Content-Encoding", coding.as_bytes());
        }
        let mut first = field(stored_for);
        let request = Request { method: "GET", target: "/", host: b"a", fields: first.fields() };
        let lines = format!("content-encoding: {coding}\r\n").into_bytes();
        let lines = if coding == "-" { Vec::new() } else { lines };
        let stored = Stored::new(200, TERMS, lines, &write(&request, &response.fields()).unwrap(), b"");
        let mut second = field(asked);
        let request = Request { method: "GET", target: "/", host: b"a", fields: second.fields() };
        serves(&stored, &request, &Policy::default())
    }

    #[test]
    fn of_accept_encoding_only_the_coding_of_the_response_counts() {
        for (coding, first, second, is_served) in [
            ("gzip", "gzip", "GZIP;q=0.8, br", true),
            ("gzip", "gzip, br", "deflate, x-gzip", true),
            ("GZip", "x-gzip", "*", true),
            ("gzip", "gzip", "br", false),
            ("gzip", "gzip", "gzip;q=0, br", false),
            ("gzip", "gzip", "-", false),
            ("gzip", "gzip", "", false),
            ("br", "gzip, br", "gzip", false),
            ("-", "-", "identity", true),
            ("-", "", "compress, deflate", true),
            ("-", "", "br", false),
            ("-", "br", "br, identity", true),
            ("-", "br", "br, zstd", false),
            ("-", "zstd, br", "br, zstd;q=0.5", true),
            // A client without codings must not have the response stored plain for all others.
            ("-", "-", "gzip", false),
            ("-", "gzip", "gzip, br", true),
            ("-", "gzip", "-", true),
            ("-", "gzip", "identity;q=0, gzip", false),
            // An endpoint that sends what was not asked for: as it was asked for.
            ("gzip", "-", "-", true),
            ("gzip", "-", "gzip", false),
            ("gzip", "identity", "identity", true),
            ("gzip", "br", "gzip, br", false),
            // A malformed field is the same as itself.
            ("gzip", "gzi p", "gzi p", true),
            ("gzip", "gzip", "gzi p", false),
            ("gzip", "gzi p", "gzip", false),
            ("gzip, br", "gzip, br", "br,gzip", true),
            ("gzip, br", "gzip, br", "gzip", false),
        ] {
            assert_eq!(is_coded(coding, first, second), is_served, "{coding}: {first} then {second}");
        }
    }

    #[test]
    fn names_are_sorted_and_everything_is_refused() {
        let both = stored(&[("Vary", "foo, BAR"), ("Vary", ", foo")], &[("Foo", "1")], "").unwrap();
        assert_eq!(both.varying(), b"bar\nfoo: 1\n");
        assert_eq!(stored(&[], &[("Foo", "1")], "").unwrap().varying(), b"");
        for vary in ["*", "Foo, *", ", *", "a b", "\u{e4}"] {
            assert_eq!(stored(&[("Vary", vary)], &[], ""), None, "{vary}");
        }
        let many = (0..=NAMES_MAX).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(stored(&[("Vary", &many)], &[], ""), None);
    }

    #[test]
    fn a_language_is_selected_only_if_it_is_wanted_most() {
        let german = stored(&[("Vary", "Accept-Language")], &[("Accept-Language", "en, de")], "de").unwrap();
        for (asked, is_served) in [
            ("fr;q=0.5, de;q=1.0", true),
            ("DE, fr;q=0.9", true),
            ("fr, de", false),
            ("fr;q=0.5", false),
            ("de;q=0", false),
            ("de;q=x", false),
            ("", false),
        ] {
            let mut fields = table(&[("Accept-Language", asked)]);
            let request = Request { method: "GET", target: "/", host: b"a", fields: fields.fields() };
            let policy = Policy { selects_language: true, ..Policy::default() };
            assert_eq!(serves(&german, &request, &policy), is_served, "{asked}");
            assert!(!serves(&german, &request, &Policy::default()), "{asked}");
        }
    }
}

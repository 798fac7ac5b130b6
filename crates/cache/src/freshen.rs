//! Stored responses that an endpoint renews: by a 304 (RFC 9111 sections 4.3.3 and 4.3.4) or by its response to HEAD
//! (section 4.3.5).

use crate::policy::{Policy, SetCookie};
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::storable::{build, unstored};
use crate::stored::Stored;
use crate::syntax::{date, entity_tag};
use evenkeel_wire::head::{Fields, Request, Table};

/// Result of a 304 for a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshened {
    /// Renewed: it replaces the stored response, keeps its body, and answers the request.
    Kept(Stored),
    /// Renewed, but not to be stored, for this reason: it only answers the request, with the stored body. The stored
    /// response is dropped, unless the reason [lies in the request](Refusal::is_of_request).
    Once(Stored, Refusal),
    /// The 304 is for other content. The stored response is dropped, and the request is sent again without
    /// [`crate::decide::validators`].
    Mismatch,
}

/// Renews a stored response by a 304 to a request with its validators.
///
/// Fields of the 304 replace stored fields, except for fields that describe the stored bytes. The terms follow from the
/// merged fields, counted from now.
pub fn freshen(stored: &Stored, request: &Request<'_, '_>, reply: &Reply<'_, '_, '_>, policy: &Policy) -> Freshened {
    if !is_for(stored, reply.fields) {
        return Freshened::Mismatch;
    }
    let mut fields = merged(stored, reply, policy);
    let reply = Reply { status: stored.status, fields: &fields.fields(), ..*reply };
    match build(request, &reply, policy) {
        Ok(renewed) => Freshened::Kept(renewed),
        Err(refusal) => Freshened::Once(unstored(&reply, policy), refusal),
    }
}

/// Result of a response to HEAD for a stored response to GET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfHead {
    /// Renewed: it replaces the stored response, and keeps its body.
    Kept(Stored),
    /// The content has changed, or may no longer be stored: the stored response is dropped.
    Changed,
    /// The response has no effect on the stored response.
    Untouched,
}

/// Compares the response to a HEAD request with a stored response that the same request would have chosen. `length`:
/// bytes of the stored body.
///
/// Only a response of the same status counts. Any other may be due to a passing failure, so a stored response that is
/// fresh stays fresh.
pub fn by_head(
    stored: &Stored,
    length: u64,
    request: &Request<'_, '_>,
    reply: &Reply<'_, '_, '_>,
    policy: &Policy,
) -> OfHead {
    if reply.status != 200 || stored.status != 200 {
        return OfHead::Untouched;
    }
    let stated = reply.fields.first("content-length");
    let has_length = stated.is_none_or(|stated| stated == length.to_string().as_bytes());
    let same = |name: &str| reply.fields.first(name).is_none_or(|value| stored.field(name) == Some(value));
    if !has_length || !same("etag") || !same("last-modified") {
        return OfHead::Changed;
    }
    let mut fields = merged(stored, reply, policy);
    match build(request, &Reply { fields: &fields.fields(), ..*reply }, policy) {
        Ok(renewed) => OfHead::Kept(renewed),
        Err(refusal) if refusal.is_of_request() => OfHead::Untouched,
        Err(_) => OfHead::Changed,
    }
}

/// True if a 304 with these fields is for this response: its strong tag is the same; or else its weak tag; or else its date; or the 304
/// has no validator, since the request had only the validators of this response.
pub fn is_for(stored: &Stored, fields: &Fields<'_, '_>) -> bool {
    match (fields.first("etag"), stored.etag()) {
        (Some(tag), Some(known)) if entity_tag::is_strong(tag) && entity_tag::is_strong(known) => tag == known,
        (Some(tag), Some(known)) => entity_tag::is_weakly_equal(tag, known),
        (_, _) => match fields.first("last-modified") {
            Some(modified) => stored.field("last-modified").is_none_or(|known| known == modified),
            None => true,
        },
    }
}

/// Fields that describe the stored bytes. A 304 neither changes nor adds them: it has no bytes, and may describe the bytes
/// that another client would get (RFC 9111 section 3.2).
const OF_BYTES: [&str; 8] = [
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "content-md5",
    "content-digest",
    "repr-digest",
    "digest",
];

/// Stored fields, updated by the fields of a response that renews them.
fn merged(stored: &Stored, reply: &Reply<'_, '_, '_>, policy: &Policy) -> Table {
    let is = |name: &[u8], known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    let has_date = date::read_lines(reply.fields.values("date")).is_some();
    // A tag is new only where there was none.
    let stays =
        |name: &[u8]| OF_BYTES.iter().any(|known| is(name, known)) || is(name, "etag") && stored.etag().is_some();
    let is_cookie =
        |name: &[u8]| policy.set_cookie != SetCookie::Store && (is(name, "set-cookie") || is(name, "set-cookie2"));
    let is_new = |name: &[u8]| !stays(name) && !is_cookie(name);
    let comes = |name: &[u8]| reply.fields.kept().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let mut merged = Table::with_room(stored.lines().len() + 256, 32);
    for (name, value) in stored.fields() {
        // The old date does not fit the new response.
        let is_replaced = comes(name) && is_new(name) || is(name, "date") && !has_date;
        if !is_replaced {
            merged.push(name, value);
        }
    }
    for (name, value) in reply.fields.kept().filter(|(name, _)| is_new(name)) {
        merged.push(name, value);
    }
    // Tags are stored apart from the fields.
    let has_tags = crate::tags::FIELDS.iter().any(|name| reply.fields.first(name).is_some());
    if !has_tags && !policy.sends_tags {
        // Each as the field can carry it: with white space, or with commas.
        let field = |tag: &[u8]| crate::tags::FIELDS[usize::from(tag.iter().any(u8::is_ascii_whitespace))];
        stored.tags().for_each(|tag| merged.push(field(tag).as_bytes(), tag));
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::Lookup;
    use crate::moment::{Date, Moment};
    use crate::storable::storable;

    fn table(fields: &[(&str, &str)]) -> Table {
        fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
    }

    const NOW: Moment = Moment(784_111_777_000);
    const LATER: Moment = Moment(784_111_877_000);

    fn with<T>(fields: &[(&str, &str)], at: Moment, f: impl FnOnce(&Request<'_, '_>, &Reply<'_, '_, '_>) -> T) -> T {
        let (mut asked, mut fields) = (table(&[]), table(fields));
        let request = Request { method: "GET", target: "/", host: b"a", fields: asked.fields() };
        f(&request, &Reply { status: 200, fields: &fields.fields(), sent: at, received: at, arrived: Date(at.0) })
    }

    fn stored(fields: &[(&str, &str)]) -> Stored {
        let policy = Policy::default();
        with(fields, NOW, |request, reply| storable(request, &Lookup::default(), reply, &policy)).unwrap()
    }

    fn of_304(stored: &Stored, fields: &[(&str, &str)]) -> Freshened {
        with(fields, LATER, |request, reply| freshen(stored, request, reply, &Policy::default()))
    }

    const CC: (&str, &str) = ("Cache-Control", "max-age=10");
    const TAG: (&str, &str) = ("ETag", "\"a\"");

    #[test]
    fn a_304_replaces_fields_but_not_those_of_the_bytes() {
        let old = stored(&[
            CC,
            TAG,
            ("A", "1"),
            ("B", "1"),
            ("Content-Encoding", "gzip"),
            ("Surrogate-Key", "x y,z"),
            ("Cache-Tag", "v w"),
        ]);
        let fields = [TAG, ("A", "2"), ("Content-Encoding", "br"), ("Content-Length", "7"), ("Set-Cookie", "c")];
        let Freshened::Kept(new) = of_304(&old, &fields) else { panic!("not kept") };
        assert_eq!((new.field("a"), new.field("b")), (Some(&b"2"[..]), Some(&b"1"[..])));
        assert_eq!((new.field("content-encoding"), new.etag()), (Some(&b"gzip"[..]), Some(&b"\"a\""[..])));
        assert_eq!((new.field("content-length"), new.field("set-cookie")), (None, None));
        assert_eq!(new.tags().collect::<Vec<_>>(), [&b"x"[..], b"y,z", b"v w"]);
        assert_eq!((new.terms.received, new.terms.date, new.terms.initial_age), (LATER, Date(LATER.0), 0));
        assert!(new.terms.is_fresh(LATER) && !old.terms.is_fresh(LATER));
    }

    #[test]
    fn a_renewal_adds_no_field_that_describes_bytes() {
        let old = stored(&[CC, TAG]);
        for name in OF_BYTES {
            let value = if name == "content-length" { "7" } else { "gzip" };
            let Freshened::Kept(new) = of_304(&old, &[TAG, (name, value)]) else { panic!("{name} is a mismatch") };
            assert_eq!(new.field(name), None, "304 with {name}");
            let of_head = with(&[CC, TAG, (name, value)], LATER, |request, reply| {
                by_head(&old, 7, request, reply, &Policy::default())
            });
            let OfHead::Kept(new) = of_head else { panic!("HEAD with {name} is a change") };
            assert_eq!(new.field(name), None, "HEAD with {name}");
        }
        let typed = stored(&[CC, TAG, ("Content-Type", "text/html")]);
        let Freshened::Kept(new) = of_304(&typed, &[TAG, ("Content-Type", "text/plain")]) else { panic!("not kept") };
        assert_eq!(new.field("content-type"), Some(&b"text/html"[..]));
    }

    #[test]
    fn a_304_for_other_content_renews_nothing() {
        let old = stored(&[CC, TAG, ("Last-Modified", "Sun, 06 Nov 1994 08:00:00 GMT")]);
        for (fields, is_for) in [
            (&[TAG][..], true),
            (&[("ETag", "\"b\"")], false),
            (&[("ETag", "W/\"a\"")], true),
            (&[("Last-Modified", "Sun, 06 Nov 1994 08:00:00 GMT")], true),
            (&[("Last-Modified", "Sun, 06 Nov 1994 08:00:01 GMT")], false),
            (&[TAG, ("Last-Modified", "Sun, 06 Nov 1994 08:00:01 GMT")], true),
            (&[], true),
        ] {
            assert_eq!(of_304(&old, fields) != Freshened::Mismatch, is_for, "{fields:?}");
        }
        // The stored tag describes the body, so it stays.
        let Freshened::Kept(new) = of_304(&old, &[("ETag", "W/\"a\"")]) else { panic!("not kept") };
        assert_eq!(new.etag(), Some(&b"\"a\""[..]));
    }

    #[test]
    fn a_304_that_forbids_storing_is_used_once() {
        let old = stored(&[CC, TAG]);
        let Freshened::Once(new, why) = of_304(&old, &[("Cache-Control", "no-store")]) else { panic!("not once") };
        assert_eq!((new.field("cache-control"), why), (Some(&b"no-store"[..]), Refusal::NoStore));
        assert_eq!((new.etag(), new.terms.age(LATER)), (old.etag(), 0));
    }

    #[test]
    fn a_head_renews_what_is_the_same_and_ends_what_is_not() {
        let old = stored(&[CC, TAG, ("A", "1")]);
        let of = |fields: &[(&str, &str)], status| {
            with(fields, LATER, |request, reply| {
                by_head(&old, 10, request, &Reply { status, ..*reply }, &Policy::default())
            })
        };
        let OfHead::Kept(new) = of(&[TAG, ("Content-Length", "10"), ("A", "2")], 200) else { panic!("not kept") };
        assert_eq!((new.field("a"), new.terms.is_fresh(LATER)), (Some(&b"2"[..]), true));
        assert_eq!(of(&[TAG, ("Content-Length", "11")], 200), OfHead::Changed);
        assert_eq!(of(&[("ETag", "\"b\"")], 200), OfHead::Changed);
        assert_eq!(of(&[("Last-Modified", "Sun, 06 Nov 1994 08:00:00 GMT")], 200), OfHead::Changed);
        assert_eq!(of(&[TAG, ("Cache-Control", "no-store")], 200), OfHead::Changed);
        assert_eq!(of(&[TAG], 503), OfHead::Untouched);
    }
}

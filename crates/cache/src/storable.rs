//! The decision to store a response (RFC 9111 section 3), and the parts of it to store.

use crate::freshness::{Control, Source, is_heuristic, lifetime};
use crate::lookup::Lookup;
use crate::moment::Date;
use crate::policy::{Access, Policy, SetCookie};
use crate::range::whole_length;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::stored::{Stored, Terms, fields_of, push_line};
use crate::syntax::{date, list};
use crate::{age, tags, vary};
use evenkeel_wire::head::{Fields, Request, Table};

/// Fields for a single connection or hop, which are never stored (RFC 9111 section 3.1), and fields that the cache
/// generates for each response that it serves.
const UNSTORED: [&str; 13] = [
    "age",
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Turns a response into its stored form, or returns the reason why it is not stored.
///
/// The body is stored with it, without trailers, once it is complete: a body that was cut off must not be stored.
/// `Stored` takes effect for the fields that `Vary` names, so it replaces the response under the same key with the same
/// [`Stored::varying`].
///
/// # Errors
/// The first reason that applies, in the order of this file.
pub fn storable(
    request: &Request<'_, '_>,
    lookup: &Lookup,
    reply: &Reply<'_, '_, '_>,
    policy: &Policy,
) -> Result<Stored, Refusal> {
    if lookup.is_head {
        return Err(Refusal::Method);
    }
    if lookup.directives.no_store {
        return Err(Refusal::RequestNoStore);
    }
    let length = reply.fields.first("content-length").and_then(|length| std::str::from_utf8(length).ok()?.parse().ok());
    if length.is_some_and(|length: u64| length > policy.body_max) {
        return Err(Refusal::BodyTooLarge);
    }
    build(request, reply, policy)
}

/// Turns a part (206) into the stored form of the whole response that it belongs to, and returns the length of the
/// whole. `None` if the whole could not be stored, or its length is not stated.
pub fn storable_whole(
    request: &Request<'_, '_>,
    lookup: &Lookup,
    reply: &Reply<'_, '_, '_>,
    policy: &Policy,
) -> Option<(Stored, u64)> {
    if reply.status != 206 {
        return None;
    }
    let length = whole_length(reply.fields.first("content-range")?)?;
    let is_of_part =
        |name: &[u8]| [&b"content-range"[..], b"content-length"].iter().any(|n| name.eq_ignore_ascii_case(n));
    let mut fields: Table = reply.fields.kept().filter(|(name, _)| !is_of_part(name)).collect();
    let whole = Reply { status: 200, fields: &fields.fields(), ..*reply };
    if length > policy.body_max {
        return None;
    }
    Some((storable(request, lookup, &whole, policy).ok()?, length))
}

/// Decides on a response and turns it into its stored form, whatever the method was.
pub(crate) fn build(request: &Request<'_, '_>, reply: &Reply<'_, '_, '_>, policy: &Policy) -> Result<Stored, Refusal> {
    let control = Control::of(reply.fields, policy);
    permitted(request, reply, &control, policy)?;
    let own_date = date::read_lines(reply.fields.values("date"));
    let terms = terms(reply, &control, own_date, policy);
    let (lines, is_plain) = kept_lines(reply.fields, &control, own_date.is_none().then_some(reply.arrived), policy);
    if !is_plain {
        return Err(Refusal::Malformed);
    }
    if let Some(refusal) = useless(reply, &control, &terms, &lines) {
        return Err(refusal);
    }
    let varying = vary::write(request, reply.fields).ok_or(Refusal::Vary)?;
    let tags = tags::read(reply.fields).ok_or(Refusal::Tags)?;
    if lines.len() + varying.len() + tags.len() > policy.head_max as usize {
        return Err(Refusal::HeadTooLarge);
    }
    Ok(Stored::new(reply.status, terms, lines, &varying, &tags))
}

/// Makes the head of an answer from a response that is not stored.
pub fn unstored(reply: &Reply<'_, '_, '_>, policy: &Policy) -> Stored {
    let control = Control::of(reply.fields, policy);
    let own_date = date::read_lines(reply.fields.values("date"));
    let (lines, _) = kept_lines(reply.fields, &control, own_date.is_none().then_some(reply.arrived), policy);
    Stored::new(reply.status, terms(reply, &control, own_date, policy), lines, b"", b"")
}

fn permitted(
    request: &Request<'_, '_>,
    reply: &Reply<'_, '_, '_>,
    control: &Control,
    policy: &Policy,
) -> Result<(), Refusal> {
    // An endpoint may call a part a 200, and an error may be about the part alone.
    let is_whole = |status| status == 200 && reply.fields.first("content-range").is_none();
    let is_of_part = reply.status == 206 || request.field("range").is_some() && !is_whole(reply.status);
    if reply.status < 200 || reply.status == 304 || is_of_part {
        return Err(Refusal::Status);
    }
    let directives = &control.directives;
    if directives.must_understand && !is_understood(reply.status) {
        return Err(Refusal::NotUnderstood);
    }
    if is_of_request(reply.status) && !policy.stores_errors && !policy.names(reply.status) {
        return Err(Refusal::Error);
    }
    // With must-understand, no-store is only for caches that do not understand it.
    if directives.no_store && !directives.must_understand {
        return Err(Refusal::NoStore);
    }
    if directives.private {
        return Err(Refusal::Private);
    }
    let is_shared = directives.public || directives.s_maxage.is_some() || directives.must_revalidate;
    if !is_shared {
        match policy.access {
            Access::Open if request.field("authorization").is_some() => return Err(Refusal::Authorization),
            Access::Guarded => return Err(Refusal::Guarded),
            Access::Open | Access::PerUser => {}
        }
    }
    // `no-cache="Set-Cookie"` asks for exactly this: the response is stored without the field.
    let is_listed = |name: &str| directives.unstored.iter().any(|known| known.eq_ignore_ascii_case(name.as_bytes()));
    let has_cookie = COOKIES.iter().any(|name| reply.fields.first(name).is_some() && !is_listed(name));
    if has_cookie && policy.set_cookie == SetCookie::Refuse {
        return Err(Refusal::SetCookie);
    }
    Ok(())
}

/// True for an error that fields of its request may have caused, and not its URL alone.
fn is_of_request(status: u16) -> bool {
    status >= 400 && status != 451 && !is_heuristic(status)
}

/// Fields that set cookies. The second is obsolete.
const COOKIES: [&str; 2] = ["set-cookie", "set-cookie2"];

/// Statuses with a meaning that this cache knows: the storable statuses of RFC 9110, 429 and 451.
fn is_understood(status: u16) -> bool {
    matches!(status, 200..=205 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 429 | 451 | 500..=505)
}

fn terms(reply: &Reply<'_, '_, '_>, control: &Control, own_date: Option<Date>, policy: &Policy) -> Terms {
    let directives = &control.directives;
    let date = own_date.unwrap_or(reply.arrived);
    let lifetime = lifetime(reply.status, reply.fields, control, date, policy);
    // s-maxage implies proxy-revalidate (RFC 9111 section 5.2.2.10), but many send it together with an explicit
    // stale-while-revalidate, which then counts.
    let strict = directives.no_cache || directives.must_revalidate || directives.proxy_revalidate;
    let implied = directives.s_maxage.is_some();
    let window = |stated: Option<u32>, by_default: u32| match stated {
        _ if strict => 0,
        Some(seconds) => seconds,
        None if implied => 0,
        None => by_default,
    };
    Terms {
        received: reply.received,
        date,
        is_dated: own_date.is_some(),
        last_modified: reply.fields.first("last-modified").and_then(date::read),
        initial_age: age::initial(reply, own_date),
        lifetime: lifetime.seconds,
        source: lifetime.source,
        stale_while_revalidate: window(directives.stale_while_revalidate, policy.stale_while_revalidate),
        stale_if_error: window(directives.stale_if_error, policy.stale_if_error),
        no_cache: directives.no_cache,
        must_revalidate: strict || implied,
        immutable: directives.immutable,
    }
}

/// Reason why the stored response could never be served, if so. `lines`: its fields.
fn useless(reply: &Reply<'_, '_, '_>, control: &Control, terms: &Terms, lines: &[u8]) -> Option<Refusal> {
    let has_lifetime = terms.source != Source::None;
    if !(has_lifetime || control.directives.public || is_heuristic(reply.status)) {
        return Some(Refusal::NeedsLifetime);
    }
    let has_etag = || fields_of(lines).any(|(name, _)| name.eq_ignore_ascii_case(b"etag"));
    let lasts = !terms.no_cache && terms.useful_until() > terms.received;
    if lasts || terms.last_modified.is_some() || has_etag() {
        return None;
    }
    Some(match () {
        () if terms.no_cache => Refusal::NoCache,
        () if !has_lifetime => Refusal::NoLifetime,
        () if terms.lifetime == 0 => Refusal::Expired,
        () if age::corrected(reply) >= terms.lifetime => Refusal::TooOld,
        () => Refusal::Clock,
    })
}

/// Returns the lines of the fields that are stored, and true unless a malformed field was left out. `date`: added if
/// the response has no valid date (RFC 9110 section 6.6.1).
fn kept_lines(fields: &Fields<'_, '_>, control: &Control, date: Option<Date>, policy: &Policy) -> (Vec<u8>, bool) {
    let nominated: Vec<&[u8]> = fields.values("connection").flat_map(list::tokens).collect();
    let is = |name: &[u8], known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    let is_unstored = |name: &[u8]| {
        UNSTORED.iter().any(|known| is(name, known))
            || nominated.iter().any(|known| name.eq_ignore_ascii_case(known))
            || control.directives.unstored.iter().any(|known| name.eq_ignore_ascii_case(known))
            || policy.set_cookie != SetCookie::Store && COOKIES.iter().any(|known| is(name, known))
            || !policy.sends_tags && tags::FIELDS.iter().any(|known| is(name, known))
            || date.is_some() && is(name, "date")
    };
    let mut lines = Vec::with_capacity(256);
    if let Some(date) = date {
        push_line(&mut lines, b"date", date::write(date).as_bytes());
    }
    let mut is_plain = true;
    for (name, value) in fields.kept().filter(|(name, _)| !is_unstored(name)) {
        is_plain &= push_line(&mut lines, name, value);
    }
    (lines, is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Moment;
    use crate::syntax::directives::Directives;

    const NOW: Date = Date(784_111_777_500);
    /// Moment of `NOW`, on a clock that has nothing to do with dates.
    const AT: Moment = Moment(5_000);

    struct Case<'c> {
        status: u16,
        asked: &'c [(&'c str, &'c str)],
        policy: Policy,
    }

    impl Case<'_> {
        fn of(&self, fields: &[(&str, &str)]) -> Result<Stored, Refusal> {
            let table = |fields: &[(&str, &str)]| -> Table {
                fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
            };
            let (mut asked, mut fields) = (table(self.asked), table(fields));
            let request = Request { method: "GET", target: "/", host: b"a", fields: asked.fields() };
            let lookup = Lookup::of(&request, false, &self.policy).unwrap();
            let reply = Reply { status: self.status, fields: &fields.fields(), sent: AT, received: AT, arrived: NOW };
            storable(&request, &lookup, &reply, &self.policy)
        }
    }

    fn plain<'c>() -> Case<'c> {
        Case { status: 200, asked: &[], policy: Policy::default() }
    }

    const CC: &str = "Cache-Control";
    const FRESH: (&str, &str) = (CC, "max-age=60");
    const TAG: (&str, &str) = ("ETag", "\"a\"");

    #[test]
    fn what_the_fields_of_one_request_may_have_caused_is_not_stored() {
        let of = |status, asked, policy: Policy| Case { status, asked, policy }.of(&[FRESH, TAG]);
        let named = || Policy { lifetime_by_status: vec![(400..=499, 9)], ..Policy::default() };
        for status in [400, 401, 403, 406, 413, 416, 429, 431, 499, 500, 503, 599] {
            assert_eq!(of(status, &[], Policy::default()), Err(Refusal::Error), "{status}");
            assert_eq!(of(status, &[], named()).is_ok(), status < 500, "{status}");
            assert!(of(status, &[], Policy { stores_errors: true, ..Policy::default() }).is_ok(), "{status}");
        }
        for status in [200, 203, 301, 302, 307, 404, 405, 410, 414, 451, 501] {
            assert!(of(status, &[], Policy::default()).is_ok(), "{status}");
            let of_range = of(status, &[("Range", "bytes=9-")], named());
            assert_eq!(of_range.is_ok(), status == 200, "{status}");
        }
        let part = Case { asked: &[("Range", "bytes=0-1")], ..plain() };
        assert_eq!(part.of(&[FRESH, ("Content-Range", "bytes 0-1/9")]), Err(Refusal::Status));
    }

    #[test]
    fn what_is_fresh_or_can_be_validated_is_stored() {
        for fields in [
            &[FRESH][..],
            &[(CC, "no-cache"), TAG],
            &[(CC, "max-age=0"), TAG],
            &[TAG],
            &[(CC, "max-age=0, stale-if-error=60")],
            &[(CC, "max-age=60, no-store, must-understand")],
            &[("CDN-Cache-Control", "max-age=60"), (CC, "no-store")],
        ] {
            assert!(plain().of(fields).is_ok(), "{fields:?}");
        }
        let policy = Policy { stores_errors: true, ..Policy::default() };
        assert!(Case { status: 599, policy, ..plain() }.of(&[FRESH]).is_ok());
    }

    #[test]
    fn each_reason_refuses() {
        for (fields, why) in [
            (&[(CC, "max-age=60, no-store")][..], Refusal::NoStore),
            (&[(CC, "max-age=60, private")], Refusal::Private),
            (&[("CDN-Cache-Control", "private"), FRESH], Refusal::Private),
            (&[FRESH, ("Set-Cookie", "a=b")], Refusal::SetCookie),
            (&[FRESH, ("Vary", "*")], Refusal::Vary),
            (&[(CC, "no-cache, max-age=60")], Refusal::NoCache),
            (&[(CC, "max-age=0")], Refusal::Expired),
            (&[("Expires", "0")], Refusal::Expired),
            (&[FRESH, ("Age", "60")], Refusal::TooOld),
            (&[FRESH, ("Date", "Sun, 06 Nov 1994 08:47:37 GMT")], Refusal::Clock),
            (&[], Refusal::NoLifetime),
            (&[FRESH, ("Content-Length", "1048577")], Refusal::BodyTooLarge),
            (&[FRESH, ("A", &"a".repeat(33_000))], Refusal::HeadTooLarge),
            (&[FRESH, ("Cache-Tag", &"a".repeat(300))], Refusal::Tags),
            (&[FRESH, ("A", "b\nc")], Refusal::Malformed),
        ] {
            assert_eq!(plain().of(fields), Err(why), "{fields:?}");
        }
        for (status, fields, why) in [
            (206, FRESH, Refusal::Status),
            (304, FRESH, Refusal::Status),
            (103, FRESH, Refusal::Status),
            (599, (CC, "max-age=60, no-store, must-understand"), Refusal::NotUnderstood),
            (302, TAG, Refusal::NeedsLifetime),
        ] {
            assert_eq!(Case { status, ..plain() }.of(&[fields]), Err(why), "{status} {fields:?}");
        }
    }

    #[test]
    fn a_part_shows_whether_its_whole_could_be_stored() {
        let of = |status: u16, fields: &[(&str, &str)]| {
            let table = |fields: &[(&str, &str)]| -> Table {
                fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
            };
            let (mut asked, mut fields) = (table(&[("Range", "bytes=0-1")]), table(fields));
            let request = Request { method: "GET", target: "/", host: b"a", fields: asked.fields() };
            let reply = Reply { status, fields: &fields.fields(), sent: AT, received: AT, arrived: NOW };
            storable_whole(&request, &Lookup::default(), &reply, &Policy::default()).map(|(_, length)| length)
        };
        const PART: (&str, &str) = ("Content-Range", "bytes 0-1/9");
        assert_eq!(of(206, &[FRESH, PART, ("Content-Length", "2")]), Some(9));
        for fields in [
            &[FRESH][..],
            &[PART],
            &[(CC, "private"), PART],
            &[FRESH, PART, ("Set-Cookie", "a")],
            &[FRESH, ("Content-Range", "bytes 0-1/*")],
            &[FRESH, ("Content-Range", "bytes 0-1/1048577")],
            &[FRESH, ("Content-Type", "multipart/byteranges; boundary=x")],
        ] {
            assert_eq!(of(206, fields), None, "{fields:?}");
        }
        assert_eq!(of(200, &[FRESH, PART]), None);
    }

    #[test]
    fn what_is_for_one_user_needs_a_permission() {
        let asked = &[("Authorization", "x")];
        let with = |access| Policy { access, ..Policy::default() };
        for (case, why) in [
            (Case { asked, ..plain() }, Refusal::Authorization),
            (Case { policy: with(Access::Guarded), ..plain() }, Refusal::Guarded),
        ] {
            assert_eq!(case.of(&[FRESH]), Err(why));
            for permission in ["max-age=60, public", "s-maxage=60", "max-age=60, must-revalidate"] {
                assert!(case.of(&[(CC, permission)]).is_ok(), "{permission}");
            }
        }
        let of_user = Case { asked, policy: with(Access::PerUser), ..plain() };
        assert!(of_user.of(&[FRESH]).is_ok());
        assert_eq!(of_user.of(&[(CC, "private, max-age=60")]), Err(Refusal::Private));
        let policy = Policy { request_directives: true, ..Policy::default() };
        let case = Case { asked: &[(CC, "no-store")], policy, ..plain() };
        assert_eq!(case.of(&[FRESH]), Err(Refusal::RequestNoStore));
        let head = Lookup { is_head: true, directives: Directives::default() };
        let (mut asked, mut fields) = (Table::default(), Table::default());
        let request = Request { method: "HEAD", target: "/", host: b"a", fields: asked.fields() };
        let reply = Reply { status: 200, fields: &fields.fields(), sent: AT, received: AT, arrived: NOW };
        assert_eq!(storable(&request, &head, &reply, &Policy::default()), Err(Refusal::Method));
    }

    #[test]
    fn fields_of_a_hop_and_those_that_are_listed_are_left_out() {
        let fields = [
            (CC, "max-age=60, no-cache=\"A\""),
            ("Connection", "b, close"),
            ("A", "1"),
            ("B", "2"),
            ("C", "3"),
            ("Keep-Alive", "x"),
            ("Proxy-Authenticate", "x"),
            ("TE", "x"),
            ("Age", "7"),
            ("Content-Length", "9"),
            ("Surrogate-Key", "x"),
            ("Date", "Sun, 06 Nov 1994 08:49:30 GMT"),
        ];
        let names = |stored: &Stored| -> Vec<String> {
            stored.fields().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
        };
        assert_eq!(names(&plain().of(&fields).unwrap()), [CC, "C", "Date"]);
        let policy = Policy { sends_tags: true, set_cookie: SetCookie::Strip, ..Policy::default() };
        let stored = Case { policy, ..plain() }.of(&[FRESH, ("Set-Cookie", "a"), ("Cache-Tag", "x, y")]).unwrap();
        assert_eq!(names(&stored), ["date", CC, "Cache-Tag"]);
        assert_eq!(stored.tags().collect::<Vec<_>>(), [&b"x"[..], b"y"]);
        let policy = Policy { set_cookie: SetCookie::Store, ..Policy::default() };
        assert!(Case { policy, ..plain() }.of(&[FRESH, ("Set-Cookie", "a")]).unwrap().field("set-cookie").is_some());
        let listed = [(CC, "max-age=60, no-cache=\"Set-Cookie\""), ("Set-Cookie", "a")];
        assert_eq!(names(&plain().of(&listed).unwrap()), ["date", CC]);
    }

    #[test]
    fn a_missing_or_wrong_date_is_that_of_now() {
        for fields in [&[FRESH][..], &[FRESH, ("Date", "foo")]] {
            let stored = plain().of(fields).unwrap();
            assert_eq!(stored.field("date"), Some(&b"Sun, 06 Nov 1994 08:49:37 GMT"[..]));
            assert_eq!((stored.terms.date, stored.terms.initial_age), (NOW, 0));
        }
    }

    #[test]
    fn windows_for_stale_responses_are_explicit_or_those_of_the_policy() {
        let policy = Policy { stale_while_revalidate: 5, stale_if_error: 6, ..Policy::default() };
        let case = Case { policy, ..plain() };
        for (directives, windows) in [
            ("max-age=1", (5, 6)),
            ("max-age=1, stale-while-revalidate=7, stale-if-error=8", (7, 8)),
            ("max-age=1, stale-if-error=0", (5, 0)),
            ("s-maxage=1", (0, 0)),
            ("s-maxage=1, stale-while-revalidate=7", (7, 0)),
            ("max-age=1, must-revalidate, stale-if-error=8", (0, 0)),
            ("max-age=1, proxy-revalidate", (0, 0)),
        ] {
            let terms = case.of(&[(CC, directives)]).unwrap().terms;
            assert_eq!((terms.stale_while_revalidate, terms.stale_if_error), windows, "{directives}");
        }
    }

    #[test]
    fn a_small_object_costs_at_most_half_a_kilobyte_beside_its_body() {
        let fields = [
            FRESH,
            TAG,
            ("Content-Type", "text/html; charset=utf-8"),
            ("Last-Modified", "Sun, 06 Nov 1994 08:00:00 GMT"),
            ("Vary", "Accept-Encoding"),
            ("Content-Encoding", "gzip"),
        ];
        let asked = &[("Accept-Encoding", "gzip, br, zstd")];
        let size = Case { asked, ..plain() }.of(&fields).unwrap().size();
        assert!(size < 400, "{size}");
    }
}

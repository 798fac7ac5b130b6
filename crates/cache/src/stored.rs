//! A stored response without its body: status, fields, terms of use, the request's values that it was chosen by, tags.

use crate::freshness::Source;
use crate::moment::{Date, Moment, whole_seconds};
use evenkeel_wire::endpoint_head::is_token;

/// Times and limits of a stored response, from its fields and the policy at the time it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Time at which its head was received, or the head of the 304 that renewed it.
    pub received: Moment,
    /// Its `Date`, or the wall clock at `received` if it had no valid date.
    pub date: Date,
    /// True if the endpoint has stated its date.
    pub is_dated: bool,
    /// Its `Last-Modified`, if that is a date.
    pub last_modified: Option<Date>,
    /// Age in seconds at `received` (RFC 9111 section 4.2.3).
    pub initial_age: u32,
    /// Lifetime in seconds, counted from age 0.
    pub lifetime: u32,
    /// Origin of the lifetime, for `explain`.
    pub source: Source,
    /// Seconds after the end of freshness for which it is served while it is validated; 0 if that is forbidden.
    pub stale_while_revalidate: u32,
    /// Seconds after the end of freshness for which it is served if the endpoint fails; 0 if that is forbidden.
    pub stale_if_error: u32,
    /// True if it is validated before each use.
    pub no_cache: bool,
    /// True if it is never served stale, whatever a request accepts.
    pub must_revalidate: bool,
    /// True if it does not change while it is fresh (RFC 8246).
    pub immutable: bool,
}

impl Terms {
    /// Age in seconds: the `Age` that clients get.
    pub fn age(&self, now: Moment) -> u32 {
        let resident = whole_seconds(now.since(self.received));
        self.initial_age.saturating_add(resident).min(crate::moment::SECONDS_MAX)
    }

    /// Moment from which it is stale.
    pub fn fresh_until(&self) -> Moment {
        self.received.plus(self.lifetime.saturating_sub(self.initial_age))
    }

    /// True before the end of freshness.
    pub fn is_fresh(&self, now: Moment) -> bool {
        self.lifetime > self.initial_age && now < self.fresh_until()
    }

    /// Seconds of freshness that are left, negative if it is stale: the `ttl` of `Cache-Status`.
    pub fn ttl(&self, now: Moment) -> i64 {
        i64::from(self.lifetime) - i64::from(self.age(now))
    }

    /// True within this many seconds after the end of freshness. False while it is fresh.
    pub fn is_stale_within(&self, seconds: u32, now: Moment) -> bool {
        // A response that was stale on arrival is as stale as its age states, not as its stay here.
        let overdue = self.initial_age.saturating_sub(self.lifetime);
        let left = seconds.saturating_sub(overdue);
        !self.is_fresh(now) && left > 0 && now < self.fresh_until().plus(left)
    }

    /// Terms of a response whose freshness a purge has ended at a moment.
    pub fn ended_at(&self, at: Moment) -> Terms {
        Terms { lifetime: self.lifetime.min(self.age(at)), ..*self }
    }

    /// Last moment at which a rule may serve it without asking the endpoint: after that a store may drop a response
    /// without a validator.
    pub fn useful_until(&self) -> Moment {
        let overdue = self.initial_age.saturating_sub(self.lifetime);
        let windows = self.stale_while_revalidate.max(self.stale_if_error);
        self.fresh_until().plus(windows.saturating_sub(overdue))
    }
}

/// A stored response without its body. Shared by `Arc`; its texts share a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub status: u16,
    pub terms: Terms,
    /// Lines of fields, each with CRLF; then lines of varying fields and of tags, each with LF.
    text: Box<[u8]>,
    fields_end: u32,
    varying_end: u32,
}

impl Stored {
    /// Same response as it would have been received this many milliseconds later, or earlier if they are negative.
    pub fn shifted(self, ms: i64) -> Stored {
        Stored { terms: Terms { received: self.terms.received.shifted(ms), ..self.terms }, ..self }
    }

    /// Puts the parts together. `lines`: fields, each as `name: value` with CRLF. `varying`: see [`crate::vary::write`].
    /// `tags`: each with LF. All of them are at most 4 GiB.
    pub(crate) fn new(status: u16, terms: Terms, lines: Vec<u8>, varying: &[u8], tags: &[u8]) -> Stored {
        let mut text = lines;
        let fields_end = text.len() as u32;
        text.extend_from_slice(varying);
        let varying_end = text.len() as u32;
        text.extend_from_slice(tags);
        Stored { status, terms, text: text.into_boxed_slice(), fields_end, varying_end }
    }

    /// Fields as lines of HTTP/1, each with CRLF, without an empty line at the end. `Age`, `Content-Length` and
    /// `Cache-Status` of this cache are not among them, see [`crate::answer`].
    pub fn lines(&self) -> &[u8] {
        &self.text[..self.fields_end as usize]
    }

    /// Name and value of each field, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        fields_of(self.lines())
    }

    /// First value of a field, by its name in any case.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields().find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// Its `ETag` as received; see [`crate::syntax::entity_tag`].
    pub fn etag(&self) -> Option<&[u8]> {
        self.field("etag")
    }

    /// True if it can be validated: by its `ETag`, or by a `Last-Modified` that is a date.
    pub fn has_validator(&self) -> bool {
        self.terms.last_modified.is_some() || self.etag().is_some()
    }

    /// True if nothing has served it for this many seconds at least, whatever happened, and nothing will: its time is over, and
    /// it cannot be validated.
    pub fn is_over(&self, seconds: u32, now: Moment) -> bool {
        self.terms.useful_until().plus(seconds) < now && !self.has_validator()
    }

    /// Values of the request's fields that `Vary` names, as [`crate::vary::write`] wrote them. Two responses under the
    /// same key replace each other if these are equal.
    pub fn varying(&self) -> &[u8] {
        &self.text[self.fields_end as usize..self.varying_end as usize]
    }

    /// Tags that purges go by, each once.
    pub fn tags(&self) -> impl Iterator<Item = &[u8]> {
        self.tag_lines().split(|b| *b == b'\n').filter(|tag| !tag.is_empty())
    }

    /// Tags as lines, each with LF.
    pub(crate) fn tag_lines(&self) -> &[u8] {
        &self.text[self.varying_end as usize..]
    }

    /// Bytes of memory that it takes, without its body and without the counts of an `Arc`.
    pub fn size(&self) -> usize {
        size_of::<Stored>() + self.text.len()
    }
}

/// Fields of lines that each end with CRLF.
pub(crate) fn fields_of(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', rest)?;
        let line = &rest[..end.saturating_sub(1)];
        rest = &rest[end + 1..];
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line.get(colon + 2..).unwrap_or_default()))
    })
}

/// Adds a line to `lines`. Returns false if the field could be read as another field, and so cannot be stored.
pub(crate) fn push_line(lines: &mut Vec<u8>, name: &[u8], value: &[u8]) -> bool {
    let is_plain = is_token(name) && !value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0));
    if is_plain {
        [name, b": ", value, b"\r\n"].into_iter().for_each(|part| lines.extend_from_slice(part));
    }
    is_plain
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Terms that are fresh from 100 s to 160 s, and 10 s old at first.
    pub(crate) const TERMS: Terms = Terms {
        received: Moment(100_000),
        date: Date(90_000),
        is_dated: true,
        last_modified: None,
        initial_age: 10,
        lifetime: 70,
        source: Source::MaxAge,
        stale_while_revalidate: 0,
        stale_if_error: 0,
        no_cache: false,
        must_revalidate: false,
        immutable: false,
    };

    pub(crate) fn at(seconds: u64) -> Moment {
        Moment(seconds * 1000)
    }

    #[test]
    fn a_response_is_fresh_until_its_age_is_its_lifetime() {
        assert_eq!((TERMS.age(at(100)), TERMS.age(at(159)), TERMS.ttl(at(170))), (10, 69, -10));
        assert!(TERMS.is_fresh(at(100)) && TERMS.is_fresh(Moment(159_999)) && !TERMS.is_fresh(at(160)));
        let stale = Terms { lifetime: 10, ..TERMS };
        // Even if the clock stepped back.
        assert!(!stale.is_fresh(at(0)) && !stale.is_fresh(at(100)));
    }

    #[test]
    fn windows_begin_at_the_end_of_freshness() {
        let within = |seconds, now| TERMS.is_stale_within(seconds, at(now));
        assert!(!within(5, 159) && within(5, 160) && within(5, 164) && !within(5, 165) && !within(0, 160));
        // 5 s too old on arrival: of a window of 7 s, 2 s are left.
        let late = Terms { lifetime: 5, stale_if_error: 7, ..TERMS };
        assert!(
            late.is_stale_within(7, at(101)) && !late.is_stale_within(7, at(102)) && !late.is_stale_within(5, at(100))
        );
        assert_eq!(late.useful_until(), at(102));
        assert_eq!(TERMS.useful_until(), at(160));
    }

    #[test]
    fn texts_are_one_buffer() {
        let mut lines = Vec::new();
        assert!(push_line(&mut lines, b"ETag", b"\"a\"") && push_line(&mut lines, b"x", b""));
        assert!(
            !push_line(&mut lines, b"a", b"b\r\nc: d")
                && !push_line(&mut lines, b"a:b", b"")
                && !push_line(&mut lines, b"", b"")
        );
        let stored = Stored::new(200, TERMS, lines, b"accept: a\n", b"one\ntwo\n");
        assert_eq!(stored.lines(), b"ETag: \"a\"\r\nx: \r\n");
        assert_eq!(stored.fields().collect::<Vec<_>>(), [(&b"ETag"[..], &b"\"a\""[..]), (b"x", b"")]);
        assert_eq!((stored.etag(), stored.field("X"), stored.field("y")), (Some(&b"\"a\""[..]), Some(&b""[..]), None));
        assert_eq!(stored.varying(), b"accept: a\n");
        assert_eq!(stored.tags().collect::<Vec<_>>(), [&b"one"[..], b"two"]);
    }

    #[test]
    fn a_head_of_a_small_response_costs_little() {
        assert!(size_of::<Stored>() <= 112, "{}", size_of::<Stored>());
    }
}

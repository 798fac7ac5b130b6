//! The decision on a stored response that matches a request: it is served now, or the endpoint is asked first (RFC 9111
//! sections 4 and 4.2.4, RFC 5861).

use crate::lookup::Lookup;
use crate::moment::Moment;
use crate::stored::{Stored, Terms};
use crate::syntax::date;

/// Use of a stored response for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Served without asking the endpoint: it is still fresh.
    Fresh,
    /// Served although it is stale, as the request accepts that (`max-stale`).
    StaleAccepted,
    /// Served although it is stale. The first of the requests that arrive meanwhile validates it in the background.
    StaleWhileRevalidate,
    /// The endpoint is asked first, with [`validators`]. If that fails, see [`on_error`].
    Validate(Cause),
    /// 504: the request wants a stored response or none (`only-if-cached`), and the stored response may not be served.
    OnlyIfCached,
}

/// Cause of a validation, for `Cache-Status` and `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The freshness lifetime of the response is over.
    Stale,
    /// Directive `no-cache` of the response.
    NoCache,
    /// Directive `no-cache` of the request, or a `max-age` or `min-fresh` of it that the response does not meet.
    Request,
}

impl Cause {
    /// Short text of the cause, for `explain`: lower case, ASCII, no quotes.
    pub fn text(self) -> &'static str {
        match self {
            Cause::Stale => "stale",
            Cause::NoCache => "no-cache in the response",
            Cause::Request => "the request accepts no stored response of this age",
        }
    }
}

/// Decides on a stored response that [`crate::vary::serves`] the request.
pub fn decide(stored: &Stored, lookup: &Lookup, now: Moment) -> Decision {
    decide_by(&stored.terms, lookup, now)
}

/// Decides like [`decide`], on other terms than those stored: see [`Terms::ended_at`].
pub fn decide_by(terms: &Terms, lookup: &Lookup, now: Moment) -> Decision {
    let cause = match served(terms, lookup, now) {
        Ok(decision) => return decision,
        Err(cause) => cause,
    };
    if lookup.directives.only_if_cached { Decision::OnlyIfCached } else { Decision::Validate(cause) }
}

fn served(terms: &Terms, lookup: &Lookup, now: Moment) -> Result<Decision, Cause> {
    if terms.no_cache {
        return Err(Cause::NoCache);
    }
    if lookup.directives.no_cache {
        return Err(Cause::Request);
    }
    let left = u32::try_from(terms.ttl(now)).unwrap_or(0);
    let is_accepted = lookup.accepts(terms.age(now), left);
    if terms.is_fresh(now) {
        // A reload asks for max-age=0, and an immutable response is the same after it (RFC 8246 section 2.1).
        let is_settled = terms.immutable && lookup.directives.min_fresh.is_none();
        return if is_accepted || is_settled { Ok(Decision::Fresh) } else { Err(Cause::Request) };
    }
    if lookup.directives.max_age.is_some() && !is_accepted || lookup.directives.min_fresh.is_some() {
        return Err(Cause::Stale);
    }
    if terms.is_stale_within(terms.stale_while_revalidate, now) {
        return Ok(Decision::StaleWhileRevalidate);
    }
    match lookup.stale_max() {
        Some(seconds) if !terms.must_revalidate && terms.is_stale_within(seconds, now) => Ok(Decision::StaleAccepted),
        _ => Err(Cause::Stale),
    }
}

/// True if a request that has nothing stored to serve it gets a 504 (RFC 9111 section 5.2.1.7).
pub fn is_only_if_cached(lookup: &Lookup) -> bool {
    lookup.directives.only_if_cached
}

/// Fields that turn a request into a validation of the stored response (RFC 9111 section 4.3.1). They replace the
/// fields in [`crate::lookup::REPLACED`]. Empty if the response has no validator: then the request fetches a whole new
/// response.
pub fn validators(stored: &Stored) -> impl Iterator<Item = (&'static str, Box<[u8]>)> {
    let etag = stored.etag().map(|etag| ("if-none-match", etag.into()));
    let modified = stored.terms.last_modified.map(|modified| {
        let as_it_came =
            stored.field("last-modified").map_or_else(|| date::write(modified).into_bytes().into(), Box::from);
        ("if-modified-since", as_it_came)
    });
    etag.into_iter().chain(modified)
}

/// True if this status counts as a failure of the endpoint, as does no response at all (RFC 5861 section 4).
pub fn is_error(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}

/// True if a stored response that was to be validated is served now that the endpoint has failed: it is still fresh, or
/// within its `stale-if-error`.
pub fn on_error(stored: &Stored, now: Moment) -> bool {
    on_error_by(&stored.terms, now)
}

/// Decides like [`on_error`], on other terms than those stored: see [`Terms::ended_at`].
pub fn on_error_by(terms: &Terms, now: Moment) -> bool {
    !terms.no_cache && (terms.is_fresh(now) || terms.is_stale_within(terms.stale_if_error, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Date;
    use crate::stored::tests::{TERMS, at};
    use crate::syntax::directives::Directives;

    fn stored(terms: Terms) -> Stored {
        Stored::new(200, terms, b"etag: \"a\"\r\nlast-modified: Sun, 06 nov 1994 08:49:37 GMT\r\n".to_vec(), b"", b"")
    }

    fn asks(directives: &str) -> Lookup {
        Lookup { is_head: false, directives: Directives::of_request([directives.as_bytes()].into_iter()) }
    }

    #[test]
    fn stale_is_validated_unless_something_allows_it() {
        let any = Lookup::default();
        assert_eq!(decide(&stored(TERMS), &any, at(159)), Decision::Fresh);
        assert_eq!(decide(&stored(TERMS), &any, at(160)), Decision::Validate(Cause::Stale));
        let lenient = Terms { stale_while_revalidate: 5, stale_if_error: 9, ..TERMS };
        assert_eq!(decide(&stored(lenient), &any, at(164)), Decision::StaleWhileRevalidate);
        assert_eq!(decide(&stored(lenient), &any, at(165)), Decision::Validate(Cause::Stale));
        assert!(on_error(&stored(lenient), at(168)) && !on_error(&stored(lenient), at(169)));
        assert!(on_error(&stored(TERMS), at(159)) && !on_error(&stored(TERMS), at(160)));
        // A purge has ended it at 110: its window is open from then on, and not as long as it would have been fresh.
        let purged = lenient.ended_at(at(110));
        assert!(on_error_by(&purged, at(118)) && !on_error_by(&purged, at(119)));
        let never = Terms { no_cache: true, ..TERMS };
        assert_eq!(decide(&stored(never), &any, at(100)), Decision::Validate(Cause::NoCache));
        assert!(!on_error(&stored(never), at(100)));
    }

    #[test]
    fn directives_of_a_request_are_met_or_the_endpoint_is_asked() {
        let fresh = |directives: &str| decide(&stored(TERMS), &asks(directives), at(110));
        let of_request = Decision::Validate(Cause::Request);
        assert_eq!(fresh("no-cache"), of_request);
        assert_eq!((fresh("max-age=19"), fresh("max-age=20")), (of_request, Decision::Fresh));
        assert_eq!((fresh("min-fresh=51"), fresh("min-fresh=50")), (of_request, Decision::Fresh));
        assert_eq!(fresh("only-if-cached, max-age=0"), Decision::OnlyIfCached);
        let stale = |terms, directives: &str| decide(&stored(terms), &asks(directives), at(165));
        assert_eq!(stale(TERMS, "max-stale=5"), Decision::Validate(Cause::Stale));
        assert_eq!(stale(TERMS, "max-stale=6"), Decision::StaleAccepted);
        assert_eq!(stale(TERMS, "max-stale"), Decision::StaleAccepted);
        assert_eq!(stale(TERMS, "max-stale, max-age=60"), Decision::Validate(Cause::Stale));
        let strict = Terms { must_revalidate: true, ..TERMS };
        assert_eq!(stale(strict, "max-stale"), Decision::Validate(Cause::Stale));
        assert_eq!(stale(TERMS, "only-if-cached"), Decision::OnlyIfCached);
        assert!(is_only_if_cached(&asks("only-if-cached")) && !is_only_if_cached(&asks("")));
    }

    #[test]
    fn a_reload_does_not_ask_for_what_is_immutable() {
        let immutable = Terms { immutable: true, ..TERMS };
        assert_eq!(decide(&stored(immutable), &asks("max-age=0"), at(110)), Decision::Fresh);
        assert_eq!(decide(&stored(immutable), &asks("no-cache"), at(110)), Decision::Validate(Cause::Request));
        assert_eq!(decide(&stored(immutable), &asks("max-age=0"), at(160)), Decision::Validate(Cause::Stale));
    }

    #[test]
    fn validators_are_sent_as_they_came() {
        let terms = Terms { last_modified: Some(Date::from_seconds(784_111_777)), ..TERMS };
        let sent: Vec<_> = validators(&stored(terms)).collect();
        assert_eq!(sent[0], ("if-none-match", Box::from(&b"\"a\""[..])));
        assert_eq!(sent[1], ("if-modified-since", Box::from(&b"Sun, 06 nov 1994 08:49:37 GMT"[..])));
        assert_eq!(validators(&Stored::new(200, TERMS, Vec::new(), b"", b"")).count(), 0);
    }
}

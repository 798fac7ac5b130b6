//! Lifetimes of responses (RFC 9111 section 4.2.1), and the directives that count for them (RFC 9213 section 2.2).

use crate::moment::{Date, SECONDS_MAX, whole_seconds};
use crate::policy::Policy;
use crate::syntax::date;
use crate::syntax::directives::Directives;
use evenkeel_wire::head::Fields;

/// Directives of a response that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    pub directives: Directives,
    /// True if a targeted field has them: `Cache-Control` and `Expires` do not count.
    pub is_targeted: bool,
}

impl Control {
    /// Reads the first targeted field of the policy that is valid, or else `Cache-Control`.
    pub fn of(fields: &Fields<'_, '_>, policy: &Policy) -> Control {
        let present = policy.targeted.iter().filter(|name| fields.first(name).is_some());
        match present.filter_map(|name| Directives::of_targeted(fields.values(name))).next() {
            Some(directives) => Control { directives, is_targeted: true },
            None => {
                let directives = Directives::of_response(fields.values("cache-control"));
                Control { directives, is_targeted: false }
            }
        }
    }
}

/// Origin of a lifetime, from the strongest to the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A targeted field, as `CDN-Cache-Control`.
    Targeted,
    SMaxage,
    MaxAge,
    /// `Expires` less `Date`.
    Expires,
    /// The policy's lifetime for the status.
    Status,
    /// A share of the age of the content.
    Heuristic,
    /// Nothing: the lifetime is 0.
    None,
}

impl Source {
    /// All sources. Records contain these numbers, so a new source goes at the end.
    pub(crate) const ALL: [Source; 7] = [
        Source::Targeted,
        Source::SMaxage,
        Source::MaxAge,
        Source::Expires,
        Source::Status,
        Source::Heuristic,
        Source::None,
    ];

    /// Name of the field, directive or rule.
    pub fn text(self) -> &'static str {
        match self {
            Source::Targeted => "a targeted field, as CDN-Cache-Control",
            Source::SMaxage => "s-maxage",
            Source::MaxAge => "max-age",
            Source::Expires => "Expires",
            Source::Status => "ttl of the route, by status",
            Source::Heuristic => "a tenth of the age of the content",
            Source::None => "no lifetime",
        }
    }

    /// True if the response itself states the lifetime.
    pub fn is_explicit(self) -> bool {
        matches!(self, Source::Targeted | Source::SMaxage | Source::MaxAge | Source::Expires)
    }
}

/// Lifetime in seconds, and its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub seconds: u32,
    pub source: Source,
}

/// Lifetime of a response. `date`: its `Date`, or the time it was received.
pub fn lifetime(status: u16, fields: &Fields<'_, '_>, control: &Control, date: Date, policy: &Policy) -> Lifetime {
    let limited = |seconds: u32, source| Lifetime {
        seconds: seconds.max(policy.lifetime_min).min(policy.lifetime_max).min(SECONDS_MAX),
        source,
    };
    let directives = &control.directives;
    let of_age =
        if control.is_targeted { (Source::Targeted, Source::Targeted) } else { (Source::SMaxage, Source::MaxAge) };
    if let Some(seconds) = directives.s_maxage {
        return limited(seconds, of_age.0);
    }
    if let Some(seconds) = directives.max_age {
        return limited(seconds, of_age.1);
    }
    if !control.is_targeted && fields.first("expires").is_some() {
        // Not a date, or several of them: it has expired (RFC 9111 section 5.3).
        let expires = date::read_lines(fields.values("expires"));
        return limited(expires.map_or(0, |expires| whole_seconds(expires.since(date))), Source::Expires);
    }
    let by_status = policy.lifetime_by_status.iter().find(|(statuses, _)| statuses.contains(&status));
    if let Some((_, seconds)) = by_status {
        return Lifetime { seconds: *seconds, source: Source::Status };
    }
    let modified = fields.first("last-modified").and_then(date::read);
    match (policy.heuristic, modified) {
        (Some(heuristic), Some(modified)) if is_heuristic(status) || directives.public => {
            let share = u64::from(whole_seconds(date.since(modified))) * u64::from(heuristic.percent) / 100;
            limited(share.min(u64::from(heuristic.max)) as u32, Source::Heuristic)
        }
        _ => Lifetime { seconds: 0, source: Source::None },
    }
}

/// True if a response of this status may be stored without an explicit lifetime (RFC 9110 section 15.1).
pub fn is_heuristic(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Heuristic;
    use evenkeel_wire::head::Table;

    const DATE: Date = Date(784_111_777_000);

    fn of(status: u16, fields: &[(&str, &str)], policy: &Policy) -> (u32, Source) {
        let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let fields = table.fields();
        let lifetime = lifetime(status, &fields, &Control::of(&fields, policy), DATE, policy);
        (lifetime.seconds, lifetime.source)
    }

    const CC: &str = "Cache-Control";
    const CDN: &str = "CDN-Cache-Control";
    const IN_AN_HOUR: (&str, &str) = ("Expires", "Sun, 06 Nov 1994 09:49:37 GMT");

    #[test]
    fn the_strongest_statement_counts() {
        let policy = Policy::default();
        let of = |fields: &[(&str, &str)]| of(200, fields, &policy);
        assert_eq!(of(&[(CDN, "max-age=1"), (CC, "s-maxage=2"), IN_AN_HOUR]), (1, Source::Targeted));
        assert_eq!(of(&[(CDN, "foo"), (CC, "s-maxage=2"), IN_AN_HOUR]), (0, Source::None));
        assert_eq!(of(&[(CDN, "max-age=x"), (CC, "max-age=3, s-maxage=2"), IN_AN_HOUR]), (2, Source::SMaxage));
        assert_eq!(of(&[(CC, "max-age=3"), IN_AN_HOUR]), (3, Source::MaxAge));
        assert_eq!(of(&[(CC, "foo"), IN_AN_HOUR]), (3600, Source::Expires));
        assert_eq!(of(&[("Expires", "0")]), (0, Source::Expires));
        assert_eq!(of(&[IN_AN_HOUR, IN_AN_HOUR]), (3600, Source::Expires));
        assert_eq!(of(&[IN_AN_HOUR, ("Expires", "Sun, 06 Nov 1994 10:49:37 GMT")]), (0, Source::Expires));
        assert_eq!(of(&[]), (0, Source::None));
    }

    #[test]
    fn limits_hold_for_what_is_stated_and_statuses_have_defaults() {
        let policy = Policy {
            lifetime_min: 10,
            lifetime_max: 100,
            lifetime_by_status: vec![(404..=404, 5), (200..=599, 1000)],
            ..Policy::default()
        };
        assert_eq!(of(200, &[(CC, "max-age=0")], &policy), (10, Source::MaxAge));
        assert_eq!(of(200, &[(CC, "max-age=500")], &policy), (100, Source::MaxAge));
        assert_eq!(of(404, &[], &policy), (5, Source::Status));
        assert_eq!(of(503, &[], &policy), (1000, Source::Status));
        // Contradictory limits: the upper limit counts.
        let policy = Policy { lifetime_min: 10, lifetime_max: 5, ..Policy::default() };
        assert_eq!(of(200, &[(CC, "max-age=7")], &policy), (5, Source::MaxAge));
    }

    #[test]
    fn a_heuristic_lifetime_is_a_share_of_the_age_of_the_content() {
        let policy = Policy { heuristic: Some(Heuristic { percent: 10, max: 500 }), ..Policy::default() };
        let an_hour_ago = ("Last-Modified", "Sun, 06 Nov 1994 07:49:37 GMT");
        assert_eq!(of(200, &[an_hour_ago], &policy), (360, Source::Heuristic));
        assert_eq!(of(200, &[("Last-Modified", "Sat, 06 Nov 1993 07:49:37 GMT")], &policy), (500, Source::Heuristic));
        assert_eq!(of(200, &[("Last-Modified", "Sun, 06 Nov 1994 09:49:37 GMT")], &policy), (0, Source::Heuristic));
        assert_eq!(of(503, &[an_hour_ago], &policy), (0, Source::None));
        assert_eq!(of(599, &[an_hour_ago, (CC, "public")], &policy), (360, Source::Heuristic));
        assert_eq!(of(200, &[an_hour_ago], &Policy::default()), (0, Source::None));
    }
}

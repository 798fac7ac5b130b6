//! Reasons why a response is not stored, and why a request passes a cache by.

use std::fmt;

/// Reason why a response is not stored. Its text is for `explain` and for the `detail` of `Cache-Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Method other than GET, or a request with content.
    Method,
    /// `no-store` of the request.
    RequestNoStore,
    /// Partial content, 304 for a client's own condition, or an interim status.
    Status,
    /// Error that may be due to this request alone, see [`crate::policy::Policy::stores_errors`].
    Error,
    /// `must-understand` with a status that this cache does not know (RFC 9111 section 5.2.2.3).
    NotUnderstood,
    NoStore,
    Private,
    /// `Authorization` without `public`, `s-maxage` or `must-revalidate` (RFC 9111 section 3.5).
    Authorization,
    /// Access control of the route, without any of these three.
    Guarded,
    SetCookie,
    /// `Vary: *`, or more names than [`crate::vary::NAMES_MAX`].
    Vary,
    /// Neither a lifetime nor a validator.
    NoLifetime,
    /// No lifetime, and a status that is stored only with a lifetime (RFC 9110 section 15.1).
    NeedsLifetime,
    /// `no-cache`, and nothing to validate it by.
    NoCache,
    /// Lifetime that ends on arrival, and no validator.
    Expired,
    /// Older than its lifetime by its `Age` and the time that it took, and no validator.
    TooOld,
    /// Older than its lifetime by its `Date` alone, and no validator. The clocks of endpoint and cache may differ.
    Clock,
    /// Content larger than `body_max`, or than the store takes with its head and its key.
    BodyTooLarge,
    /// Fields larger than `head_max`.
    HeadTooLarge,
    /// More or longer tags than a purge could find.
    Tags,
    /// Field with a line end, or a name that is not a token.
    Malformed,
    /// Body for which there was no memory while it arrived, next to other bodies.
    NoRoom,
    /// Body that ended too early, or whose client left.
    CutOff,
    /// Purged between its request and its end.
    Purged,
    /// Used less than the stored responses that would have to go for it.
    Unused,
}

impl Refusal {
    /// Every reason, in order of declaration.
    pub const ALL: [Refusal; 25] = [
        Refusal::Method,
        Refusal::RequestNoStore,
        Refusal::Status,
        Refusal::Error,
        Refusal::NotUnderstood,
        Refusal::NoStore,
        Refusal::Private,
        Refusal::Authorization,
        Refusal::Guarded,
        Refusal::SetCookie,
        Refusal::Vary,
        Refusal::NoLifetime,
        Refusal::NeedsLifetime,
        Refusal::NoCache,
        Refusal::Expired,
        Refusal::TooOld,
        Refusal::Clock,
        Refusal::BodyTooLarge,
        Refusal::HeadTooLarge,
        Refusal::Tags,
        Refusal::Malformed,
        Refusal::NoRoom,
        Refusal::CutOff,
        Refusal::Purged,
        Refusal::Unused,
    ];

    /// True if another request, or the same request at another time, could have had the response stored. A stored
    /// response that this response was to renew stays.
    pub fn is_of_request(self) -> bool {
        use Refusal::*;
        matches!(self, Method | RequestNoStore | Error | Authorization | Guarded | NoRoom | CutOff | Purged | Unused)
    }

    /// Name of the reason in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Refusal::Method => "method",
            Refusal::RequestNoStore => "request_no_store",
            Refusal::Status => "status",
            Refusal::Error => "error",
            Refusal::NotUnderstood => "not_understood",
            Refusal::NoStore => "no_store",
            Refusal::Private => "private",
            Refusal::Authorization => "authorization",
            Refusal::Guarded => "guarded",
            Refusal::SetCookie => "set_cookie",
            Refusal::Vary => "vary",
            Refusal::NoLifetime => "no_lifetime",
            Refusal::NeedsLifetime => "needs_lifetime",
            Refusal::NoCache => "no_cache",
            Refusal::Expired => "expired",
            Refusal::TooOld => "too_old",
            Refusal::Clock => "clock",
            Refusal::BodyTooLarge => "body_too_large",
            Refusal::HeadTooLarge => "head_too_large",
            Refusal::Tags => "tags",
            Refusal::Malformed => "malformed",
            Refusal::NoRoom => "no_room",
            Refusal::CutOff => "cut_off",
            Refusal::Purged => "purged",
            Refusal::Unused => "unused",
        }
    }

    /// Short text of the reason: lower case, ASCII, no quotes.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::Method => "only responses to GET without content are stored",
            Refusal::RequestNoStore => "no-store in the request",
            Refusal::Status => "status is partial, not modified or interim",
            Refusal::Error => "error that may be due to this request",
            Refusal::NotUnderstood => "must-understand with an unknown status",
            Refusal::NoStore => "no-store",
            Refusal::Private => "private",
            Refusal::Authorization => "authorization without public, s-maxage or must-revalidate",
            Refusal::Guarded => "access control without public, s-maxage or must-revalidate",
            Refusal::SetCookie => "set-cookie",
            Refusal::Vary => "vary names everything or too much",
            Refusal::NoLifetime => "no lifetime and no validator",
            Refusal::NeedsLifetime => "no lifetime, which this status needs",
            Refusal::NoCache => "no-cache and no validator",
            Refusal::Expired => "lifetime over on arrival, and no validator",
            Refusal::TooOld => "older than its lifetime by its age, and no validator",
            Refusal::Clock => "older than its lifetime by its date: compare the clocks of endpoint and cache",
            Refusal::BodyTooLarge => "content too large",
            Refusal::HeadTooLarge => "fields too large",
            Refusal::Tags => "too many tags, or one too long",
            Refusal::Malformed => "malformed field",
            Refusal::NoRoom => "no room beside other responses that come",
            Refusal::CutOff => "cut off",
            Refusal::Purged => "purged meanwhile",
            Refusal::Unused => "used less than what would go for it",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Reason why a request passes the cache by: nothing stored is used for it, and its response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bypass {
    /// Method other than GET and HEAD.
    Method,
    /// GET or HEAD with content, which a key does not cover.
    Body,
    /// `If-Match` or `If-Unmodified-Since`, for the endpoint alone to decide (RFC 9111 section 4.3.2).
    Precondition,
    /// Switch to another protocol.
    Upgrade,
    /// Host or target without an unambiguous key.
    Target,
    /// No user, although each user has separate responses.
    User,
}

impl Bypass {
    /// Short text of the reason: lower case, ASCII, no quotes.
    pub fn text(self) -> &'static str {
        match self {
            Bypass::Method => "method is neither GET nor HEAD",
            Bypass::Body => "request with content",
            Bypass::Precondition => "precondition for the endpoint",
            Bypass::Upgrade => "upgrade to another protocol",
            Bypass::Target => "no key for this host or target",
            Bypass::User => "no user for by_user",
        }
    }
}

impl fmt::Display for Bypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_differ_and_fit_into_a_structured_string() {
        let mut texts: Vec<&str> = Refusal::ALL.iter().map(|refusal| refusal.text()).collect();
        assert!(texts.iter().all(|text| text.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\')));
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Refusal::ALL.len());
    }
}

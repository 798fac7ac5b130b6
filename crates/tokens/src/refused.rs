//! Reasons why a token is refused. None has any of its text, which is secret while it is valid.

use std::fmt;

/// Reason why a request is refused for its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The request has no token.
    Missing,
    /// The request has several tokens, or the field that holds it several lines.
    Several,
    /// The token is not three parts of base64url with JSON in them, or is too long.
    Malformed(&'static str),
    /// The route does not accept the token's algorithm.
    Algorithm,
    /// No key of the set can have signed the token.
    UnknownKey,
    /// The signature is from another key, or for another text.
    Signature,
    Expired,
    /// The time from which the token is valid is to come.
    NotYet,
    /// The token is of another issuer.
    Issuer,
    /// The token is for another audience.
    Audience,
    /// A required claim is missing or has another value.
    Claim,
    /// A claim cannot be sent as a field.
    Unfit,
    /// No keys have been fetched yet.
    NoKeys,
}

impl Refused {
    /// Labels of metrics, in the order of [`index`](Self::index).
    pub const LABELS: [&'static str; 13] = [
        "missing",
        "several",
        "malformed",
        "algorithm",
        "unknown_key",
        "signature",
        "expired",
        "not_yet",
        "issuer",
        "audience",
        "claim",
        "unfit",
        "no_keys",
    ];

    /// Index of the reason in [`LABELS`](Self::LABELS).
    pub fn index(self) -> usize {
        match self {
            Refused::Missing => 0,
            Refused::Several => 1,
            Refused::Malformed(_) => 2,
            Refused::Algorithm => 3,
            Refused::UnknownKey => 4,
            Refused::Signature => 5,
            Refused::Expired => 6,
            Refused::NotYet => 7,
            Refused::Issuer => 8,
            Refused::Audience => 9,
            Refused::Claim => 10,
            Refused::Unfit => 11,
            Refused::NoKeys => 12,
        }
    }

    /// True if the signature was verified before the token was refused.
    pub fn is_of_signed(self) -> bool {
        use Refused::{Audience, Claim, Expired, Issuer, NotYet, Signature, Unfit};
        matches!(self, Signature | Expired | NotYet | Issuer | Audience | Claim | Unfit)
    }

    /// Status of the answer (RFC 6750 section 3.1).
    pub fn status(self) -> u16 {
        match self {
            Refused::Several => 400,
            Refused::Claim => 403,
            Refused::NoKeys => 503,
            _ => 401,
        }
    }

    /// Error code in `WWW-Authenticate`; `None` for a request without a token, and where the token is not at fault.
    pub fn error(self) -> Option<&'static str> {
        match self {
            Refused::Missing | Refused::NoKeys => None,
            Refused::Several => Some("invalid_request"),
            Refused::Claim => Some("insufficient_scope"),
            _ => Some("invalid_token"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Missing => "the request has no token",
            Refused::Several => "the request has more than one token",
            Refused::Malformed(why) => return write!(f, "the token {why}"),
            Refused::Algorithm => "the algorithm of the token is not accepted",
            Refused::UnknownKey => "no key is known that could have signed the token",
            Refused::Signature => "the signature of the token is wrong",
            Refused::Expired => "the token has expired",
            Refused::NotYet => "the token is not valid yet",
            Refused::Issuer => "the token is of another issuer",
            Refused::Audience => "the token is for another audience",
            Refused::Claim => "the token lacks a required claim",
            Refused::Unfit => "a claim of the token cannot be sent as a field",
            Refused::NoKeys => "no keys have been fetched yet that could verify the token",
        })
    }
}

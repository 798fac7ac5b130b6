//! Why is there no certificate? In words that say what to do, and by cause for metrics.

use evenkeel_config::plan::{Acme, Challenge};
use instant_acme::{Error, Problem};
use std::fmt;

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// For metrics.
    pub cause: Cause,
    /// What happened.
    pub what: String,
    /// What to do.
    pub help: String,
}

macro_rules! causes {
    ($( $(#[$doc:meta])* $cause:ident $label:literal; )*) => {
        /// What is to blame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Cause {
            $( $(#[$doc])* $cause, )*
        }

        impl Cause {
            /// All of them.
            pub const ALL: &'static [Cause] = &[$(Cause::$cause),*];

            /// What metrics call it.
            pub fn label(self) -> &'static str {
                match self {
                    $( Cause::$cause => $label, )*
                }
            }
        }
    };
}

causes! {
    /// The authority does not answer.
    Unreachable "unreachable";
    /// It knows no such account, or wants one of its own.
    Account "account";
    /// Too many orders, or too many that failed.
    RateLimited "rate_limited";
    /// It issues no certificate for such a name.
    Refused "refused";
    /// It did not find the answer where it looked.
    Challenge "challenge";
    /// It refused one nonce after the other, which says nothing about the order.
    Nonce "nonce";
    /// The authority works at an order for longer than evenkeel waits, and is asked for the same order again.
    Busy "busy";
    /// Account or certificate cannot be kept.
    Storage "storage";
    /// Something else.
    Other "other";
}

impl Failed {
    /// One of this cause.
    pub fn new(cause: Cause, what: impl Into<String>, help: impl Into<String>) -> Failed {
        Failed { cause, what: what.into(), help: help.into() }
    }

    /// What an authority, or the way to it, says.
    pub fn of(error: &Error, acme: &Acme) -> Failed {
        let directory = &acme.directory;
        match error {
            Error::Api(problem) => Failed::of_problem(problem),
            Error::Http(_) | Error::InvalidUri(_) | Error::Other(_) => Failed::new(
                Cause::Unreachable,
                format!("cannot reach {directory}: {}", with_sources(error)),
                "check that this machine can connect to it; for a private CA, set \"ca\" of [acme] to the issuer of the directory's own certificate",
            ),
            Error::Timeout(_) => Failed::new(
                Cause::Unreachable,
                format!("{directory} did not finish in time"),
                "evenkeel will retry; the CA may be busy",
            ),
            Error::Json(_) => Failed::new(
                Cause::Other,
                format!("{directory} sent an invalid ACME response: {error}"),
                "check \"directory\" of [acme]: it must be the URL of an ACME directory, which often ends in /directory",
            ),
            error => Failed::new(Cause::Other, format!("{directory}: {error}"), "evenkeel will retry"),
        }
    }

    /// What an authority says is wrong with a request.
    pub fn of_problem(problem: &Problem) -> Failed {
        let kind = problem.r#type.as_deref().unwrap_or_default();
        let kind = kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind);
        let mut what = problem.detail.clone().unwrap_or_else(|| "no details given".to_string());
        for below in &problem.subproblems {
            what = format!("{what}; {below}");
        }
        let (cause, help) = match kind {
            "accountDoesNotExist" | "unauthorized" | "externalAccountRequired" | "userActionRequired" => (
                Cause::Account,
                "some CAs require external_account in [acme]; otherwise evenkeel will retry with a new account",
            ),
            "rateLimited" => (Cause::RateLimited, "wait, and use the CA's staging directory in the meantime"),
            "rejectedIdentifier" | "unsupportedIdentifier" | "caa" | "malformed" => {
                (Cause::Refused, "check the names of \"acme\" and the CAA records of their domains")
            }
            "badNonce" => (Cause::Nonce, "evenkeel will retry soon"),
            _ => (Cause::Other, "evenkeel will retry"),
        };
        Failed::new(cause, format!("the CA refused ({kind}): {what}"), help)
    }

    /// Failure for an order that the authority still works at.
    pub fn busy(acme: &Acme) -> Failed {
        let what = format!("{} is still processing the order", acme.directory);
        Failed::new(Cause::Busy, what, "evenkeel will poll this order again and starts no other")
    }

    /// What it says of a name that it could not prove.
    pub fn of_challenge(name: &str, problem: Option<&Problem>, challenge: Challenge) -> Failed {
        let said = problem.and_then(|problem| problem.detail.as_deref()).unwrap_or("no reason given");
        let help = match challenge {
            Challenge::Http01 => format!("the CA must be able to reach a listener without TLS at http://{name}:80/"),
            Challenge::TlsAlpn01 => format!(
                "the CA must be able to reach this listener at {name}:443, with nothing in between that terminates TLS; otherwise set challenge = \"http-01\""
            ),
        };
        Failed::new(Cause::Challenge, format!("the CA could not validate \"{name}\": {said}"), help)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.help)
    }
}

/// An error and what it comes from, which some leave out.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_authority_says_is_sorted() {
        for (kind, cause) in [
            ("rateLimited", Cause::RateLimited),
            ("rejectedIdentifier", Cause::Refused),
            ("externalAccountRequired", Cause::Account),
            ("badNonce", Cause::Nonce),
            ("serverInternal", Cause::Other),
        ] {
            let json = format!("{{\"type\":\"urn:ietf:params:acme:error:{kind}\",\"detail\":\"no\",\"status\":400}}");
            let failed = Failed::of_problem(&serde_json::from_str(&json).expect("a problem"));
            assert_eq!((failed.cause, failed.what), (cause, format!("the CA refused ({kind}): no")));
        }
    }

    #[test]
    fn what_was_not_proved_says_where_the_authority_looked() {
        let failed = Failed::of_challenge("a.test", None, Challenge::Http01);
        assert!(failed.to_string().contains("http://a.test:80/"), "{failed}");
        let failed = Failed::of_challenge("a.test", None, Challenge::TlsAlpn01);
        assert!(failed.to_string().contains("a.test:443"), "{failed}");
    }
}

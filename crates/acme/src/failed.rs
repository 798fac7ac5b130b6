//! Failures to get a certificate, with a hint to the fix for the log and a cause for metrics.

use evenkeel_config::plan::{Acme, Challenge};
use instant_acme::{Error, Problem};
use std::fmt;

/// Reason why there is no certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Cause, as a label of metrics.
    pub cause: Cause,
    /// Description of the failure.
    pub what: String,
    /// Hint to the fix, or to the next attempt.
    pub help: String,
}

macro_rules! causes {
    ($( $(#[$doc:meta])* $cause:ident $label:literal; )*) => {
        /// Cause of a failure, a label of the metrics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Cause {
            $( $(#[$doc])* $cause, )*
        }

        impl Cause {
            /// All causes, in the order of metrics.
            pub const ALL: &'static [Cause] = &[$(Cause::$cause),*];

            /// Value of the label `cause` in metrics.
            pub fn label(self) -> &'static str {
                match self {
                    $( Cause::$cause => $label, )*
                }
            }
        }
    };
}

causes! {
    /// The authority cannot be reached, or does not answer in time.
    Unreachable "unreachable";
    /// The account is unknown or not allowed, or has to be bound to an account outside of ACME.
    Account "account";
    /// Too many orders, or too many failures.
    RateLimited "rate_limited";
    /// The authority issues no certificates for such a name.
    Refused "refused";
    /// The authority did not find the answer to its challenge.
    Challenge "challenge";
    /// The authority rejected nonces repeatedly, which has nothing to do with the order.
    Nonce "nonce";
    /// The authority takes longer than this process waits; the order is continued later.
    Busy "busy";
    /// The account or the certificate cannot be written.
    Storage "storage";
    /// Any other failure, such as an order that became invalid.
    Other "other";
}

impl Failed {
    /// A failure with this cause.
    pub fn new(cause: Cause, what: impl Into<String>, help: impl Into<String>) -> Failed {
        Failed { cause, what: what.into(), help: help.into() }
    }

    /// Classifies an error of the ACME client.
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

    /// Classifies a problem document of the authority (RFC 8555 section 6.7).
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

    /// Failure for an order that the authority still processes.
    pub fn busy(acme: &Acme) -> Failed {
        let what = format!("{} is still processing the order", acme.directory);
        Failed::new(Cause::Busy, what, "evenkeel will poll this order again and starts no other")
    }

    /// Failure for a name whose challenge the authority has found invalid.
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

/// Text of an error and its sources, except those that an outer text contains.
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
    fn problems_of_an_authority_are_classified() {
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
    fn a_failed_challenge_names_where_the_authority_looked() {
        let failed = Failed::of_challenge("a.test", None, Challenge::Http01);
        assert!(failed.to_string().contains("http://a.test:80/"), "{failed}");
        let failed = Failed::of_challenge("a.test", None, Challenge::TlsAlpn01);
        assert!(failed.to_string().contains("a.test:443"), "{failed}");
    }
}

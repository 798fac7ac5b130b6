//! Findings about a client's certificate, for the length of a handshake: the verifier notes until when it is valid, and
//! the ticket of the session is limited to that; and why it is invalid, where such certificates are accepted. rustls
//! passes nothing between the two, but calls both while the handshake is polled, so a thread-local carries it.

use rustls::pki_types::CertificateDer;
use std::cell::Cell;
use x509_parser::prelude::{FromDer, X509Certificate};

thread_local! {
    /// Findings of the handshake that this thread is polling; `None` outside of a handshake.
    static NOTED: Cell<Option<Noted>> = const { Cell::new(None) };
}

/// Findings about the certificates that a client has shown.
#[derive(Clone, Copy, Debug)]
struct Noted {
    /// End of the validity in seconds since 1970; `i64::MAX` until it is known.
    until: i64,
    /// Reason why the certificate is invalid, although the client was accepted.
    invalid: Option<&'static str>,
}

/// State of a handshake in which the client is asked for its certificate.
#[derive(Debug)]
pub struct Proof {
    noted: Cell<Noted>,
}

impl Default for Proof {
    fn default() -> Proof {
        Proof { noted: Cell::new(Noted { until: i64::MAX, invalid: None }) }
    }
}

impl Proof {
    /// Runs a part of the handshake, with the findings available to the functions below.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Outside<'p>(&'p Proof, Option<Noted>);
        impl Drop for Outside<'_> {
            fn drop(&mut self) {
                if let Some(noted) = NOTED.replace(self.1) {
                    self.0.noted.set(noted);
                }
            }
        }
        let _outside = Outside(self, NOTED.replace(Some(self.noted.get())));
        work()
    }

    /// Reason why the certificate that the client has shown is invalid; `None` if it is valid, or there is none.
    pub fn invalid() -> Option<&'static str> {
        NOTED.get()?.invalid
    }
}

/// Notes the end of validity of the certificates that a client has shown.
pub(crate) fn note(end_entity: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) {
    let not_after = |der: &CertificateDer<'_>| {
        // A certificate that cannot be parsed has no known end, so its session gets no ticket that is valid.
        X509Certificate::from_der(der).map_or(i64::MIN, |(_, certificate)| certificate.validity().not_after.timestamp())
    };
    let until = intermediates.iter().chain([end_entity]).map(not_after).min();
    bound(until.unwrap_or(i64::MIN));
}

/// Limits the validity of the client's proof to `until`.
pub(crate) fn bound(until: i64) {
    NOTED.set(NOTED.get().map(|before| Noted { until: before.until.min(until), ..before }));
}

/// Notes that the certificate of an accepted client is invalid. Its session cannot be resumed, as a resumption verifies
/// nothing.
pub(crate) fn note_invalid(why: &'static str) {
    NOTED.set(NOTED.get().map(|_| Noted { until: i64::MIN, invalid: Some(why) }));
}

/// End of validity of the client's proof in this handshake; `None` outside of a handshake.
pub(crate) fn until() -> Option<i64> {
    NOTED.get().map(|noted| noted.until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_that_are_polled_in_turns_keep_their_own_time() {
        let [one, other] = [Proof::default(), Proof::default()];
        one.within(|| bound(70));
        other.within(|| bound(90));
        one.within(|| {
            assert_eq!(until(), Some(70));
            other.within(|| assert_eq!(until(), Some(90)));
            bound(80);
            assert_eq!(until(), Some(70));
        });
        other.within(|| {
            note_invalid("expired");
            one.within(|| assert_eq!(Proof::invalid(), None));
            assert_eq!((Proof::invalid(), until()), (Some("expired"), Some(i64::MIN)));
        });
        bound(10);
        note_invalid("expired");
        assert_eq!((until(), Proof::invalid()), (None, None));
        other.within(|| assert_eq!(until(), Some(i64::MIN)));
    }
}

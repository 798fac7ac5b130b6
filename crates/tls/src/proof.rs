//! The time until which a client's certificate is valid, for the length of one handshake: the verifier notes it, and
//! the ticket of the session is limited to it. rustls passes nothing between the two, but calls both while the
//! handshake is polled, so a thread-local carries it.

use rustls::pki_types::CertificateDer;
use std::cell::Cell;
use x509_parser::prelude::{FromDer, X509Certificate};

thread_local! {
    /// [`Proof::until`] of the handshake that this thread is polling; `None` outside of one.
    static UNTIL: Cell<Option<i64>> = const { Cell::new(None) };
}

/// State of one handshake in which the client is asked for its certificate.
#[derive(Debug)]
pub struct Proof {
    /// End of the validity in seconds since 1970; `i64::MAX` until it is known.
    until: Cell<i64>,
}

impl Default for Proof {
    fn default() -> Proof {
        Proof { until: Cell::new(i64::MAX) }
    }
}

impl Proof {
    /// Runs a part of the handshake, with the time available to the functions below.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Outside<'p>(&'p Proof, Option<i64>);
        impl Drop for Outside<'_> {
            fn drop(&mut self) {
                let until = UNTIL.replace(self.1);
                self.0.until.set(until.unwrap_or(i64::MAX));
            }
        }
        let _outside = Outside(self, UNTIL.replace(Some(self.until.get())));
        work()
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
    UNTIL.set(UNTIL.get().map(|before| before.min(until)));
}

/// End of validity of the client's proof in this handshake; `None` outside of one.
pub(crate) fn until() -> Option<i64> {
    UNTIL.get()
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
        bound(10);
        assert_eq!(until(), None);
        other.within(|| assert_eq!(until(), Some(90)));
    }
}

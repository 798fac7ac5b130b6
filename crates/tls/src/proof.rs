//! The time until which the certificate that a client has shown is valid, known for the length of one handshake: its verifier notes
//! it, and the ticket of its session is good for no longer. rustls passes nothing from the one to the other, but calls both while
//! the handshake is polled.

use rustls::pki_types::CertificateDer;
use std::cell::Cell;
use x509_parser::prelude::{FromDer, X509Certificate};

thread_local! {
    /// [`Proof::until`] of the handshake that this thread polls now; `None` outside of one.
    static UNTIL: Cell<Option<i64>> = const { Cell::new(None) };
}

/// A handshake in which a client is asked for its certificate.
#[derive(Debug)]
pub struct Proof {
    /// Seconds since 1970.
    until: Cell<i64>,
}

impl Default for Proof {
    fn default() -> Proof {
        Proof { until: Cell::new(i64::MAX) }
    }
}

impl Proof {
    /// Does a part of the handshake.
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

/// Notes how long the certificates that a client has shown are valid.
pub(crate) fn note(end_entity: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) {
    let not_after = |der: &CertificateDer<'_>| {
        // Nothing is known of one that cannot be read, so its session is not resumed at all.
        X509Certificate::from_der(der).map_or(i64::MIN, |(_, certificate)| certificate.validity().not_after.timestamp())
    };
    let until = intermediates.iter().chain([end_entity]).map(not_after).min();
    bound(until.unwrap_or(i64::MIN));
}

/// Notes that the certificates that the client has shown are valid until then.
pub(crate) fn bound(until: i64) {
    UNTIL.set(UNTIL.get().map(|before| before.min(until)));
}

/// The time until which the certificates that the client of this handshake has shown are valid; `None` outside of a handshake.
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

//! Handshakes of QUIC in which the client is asked for its certificate.
#![expect(
    clippy::disallowed_types,
    reason = "the state machine asks for Sync; only the worker of a handshake takes the lock"
)]

use evenkeel_net::quic::tls::Around;
use evenkeel_tls::proof::Proof;
use std::sync::{Mutex, PoisonError};

/// State around a handshake in which the client is asked for its certificate.
struct Proving(Mutex<Proof>);

impl Around for Proving {
    fn run(&self, part: &mut dyn FnMut()) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).within(part);
    }
}

/// Makes the state around a handshake.
pub(super) fn proving() -> Box<dyn Around> {
    Box::new(Proving(Mutex::default()))
}

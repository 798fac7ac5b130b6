//! Verification on a worker: with the newest keys, and a memory of verified tokens.

use crate::cache::Cache;
use crate::refused::Refused;
use crate::source::Keys;
use crate::verifier::{Verified, Verifier};
use evenkeel_balance::published::Reader;
use std::rc::Rc;
use std::sync::Arc;

/// A route's verifier on a worker.
#[derive(Debug)]
pub struct Check {
    verifier: Arc<Verifier>,
    keys: Reader<Keys>,
    cache: Cache,
}

/// A token that was verified, now or lately.
#[derive(Debug)]
pub struct Checked {
    pub token: Rc<Verified>,
    /// True if it was remembered, so that no signature was verified.
    pub is_known: bool,
}

impl Check {
    /// Creates the verifier of a worker.
    pub fn new(verifier: Arc<Verifier>) -> Check {
        Check { keys: verifier.source.reader(), cache: Cache::new(verifier.rules.cache), verifier }
    }

    /// Verifies a token at `now_ms`, in milliseconds since 1970.
    ///
    /// # Errors
    /// The reason for which it is refused.
    pub fn token(&mut self, token: &[u8], now_ms: i64) -> Result<Checked, Refused> {
        if self.keys.refresh() {
            self.cache.clear();
        }
        let hash = self.cache.hash(token);
        if let Some(token) = self.cache.find(hash, now_ms) {
            return Ok(Checked { token, is_known: true });
        }
        let verified = self.verify(token, now_ms).inspect_err(|refused| {
            if *refused == Refused::UnknownKey {
                self.verifier.source.ask();
            }
        })?;
        let token = Rc::new(verified);
        self.cache.keep(hash, token.clone());
        Ok(Checked { token, is_known: false })
    }

    /// Verifies a token that was only described: it is not remembered, and a missing key is not fetched.
    ///
    /// # Errors
    /// The reason for which it would be refused.
    pub fn dry_run(&mut self, token: &[u8], now_ms: i64) -> Result<Checked, Refused> {
        if self.keys.refresh() {
            self.cache.clear();
        }
        Ok(Checked { token: Rc::new(self.verify(token, now_ms)?), is_known: false })
    }

    fn verify(&self, token: &[u8], now_ms: i64) -> Result<Verified, Refused> {
        let Some(keys) = &self.keys.get().0 else { return Err(Refused::NoKeys) };
        self.verifier.verify(token, keys, now_ms)
    }

    /// Verifier that all workers share.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }
}

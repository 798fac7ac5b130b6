//! The OCSP response of a certificate, from its file until nextUpdate.

use crate::clock;
use crate::ocsp::{self, Refusal};
use crate::pair::FileError;
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The file with the OCSP response for a certificate, and its response if that is valid.
#[derive(Debug)]
pub struct Staple {
    /// First name of the certificate, or its file if it has none.
    pub name: String,
    file: PathBuf,
    response: Option<Response>,
    /// Set when nextUpdate is reached, so that handshakes need no clock. Relaxed: a handshake at that moment may see
    /// either value, and [`EARLY`](super::EARLY) covers that.
    has_ended: AtomicBool,
}

#[derive(Clone, Debug)]
struct Response {
    der: Vec<u8>,
    next_update: i64,
}

impl Staple {
    /// Reads and verifies the response for a chain. If it is not valid, the response of the same file in `before` is
    /// kept while that is: fetches may fail, and a certificate may require a stapled response. A revoked certificate
    /// keeps none.
    ///
    /// # Errors
    /// The file cannot be read, or has no OCSP response.
    pub fn read(
        file: &Path,
        name: String,
        chain: &[CertificateDer<'_>],
        before: &[Arc<Staple>],
    ) -> Result<Staple, FileError> {
        let (der, now) = (ocsp::read(file)?, clock::now());
        let response = match ocsp::verify(&der, chain, now) {
            Ok(next_update) => Some(Response { der, next_update }),
            Err(Refusal { why, is_denial }) => {
                let mut earlier =
                    before.iter().filter(|one| one.file == file && !is_denial).flat_map(|one| &one.response);
                let kept = earlier.find(|earlier| ocsp::verify(&earlier.der, chain, now).is_ok());
                let instead = if kept.is_some() { "; keeping the previous response" } else { "" };
                tracing::warn!(name, "tls: not stapling the OCSP response in {}: {why}{instead}", file.display());
                kept.cloned()
            }
        };
        Ok(Staple { name, file: file.to_path_buf(), response, has_ended: AtomicBool::new(false) })
    }

    /// The response in DER, if it was valid when it was read.
    pub fn der(&self) -> Option<&[u8]> {
        self.response.as_ref().map(|response| &*response.der)
    }

    /// True once nextUpdate was reached.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Relaxed)
    }

    /// nextUpdate of the response in seconds since 1970; `None` if it is not stapled.
    pub fn next_update(&self) -> Option<i64> {
        self.response.as_ref().filter(|_| !self.has_ended()).map(|response| response.next_update)
    }

    /// Ends stapling if nextUpdate is reached at `now`, with a warning. Called at each look at the files.
    pub fn look_at(&self, listener: &str, now: i64) {
        if self.next_update().is_some_and(|at| ocsp::has_ended(at, now)) {
            self.has_ended.store(true, Relaxed);
            let (name, file) = (&self.name, self.file.display());
            tracing::warn!(
                listener,
                name,
                "tls: the OCSP response in {file} has expired (nextUpdate) and is no longer stapled"
            );
        }
    }
}

//! Answers to ACME challenges, by which an authority checks control of a name before it issues a certificate: the body
//! of a request (`http-01`, RFC 8555 section 8.3) or a certificate in a handshake (`tls-alpn-01`, RFC 8737).

use crate::pair::FileError;
use crate::provider::provider;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// ALPN id of a handshake that asks for a challenge certificate.
pub const PROTOCOL: &[u8] = b"acme-tls/1";

/// Path prefix of `http-01` requests; the token follows.
pub const PATH: &str = "/.well-known/acme-challenge/";

/// Pending challenges, shared by all workers.
#[derive(Debug, Default)]
pub struct Challenges {
    /// Response bodies by token.
    requests: RwLock<HashMap<String, Arc<str>>>,
    /// Certificates by name in lower case.
    handshakes: RwLock<HashMap<String, Arc<CertifiedKey>>>,
}

/// A pending challenge. Dropping it ends the answers.
#[derive(Debug)]
pub struct Waited {
    challenges: Arc<Challenges>,
    kind: Kind,
    key: String,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Request,
    Handshake,
}

impl Challenges {
    /// Body of the response to a request for `path`; `None` if it is not a pending challenge.
    pub fn answer(&self, path: &str) -> Option<Arc<str>> {
        let token = path.strip_prefix(PATH)?;
        self.requests.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }

    /// Challenge certificate for a name (case-insensitive).
    pub(crate) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        self.handshakes.read().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }

    /// Answers requests for a token until the guard is dropped.
    pub fn answer_requests(self: &Arc<Challenges>, token: &str, answer: &str) -> Waited {
        self.requests.write().unwrap_or_else(PoisonError::into_inner).insert(token.to_string(), answer.into());
        Waited { challenges: self.clone(), kind: Kind::Request, key: token.to_string() }
    }

    /// Shows a certificate with this digest for a name until the guard is dropped.
    ///
    /// # Errors
    /// The certificate cannot be made.
    pub fn answer_handshakes(self: &Arc<Challenges>, name: &str, digest: &[u8]) -> Result<Waited, FileError> {
        let name = name.to_ascii_lowercase();
        let certificate = made(vec![name.clone()], Some(digest))?;
        self.handshakes.write().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), certificate.into());
        Ok(Waited { challenges: self.clone(), kind: Kind::Handshake, key: name })
    }
}

impl Drop for Waited {
    fn drop(&mut self) {
        let Challenges { requests, handshakes } = &*self.challenges;
        match self.kind {
            Kind::Request => drop(requests.write().unwrap_or_else(PoisonError::into_inner).remove(&self.key)),
            Kind::Handshake => drop(handshakes.write().unwrap_or_else(PoisonError::into_inner).remove(&self.key)),
        }
    }
}

/// Makes a self-signed certificate for these names. `digest` is the key authorization that an authority looks for in
/// it.
///
/// # Errors
/// The certificate cannot be made; this is a bug.
pub(crate) fn made(names: Vec<String>, digest: Option<&[u8]>) -> Result<CertifiedKey, FileError> {
    let cannot = |error: rcgen::Error| {
        FileError::new(false, format!("cannot create a certificate: {error}"), "this is a bug in evenkeel")
    };
    let key = KeyPair::generate().map_err(cannot)?;
    let mut params = CertificateParams::new(names).map_err(cannot)?;
    params.custom_extensions.extend(digest.map(CustomExtension::new_acme_identifier));
    let certificate = params.self_signed(&key).map_err(cannot)?;
    let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let key = provider()
        .key_provider
        .load_private_key(private)
        .map_err(|error| FileError::new(true, error.to_string(), "this is a bug in evenkeel"))?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::prelude::{FromDer, X509Certificate};

    #[test]
    fn requests_are_answered_as_long_as_that_is_waited_for() {
        let challenges = Arc::new(Challenges::default());
        let path = format!("{PATH}token");
        assert_eq!(challenges.answer(&path), None);
        let waited = challenges.answer_requests("token", "token.thumb");
        assert_eq!(challenges.answer(&path).as_deref(), Some("token.thumb"));
        assert_eq!((challenges.answer(PATH), challenges.answer("token"), challenges.answer("/")), (None, None, None));
        drop(waited);
        assert_eq!(challenges.answer(&path), None);
    }

    #[test]
    fn a_certificate_for_a_handshake_has_the_digest() {
        let challenges = Arc::new(Challenges::default());
        let waited = challenges.answer_handshakes("www.Example.com", &[7; 32]).expect("it can be made");
        let shown = challenges.certificate("WWW.example.com").expect("it is waited for");
        let (_, certificate) = X509Certificate::from_der(&shown.cert[0]).expect("a good one");
        let extension = certificate.extensions().iter().find(|e| e.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
        let extension = extension.expect("it is there");
        // An OCTET STRING of 32 bytes (RFC 8737 section 3).
        assert!(extension.critical && extension.value[..2] == [4, 32] && extension.value[2..] == [7; 32]);
        drop(waited);
        assert!(challenges.certificate("www.example.com").is_none());
    }
}

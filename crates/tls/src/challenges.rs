//! What proves to an authority that a name is served here? Answers that it asks for while it is about to issue a certificate: one to a
//! request (`http-01`, RFC 8555 section 8.3), or a certificate in a handshake (`tls-alpn-01`, RFC 8737).

use crate::pair::FileError;
use crate::provider::provider;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// What a client speaks that only wants to see such a certificate.
pub const PROTOCOL: &[u8] = b"acme-tls/1";

/// Where such a request goes; a token follows.
pub const PATH: &str = "/.well-known/acme-challenge/";

/// The answers that are waited for. All workers have the same.
#[derive(Debug, Default)]
pub struct Challenges {
    /// By token.
    requests: RwLock<HashMap<String, Arc<str>>>,
    /// By name.
    handshakes: RwLock<HashMap<String, Arc<CertifiedKey>>>,
}

/// An answer, as long as it is waited for.
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
    /// The answer to a request for this path, if one is waited for.
    pub fn answer(&self, path: &str) -> Option<Arc<str>> {
        let token = path.strip_prefix(PATH)?;
        self.requests.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }

    /// What is shown for a name.
    pub(crate) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        self.handshakes.read().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }

    /// Answers requests for a token until what is returned is dropped.
    pub fn answer_requests(self: &Arc<Challenges>, token: &str, answer: &str) -> Waited {
        self.requests.write().unwrap_or_else(PoisonError::into_inner).insert(token.to_string(), answer.into());
        Waited { challenges: self.clone(), kind: Kind::Request, key: token.to_string() }
    }

    /// Shows a certificate with this digest for a name until what is returned is dropped.
    ///
    /// # Errors
    /// It cannot be made.
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

/// A certificate of its own key for these names, which nothing believes. `digest`: what an authority looks for in it.
///
/// # Errors
/// It cannot be made.
pub(crate) fn made(names: Vec<String>, digest: Option<&[u8]>) -> Result<CertifiedKey, FileError> {
    let cannot = |error: rcgen::Error| {
        FileError::new(false, format!("cannot make a certificate: {error}"), "this is a bug in evenkeel")
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
        // An octet string of 32 bytes (RFC 8737 section 3).
        assert!(extension.critical && extension.value[..2] == [4, 32] && extension.value[2..] == [7; 32]);
        drop(waited);
        assert!(challenges.certificate("www.example.com").is_none());
    }
}

//! How are hands shaken with clients of a listener?

use crate::inspect;
use crate::names::ByName;
use crate::pair::{self, FileError};
use crate::provider::{provider, versions};
use crate::tickets::{Bound, tickets};
use evenkeel_config::plan::{ClientAuthMode, ListenerTls, Mode};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ProducesTickets, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;

/// When a certificate of a listener expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Its first name, or its file.
    pub name: String,
    /// Seconds since 1970.
    pub not_after: i64,
}

/// What a listener shakes hands by, and what was read for it.
#[derive(Clone, Debug)]
pub struct Made {
    /// For handshakes.
    pub config: Arc<ServerConfig>,
    /// Of each certificate.
    pub expiries: Vec<Expiry>,
    /// By which its tickets are sealed.
    pub keys: Arc<dyn ProducesTickets>,
}

/// The files of a listener.
pub fn files(tls: &ListenerTls) -> Vec<PathBuf> {
    let pairs = tls.certificates.iter().flat_map(|pair| [Some(&pair.cert), Some(&pair.key), pair.ocsp.as_ref()]);
    let auth = tls.client_auth.iter().flat_map(|auth| [Some(&auth.ca), auth.crl.as_ref()]);
    pairs.chain(auth).flatten().chain(&tls.ticket_keys).cloned().collect()
}

/// Reads the files of a listener. `before`: the keys of tickets of the time before, which are good still where keys are not from
/// files.
///
/// # Errors
/// What is wrong with one of them.
pub fn make(tls: &ListenerTls, mode: Mode, before: Option<&Arc<dyn ProducesTickets>>) -> Result<Made, FileError> {
    let (mut certificates, mut expiries) = (Vec::new(), Vec::new());
    for pair in &tls.certificates {
        let certified = pair::certified(&pair.cert, &pair.key, pair.ocsp.as_deref())?;
        let facts = certified.end_entity_cert().ok().and_then(|der| inspect::facts(der));
        let names = facts.as_ref().map(|facts| facts.names.clone()).unwrap_or_default();
        if let Some(facts) = facts {
            let name = names.first().cloned().unwrap_or_else(|| pair.cert.display().to_string());
            expiries.push(Expiry { name, not_after: facts.valid.1 });
        }
        certificates.push((names, certified));
    }
    if tls.self_signed && certificates.is_empty() {
        certificates.push((Vec::new(), self_signed()?));
    }
    let resolver = Arc::new(ByName::new(certificates, tls.unknown_name));
    let cannot = |error: rustls::Error| FileError::new(false, error.to_string(), "this is a fault of evenkeel");
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions(tls.min_version))
        .map_err(cannot)?;
    // What clients have to prove: by which authorities, and which lists of revoked certificates.
    let mut proof = Sha256::new();
    let mut config = match &tls.client_auth {
        None => builder.with_no_client_auth(),
        Some(auth) => {
            let mut roots = RootCertStore::empty();
            proof.update([1 + u8::from(auth.mode == ClientAuthMode::Required)]);
            for certificate in pair::chain(&auth.ca)? {
                proof.update(Sha256::digest(&certificate));
                roots.add(certificate).map_err(|error| not_an_authority(&auth.ca, &error))?;
            }
            let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
            if let Some(crl) = &auth.crl {
                let lists = pair::revoked(crl)?;
                lists.iter().for_each(|list| proof.update(Sha256::digest(list)));
                verifier = verifier.with_crls(lists);
            }
            if auth.mode == ClientAuthMode::Optional {
                verifier = verifier.allow_unauthenticated();
            }
            let built = verifier.build().map_err(|error| {
                FileError::new(
                    false,
                    format!("client_auth cannot be used: {error}"),
                    "look at the files of \"ca\" and \"crl\"",
                )
            })?;
            builder.with_client_cert_verifier(built)
        }
    }
    .with_cert_resolver(resolver);
    // Sessions over TCP speak what they speak.
    let protocols = if mode == Mode::Http { &tls.protocols[..] } else { &[] };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.name().as_bytes().to_vec()).collect();
    let keys = match before.filter(|_| tls.ticket_keys.is_empty()) {
        Some(before) => before.clone(),
        None => tickets(&tls.ticket_keys)?,
    };
    config.ticketer = Arc::new(Bound::new(keys.clone(), proof.finalize().into()));
    config.ignore_client_order = true;
    // The keys of a session go on where its bytes are sealed and opened.
    config.enable_secret_extraction = true;
    Ok(Made { config: Arc::new(config), expiries, keys })
}

fn not_an_authority(path: &std::path::Path, error: &rustls::Error) -> FileError {
    let what = format!("a certificate in {} cannot be one of an authority: {error}", path.display());
    FileError::new(false, what, "name the certificates of those who issue, not issued ones")
}

/// A certificate that nothing believes, for `localhost` and this machine.
fn self_signed() -> Result<CertifiedKey, FileError> {
    let cannot = |error: rcgen::Error| {
        FileError::new(false, format!("cannot make a certificate: {error}"), "this is a fault of evenkeel")
    };
    let key = KeyPair::generate().map_err(cannot)?;
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_string).to_vec();
    let certificate = CertificateParams::new(names).and_then(|params| params.self_signed(&key)).map_err(cannot)?;
    let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let key = provider()
        .key_provider
        .load_private_key(private)
        .map_err(|error| FileError::new(true, error.to_string(), "this is a fault of evenkeel"))?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

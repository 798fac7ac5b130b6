//! How are hands shaken with clients of a listener?

use crate::challenges::{self, Challenges, made};
use crate::inspect;
use crate::names::ByName;
use crate::pair::{self, FileError};
use crate::provider::{provider, versions};
use crate::tickets::{Bound, tickets};
use evenkeel_config::plan::{self, Acme, ClientAuthMode, ListenerTls, Mode};
use rustls::server::{ProducesTickets, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
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

/// What a plan says of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Its TLS.
    pub tls: ListenerTls,
    /// What is spoken over it.
    pub mode: Mode,
    /// Who issues its certificates.
    pub acme: Acme,
}

/// The files of a listener.
pub fn files(settings: &Settings) -> Vec<PathBuf> {
    let tls = &settings.tls;
    let issued = tls.certificates.iter().filter(|c| !c.acme.is_empty()).map(|c| settings.acme.file(&c.acme));
    let pairs = tls.certificates.iter().flat_map(|pair| [pair.cert.as_ref(), pair.key.as_ref(), pair.ocsp.as_ref()]);
    let auth = tls.client_auth.iter().flat_map(|auth| [Some(&auth.ca), auth.crl.as_ref()]);
    issued.chain(pairs.chain(auth).flatten().chain(&tls.ticket_keys).cloned()).collect()
}

/// Reads the files of a listener. `before`: the keys of tickets of the time before, which are good still where keys are not from
/// files. `challenges`: what authorities look for.
///
/// # Errors
/// What is wrong with one of them.
pub fn make(
    settings: &Settings,
    challenges: &Arc<Challenges>,
    before: Option<&Arc<dyn ProducesTickets>>,
) -> Result<Made, FileError> {
    let Settings { tls, mode, acme } = settings;
    let (mut certificates, mut expiries) = (Vec::new(), Vec::new());
    for pair in &tls.certificates {
        let Some(certified) = read(pair, acme)? else {
            certificates.push((pair.acme.clone(), made(pair.acme.clone(), None)?));
            continue;
        };
        let facts = certified.end_entity_cert().ok().and_then(|der| inspect::facts(der));
        let names = facts.as_ref().map(|facts| facts.names.clone()).unwrap_or_default();
        if let Some(facts) = facts {
            let name = names.first().cloned().unwrap_or_else(|| file_name(pair));
            expiries.push(Expiry { name, not_after: facts.valid.1 });
        }
        certificates.push((names, certified));
    }
    if tls.self_signed && certificates.is_empty() {
        // For `localhost` and this machine.
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_string).to_vec();
        certificates.push((Vec::new(), made(names, None)?));
    }
    // Authorities ask where what they issue is shown.
    let is_asked = *mode == Mode::Http
        && acme.challenge == plan::Challenge::TlsAlpn01
        && tls.certificates.iter().any(|certificate| !certificate.acme.is_empty());
    let resolver = Arc::new(ByName::new(certificates, tls.unknown_name, is_asked.then(|| challenges.clone())));
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
    let protocols = if *mode == Mode::Http { &tls.protocols[..] } else { &[] };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.name().as_bytes().to_vec()).collect();
    if is_asked {
        config.alpn_protocols.push(challenges::PROTOCOL.to_vec());
    }
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

fn not_an_authority(path: &Path, error: &rustls::Error) -> FileError {
    let what = format!("a certificate in {} cannot be one of an authority: {error}", path.display());
    FileError::new(false, what, "name the certificates of those who issue, not issued ones")
}

/// Reads a certificate and its key; `None` for one that an authority has not issued yet.
fn read(certificate: &plan::Certificate, acme: &Acme) -> Result<Option<CertifiedKey>, FileError> {
    if let (Some(cert), Some(key)) = (&certificate.cert, &certificate.key) {
        return pair::certified(cert, key, certificate.ocsp.as_deref()).map(Some);
    }
    let file = acme.file(&certificate.acme);
    if !file.exists() {
        return Ok(None);
    }
    // It is issued anew.
    Ok(pair::certified(&file, &file, None).inspect_err(|error| tracing::warn!("acme: {}", error.what)).ok())
}

fn file_name(certificate: &plan::Certificate) -> String {
    certificate.cert.as_deref().map_or_else(String::new, |path: &Path| path.display().to_string())
}

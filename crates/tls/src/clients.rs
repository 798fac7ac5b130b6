//! How are hands shaken with clients of a listener?

use crate::authorities::{self, Clients};
use crate::challenges::{self, Challenges, made};
use crate::inspect;
use crate::names::{ByName, Certificate};
use crate::ocsp::Staple;
use crate::pair::{self, FileError};
use crate::provider::{provider, versions};
use crate::tickets::{self, Bound, tickets};
use evenkeel_config::Plan;
use evenkeel_config::plan::{self, Acme, ClientAuthMode, Listener, ListenerTls, Mode};
use rustls::ServerConfig;
use rustls::server::ProducesTickets;
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// When a certificate of a listener expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Its first name, or its file.
    pub name: String,
    /// All names that the certificate is for, addresses as text.
    pub names: Vec<String>,
    /// Distinguished name of the issuer.
    pub issuer: String,
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
    /// OCSP responses of certificates that have a file for one.
    pub staples: Vec<Arc<Staple>>,
    /// By which its tickets are sealed.
    pub keys: Arc<dyn ProducesTickets>,
    /// The files among them that an authority has issued.
    pub issued: Vec<PathBuf>,
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
    /// Whether authorities look here, by a handshake, for what proves names.
    pub is_asked: bool,
}

impl Settings {
    /// Those of a listener, if it speaks TLS. Every listener with HTTP answers for the names of all: which of them an authority
    /// reaches is not known.
    pub fn of(listener: &Listener, plan: &Plan) -> Option<Settings> {
        let by_handshake = plan.acme.challenge == plan::Challenge::TlsAlpn01 && !plan.issued().is_empty();
        let is_asked = by_handshake && listener.mode == Mode::Http;
        Some(Settings { tls: listener.tls.clone()?, mode: listener.mode, acme: plan.acme.clone(), is_asked })
    }
}

/// The files of a listener.
pub fn files(settings: &Settings) -> Vec<PathBuf> {
    let tls = &settings.tls;
    let issued = tls.certificates.iter().filter(|c| !c.acme.is_empty()).map(|c| settings.acme.file(&c.acme));
    let pairs = tls.certificates.iter().flat_map(|pair| [pair.cert.as_ref(), pair.key.as_ref(), pair.ocsp.as_ref()]);
    let auth = tls.client_auth.iter().flat_map(|auth| [Some(&auth.ca), auth.crl.as_ref()]);
    issued.chain(pairs.chain(auth).flatten().chain(&tls.ticket_keys).cloned()).collect()
}

/// State of a listener that its next configuration continues.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before<'a> {
    /// Keys of tickets, which stay in use unless they come from files.
    pub keys: Option<&'a Arc<dyn ProducesTickets>>,
    /// Files of an authority that are in use: no stand-in replaces them.
    pub issued: &'a [PathBuf],
    /// OCSP responses.
    pub staples: &'a [Arc<Staple>],
}

/// Reads the files of a listener. `challenges`: what authorities look for.
///
/// # Errors
/// What is wrong with one of them.
pub fn make(settings: &Settings, challenges: &Arc<Challenges>, before: Before<'_>) -> Result<Made, FileError> {
    let Settings { tls, mode, acme, is_asked } = settings;
    let (mut certificates, mut expiries, mut used, mut staples) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for pair in &tls.certificates {
        let file = (!pair.acme.is_empty()).then(|| acme.file(&pair.acme));
        let found = match &file {
            Some(file) => read_issued(file, before.issued.contains(file))?,
            None => read(pair)?,
        };
        let Some(certified) = found else {
            certificates.push((pair.acme.clone(), Certificate::new(made(pair.acme.clone(), None)?, None)));
            continue;
        };
        used.extend(file);
        let facts = certified.end_entity_cert().ok().and_then(|der| inspect::facts(der));
        let names = facts.as_ref().map(|facts| facts.names.clone()).unwrap_or_default();
        let name = names.first().cloned().unwrap_or_else(|| file_name(pair));
        let staple = match &pair.ocsp {
            Some(path) => Some(Arc::new(Staple::read(path, name.clone(), &certified.cert, before.staples)?)),
            None => None,
        };
        staples.extend(staple.clone());
        if let Some(facts) = facts {
            expiries.push(Expiry { name, names: facts.names, issuer: facts.issuer, not_after: facts.valid.1 });
        }
        certificates.push((names, Certificate::new(certified, staple)));
    }
    if tls.self_signed && certificates.is_empty() {
        // For `localhost` and this machine.
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_string).to_vec();
        certificates.push((Vec::new(), Certificate::new(made(names, None)?, None)));
    }
    let resolver = Arc::new(ByName::new(certificates, tls.unknown_name, is_asked.then(|| challenges.clone())));
    let cannot = |error: rustls::Error| FileError::new(false, error.to_string(), "this is a fault of evenkeel");
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions(tls.min_version))
        .map_err(cannot)?;
    // What clients have to prove: by which authorities, and which lists of revoked certificates.
    let mut proof = Sha256::new_with_prefix(tickets::FORMAT);
    let mut config = match &tls.client_auth {
        None => builder.with_no_client_auth(),
        Some(auth) => {
            proof.update([1 + u8::from(auth.mode == ClientAuthMode::Required)]);
            let authorities = authorities::read(&auth.ca)?;
            authorities.certificates.iter().for_each(|certificate| proof.update(Sha256::digest(certificate)));
            let lists = auth.crl.as_deref().map(pair::revoked).transpose()?.unwrap_or_default();
            lists.iter().for_each(|list| proof.update(Sha256::digest(list)));
            let is_required = auth.mode == ClientAuthMode::Required;
            let built = Clients::of(authorities, lists, is_required).map_err(|error| {
                FileError::new(
                    false,
                    format!("client_auth cannot be used: {error}"),
                    "look at the files of \"ca\" and \"crl\"",
                )
            })?;
            builder.with_client_cert_verifier(Arc::new(built))
        }
    }
    .with_cert_resolver(resolver);
    // Sessions over TCP speak what they speak.
    let protocols = if *mode == Mode::Http { &tls.protocols[..] } else { &[] };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.name().as_bytes().to_vec()).collect();
    if *is_asked {
        config.alpn_protocols.push(challenges::PROTOCOL.to_vec());
    }
    let keys = match before.keys.filter(|_| tls.ticket_keys.is_empty()) {
        Some(before) => before.clone(),
        None => tickets(&tls.ticket_keys)?,
    };
    let asks = tls.client_auth.is_some();
    config.ticketer = Arc::new(Bound::new(keys.clone(), proof.finalize().into(), asks));
    config.ignore_client_order = true;
    // The keys of a session go on where its bytes are sealed and opened.
    config.enable_secret_extraction = true;
    Ok(Made { config: Arc::new(config), expiries, staples, keys, issued: used })
}

/// Reads a certificate and its key, which are named.
fn read(certificate: &plan::Certificate) -> Result<Option<CertifiedKey>, FileError> {
    let (Some(cert), Some(key)) = (&certificate.cert, &certificate.key) else { return Ok(None) };
    pair::certified(cert, key).map(Some)
}

/// Reads what an authority has issued; `None` if it has not yet, or if that cannot be used, as it is issued anew then. But where
/// one `is_used` that was good, nothing stands in for it.
fn read_issued(file: &Path, is_used: bool) -> Result<Option<CertifiedKey>, FileError> {
    if !is_used && !file.exists() {
        return Ok(None);
    }
    match pair::certified(file, file) {
        Err(error) if !is_used => {
            tracing::warn!("acme: {}", error.what);
            Ok(None)
        }
        read => read.map(Some),
    }
}

fn file_name(certificate: &plan::Certificate) -> String {
    certificate.cert.as_deref().map_or_else(String::new, |path: &Path| path.display().to_string())
}

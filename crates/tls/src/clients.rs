//! TLS towards the clients of a listener: reads its files into a configuration for handshakes.

use crate::authorities::{self, Clients};
use crate::challenges::{self, Challenges, made};
use crate::inspect;
use crate::names::{ByName, Certificate, Entry};
use crate::ocsp::Staple;
use crate::pair::{self, FileError};
use crate::provider::{provider, versions};
use crate::tickets::{self, Bound, tickets};
use evenkeel_config::Plan;
use evenkeel_config::plan::{self, Acme, ClientAuthMode, Listener, ListenerTls, Mode, Pem};
use rustls::ServerConfig;
use rustls::server::ProducesTickets;
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Expiry of a listener's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// First name of the certificate, or its file if it has none.
    pub name: String,
    /// All names that the certificate is for, addresses as text.
    pub names: Vec<String>,
    /// Distinguished name of the issuer.
    pub issuer: String,
    /// End of its validity, in seconds since 1970.
    pub not_after: i64,
}

/// Result of reading a listener's files.
#[derive(Clone, Debug)]
pub struct Made {
    /// Configuration for handshakes.
    pub config: Arc<ServerConfig>,
    /// Expiry of each certificate.
    pub expiries: Vec<Expiry>,
    /// OCSP responses of certificates that have such a file.
    pub staples: Vec<Arc<Staple>>,
    /// Keys that seal session tickets.
    pub keys: Arc<dyn ProducesTickets>,
    /// Files from an ACME authority that were read.
    pub issued: Vec<PathBuf>,
}

/// The parts of a plan that a listener's TLS depends on. Equal settings and files make an equal configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// TLS section of the listener.
    pub tls: ListenerTls,
    /// Mode of the listener; only HTTP offers protocols by ALPN.
    pub mode: Mode,
    /// Authority that issues certificates.
    pub acme: Acme,
    /// True if authorities may check names here by a handshake (`tls-alpn-01`).
    pub is_asked: bool,
}

impl Settings {
    /// Settings of a listener; `None` without TLS. Every HTTP listener answers challenges for all names, as it is not
    /// known which of them an authority will reach.
    pub fn of(listener: &Listener, plan: &Plan) -> Option<Settings> {
        let by_handshake = plan.acme.challenge == plan::Challenge::TlsAlpn01 && !plan.issued().is_empty();
        let is_asked = by_handshake && listener.mode == Mode::Http;
        Some(Settings { tls: listener.tls.clone()?, mode: listener.mode, acme: plan.acme.clone(), is_asked })
    }
}

/// All files that the settings name.
pub fn files(settings: &Settings) -> Vec<PathBuf> {
    let tls = &settings.tls;
    let issued = tls.certificates.iter().filter(|c| !c.acme.is_empty()).map(|c| settings.acme.file(&c.acme));
    let pairs = tls.certificates.iter().flat_map(|pair| {
        let pem = [&pair.cert, &pair.key].map(|pem| pem.as_ref().and_then(Pem::file));
        pem.into_iter().chain([pair.ocsp.as_deref()])
    });
    let auth = tls.client_auth.iter().flat_map(|auth| [auth.ca.file(), auth.crl.as_ref().and_then(Pem::file)]);
    let ticket_keys = tls.ticket_keys.iter().map(PathBuf::as_path);
    issued.chain(pairs.chain(auth).flatten().chain(ticket_keys).map(Path::to_path_buf)).collect()
}

/// State of a listener that its next configuration takes over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before<'a> {
    /// Ticket keys, reused unless the settings name files for them.
    pub keys: Option<&'a Arc<dyn ProducesTickets>>,
    /// ACME files in use, which must not be replaced by a placeholder.
    pub issued: &'a [PathBuf],
    /// OCSP responses in use, kept if newer responses are invalid.
    pub staples: &'a [Arc<Staple>],
}

/// Reads the files of a listener. `challenges` answers authorities in handshakes.
///
/// # Errors
/// The first file that cannot be used.
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
            let certificate = Certificate::new(made(pair.acme.clone(), None)?, None);
            certificates.push(Entry { names: pair.acme.clone(), hosts: pair.hosts.clone(), certificate });
            continue;
        };
        used.extend(file);
        if let Some(cert) = &pair.cert {
            for what in inspect::misplaced(cert.into(), &certified.cert) {
                tracing::warn!("tls: {what}");
            }
        }
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
        let certificate = Certificate::new(certified, staple);
        certificates.push(Entry { names, hosts: pair.hosts.clone(), certificate });
    }
    if tls.self_signed && certificates.is_empty() {
        // For local use only: nothing trusts it.
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_string).to_vec();
        let certificate = Certificate::new(made(names, None)?, None);
        certificates.push(Entry { names: Vec::new(), hosts: Vec::new(), certificate });
    }
    let resolver = Arc::new(ByName::new(certificates, tls.unknown_name, is_asked.then(|| challenges.clone())));
    let cannot = |error: rustls::Error| FileError::new(false, error.to_string(), "this is a bug in evenkeel");
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions(tls.min_version))
        .map_err(cannot)?;
    // Hash of the required proof of clients: the authorities, and the revocation lists. Tickets of other proofs do not
    // open.
    let mut proof = Sha256::new_with_prefix(tickets::FORMAT);
    let mut config = match &tls.client_auth {
        None => builder.with_no_client_auth(),
        Some(auth) => {
            proof.update([match auth.mode {
                ClientAuthMode::Optional => 1,
                ClientAuthMode::Required => 2,
                ClientAuthMode::Unverified => 3,
            }]);
            let authorities = authorities::read(&auth.ca)?;
            authorities.certificates.iter().for_each(|certificate| proof.update(Sha256::digest(certificate)));
            let lists = auth.crl.as_ref().map(pair::revoked).transpose()?.unwrap_or_default();
            lists.iter().for_each(|list| proof.update(Sha256::digest(list)));
            let built = Clients::of(authorities, lists, auth.mode).map_err(|error| {
                FileError::new(
                    false,
                    format!("client_auth is invalid: {error}"),
                    "check the files of \"ca\" and \"crl\"",
                )
            })?;
            builder.with_client_cert_verifier(Arc::new(built))
        }
    }
    .with_cert_resolver(resolver);
    // A TCP session's protocol is unknown, so none is offered.
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
    // The secrets are passed to the code that encrypts records, outside of rustls.
    config.enable_secret_extraction = true;
    Ok(Made { config: Arc::new(config), expiries, staples, keys, issued: used })
}

/// Reads a certificate and its key; `None` if the plan names none.
fn read(certificate: &plan::Certificate) -> Result<Option<CertifiedKey>, FileError> {
    let (Some(cert), Some(key)) = (&certificate.cert, &certificate.key) else { return Ok(None) };
    pair::certified(cert, key).map(Some)
}

/// Reads an issued certificate. `None` if there is none yet or it is unusable, as a new certificate is ordered then. An
/// error if it `is_used` already: a placeholder must not replace a good certificate.
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
    certificate.cert.as_ref().map_or_else(String::new, Pem::to_string)
}

//! Choice of a certificate for a client, by the name it asks for: an exact match before a wildcard; among several, the
//! first whose key type the client supports.

use crate::challenges::{self, Challenges};
use crate::ocsp::Staple;
use crate::pair::signs;
use evenkeel_config::plan::UnknownName;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

/// A certificate, with and without its OCSP response.
#[derive(Debug)]
pub struct Certificate {
    bare: Arc<CertifiedKey>,
    stapled: Option<(Arc<Staple>, Arc<CertifiedKey>)>,
}

impl Certificate {
    /// Wraps a certificate. `staple` is shown with it until nextUpdate.
    pub fn new(certified: CertifiedKey, staple: Option<Arc<Staple>>) -> Certificate {
        let stapled = staple.and_then(|staple| {
            let with = CertifiedKey { ocsp: Some(staple.der()?.to_vec()), ..certified.clone() };
            Some((staple, Arc::new(with)))
        });
        Certificate { bare: Arc::new(certified), stapled }
    }

    /// The certificate for a handshake now, with the OCSP response if that is valid.
    fn current(&self) -> &Arc<CertifiedKey> {
        match &self.stapled {
            Some((staple, with)) if !staple.has_ended() => with,
            _ => &self.bare,
        }
    }
}

/// Certificates of a listener by name.
#[derive(Debug)]
pub struct ByName {
    names: HashMap<String, Vec<Arc<Certificate>>>,
    /// All certificates, in the order of the configuration.
    all: Vec<Arc<Certificate>>,
    unknown: UnknownName,
    /// Pending ACME challenges, if authorities may check names here.
    challenges: Option<Arc<Challenges>>,
}

impl ByName {
    /// Indexes certificates, each with its names in lower case.
    pub fn new(
        certificates: Vec<(Vec<String>, Certificate)>,
        unknown: UnknownName,
        challenges: Option<Arc<Challenges>>,
    ) -> ByName {
        let (mut names, mut all) = (HashMap::<String, Vec<_>>::new(), Vec::new());
        for (its, certificate) in certificates {
            let certificate = Arc::new(certificate);
            for name in its {
                names.entry(name).or_default().push(certificate.clone());
            }
            all.push(certificate);
        }
        ByName { names, all, unknown, challenges }
    }

    /// Certificates with this name (case-insensitive); else those with its wildcard.
    fn of(&self, name: &str) -> Option<&[Arc<Certificate>]> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if let Some(exact) = self.names.get(&name) {
            return Some(exact);
        }
        let (_, domain) = name.split_once('.')?;
        self.names.get(&format!("*.{domain}")).map(Vec::as_slice)
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(challenges) = &self.challenges
            && hello.alpn().is_some_and(|mut offered| offered.next() == Some(challenges::PROTOCOL))
        {
            return challenges.certificate(hello.server_name()?);
        }
        let fit = match hello.server_name().map(|name| self.of(name)) {
            Some(Some(fit)) => fit,
            Some(None) if self.unknown == UnknownName::Reject => return None,
            _ => &self.all,
        };
        let verifies = |certificate: &&Arc<Certificate>| signs(&certificate.bare, hello.signature_schemes());
        fit.iter().find(verifies).or(fit.first()).map(|certificate| certificate.current().clone())
    }
}

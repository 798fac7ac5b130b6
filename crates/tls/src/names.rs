//! Which certificate does a client see? That of the name it asks for: an exact one before a wildcard, of several the first whose
//! key it can verify.

use crate::challenges::{self, Challenges};
use crate::pair::signs;
use evenkeel_config::plan::UnknownName;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

/// Certificates by name.
#[derive(Debug)]
pub struct ByName {
    names: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// In the order of the configuration.
    all: Vec<Arc<CertifiedKey>>,
    unknown: UnknownName,
    /// What authorities look for, if they may ask here.
    challenges: Option<Arc<Challenges>>,
}

impl ByName {
    /// These certificates, each with its names.
    pub fn new(
        certificates: Vec<(Vec<String>, CertifiedKey)>,
        unknown: UnknownName,
        challenges: Option<Arc<Challenges>>,
    ) -> ByName {
        let (mut names, mut all) = (HashMap::<String, Vec<_>>::new(), Vec::new());
        for (its, certified) in certificates {
            let certified = Arc::new(certified);
            for name in its {
                names.entry(name).or_default().push(certified.clone());
            }
            all.push(certified);
        }
        ByName { names, all, unknown, challenges }
    }

    /// Those that have a name.
    fn of(&self, name: &str) -> Option<&[Arc<CertifiedKey>]> {
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
        let verifies = |certified: &&Arc<CertifiedKey>| signs(certified, hello.signature_schemes());
        fit.iter().find(verifies).or(fit.first()).cloned()
    }
}

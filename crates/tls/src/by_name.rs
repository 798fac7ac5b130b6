//! Which certificate does a client get? The first that is for the name that it asks for; for one that asks for none, or for
//! another, the first of all.

use rustls::pki_types::DnsName;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

/// The certificates of a listener.
#[derive(Debug)]
pub struct ByName {
    /// By the whole name, in lower case; those of wildcards by what follows `*.`.
    exact: HashMap<Box<str>, Arc<CertifiedKey>>,
    wildcard: HashMap<Box<str>, Arc<CertifiedKey>>,
    first: Arc<CertifiedKey>,
}

impl ByName {
    /// Of at least one. A certificate without a name that can be read is for none.
    pub fn new(certificates: Vec<Arc<CertifiedKey>>) -> Option<ByName> {
        let first = certificates.first()?.clone();
        let (mut exact, mut wildcard) = (HashMap::new(), HashMap::new());
        for certificate in certificates {
            let Some(cert) = certificate.cert.first() else { continue };
            let Ok(parsed) = webpki::EndEntityCert::try_from(cert) else { continue };
            for name in parsed.valid_dns_names() {
                let name = name.to_ascii_lowercase();
                let (map, name) = match name.strip_prefix("*.") {
                    Some(behind) => (&mut wildcard, behind),
                    None => (&mut exact, &*name),
                };
                map.entry(name.into()).or_insert_with(|| certificate.clone());
            }
        }
        Some(ByName { exact, wildcard, first })
    }

    fn find(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        // rustls gives names in lower case.
        let found = name.and_then(|name| {
            let behind = || self.wildcard.get(name.split_once('.')?.1);
            self.exact.get(name).or_else(behind)
        });
        found.unwrap_or(&self.first).clone()
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().and_then(|name| DnsName::try_from(name).ok());
        Some(self.find(name.as_ref().map(DnsName::as_ref)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::provider;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::PrivateKeyDer;

    fn certified(names: &[&str]) -> Arc<CertifiedKey> {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let cert = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Arc::new(CertifiedKey::from_der(vec![cert.der().clone()], key, &provider()).unwrap())
    }

    #[test]
    fn a_client_gets_the_certificate_for_its_name_or_the_first() {
        let all = [certified(&["a.test"]), certified(&["b.test", "*.b.test"]), certified(&["x.b.test", "A.test"])];
        let by_name = ByName::new(all.to_vec()).unwrap();
        for (asked, wanted) in [
            (Some("a.test"), 0),
            (Some("b.test"), 1),
            (Some("any.b.test"), 1),
            (Some("x.b.test"), 2),
            (Some("deep.any.b.test"), 0),
            (Some("elsewhere.test"), 0),
            (None, 0),
        ] {
            assert!(Arc::ptr_eq(&by_name.find(asked), &all[wanted]), "{asked:?}");
        }
    }
}

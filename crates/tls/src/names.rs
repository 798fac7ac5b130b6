//! Choice of a certificate for a client, by the name it asks for. A certificate may be for certain hosts only: for a
//! name among them, no other certificate counts. Of those that count, an exact match goes before a wildcard, and the
//! first one whose key type the client supports is taken.

use crate::challenges::{self, Challenges};
use crate::ocsp::Staple;
use crate::pair::signs;
use evenkeel_config::plan::{HostPattern, UnknownName};
use rustls::SignatureScheme;
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

/// A certificate with the names that lead to it.
#[derive(Debug)]
pub struct Entry {
    /// Names of the certificate, in lower case.
    pub names: Vec<String>,
    /// Hosts that it is for; empty = its names.
    pub hosts: Vec<HostPattern>,
    pub certificate: Certificate,
}

/// Certificates of a listener by name.
#[derive(Debug)]
pub struct ByName {
    /// Certificates that are for certain hosts, by host; for a wildcard, by its suffix with the dot.
    of_hosts: HashMap<String, Group>,
    /// Certificates for the names in them.
    others: Group,
    /// Certificates for names without another certificate: the first of the list, and certificates of no certain host.
    unknown: Vec<Arc<Certificate>>,
    on_unknown: UnknownName,
    /// Pending ACME challenges, if authorities may check names here.
    challenges: Option<Arc<Challenges>>,
}

/// Certificates among which a name chooses.
#[derive(Debug, Default)]
struct Group {
    names: HashMap<String, Vec<Arc<Certificate>>>,
    /// All of them, in the order of the configuration.
    all: Vec<Arc<Certificate>>,
}

impl Group {
    fn add(&mut self, names: &[String], certificate: &Arc<Certificate>) {
        for name in names {
            self.names.entry(name.clone()).or_default().push(certificate.clone());
        }
        self.all.push(certificate.clone());
    }

    /// Certificates with this name in lower case, then those with its wildcard.
    fn named(&self, name: &str) -> impl Iterator<Item = &Arc<Certificate>> + Clone {
        let wildcard = name.split_once('.').map(|(_, domain)| format!("*.{domain}"));
        let wild = wildcard.and_then(|wildcard| self.names.get(&wildcard));
        self.names.get(name).into_iter().chain(wild).flatten()
    }
}

impl ByName {
    /// Indexes certificates by the names of their hosts.
    pub fn new(entries: Vec<Entry>, on_unknown: UnknownName, challenges: Option<Arc<Challenges>>) -> ByName {
        let (mut of_hosts, mut others, mut unknown) = (HashMap::<String, Group>::new(), Group::default(), Vec::new());
        for (at, Entry { names, hosts, certificate }) in entries.into_iter().enumerate() {
            let certificate = Arc::new(certificate);
            if at == 0 || hosts.is_empty() {
                unknown.push(certificate.clone());
            }
            if hosts.is_empty() {
                others.add(&names, &certificate);
            }
            for host in hosts {
                let (HostPattern::Exact(host) | HostPattern::Wildcard(host)) = host;
                of_hosts.entry(host).or_default().add(&names, &certificate);
            }
        }
        ByName { of_hosts, others, unknown, on_unknown, challenges }
    }

    /// Certificates for the most specific host that includes a name in lower case; `None` if none does.
    fn of_host(&self, name: &str) -> Option<&Group> {
        if self.of_hosts.is_empty() {
            return None;
        }
        let suffixes = name.match_indices('.').map(|(at, _)| &name[at..]);
        std::iter::once(name).chain(suffixes).find_map(|host| self.of_hosts.get(host))
    }

    /// The certificate for a name, or for none, and a client with these signature schemes.
    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<&Certificate> {
        let Some(name) = name else { return first(self.unknown.iter(), schemes) };
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if let Some(group) = self.of_host(&name) {
            return first(group.named(&name), schemes).or_else(|| first(group.all.iter(), schemes));
        }
        let known = first(self.others.named(&name), schemes);
        known.or_else(|| first(self.unknown.iter(), schemes).filter(|_| self.on_unknown == UnknownName::Default))
    }
}

/// The first certificate that a client can verify, else the first certificate.
fn first<'c>(
    mut all: impl Iterator<Item = &'c Arc<Certificate>> + Clone,
    schemes: &[SignatureScheme],
) -> Option<&'c Certificate> {
    let usual = all.clone().next();
    all.find(|certificate| signs(&certificate.bare, schemes)).or(usual).map(|certificate| &**certificate)
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(challenges) = &self.challenges
            && hello.alpn().is_some_and(|mut offered| offered.next() == Some(challenges::PROTOCOL))
        {
            return challenges.certificate(hello.server_name()?);
        }
        let chosen = self.choose(hello.server_name(), hello.signature_schemes());
        chosen.map(|certificate| certificate.current().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::certified_pem;
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};

    const ECDSA: &[SignatureScheme] = &[SignatureScheme::ECDSA_NISTP256_SHA256];
    const ED25519: &[SignatureScheme] = &[SignatureScheme::ED25519];
    const BOTH: &[SignatureScheme] = &[SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519];

    fn entry(names: &[&str], hosts: &[&str], kind: &'static SignatureAlgorithm) -> Entry {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate_for(kind).expect("a key");
        let cert = CertificateParams::new(names.clone()).and_then(|of| of.self_signed(&key)).expect("a certificate");
        let certified = certified_pem(format!("{}\n{}", cert.pem(), key.serialize_pem()).as_bytes()).expect("both");
        let pattern = |host: &&str| match host.strip_prefix('*') {
            Some(suffix) => HostPattern::Wildcard(suffix.to_owned()),
            None => HostPattern::Exact((*host).to_owned()),
        };
        Entry { names, hosts: hosts.iter().map(pattern).collect(), certificate: Certificate::new(certified, None) }
    }

    /// Number of the entry that is chosen for each name.
    #[track_caller]
    fn chosen(entries: Vec<Entry>, expected: &[(&str, &[SignatureScheme], usize)]) {
        let keys: Vec<Vec<u8>> = entries.iter().map(|entry| entry.certificate.bare.cert[0].to_vec()).collect();
        let by_name = ByName::new(entries, UnknownName::Default, None);
        for (name, schemes, number) in expected {
            let found = by_name.choose(Some(name), schemes).expect("there is one").bare.cert[0].to_vec();
            assert_eq!(keys.iter().position(|key| *key == found), Some(*number), "{name} {schemes:?}");
        }
    }

    #[test]
    fn a_wildcard_that_the_client_can_verify_goes_before_an_exact_name_that_it_cannot() {
        let entries = vec![
            entry(&["first.test"], &[], &PKCS_ED25519),
            entry(&["a.x.test"], &[], &PKCS_ED25519),
            entry(&["*.x.test"], &[], &PKCS_ECDSA_P256_SHA256),
        ];
        let expected: &[(&str, &[SignatureScheme], usize)] = &[
            ("a.x.test", BOTH, 1),
            ("A.x.test.", ED25519, 1),
            ("a.x.test", ECDSA, 2),
            ("b.x.test", BOTH, 2),
            ("b.x.test", ED25519, 2),
            ("a.b.x.test", BOTH, 0),
        ];
        chosen(entries, expected);
    }

    #[test]
    fn for_a_host_of_a_certificate_no_other_one_counts() {
        let entries = vec![
            entry(&["first.test"], &[], &PKCS_ED25519),
            entry(&["*.x.test"], &["*.x.test"], &PKCS_ED25519),
            // Of others, which have no part of the hosts above.
            entry(&["www.x.test", "*.y.test"], &["c.y.test"], &PKCS_ECDSA_P256_SHA256),
            entry(&["www.x.test"], &[], &PKCS_ECDSA_P256_SHA256),
            entry(&["one.z.test"], &["*.z.test"], &PKCS_ECDSA_P256_SHA256),
            entry(&["two.z.test"], &["*.z.test"], &PKCS_ECDSA_P256_SHA256),
        ];
        let expected: &[(&str, &[SignatureScheme], usize)] = &[
            ("www.x.test", BOTH, 1),
            ("www.x.test", ECDSA, 1),
            ("a.b.x.test", BOTH, 1),
            ("c.y.test", BOTH, 2),
            ("d.y.test", BOTH, 0),
            ("two.z.test", BOTH, 5),
            ("three.z.test", BOTH, 4),
            ("unknown.test", BOTH, 0),
        ];
        chosen(entries, expected);
    }
}

//! Choice of the certificate, by the name and the key types of the client.

use crate::support::pki::{Issued, Pki, config};
use crate::support::tls::{TlsClient, V12, V13};
use crate::support::{Endpoint, Proxy};
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::{Arc, Mutex};

fn proxy(certificates: &[&Issued], endpoint: &Endpoint, more: &str) -> Proxy {
    let entries: Vec<String> = certificates.iter().map(|issued| issued.entry()).collect();
    Proxy::start(&config(&format!("tls = {{ certificates = [{}] {more} }}", entries.join(", ")), endpoint, ""))
}

/// A verifier that accepts everything, and keeps the certificate and OCSP response that it was shown.
#[derive(Debug)]
struct Watching {
    provider: CryptoProvider,
    seen: Mutex<(Vec<u8>, Vec<u8>)>,
}

impl ServerCertVerifier for Watching {
    fn verify_server_cert(
        &self,
        cert: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.seen.lock().unwrap() = (cert.to_vec(), ocsp.to_vec());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Certificate and OCSP response that are shown to a client with these capabilities that asks for this name.
#[track_caller]
pub(super) fn shown(
    proxy: &Proxy,
    provider: CryptoProvider,
    versions: &[&'static rustls::SupportedProtocolVersion],
    name: &str,
) -> (Vec<u8>, Vec<u8>) {
    let watching = Arc::new(Watching { provider: provider.clone(), seen: Mutex::default() });
    let builder = ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(versions).unwrap();
    let client = builder.dangerous().with_custom_certificate_verifier(watching.clone()).with_no_client_auth();
    assert_eq!(TlsClient::connect(proxy.addr(), Arc::new(client), name).unwrap().get("/").status(), 200);
    watching.seen.lock().unwrap().clone()
}

#[test]
fn an_exact_name_comes_before_a_wildcard_and_the_first_of_all_where_none_fits() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let [first, any, exact] = ["first.test", "*.b.test", "www.b.test"].map(|name| pki.issue(name));
    let proxy = proxy(&[&first, &any, &exact], &endpoint, "");
    for (name, wanted) in [
        ("first.test", &first),
        ("www.b.test", &exact),
        ("WWW.B.test", &exact),
        ("other.b.test", &any),
        // A wildcard stands for one label.
        ("b.test", &first),
        ("a.www.b.test", &first),
        ("elsewhere.test", &first),
        // A client of an IP address sends no name.
        ("127.0.0.1", &first),
    ] {
        assert_eq!(shown(&proxy, default_provider(), V13, name).0, wanted.der.to_vec(), "{name}");
    }
}

/// A provider that supports only these signature schemes.
fn knowing(schemes: &[SignatureScheme]) -> CryptoProvider {
    let mut provider = default_provider();
    let known = provider.signature_verification_algorithms;
    let mapping: Vec<_> = known.mapping.iter().filter(|(scheme, _)| schemes.contains(scheme)).copied().collect();
    let mapping = Box::leak(mapping.into_boxed_slice());
    provider.signature_verification_algorithms = WebPkiSupportedAlgorithms { all: known.all, mapping };
    provider
}

#[test]
fn of_several_for_a_name_a_client_sees_the_first_whose_key_it_knows() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let [ed, ec, rsa] =
        [&PKCS_ED25519, &PKCS_ECDSA_P256_SHA256, &PKCS_RSA_SHA256].map(|kind| pki.issue_with("a.test", kind, |_| ()));
    let proxy = proxy(&[&ed, &ec, &rsa], &endpoint, "");
    for (schemes, wanted) in [
        (&[SignatureScheme::ED25519, SignatureScheme::RSA_PSS_SHA256][..], &ed),
        (&[SignatureScheme::RSA_PSS_SHA256, SignatureScheme::ECDSA_NISTP256_SHA256], &ec),
        (&[SignatureScheme::RSA_PSS_SHA256], &rsa),
    ] {
        for versions in [V12, V13] {
            assert_eq!(shown(&proxy, knowing(schemes), versions, "a.test").0, wanted.der.to_vec(), "{schemes:?}");
        }
    }
    // In TLS 1.2 the cipher suites decide, too.
    for (suites, wanted) in [("ECDHE_RSA", &rsa), ("ECDHE_ECDSA", &ed)] {
        let mut provider = default_provider();
        provider.cipher_suites.retain(|suite| format!("{:?}", suite.suite()).contains(suites));
        assert_eq!(shown(&proxy, provider, V12, "a.test").0, wanted.der.to_vec(), "{suites}");
    }
}

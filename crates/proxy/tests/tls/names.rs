//! Choice of the certificate, by the name and the key types of the client.

use crate::support::pki::{Issued, Pki, config};
use crate::support::tls::{BOTH, TlsClient, V12, V13};
use crate::support::{Endpoint, Proxy};
use rcgen::{CertificateParams, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256};
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

/// The cases of Gateway API's conformance test HTTPRouteHTTPSListenerDetectMisdirectedRequests.
#[test]
fn a_request_for_a_host_of_another_group_than_the_server_name_gets_a_421() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let names = ["first.example", "second.example", "*.wild.example", "unknown.example"].map(str::to_string).to_vec();
    let names = CertificateParams::new(names).expect("names").subject_alt_names;
    let own = pki.issue_with("first.example", &PKCS_ECDSA_P256_SHA256, |params| params.subject_alt_names = names);
    let trusting = pki.client(BOTH, None);
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nerrors = 'detailed'\n[listener.web.tls]\n\
         certificates = [{}]\n\
         host_groups = ['second.example', '*.wild.example', 'fourth.wild.example']\n\
         [pool.web]\nendpoints = [\"{}\"]\n[[route]]\npool = 'web'\n\
         match = {{ host = ['first.example', 'second.example', '*.wild.example'] }}\n",
        own.entry(),
        endpoint.addr
    ));
    for (server_name, cases) in [
        ("first.example", &[("first.example", 200), ("second.example:443", 421), ("unknown.example", 404)][..]),
        ("second.example", &[("Second.example", 200), ("first.example", 421), ("unknown.example", 421)]),
        (
            "third.wild.example",
            &[
                ("third.wild.example", 200),
                ("fifth.wild.example", 200),
                ("fourth.wild.example", 421),
                ("second.example", 421),
                ("unknown.example", 421),
            ],
        ),
        ("fourth.wild.example", &[("fourth.wild.example", 200), ("fifth.wild.example", 421)]),
        ("unknown.example", &[("first.example", 200), ("unknown.example", 404)]),
    ] {
        // All of them over one connection, which none of the answers ends.
        let mut client = TlsClient::connect(proxy.addr(), trusting.clone(), server_name).unwrap();
        for (host, status) in cases {
            let answer = client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).response();
            assert_eq!(answer.status(), *status, "{server_name} {host}: {}", answer.body_text());
            assert!(
                *status != 421 || answer.head.starts_with("HTTP/1.1 421 Misdirected Request\r\n"),
                "{}",
                answer.head
            );
        }
    }
}

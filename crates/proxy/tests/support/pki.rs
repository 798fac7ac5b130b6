//! A test authority with files, as a configuration names them: certificates, keys, revocation lists and OCSP responses.

use super::tls::{BOTH, TlsClient};
use super::{Endpoint, Proxy};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, RevokedCertParams, SerialNumber, SignatureAlgorithm, SigningKey,
    date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// An authority and its folder, which is removed on drop.
pub struct Pki {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
}

/// A certificate and its key, in files.
pub struct Issued {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub der: CertificateDer<'static>,
    key_der: Vec<u8>,
}

impl Issued {
    /// The pair as an entry of `certificates`.
    pub fn entry(&self) -> String {
        format!("{{ cert = {:?}, key = {:?} }}", self.cert, self.key)
    }
}

impl Pki {
    pub fn new() -> Pki {
        Pki::named("an authority")
    }

    /// Creates an authority with this name.
    pub fn named(authority: &str) -> Pki {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("evenkeel-pki-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder of its own");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, authority);
        let cert = params.self_signed(&key).expect("a certificate");
        let pki = Pki { folder, der: cert.der().clone(), issuer: Issuer::new(params, key) };
        pki.write("ca.pem", cert.pem());
        pki
    }

    /// Replaces a file of the folder atomically.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(path.with_extension("new"), content).expect("a file");
        std::fs::rename(path.with_extension("new"), &path).expect("its place");
        path
    }

    /// Path of the authority's certificate.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Issues a certificate for this DNS name.
    pub fn issue(&self, name: &str) -> Issued {
        self.issue_with(name, &PKCS_ECDSA_P256_SHA256, |_| ())
    }

    /// Issues a certificate with a key of this type. `change` adjusts its parameters.
    pub fn issue_with(
        &self,
        name: &str,
        kind: &'static SignatureAlgorithm,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        let (key, params) = asked(name, kind, change);
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        self.issued(&cert, &key)
    }

    /// A self-signed certificate that is marked as an authority, as `openssl req -x509` makes them.
    pub fn own(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let (key, params) = asked(name, &PKCS_ECDSA_P256_SHA256, |params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            change(params);
        });
        self.issued(&params.self_signed(&key).expect("a certificate"), &key)
    }

    fn issued(&self, cert: &rcgen::Certificate, key: &KeyPair) -> Issued {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        Issued {
            cert: self.write(&format!("{number}.pem"), cert.pem()),
            key: self.write(&format!("{number}.key"), key.serialize_pem()),
            der: cert.der().clone(),
            key_der: key.serialize_der(),
        }
    }

    /// Issues a certificate with this serial number.
    pub fn numbered(&self, name: &str, serial: u8) -> Issued {
        self.issue_with(name, &PKCS_ECDSA_P256_SHA256, |params| {
            params.serial_number = Some(SerialNumber::from_slice(&[serial]));
        })
    }

    /// Writes the revocation list, with these serial numbers.
    pub fn crl(&self, revoked: &[u8]) -> PathBuf {
        let revoked = revoked.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from_slice(&[*serial]),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from_slice(&[1]),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        self.write("crl.pem", list.signed_by(&self.issuer).expect("a list").pem().expect("PEM"))
    }

    /// Makes an OCSP response with status `good`, by OpenSSL. `more`: further options.
    pub fn ocsp(&self, issued: &Issued, more: &str) -> Vec<u8> {
        self.write("ca.key", self.issuer.key().serialize_pem());
        let openssl = |words: &str| {
            let mut command = Command::new("openssl");
            let ran = command.args(words.split_ascii_whitespace()).current_dir(&self.folder).output().expect("OpenSSL");
            assert!(ran.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&ran.stderr));
            String::from_utf8(ran.stdout).expect("text")
        };
        let cert = issued.cert.display();
        let serial = openssl(&format!("x509 -noout -serial -in {cert}"));
        let serial = serial.trim().trim_start_matches("serial=");
        self.write("index", format!("V\t491231235959Z\t\t{serial}\tunknown\t/CN=any\n"));
        openssl(&format!(
            "ocsp -index index -CA ca.pem -rsigner ca.pem -rkey ca.key -issuer ca.pem -cert {cert} -respout response {more} -no_nonce \
             -noverify"
        ));
        std::fs::read(self.folder.join("response")).expect("it was made")
    }

    /// Sets nextUpdate of a response without certificates to 2001 and signs it anew, which OpenSSL refuses to do.
    pub fn expired(&self, response: &[u8]) -> Vec<u8> {
        let (status, rest) = split(inner(response));
        let (kind, rest) = split(inner(inner(rest)));
        let (data, rest) = split(inner(inner(rest)));
        let (algorithm, _) = split(rest);
        // The last GeneralizedTime (tag 0x18, 15 bytes) is nextUpdate.
        let at = data.windows(2).rposition(|window| window == [0x18, 15]).expect("it has a nextUpdate");
        let mut data = data.to_vec();
        data[at + 2..at + 6].copy_from_slice(b"2001");
        let signature = [&[0][..], &self.issuer.key().sign(&data).expect("a key that signs")].concat();
        let basic = der(0x30, &[&data, algorithm, &der(3, &[&signature])]);
        der(0x30, &[status, &der(0xa0, &[&der(0x30, &[kind, &der(4, &[&basic])])])])
    }

    /// A client that trusts the authority, and shows this certificate if it is asked.
    pub fn client(&self, versions: &[&'static SupportedProtocolVersion], shows: Option<&Issued>) -> Arc<ClientConfig> {
        self.client_by(default_provider(), versions, shows)
    }

    /// Like [`client`](Self::client), with another crypto provider.
    pub fn client_by(
        &self,
        provider: CryptoProvider,
        versions: &[&'static SupportedProtocolVersion],
        shows: Option<&Issued>,
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).expect("a certificate");
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_protocol_versions(versions).expect("versions").with_root_certificates(roots);
        Arc::new(match shows {
            None => builder.with_no_client_auth(),
            Some(Issued { der, key_der, .. }) => builder
                .with_client_auth_cert(vec![der.clone()], PrivateKeyDer::Pkcs8(key_der.clone().into()))
                .expect("a certificate and its key"),
        })
    }

    /// A server that shows this certificate.
    pub fn serving(&self, shown: &Issued) -> Arc<rustls::ServerConfig> {
        self.serving_by(shown, BOTH)
    }

    /// Like [`serving`](Self::serving), for these versions of TLS. It issues tickets.
    pub fn serving_by(
        &self,
        shown: &Issued,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<rustls::ServerConfig> {
        let builder = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_protocol_versions(versions).expect("versions").with_no_client_auth();
        let key = PrivateKeyDer::Pkcs8(shown.key_der.clone().into());
        let mut config = builder.with_single_cert(vec![shown.der.clone()], key).expect("a certificate and its key");
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().expect("randomness");
        Arc::new(config)
    }

    /// A server that shows this certificate, and requires one of this authority from clients.
    pub fn wanting(&self, shown: &Issued) -> Arc<rustls::ServerConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).expect("a certificate");
        let provider = Arc::new(default_provider());
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let builder = rustls::ServerConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(BOTH).expect("versions");
        let builder = builder.with_client_cert_verifier(verifier.build().expect("a verifier"));
        let key = PrivateKeyDer::Pkcs8(shown.key_der.clone().into());
        Arc::new(builder.with_single_cert(vec![shown.der.clone()], key).expect("a certificate and its key"))
    }
}

impl Drop for Pki {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Generates a key and the parameters of its certificate.
fn asked(
    name: &str,
    kind: &'static SignatureAlgorithm,
    change: impl FnOnce(&mut CertificateParams),
) -> (KeyPair, CertificateParams) {
    let key = KeyPair::generate_for(kind).expect("a key");
    let mut params = CertificateParams::new(vec![name.to_string()]).expect("a name");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Example, Inc.");
    params.distinguished_name.push(DnType::CommonName, name);
    change(&mut params);
    (key, params)
}

/// Configuration of a listener with these lines, for one endpoint. `behind`: more sections.
pub fn config(listener: &str, endpoint: &Endpoint, behind: &str) -> String {
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nerrors = \"detailed\"\n{listener}\n\
         [pool.web]\nendpoints = [\"{}\"]\n{behind}\n",
        endpoint.addr
    )
}

/// The error of a refused client, which appears only at the first read with TLS 1.3.
#[track_caller]
pub fn refused(proxy: &Proxy, client: Arc<ClientConfig>, name: &str) -> String {
    let tried = TlsClient::connect(proxy.addr(), client, name).and_then(|mut client| {
        let mut byte = [0];
        client.stream().read(&mut byte)
    });
    match tried {
        Ok(n) => panic!("the client was not refused: {n}"),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("the client waits"),
        Err(error) => error.to_string(),
    }
}

/// True if a new connection resumes a session. A request is sent on it, so that the next ticket arrives.
#[track_caller]
pub fn resumes(proxy: &Proxy, client: &Arc<ClientConfig>, name: &str) -> bool {
    let mut client = TlsClient::connect(proxy.addr(), client.clone(), name).expect("a handshake");
    assert_eq!(client.get("/").status(), 200);
    client.stream().conn.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
}

/// Splits DER after its first element.
fn split(der: &[u8]) -> (&[u8], &[u8]) {
    der.split_at(der.len() - content(der).1.len())
}

/// Content of the first element of DER.
fn inner(der: &[u8]) -> &[u8] {
    content(der).0
}

fn content(der: &[u8]) -> (&[u8], &[u8]) {
    let (header, length) = match der[1] {
        short @ ..=0x7f => (2, usize::from(short)),
        0x81 => (3, usize::from(der[2])),
        _ => (4, usize::from(u16::from_be_bytes([der[2], der[3]]))),
    };
    der[header..].split_at(length)
}

fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u16::try_from(content.len()).expect("a short one").to_be_bytes();
    let header = match length {
        [0, short @ ..=0x7f] => vec![tag, short],
        [0, short] => vec![tag, 0x81, short],
        [high, low] => vec![tag, 0x82, high, low],
    };
    [header, content].concat()
}

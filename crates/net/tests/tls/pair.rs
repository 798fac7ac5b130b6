//! A deterministic handshake in memory: random numbers, key exchange and signature are constants. So several
//! readers of one stream can be created, and a peer that seals arbitrary records.

use evenkeel_peers::Trusting;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{
    ClientConfig, Error, NamedGroup, ServerConfig, SignatureAlgorithm, SignatureScheme, SupportedCipherSuite,
};
use std::sync::Arc;

/// A suite for each kind of record protection, which does not depend on RSA or ECDSA.
pub const SUITES: [SupportedCipherSuite; 6] = [
    cipher_suite::TLS13_AES_128_GCM_SHA256,
    cipher_suite::TLS13_AES_256_GCM_SHA384,
    cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
];

/// Both sides after their handshake.
pub struct Pair {
    pub server: UnbufferedServerConnection,
    pub client: UnbufferedClientConnection,
    /// Records sealed by the server after its handshake: tickets.
    pub tickets: Vec<u8>,
}

/// Appends the output of a rustls connection to `$out`.
macro_rules! encode {
    ($data:expr, $out:expr) => {{
        let mut room = vec![0; 64 * 1024];
        let written = $data.encode(&mut room).expect("there is room");
        $out.extend_from_slice(&room[..written]);
    }};
}
pub(crate) use encode;

/// Passes everything the other side has sent to a connection, and collects its output.
macro_rules! step {
    ($connection:expr, $received:expr, $sent:expr) => {
        loop {
            let UnbufferedStatus { discard, state, .. } = $connection.process_tls_records(&mut $received);
            let more = match state.expect("the handshake has no fault") {
                ConnectionState::EncodeTlsData(mut data) => {
                    encode!(data, $sent);
                    true
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    true
                }
                _ => false,
            };
            $received.drain(..discard);
            if !more {
                break;
            }
        }
    };
}

impl Pair {
    /// Runs a handshake that agrees on this suite.
    pub fn new(suite: SupportedCipherSuite) -> Pair {
        let provider = Arc::new(CryptoProvider {
            cipher_suites: vec![suite],
            kx_groups: vec![&Constant],
            secure_random: &Constant,
            ..default_provider()
        });
        let key = CertifiedKey::new(vec![CertificateDer::from(vec![0; 8])], Arc::new(Constant));
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[suite.version()])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[suite.version()])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Trusting::new(vec![SignatureScheme::ED25519])))
            .with_no_client_auth();
        (server.enable_secret_extraction, client.enable_secret_extraction) = (true, true);
        client.resumption = Resumption::disabled();
        let mut server = UnbufferedServerConnection::new(Arc::new(server)).unwrap();
        let name = ServerName::try_from("a.test").unwrap();
        let mut client = UnbufferedClientConnection::new(Arc::new(client), name).unwrap();
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        while client.is_handshaking() || server.is_handshaking() {
            step!(client, to_client, to_server);
            step!(server, to_server, to_client);
        }
        Pair { server, client, tickets: to_client }
    }
}

/// Constant random numbers, key exchange, key and verifier.
#[derive(Debug)]
struct Constant;

impl SecureRandom for Constant {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        bytes.fill(0x5a);
        Ok(())
    }
}

impl SupportedKxGroup for Constant {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        Ok(Box::new(Constant))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl ActiveKeyExchange for Constant {
    fn complete(self: Box<Self>, _: &[u8]) -> Result<SharedSecret, Error> {
        Ok(SharedSecret::from(&[7; 32][..]))
    }

    fn pub_key(&self) -> &[u8] {
        &[9; 32]
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

impl SigningKey for Constant {
    fn choose_scheme(&self, _: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(Constant))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for Constant {
    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(vec![3; 64])
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

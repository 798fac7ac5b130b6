//! The cryptography: AWS-LC, with the hybrid of X25519 and ML-KEM first, as current clients offer it, and AES-128
//! before AES-256, as nothing breaks it and it costs less.

use evenkeel_config::plan::TlsVersion;
use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, SupportedProtocolVersion, version};
use std::io;
use std::sync::{Arc, OnceLock};

/// The provider, shared by all configurations of the process.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER
        .get_or_init(|| {
            let mut provider = rustls::crypto::aws_lc_rs::default_provider();
            // Only key lengths are reordered (the sort is stable): TLS 1.3 stays first, and so do the orders within.
            provider.cipher_suites.sort_by_key(|suite| (suite.tls13().is_none(), !is_short(suite.suite())));
            Arc::new(provider)
        })
        .clone()
}

/// Random bytes for keys.
///
/// # Errors
/// The system has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    provider().secure_random.fill(&mut bytes).map_err(|_| io::Error::other("the system has no random bytes"))?;
    Ok(bytes)
}

/// True for suites with AES-128.
fn is_short(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    )
}

/// TLS versions from `min` on, newest first.
pub fn versions(min: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    static ALL: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
    match min {
        TlsVersion::V12 => &ALL,
        TlsVersion::V13 => &ALL[..1],
    }
}

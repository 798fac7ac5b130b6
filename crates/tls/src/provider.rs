//! By which cryptography? That of AWS-LC, with a hybrid of X25519 and ML-KEM first, as clients of today offer it, and AES of 128
//! bits before that of 256: nothing breaks it, and it costs less.

use evenkeel_config::plan::TlsVersion;
use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, SupportedProtocolVersion, version};
use std::sync::{Arc, OnceLock};

/// The one for all.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER
        .get_or_init(|| {
            let mut provider = rustls::crypto::aws_lc_rs::default_provider();
            // The versions and the keys of each keep their order.
            provider.cipher_suites.sort_by_key(|suite| (suite.tls13().is_none(), !is_short(suite.suite())));
            Arc::new(provider)
        })
        .clone()
}

/// Whether its key has 128 bits.
fn is_short(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    )
}

/// The versions from this one on.
pub fn versions(min: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    static ALL: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
    match min {
        TlsVersion::V12 => &ALL,
        TlsVersion::V13 => &ALL[..1],
    }
}

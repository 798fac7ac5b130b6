//! By which cryptography? That of AWS-LC, with a hybrid of X25519 and ML-KEM first, as clients of today offer it.

use evenkeel_config::plan::TlsVersion;
use rustls::crypto::CryptoProvider;
use rustls::{SupportedProtocolVersion, version};
use std::sync::{Arc, OnceLock};

/// The one for all.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider())).clone()
}

/// The versions from this one on.
pub fn versions(min: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    static ALL: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
    match min {
        TlsVersion::V12 => &ALL,
        TlsVersion::V13 => &ALL[..1],
    }
}

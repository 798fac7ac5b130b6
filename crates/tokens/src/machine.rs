//! Files of keys as `evenkeel check` inspects them.

use crate::keys::KeySet;
use evenkeel_config::plan::Pem;
use evenkeel_config::{CertificateFault, Certified, Found, Machine, TlsFile};
use std::io;
use std::net::IpAddr;
use std::path::Path;

/// A [`Machine`] that also inspects files with keys of tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct WithKeys<M>(pub M);

impl<M: Machine> Machine for WithKeys<M> {
    fn look(&self, path: &Path) -> io::Result<Found> {
        self.0.look(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.read(path)
    }

    fn append(&self, path: &Path) -> io::Result<()> {
        self.0.append(path)
    }

    fn has(&self, ip: IpAddr) -> io::Result<()> {
        self.0.has(ip)
    }

    fn is_own(&self, ip: IpAddr) -> bool {
        self.0.is_own(ip)
    }

    fn certificate(&self, cert: &Pem, key: &Pem) -> Certified {
        self.0.certificate(cert, key)
    }

    fn ocsp(&self, file: &Path, cert: &Pem) -> Vec<CertificateFault> {
        self.0.ocsp(file, cert)
    }

    fn tls_file(&self, kind: TlsFile, file: &Pem) -> Vec<CertificateFault> {
        self.0.tls_file(kind, file)
    }

    fn keys(&self, set: &[u8]) -> Result<(), String> {
        KeySet::read(set, true).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::ThisMachine;

    #[test]
    fn a_set_is_checked_by_its_keys() {
        let machine = WithKeys(ThisMachine);
        assert!(ThisMachine.keys(b"{}").is_ok() && machine.keys(b"{}").is_err());
        let key = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        assert_eq!(machine.keys(key.as_bytes()), Ok(()));
    }
}

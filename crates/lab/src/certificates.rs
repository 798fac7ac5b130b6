//! Certificates that the proxies serve: for each kind of key, created by openssl at the start, as separate files and as
//! a single file, as different proxies need.

use crate::child;
use crate::error::{Error, Result, While};
use crate::scratch::Scratch;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kind of key of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// ECDSA with P-256.
    P256,
    /// RSA with 2,048 bits.
    Rsa2048,
}

/// Certificates of all kinds; their files are removed when dropped.
pub struct Certificates {
    p256: Files,
    rsa2048: Files,
    _folder: Scratch,
}

/// Files of a certificate, in PEM.
#[derive(Clone, Debug)]
pub struct Files {
    /// File with the certificate alone.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// File with certificate and key.
    pub both: PathBuf,
}

impl Certificates {
    /// Creates a certificate of each kind.
    ///
    /// # Errors
    /// If openssl is missing or fails.
    pub fn make() -> Result<Certificates> {
        let folder = Scratch::new()?;
        let p256 = make(&folder, "p256", &["ec", "-pkeyopt", "ec_paramgen_curve:P-256"])?;
        let rsa2048 = make(&folder, "rsa2048", &["rsa:2048"])?;
        Ok(Certificates { p256, rsa2048, _folder: folder })
    }

    pub fn of(&self, certificate: Certificate) -> &Files {
        match certificate {
            Certificate::P256 => &self.p256,
            Certificate::Rsa2048 => &self.rsa2048,
        }
    }
}

fn make(folder: &Scratch, name: &str, key: &[&str]) -> Result<Files> {
    let file = |kind: &str| folder.path().join(format!("{name}.{kind}"));
    let files = Files { certificate: file("crt"), key: file("key"), both: file("pem") };
    let mut command = vec![child::find("openssl")?];
    command.extend(
        "req -x509 -nodes -days 30 -subj /CN=lab.test -addext subjectAltName=DNS:lab.test".split(' ').map(String::from),
    );
    command.push("-newkey".into());
    command.extend(key.iter().map(|&word| word.to_owned()));
    command.extend(["-keyout".into(), files.key.display().to_string()]);
    command.extend(["-out".into(), files.certificate.display().to_string()]);
    let output = child::output(&command, Duration::from_secs(60))?;
    if !output.success {
        return Err(Error::Wrong(format!("`{}` failed:\n{}", command.join(" "), output.text.trim())));
    }
    let read = |path: &Path| std::fs::read(path).or_say(|| format!("cannot read {}", path.display()));
    folder.write(&format!("{name}.pem"), [read(&files.certificate)?, read(&files.key)?].concat())?;
    Ok(files)
}

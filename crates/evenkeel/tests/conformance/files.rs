//! Files for both sides: certificates, content that is sent, and programs that are built from a source beside the tests.

use crate::support::Folder;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the sources.
pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance");

/// A certificate for the loopback addresses given and for `localhost`, of an authority of its own.
#[derive(Clone, Debug)]
pub struct Certificate {
    pub cert: String,
    pub key: String,
    /// Path of the certificate of its authority.
    pub ca: String,
}

impl Certificate {
    pub fn make(folder: &Folder, name: &str, addresses: &[&str]) -> Certificate {
        let file = |kind: &str| folder.0.join(format!("{name}.{kind}")).display().to_string();
        let ip = |address: &&str| format!(",IP:{}", address.rsplit_once(':').map_or(*address, |(ip, _)| ip));
        let names = format!("DNS:localhost{}", addresses.iter().map(ip).collect::<String>());
        let config = format!(
            "[req]\ndistinguished_name = dn\nprompt = no\n[dn]\nCN = {name}\n\
             [ca]\nbasicConstraints = critical,CA:TRUE\nkeyUsage = critical,keyCertSign\nsubjectKeyIdentifier = hash\n\
             [leaf]\nbasicConstraints = critical,CA:FALSE\nkeyUsage = critical,digitalSignature\n\
             extendedKeyUsage = serverAuth\nauthorityKeyIdentifier = keyid\nsubjectKeyIdentifier = hash\n\
             subjectAltName = {names}\n"
        );
        let config = folder.file(&format!("{name}.cnf"), &config);
        let make = |kind: &str, subject: &str, signed: &[&str]| {
            let fixed = "req -x509 -nodes -days 30 -newkey ec -pkeyopt ec_paramgen_curve:P-256";
            let (cert, key) = (file(&format!("{kind}.crt")), file(&format!("{kind}.key")));
            let mut command = Command::new("openssl");
            command.args(fixed.split_ascii_whitespace()).args(["-config", &config, "-extensions", kind]);
            command.args(["-subj", subject, "-keyout", &key, "-out", &cert]).args(signed);
            said(&mut command);
            (cert, key)
        };
        let (ca, ca_key) = make("ca", "/CN=authority", &[]);
        let (cert, key) = make("leaf", "/CN=localhost", &["-CA", &ca, "-CAkey", &ca_key]);
        Certificate { cert, key, ca }
    }
}

/// Content of which no two parts are alike, in a file.
pub struct Content {
    pub path: String,
    /// Checksum of the whole content.
    pub sum: String,
    /// Checksum of its first 100,000 bytes.
    pub small_sum: String,
}

impl Content {
    /// Enough to fill every buffer on the way.
    pub fn make_small(folder: &Folder) -> Content {
        Content::make(folder, 2)
    }

    pub fn make(folder: &Folder, megabytes: usize) -> Content {
        let mut x = 0x2545_f491_4f6c_dd1d_u64;
        let words = std::iter::repeat_with(|| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x.to_le_bytes()
        });
        let bytes: Vec<u8> = words.take(megabytes * 1_000_000 / 8).flatten().collect();
        let path = folder.0.join(format!("content-{megabytes}")).display().to_string();
        std::fs::write(&path, &bytes).expect("it can be written");
        let small = folder.0.join("small").display().to_string();
        std::fs::write(&small, &bytes[..100_000]).expect("it can be written");
        Content { sum: sum(&path), small_sum: sum(&small), path }
    }
}

/// The SHA-256 of a file.
pub fn sum(path: &str) -> String {
    let said = said(Command::new("sha256sum").arg(path));
    said.split(' ').next().unwrap_or_default().to_string()
}

/// Runs a command, which has to succeed, and returns its output.
#[track_caller]
pub fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}; `make setup` installs it"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}\n{err}");
    out.into_owned()
}

/// Builds a program in Go, from the standard library alone. Its cache is kept beside ours, as the first time is slow.
pub fn go(source: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = folder.join(format!("conformance-{}", source.replace(['/', '.'], "-")));
    let mut command = Command::new("go");
    // Tests that build at once each rename a file of their own.
    let own = built.with_extension(format!("{}{:?}", std::process::id(), std::thread::current().id()));
    command.args(["build", "-o"]).arg(&own).arg(format!("{SOURCES}/{source}"));
    command.env("GOCACHE", folder.join("go-cache")).env("GO111MODULE", "off").env("CGO_ENABLED", "0");
    said(&mut command);
    std::fs::rename(&own, &built).expect("a folder of ours");
    built
}

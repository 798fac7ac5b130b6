//! Credentials with which a source asks its server. See [`Credentials`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, Section, table};
use std::path::PathBuf;

table! {
    pub(crate) static CREDENTIALS = "credentials of [discovery.NAME]",
        "Authorities, a certificate and a token for a server.";

    /// Authorities to trust, and proofs of who asks. Files are read anew for each connection.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Credentials {
        /// Authorities trusted for a server over `https`; `None` = the system's trust store.
        ca: Option<PathBuf> = Key {
            name: "ca",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("the system's trust store"),
            help: "PEM file of the authorities trusted for a server over `https`. Read anew for each connection.",
            why: "",
        };
        /// Certificate to present, with its chain; set if and only if `key` is.
        cert: Option<PathBuf> = Key {
            name: "cert",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("none"),
            help: "PEM file of the certificate that evenkeel presents to the server. Needs `key`.",
            why: "",
        };
        /// Private key of `cert`.
        key: Option<PathBuf> = Key {
            name: "key",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("none"),
            help: "PEM file of the private key of `cert`.",
            why: "",
        };
        /// File with the access token.
        token_file: Option<PathBuf> = Key {
            name: "token_file",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("no token"),
            help: "File with the access token, without which servers may show nothing. Read anew for each request, so that \
                a token can be renewed.",
            why: "",
        };
    }
}

/// Reports a certificate without its key, or the reverse.
pub(super) fn check_halves(section: &Section, findings: &mut Findings) {
    let halves = [("cert", "key"), ("key", "cert")];
    for (one, other) in halves.into_iter().filter(|(one, other)| section.has(one) && !section.has(other)) {
        findings
            .add(Code::Missing, section.span_of(one), format!("\"{one}\" needs \"{other}\""))
            .help(format!("add {other} = \"FILE.pem\""));
    }
}

/// Reports half of a certificate, and credentials of TLS for a server without it.
pub(super) fn check(section: &Section, findings: &mut Findings) {
    check_halves(section, findings);
    if section.set("url").is_some_and(|url| url.is_broken()) {
        return;
    }
    let url = section.text("url").unwrap_or_default();
    for name in ["ca", "cert"].into_iter().filter(|name| section.has_read(name) && !url.starts_with("https://")) {
        let message = format!("\"{name}\" is for a server over TLS, and \"url\" is not");
        findings
            .add(Code::Contradiction, section.span_of(name), message)
            .help("leave it out, or write https:// in \"url\"");
    }
}

//! `tls` of a pool: TLS with endpoints. See [`PoolTls`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Form, Pem};
use crate::sections::tls_version::TlsVersion;
use crate::table::{Absent, Declared, Key, Kind, Section, table};
use std::sync::Arc;

table! {
    pub(crate) static TLS = "tls of [pool.NAME]",
        "TLS with endpoints. `true`: with the defaults of the table, and with certificates verified against the \
        system's trust store.";

    /// `tls` of a pool.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PoolTls {
        /// Authorities trusted for endpoints; `None` = the system's trust store.
        ca: Option<Pem> = Key {
            name: "ca",
            kind: Kind::Text(Form::Pem),
            absent: Absent::Means("the system's trust store"),
            help: "PEM file of the authorities trusted for endpoints, or its text.",
            why: "",
        };
        /// Name to request (SNI) and to verify; `None` = the host of each endpoint's address.
        server_name: Option<Arc<str>> = Key {
            name: "server_name",
            kind: Kind::Text(Form::Domain),
            absent: Absent::Means("the host of each endpoint's address"),
            help: "Name to request from endpoints (SNI). Their certificates must be valid for it.",
            why: "",
        };
        /// Names, DNS names or URIs, of which certificates must have any; empty = the requested name.
        names: Vec<Arc<str>> = Key {
            name: "names",
            kind: Kind::List(&Kind::Text(Form::SubjectName)),
            absent: Absent::Means("the requested name"),
            help: "Names, one of which each endpoint's certificate must have (subjectAltName), instead of the \
                requested name: DNS names, or URIs such as `\"spiffe://prod.internal/api\"`. `*.internal` matches only \
                that same wildcard in a certificate. The requested name (SNI) is still `server_name`, or the \
                endpoint's `tls_name`.",
            why: "",
        };
        /// Client certificate; set together with `key`.
        cert: Option<Pem> = Key {
            name: "cert",
            kind: Kind::Text(Form::Pem),
            absent: Absent::Means("none"),
            help: "PEM file of the client certificate for endpoints that request it (mutual TLS), or its text. Needs \
                `key`.",
            why: "",
        };
        /// Private key of `cert`.
        key: Option<Pem> = Key {
            name: "key",
            kind: Kind::Text(Form::Pem),
            absent: Absent::Means("none"),
            help: "PEM file of the private key of `cert`, or its text. The text is never shown.",
            why: "",
        };
        /// True if the certificates of endpoints are verified.
        verify: bool = Key {
            name: "verify",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Verifies the certificates of endpoints. With `false`, any server at an endpoint's address gets the \
                requests, and can read and change them.",
            why: "Encryption without verification does not protect against an attacker who impersonates the endpoint.",
        };
        /// Oldest TLS version accepted.
        min_version: TlsVersion = Key {
            name: "min_version",
            kind: Kind::Choice(TlsVersion::WORDS),
            absent: Absent::Default("\"1.2\""),
            help: "Oldest TLS version accepted.",
            why: "Same as for listeners.",
        };
    }
}

/// Reports half a client certificate, and endpoints whose certificates are not verified.
pub(super) fn check(pool: &Section, name: &str, findings: &mut Findings) {
    let Some(set) = pool.set("tls").filter(|set| !set.is_broken()) else { return };
    let tls = pool.section("tls");
    for (here, missing) in [("cert", "key"), ("key", "cert")] {
        if let (Some(set), None) = (tls.set(here), tls.set(missing)) {
            findings
                .add(Code::Missing, set.span, format!("\"{here}\" is set, and \"{missing}\" is not"))
                .help("both or neither: a certificate is shown with its key");
        }
    }
    if let Some(names) = tls.set("names").filter(|_| !PoolTls::of(&tls).verify) {
        let message = "\"names\" are not looked at, as certificates are not verified";
        tls.contradiction(names.span, message, "verify", findings).help("leave one of the two out");
    }
    if !PoolTls::of(&tls).verify {
        findings
            .add(
                Code::NotVerified,
                tls.set("verify").map_or(set.span, |set| set.span),
                format!("certificates of endpoints of pool \"{name}\" are not verified: anything at their addresses is believed"),
            )
            .help("name those who issue them: ca = \"FILE.pem\"");
    }
}

//! How is TLS spoken with endpoints? [`PoolTls`], `tls` of a pool.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::sections::tls_version::TlsVersion;
use crate::table::{Absent, Declared, Key, Kind, Section, table};
use std::path::PathBuf;
use std::sync::Arc;

table! {
    pub(crate) static TLS = "tls of [pool.NAME]",
        "TLS with endpoints. `true`: with its defaults, which verify certificates by the system's authorities.";

    /// `tls` of a pool.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PoolTls {
        /// Who issues certificates of endpoints; `None` = those that the system trusts.
        ca: Option<PathBuf> = Key {
            name: "ca",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("those that the system trusts"),
            help: "The certificates in PEM of those who issue the certificates of the endpoints.",
            why: "",
        };
        /// The name that endpoints have to prove; `None` = the host of each.
        server_name: Option<Arc<str>> = Key {
            name: "server_name",
            kind: Kind::Text(Form::Domain),
            absent: Absent::Means("the host of each endpoint's address"),
            help: "The name that endpoints are asked for (SNI), and that their certificates have to have.",
            why: "",
        };
        /// A certificate to show to endpoints.
        cert: Option<PathBuf> = Key {
            name: "cert",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("none"),
            help: "A certificate in PEM to show to endpoints that ask for one; with `key`.",
            why: "",
        };
        /// Its key.
        key: Option<PathBuf> = Key {
            name: "key",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("none"),
            help: "The private key of `cert`, in PEM.",
            why: "",
        };
        /// Whether certificates of endpoints are verified.
        verify: bool = Key {
            name: "verify",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Whether certificates of endpoints are verified. With `false` anything that answers at an endpoint's address \
                   gets the requests, and can read and change them.",
            why: "Encryption alone keeps no secret from an attacker who answers in the place of the endpoint.",
        };
        /// The oldest version that is spoken.
        min_version: TlsVersion = Key {
            name: "min_version",
            kind: Kind::Choice(TlsVersion::WORDS),
            absent: Absent::Default("\"1.2\""),
            help: "The oldest version of TLS that is spoken.",
            why: "As for listeners.",
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

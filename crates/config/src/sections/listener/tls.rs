//! How is TLS spoken with clients? [`ListenerTls`], `tls` of a listener.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Form, Formed};
use crate::sections::listener::Mode;
use crate::sections::tls_version::TlsVersion;
use crate::source::Span;
use crate::table::{Absent, DAY, Declared, Key, Kind, S, Section, table, words};
use std::path::PathBuf;
use std::time::Duration;

table! {
    pub(crate) static TLS = "tls of [listener.NAME]",
        "TLS with clients: TLS 1.2 and 1.3.";

    /// `tls` of a listener.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListenerTls {
        /// At least one, unless [`self_signed`](Self::self_signed). The first is shown where no name fits.
        certificates: Vec<Certificate> = Key {
            name: "certificates",
            kind: Kind::Tables(&CERTIFICATE),
            absent: Absent::Means("none; then `self_signed` must be set"),
            help: "Certificates and their keys. Which one a client sees is decided by the names in them and the name that the \
                   client asks for (SNI): an exact one before a wildcard; several for one name by the kinds of keys that the \
                   client takes; the first of the list where none fits.",
            why: "",
        };
        /// Whether a certificate that no client knows is made at the start.
        self_signed: bool = Key {
            name: "self_signed",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Makes a certificate at each start that no client knows, for trying things out.",
            why: "Clients have to be told to believe anything (`curl -k`).",
        };
        /// What is spoken over TLS, the first that a client offers too.
        protocols: Vec<Protocol> = Key {
            name: "protocols",
            kind: Kind::List(&Kind::Choice(Protocol::WORDS)),
            absent: Absent::Default("[\"h2\", \"http/1.1\"]"),
            help: "What is spoken over TLS, in the order of preference (ALPN). With `mode = \"tcp\"` it is not read.",
            why: "Browsers want HTTP/2, and all others still find HTTP/1.1.",
        };
        /// The oldest version that is spoken.
        min_version: TlsVersion = Key {
            name: "min_version",
            kind: Kind::Choice(TlsVersion::WORDS),
            absent: Absent::Default("\"1.2\""),
            help: "The oldest version of TLS that is spoken.",
            why: "Older ones are broken (RFC 8996); 1.3 alone leaves out clients from before 2018.",
        };
        /// What becomes of clients that ask for a name that no certificate has.
        unknown_name: UnknownName = Key {
            name: "unknown_name",
            kind: Kind::Choice(UnknownName::WORDS),
            absent: Absent::Default("\"default\""),
            help: "What becomes of clients that ask for a name that no certificate has. `default`: they see the first \
                   certificate. `reject`: their handshake fails.",
            why: "A client that is shown a wrong name says so in its own words, which people find faster.",
        };
        /// Whether clients show certificates; `None` = they are not asked.
        client_auth: Option<ClientAuth> = Key {
            name: "client_auth",
            kind: Kind::Table(&CLIENT_AUTH),
            absent: Absent::Means("clients are not asked for certificates"),
            help: "Asks clients for certificates (mutual TLS).",
            why: "",
        };
        /// Keys of session tickets; empty = random ones.
        ticket_keys: Vec<PathBuf> = Key {
            name: "ticket_keys",
            kind: Kind::List(&Kind::Text(Form::File)),
            absent: Absent::Means("random keys, another every six hours"),
            help: "Files of 80 bytes each (`openssl rand 80`), of the same content on all instances: sessions that began at one \
                   resume at another. The first makes tickets, all are read; put a new one first every day.",
            why: "Keys that nothing else has cannot be stolen from a disk.",
        };
        /// For how long browsers come by TLS alone; `None` = they are not told to.
        hsts: Option<Duration> = Key {
            name: "hsts",
            kind: Kind::Duration { min: S, max: 1_000 * DAY, off: true },
            absent: Absent::Default("\"off\""),
            help: "Tells browsers to come by TLS alone for so long (`Strict-Transport-Security`), as `\"365d\"`. `\"off\"`: they are \
                   not told.",
            why: "It cannot be taken back before its time is over.",
        };
        /// How long a handshake may take.
        handshake_timeout: Duration = Key {
            name: "handshake_timeout",
            kind: Kind::Duration { min: S / 10, max: DAY, off: false },
            absent: Absent::Default("\"10s\""),
            help: "How long a handshake may take.",
            why: "Three round trips of a bad line, with a packet lost.",
        };
        /// Handshakes under way at one worker, from a whole ClientHello on.
        handshakes: usize = Key {
            name: "handshakes",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Default("2000"),
            help: "Handshakes under way at one worker, from a whole ClientHello on. Beyond that, the address with the most gives \
                   up its oldest, or else the newcomer is closed. Four times as many clients may wait with less than a ClientHello, \
                   by the same rule.",
            why: "What a core does in about a second: those behind them would not be in time.",
        };
    }
}

table! {
    pub(crate) static CERTIFICATE = "entry of certificates",
        "A certificate and its key: `cert` and `key`, or `acme`. Files are looked at every few seconds; new ones are used at once, and if \
        they are wrong, the old ones stay.";

    /// A certificate and its key.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Certificate {
        /// The certificate, and those between it and a root; `None`: an authority issues it.
        cert: Option<PathBuf> = Key {
            name: "cert",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("`acme` must be set"),
            help: "The certificate in PEM, and behind it those that lead to a root.",
            why: "",
        };
        /// Its private key.
        key: Option<PathBuf> = Key {
            name: "key",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("`acme` must be set"),
            help: "Its private key in PEM: EC, RSA or Ed25519.",
            why: "",
        };
        /// The names for which an authority issues it; empty: there are files.
        acme: Vec<String> = Key {
            name: "acme",
            kind: Kind::List(&Kind::Text(Form::Host)),
            absent: Absent::Means("`cert` and `key` must be set"),
            help: "The names for which the authority of `[acme]` issues it and renews it. Until it has, clients see one that none of them \
                   believes.",
            why: "",
        }, read names;
        /// File with its OCSP response.
        ocsp: Option<PathBuf> = Key {
            name: "ocsp",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("none"),
            help: "The OCSP response of its issuer (DER), which is verified and stapled to it until nextUpdate.",
            why: "",
        };
    }
}

table! {
    pub(crate) static CLIENT_AUTH = "client_auth of tls",
        "Certificates of clients.";

    /// What clients have to show.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClientAuth {
        /// Whether they have to.
        mode: ClientAuthMode = Key {
            name: "mode",
            kind: Kind::Choice(ClientAuthMode::WORDS),
            absent: Absent::Default("\"required\""),
            help: "`required`: without a certificate there is no connection. `optional`: there is, and requests say so.",
            why: "",
        };
        /// Who issues them.
        ca: PathBuf = Key {
            name: "ca",
            kind: Kind::Text(Form::File),
            absent: Absent::Required(r#""/etc/evenkeel/clients-ca.pem""#),
            help: "The certificates in PEM of those who issue them.",
            why: "",
        };
        /// Which are revoked.
        crl: Option<PathBuf> = Key {
            name: "crl",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("none are revoked"),
            help: "Lists in PEM of revoked certificates (CRL).",
            why: "",
        };
    }
}

words! {
    /// A protocol over TLS.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Protocol {
        /// HTTP/2.
        Http2 = "h2",
        /// HTTP/1.1.
        Http1 = "http/1.1",
    }
}

impl Protocol {
    /// Its name in a handshake.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http2 => "h2",
            Protocol::Http1 => "http/1.1",
        }
    }
}

words! {
    /// What clients see that ask for a name that no certificate has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum UnknownName {
        /// The first certificate.
        Default = "default",
        /// An error.
        Reject = "reject",
    }
}

words! {
    /// Whether clients have to show a certificate.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ClientAuthMode {
        /// They have to.
        Required = "required",
        /// They may.
        Optional = "optional",
    }
}

/// Reports TLS without a certificate, and where it cannot be spoken.
pub(super) fn check(listener: &Section, mode: Mode, findings: &mut Findings) {
    let Some(set) = listener.set("tls").filter(|set| !set.is_broken()) else { return };
    if !mode.is_on_tcp() || mode == Mode::Dns {
        let message = "\"tls\" is about connections of HTTP or TCP";
        listener.contradiction(set.span, message, "mode", findings).help("leave it out");
        return;
    }
    let section = listener.section("tls");
    for certificate in section.sections("certificates") {
        check_certificate(certificate, set.span, findings);
    }
    let tls = ListenerTls::of(&section);
    match (tls.certificates.is_empty(), tls.self_signed) {
        (true, false) if section.set("certificates").is_none_or(|set| !set.is_broken()) => {
            findings.add(Code::Missing, set.span, "\"tls\" has no certificate").help(
                "add certificates = [{ cert = \"FILE.pem\", key = \"FILE.key\" }]; to try it out: self_signed = true",
            );
        }
        (false, true) => {
            findings
                .add(
                    Code::Contradiction,
                    section.span_of("self_signed"),
                    "\"self_signed\" is for listeners without certificates",
                )
                .help("leave one of the two out");
        }
        _ => {}
    }
}

/// The names of a certificate that an authority issues.
fn names(certificate: &Section) -> Vec<String> {
    let host = |(formed, _)| if let Formed::Host(host) = formed { Some(host.to_string()) } else { None };
    certificate.formed_list("acme").into_iter().filter_map(host).collect()
}

/// Reports a certificate of which nothing says where it comes from, or two things do.
fn check_certificate(certificate: &Section, tls: Span, findings: &mut Findings) {
    if certificate.set("acme").is_some() {
        for key in ["cert", "key", "ocsp"] {
            if let Some(file) = certificate.set(key) {
                let message = format!("\"{key}\" names a file of a certificate that an authority issues");
                certificate.contradiction(file.span, message, "acme", findings).help("leave one of the two out");
            }
        }
        return;
    }
    let missing: Vec<&str> = ["cert", "key"].into_iter().filter(|key| certificate.set(key).is_none()).collect();
    if !missing.is_empty() {
        let given = ["cert", "key"].into_iter().find_map(|key| certificate.set(key));
        let missing = missing.join("\" and \"");
        findings.add(Code::Missing, given.map_or(tls, |given| given.span), format!("a certificate lacks \"{missing}\"")).help(
            "write { cert = \"FILE.pem\", key = \"FILE.key\" }, or { acme = [\"www.example.com\"] } for one that an authority issues",
        );
    }
}

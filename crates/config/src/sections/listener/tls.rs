//! `tls` of a listener: certificates, protocols and client authentication of TLS with clients. See
//! [`ListenerTls`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Form, Formed, HostPattern, Pem};
use crate::sections::listener::Mode;
use crate::sections::tls_version::TlsVersion;
use crate::source::Span;
use crate::table::{Absent, DAY, Declared, Key, Kind, S, Section, table, words};
use std::path::PathBuf;
use std::time::Duration;

table! {
    pub(crate) static TLS = "tls of [listener.NAME]",
        "TLS 1.2 and 1.3 with clients.";

    /// `tls` of a listener.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListenerTls {
        /// Not empty, unless [`self_signed`](Self::self_signed). The first serves clients whose server name
        /// none matches.
        certificates: Vec<Certificate> = Key {
            name: "certificates",
            kind: Kind::Tables(&CERTIFICATE),
            absent: Absent::Means("none, but then `self_signed` must be set"),
            help: "Certificates and their keys. The client's server name (SNI) selects a certificate by the names in \
                it. Certificates with a key type that the client supports are preferred, then an exact name over a \
                wildcard. If none matches, the first certificate of the list is used.",
            why: "",
        };
        /// True if a self-signed certificate is generated at startup.
        self_signed: bool = Key {
            name: "self_signed",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Generates a self-signed certificate at each start, for experiments.",
            why: "Clients must skip verification (`curl -k`).",
        };
        /// ALPN protocols in order of preference.
        protocols: Vec<Protocol> = Key {
            name: "protocols",
            kind: Kind::List(&Kind::Choice(Protocol::WORDS)),
            absent: Absent::Default("[\"h2\", \"http/1.1\"]"),
            help: "Protocols over TLS in order of preference (ALPN). Ignored with `mode = \"tcp\"`.",
            why: "Browsers prefer HTTP/2, and all other clients can use HTTP/1.1.",
        };
        /// Oldest TLS version accepted.
        min_version: TlsVersion = Key {
            name: "min_version",
            kind: Kind::Choice(TlsVersion::WORDS),
            absent: Absent::Default("\"1.2\""),
            help: "Oldest TLS version accepted.",
            why: "Older versions are insecure (RFC 8996), and TLS 1.3 alone excludes clients from before 2018.",
        };
        /// Handling of a server name that no certificate has.
        unknown_name: UnknownName = Key {
            name: "unknown_name",
            kind: Kind::Choice(UnknownName::WORDS),
            absent: Absent::Default("\"default\""),
            help: "Handling of a server name that no certificate matches. `default`: uses the first certificate. \
                `reject`: the handshake fails.",
            why: "A name mismatch in the client's own error message is easier to diagnose than a failed handshake.",
        };
        /// Host patterns that separate connections; empty = a connection may have requests for all hosts.
        host_groups: Vec<HostPattern> = Key {
            name: "host_groups",
            kind: Kind::List(&Kind::Text(Form::Host)),
            absent: Absent::Means("any host over any connection"),
            help: "Hosts that must not share a connection, such as `[\"a.example.com\", \"*.b.example.com\"]`. The \
                host of a request and the server name (SNI) of its connection must match the same pattern, or neither \
                may match any. An exact pattern is preferred to the longest wildcard. Other requests get a 421, and \
                clients then open a separate connection for the host.",
            why: "",
        };
        /// Client certificates; `None` = not requested.
        client_auth: Option<ClientAuth> = Key {
            name: "client_auth",
            kind: Kind::Table(&CLIENT_AUTH),
            absent: Absent::Means("no client certificates"),
            help: "Requests certificates from clients (mutual TLS).",
            why: "",
        };
        /// Files of session ticket keys; empty = random keys.
        ticket_keys: Vec<PathBuf> = Key {
            name: "ticket_keys",
            kind: Kind::List(&Kind::Text(Form::File)),
            absent: Absent::Means("random keys, rotated every six hours"),
            help: "Files of 80 bytes each (`openssl rand 80`), equal on all instances, so that sessions can be resumed \
                at any instance. The first key encrypts new tickets, and all keys decrypt. Put a new key first every \
                day.",
            why: "Keys that exist only in memory cannot be stolen from a disk.",
        };
        /// `max-age` of `Strict-Transport-Security`; `None` = the header is not sent.
        hsts: Option<Duration> = Key {
            name: "hsts",
            kind: Kind::Duration { min: S, max: 1_000 * DAY, off: true },
            absent: Absent::Default("\"off\""),
            help: "Sends `Strict-Transport-Security` with this `max-age`, such as `\"365d\"`. Browsers then use only \
                HTTPS for that long. `\"off\"`: the header is not sent.",
            why: "The header cannot be withdrawn before that time has passed.",
        };
        /// Longest duration of a handshake.
        handshake_timeout: Duration = Key {
            name: "handshake_timeout",
            kind: Kind::Duration { min: S / 10, max: DAY, off: false },
            absent: Absent::Default("\"10s\""),
            help: "Longest duration of a handshake.",
            why: "Three round trips on a bad line, including a lost packet.",
        };
        /// Most handshakes in progress on a worker, counted from a complete ClientHello.
        handshakes: usize = Key {
            name: "handshakes",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Default("2000"),
            help: "Maximum handshakes in progress on one worker, counted from a complete ClientHello. At the limit, \
                the address with the most handshakes loses its oldest. If no address stands out, the new connection is \
                closed. By the same rule, up to four times as many clients may wait with an incomplete ClientHello.",
            why: "About one second of work for a core: handshakes further back would time out.",
        };
    }
}

table! {
    pub(crate) static CERTIFICATE = "entry of certificates",
        "A certificate: `cert` and `key`, or names in `acme`. Files are checked for changes every few seconds and \
        reloaded; if the new files are invalid, the old certificate stays in use. PEM text instead of a path changes \
        only with the configuration.";

    /// A certificate from files or texts, or from an ACME authority.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Certificate {
        /// Certificate and its chain; `None` = issued over ACME.
        cert: Option<Pem> = Key {
            name: "cert",
            kind: Kind::Text(Form::Pem),
            absent: Absent::Means("`acme` must be set"),
            help: "PEM file of the certificate, followed by the intermediates up to the root, or its text.",
            why: "",
        };
        /// Private key; `None` = issued over ACME.
        key: Option<Pem> = Key {
            name: "key",
            kind: Kind::Text(Form::Pem),
            absent: Absent::Means("`acme` must be set"),
            help: "PEM file of the private key (EC, RSA or Ed25519), or its text, such as `\"${TLS_KEY}\"`. The text \
                is never shown.",
            why: "",
        };
        /// Names to obtain a certificate for over ACME; empty = files are used.
        acme: Vec<String> = Key {
            name: "acme",
            kind: Kind::List(&Kind::Text(Form::Host)),
            absent: Absent::Means("`cert` and `key` must be set"),
            help: "Names for which the authority of `[acme]` issues and renews the certificate. Until the certificate \
                is issued, clients get a self-signed certificate that they do not trust.",
            why: "",
        }, read names;
        /// Server names that the certificate serves; empty = the names in it.
        hosts: Vec<HostPattern> = Key {
            name: "hosts",
            kind: Kind::List(&Kind::Text(Form::Host)),
            absent: Absent::Means("the names in it"),
            help: "Server names (SNI) that the certificate serves, such as `[\"a.example.com\", \"*.b.example.com\"]`. \
                For several people who add certificates: no other certificate is used for these names, and this \
                certificate is used for no other name. An exact name is preferred to the longest wildcard; a wildcard \
                stands for any number of labels.",
            why: "",
        };
        /// File of the OCSP response to staple.
        ocsp: Option<PathBuf> = Key {
            name: "ocsp",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("none"),
            help: "OCSP response (DER) to staple. The response is verified, and sent until its nextUpdate.",
            why: "",
        };
    }
}

table! {
    pub(crate) static CLIENT_AUTH = "client_auth of tls",
        "Client certificates (mutual TLS).";

    /// `client_auth` of a listener's TLS.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClientAuth {
        mode: ClientAuthMode = Key {
            name: "mode",
            kind: Kind::Choice(ClientAuthMode::WORDS),
            absent: Absent::Default("\"required\""),
            help: "`required`: connections without a certificate fail. `optional`: connections without a certificate \
                are accepted, and endpoints see which requests came without a certificate. `unverified`: connections \
                with an invalid certificate are accepted too; endpoints see which certificates are invalid and must \
                decide.",
            why: "",
        };
        /// Authorities that issue client certificates.
        ca: Pem = Key {
            name: "ca",
            kind: Kind::Text(Form::Pem),
            absent: Absent::Required(r#""/etc/evenkeel/clients-ca.pem""#),
            help: "PEM file of the authorities that issue client certificates, or its text.",
            why: "",
        };
        /// Revocation lists; `None` = nothing is revoked.
        crl: Option<Pem> = Key {
            name: "crl",
            kind: Kind::Text(Form::Pem),
            absent: Absent::Means("no revocation check"),
            help: "PEM file of revocation lists (CRL), or its text.",
            why: "",
        };
    }
}

words! {
    /// A protocol negotiated by ALPN.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Protocol {
        /// HTTP/2 (`h2`).
        Http2 = "h2",
        /// HTTP/1.1 (`http/1.1`).
        Http1 = "http/1.1",
    }
}

impl Protocol {
    /// ALPN protocol id (RFC 7301).
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http2 => "h2",
            Protocol::Http1 => "http/1.1",
        }
    }
}

words! {
    /// Handling of a server name (SNI) that no certificate has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum UnknownName {
        /// Use the first certificate of the list.
        Default = "default",
        /// Fail the handshake with an alert.
        Reject = "reject",
    }
}

words! {
    /// Requirement for a client certificate.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ClientAuthMode {
        /// Connections without a certificate fail.
        Required = "required",
        /// Connections without a certificate are accepted.
        Optional = "optional",
        /// Connections without a certificate, or with an invalid certificate, are accepted.
        Unverified = "unverified",
    }
}

/// Reports TLS without a certificate, and TLS in a mode that does not support it.
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
    if let Some(groups) = section.set("host_groups").filter(|_| mode != Mode::Http) {
        let message = "\"host_groups\" applies to HTTP requests, and a TCP session has none";
        findings.add(Code::Contradiction, groups.span, message).help("leave it out, or set mode = \"http\"");
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

/// Names of a certificate issued over ACME.
fn names(certificate: &Section) -> Vec<String> {
    let host = |(formed, _)| if let Formed::Host(host) = formed { Some(host.to_string()) } else { None };
    certificate.formed_list("acme").into_iter().filter_map(host).collect()
}

/// Reports a certificate with no source, or with two.
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

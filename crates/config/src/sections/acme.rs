//! `[acme]`: the certificate authority (RFC 8555) that issues certificates for listeners, and the challenge
//! that proves control of a name. See [`Acme`].

use crate::form::Form;
use crate::table::{Absent, Key, Kind, Words, table, words};
use std::path::PathBuf;

table! {
    pub(crate) static ACME = "[acme]",
        "The certificate authority for the certificates that listeners obtain with `acme`, and the challenge that \
        proves control of their names. Using an authority means agreeing to its terms of service.";

    /// `[acme]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Acme {
        /// URL of the authority's directory (RFC 8555 section 7.1.1), `https` only.
        directory: String = Key {
            name: "directory",
            kind: Kind::Text(Form::HttpsUrl),
            absent: Absent::Default("\"https://acme-v02.api.letsencrypt.org/directory\""),
            help: "Directory URL of the authority. While testing, use a staging directory such as \
                `https://acme-staging-v02.api.letsencrypt.org/directory`, since production directories limit failed \
                attempts.",
            why: "Let's Encrypt needs no contract, and every browser trusts it.",
        };
        /// Contact address of the account.
        email: Option<String> = Key {
            name: "email",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("none"),
            help: "Contact address for messages from the authority.",
            why: "",
        };
        /// Challenge type used for every name.
        challenge: Challenge = Key {
            name: "challenge",
            kind: Kind::Choice(Challenge::WORDS),
            absent: Absent::Default("\"tls-alpn-01\""),
            help: "Challenge that proves control of a name. `tls-alpn-01`: a TLS handshake with the listener; the \
                authority must reach it on port 443. `http-01`: an HTTP request to a listener without TLS; the \
                authority must reach it on port 80.",
            why: "`tls-alpn-01` needs only the listener that uses the certificate.",
        };
        /// Folder of accounts, certificates and keys.
        state: PathBuf = Key {
            name: "state",
            kind: Kind::Text(Form::File),
            absent: Absent::Default("\"/var/lib/evenkeel\""),
            help: "Folder where the account, certificates and keys are kept. Created if it is missing, with access \
                only for this user.",
            why: "The usual folder for the state of a service.",
        };
        /// Roots (PEM) for the connection to the directory itself; `None` = the roots of the system.
        ca: Option<PathBuf> = Key {
            name: "ca",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("the system's trust store"),
            help: "PEM file of the authorities trusted for the connection to `directory`. For a private authority.",
            why: "",
        };
        /// External account binding (RFC 8555 section 7.3.4).
        external_account: Option<ExternalAccount> = Key {
            name: "external_account",
            kind: Kind::Table(&EXTERNAL_ACCOUNT),
            absent: Absent::Means("none"),
            help: "Credentials of an existing account, for authorities that require them.",
            why: "",
        };
    }
}

table! {
    pub(crate) static EXTERNAL_ACCOUNT = "external_account of [acme]",
        "Credentials of an existing account (external account binding).";

    /// External account binding: the credentials of an account outside ACME.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ExternalAccount {
        /// Key identifier given by the authority.
        id: String = Key {
            name: "id",
            kind: Kind::Text(Form::Content),
            absent: Absent::Required("\"kid-1\""),
            help: "Key identifier given by the authority.",
            why: "",
        };
        /// File of the MAC key, in base64url.
        key_file: PathBuf = Key {
            name: "key_file",
            kind: Kind::Text(Form::File),
            absent: Absent::Required("\"/etc/evenkeel/acme-account.key\""),
            help: "File of the MAC key, in base64url, as provided by the authority.",
            why: "",
        };
    }
}

words! {
    /// Challenge type that proves control of a name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Challenge {
        /// Within a TLS handshake (RFC 8737).
        TlsAlpn01 = "tls-alpn-01",
        /// By an HTTP request (RFC 8555 section 8.3).
        Http01 = "http-01",
    }
}

impl Challenge {
    /// Name in the configuration and in the protocol.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

impl Acme {
    /// Folder for a directory URL, below [`state`](Self::state): each authority has its own accounts and
    /// certificates.
    pub fn folder(&self) -> PathBuf {
        let url = self.directory.trim_start_matches("https://");
        let name = url.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' });
        self.state.join("acme").join(name.collect::<String>().trim_matches(['-', '.']))
    }

    /// File of a certificate, with its chain and key; named after the certificate's first name.
    pub fn file(&self, names: &[String]) -> PathBuf {
        let first = names.first().map_or("", String::as_str);
        self.folder().join(format!("{first}.pem"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Declared;

    #[test]
    fn each_directory_has_its_folder() {
        let of = |directory: &str| {
            let acme = Acme { state: "/s".into(), directory: directory.to_string(), ..Acme::unset().clone() };
            acme.folder().display().to_string()
        };
        assert_eq!(
            of("https://acme-v02.api.letsencrypt.org/directory"),
            "/s/acme/acme-v02.api.letsencrypt.org-directory"
        );
        assert_ne!(of("https://ca.inside/acme/web/directory"), of("https://ca.inside/acme/mail/directory"));
        assert_eq!(of("https://127.0.0.1:14000/../dir?x"), "/s/acme/127.0.0.1-14000-..-dir-x");
    }
}

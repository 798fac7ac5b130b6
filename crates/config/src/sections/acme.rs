//! Who issues certificates for the names of listeners? [`Acme`], `[acme]`: an authority that speaks ACME (RFC 8555), and how it is
//! shown that a name is served here.

use crate::form::Form;
use crate::table::{Absent, Key, Kind, Words, table, words};
use std::path::PathBuf;

table! {
    pub(crate) static ACME = "[acme]",
        "The authority that issues the certificates which listeners have by `acme`, and how names are proved to it. Who uses one agrees to \
         its terms of service.";

    /// `[acme]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Acme {
        /// Where the authority says what it offers.
        directory: String = Key {
            name: "directory",
            kind: Kind::Text(Form::HttpsUrl),
            absent: Absent::Default("\"https://acme-v02.api.letsencrypt.org/directory\""),
            help: "The directory of the authority. To try things out, take one for tests, such as \
                   `https://acme-staging-v02.api.letsencrypt.org/directory`: others count what fails.",
            why: "Let's Encrypt asks for no contract, and every browser believes it.",
        };
        /// Where the authority can reach a person.
        email: Option<String> = Key {
            name: "email",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("none"),
            help: "An address for messages of the authority.",
            why: "",
        };
        /// How names are proved.
        challenge: Challenge = Key {
            name: "challenge",
            kind: Kind::Choice(Challenge::WORDS),
            absent: Absent::Default("\"tls-alpn-01\""),
            help: "How it is proved that a name is served here. `tls-alpn-01`: within a handshake with the listener, which the authority \
                   has to reach at port 443. `http-01`: by a request, which the authority has to reach at port 80 of a listener without \
                   TLS.",
            why: "It needs no listener but the one that shows the certificate.",
        };
        /// Where account and certificates are kept.
        state: PathBuf = Key {
            name: "state",
            kind: Kind::Text(Form::File),
            absent: Absent::Default("\"/var/lib/evenkeel\""),
            help: "The folder where the account and the certificates with their keys are kept. It is made if it is not there, and no other \
                   user can read it.",
            why: "The folder that services have for this.",
        };
        /// Who issues the certificate of the directory itself; `None` = those that the system trusts.
        ca: Option<PathBuf> = Key {
            name: "ca",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("those that the system trusts"),
            help: "The certificates in PEM of those who issue the certificate of the directory itself, for an authority of one's own.",
            why: "",
        };
        /// An account at the authority that there is already.
        external_account: Option<ExternalAccount> = Key {
            name: "external_account",
            kind: Kind::Table(&EXTERNAL_ACCOUNT),
            absent: Absent::Means("none"),
            help: "An account that there is already, for authorities which ask for one.",
            why: "",
        };
    }
}

table! {
    pub(crate) static EXTERNAL_ACCOUNT = "external_account of [acme]",
        "An account that there is already (external account binding).";

    /// An account at an authority.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ExternalAccount {
        /// What the authority calls it.
        id: String = Key {
            name: "id",
            kind: Kind::Text(Form::Content),
            absent: Absent::Required("\"kid-1\""),
            help: "What the authority calls it (key identifier).",
            why: "",
        };
        /// A file with its key.
        key_file: PathBuf = Key {
            name: "key_file",
            kind: Kind::Text(Form::File),
            absent: Absent::Required("\"/etc/evenkeel/acme-account.key\""),
            help: "A file with its key (MAC key), in base64url as the authority gives it.",
            why: "",
        };
    }
}

words! {
    /// How it is proved to an authority that a name is served here.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Challenge {
        /// Within a handshake (RFC 8737).
        TlsAlpn01 = "tls-alpn-01",
        /// By a request (RFC 8555 section 8.3).
        Http01 = "http-01",
    }
}

impl Challenge {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

impl Acme {
    /// The folder of one directory, in that of the state: an authority may have several, each with its own accounts.
    pub fn folder(&self) -> PathBuf {
        let url = self.directory.trim_start_matches("https://");
        let name = url.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' });
        self.state.join("acme").join(name.collect::<String>().trim_matches(['-', '.']))
    }

    /// The file of a certificate, its chain and its key, by its first name.
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
            let acme = Acme { state: "/s".into(), directory: directory.to_string(), ..Acme::unset() };
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

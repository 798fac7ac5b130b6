//! `basic_auth` of a route: a file of users, of which requests must name one with its password. See [`BasicAuth`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, Section, table};
use std::path::PathBuf;
use std::sync::Arc;

/// The key `basic_auth` of routes.
pub(in crate::sections) const BASIC_AUTH_KEY: Key = Key {
    name: "basic_auth",
    kind: Kind::Table(&BASIC_AUTH),
    absent: Absent::Means("no password"),
    help: "Users, one of which a request must name with its password.",
    why: "",
};

table! {
    static BASIC_AUTH = "basic_auth of [[route]]",
        "Answers 401 to requests without the name and the password of a user of the file (HTTP Basic, RFC 7617).";

    /// `basic_auth` of a route.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BasicAuth {
        /// File of the users and hashes of their passwords.
        file: PathBuf = Key {
            name: "file",
            kind: Kind::Text(Form::File),
            absent: Absent::Required(r#""/etc/evenkeel/htpasswd""#),
            help: "File of users as `htpasswd -B` writes it: a line `NAME:HASH` for each, where the hash is of bcrypt, \
                Argon2id or SHA-crypt. At most 1 MiB. Read at startup, at each reload and, with `runtime.watch`, when it \
                changes.",
            why: "",
        };
        /// Name of the protected space, which browsers show.
        realm: Arc<str> = Key {
            name: "realm",
            kind: Kind::Text(Form::Label),
            absent: Absent::Default("restricted"),
            help: "Name of the protected space, in ASCII. Browsers use a password for all pages of a host with the same \
                realm.",
            why: "",
        };
        /// True if endpoints get the credentials too.
        keep: bool = Key {
            name: "keep",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Sends `Authorization` to the endpoint.",
            why: "An endpoint that needs no password cannot leak one.",
        };
    }
}

/// Reports a realm that a field of a response cannot have.
pub(in crate::sections) fn check(route: &Section, findings: &mut Findings) {
    let auth = route.section("basic_auth");
    if let Some(realm) = auth.text("realm")
        && !realm.is_ascii()
    {
        findings
            .add(Code::BadName, auth.span_of("realm"), "\"realm\" has characters that are not ASCII")
            .help("browsers disagree about others: write it without them");
    }
}

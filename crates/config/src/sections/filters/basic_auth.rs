//! `basic_auth` of a route: users and passwords that requests must carry. See [`BasicAuth`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, Lines, Section, quote, table};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The key `basic_auth` of routes.
pub(in crate::sections) const BASIC_AUTH_KEY: Key = Key {
    name: "basic_auth",
    kind: Kind::Table(&BASIC_AUTH),
    absent: Absent::Means("no password"),
    help: "Requires the name and password of a user.",
    why: "",
};

table! {
    static BASIC_AUTH = "basic_auth of [[route]]",
        "Returns 401 to requests without the name and password of a user (HTTP Basic, RFC 7617).";

    /// `basic_auth` of a route.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BasicAuth {
        /// Users and hashes of their passwords.
        users: Users, rows [
            Key {
                name: "file",
                kind: Kind::Text(Form::File),
                absent: Absent::Means("from `users`"),
                help: "File of users as written by `htpasswd -B`: one line `NAME:HASH` per user, with a hash of \
                    bcrypt, Argon2id or SHA-crypt. At most 1 MiB. Read at startup, at each reload and, with \
                    `runtime.watch`, when it changes.",
                why: "",
            },
            Key {
                name: "users",
                kind: Kind::Text(Form::Users),
                absent: Absent::Means("from `file`"),
                help: "Users in the configuration itself, in the same format as `file`. They are never shown.",
                why: "",
            },
        ], read users, write write_users;
        /// Name of the protected space, which browsers show.
        realm: Arc<str> = Key {
            name: "realm",
            kind: Kind::Text(Form::Label),
            absent: Absent::Default("\"restricted\""),
            help: "Name of the protected space, in ASCII. Browsers use a password for all pages of a host with the same \
                realm.",
            why: "",
        };
        /// True if endpoints get the credentials too.
        keep: bool = Key {
            name: "keep",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Forwards `Authorization` to the endpoint.",
            why: "An endpoint that does not get the password cannot leak it.",
        };
    }
}

/// Users and hashes of their passwords, or the file that has them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Users {
    /// File that is read, and reread when it changes.
    File(PathBuf),
    /// The text of such a file; changes only with the plan.
    Text(Arc<str>),
}

/// Formats the place of the users: the path of the file, or "the configuration".
impl fmt::Display for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Users::File(path) => path.display().fmt(f),
            Users::Text(_) => f.write_str("the configuration"),
        }
    }
}

/// Formats asterisks instead of users in a text.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Users::File(path) => f.debug_tuple("File").field(path).finish(),
            Users::Text(_) => f.write_str("Text(***)"),
        }
    }
}

/// Reads the users. [`check`] reports a table with neither or both.
fn users(auth: &Section) -> Users {
    match auth.text("users") {
        Some(text) => Users::Text(text.into()),
        None => Users::File(auth.text("file").unwrap_or_default().into()),
    }
}

/// Writes users of a text in clear; [`Plan::to_toml`](crate::Plan::to_toml) masks them.
fn write_users(set: &BasicAuth, _: &BasicAuth, lines: &mut Lines) {
    match &set.users {
        Users::File(path) => lines.add("file", quote(&path.display().to_string())),
        Users::Text(text) => lines.add("users", quote(text)),
    }
}

/// Reports users without a place or with two, and a realm that a field of a response cannot have.
pub(in crate::sections) fn check(route: &Section, findings: &mut Findings) {
    let auth = route.section("basic_auth");
    match (auth.set("file"), auth.set("users")) {
        (None, None) if route.has_read("basic_auth") => {
            findings
                .add(Code::Missing, auth.span, "\"basic_auth\" has no users")
                .help("add file = \"/etc/evenkeel/htpasswd\", or their lines as users = \"NAME:HASH\"");
        }
        (Some(_), Some(users)) => {
            let message = "\"basic_auth\" has both \"file\" and \"users\"";
            auth.contradiction(users.span, message, "file", findings).help("keep one of them");
        }
        _ => {}
    }
    if let Some(realm) = auth.text("realm")
        && !realm.is_ascii()
    {
        findings
            .add(Code::BadName, auth.span_of("realm"), "\"realm\" has characters that are not ASCII")
            .help("browsers disagree about others: write it without them");
    }
}

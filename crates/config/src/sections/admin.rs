//! Where can metrics and health of the process be read? [`Admin`], `[admin]`.

use crate::form::Form;
use crate::table::{Absent, Declared, Key, Kind, Lines, Section, table};
use std::net::SocketAddr;
use std::path::PathBuf;

table! {
    pub(crate) static ADMIN = "[admin]",
        "Metrics and health of the process.";

    /// `[admin]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Admin {
        /// Absolute path of the Unix socket that also takes commands, if there is one. Users with write permission for
        /// the file may use it. At least one of the two is there.
        socket: Option<PathBuf> = Key {
            name: "bind",
            kind: Kind::Text(Form::Socket),
            absent: Absent::Means("no such socket"),
            help: "A Unix socket that also takes commands, as `evenkeel reload` sends them. Users with write permission \
                   for the file may use it.",
            why: "",
        };
        /// Address of the plain HTTP listener for `/metrics`, `/livez` and `/readyz`, if there is one.
        bind: Option<SocketAddr>,
            rows [
                Key {
                    name: "http",
                    kind: Kind::Table(&HTTP),
                    absent: Absent::Means("no such listener"),
                    help: "A plain HTTP listener for `/metrics`, `/livez` and `/readyz`.",
                    why: "",
                },
            ],
            read address,
            write write_address;
    }
}

table! {
    static HTTP = "http of [admin]",
        "A plain HTTP listener for `/metrics`, `/livez` and `/readyz`.";

    /// `http` of `[admin]`.
    #[derive(PartialEq)]
    struct Http {
        /// See [`Admin::bind`].
        bind: Option<SocketAddr> = Key {
            name: "bind",
            kind: Kind::Text(Form::Bind),
            absent: Absent::Required(r#""127.0.0.1:9900""#),
            help: "Its address. Every client that can connect to it can read metrics and health: keep it on this machine \
                   or in a private network.",
            why: "",
        };
    }
}

fn address(admin: &Section) -> Option<SocketAddr> {
    Http::of(&admin.section("http")).bind
}

fn write_address(set: &Admin, _: &Admin, lines: &mut Lines) {
    if set.bind.is_some() {
        lines.add("http", Http { bind: set.bind }.lines(&Http::unset()).braces());
    }
}

/// `None` if there is neither an address nor a socket.
pub(crate) fn admin(root: &Section) -> Option<Admin> {
    Some(Admin::of(&root.section("admin"))).filter(|admin| admin.bind.is_some() || admin.socket.is_some())
}

//! `discover.etcd` of a pool, and `[discovery.etcd]`: endpoints below a prefix of keys in etcd. See [`Etcd`].

use super::declare::{Asks, Settings};
use super::server::check_halves;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Declared, Key, Kind, Section, table};
use std::path::PathBuf;

table! {
    static ETCD = "discover.etcd of [pool.NAME]",
        "Keys of etcd, one for each endpoint. Its value is `HOST:PORT`, or an entry of `endpoints` as JSON, such as \
        `{\"addr\": \"10.0.0.1:8080\", \"weight\": 2}`: addresses only, no names. An endpoint without a `name` has that of \
        its key, without the prefix. A key with a lease goes with it.";

    /// `discover.etcd`: keys with a prefix.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Etcd {
        prefix: String = Key {
            name: "prefix",
            kind: Kind::Text(Form::Content),
            absent: Absent::Required("\"/evenkeel/web/\""),
            help: "Beginning of the keys. End it with a slash, or `/web` also means `/website`.",
            why: "",
        };
        /// Servers to ask, from `[discovery.etcd]`.
        server: EtcdServer, rows [], read |_| EtcdServer::default(), write |_, _, _| ();
    }
}

impl Settings for Etcd {
    const KIND: Kind = Kind::Table(&ETCD);

    fn shown(&self) -> String {
        self.prefix.clone()
    }
}

impl Asks<EtcdServer> for Etcd {
    fn ask(&mut self, server: EtcdServer) {
        self.server = server;
    }

    fn check_server(server: &Section, findings: &mut Findings) {
        check(server, findings);
    }
}

table! {
    static ETCD_SERVER = "[discovery.etcd]",
        "The etcd that pools with `discover.etcd` ask. They share one connection, to one member at a time.";

    /// `[discovery.etcd]`.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct EtcdServer {
        /// Members, of which the first that answers is asked.
        urls: Vec<String> = Key {
            name: "urls",
            kind: Kind::List(&Kind::Text(Form::ServerUrl)),
            absent: Absent::Default("[\"http://127.0.0.1:2379\"]"),
            help: "Members of the cluster: `http://`, `https://`, or `unix:/PATH`. The next one is asked when one fails.",
            why: "The port for clients that etcd itself has.",
        };
        user: Option<String> = Key {
            name: "user",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("no authentication"),
            help: "User to authenticate as, who may read the prefixes. Needs `password_file`.",
            why: "",
        };
        /// File with the password; set if and only if `user` is.
        password_file: Option<PathBuf> = Key {
            name: "password_file",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("none"),
            help: "File with the password of `user`. Read anew each time that etcd wants it.",
            why: "",
        };
        /// Authorities trusted for members over `https`; `None` = the system's trust store.
        ca: Option<PathBuf> = Key {
            name: "ca",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("the system's trust store"),
            help: "PEM file of the authorities trusted for members over `https`. Read anew for each connection.",
            why: "",
        };
        /// Certificate to present, with its chain; set if and only if `key` is.
        cert: Option<PathBuf> = Key {
            name: "cert",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("none"),
            help: "PEM file of the certificate that evenkeel presents to etcd. Needs `key`.",
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
    }
}

/// Reports a user without a password, and credentials of TLS for members without it.
fn check(section: &Section, findings: &mut Findings) {
    check_halves(section, findings);
    if let [Some(user), None] | [None, Some(user)] = ["user", "password_file"].map(|name| section.set(name)) {
        let (one, other, like) = match section.has("user") {
            true => ("user", "password_file", "password_file = \"/etc/evenkeel/etcd.password\""),
            false => ("password_file", "user", "user = \"evenkeel\""),
        };
        findings.add(Code::Missing, user.span, format!("\"{one}\" needs \"{other}\"")).help(format!("add {like}"));
    }
    let server = EtcdServer::of(section);
    if section.has("urls") && server.urls.is_empty() {
        findings
            .add(Code::Missing, section.span_of("urls"), "\"urls\" has no member to ask")
            .help("write urls = [\"http://127.0.0.1:2379\"]");
    }
    let is_plain = section.set("urls").is_none_or(|urls| !urls.is_broken())
        && !server.urls.iter().any(|url| url.starts_with("https://"));
    for name in ["ca", "cert"].into_iter().filter(|name| section.has_read(name) && is_plain) {
        let message = format!("\"{name}\" is for members over TLS, and none of \"urls\" is");
        findings
            .add(Code::Contradiction, section.span_of(name), message)
            .help("leave it out, or write https:// in \"urls\"");
    }
}

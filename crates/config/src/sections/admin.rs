//! [`Admin`], `[admin]`: the Unix socket and the HTTP listener on which the process is observed and changed.

use crate::form::{AdminSocket, Form};
use crate::table::{Absent, Declared, Key, Kind, Section, table};
use std::net::SocketAddr;
use std::path::PathBuf;

table! {
    pub(crate) static ADMIN = "[admin]",
        "Metrics and health of the process.";

    /// `[admin]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Admin {
        /// Unix socket that takes commands. Users with write permission for the file may use it.
        socket: AdminSocket = Key {
            name: "bind",
            kind: Kind::Text(Form::Socket),
            absent: Absent::Means("a socket that commands find"),
            help: "The Unix socket that takes commands, as `evenkeel reload` sends them. Users with write permission for the \
                   file may use it. Without the key it is `/run/evenkeel/PID.sock` for root, and for another user a file in \
                   `$XDG_RUNTIME_DIR/evenkeel`, or in a folder of the user's own below the folder for temporary files.",
            why: "`evenkeel status` and `drain` work without a configuration, and only for users who could stop the process.",
        };
        /// The plain HTTP listener, if there is one.
        http: Option<AdminHttp> = Key {
            name: "http",
            kind: Kind::Table(&HTTP),
            absent: Absent::Means("no such listener"),
            help: "A plain HTTP listener for `/metrics`, `/livez`, `/readyz` and the API under `/v1`.",
            why: "",
        };
    }
}

table! {
    static HTTP = "http of [admin]",
        "A plain HTTP listener for `/metrics`, `/livez`, `/readyz` and the API under `/v1`.";

    /// `http` of `[admin]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AdminHttp {
        /// Its address.
        bind: SocketAddr = Key {
            name: "bind",
            kind: Kind::Text(Form::Bind),
            absent: Absent::Required(r#""127.0.0.1:9900""#),
            help: "Its address. Every client that can connect to it can read metrics and health, and without `read_token` the \
                   state of listeners, pools and endpoints: keep it on this machine or in a private network.",
            why: "",
        };
        /// The file of the token that clients of the API need.
        read_token: Option<PathBuf> = Key {
            name: "read_token",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("reading needs none"),
            help: "A file whose content is the token with which clients may read what is under `/v1`, sent as \
                   `Authorization: Bearer TOKEN`: 16 bytes or more, without white space at its end.",
            why: "",
        };
        /// The file of the token that clients need who change anything.
        write_token: Option<PathBuf> = Key {
            name: "write_token",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("nothing is changed over TCP"),
            help: "A file whose content is the token with which clients may also change things.",
            why: "",
        };
        /// Names of this host.
        hosts: Vec<String> = Key {
            name: "hosts",
            kind: Kind::List(&Kind::Text(Form::DnsName)),
            absent: Absent::Means("IP addresses and `localhost` only"),
            help: "Names by which clients may call this host, those that read metrics and health too. A request for another \
                   name may come from a page of another site, whose name leads here.",
            why: "",
        };
        /// Open connections, without those that carry a stream.
        connections: usize = Key {
            name: "connections",
            kind: Kind::Int { min: 1, max: 65_536 },
            absent: Absent::Default("64"),
            help: "Open connections of clients, without those that carry a stream. At the limit a new one replaces the one that \
                   has waited longest for its client, of the address with the most.",
            why: "Some scrapers, some probes and a person need fewer.",
        };
        /// The same for one client address.
        connections_per_address: usize = Key {
            name: "connections_per_address",
            kind: Kind::Int { min: 1, max: 65_536 },
            absent: Absent::Default("32"),
            help: "The same for one client address (of IPv6 one /64).",
            why: "One address alone does not reach `connections`.",
        };
        /// Open streams.
        streams: usize = Key {
            name: "streams",
            kind: Kind::Int { min: 1, max: 65_536 },
            absent: Absent::Default("16"),
            help: "Clients that follow events, requests or pages of the dashboard at a time, with those that wait for requests; \
                   more get a 503. An address that has clearly more than others loses its oldest one to them.",
            why: "Each is rendered every second. The Unix socket has its own.",
        };
    }
}

/// `None` if nothing is set.
pub(crate) fn admin(root: &Section) -> Option<Admin> {
    Some(Admin::of(&root.section("admin"))).filter(|admin| *admin != Admin::default())
}

impl AdminHttp {
    /// Listens at this address, with the defaults of the rest.
    pub fn at(bind: SocketAddr) -> AdminHttp {
        AdminHttp {
            bind,
            read_token: None,
            write_token: None,
            hosts: Vec::new(),
            connections: 64,
            connections_per_address: 32,
            streams: 16,
        }
    }
}

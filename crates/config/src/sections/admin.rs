//! `[admin]`: the socket and the HTTP listener that serve metrics, health and the admin API. See [`Admin`].

use crate::form::{AdminSocket, Form};
use crate::table::{Absent, Declared, Key, Kind, Section, table};
use std::net::SocketAddr;
use std::path::PathBuf;

table! {
    pub(crate) static ADMIN = "[admin]",
        "Metrics, health and the admin API. Set at least one of the two keys to use it.";

    /// `[admin]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Admin {
        /// Unix socket for commands. Write permission on the file is the access control.
        socket: AdminSocket = Key {
            name: "bind",
            kind: Kind::Text(Form::Socket),
            absent: Absent::Means("a socket that commands find"),
            help: "Unix socket that serves the same API and also accepts commands such as `evenkeel reload`. Users \
                with write permission on the file may use it. The default for root is `/run/evenkeel/PID.sock`. The \
                default for other users is a file in `$XDG_RUNTIME_DIR/evenkeel`, or in a private folder below the \
                folder for temporary files. If there is no such folder, as in the image, the file is in \
                `/run/evenkeel`.",
            why: "`evenkeel status` and `drain` work without configuration, and only for users who could stop the \
                process.",
        };
        /// Plain HTTP listener; `None` = only the socket.
        http: Option<AdminHttp> = Key {
            name: "http",
            kind: Kind::Table(&HTTP),
            absent: Absent::Means("no HTTP listener"),
            help: "Plain HTTP listener for `/metrics`, `/livez`, `/readyz` and the API under `/v1`.",
            why: "",
        };
    }
}

table! {
    static HTTP = "http of [admin]",
        "Plain HTTP listener for `/metrics`, `/livez`, `/readyz` and the API under `/v1`.";

    /// `http` of `[admin]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AdminHttp {
        /// Address and port to listen on.
        bind: SocketAddr = Key {
            name: "bind",
            kind: Kind::Text(Form::Bind),
            absent: Absent::Required(r#""127.0.0.1:9900""#),
            help: "Address and port to listen on. Anyone who can connect can read metrics and health and, without \
                `read_token`, the state of listeners, pools and endpoints: bind to this machine or a private \
                network.",
            why: "",
        };
        /// File of the token needed for reads under `/v1`.
        read_token: Option<PathBuf> = Key {
            name: "read_token",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("no token needed to read"),
            help: "File of the token required to read under `/v1`, sent as `Authorization: Bearer TOKEN`. At least 16 \
                bytes, without trailing white space.",
            why: "",
        };
        /// File of the token needed for changes.
        write_token: Option<PathBuf> = Key {
            name: "write_token",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("no changes over TCP"),
            help: "File of the token required for changes. It also allows reads.",
            why: "",
        };
        /// Host names that clients may send in `Host`; IP addresses and `localhost` are always accepted.
        hosts: Vec<String> = Key {
            name: "hosts",
            kind: Kind::List(&Kind::Text(Form::DnsName)),
            absent: Absent::Means("IP addresses and `localhost` only"),
            help: "Host names that requests may use for this listener, including requests for metrics and health. Any \
                other name is refused, since it may come from a web page that points its name at this address (DNS \
                rebinding).",
            why: "",
        };
        /// Most open connections, not counting those that carry a stream.
        connections: usize = Key {
            name: "connections",
            kind: Kind::Int { min: 1, max: 65_536 },
            absent: Absent::Default("64"),
            help: "Maximum open client connections, not counting connections with a stream. At the limit, a new \
                connection replaces the longest idle connection of the address with the most connections.",
            why: "A few scrapers, probes and users need fewer.",
        };
        /// Most open connections of a client address (IPv6: a /64).
        connections_per_address: usize = Key {
            name: "connections_per_address",
            kind: Kind::Int { min: 1, max: 65_536 },
            absent: Absent::Default("32"),
            help: "Maximum open connections of one client address (IPv6: one /64).",
            why: "A single address cannot use up `connections`.",
        };
        /// Most clients that follow a stream at a time.
        streams: usize = Key {
            name: "streams",
            kind: Kind::Int { min: 1, max: 65_536 },
            absent: Absent::Default("16"),
            help: "Maximum clients that follow events, requests or the dashboard at a time, including clients that \
                wait for requests. Further clients get a 503. An address with clearly more streams than others loses \
                its oldest streams to them.",
            why: "Each stream is rendered every second. The Unix socket has a separate limit.",
        };
    }
}

/// Reads `[admin]`. `None` if it sets neither a socket nor an HTTP listener.
pub(crate) fn admin(root: &Section) -> Option<Admin> {
    Some(Admin::of(&root.section("admin"))).filter(|admin| *admin != Admin::default())
}

impl AdminHttp {
    /// A listener at this address with default limits, without tokens or host names.
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

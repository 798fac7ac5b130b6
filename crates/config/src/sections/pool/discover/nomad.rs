//! `discover.nomad` of a pool, and `[discovery.nomad]`: allocations of a service in Nomad. See [`Nomad`].

use super::declare::{Asks, Settings};
use super::server::{Credentials, check};
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, S, Section, table};
use std::time::Duration;

table! {
    static NOMAD = "discover.nomad of [pool.NAME]",
        "Allocations that have registered a service in Nomad itself (`provider = \"nomad\"`). Nomad removes those whose \
        checks fail.";

    /// `discover.nomad`: registrations of a service.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Nomad {
        service: String = Key {
            name: "service",
            kind: Kind::Text(Form::Content),
            absent: Absent::Required("\"web\""),
            help: "Name of the service.",
            why: "",
        };
        /// Tags that a registration must have, all of them.
        tags: Vec<String> = Key {
            name: "tags",
            kind: Kind::List(&Kind::Text(Form::Content)),
            absent: Absent::Means("any"),
            help: "Tags that a registration must have, all of them.",
            why: "",
        };
        namespace: Option<String> = Key {
            name: "namespace",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("`default`"),
            help: "Namespace of the service.",
            why: "",
        };
        region: Option<String> = Key {
            name: "region",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("that of the server"),
            help: "Region to ask about.",
            why: "",
        };
        /// Server to ask, from `[discovery.nomad]`.
        server: NomadServer, rows [], read |_| NomadServer::default(), write |_, _, _| ();
    }
}

impl Settings for Nomad {
    const KIND: Kind = Kind::Table(&NOMAD);

    fn shown(&self) -> String {
        self.service.clone()
    }
}

impl Asks<NomadServer> for Nomad {
    fn ask(&mut self, server: NomadServer) {
        self.server = server;
    }

    fn check_server(server: &Section, findings: &mut Findings) {
        check(server, findings);
    }
}

table! {
    static NOMAD_SERVER = "[discovery.nomad]",
        "The Nomad agent or server that pools with `discover.nomad` ask.";

    /// `[discovery.nomad]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NomadServer {
        url: String = Key {
            name: "url",
            kind: Kind::Text(Form::ServerUrl),
            absent: Absent::Default("\"http://127.0.0.1:4646\""),
            help: "Agent or server: `http://`, `https://`, or `unix:/PATH`, as the API socket of a task.",
            why: "Nomad's agent on the same machine.",
        };
        /// Longest time for which the server may hold a request.
        wait: Duration = Key {
            name: "wait",
            kind: Kind::Duration { min: S, max: 600 * S, off: false },
            absent: Absent::Default("\"1m\""),
            help: "Time after which the server answers even if nothing has changed.",
            why: "A connection that died unseen is noticed after this time.",
        };
        credentials: Credentials, inline Credentials;
    }
}

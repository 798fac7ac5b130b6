//! `discover.consul` of a pool, and `[discovery.consul]`: healthy instances of a service in Consul. See [`Consul`].

use super::declare::{Asks, Settings};
use super::server::{Credentials, check};
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, S, Section, table};
use std::time::Duration;

table! {
    static CONSUL = "discover.consul of [pool.NAME]",
        "Instances of a service in Consul. An instance gets the weight that it registered for its state: one with a \
        critical check gets none, one in maintenance is drained.";

    /// `discover.consul`: instances of a service.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Consul {
        service: String = Key {
            name: "service",
            kind: Kind::Text(Form::Content),
            absent: Absent::Required("\"web\""),
            help: "Name of the service.",
            why: "",
        };
        /// Tags that an instance must have, all of them.
        tags: Vec<String> = Key {
            name: "tags",
            kind: Kind::List(&Kind::Text(Form::Content)),
            absent: Absent::Means("any"),
            help: "Tags that an instance must have, all of them.",
            why: "",
        };
        /// Expression by which the server selects instances.
        filter: Option<String> = Key {
            name: "filter",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("all"),
            help: "Expression by which the server selects instances, such as `Service.Meta.version == \"2\"`.",
            why: "",
        };
        datacenter: Option<String> = Key {
            name: "datacenter",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("that of the server"),
            help: "Datacenter to ask about.",
            why: "",
        };
        namespace: Option<String> = Key {
            name: "namespace",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("that of the token"),
            help: "Namespace of the service, in Consul Enterprise.",
            why: "",
        };
        partition: Option<String> = Key {
            name: "partition",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("that of the server"),
            help: "Admin partition of the service, in Consul Enterprise.",
            why: "",
        };
        peer: Option<String> = Key {
            name: "peer",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("none"),
            help: "Cluster peer that exports the service.",
            why: "",
        };
        /// Tagged address to use instead of the service's own, such as `wan`.
        address: Option<String> = Key {
            name: "address",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the service's, or else the node's"),
            help: "Tagged address to use, such as `wan` or `lan_ipv6`. Instances without it are skipped.",
            why: "",
        };
        /// Server to ask, from `[discovery.consul]`.
        server: ConsulServer, rows [], read |_| ConsulServer::default(), write |_, _, _| ();
    }
}

impl Settings for Consul {
    const KIND: Kind = Kind::Table(&CONSUL);

    fn shown(&self) -> String {
        self.service.clone()
    }
}

impl Asks<ConsulServer> for Consul {
    fn ask(&mut self, server: ConsulServer) {
        self.server = server;
    }

    fn check_server(server: &Section, findings: &mut Findings) {
        check(server, findings);
    }
}

table! {
    static CONSUL_SERVER = "[discovery.consul]",
        "The Consul agent or server that pools with `discover.consul` ask. Each of them has one request waiting there, \
        which it answers when something changes.";

    /// `[discovery.consul]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ConsulServer {
        url: String = Key {
            name: "url",
            kind: Kind::Text(Form::ServerUrl),
            absent: Absent::Default("\"http://127.0.0.1:8500\""),
            help: "Agent or server: `http://`, `https://`, or `unix:/PATH`.",
            why: "Consul's agent on the same machine.",
        };
        /// Longest time for which the server may hold a request.
        wait: Duration = Key {
            name: "wait",
            kind: Kind::Duration { min: S, max: 600 * S, off: false },
            absent: Absent::Default("\"1m\""),
            help: "Time after which the server answers even if nothing has changed.",
            why: "A connection that died unseen is noticed after this time. Consul's own default is 5 minutes.",
        };
        /// Age up to which an answer of a server other than the leader counts; `None` = only the leader answers.
        max_stale: Option<Duration> = Key {
            name: "max_stale",
            kind: Kind::Duration { min: S, max: 600 * S, off: true },
            absent: Absent::Default("\"10s\""),
            help: "Any server may answer, as long as it had contact to the leader within this time. `\"off\"`: only the \
                leader answers.",
            why: "Answers of all servers go on while a leader is elected, and spare it the load.",
        };
        credentials: Credentials, inline Credentials;
    }
}

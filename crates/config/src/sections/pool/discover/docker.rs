//! `discover.docker` of a pool, and `[discovery.docker]`: containers of Docker or Podman. See [`Docker`].

use super::declare::{Asks, Settings};
use super::server::{Credentials, check};
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, Key, Kind, Section, table};

table! {
    static DOCKER = "discover.docker of [pool.NAME]",
        "Running containers with a label. Labels of a container override what this table says: `evenkeel.port`, \
        `evenkeel.network`, `evenkeel.weight`, `evenkeel.priority`, `evenkeel.zone`, `evenkeel.drain`.";

    /// `discover.docker`: containers with labels.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Docker {
        /// Labels that a container must have: `NAME`, or `NAME=VALUE`.
        labels: Vec<String> = Key {
            name: "labels",
            kind: Kind::List(&Kind::Text(Form::Content)),
            absent: Absent::Required("[\"evenkeel.pool=web\"]"),
            help: "Labels that a container must have, all of them: `NAME`, or `NAME=VALUE`.",
            why: "",
        };
        /// Port of the endpoints; `None` = the only port that a container exposes.
        port: Option<u16> = Key {
            name: "port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Means("the only TCP port that the container exposes"),
            help: "Port at which containers listen.",
            why: "",
        };
        /// Network whose addresses are used; `None` = the only network of a container.
        network: Option<String> = Key {
            name: "network",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("the only network of the container"),
            help: "Network whose address is used, for containers in several. Containers in the network of the host have \
                the address 127.0.0.1.",
            why: "",
        };
        /// Server to ask, from `[discovery.docker]`.
        server: DockerServer, rows [], read |_| DockerServer::default(), write |_, _, _| ();
    }
}

impl Settings for Docker {
    const KIND: Kind = Kind::Table(&DOCKER);

    fn shown(&self) -> String {
        self.labels.join(",")
    }
}

impl Asks<DockerServer> for Docker {
    fn ask(&mut self, server: DockerServer) {
        self.server = server;
    }

    fn check_server(server: &Section, findings: &mut Findings) {
        check(server, findings);
    }
}

table! {
    static DOCKER_SERVER = "[discovery.docker]",
        "The Docker engine, or the API of Podman, that pools with `discover.docker` ask. Its socket gives power over the \
        machine: let evenkeel reach only `GET` of containers and events, by a filtering proxy.";

    /// `[discovery.docker]`.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct DockerServer {
        url: String = Key {
            name: "url",
            kind: Kind::Text(Form::ServerUrl),
            absent: Absent::Default("\"unix:/var/run/docker.sock\""),
            help: "Engine: `unix:/PATH`, `http://` or `https://`. Podman: `unix:/run/podman/podman.sock`.",
            why: "Docker's socket.",
        };
        credentials: Credentials, inline Credentials;
    }
}

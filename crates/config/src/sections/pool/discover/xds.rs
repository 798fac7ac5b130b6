//! `discover.xds` of a pool, and `[discovery.xds]`: endpoints that a control plane assigns to a cluster. See [`Xds`].

use super::declare::{Asks, Settings};
use super::server::{Credentials, check};
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, H, Key, Kind, S, Section, table};
use std::time::Duration;

table! {
    static XDS = "discover.xds of [pool.NAME]",
        "Endpoints that a control plane of Envoy or gRPC assigns to a cluster (EDS). Other settings of the cluster are not \
        read: they stand in the pool.";

    /// `discover.xds`: endpoints of a cluster.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Xds {
        cluster: String = Key {
            name: "cluster",
            kind: Kind::Text(Form::Content),
            absent: Absent::Required("\"web\""),
            help: "Name of the resource: `cluster_name` of a `ClusterLoadAssignment`.",
            why: "",
        };
        /// Server to ask, from `[discovery.xds]`.
        server: XdsServer, rows [], read |_| XdsServer::default(), write |_, _, _| ();
    }
}

impl Settings for Xds {
    const KIND: Kind = Kind::Table(&XDS);

    fn shown(&self) -> String {
        self.cluster.clone()
    }
}

impl Asks<XdsServer> for Xds {
    fn ask(&mut self, server: XdsServer) {
        self.server = server;
    }

    fn check_server(server: &Section, findings: &mut Findings) {
        check(server, findings);
    }
}

table! {
    static XDS_SERVER = "[discovery.xds]",
        "The control plane that pools with `discover.xds` ask, over one stream for all (ADS, version 3).";

    /// `[discovery.xds]`.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct XdsServer {
        url: String = Key {
            name: "url",
            kind: Kind::Text(Form::ServerUrl),
            absent: Absent::Default("\"http://127.0.0.1:18000\""),
            help: "Control plane: `http://`, `https://`, or `unix:/PATH`.",
            why: "The port that examples of go-control-plane have.",
        };
        /// Name of this balancer for the control plane; `None` = the machine's.
        node_id: Option<String> = Key {
            name: "node_id",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("the name of the machine"),
            help: "Name under which this balancer asks (`node.id`). Control planes may have other endpoints for another name.",
            why: "",
        };
        /// Group of balancers that this balancer belongs to.
        node_cluster: String = Key {
            name: "node_cluster",
            kind: Kind::Text(Form::Content),
            absent: Absent::Default("\"evenkeel\""),
            help: "Group of this balancer (`node.cluster`).",
            why: "Some control planes refuse clients without one.",
        };
        region: Option<String> = Key {
            name: "region",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("none"),
            help: "Region of this balancer (`node.locality.region`).",
            why: "",
        };
        zone: Option<String> = Key {
            name: "zone",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("none"),
            help: "Zone of this balancer (`node.locality.zone`).",
            why: "",
        };
        /// Silence of the server after which it is asked for a sign of life.
        ping_after: Duration = Key {
            name: "ping_after",
            kind: Kind::Duration { min: S, max: H, off: false },
            absent: Absent::Default("\"310s\""),
            help: "Silence after which the control plane is asked for a sign of life (a PING), to which it has 10 s to answer.",
            why: "Servers of gRPC for Go close connections with a PING more often than every 5 minutes, unless they are set up \
                for that.",
        };
        credentials: Credentials, inline Credentials;
    }
}

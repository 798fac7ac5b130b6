//! `bandwidth` of a route: the maximum bytes of bodies per second. See [`Bandwidth`].

use crate::diagnostic::Findings;
use crate::table::{Absent, Declared, Key, Kind, Section, table};

const RATE: Kind = Kind::Size { min: 1 << 10, max: 1 << 40, off: true };

table! {
    static BANDWIDTH_TABLE = "bandwidth of [[route]]",
        "Maximum bytes of bodies per second. Faster bodies wait, and so do their senders. After a pause, up to a tenth \
        of a second may be caught up. Heads are not counted, nor is a request body that arrives together with its \
        head.";

    /// Maximum bytes of bodies per second, by direction; `None` = no limit.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Bandwidth {
        /// Responses of the route, over all workers and connections.
        download: Option<u64> = Key {
            name: "download",
            kind: RATE,
            absent: Absent::Default("\"off\""),
            help: "Bytes of responses per second, of the whole route, over all workers and connections.",
            why: "",
        };
        /// Responses of the route on one connection of a client.
        download_per_connection: Option<u64> = Key {
            name: "download_per_connection",
            kind: RATE,
            absent: Absent::Default("\"off\""),
            help: "Bytes of responses per second on each client connection; streams of an HTTP/2 connection share \
                them. `bandwidth = \"1MB\"` sets only this key.",
            why: "",
        };
        /// Request bodies of the route, over all workers and connections.
        upload: Option<u64> = Key {
            name: "upload",
            kind: RATE,
            absent: Absent::Default("\"off\""),
            help: "Bytes of request bodies per second, of the whole route, over all workers and connections.",
            why: "",
        };
        /// Request bodies of the route on one connection of a client.
        upload_per_connection: Option<u64> = Key {
            name: "upload_per_connection",
            kind: RATE,
            absent: Absent::Default("\"off\""),
            help: "Bytes of request bodies per second on each client connection.",
            why: "",
        };
    }
}

/// The key `bandwidth` of routes.
pub(in crate::sections) const BANDWIDTH: Key = Key {
    name: "bandwidth",
    kind: Kind::TableOr { table: &BANDWIDTH_TABLE, key: "download_per_connection" },
    absent: Absent::Means("no limits"),
    help: "Maximum bytes of bodies per second, of the route and of each connection.",
    why: "",
};

impl Bandwidth {
    /// True if no direction is limited.
    pub fn is_open(&self) -> bool {
        *self == Bandwidth::default()
    }
}

/// Reports a connection that may have more than the whole route.
pub(in crate::sections) fn check(owner: &Section, findings: &mut Findings) {
    let bandwidth = owner.section("bandwidth");
    let set = Bandwidth::of(&bandwidth);
    for (whole, all, one, each) in [
        ("download", set.download, "download_per_connection", set.download_per_connection),
        ("upload", set.upload, "upload_per_connection", set.upload_per_connection),
    ] {
        if all.is_some_and(|all| each.is_some_and(|each| each > all)) {
            let message = format!("\"{one}\" is more than \"{whole}\", which all connections share");
            bandwidth
                .contradiction(bandwidth.span_of(one), message, whole, findings)
                .help("make it smaller, or leave it out");
        }
    }
}

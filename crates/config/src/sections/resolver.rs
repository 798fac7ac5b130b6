//! `[resolver]`: name servers and TTL bounds for the names of endpoints. See [`Resolver`].

use crate::diagnostic::Findings;
use crate::form::Form;
use crate::quantity::duration_text;
use crate::table::{Absent, DAY, H, Key, Kind, MS, Section, table};
use std::net::SocketAddr;
use std::time::Duration;

table! {
    pub(crate) static RESOLVER = "[resolver]",
        "Resolution of the names of endpoints. `/etc/hosts` is consulted first.";

    /// `[resolver]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Resolver {
        /// Name servers in the order of queries; empty = the servers of `/etc/resolv.conf`.
        nameservers: Vec<SocketAddr> = Key {
            name: "nameservers",
            kind: Kind::List(&Kind::Text(Form::Bind)),
            absent: Absent::Means("from `/etc/resolv.conf`"),
            help: "Name servers, in the order of queries.",
            why: "",
        };
        /// True if names are also looked up in the search domains of `/etc/resolv.conf`.
        search: bool = Key {
            name: "search",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Also looks names up in the `search` domains of `/etc/resolv.conf`, following its `ndots`.",
            why: "The same name could resolve differently on another machine, and each domain costs one more query.",
        };
        /// Shortest time that an answer is used, for names without `min_ttl`.
        min_ttl: Duration = Key {
            name: "min_ttl",
            kind: Kind::Duration { min: 100 * MS, max: H, off: false },
            absent: Absent::Default("\"1s\""),
            help: "Shortest time to use an answer, whatever its TTL.",
            why: "Some name servers send a TTL of 0, which would cause queries all the time.",
        };
        /// Longest time that an answer is used; never below a `min_ttl`.
        max_ttl: Duration = Key {
            name: "max_ttl",
            kind: Kind::Duration { min: 100 * MS, max: DAY, off: false },
            absent: Absent::Default("\"5m\""),
            help: "Longest time to use an answer, whatever its TTL.",
            why: "A changed address must not go unnoticed for a day because of a long TTL.",
        };
    }
}

/// Reports a `min_ttl` above `max_ttl`.
pub(crate) fn check(resolver: &Section, findings: &mut Findings) {
    let min_ttl = resolver.duration("min_ttl").unwrap_or_default();
    let max_ttl = resolver.duration("max_ttl").unwrap_or_default();
    if !resolver.is_broken() && min_ttl > max_ttl {
        let (min, max) = (duration_text(min_ttl), duration_text(max_ttl));
        let (one, other) =
            if resolver.set("max_ttl").is_some() { ("max_ttl", "min_ttl") } else { ("min_ttl", "max_ttl") };
        let message = format!("\"min_ttl\" ({min}) is longer than \"max_ttl\" ({max})");
        resolver
            .contradiction(resolver.span_of(one), message, other, findings)
            .help("lower the one or raise the other");
    }
}

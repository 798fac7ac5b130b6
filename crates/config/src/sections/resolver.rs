//! How are names of endpoints resolved? [`Resolver`], `[resolver]`.

use crate::diagnostic::Findings;
use crate::form::Form;
use crate::quantity::duration_text;
use crate::table::{Absent, DAY, H, Key, Kind, MS, Section, table};
use std::net::SocketAddr;
use std::time::Duration;

table! {
    pub(crate) static RESOLVER = "[resolver]",
        "How names of endpoints are resolved. `/etc/hosts` comes first.";

    /// `[resolver]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Resolver {
        /// The name servers, in the order in which they are asked; empty: those of `/etc/resolv.conf`.
        nameservers: Vec<SocketAddr> = Key {
            name: "nameservers",
            kind: Kind::List(&Kind::Text(Form::Bind)),
            absent: Absent::Means("those of `/etc/resolv.conf`"),
            help: "The name servers, by IP address and port, in the order in which they are asked.",
            why: "",
        };
        /// Whether names are also looked for in the domains that `/etc/resolv.conf` lists.
        search: bool = Key {
            name: "search",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Whether names are also looked for in the domains of `search` in `/etc/resolv.conf`, by its `ndots`.",
            why: "With it the same name can mean something else on another machine, and each domain costs one more query.",
        };
        /// For names that say nothing else: an answer is used for at least so long.
        min_ttl: Duration = Key {
            name: "min_ttl",
            kind: Kind::Duration { min: 100 * MS, max: H, off: false },
            absent: Absent::Default("\"1s\""),
            help: "An answer is used for at least so long, whatever its time to live.",
            why: "Some name servers send 0, which would mean to ask all the time.",
        };
        /// An answer is used for at most so long; never below a `min_ttl`.
        max_ttl: Duration = Key {
            name: "max_ttl",
            kind: Kind::Duration { min: 100 * MS, max: DAY, off: false },
            absent: Absent::Default("\"5m\""),
            help: "An answer is used for at most so long.",
            why: "A new address of an endpoint must not be missed for a day because the zone has such a time to live.",
        };
    }
}

/// Reports bounds that no time to live is within.
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

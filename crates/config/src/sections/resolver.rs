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
        /// Who is asked, in this order; empty: whom `/etc/resolv.conf` names.
        nameservers: Vec<SocketAddr> = Key {
            name: "nameservers",
            kind: Kind::List(&Kind::Text(Form::Bind)),
            absent: Absent::Means("those of `/etc/resolv.conf`"),
            help: "Who is asked, the first one first: IP address and port.",
            why: "",
        };
        /// Whether names are also looked for in the domains that `/etc/resolv.conf` lists.
        search: bool = Key {
            name: "search",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Whether names are also looked for in the domains of `search` in `/etc/resolv.conf`, by its `ndots`.",
            why: "A name that means something else on the next machine is a surprise, and each domain is one more question.",
        };
        /// For names that say nothing else: an answer is used for at least so long.
        min_ttl: Duration = Key {
            name: "min_ttl",
            kind: Kind::Duration { min: 100 * MS, max: H, off: false },
            absent: Absent::Default("\"1s\""),
            help: "An answer is used for at least so long, whatever its time to live.",
            why: "Some servers say 0, which means a question for each request to those who ask then.",
        };
        /// An answer is used for at most so long; never below a `min_ttl`.
        max_ttl: Duration = Key {
            name: "max_ttl",
            kind: Kind::Duration { min: 100 * MS, max: DAY, off: false },
            absent: Absent::Default("\"5m\""),
            help: "An answer is used for at most so long.",
            why: "An endpoint that moved must not be missed for a day since somebody wrote so into a zone.",
        };
    }
}

/// Reports bounds that no time to live is within.
pub(super) fn check(resolver: &Section, findings: &mut Findings) {
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

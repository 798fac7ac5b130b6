//! `access` of a route: networks whose clients it serves or refuses. See [`Access`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Cidr, Form, Formed};
use crate::source::Span;
use crate::table::{Absent, Key, Kind, Section, table};
use std::collections::HashMap;
use std::path::PathBuf;

/// The keys that have networks, or files with networks.
const LISTS: [&str; 4] = ["allow", "deny", "allow_files", "deny_files"];

/// The key `access` of routes.
pub(in crate::sections) const ACCESS_KEY: Key = Key {
    name: "access",
    kind: Kind::Table(&ACCESS),
    absent: Absent::Means("all clients"),
    help: "Networks whose clients are served or refused.",
    why: "",
};

table! {
    static ACCESS = "access of [[route]]",
        "Serves only clients of certain networks. The longest network that contains the client's address decides. If \
        files both allow and deny a network, it is denied. With `allow` or `allow_files`, clients outside the listed \
        networks are refused; with denials alone, they are served. Behind trusted proxies, the client is the address \
        that they report.";

    /// `access` of a route. At least one of its lists has an entry.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Access {
        /// Networks whose clients are answered.
        allow: Vec<Cidr> = Key {
            name: "allow",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("none"),
            help: "Networks whose clients are served.",
            why: "",
        };
        /// Networks whose clients are refused.
        deny: Vec<Cidr> = Key {
            name: "deny",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("none"),
            help: "Networks whose clients are refused.",
            why: "",
        };
        /// Files with more networks to allow.
        allow_files: Vec<PathBuf> = Key {
            name: "allow_files",
            kind: Kind::List(&Kind::Text(Form::File)),
            absent: Absent::Means("none"),
            help: "Files with more networks to allow: one network or address per line, comments after `#`, at most 64 \
                MiB. Read at startup, at each reload and, with `runtime.watch`, when they change.",
            why: "",
        };
        /// Files with more networks to deny.
        deny_files: Vec<PathBuf> = Key {
            name: "deny_files",
            kind: Kind::List(&Kind::Text(Form::File)),
            absent: Absent::Means("none"),
            help: "Files with more networks to deny, as for `allow_files`.",
            why: "",
        };
        /// Status of the response to refused requests, 400 to 599.
        status: u16 = Key {
            name: "status",
            kind: Kind::Int { min: 400, max: 599 },
            absent: Absent::Default("403"),
            help: "Status of the response to refused requests.",
            why: "403 means Forbidden. A 404 would not confirm that the resource exists.",
        };
    }
}

impl Access {
    /// True if clients of networks that are not listed are refused.
    pub fn refuses_others(&self) -> bool {
        !self.allow.is_empty() || !self.allow_files.is_empty()
    }

    /// Files with networks, those to allow first; the flag is true for them.
    pub fn files(&self) -> impl Iterator<Item = (bool, &PathBuf)> {
        let allow = self.allow_files.iter().map(|file| (true, file));
        allow.chain(self.deny_files.iter().map(|file| (false, file)))
    }
}

/// Reports an empty table, and networks that are both allowed and denied.
pub(in crate::sections) fn check(route: &Section, findings: &mut Findings) {
    if !route.has_read("access") {
        return;
    }
    let access = route.section("access");
    if LISTS.iter().all(|list| !access.has(list)) {
        findings
            .add(Code::Missing, access.span, "\"access\" lists no networks, so it refuses no request")
            .help("set \"allow\", \"deny\", \"allow_files\" or \"deny_files\"");
    }
    let networks = |list: &str| -> HashMap<Cidr, Span> {
        let formed = access.formed_list(list).into_iter();
        formed
            .filter_map(|(formed, span)| if let Formed::Network(net) = formed { Some((net, span)) } else { None })
            .collect()
    };
    let (allowed, mut denied) = (networks("allow"), networks("deny").into_iter().collect::<Vec<_>>());
    denied.sort_unstable_by_key(|(network, _)| *network);
    for (network, span) in denied {
        if let Some(allowed) = allowed.get(&network) {
            findings
                .add(Code::Contradiction, span, format!("{network} is both allowed and denied"))
                .see("it is allowed here", *allowed)
                .help("remove one of them; a longer network within it may have the other");
        }
    }
}

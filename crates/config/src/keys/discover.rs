//! The keys of `discover` of a pool, and of `[resolver]`.

use super::pool::ENDPOINT;
use super::{Absent, DAY, H, Key, Kind, MS, Table};
use crate::form::Form;

pub(super) static DISCOVER: Table = Table {
    path: "discover of [pool.NAME]",
    help: "Finds endpoints while evenkeel runs, beside those that `endpoints` lists: `dns` or `file`. While a source \
           fails, the last list that it gave goes on.",
    inherits: false,
    keys: &[
        Key {
            name: "dns",
            kind: Kind::Table(&DNS),
            absent: Absent::Means("no name is asked for"),
            help: "The records of a name.",
            why: "",
        },
        Key {
            name: "file",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("no file is read"),
            help: "A file with `endpoints` as here: JSON if its name ends in `.json`, or else TOML. Addresses only. It \
                   is looked at twice a second, so it may be written, renamed over, or a link to something new.",
            why: "",
        },
        Key {
            name: "allow_empty",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Whether a list without endpoints, or a name that does not exist, empties the pool. If not, the last \
                   list that had some goes on.",
            why: "An empty list is more often a mistake on the other side than meant.",
        },
    ],
};

/// A file that lists endpoints.
pub(crate) static ENDPOINT_LIST: Table = Table {
    path: "the list",
    help: "Endpoints.",
    inherits: false,
    keys: &[Key {
        name: "endpoints",
        kind: Kind::List(&Kind::TableOr { table: &ENDPOINT, key: "addr" }),
        absent: Absent::Required(r#"["10.0.0.1:8080", "10.0.0.2:8080"]"#),
        help: "The endpoints.",
        why: "",
    }],
};

static DNS: Table = Table {
    path: "discover.dns of [pool.NAME]",
    help: "The records of a name, asked for again when their time to live is over.",
    inherits: false,
    keys: &[
        Key {
            name: "name",
            kind: Kind::Text(Form::DnsName),
            absent: Absent::Required(r#""web.internal""#),
            help: "The name, as a whole: no domain is added unless `search` of `[resolver]` says so.",
            why: "",
        },
        Key {
            name: "type",
            kind: Kind::Choice(&["A", "AAAA", "SRV"]),
            absent: Absent::Means("`A`, and `AAAA` if there are none"),
            help: "Which records. `SRV` says port, priority and weight of each endpoint too.",
            why: "",
        },
        Key {
            name: "port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Means("what `SRV` records say"),
            help: "Where the endpoints listen. Needed unless `type` is `SRV`.",
            why: "",
        },
        Key {
            name: "min_ttl",
            kind: Kind::Duration { min: 100 * MS, max: H, off: false },
            absent: Absent::Means("that of `[resolver]`"),
            help: "An answer is used for at least so long, whatever its time to live.",
            why: "",
        },
    ],
};

pub(super) static RESOLVER: Table = Table {
    path: "[resolver]",
    help: "How names of endpoints are resolved. `/etc/hosts` comes first.",
    inherits: false,
    keys: &[
        Key {
            name: "nameservers",
            kind: Kind::List(&Kind::Text(Form::Bind)),
            absent: Absent::Means("those of `/etc/resolv.conf`"),
            help: "Who is asked, the first one first: IP address and port.",
            why: "",
        },
        Key {
            name: "search",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Whether names are also looked for in the domains of `search` in `/etc/resolv.conf`, by its `ndots`.",
            why: "A name that means something else on the next machine is a surprise, and each domain is one more question.",
        },
        Key {
            name: "min_ttl",
            kind: Kind::Duration { min: 100 * MS, max: H, off: false },
            absent: Absent::Default("\"1s\""),
            help: "An answer is used for at least so long, whatever its time to live.",
            why: "Some servers say 0, which means a question for each request to those who ask then.",
        },
        Key {
            name: "max_ttl",
            kind: Kind::Duration { min: 100 * MS, max: DAY, off: false },
            absent: Absent::Default("\"5m\""),
            help: "An answer is used for at most so long.",
            why: "An endpoint that moved must not be missed for a day since somebody wrote so into a zone.",
        },
    ],
};

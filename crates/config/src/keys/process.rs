//! The keys of the process: the root of the file, `[runtime]`, `[admin]`, `[telemetry]`, `[defaults]`, `[include]`.

use super::{Absent, DAY, DEFAULT_RETRY, DEFAULT_TIMEOUTS, Key, Kind, LISTENER, POOL, RESOLVER, ROUTE, Table};
use crate::form::Form;

/// The root of every file.
pub(crate) static ROOT: Table = Table {
    path: "the top level",
    help: "A file is TOML 1.1. Keys that nothing reads are errors. Strings may contain `${NAME}` or \
           `${NAME:-default}` for environment variables (`$${` is a literal `${`).",
    inherits: false,
    keys: &[
        Key {
            name: "version",
            kind: Kind::Int { min: 1, max: 1 },
            absent: Absent::Default("1"),
            help: "Version of this language.",
            why: "There is only one so far; a later one will still read files that say 1.",
        },
        table("runtime", Kind::Table(&RUNTIME), "The process.", "its defaults"),
        table("admin", Kind::Table(&ADMIN), "Metrics and health of the process.", "no admin listener"),
        table("telemetry", Kind::Table(&TELEMETRY), "Metrics and the access log.", "its defaults"),
        table("resolver", Kind::Table(&RESOLVER), "How names of endpoints are resolved.", "its defaults"),
        table("defaults", Kind::Table(&DEFAULTS), "What others start from.", "its defaults"),
        table("listener", Kind::Named(&LISTENER), "Where requests come in, by name. At least one.", "none"),
        table("route", Kind::Tables(&ROUTE), "Which pool gets which requests.", "everything to the only pool"),
        table("pool", Kind::Named(&POOL), "Groups of endpoints, by name. At least one.", "none"),
        table("include", Kind::Table(&INCLUDE), "More files.", "none"),
    ],
};

const fn table(name: &'static str, kind: Kind, help: &'static str, absent: &'static str) -> Key {
    Key { name, kind, absent: Absent::Means(absent), help, why: "" }
}

static RUNTIME: Table = Table {
    path: "[runtime]",
    help: "The process.",
    inherits: false,
    keys: &[
        Key {
            name: "workers",
            kind: Kind::IntOr { min: 1, max: 1024, word: "auto" },
            absent: Absent::Default("\"auto\""),
            help: "Event loops, each on its own thread.",
            why: "One for each core that the process may use: more only take turns.",
        },
        Key {
            name: "drain_timeout",
            kind: Kind::Duration { min: 0, max: DAY, off: false },
            absent: Absent::Default("\"30s\""),
            help: "How long running requests may go on after a stop.",
            why: "Kubernetes waits 30 s between TERM and KILL, systemd 90 s.",
        },
        Key {
            name: "watch",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Reloads when this file, or one that it includes, changes.",
            why: "Whoever edits a file by hand saves it before it is whole; tools that replace it at once can turn it on.",
        },
        Key {
            name: "log",
            kind: Kind::Table(&LOG),
            absent: Absent::Means("its defaults"),
            help: "The log of the process, on standard error.",
            why: "",
        },
    ],
};

static LOG: Table = Table {
    path: "log of [runtime]",
    help: "The log of the process. Requests go to the access log, never here.",
    inherits: false,
    keys: &[
        Key {
            name: "level",
            kind: Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
            absent: Absent::Default("\"info\""),
            help: "The least severe lines that are written.",
            why: "Starts, stops and changes, but nothing for each request.",
        },
        Key {
            name: "format",
            kind: Kind::Choice(&["text", "json"]),
            absent: Absent::Default("\"text\""),
            help: "How a line looks.",
            why: "The first reader is a person at a terminal; collectors want `json`.",
        },
    ],
};

static ADMIN: Table = Table {
    path: "[admin]",
    help: "Metrics and health of the process.",
    inherits: false,
    keys: &[
        Key {
            name: "bind",
            kind: Kind::Text(Form::Socket),
            absent: Absent::Means("no such socket"),
            help: "A Unix socket for those who may also change things: whoever may write to the file.",
            why: "",
        },
        Key {
            name: "http",
            kind: Kind::Table(&ADMIN_HTTP),
            absent: Absent::Means("no such listener"),
            help: "A plain HTTP listener for `/metrics`, `/livez` and `/readyz`.",
            why: "",
        },
    ],
};

static ADMIN_HTTP: Table = Table {
    path: "http of [admin]",
    help: "A plain HTTP listener for `/metrics`, `/livez` and `/readyz`.",
    inherits: false,
    keys: &[Key {
        name: "bind",
        kind: Kind::Text(Form::Bind),
        absent: Absent::Required(r#""127.0.0.1:9900""#),
        help: "Its address. Whoever reaches it can read it: keep it on this machine or in a private network.",
        why: "",
    }],
};

static TELEMETRY: Table = Table {
    path: "[telemetry]",
    help: "What can be known about requests.",
    inherits: false,
    keys: &[
        Key {
            name: "metrics",
            kind: Kind::Table(&METRICS),
            absent: Absent::Means("its defaults"),
            help: "Prometheus metrics on the admin listener.",
            why: "",
        },
        Key {
            name: "access_log",
            kind: Kind::Table(&ACCESS_LOG),
            absent: Absent::Means("off"),
            help: "One line for each request.",
            why: "",
        },
        Key {
            name: "journal",
            kind: Kind::Table(&JOURNAL),
            absent: Absent::Means("off"),
            help: "All that the picks of one pool depend on, for `evenkeel replay`.",
            why: "",
        },
    ],
};

static METRICS: Table = Table {
    path: "metrics of [telemetry]",
    help: "Prometheus metrics on the admin listener.",
    inherits: false,
    keys: &[
        Key {
            name: "path",
            kind: Kind::Text(Form::PlainPath),
            absent: Absent::Default("\"/metrics\""),
            help: "Where they are served.",
            why: "Where Prometheus looks.",
        },
        Key {
            name: "per_endpoint",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Whether upstream series carry the endpoint.",
            why: "An uneven load can only be seen by endpoint; turn it off for pools of thousands.",
        },
        Key {
            name: "buckets",
            kind: Kind::List(&Kind::Number { min: 1e-6, max: 3600.0 }),
            absent: Absent::Default("[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]"),
            help: "Upper bounds of the duration histograms in seconds, ascending.",
            why: "About three to each power of ten, from 1 ms: on a local network much ends within 5 ms.",
        },
    ],
};

static ACCESS_LOG: Table = Table {
    path: "access_log of [telemetry]",
    help: "One line for each request, written when it ended.",
    inherits: false,
    keys: &[
        Key {
            name: "path",
            kind: Kind::Text(Form::File),
            absent: Absent::Required(r#""/var/log/evenkeel/access.jsonl""#),
            help: "The file that lines are appended to; `\"-\"` or `\"stdout\"` is standard output.",
            why: "",
        },
        Key {
            name: "format",
            kind: Kind::Choice(&["json"]),
            absent: Absent::Default("\"json\""),
            help: "How a line looks.",
            why: "A field can be added without breaking a reader.",
        },
    ],
};

static JOURNAL: Table = Table {
    path: "journal of [telemetry]",
    help: "All that the picks of one pool depend on, in order: `evenkeel replay` makes the same picks of it. Needs \
           `runtime.workers = 1`, as the picks of several depend on each other. Two lines for each try of a request.",
    inherits: false,
    keys: &[
        Key {
            name: "path",
            kind: Kind::Text(Form::File),
            absent: Absent::Required(r#""/var/log/evenkeel/web.journal""#),
            help: "The file that lines are appended to; `\"-\"` or `\"stdout\"` is standard output.",
            why: "",
        },
        Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Required(r#""web""#),
            help: "The pool's name.",
            why: "",
        },
    ],
};

static DEFAULTS: Table = Table {
    path: "[defaults]",
    help: "What listeners, pools and routes start from.",
    inherits: false,
    keys: &[
        table("timeouts", Kind::Table(&DEFAULT_TIMEOUTS), "How long each thing may take.", "its defaults"),
        table("retry", Kind::Table(&DEFAULT_RETRY), "What is tried again.", "its defaults"),
    ],
};

pub(crate) static INCLUDE: Table = Table {
    path: "[include]",
    help: "More files, read as if their keys stood in this one. Tables are joined key by key and `[[route]]`s are put \
           together; a key that two files set is an error. An included file cannot include.",
    inherits: false,
    keys: &[Key {
        name: "files",
        kind: Kind::List(&Kind::Text(Form::Include)),
        absent: Absent::Required(r#"["conf.d/*.toml"]"#),
        help: "Paths relative to this file. The last part may contain `*` for any characters but a leading dot.",
        why: "",
    }],
};

//! Entries of `endpoints`: address, weight, priority and zone of an endpoint. See [`Endpoint`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Address, Form, Formed, payload_text};
use crate::sections::names::check_name;
use crate::source::Span;
use crate::table::{Absent, Declared, Key, Kind, Lines, Section, Table, quote, table, words};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

table! {
    pub(crate) static ENDPOINT = "endpoints of [pool.NAME]",
        "An endpoint of a pool.";

    /// Entry of `endpoints`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Endpoint {
        /// Address and port, a name that is resolved, or a Unix socket.
        addr: Address = Key {
            name: "addr",
            kind: Kind::Text(Form::Address),
            absent: Absent::Required(r#""127.0.0.1:8081""#),
            help: "IP address or host name, and port; or a Unix socket on this machine: `unix:/PATH`, or `unix:@NAME` \
                for an abstract socket. Names are resolved while evenkeel runs, with the settings of `[resolver]`. \
                Until its name is resolved, the endpoint gets no requests.",
            why: "",
        };
        /// Handling of the addresses of a name. Ignored for IP addresses.
        resolve: Resolve = Key {
            name: "resolve",
            kind: Kind::Choice(Resolve::WORDS),
            absent: Absent::Default("\"first\""),
            help: "Handling of the addresses of a host name. `first`: one endpoint, which keeps its address as long as \
                the name resolves to it. `all`: one endpoint per address, each with the weight, priority and zone of \
                this entry.",
            why: "One entry is one endpoint, with its own counters, unless stated otherwise.",
        };
        /// Name of the endpoint, unique in the pool. The address as text if not set.
        name: Arc<str> = Key {
            name: "name",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the address"),
            help: "Name in metrics and logs, unique in the pool. It identifies the endpoint when its address changes.",
            why: "",
        }, read name, write write_name;
        /// Share of requests relative to the other endpoints; 0 = no traffic.
        weight: u16 = Key {
            name: "weight",
            kind: Kind::Int { min: 0, max: 65_535 },
            absent: Absent::Default("1"),
            help: "Share of requests relative to the other endpoints; 0 = no traffic.",
            why: "Endpoints are equal unless stated otherwise.",
        };
        /// Tier of the endpoint, 0 to 15. Tier 0 is used first; the next tier when it has no room, or when a
        /// request has tried all of it.
        priority: u8, rows [
            Key {
                name: "priority",
                kind: Kind::Int { min: 0, max: 15 },
                absent: Absent::Default("0"),
                help: "Tier of the endpoint. Tier 0 is used first. The next tier is used when a tier has no room, and \
                    for requests that have tried all of its endpoints.",
                why: "All endpoints are in one tier.",
            },
            Key {
                name: "backup",
                kind: Kind::Bool,
                absent: Absent::Default("false"),
                help: "`true` is short for `priority = 1`: the endpoint gets requests when tier 0 has no room, and \
                    requests that have tried all endpoints of tier 0.",
                why: "",
            },
        ], read priority, write write_priority;
        /// True if the endpoint gets no new requests. Requests in flight finish.
        drain: bool = Key {
            name: "drain",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Sends no new requests to the endpoint. Requests in flight finish.",
            why: "",
        };
        /// Zone of the endpoint, for `locality`; `None` = unknown.
        zone: Option<Arc<str>> = Key {
            name: "zone",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("no zone"),
            help: "Zone of the endpoint, for `locality`.",
            why: "",
        };
        /// Host, path prefix and name in TLS that only this endpoint gets.
        own: Own, inline Own;
    }
}

table! {
    static OWN = "own keys of endpoints of [pool.NAME]",
        "Host, path and name in TLS of one endpoint.";

    /// Host, path prefix and name in TLS that only this endpoint gets, with each try.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Own {
        /// Host that replaces the endpoint's address for `send_host = "endpoint"` and in checks.
        host: Option<Arc<str>> = Key {
            name: "host",
            kind: Kind::Text(Form::Authority),
            absent: Absent::Means("the host of `addr`"),
            help: "Host of the endpoint: sent by routes with `send_host = \"endpoint\"`, by health checks without a \
                `host`, and by load probes.",
            why: "",
        };
        /// Path that precedes the path of each request, without a slash at its end; `None` = none.
        path_prefix: Option<Arc<str>> = Key {
            name: "path_prefix",
            kind: Kind::Text(Form::PlainPath),
            absent: Absent::Means("none"),
            help: "Path to put before the path of each request to the endpoint, after the rewrites of the route: with \
                `\"/v2\"`, `/users` becomes `/v2/users`. A request with a path that would lead out of the prefix gets \
                a 400. Does not apply to health checks and load probes; their paths are complete.",
            why: "",
        }, read path_prefix, write write_path_prefix;
        /// Name to request by TLS (SNI) and to verify, instead of the pool's name.
        tls_name: Option<Arc<str>> = Key {
            name: "tls_name",
            kind: Kind::Text(Form::Domain),
            absent: Absent::Means("`tls.server_name` of the pool, or the host of `addr`"),
            help: "Name to request from the endpoint (SNI). The endpoint's certificate must be valid for it. Needs \
                `tls` of the pool.",
            why: "",
        };
        /// Server id in the connection ids that the endpoint gives to clients of QUIC, 1 to 15 bytes; `None` = unknown.
        quic_id: Option<Arc<[u8]>> = Key {
            name: "quic_id",
            kind: Kind::Text(Form::Payload),
            absent: Absent::Means("unknown"),
            help: "Server id that the endpoint writes behind the first byte of its connection ids, for listeners with \
                `mode = \"udp\"` that pass QUIC through (draft-ietf-quic-load-balancers, without encryption): \
                `\"hex:0a01\"`. A client whose address changes then stays at its endpoint. Unique in the pool; 1 to 15 \
                bytes.",
            why: "",
        }, read quic_id, write write_quic_id;
    }
}

fn quic_id(endpoint: &Section) -> Option<Arc<[u8]>> {
    match endpoint.formed("quic_id") {
        Some(Formed::Payload(id)) => Some(id.into()),
        _ => None,
    }
}

fn write_quic_id(set: &Own, _: &Own, lines: &mut Lines) {
    if let Some(id) = &set.quic_id {
        lines.add("quic_id", quote(&payload_text(id)));
    }
}

words! {
    /// Handling of the addresses of an endpoint given by name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Resolve {
        /// A single endpoint: at its current address while the name has it, otherwise at the first address.
        #[default]
        First = "first",
        /// A separate endpoint for each address.
        All = "all",
    }
}

impl Endpoint {
    /// An endpoint at this address, named after it, with defaults for everything else.
    pub fn at(addr: SocketAddr) -> Endpoint {
        Endpoint { addr: Address::Ip(addr), name: addr.to_string().into(), ..Endpoint::default() }
    }
}

/// An element of a list of endpoints. A static, since Rust 1.88 drops a reference to such a value in a table too early.
pub(crate) static ENTRY: Kind = Kind::TableOr { table: &ENDPOINT, key: "addr" };

/// Top level of a file that lists endpoints, read by [`Source::File`](super::discover::Source::File).
pub(crate) static ENDPOINT_LIST: Table = Table {
    path: "the list",
    help: "A list of endpoints.",
    inherits: false,
    keys: &[Key {
        name: "endpoints",
        kind: Kind::List(&ENTRY),
        absent: Absent::Required(r#"["10.0.0.1:8080", "10.0.0.2:8080"]"#),
        help: "The endpoints.",
        why: "",
    }],
};

fn name(endpoint: &Section) -> Arc<str> {
    match (endpoint.text("name"), endpoint.formed("addr")) {
        (Some(name), _) => name.into(),
        (None, Some(Formed::Address(addr))) => addr.to_string().into(),
        (None, _) => "".into(),
    }
}

fn write_name(set: &Endpoint, _: &Endpoint, lines: &mut Lines) {
    if *set.name != *set.addr.to_string() {
        lines.add("name", quote(&set.name));
    }
}

/// Reads the tier, also from the word `backup`.
fn priority(endpoint: &Section) -> u8 {
    match endpoint.has("priority") {
        true => endpoint.int("priority").try_into().unwrap_or_default(),
        false => u8::from(endpoint.flag("backup")),
    }
}

fn write_priority(set: &Endpoint, base: &Endpoint, lines: &mut Lines) {
    if set.priority != base.priority {
        lines.add("priority", set.priority.to_string());
    }
}

/// Reads the prefix; a slash alone is none.
fn path_prefix(endpoint: &Section) -> Option<Arc<str>> {
    let text = endpoint.text("path_prefix")?;
    Some(text.trim_end_matches('/')).filter(|path| !path.is_empty()).map(Arc::from)
}

fn write_path_prefix(set: &Own, _: &Own, lines: &mut Lines) {
    if let Some(path) = &set.path_prefix {
        lines.add("path_prefix", quote(path));
    }
}

/// Reports a tier that is set in two ways, and a prefix that would not be the beginning of a path.
fn check_own(endpoint: &Section, findings: &mut Findings) {
    if let (Some(backup), true) = (endpoint.set("backup"), endpoint.has("priority")) {
        let (tier, means) = (endpoint.int("priority"), u64::from(endpoint.flag("backup")));
        if tier != means {
            let message = format!("\"backup\" means priority = {means}, and \"priority\" is {tier}");
            endpoint.contradiction(backup.span, message, "priority", findings).help("keep one of the two");
        }
    }
    let Some(prefix) = endpoint.text("path_prefix") else { return };
    let leads_up = prefix.split(['/', '\\']).any(|segment| matches!(segment, "." | ".."));
    let is_escaped = ["%2e", "%2f", "%5c"].iter().any(|escape| prefix.to_ascii_lowercase().contains(escape));
    if prefix.starts_with("//") || leads_up || is_escaped {
        let message = format!("{} cannot be put before a path", quote(&prefix));
        findings
            .add(Code::BadPath, endpoint.span_of("path_prefix"), message)
            .help("write a path like \"/v2\", without empty, \".\" and \"..\" segments and without escapes of them");
    }
}

/// Reads the endpoints of a pool or of a list file, skipping entries without a valid `addr`.
pub(crate) fn endpoints(section: &Section) -> Vec<Endpoint> {
    section.sections("endpoints").into_iter().filter(|e| e.formed("addr").is_some()).map(Endpoint::of).collect()
}

/// Reports duplicate addresses and names.
pub(crate) fn check(section: &Section, findings: &mut Findings) {
    let mut names: BTreeMap<String, Span> = BTreeMap::new();
    let mut seen: BTreeMap<String, Span> = BTreeMap::new();
    for endpoint in section.sections("endpoints") {
        let Some(Formed::Address(addr)) = endpoint.formed("addr") else { continue };
        let text = addr.to_string();
        let span = endpoint.span_of("addr");
        if let Some(first) = seen.get(&text) {
            findings
                .add(Code::SameEndpoint, span, format!("endpoint {text} is in its pool twice"))
                .see("it is here first", *first)
                .help("list it once; for a bigger share, raise its weight");
            continue;
        }
        check_own(endpoint, findings);
        if let (Some(set), Address::Ip(_) | Address::Unix(_)) = (endpoint.set("resolve"), &addr) {
            let message = format!("\"resolve\" is for names, and {text} is an address");
            endpoint.contradiction(set.span, message, "addr", findings).help("leave \"resolve\" out");
        }
        let name = endpoint.text("name").unwrap_or(text.clone());
        check_name(&name, endpoint.span_of("name"), "endpoints of a pool", &mut names, findings);
        seen.insert(text, span);
    }
}

/// Formats a list of endpoints as TOML, a line each.
pub(crate) fn written(endpoints: &[Endpoint]) -> String {
    let unset = Endpoint::unset();
    let lines: String = endpoints.iter().map(|e| format!("  {},\n", e.lines(unset).value(&ENTRY))).collect();
    format!("[\n{lines}]")
}

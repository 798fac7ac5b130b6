//! Where does an endpoint listen, and what is its share? [`Endpoint`], an element of `endpoints`.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Address, Form, Formed};
use crate::sections::names::check_name;
use crate::source::Span;
use crate::table::{Absent, Declared, Key, Kind, Lines, Section, Table, quote, table, words};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

table! {
    pub(crate) static ENDPOINT = "endpoints of [pool.NAME]",
        "One endpoint.";

    /// One entry of `endpoints`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Endpoint {
        /// Where it listens.
        addr: Address = Key {
            name: "addr",
            kind: Kind::Text(Form::Address),
            absent: Absent::Required(r#""127.0.0.1:8081""#),
            help: "Where it listens: IP address or host name, and port. A name is resolved again and again while \
                   evenkeel runs, as `[resolver]` says; until that succeeds, the endpoint gets no requests.",
            why: "",
        };
        /// If that is a name: what is made of its addresses.
        resolve: Resolve = Key {
            name: "resolve",
            kind: Kind::Choice(Resolve::WORDS),
            absent: Absent::Default("\"first\""),
            help: "What the addresses of a name become. `first`: one endpoint, which keeps its address while the name \
                   has it. `all`: an endpoint for each address, with weight, priority and zone of this one.",
            why: "One entry is one endpoint, with its own counts, unless the file says otherwise.",
        };
        /// Unique in the pool; the address as text if the file gives none.
        name: Arc<str> = Key {
            name: "name",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the address"),
            help: "Its name in metrics and logs, by which it is still the same endpoint when its address changes. Unique \
                   in \
                   the pool.",
            why: "",
        }, read name, write write_name;
        /// Its share against the other endpoints; 0 = no traffic.
        weight: u16 = Key {
            name: "weight",
            kind: Kind::Int { min: 0, max: 65_535 },
            absent: Absent::Default("1"),
            help: "Its share against the others; 0 = no traffic.",
            why: "Equal shares.",
        };
        /// Its tier: 0 is used first, 1 when tier 0 has no room or a request has tried all of it, and so on to 15.
        priority: u8 = Key {
            name: "priority",
            kind: Kind::Int { min: 0, max: 15 },
            absent: Absent::Default("0"),
            help: "Its tier: 0 is used first, the next when that one has no room, or for a request that has tried all of it.",
            why: "All in one tier.",
        };
        /// Gets no new requests; running ones go on.
        drain: bool = Key {
            name: "drain",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Gets no new requests; running ones go on.",
            why: "",
        };
        /// The zone it is in, if that is known.
        zone: Option<Arc<str>> = Key {
            name: "zone",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("no zone"),
            help: "The zone it is in, for `locality`.",
            why: "",
        };
    }
}

words! {
    /// What is made of the addresses of an endpoint that is given as a name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Resolve {
        /// One endpoint, at one of them: the one it has while the name has that, or else the first.
        #[default]
        First = "first",
        /// An endpoint for each.
        All = "all",
    }
}

impl Endpoint {
    /// An endpoint that listens here and is named for it, otherwise as one that sets nothing.
    pub fn at(addr: SocketAddr) -> Endpoint {
        Endpoint { addr: Address::Ip(addr), name: addr.to_string().into(), ..Endpoint::default() }
    }
}

/// An element of a list of endpoints. A static, since Rust 1.88 drops a reference to such a value in a table too early.
pub(crate) static ENTRY: Kind = Kind::TableOr { table: &ENDPOINT, key: "addr" };

/// A file that lists endpoints.
pub(crate) static ENDPOINT_LIST: Table = Table {
    path: "the list",
    help: "Endpoints.",
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

/// Those of a pool, or of a file that lists some: of entries that say where they listen.
pub(crate) fn endpoints(section: &Section) -> Vec<Endpoint> {
    section.sections("endpoints").into_iter().filter(|e| e.formed("addr").is_some()).map(Endpoint::of).collect()
}

/// Reports addresses and names that are there twice.
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
        if let (Some(set), Address::Ip(_)) = (endpoint.set("resolve"), &addr) {
            let message = format!("\"resolve\" is for names, and {text} is an address");
            endpoint.contradiction(set.span, message, "addr", findings).help("leave \"resolve\" out");
        }
        let name = endpoint.text("name").unwrap_or(text.clone());
        check_name(&name, endpoint.span_of("name"), "endpoints of a pool", &mut names, findings);
        seen.insert(text, span);
    }
}

/// On a line each.
pub(super) fn written(endpoints: &[Endpoint]) -> String {
    let unset = Endpoint::unset();
    let lines: String = endpoints.iter().map(|e| format!("  {},\n", e.lines(&unset).value(&ENTRY))).collect();
    format!("[\n{lines}]")
}

//! What is answered to resolvers? [`Zone`], `zone` of a listener.

use super::mode::Mode;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Cidr, Form};
use crate::quantity::duration_text;
use crate::table::{Absent, Declared, Field, H, Key, Kind, Lines, Section, Table, quote, table, words};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

table! {
    pub(super) static ZONE = "zone of [listener.NAME]",
        "The names that a listener with `mode = \"dns\"` answers for, with the addresses of healthy endpoints. Resolvers \
        keep an answer for its time to live, and one answer may carry thousands of clients: this balances answers, not \
        requests.";

    /// `zone` of a listener that speaks DNS. Names are lower case, without a final dot.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Zone {
        /// The name of the zone.
        name: Arc<str> = Key {
            name: "name",
            kind: Kind::Text(Form::Domain),
            absent: Absent::Required(r#""gslb.example.com""#),
            help: "The zone. Names outside it are refused.",
            why: "",
        };
        /// Seconds that an answer may be kept, where a record says nothing else.
        ttl: u32 = Key {
            name: "ttl",
            kind: Kind::Duration { min: 0, max: H, off: false },
            absent: Absent::Default("\"5s\""),
            help: "How long resolvers may keep an answer; whole seconds. Negative answers are kept that long, and at most 5 s.",
            why: "An endpoint that has failed still gets clients for that long; many resolvers round up what is below \
                  some seconds.",
        }, read |zone| seconds(zone).unwrap_or_default(), write write_ttl;
        /// In the order of the file; `apex`, if set, first. No name twice.
        records: Vec<Record>,
            rows [
            Key {
                name: "records",
                kind: Kind::Named(&RECORD),
                absent: Absent::Means("only `apex`"),
                help: "What names in the zone stand for, each without the name of the zone: `www`, or `\"_http._tcp\"`.",
                why: "",
            },
            Key {
                name: "apex",
                kind: Kind::Table(&APEX),
                absent: Absent::Means("it has no address"),
                help: "What the name of the zone itself stands for.",
                why: "",
            },
        ],
            read records,
            write write_records;
        /// Its name servers; empty: one that is called `ns1` in the zone.
        name_servers: Vec<NameServer> = Key {
            name: "ns",
            kind: Kind::Tables(&NAME_SERVER),
            absent: Absent::Means("`ns1` in the zone, without addresses"),
            help: "Its name servers, as the zone above names them.",
            why: "",
        };
        /// The mail address of its administrator, as a name; `None` = `hostmaster` in the zone.
        contact: Option<Arc<str>> = Key {
            name: "contact",
            kind: Kind::Text(Form::Domain),
            absent: Absent::Means("`hostmaster` in the zone"),
            help: "The mail address of its administrator, with a dot in place of the @.",
            why: "",
        };
        /// The serial of its SOA record.
        serial: u32 = Key {
            name: "serial",
            kind: Kind::Int { min: 0, max: u32::MAX as u64 },
            absent: Absent::Default("1"),
            help: "The serial of its SOA record. Zone transfers do not exist, so nothing depends on it.",
            why: "",
        };
        /// Whether all endpoints are named when none is healthy.
        fail_open: bool = Key {
            name: "fail_open",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Whether an answer names all endpoints when none is healthy. `false`: SERVFAIL, so that resolvers ask \
                   another \
                   server or keep what they have.",
            why: "If all checks fail at once, it is more likely that the checks are wrong.",
        };
        /// Whether the client's network counts, as resolvers send it.
        client_subnet: bool = Key {
            name: "client_subnet",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Whether the client's network, if the resolver sends it (RFC 7871), counts instead of the resolver's \
                   address.",
            why: "A query can claim any network, and resolvers keep an answer for each network.",
        };
        /// Which clients are near which endpoints.
        localities: Vec<ClientLocality> = Key {
            name: "localities",
            kind: Kind::Tables(&LOCALITY_OF_CLIENTS),
            absent: Absent::Means("none"),
            help: "Which clients are near which endpoints, for records with `policy = \"locality\"`.",
            why: "",
        };
        /// Responses a second to one network, for each worker; 0 = no limit.
        responses_per_subnet: u32 = Key {
            name: "responses_per_subnet",
            kind: Kind::Int { min: 0, max: 100_000_000 },
            absent: Absent::Default("1000"),
            help: "Responses a second over UDP to one /24 (of IPv6 one /56) without a valid DNS cookie, for each worker. \
                   Of the queries beyond that, every second one gets an empty response that asks the resolver to use \
                   TCP. 0 = no limit.",
            why: "Queries with a forged source then send little to the victim. A resolver that asks for more is a large \
                  one, which sends cookies or asks again.",
        };
        /// The share of queries that are logged, 0 to 1.
        query_log: f64 = Key {
            name: "query_log",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0"),
            help: "The share of queries that are logged, in the log of the process.",
            why: "A line costs more than an answer.",
        };
    }
}

table! {
    static RECORD = "records.NAME of zone", "A name, and the pool whose endpoints are its addresses.";

    /// One name of a zone.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Record {
        /// Its part before the name of the zone; empty for the name of the zone itself.
        name: Arc<str>, rows [], read |_| "".into(), write |_, _, _| ();
        /// The pool whose endpoints are named. It exists.
        pool: Arc<str> = Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Required(r#""web""#),
            help: "The pool whose endpoints it names.",
            why: "",
        };
        /// The most that one answer names.
        answers: usize = Key {
            name: "answers",
            kind: Kind::Int { min: 1, max: 64 },
            absent: Absent::Default("4"),
            help: "The most endpoints that an answer names, in the order in which to use them; fewer if not as many are \
                   healthy.",
            why: "Clients go on to the next address when one is dead, and an answer of this length fits everywhere.",
        };
        /// Seconds that an answer may be kept; `None` = as the zone says.
        ttl: Option<u32> = Key {
            name: "ttl",
            kind: Kind::Duration { min: 0, max: H, off: false },
            absent: Absent::Means("that of the zone"),
            help: "How long resolvers may keep it; whole seconds.",
            why: "",
        }, read seconds, write write_ttl_of;
        /// Whether endpoints near the client go before all others.
        prefers_near: bool = Key {
            name: "policy",
            kind: Kind::Choice(&["any", "locality"]),
            absent: Absent::Default("\"any\""),
            help: "`locality`: only endpoints whose `zone` the `localities` give for the client, as long as one of them \
                   is healthy.",
            why: "",
        }, read prefers_near, write write_policy;
        /// What is said of endpoints.
        kind: RecordKind = Key {
            name: "type",
            kind: Kind::Choice(RecordKind::WORDS),
            absent: Absent::Default("\"address\""),
            help: "`address`: A and AAAA. `srv`: SRV, whose targets are names in the zone that are made of the addresses of \
                   endpoints, so that ports and weights are told too.",
            why: "",
        }, read kind;
    }
}

/// A record whose name is that of the zone: all but its `type`.
static APEX: Table = Table {
    path: "apex of zone",
    help: "The pool whose endpoints are the addresses of the name of the zone.",
    inherits: false,
    keys: RECORD.keys.split_at(4).0,
};

words! {
    /// What an answer says of endpoints.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RecordKind {
        /// Their addresses: A and AAAA.
        Address = "address",
        /// Their ports, and names for their addresses: SRV.
        Service = "srv",
    }
}

table! {
    static NAME_SERVER = "ns of zone",
        "A name server of the zone.";

    /// A name server.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NameServer {
        /// Its whole name.
        name: Arc<str> = Key {
            name: "name",
            kind: Kind::Text(Form::Domain),
            absent: Absent::Required(r#""ns1.gslb.example.com""#),
            help: "Its whole name.",
            why: "",
        };
        /// Its addresses; there if the name is in the zone.
        addresses: Vec<IpAddr> = Key {
            name: "addresses",
            kind: Kind::List(&Kind::Text(Form::Ip)),
            absent: Absent::Means("none: the name is outside the zone"),
            help: "Its addresses, if the name is in the zone.",
            why: "",
        };
    }
}

table! {
    static LOCALITY_OF_CLIENTS = "localities of zone",
        "Clients that are near the endpoints of a zone.";

    /// Clients that are near the endpoints of a zone.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClientLocality {
        /// The zone of the endpoints.
        zone: Arc<str> = Key {
            name: "zone",
            kind: Kind::Text(Form::Label),
            absent: Absent::Required(r#""a""#),
            help: "The `zone` of these endpoints.",
            why: "",
        };
        /// Where the clients are.
        clients: Vec<Cidr> = Key {
            name: "clients",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Required(r#"["10.0.0.0/8"]"#),
            help: "Networks of the clients. If several contain a client's address, the longest prefix counts.",
            why: "",
        };
    }
}

/// Whole seconds, as DNS has them.
fn seconds(table: &Section) -> Option<u32> {
    table.duration("ttl").map(|ttl: Duration| ttl.as_secs() as u32)
}

fn written(seconds: u32) -> String {
    quote(&duration_text(Duration::from_secs(seconds.into())))
}

fn write_ttl(set: &Zone, base: &Zone, lines: &mut Lines) {
    if set.ttl != base.ttl {
        lines.add("ttl", written(set.ttl));
    }
}

fn write_ttl_of(set: &Record, _: &Record, lines: &mut Lines) {
    if let Some(ttl) = set.ttl {
        lines.add("ttl", written(ttl));
    }
}

fn prefers_near(record: &Section) -> bool {
    record.word("policy") == "locality"
}

fn write_policy(set: &Record, _: &Record, lines: &mut Lines) {
    if set.prefers_near {
        lines.add("policy", quote("locality"));
    }
}

/// That of the name of the zone itself has no key for it.
fn kind(record: &Section) -> RecordKind {
    if record.knows("type") { RecordKind::read(record.value("type")) } else { RecordKind::Address }
}

fn records(zone: &Section) -> Vec<Record> {
    let apex = zone.has("apex").then(|| Record::of(&zone.section("apex")));
    let named = zone
        .named("records")
        .iter()
        .map(|named| Record { name: named.name.to_ascii_lowercase().into(), ..Record::of(&named.section) });
    apex.into_iter().chain(named).collect()
}

fn write_records(set: &Zone, _: &Zone, lines: &mut Lines) {
    let (unset, mut named) = (Record::unset(), Lines::default());
    for record in &set.records {
        let of = record.lines(&unset).braces();
        match &*record.name {
            "" => lines.add("apex", of),
            name => named.add(&quote(name), of),
        }
    }
    if !named.is_empty() {
        lines.add("records", named.braces());
    }
}

/// Reports a zone that is missing or in the wrong place, names that are none, and servers that could not be found.
pub(super) fn check(listener: &Section, mode: Mode, findings: &mut Findings) {
    let set = listener.set("zone");
    if let Some(alien) = listener.set("redirect_https").filter(|_| mode == Mode::Dns) {
        let message = "\"redirect_https\" has no meaning with mode = \"dns\"";
        listener.contradiction(alien.span, message, "mode", findings).help("leave it out");
    }
    if mode == Mode::Dns && set.is_none() {
        findings
            .add(Code::Missing, listener.span, "a listener with mode = \"dns\" answers for a zone, but has none")
            .help("add zone = { name = \"gslb.example.com\", records = { www = { pool = \"web\" } } }");
    }
    let Some(span) = set.map(|set| set.span) else { return };
    if mode != Mode::Dns {
        let message = format!("a zone is answered by DNS, but the listener has mode = \"{}\"", mode.name());
        listener.contradiction(span, message, "mode", findings).help("set mode = \"dns\", or leave \"zone\" out");
        return;
    }
    if let Some(pool) = listener.set("pool") {
        let message = "a listener with mode = \"dns\" has no pool of its own: each record names one";
        listener.contradiction(pool.span, message, "zone", findings).help("leave \"pool\" out");
    }
    let zone = listener.section("zone");
    let name = zone.text("name").unwrap_or_default();
    check_records(&zone, &name, findings);
    if !zone.has("apex") && zone.named("records").is_empty() && !zone.is_broken() {
        findings
            .add(Code::NothingToDo, span, "the zone has no records: every answer would be negative")
            .help("add records = { www = { pool = \"web\" } }");
    }
    zone.sections("ns").iter().for_each(|server| check_name_server(server, &name, findings));
}

fn check_records(zone: &Section, zone_name: &str, findings: &mut Findings) {
    let mut seen = HashSet::new();
    for named in zone.named("records") {
        let name = named.name.to_ascii_lowercase();
        if !crate::form::is_domain(&name) || name.len() + zone_name.len() > 252 {
            findings
                .add(Code::BadName, named.span, format!("\"{}\" is no name in the zone", named.name))
                .help("labels are 1 to 63 letters, digits, - and _, parted by dots");
        }
        if !seen.insert(name.clone()) {
            findings
                .add(Code::SameName, named.span, format!("two records are named \"{name}\""))
                .help("give each a name of its own; case makes no difference");
        }
    }
}

fn check_name_server(server: &Section, zone: &str, findings: &mut Findings) {
    let NameServer { name, addresses } = NameServer::of(server);
    let inside = *name == *zone || name.strip_suffix(zone).is_some_and(|rest| rest.ends_with('.'));
    if inside && addresses.is_empty() && !server.is_broken() {
        findings
            .add(Code::Missing, server.span, format!("name server \"{name}\" is in its zone, but has no addresses"))
            .help("add addresses = [\"192.0.2.1\"]: no other server knows them");
    }
}

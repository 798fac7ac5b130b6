//! `zone` of a DNS listener: names, policies and limits of the answers. See [`Zone`].

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
        "Names that a listener with `mode = \"dns\"` resolves to the addresses of healthy endpoints. Resolvers cache \
        an answer for its TTL, and one answer may direct thousands of clients. So a zone balances answers, not \
        requests.";

    /// `zone` of a DNS listener. Names are lower case, without a final dot.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Zone {
        /// Name of the zone, such as `gslb.example.com`.
        name: Arc<str> = Key {
            name: "name",
            kind: Kind::Text(Form::Domain),
            absent: Absent::Required(r#""gslb.example.com""#),
            help: "Name of the zone. Queries for names outside it are refused.",
            why: "",
        };
        /// Default TTL of answers, seconds.
        ttl: u32 = Key {
            name: "ttl",
            kind: Kind::Duration { min: 0, max: H, off: false },
            absent: Absent::Default("\"5s\""),
            help: "Time for which resolvers may cache an answer, in whole seconds. Negative answers are cached equally \
                long, but at most 5 s.",
            why: "A failed endpoint gets new clients for that long. Many resolvers raise shorter TTLs to a few \
                seconds.",
        }, read |zone| seconds(zone).unwrap_or_default(), write write_ttl;
        /// Records in the order of the file, with `apex` first if set. Names are unique.
        records: Vec<Record>,
            rows [
            Key {
                name: "records",
                kind: Kind::Named(&RECORD),
                absent: Absent::Means("`apex` alone"),
                help: "Names in the zone, without the name of the zone: `www`, or `\"_http._tcp\"`.",
                why: "",
            },
            Key {
                name: "apex",
                kind: Kind::Table(&APEX),
                absent: Absent::Means("no address"),
                help: "Record of the zone's own name.",
                why: "",
            },
        ],
            read records,
            write write_records;
        /// Name servers of the zone; empty = a server called `ns1` in the zone.
        name_servers: Vec<NameServer> = Key {
            name: "ns",
            kind: Kind::Tables(&NAME_SERVER),
            absent: Absent::Means("`ns1` in the zone, without addresses"),
            help: "Name servers of the zone, as in the delegation from the parent zone.",
            why: "",
        };
        /// Administrator's mail address in the form of a name; `None` = `hostmaster` in the zone.
        contact: Option<Arc<str>> = Key {
            name: "contact",
            kind: Kind::Text(Form::Domain),
            absent: Absent::Means("`hostmaster` in the zone"),
            help: "Mail address of the administrator, with a dot instead of the `@`.",
            why: "",
        };
        /// Serial of the SOA record.
        serial: u32 = Key {
            name: "serial",
            kind: Kind::Int { min: 0, max: u32::MAX as u64 },
            absent: Absent::Default("1"),
            help: "Serial of the SOA record. Nothing depends on the serial, since there are no zone transfers.",
            why: "",
        };
        /// True if answers name all endpoints when none is healthy.
        fail_open: bool = Key {
            name: "fail_open",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Returns all endpoints when none is healthy. `false`: returns SERVFAIL, so that resolvers ask \
                another server or keep their cached answer.",
            why: "If all checks fail at once, a fault in the checks is more likely than a fault in every endpoint.",
        };
        /// True if the client subnet sent by resolvers (RFC 7871) is used.
        client_subnet: bool = Key {
            name: "client_subnet",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Uses the client's network, if the resolver sends it (RFC 7871), instead of the resolver's address.",
            why: "A query can claim any network, and resolvers cache one answer per network.",
        };
        /// Networks of clients and the endpoint zones near them.
        localities: Vec<ClientLocality> = Key {
            name: "localities",
            kind: Kind::Tables(&LOCALITY_OF_CLIENTS),
            absent: Absent::Means("none"),
            help: "Networks of clients and the zones of endpoints near them, for records with `policy = \
                \"locality\"`.",
            why: "",
        };
        /// Responses per second to a network, per worker; 0 = no limit.
        responses_per_subnet: u32 = Key {
            name: "responses_per_subnet",
            kind: Kind::Int { min: 0, max: 100_000_000 },
            absent: Absent::Default("1000"),
            help: "UDP responses per second to one /24 (IPv6: /56) without a valid DNS cookie, per worker. Over the \
                limit, every second query gets an empty truncated response, so that the resolver retries over TCP; the \
                other queries are dropped. 0 = no limit.",
            why: "Limits the traffic that queries with a forged source direct at a victim. Only large resolvers send \
                more, and they use cookies or retry.",
        };
        /// Share of queries to log, 0 to 1.
        query_log: f64 = Key {
            name: "query_log",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            absent: Absent::Default("0"),
            help: "Share of queries to write to the process log.",
            why: "A log line costs more than an answer.",
        };
    }
}

table! {
    static RECORD = "records.NAME of zone", "A name in the zone, and the pool that it resolves to.";

    /// Name in the zone, with the pool that it resolves to.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Record {
        /// Name relative to the zone; empty for the zone's own name.
        name: Arc<str>, rows [], read |_| "".into(), write |_, _, _| ();
        /// Pool whose endpoints are the answer. Exists in the plan.
        pool: Arc<str> = Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Required(r#""web""#),
            help: "Pool that the name resolves to.",
            why: "",
        };
        /// Most endpoints in an answer.
        answers: usize = Key {
            name: "answers",
            kind: Kind::Int { min: 1, max: 64 },
            absent: Absent::Default("4"),
            help: "Maximum endpoints in one answer, in the order of use; fewer if fewer are healthy.",
            why: "Clients try the next address when an address is dead, and an answer of this size fits into every \
                datagram.",
        };
        /// TTL in seconds; `None` = the zone's.
        ttl: Option<u32> = Key {
            name: "ttl",
            kind: Kind::Duration { min: 0, max: H, off: false },
            absent: Absent::Means("the TTL of the zone"),
            help: "Time for which resolvers may cache the answer, in whole seconds.",
            why: "",
        }, read seconds, write write_ttl_of;
        /// True if endpoints near the client are preferred.
        prefers_near: bool = Key {
            name: "policy",
            kind: Kind::Choice(&["any", "locality"]),
            absent: Absent::Default("\"any\""),
            help: "`any`: all endpoints. `locality`: endpoints in the `zone` that `localities` gives for the client, \
                as long as any of them is healthy.",
            why: "",
        }, read prefers_near, write write_policy;
        /// Parameters of HTTPS records; `None` = there are no HTTPS records.
        https: Option<HttpsRecord> = Key {
            name: "https",
            kind: Kind::TableOrBool(&HTTPS),
            absent: Absent::Means("no HTTPS records"),
            help: "HTTPS records (RFC 9460) of the name, which tell browsers to begin with HTTP/3 before their first \
                connection. They also list the addresses of the answer. `true`: with the defaults of the table. Only for \
                records of the type `address`.",
            why: "The endpoints have to serve HTTPS, and HTTP/3 if `alpn` names it.",
        };
        /// Type of the records in answers.
        kind: RecordKind = Key {
            name: "type",
            kind: Kind::Choice(RecordKind::WORDS),
            absent: Absent::Default("\"address\""),
            help: "`address`: A and AAAA records. `srv`: SRV records, which also give port and weight; their targets \
                are names in the zone derived from the addresses of the endpoints.",
            why: "",
        }, read kind;
    }
}

table! {
    static HTTPS = "https of records.NAME of zone",
        "HTTPS records of a name (RFC 9460).";

    /// Parameters of HTTPS records.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HttpsRecord {
        /// Protocols in order of preference.
        alpn: Vec<HttpsProtocol> = Key {
            name: "alpn",
            kind: Kind::List(&Kind::Choice(HttpsProtocol::WORDS)),
            absent: Absent::Default("[\"h3\", \"h2\"]"),
            help: "Protocols of the endpoints over TLS and QUIC, in order of preference. HTTP/1.1 is always among them.",
            why: "Clients try HTTP/3 only if a record or an earlier response names it.",
        };
        /// Port of the service; `None` = 443.
        port: Option<u16> = Key {
            name: "port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Means("the port of the URL"),
            help: "Port of the service, over TCP and UDP.",
            why: "",
        };
    }
}

words! {
    /// Application protocol in an HTTPS record.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HttpsProtocol {
        Http3 = "h3",
        Http2 = "h2",
    }
}

impl HttpsProtocol {
    /// Name of the protocol in TLS (ALPN).
    pub fn name(self) -> &'static str {
        match self {
            HttpsProtocol::Http3 => "h3",
            HttpsProtocol::Http2 => "h2",
        }
    }
}

/// The record of the zone's own name: the keys of [`RECORD`] without `type`.
static APEX: Table = Table {
    path: "apex of zone",
    help: "The pool that the zone's own name resolves to.",
    inherits: false,
    keys: RECORD.keys.split_at(5).0,
};

words! {
    /// Type of the records in an answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RecordKind {
        /// Addresses of endpoints: A and AAAA.
        Address = "address",
        /// Ports and weights of endpoints, with names for their addresses: SRV.
        Service = "srv",
    }
}

table! {
    static NAME_SERVER = "ns of zone",
        "A name server of the zone.";

    /// A name server of the zone (NS record).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NameServer {
        name: Arc<str> = Key {
            name: "name",
            kind: Kind::Text(Form::Domain),
            absent: Absent::Required(r#""ns1.gslb.example.com""#),
            help: "Fully qualified name.",
            why: "",
        };
        /// Addresses (glue); set if and only if the name is in the zone.
        addresses: Vec<IpAddr> = Key {
            name: "addresses",
            kind: Kind::List(&Kind::Text(Form::Ip)),
            absent: Absent::Means("none, for names outside the zone"),
            help: "Addresses of the name server. Required if the name is in the zone.",
            why: "",
        };
    }
}

table! {
    static LOCALITY_OF_CLIENTS = "localities of zone",
        "Networks of clients near one zone of endpoints.";

    /// Networks of clients near a zone of endpoints.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClientLocality {
        /// `zone` of the endpoints.
        zone: Arc<str> = Key {
            name: "zone",
            kind: Kind::Text(Form::Label),
            absent: Absent::Required(r#""a""#),
            help: "`zone` of the endpoints near these clients.",
            why: "",
        };
        /// Networks of the clients; the longest prefix wins.
        clients: Vec<Cidr> = Key {
            name: "clients",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Required(r#"["10.0.0.0/8"]"#),
            help: "Networks of the clients. If several contain an address, the longest prefix wins.",
            why: "",
        };
    }
}

/// The key `ttl` in whole seconds, the unit of DNS.
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

/// The type of a record; `apex` has no such key and is always [`RecordKind::Address`].
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
        let of = record.lines(unset).braces();
        match &*record.name {
            "" => lines.add("apex", of),
            name => named.add(&quote(name), of),
        }
    }
    if !named.is_empty() {
        lines.add("records", named.braces());
    }
}

/// Reports a missing or misplaced zone, invalid names, and name servers that resolvers could not find.
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
                .help("labels are 1 to 63 letters, digits, - and _, separated by dots");
        }
        if let (Some(https), true) = (named.section.set("https"), kind(&named.section) == RecordKind::Service) {
            let message = "\"https\" is for addresses, but the record has type = \"srv\"";
            named.section.contradiction(https.span, message, "type", findings).help("leave one of them out");
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

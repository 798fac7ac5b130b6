//! `discover.dns` of a pool: endpoints from records of a name. See [`Dns`].

use super::declare::Settings;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::sections::resolver::Resolver;
use crate::table::{Absent, Field, H, Key, Kind, Lines, MS, Section, table, words};
use std::time::Duration;

table! {
    static DNS = "discover.dns of [pool.NAME]",
        "DNS records of a name, queried again when their TTL expires.";

    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Dns {
        /// Name to query: lower case, without a final dot.
        name: String = Key {
            name: "name",
            kind: Kind::Text(Form::DnsName),
            absent: Absent::Required(r#""web.internal""#),
            help: "Name to query. It is taken as complete: no search domain is added unless `search` of `[resolver]` \
                is on.",
            why: "",
        };
        records: Records = Key {
            name: "type",
            kind: Kind::Choice(Records::WORDS.split_at(1).1),
            absent: Absent::Means("`A`, and `AAAA` if there are none"),
            help: "Record type to query. `SRV` records also give port, priority and weight of each endpoint.",
            why: "",
        };
        /// Port of the endpoints; 0 if and only if SRV records give it.
        port: u16 = Key {
            name: "port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Means("from `SRV` records"),
            help: "Port of the endpoints. Required unless `type` is `SRV`.",
            why: "",
        };
        /// Shortest time that an answer is used, whatever its TTL.
        min_ttl: Duration = Key {
            name: "min_ttl",
            kind: Kind::Duration { min: 100 * MS, max: H, off: false },
            absent: Absent::Means("from `[resolver]`"),
            help: "Shortest time that an answer is used, whatever its TTL.",
            why: "",
        }, write write_min_ttl;
    }
}

impl Settings for Dns {
    const KIND: Kind = Kind::Table(&DNS);

    fn shown(&self) -> String {
        match self.records {
            Records::Srv => self.name.clone(),
            _ => format!("{}:{}", self.name, self.port),
        }
    }

    fn start_from(&mut self, resolver: &Resolver, discover: &Section) {
        if !discover.section("dns").has("min_ttl") {
            self.min_ttl = resolver.min_ttl;
        }
    }

    fn check(discover: &Section, findings: &mut Findings) {
        check(&discover.section("dns"), findings);
    }
}

words! {
    /// Record types. [`Records::Addresses`] is the default and has no word.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Records {
        /// `A`; `AAAA` if there are no `A` records.
        Addresses = "",
        /// `A` only.
        A = "A",
        /// `AAAA` only.
        Aaaa = "AAAA",
        /// `SRV`, with the addresses of the targets.
        Srv = "SRV",
    }
}

/// Writes `min_ttl` always, because its default comes from another table.
fn write_min_ttl(set: &Dns, _: &Dns, lines: &mut Lines) {
    lines.add("min_ttl", set.min_ttl.write(&Duration::ZERO, &Kind::Bool));
}

impl Dns {
    /// The addresses of a name at a port, with the default `min_ttl` of `[resolver]`.
    pub fn addresses(name: &str, port: u16) -> Dns {
        Dns { name: name.into(), records: Records::Addresses, port, min_ttl: Resolver::default().min_ttl }
    }
}

/// Reports records without a port, and a port that records say themselves.
fn check(section: &Section, findings: &mut Findings) {
    match (Records::read(section.value("type")), section.set("port")) {
        (Records::Srv, Some(port)) => {
            section
                .contradiction(port.span, "\"port\" is what SRV records say themselves", "type", findings)
                .help("leave \"port\" out, or ask for another type");
        }
        (Records::Srv, None) | (_, Some(_)) => {}
        (_, None) if section.is_broken() => {}
        (_, None) => {
            findings
                .add(
                    Code::Missing,
                    section.span,
                    "\"dns\" has no \"port\", and addresses do not say where endpoints listen",
                )
                .help("add port = 8080, or type = \"SRV\" for records that have it");
        }
    }
}

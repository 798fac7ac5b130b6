//! `discover` of a pool: endpoints that come from DNS or from a file that others write. See [`Discover`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::sections::resolver::Resolver;
use crate::table::{Absent, Declared, Field, H, Key, Kind, Lines, MS, Section, quote, table, words};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

table! {
    pub(crate) static DISCOVER = "discover of [pool.NAME]",
        "Endpoints found while evenkeel runs, added to those of `endpoints`. Set exactly one of `dns` and `file`. \
        While the source fails, the last list it gave stays in use.";

    /// `discover` of a pool: endpoints in addition to those that the configuration lists.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Discover {
        source: Source, rows [
            Key {
                name: "dns",
                kind: Kind::Table(&DNS),
                absent: Absent::Means("no DNS source"),
                help: "DNS records of a name.",
                why: "",
            },
            Key {
                name: "file",
                kind: Kind::Text(Form::File),
                absent: Absent::Means("no file source"),
                help: "File with `endpoints` as in a pool: JSON if its name ends in `.json`, TOML otherwise. \
                    Addresses only, no names. Checked for changes twice a second: write it in place, rename over it, \
                    or point a symbolic link at a new one.",
                why: "",
            },
        ], read source, write write_source;
        /// True if an empty list empties the pool; if false, the last list with endpoints stays in use.
        allow_empty: bool = Key {
            name: "allow_empty",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Lets an empty list, or a name that does not exist, empty the pool. `false`: the last list with \
                endpoints stays in use.",
            why: "An empty list is more often a mistake of its source than intended.",
        };
    }
}

table! {
    pub(crate) static DNS = "discover.dns of [pool.NAME]",
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

/// Source of discovered endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Records of a DNS name, followed by TTL.
    Dns(Dns),
    /// A file that lists endpoints.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Dns(Dns { name, records: Records::Srv, .. }) => write!(f, "dns:{name}"),
            Source::Dns(Dns { name, port, .. }) => write!(f, "dns:{name}:{port}"),
            Source::File(path) => write!(f, "file:{}", path.display()),
        }
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

/// Reads the source. [`check`] reports a table with none or two.
fn source(discover: &Section) -> Source {
    match discover.text("file") {
        Some(path) => Source::File(PathBuf::from(path)),
        None => Source::Dns(Dns::of(&discover.section("dns"))),
    }
}

fn write_source(set: &Discover, _: &Discover, lines: &mut Lines) {
    match &set.source {
        Source::File(path) => lines.add("file", quote(&path.display().to_string())),
        Source::Dns(dns) => lines.add("dns", dns.lines(&Dns::unset()).braces()),
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

impl Discover {
    /// Fills in from `[resolver]` what the table does not set.
    pub(super) fn start_from(&mut self, resolver: &Resolver, pool: &Section) {
        if let Source::Dns(dns) = &mut self.source
            && !pool.section("discover").section("dns").has("min_ttl")
        {
            dns.min_ttl = resolver.min_ttl;
        }
    }
}

/// Reports a table with no source or two, and records without a port.
pub(super) fn check(pool: &Section, findings: &mut Findings) {
    let Some(set) = pool.set("discover") else { return };
    let section = pool.section("discover");
    match (section.set("dns"), section.set("file")) {
        (Some(dns), Some(_)) => {
            section
                .contradiction(dns.span, "a pool has one source: \"dns\" or \"file\"", "file", findings)
                .help("keep one of the two; another pool can have the other");
        }
        (Some(_), None) if !section.has_read("dns") => {}
        (Some(_), None) => check_dns(&section.section("dns"), findings),
        (None, None) if !set.is_broken() => {
            findings
                .add(Code::Missing, set.span, "\"discover\" says nowhere to look")
                .help("add dns = { name = \"web.internal\", port = 8080 }, or file = \"PATH\"");
        }
        (None, _) => {}
    }
}

fn check_dns(section: &Section, findings: &mut Findings) {
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

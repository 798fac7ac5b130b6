//! Where do endpoints come from that the file does not list? [`Discover`], `discover` of a pool.

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
        "Finds endpoints while evenkeel runs, beside those that `endpoints` lists: `dns` or `file`. While a source \
        fails, the last list that it gave goes on.";

    /// `discover` of a pool: endpoints beside those that the file lists.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Discover {
        /// Where they are looked for.
        source: Source, rows [
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
        ], read source, write write_source;
        /// Whether a list without endpoints counts; if not, the last one that had some is kept.
        allow_empty: bool = Key {
            name: "allow_empty",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Whether a list without endpoints, or a name that does not exist, empties the pool. If not, the last \
                   list that had some goes on.",
            why: "An empty list is more often a mistake on the other side than meant.",
        };
    }
}

table! {
    pub(crate) static DNS = "discover.dns of [pool.NAME]",
        "The records of a name, asked for again when their time to live is over.";

    /// Which records of which name.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Dns {
        /// Lower case, without a final dot.
        name: String = Key {
            name: "name",
            kind: Kind::Text(Form::DnsName),
            absent: Absent::Required(r#""web.internal""#),
            help: "The name, as a whole: no domain is added unless `search` of `[resolver]` says so.",
            why: "",
        };
        /// The records.
        records: Records = Key {
            name: "type",
            kind: Kind::Choice(Records::WORDS.split_at(1).1),
            absent: Absent::Means("`A`, and `AAAA` if there are none"),
            help: "Which records. `SRV` says port, priority and weight of each endpoint too.",
            why: "",
        };
        /// Where endpoints listen; 0 if, and only if, the records say it themselves.
        port: u16 = Key {
            name: "port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Means("what `SRV` records say"),
            help: "Where the endpoints listen. Needed unless `type` is `SRV`.",
            why: "",
        };
        /// An answer is used for at least so long, whatever it says.
        min_ttl: Duration = Key {
            name: "min_ttl",
            kind: Kind::Duration { min: 100 * MS, max: H, off: false },
            absent: Absent::Means("that of `[resolver]`"),
            help: "An answer is used for at least so long, whatever its time to live.",
            why: "",
        }, write write_min_ttl;
    }
}

/// Where endpoints are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The records of a name.
    Dns(Dns),
    /// A file that lists them.
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
    /// Kinds of records. No word stands for the first one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Records {
        /// `A`, and `AAAA` if there are none.
        Addresses = "",
        /// `A`.
        A = "A",
        /// `AAAA`.
        Aaaa = "AAAA",
        /// `SRV`, and the addresses of their targets.
        Srv = "SRV",
    }
}

/// That there is exactly one of them is checked apart.
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

/// Its default is that of another table.
fn write_min_ttl(set: &Dns, _: &Dns, lines: &mut Lines) {
    lines.add("min_ttl", set.min_ttl.write(&Duration::ZERO, &Kind::Bool));
}

impl Dns {
    /// The addresses of a name, at a port; they are used for as long as names of endpoints are.
    pub fn addresses(name: &str, port: u16) -> Dns {
        Dns { name: name.into(), records: Records::Addresses, port, min_ttl: Resolver::default().min_ttl }
    }
}

impl Discover {
    /// Takes from `[resolver]` what `discover` of `pool` does not set.
    pub(super) fn start_from(&mut self, resolver: &Resolver, pool: &Section) {
        if let Source::Dns(dns) = &mut self.source
            && !pool.section("discover").section("dns").has("min_ttl")
        {
            dns.min_ttl = resolver.min_ttl;
        }
    }
}

/// Reports a table that has no source, or two, and records without a port.
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

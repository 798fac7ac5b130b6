//! `[map.NAME]`: texts by a part of the request. See [`Map`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Form, Template, TemplatePart, Variable};
use crate::maps::{MapMatch, MapRow, MapTable};
use crate::table::{Absent, Declared, Field, Key, Kind, Lines, Named, Section, Words, table};
use std::path::PathBuf;
use std::sync::Arc;

table! {
    pub(crate) static MAP = "[map.NAME]",
        "Looks up a text by a part of the request. `{map.NAME}` is the result in header values, rewrites and redirects, \
        `match = { map = { NAME = \"TEXT\" } }` compares it, `pool = \"{map.NAME}\"` chooses the pool, and limits and \
        caches can have it in their keys. The rows are in the file or in `rows`. All workers share them.";

    /// `[map.NAME]`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Map {
        name: Arc<str>, rows [], read |_| Arc::default(), write |_, _, _| ();
        /// Value of a request that rows are compared with.
        from: Template = Key {
            name: "from",
            kind: Kind::Text(Form::RequestValue),
            absent: Absent::Required("\"{header.X-Tenant}\""),
            help: "Text to look up, with variables: `\"{host}\"`, `\"{header.X-Tenant}\"`, `\"{cookie.plan}\"`, \
                `\"{client.ip}\"`, `\"{claim.sub}\"`, `\"{map.OTHER}\"`.",
            why: "",
        };
        /// Comparison of the input with the keys of rows.
        of: MapMatch = Key {
            name: "match",
            kind: Kind::Choice(MapMatch::WORDS),
            absent: Absent::Default("\"exact\""),
            help: "Keys of the rows: `exact` text; `host`, also `*.example.com` (the longest wins); `prefix` or \
                `suffix` (the longest wins); `regex` for the whole text (the first row that matches wins); `network`, \
                an address or network (the longest wins); `range`, a number or `8000-8999`.",
            why: "",
        };
        /// Rows of the configuration, in their order; empty if there is a file.
        rows: Vec<(Arc<str>, Arc<str>)> = Key {
            name: "rows",
            kind: Kind::Map { keys: Form::Content, of: &Kind::Text(Form::Content) },
            absent: Absent::Means("from `file`"),
            help: "Value of each key: `{ acme = \"gold\", globex = \"silver\" }`.",
            why: "",
        };
        /// File whose lines are rows; `None` = the rows are in the configuration.
        file: Option<PathBuf> = Key {
            name: "file",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("from `rows`"),
            help: "File with a row on each line: a key, white space and a value, as in map files of HAProxy. In a file \
                named `.csv` a comma separates them, and either may be in double quotes. Empty lines and lines that \
                begin with `#` are ignored. At most 256 MiB. Read at startup, at each reload and, with `runtime.watch`, \
                when it changes; if a row is wrong, the previous rows stay.",
            why: "",
        };
        /// Value for everything else; `None` = empty.
        default: Option<Template> = Key {
            name: "default",
            kind: Kind::Text(Form::RequestValue),
            absent: Absent::Means("empty"),
            help: "Value if no row matches. May have variables, such as `\"{map.OTHER}\"` to try another map next.",
            why: "",
        };
        /// True if upper and lower case are the same.
        ignore_case: bool = Key {
            name: "ignore_case",
            kind: Kind::Bool,
            absent: Absent::Means("`true` if `from` is `{host}` or `{tls.server_name}`, or if `match` is `host`; else `false`"),
            help: "Ignores the case of ASCII letters.",
            why: "Hosts have no case, and most other values do.",
        }, read ignore_case, write write_case;
    }
}

/// True if the input is a host, which has no case.
fn is_host(from: &Template, of: MapMatch) -> bool {
    let host =
        |part: &TemplatePart| matches!(part, TemplatePart::Variable(Variable::Host | Variable::TlsServerName, _));
    of == MapMatch::Host || matches!(from.parts(), [part] if host(part))
}

fn ignore_case(map: &Section) -> bool {
    match map.has("ignore_case") {
        true => map.flag("ignore_case"),
        false => is_host(&Template::read(map.value("from")), MapMatch::read(map.value("match"))),
    }
}

fn write_case(set: &Map, _: &Map, lines: &mut Lines) {
    if set.ignore_case != is_host(&set.from, set.of) {
        lines.add("ignore_case", set.ignore_case.to_string());
    }
}

impl Map {
    /// Names of the maps that its input and its default use.
    pub fn maps(&self) -> impl Iterator<Item = &Arc<str>> {
        self.from.maps().chain(self.default.iter().flat_map(Template::maps))
    }

    /// Variables of its input and its default, other maps among them.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.from.variables().chain(self.default.iter().flat_map(Template::variables))
    }

    /// The rows of the configuration.
    pub fn own_rows(&self) -> Vec<MapRow<'_>> {
        let rows = self.rows.iter().zip(1..);
        rows.map(|((key, value), line)| MapRow { key: key.as_bytes().into(), value: value.as_bytes().into(), line })
            .collect()
    }
}

/// Reads all maps and reports the faults of each.
pub(crate) fn maps(root: &Section, regex_size: usize, findings: &mut Findings) -> Vec<Arc<Map>> {
    let one = |Named { name, section, .. }: &Named| {
        let map = Map { name: name.as_str().into(), ..Map::of(section) };
        check(section, &map, regex_size, findings);
        Arc::new(map)
    };
    root.named("map").iter().map(one).collect()
}

fn check(section: &Section, map: &Map, regex_size: usize, findings: &mut Findings) {
    match (section.set("rows"), section.set("file")) {
        (Some(_), Some(file)) => {
            let message = "\"rows\" and \"file\" exclude each other";
            section.contradiction(file.span, message, "rows", findings).help("keep one of the two");
        }
        (None, None) => {
            let message = format!("[map.{}] has neither \"rows\" nor \"file\"", map.name);
            let help = "add rows = { KEY = \"VALUE\" }, or file = \"/etc/evenkeel/NAME.map\"";
            findings.add(Code::Missing, section.span, message).help(help);
        }
        (Some(rows), None) if rows.is_broken() => {}
        _ => {
            let Err(faults) = MapTable::new(map.of, map.ignore_case, map.own_rows(), regex_size) else { return };
            for fault in faults.first {
                let span = section.map("rows").get(fault.line - 1).map_or(section.span_of("rows"), |row| row.span);
                findings.add(Code::BadRow, span, fault.message).help(fault.help);
            }
        }
    }
    if map.ignore_case && matches!(map.of, MapMatch::Network | MapMatch::Range) && section.has("ignore_case") {
        let message = format!("\"ignore_case\" has no meaning for match = \"{}\"", map.of.word());
        section.contradiction(section.span_of("ignore_case"), message, "match", findings).help("leave it out");
    }
}

//! Files that list endpoints, in TOML or JSON, read with the tables of a pool's `endpoints`.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings};
use crate::form::Formed;
use crate::load::env::expand;
use crate::plan::{Address, Endpoint};
use crate::secret::names::Vocabulary;
use crate::sections::pool::{ENDPOINT_LIST, check_endpoints, endpoints, written_endpoints};
use crate::source::{Sources, Span};
use crate::table::Reader;
use crate::tree::{self, Entry, Node, TableNode, Tree};
use serde_json::Value;

/// Reads a list: `endpoints = [...]` in TOML; if `name` ends in `.json`, `{ "endpoints": [...] }` or the
/// array alone. The list may be empty. Environment variables are not expanded.
///
/// # Errors
/// Every problem found. With JSON, places are the file as a whole.
pub fn endpoint_list(name: &str, text: &str) -> Result<Vec<Endpoint>, Vec<Diagnostic>> {
    let (mut sources, mut findings) = (Sources::default(), Findings::default());
    let file = sources.add(name, text.strip_prefix('\u{feff}').unwrap_or(text));
    let endpoints = read(name, file, &sources, &mut findings);
    match endpoints.filter(|_| !findings.has_errors()) {
        Some(endpoints) => Ok(endpoints),
        None => Err(findings.resolve(&sources, Vocabulary::default)),
    }
}

/// Writes endpoints of any kind for [`endpoints_from_toml`].
pub fn endpoints_to_toml(endpoints: &[Endpoint]) -> String {
    format!("endpoints = {}\n", written_endpoints(endpoints))
}

/// Reads the output of [`endpoints_to_toml`], without entries that cannot be read.
pub fn endpoints_from_toml(text: &str) -> Vec<Endpoint> {
    let (mut sources, mut findings) = (Sources::default(), Findings::default());
    let file = sources.add("", text);
    let (mut node, fault) = tree::parse(&sources, file, &mut findings);
    // Texts are written so that nothing in them is a reference.
    expand(&mut node, &|_| None, &mut findings);
    match (node, fault) {
        (Node { tree: Tree::Table(table), .. }, None) => endpoints(
            &Reader::new(&ENDPOINT_LIST, &mut findings, true).table(&ENDPOINT_LIST, &table, Span::whole(file)),
        ),
        _ => Vec::new(),
    }
}

fn read(name: &str, file: usize, sources: &Sources, findings: &mut Findings) -> Option<Vec<Endpoint>> {
    let whole = Span::whole(file);
    let table = match name.to_ascii_lowercase().ends_with(".json") {
        true => match serde_json::from_str(sources.text(file)) {
            Ok(list @ Value::Array(_)) => TableNode { entries: vec![entry("endpoints".into(), list, whole)] },
            Ok(Value::Object(map)) => table(map, whole),
            Ok(_) => {
                let message = "the list is neither an array nor an object";
                findings.add(Code::WrongType, whole, message).help("write { \"endpoints\": [\"10.0.0.1:8080\"] }");
                return None;
            }
            Err(error) => {
                findings.add(Code::Syntax, whole, format!("not JSON: {error}"));
                return None;
            }
        },
        false => match tree::parse(sources, file, findings) {
            (Node { tree: Tree::Table(table), .. }, None) => table,
            _ => return None,
        },
    };
    // In a pool an empty list is an error; here it may be the current state.
    let is_empty = |entry: &Entry| matches!(&entry.node.tree, Tree::List(nodes) if nodes.is_empty());
    if let [only] = &table.entries[..]
        && only.key == "endpoints"
        && is_empty(only)
    {
        return Some(Vec::new());
    }
    let section = Reader::new(&ENDPOINT_LIST, findings, true).table(&ENDPOINT_LIST, &table, whole);
    check_endpoints(&section, findings);
    for endpoint in section.sections("endpoints") {
        let (what, help) = match endpoint.formed("addr") {
            Some(Formed::Address(Address::Name { .. })) => {
                ("name", "write the IP address; names belong in \"endpoints\" of a pool, or in its discover.dns")
            }
            Some(Formed::Address(Address::Unix(_))) => {
                ("Unix socket", "write the IP address; sockets belong in \"endpoints\" of a pool")
            }
            _ => continue,
        };
        let addr = endpoint
            .formed("addr")
            .map(|addr| if let Formed::Address(addr) = addr { addr.to_string() } else { String::new() });
        let message = format!("{} is a {what}; a list holds addresses", addr.unwrap_or_default());
        findings.add(Code::BadAddress, endpoint.span_of("addr"), message).help(help);
    }
    Some(endpoints(&section))
}

fn table(map: serde_json::Map<String, Value>, span: Span) -> TableNode {
    TableNode { entries: map.into_iter().map(|(key, value)| entry(key, value, span)).collect() }
}

fn entry(key: String, value: Value, span: Span) -> Entry {
    Entry { key, key_span: span, node: node(value, span) }
}

/// Converts a JSON value. Depth is bounded by the JSON parser's limit of 128.
fn node(value: Value, span: Span) -> Node {
    let tree = match value {
        // TOML has no null; the date's text makes readers name it.
        Value::Null => Tree::Date("null".into()),
        Value::Bool(b) => Tree::Bool(b),
        Value::Number(n) => match n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from)) {
            Some(whole) => Tree::Int(Some(whole), n.to_string()),
            None => Tree::Number(n.as_f64().unwrap_or(f64::NAN), n.to_string()),
        },
        Value::String(text) => Tree::Text(text),
        Value::Array(values) => Tree::List(values.into_iter().map(|v| node(v, span)).collect()),
        Value::Object(map) => Tree::Table(table(map, span)),
    };
    Node { span, tree }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Resolve;

    fn said(name: &str, text: &str) -> String {
        match endpoint_list(name, text) {
            Ok(endpoints) => panic!("{text}: {endpoints:?}"),
            Err(diagnostics) => crate::render_text(&diagnostics, false),
        }
    }

    #[test]
    fn endpoints_are_read_as_they_were_written() {
        let text = r#"[{"addr": "10.0.0.1:80", "name": "${HOME}", "zone": "$${a}${b"}, "10.0.0.2:80"]"#;
        let endpoints = endpoint_list("a.json", text).expect("a good list");
        assert_eq!(endpoints_from_toml(&endpoints_to_toml(&endpoints)), endpoints);
    }

    #[test]
    fn toml_and_json_say_the_same() {
        let toml =
            "endpoints = ['10.0.0.1:80', { addr = '10.0.0.2:80', name = 'b', weight = 3, priority = 1, zone = 'z' }]";
        let json = r#"{"endpoints": ["10.0.0.1:80",
            {"addr": "10.0.0.2:80", "name": "b", "weight": 3, "priority": 1, "zone": "z"}]}"#;
        let array = r#"["10.0.0.1:80", {"addr": "10.0.0.2:80", "name": "b", "weight": 3, "priority": 1, "zone": "z"}]"#;
        let read = endpoint_list("a.toml", toml).expect("a good list");
        assert_eq!((read.len(), &*read[0].name, &*read[1].name, read[1].weight), (2, "10.0.0.1:80", "b", 3));
        assert_eq!(endpoint_list("a.json", json).as_ref(), Ok(&read));
        assert_eq!(endpoint_list("A.JSON", array), Ok(read));
    }

    #[test]
    fn endpoints_that_were_written_are_read_whatever_they_are() {
        let toml =
            "endpoints = [{ addr = '10.0.0.2:80', name = 'b', weight = 3, priority = 1, zone = 'z', drain = true }]";
        let mut all = endpoint_list("a.toml", toml).expect("a good list");
        let again = Endpoint { name: "again".into(), ..all[0].clone() };
        let host = Address::Name { host: "web.test".into(), port: 80 };
        let named = Endpoint { name: "\"n\"".into(), addr: host, resolve: Resolve::All, ..Endpoint::default() };
        all.extend([again, named]);
        assert_eq!(endpoints_from_toml(&endpoints_to_toml(&all)), all);
        assert_eq!(endpoints_from_toml(&endpoints_to_toml(&[])), []);
        assert_eq!(endpoints_from_toml("endpoints = ['10.0.0.1:80', 7]").len(), 1);
        assert_eq!(endpoints_from_toml("endpoints = ["), []);
    }

    #[test]
    fn an_empty_list_is_a_list_and_an_empty_file_is_none() {
        for (name, text) in [("a.toml", "endpoints = []"), ("a.json", "[]"), ("a.json", "{\"endpoints\":[]}")] {
            assert_eq!(endpoint_list(name, text), Ok(Vec::new()), "{text}");
        }
        for (name, text) in [("a.toml", ""), ("a.json", ""), ("a.json", "{}"), ("a.json", "null")] {
            assert!(!said(name, text).is_empty());
        }
    }

    #[test]
    fn what_is_wrong_is_said_all_at_once() {
        let text =
            "endpoints = [\n  'web:80',\n  { addr = '10.0.0.1:80', weight = -1 },\n  '10.0.0.2:80', '10.0.0.2:80',\n]";
        let said_of_toml = said("a.toml", text);
        for part in ["web:80 is a name", "a.toml:2:3", "\"weight\" is -1", "10.0.0.2:80 is in its pool twice"] {
            assert!(said_of_toml.contains(part), "{part}: {said_of_toml}");
        }
        let json = "[\"10.0.0.1:80\", {\"addr\": null}, 7, {\"addres\": \"10.0.0.3:80\"}]";
        let said_of_json = said("a.json", json);
        for part in ["null", "7", "\"addres\"", "--> a.json"] {
            assert!(said_of_json.contains(part), "{part}: {said_of_json}");
        }
        assert!(said("a.json", "[\"10.0.0.1:80\"").contains("not JSON"));
    }
}

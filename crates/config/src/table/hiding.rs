//! Values of a file that diagnostics must not show. They are marked in its tree before it is read, by the rows of its
//! tables, and messages and quoted lines ask for the marks.

use super::row::{Key, Kind, Table};
use super::secrets::{Exposure, exposure, is_guarded, is_secret};
use crate::diagnostic::Findings;
use crate::foreign;
use crate::secret::masked::{hash_in, holds_key};
use crate::secret::names::{is_named_file, is_secret_field};
use crate::tree::{Entry, Node, TableNode, Tree};
use std::net::{IpAddr, SocketAddr};

/// Hides values of secrets and of unknown keys, values given instead of a table with secrets, all private keys in
/// PEM, and all hashes of passwords.
pub(crate) fn hide_secrets(root: &'static Table, node: &Node, findings: &mut Findings) {
    if let Tree::Table(table) = &node.tree {
        Hiding { root, findings }.table(root, table);
    }
}

struct Hiding<'f> {
    root: &'static Table,
    findings: &'f mut Findings,
}

impl Hiding<'_> {
    fn table(&mut self, table: &'static Table, node: &TableNode) {
        for entry in &node.entries {
            match table.key(&entry.key) {
                Some(key) => self.row(table, key, &entry.node),
                None => self.unknown(table, entry, node),
            }
        }
    }

    fn row(&mut self, table: &Table, key: &Key, node: &Node) {
        match exposure(self.root, table, key) {
            Exposure::Nothing => self.all(node),
            Exposure::Paths => self.scalars(node, is_path),
            Exposure::Everything => self.value(&key.kind, node),
        }
    }

    /// A key of no table may be a misspelled key of a secret, unless it is a word of another proxy with another
    /// meaning.
    fn unknown(&mut self, table: &Table, entry: &Entry, beside: &TableNode) {
        let Entry { key, node, .. } = entry;
        let meant = foreign::key(table.path, key, &node.tree, beside);
        let may_be_secret = is_guarded(self.root, table) || is_named_file(key);
        match meant.filter(|_| !is_secret(self.root, key)) {
            Some(meant) if meant.is_value && !may_be_secret => match meant.key.and_then(|key| table.key(key)) {
                Some(key) => self.row(table, key, node),
                None => self.scalars(node, is_public),
            },
            Some(meant) if meant.is_repeated && may_be_secret => self.scalars(node, |of| is_path(of) || is_public(of)),
            Some(meant) if meant.is_repeated => self.named(node),
            _ => self.scalars(node, is_public),
        }
    }

    fn value(&mut self, kind: &Kind, node: &Node) {
        match (*kind, &node.tree) {
            (Kind::Named(table), Tree::Table(all)) => {
                all.entries.iter().for_each(|entry| self.value(&Kind::Table(table), &entry.node));
            }
            (Kind::Map { of, .. }, Tree::Table(all)) => {
                for Entry { key, node, .. } in &all.entries {
                    match is_secret(self.root, key) || is_secret_field(key) {
                        true => self.all(node),
                        false => self.value(of, node),
                    }
                }
            }
            (Kind::List(of) | Kind::OneOrList(of), Tree::List(nodes)) => {
                nodes.iter().for_each(|node| self.value(of, node))
            }
            (Kind::TablesBy { table, .. }, Tree::Table(all)) => {
                all.entries.iter().for_each(|entry| self.value(&Kind::Table(table), &entry.node));
            }
            (Kind::Tables(table) | Kind::TableOrTables(table) | Kind::TablesBy { table, .. }, Tree::List(nodes)) => {
                nodes.iter().for_each(|node| self.value(&Kind::Table(table), node));
            }
            (Kind::TableOrWord { word, .. }, Tree::Text(text)) if text == word => {}
            (kind, tree) => {
                let row = match kind {
                    Kind::TableOr { table, key } => table.key(key).map(|key| (table, key)),
                    _ => None,
                };
                match (kind.table(), row, tree) {
                    (Some(table), _, Tree::Table(below)) => self.table(table, below),
                    (_, Some((table, key)), _) => self.row(table, key, node),
                    (_, _, scalar) if is_public(scalar) => {}
                    (Some(table), ..) if table.walk().iter().any(|table| is_guarded(self.root, table)) => {
                        self.scalars(node, is_public);
                    }
                    _ => self.named(node),
                }
            }
        }
    }

    /// Hides values that are secrets by their name or form.
    fn named(&mut self, node: &Node) {
        match &node.tree {
            Tree::List(nodes) => nodes.iter().for_each(|node| self.named(node)),
            Tree::Table(table) => {
                for Entry { key, node, .. } in &table.entries {
                    if is_secret(self.root, key) { self.all(node) } else { self.named(node) }
                }
            }
            Tree::Text(text) if holds_key(text) || hash_in(text).is_some() => self.findings.hide(node.span),
            _ => {}
        }
    }

    /// Hides all scalars except those for which `is_shown` holds.
    fn scalars(&mut self, node: &Node, is_shown: fn(&Tree) -> bool) {
        match &node.tree {
            Tree::List(nodes) => nodes.iter().for_each(|node| self.scalars(node, is_shown)),
            Tree::Table(table) => table.entries.iter().for_each(|entry| self.scalars(&entry.node, is_shown)),
            scalar if is_shown(scalar) => {}
            _ => self.findings.hide(node.span),
        }
    }

    /// Hides a secret, whatever it is made of.
    fn all(&mut self, node: &Node) {
        match &node.tree {
            Tree::List(nodes) => nodes.iter().for_each(|node| self.all(node)),
            Tree::Table(table) => {
                for entry in &table.entries {
                    self.findings.hide(entry.key_span);
                    self.all(&entry.node);
                }
            }
            _ => self.findings.hide(node.span),
        }
    }
}

/// True if a scalar is too short for a secret, or an address.
fn is_public(scalar: &Tree) -> bool {
    match scalar {
        Tree::Bool(_) => true,
        Tree::Int(_, text) => text.len() <= 5,
        Tree::Text(text) => text.parse::<SocketAddr>().is_ok() || text.parse::<IpAddr>().is_ok(),
        _ => false,
    }
}

/// Ends of names of files that are written without a folder.
const ENDS: [&str; 10] = [".pem", ".key", ".crt", ".cer", ".json", ".jwks", ".token", ".secret", ".txt", ".htpasswd"];

/// True for the text of a path or URL, which a secret in base64 hardly is.
fn is_path(scalar: &Tree) -> bool {
    let Tree::Text(text) = scalar else { return matches!(scalar, Tree::Bool(_)) };
    let begins = ["/", "./", "../", "https://", "http://"].iter().any(|start| text.starts_with(start));
    (begins || ENDS.iter().any(|end| text.ends_with(end))) && !text.contains(['+', '=', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::ROOT;
    use crate::table::secrets::is_secret_kind;
    use crate::{parse_str, render_text, to_json};

    const VALUE: &str = "hunter2+battery";

    /// A table of the schema, as the text in front of it and behind it in a file of a single line.
    struct Place {
        table: &'static Table,
        before: String,
        after: String,
    }

    /// All tables, each at all of its places.
    fn places(table: &'static Table, before: &str, after: &str, depth: usize, all: &mut Vec<Place>) {
        all.push(Place { table, before: before.to_owned(), after: after.to_owned() });
        for key in table.keys.iter().filter(|_| depth < 8) {
            let Some(below) = key.kind.table() else { continue };
            let (mut open, mut close) = (format!("{} = ", key.name), String::new());
            around(&key.kind, &mut open, &mut close);
            let (open, close) = match depth {
                0 => (open, close),
                _ => (format!("{before}{{ {open}"), format!("{close} }}{after}")),
            };
            places(below, &open, &close, depth + 1, all);
        }
    }

    /// Adds the brackets and names between a key and its table.
    fn around(kind: &Kind, open: &mut String, close: &mut String) {
        let (begin, end) = match kind {
            Kind::Named(_) => ("{ n = ", " }"),
            Kind::Map { .. } => ("{ X-N = ", " }"),
            Kind::Tables(_) | Kind::TablesBy { .. } | Kind::List(_) => ("[", "]"),
            _ => ("", ""),
        };
        open.push_str(begin);
        close.insert_str(0, end);
        if let Kind::Map { of, .. } | Kind::List(of) = kind {
            around(of, open, close);
        }
    }

    /// Asserts that diagnostics of a text do not show the value in any form.
    fn shows_nothing(text: &str) {
        let found = parse_str("evenkeel.toml", text, &|_| None).diagnostics;
        assert!(!found.is_empty(), "nothing is wrong with {text}");
        for shown in [render_text(&found, false), to_json(&found).to_string(), format!("{found:?}")] {
            assert!(!shown.contains(VALUE), "{text}\n{shown}");
        }
    }

    /// Entries of a table that have the value in them.
    fn mistakes(table: &'static Table) -> Vec<String> {
        let shapes = [
            format!("\"{VALUE}\""),
            format!("[\"{VALUE}\"]"),
            format!("{{ zq = \"{VALUE}\" }}"),
            format!("\"${{{VALUE}\""),
        ];
        let unknown = ["sekret", "pass", "auth", "write_tokn"];
        let unknown = unknown.iter().copied().filter(|key| table.key(key).is_none());
        let guarded = table.keys.iter().filter(|key| {
            let has_guarded = |below: &'static Table| below.walk().iter().any(|one| is_guarded(&ROOT, one));
            exposure(&ROOT, table, key) != Exposure::Everything || key.kind.table().is_some_and(has_guarded)
        });
        let keys = unknown.chain(guarded.map(|key| key.name));
        keys.flat_map(|key| shapes.iter().map(move |shape| format!("{key} = {shape}"))).collect()
    }

    #[test]
    fn no_diagnostic_shows_what_may_be_a_secret_in_any_table() {
        let mut all = Vec::new();
        places(&ROOT, "", "", 0, &mut all);
        let paths =
            ["sticky of [pool.NAME]", "jwt of [[route]]", "[acme]", "discover.etcd of [pool.NAME]", "http of [admin]"];
        assert!(paths.iter().all(|path| all.iter().any(|place| place.table.path == *path)), "{}", all.len());
        // A table that stands at many places is tried at the first.
        let mut tried = std::collections::HashMap::new();
        for Place { table, before, after } in &all {
            let count: &mut usize = tried.entry(table.path).or_default();
            *count += 1;
            if *count > 1 {
                continue;
            }
            for mistake in mistakes(table) {
                let text = match before.is_empty() {
                    true => format!("{mistake}\nzzz = 1"),
                    false => format!("{before}{{ {mistake}, zzz = 1 }}{after}"),
                };
                shows_nothing(&text);
                shows_nothing(&text.replace("zzz = 1", "zzz = ]"));
            }
        }
    }

    #[test]
    fn secrets_without_quotes_are_not_shown() {
        let mut all = Vec::new();
        places(&ROOT, "", "", 0, &mut all);
        let mut tried = std::collections::HashSet::new();
        for place in all.iter().filter(|place| tried.insert(place.table.path)) {
            for key in place
                .table
                .keys
                .iter()
                .filter(|key| key.name != "file" && exposure(&ROOT, place.table, key) != Exposure::Everything)
            {
                shows_nothing(&format!("{}{{ {} = {VALUE} }}{}", place.before, key.name, place.after));
            }
        }
        shows_nothing(&format!("[listener.web]\ntls = {{ key = \"{VALUE}\" }}"));
        shows_nothing(&format!("[pool.web.sticky]\nsekret = {VALUE}"));
    }

    #[test]
    fn values_that_are_no_secrets_are_shown() {
        for (text, shown) in [
            ("[listener.web]\nbind = \"nowhere:x\"", "nowhere:x"),
            ("[admin.http]\nbind = \"127.0.0.1:1\"\nwrite_token = [\"/etc/token\"]", "/etc/token"),
            ("[pool.web]\nmaxcon = 100", "maxcon = 100"),
        ] {
            let found = parse_str("evenkeel.toml", text, &|_| None).diagnostics;
            assert!(render_text(&found, false).contains(shown), "{}", render_text(&found, false));
        }
        assert!(ROOT.walk().iter().any(|table| table.keys.iter().any(|key| is_secret_kind(&key.kind))));
    }
}

//! Tables of requests: what is replaced in a fixture, and what is asked.

use std::collections::BTreeMap;
use std::path::Path;

/// A table of requests, as it is read from its file.
#[derive(Default)]
pub struct Table {
    texts: Vec<(String, String)>,
    tomls: Vec<(String, String)>,
    pub files: Vec<(String, String)>,
    pub rows: Vec<Row>,
}

/// A request, and what is known about its answers.
#[derive(Default)]
pub struct Row {
    pub line: usize,
    pub text: String,
    pub listener: Option<String>,
    pub times: usize,
    pub method: String,
    pub target: String,
    pub fields: Vec<(String, String)>,
    pub from: Option<String>,
    pub body: Option<usize>,
    /// Text of the report that explains other answers.
    pub differs: Option<String>,
}

impl Table {
    /// # Panics
    /// If the file is not a table.
    pub fn read(path: &Path) -> Table {
        let text = std::fs::read_to_string(path).expect("the table is there");
        let mut table = Table::default();
        let mut in_rows = false;
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let place = format!("{}:{}: {line}", path.display(), index + 1);
            match line.trim() {
                "---" => in_rows = true,
                comment if comment.starts_with('#') => {}
                row if in_rows => match row.strip_prefix("differs:") {
                    Some(reason) => {
                        table.rows.last_mut().expect(&place).differs = Some(reason.trim().to_string());
                    }
                    None => table.rows.push(Row::read(row, index + 1)),
                },
                setting => {
                    let (kind, rest) = setting.split_once(' ').expect(&place);
                    let (old, new) = rest.split_once("=>").expect(&place);
                    let pair = (unescaped(old.trim()), unescaped(new.trim()));
                    match kind {
                        "text" => table.texts.push(pair),
                        "toml" => table.tomls.push(pair),
                        "file" => table.files.push(pair),
                        _ => panic!("{place}"),
                    }
                }
            }
        }
        table
    }

    /// Addresses to listen at, by name: others at each call.
    pub fn listens(&self) -> BTreeMap<String, String> {
        let address = |name: String| (name, evenkeel_peers::own_addr().to_string());
        self.names("listen").into_iter().map(address).collect()
    }

    /// Name of the listener that rows ask unless they name another.
    pub fn first_listen(&self) -> String {
        self.names("listen").first().cloned().expect("a table names an address to listen at")
    }

    /// Names of the endpoints that rows of the table name.
    pub fn endpoints(&self) -> Vec<String> {
        self.names("to")
    }

    fn names(&self, kind: &str) -> Vec<String> {
        let mark = format!("{{{kind} ");
        let mut names: Vec<String> = Vec::new();
        for (_, new) in self.texts.iter().chain(&self.tomls) {
            for rest in new.split(&mark).skip(1) {
                let name = rest.split('}').next().unwrap_or_default().to_string();
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    pub fn replace_text(&self, text: &str, name: &str) -> String {
        replace(text, &self.texts, name)
    }

    pub fn replace_toml(&self, text: &str, name: &str) -> String {
        replace(text, &self.tomls, name)
    }
}

fn replace(text: &str, pairs: &[(String, String)], name: &str) -> String {
    let mut text = text.to_string();
    for (old, new) in pairs {
        assert!(text.contains(old), "{name}: \"{old}\" is replaced, and not there:\n{text}");
        text = text.replace(old, new);
    }
    text
}

/// The text with its names filled in.
pub fn fill(
    text: &str,
    listens: &BTreeMap<String, String>,
    endpoints: &BTreeMap<String, String>,
    folder: &str,
) -> String {
    let mut text = text.replace("{folder}", folder);
    for (kind, names) in [("listen", listens), ("to", endpoints)] {
        for (name, address) in names {
            text = text.replace(&format!("{{{kind} {name}}}"), address);
        }
    }
    text
}

fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n")
}

impl Row {
    fn read(text: &str, line: usize) -> Row {
        let mut parts = text.split(" | ").map(str::trim);
        let mut row = Row { line, text: text.to_string(), times: 1, ..Row::default() };
        for word in parts.next().unwrap_or_default().split(' ') {
            match word.strip_prefix('@') {
                Some(listener) => row.listener = Some(listener.to_string()),
                None if word.starts_with('/') || word == "*" => row.target = word.to_string(),
                None => match word.strip_suffix('x').and_then(|times| times.parse().ok()) {
                    Some(times) => row.times = times,
                    None => row.method = word.to_string(),
                },
            }
        }
        for part in parts {
            match (part.split_once(": "), part.split_once(' ')) {
                (_, Some(("from", address))) => row.from = Some(address.to_string()),
                (_, Some(("body", length))) => row.body = Some(length.parse().expect("a number")),
                (Some((name, value)), _) => row.fields.push((name.to_string(), value.to_string())),
                _ => panic!("line {line}: \"{part}\" is not a field"),
            }
        }
        assert!(!row.method.is_empty() && !row.target.is_empty(), "line {line}: {text}");
        row
    }

    /// The Host that the request has.
    pub fn host(&self) -> &str {
        self.fields.iter().find(|(name, _)| name == "Host").map_or("test", |(_, value)| value)
    }
}

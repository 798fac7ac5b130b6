//! What is this word, or this file, of another proxy called here? Who comes from HAProxy, NGINX, Envoy, Traefik or Caddy knows what
//! is meant, and not yet how it is written.
//!
//! [`words`]: the table. [`syntax`]: files that are not TOML at all.

pub(crate) mod syntax;
mod words;

use crate::table::quote;
use crate::tree::Tree;

/// Where all of it stands side by side.
pub(crate) const PAGE: &str = "docs/guide/coming-from.md";

/// A value with more characters is not repeated in the advice.
const LONGEST: usize = 100;

/// What a key that a table does not know is here, with the value that was seen where it fits.
pub(crate) fn key(table: &str, key: &str, value: &Tree) -> Option<String> {
    let rows = words::KEYS.iter().filter(|(path, _)| *path == table).flat_map(|(_, rows)| *rows);
    find(rows, key).map(|is| format!("here this is {}", filled(is, value)))
}

/// What the name of another proxy's algorithm is here.
pub(crate) fn algorithm(name: &str) -> Option<String> {
    find(words::ALGORITHMS, name).map(|is| format!("here this is balance = {is}"))
}

/// By name alone: some write `max_conn`, some `maxConn`, some `max-conn`.
fn find<'t>(rows: impl IntoIterator<Item = &'t words::Row>, word: &str) -> Option<&'static str> {
    let plain: String = word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    rows.into_iter().find(|(words, _)| words.split(' ').any(|w| w == plain)).map(|(_, is)| *is)
}

/// Puts the value seen where the table has an example, in `<` and `>`, if it can stand there.
fn filled(is: &str, value: &Tree) -> String {
    let mut out = String::new();
    let mut rest = is;
    while let Some((before, (example, after))) =
        rest.split_once('<').and_then(|(before, inner)| Some((before, inner.split_once('>')?)))
    {
        out.push_str(before);
        let seen = if before.ends_with('[') { elements(value) } else { scalar(value, example) };
        out.push_str(seen.as_deref().unwrap_or(example));
        rest = after;
    }
    out + rest
}

/// A value in the form of the example, or `None` if it has another: others write numbers in quotes, and times without.
fn scalar(value: &Tree, example: &str) -> Option<String> {
    let is_time = example.ends_with("s\"");
    match value {
        Tree::Text(text) if text.chars().count() > LONGEST => None,
        Tree::Text(text) if example.starts_with('"') => {
            let fits = !example.starts_with("\"/") || is_path(text);
            (fits && (!is_time || text.starts_with(|c: char| c.is_ascii_digit()))).then(|| quote(text))
        }
        Tree::Text(text) => text.parse::<u32>().ok().map(|number| number.to_string()),
        Tree::Int(..) if is_time => Some(format!("\"{}s\"", value.seen())),
        Tree::Int(..) if !example.starts_with('"') => Some(value.seen()),
        _ => None,
    }
}

/// What stands between the brackets of an array. Others write several in one string.
fn elements(value: &Tree) -> Option<String> {
    let parts: Vec<&str> = match value {
        Tree::Text(text) => text.split([',', ' ']).filter(|part| !part.is_empty()).collect(),
        Tree::List(nodes) => {
            let texts = nodes.iter().map(|node| if let Tree::Text(text) = &node.tree { Some(&**text) } else { None });
            texts.collect::<Option<_>>()?
        }
        _ => return None,
    };
    let each: Vec<String> = parts.into_iter().map(quote).collect();
    let all = each.join(", ");
    (!all.is_empty() && all.chars().count() <= LONGEST).then_some(all)
}

/// Whether it is the plain path that it seems to be, and no pattern of another proxy.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains([' ', '*', '^', '$', '[', '(', '|', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::root::ROOT;

    #[test]
    fn words_are_plain_and_no_key_of_their_table() {
        for (path, rows) in words::KEYS {
            let table = ROOT.walk().into_iter().find(|t| t.path == *path).expect(path);
            for word in rows.iter().flat_map(|(words, _)| words.split(' ')) {
                assert!(word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{path}: {word}");
                assert!(table.key(word).is_none(), "{path}: {word} is a key");
            }
        }
    }

    #[test]
    fn no_word_is_in_a_table_twice() {
        for (path, rows) in words::KEYS.iter().copied().chain([("balance", words::ALGORITHMS)]) {
            let mut all: Vec<&str> = rows.iter().flat_map(|(words, _)| words.split(' ')).collect();
            all.sort_unstable();
            let twice: Vec<_> = all.windows(2).filter(|pair| pair[0] == pair[1]).collect();
            assert!(twice.is_empty(), "{path}: {twice:?}");
        }
    }

    #[test]
    fn the_value_seen_is_put_where_it_belongs() {
        let text = |text: &str| Tree::Text(text.to_string());
        assert_eq!(key("[[route]]", "path", &text("/a")).as_deref(), Some("here this is match = { path = \"/a\" }"));
        let said = key("[pool.NAME]", "max-conns", &Tree::Int(Some(7), "7".to_string()));
        assert!(said.is_some_and(|said| said.contains("limits = { requests_per_endpoint = 7 }")));
        for (table, word, value, is) in [
            ("[[route]]", "path", text("^/v[0-9]+/"), "match = { path = \"/api\" }"),
            ("[[route]]", "host", text("a.b, c.d"), "match = { host = [\"a.b\", \"c.d\"] }"),
            ("[listener.NAME]", "maxconn", text("500"), "limits = { connections = 500 }"),
            ("[listener.NAME]", "maxconn", Tree::Bool(true), "limits = { connections = 10000 }"),
            ("health of [pool.NAME]", "inter", Tree::Int(Some(3), "3".to_string()), "interval = \"3s\""),
        ] {
            assert_eq!(key(table, word, &value), Some(format!("here this is {is}")));
        }
        assert_eq!(key("[[route]]", "colour", &Tree::Bool(true)), None);
    }
}

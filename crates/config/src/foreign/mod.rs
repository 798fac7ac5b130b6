//! Counterparts of keys, values and files of HAProxy, NGINX, Envoy, Traefik and Caddy, so that errors can
//! name the wishes of their users here.
//!
//! [`words`]: keys that evenkeel does not have. [`habits`]: values that do not fit keys it has. [`syntax`]:
//! files that are not TOML. Variables in values: `form/request/foreign_variables.rs`.

// Order: habits, syntax, words
mod habits;
pub(crate) mod syntax;
mod words;

pub(crate) use habits::habit;

use crate::form::{Form, braced};
use crate::printable::quote;
use crate::quantity;
use crate::tree::{TableNode, Tree, quoted};
use evenkeel_balance::algorithms;

/// Guide that shows both configurations side by side.
pub(crate) const PAGE: &str = "docs/guide/coming-from.md";

/// Longest value, in characters, that is repeated in advice.
const LONGEST: usize = 100;

/// Counterpart of another proxy's key.
pub(crate) struct Meant {
    /// Advice that names the text to write.
    pub help: String,
    /// Key of the same table that it stands for, if any; that key is then not reported as missing.
    pub key: Option<&'static str>,
    /// True if a value that fits is repeated in the advice.
    pub is_repeated: bool,
    /// True if the value can be read as that key's value: a name, or tables with names.
    pub is_value: bool,
}

/// Looks up evenkeel's counterpart of a key that `table` does not know, with the value filled in if it fits.
/// `beside` holds all keys of that table.
pub(crate) fn key(table: &str, key: &str, value: &Tree, beside: &TableNode) -> Option<Meant> {
    let rows = words::KEYS.iter().filter(|(path, _)| *path == table).flat_map(|(_, rows)| *rows);
    let is = find(rows, key)?;
    if is == words::ALGORITHM
        && let Tree::Text(name) = value
        && let Some(help) = algorithm(name).or_else(|| known_algorithm(name))
    {
        return Some(Meant { help, key: Some("balance"), is_repeated: true, is_value: false });
    }
    if let Tree::Text(text) = value
        && (is.starts_with("match = ") || table == "match of [[route]]")
        && is.contains("<\"/")
        && let Err(misfit) = Form::Path.read(text)
    {
        return Some(Meant {
            help: format!("here this is a key of match; {}", misfit.help),
            key: Some("match"),
            is_repeated: true,
            is_value: false,
        });
    }
    if is.contains("verify = false") && matches!(value, Tree::Bool(false)) {
        let help = "leave it out: certificates of endpoints are verified unless verify = false".to_string();
        return Some(Meant { help, key: None, is_repeated: false, is_value: false });
    }
    if is.starts_with("evenkeel ") {
        let key = is.split_once(" = ").and_then(|(before, _)| before.split(' ').next_back());
        return Some(Meant { help: is.to_string(), key, is_repeated: false, is_value: false });
    }
    let tables = |name| (Some(name), are_tables(value));
    if is == words::SERVER
        && let Some(name) = server(value)
    {
        let help = format!("here this is {}", words::LISTENER.replacen("NAME", name, 1));
        return Some(Meant { help, key: Some("listener"), is_repeated: false, is_value: true });
    }
    let (key, is_value) = match is {
        words::LISTENER => tables("listener"),
        words::POOL => tables("pool"),
        _ => {
            let key = is.split_once(" = ").map(|(key, _)| key).filter(|key| !key.contains(' '));
            (key, is.contains(" = <\"NAME\">") && matches!(value, Tree::Text(text) if is_name(text)))
        }
    };
    let help = format!("here this is {}", filled(is, value, beside));
    Some(Meant { help, key, is_repeated: is.contains('<') || is == words::ALGORITHM, is_value })
}

/// Name of the first `server`, if all of them look like listeners by their keys. NGINX uses the word for both
/// ends.
fn server(value: &Tree) -> Option<&str> {
    let Tree::Table(named) = value else { return None };
    let has = |keys: &[&str]| {
        let tables =
            named.entries.iter().filter_map(|e| if let Tree::Table(t) = &e.node.tree { Some(t) } else { None });
        tables.flat_map(|table| &table.entries).any(|entry| keys.contains(&&*entry.key))
    };
    let is_listener = are_tables(value) && has(words::OF_LISTENERS) && !has(words::OF_ENDPOINTS);
    named.entries.first().map(|entry| &*entry.key).filter(|name| is_listener && is_name(name))
}

fn are_tables(value: &Tree) -> bool {
    let Tree::Table(table) = value else { return false };
    !table.entries.is_empty() && table.entries.iter().all(|entry| matches!(entry.node.tree, Tree::Table(_)))
}

/// Advice for the name of another proxy's algorithm.
pub(crate) fn algorithm(name: &str) -> Option<String> {
    find(words::ALGORITHMS, name).map(|is| format!("here this is balance = {is}"))
}

/// Advice for an algorithm of our own in another spelling, such as `LEAST_REQUEST`.
pub(crate) fn known_algorithm(name: &str) -> Option<String> {
    let found = algorithms::find(&name.to_lowercase().replace('-', "_"))?;
    Some(format!("here this is balance = {}", quote(found.name)))
}

/// Finds a word ignoring case and punctuation: `max_conn`, `maxConn` and `max-conn` are equal.
fn find<'t>(rows: impl IntoIterator<Item = &'t words::Row>, word: &str) -> Option<&'static str> {
    let plain: String = word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    rows.into_iter().find(|(words, _)| words.split(' ').any(|w| w == plain)).map(|(_, is)| *is)
}

/// Replaces each example in `<` and `>` by the value seen, if that fits; `<KEY|EXAMPLE>` takes the value of
/// `KEY` in `beside`. A number above the limit in `<EXAMPLE..=LIMIT>`
/// becomes the limit, which is named.
fn filled(is: &str, value: &Tree, beside: &TableNode) -> String {
    let mut out = String::new();
    let mut rest = is;
    let mut limit = None;
    while let Some((before, (example, after))) =
        rest.split_once('<').and_then(|(before, inner)| Some((before, inner.split_once('>')?)))
    {
        out.push_str(before);
        let (value, example) = match example.split_once('|') {
            Some((key, example)) => (beside.get(key).map_or(&Tree::Broken, |entry| &entry.node.tree), example),
            None => (value, example),
        };
        let (example, most) = example.split_once("..=").map_or((example, None), |(one, most)| (one, Some(most)));
        let seen = if before.ends_with('[') { elements(value, example) } else { scalar(value, example) };
        let seen = match most.filter(|most| seen.as_deref().is_some_and(|seen| is_above(seen, most))) {
            Some(most) => {
                limit = Some(most);
                Some(most.to_owned())
            }
            None => seen,
        };
        out.push_str(seen.as_deref().unwrap_or(example));
        rest = after;
    }
    out += rest;
    match limit {
        Some(most) => format!("{out}: {most} is the maximum"),
        None => out,
    }
}

/// True if both are numbers, and the first is larger.
fn is_above(seen: &str, most: &str) -> bool {
    matches!((seen.parse::<u64>(), most.parse::<u64>()), (Ok(seen), Ok(most)) if seen > most)
}

/// Formats a value like the example, `None` if it cannot. Other proxies quote numbers and leave times
/// unquoted.
fn scalar(value: &Tree, example: &str) -> Option<String> {
    let is_rate = example.ends_with("/s\"");
    let is_time = example.ends_with("s\"") && !is_rate;
    let is_size = example.ends_with("B\"") && example.starts_with('"');
    match value {
        Tree::Text(text) if text.chars().count() > LONGEST => None,
        Tree::Text(text) if example.starts_with("\"/") && is_url(text) => {
            let (_, rest) = text.split_once("://")?;
            let path = rest.find('/').map_or("/", |at| &rest[at..]);
            Form::Path.read(path).is_ok().then(|| quote(path))
        }
        Tree::Text(text) if example.starts_with("\"web.") || example.starts_with("\"_") => {
            Form::DnsName.read(text).is_ok().then(|| quote(text))
        }
        Tree::Text(text) if is_size => size_meant(text),
        Tree::Text(text) if is_rate => {
            let rate = format!("{}/s", a_second(text));
            Form::Rate.read(&rate).is_ok().then(|| quote(&rate))
        }
        Tree::Int(Some(bytes), _) if is_size => size_meant(&bytes.to_string()),
        Tree::Text(text) if example.starts_with('"') => {
            let fits = !example.starts_with("\"/") || Form::Path.read(text).is_ok();
            if example == "\"NAME\"" {
                let name = text.strip_prefix("http://").unwrap_or(text);
                return is_name(name).then(|| quote(name));
            }
            if example.starts_with("\"10.") {
                return element(text, example);
            }
            if is_time && text.parse::<u64>().is_ok() {
                return Some(quote(&format!("{text}s")));
            }
            (fits && (!is_time || text.starts_with(|c: char| c.is_ascii_digit()))).then(|| quote(text))
        }
        Tree::Text(text) => a_second(text).parse::<u32>().ok().map(|number| number.to_string()),
        Tree::Int(Some(percent @ 0..=100), _) if example.starts_with("0.") => {
            Some((*percent as f64 / 100.0).to_string())
        }
        Tree::Int(Some(..0), _) => None,
        Tree::Int(..) if is_rate => Some(format!("\"{}/s\"", value.seen())),
        Tree::Int(..) if is_time => Some(format!("\"{}s\"", value.seen())),
        Tree::Int(..) if !example.starts_with('"') => Some(value.seen()),
        _ => None,
    }
}

/// The number of a rate per second: `10` of `10r/s`.
fn a_second(text: &str) -> &str {
    text.strip_suffix("/s").map_or(text, |rate| rate.trim_end_matches(['r', ' ']))
}

/// Formats a size that another proxy would accept. Its 0 means no limit.
fn size_meant(text: &str) -> Option<String> {
    let meant = quantity::size_meant(text)?;
    Some(quote(if quantity::size(&meant) == Ok(0) { "off" } else { &meant }))
}

/// Formats the elements of an array. Other proxies write several in a single string.
fn elements(value: &Tree, example: &str) -> Option<String> {
    let port: String;
    let parts: Vec<&str> = match value {
        Tree::Text(text) => text.split([',', ' ']).filter(|part| !part.is_empty()).collect(),
        Tree::List(nodes) => {
            let each = nodes.iter().map(|node| match &node.tree {
                Tree::Text(text) => element(text, example),
                Tree::Table(table) => element(&address_in(table)?, example),
                _ => None,
            });
            return joined(each);
        }
        Tree::Int(..) => {
            port = value.seen();
            vec![&port]
        }
        _ => return None,
    };
    joined(parts.into_iter().map(|part| element(part, example)))
}

fn joined(each: impl Iterator<Item = Option<String>>) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for part in each {
        // A word of another proxy may stand for several of ours, and two words for the same word.
        for one in part?.split(", ") {
            if !all.iter().any(|known| known == one) {
                all.push(one.to_string());
            }
        }
    }
    let all = all.join(", ");
    (!all.is_empty() && all.chars().count() <= LONGEST).then_some(all)
}

/// Address in a table that holds nothing else: `{ url = "http://10.0.0.1:80" }`, `{ host = "10.0.0.1", port =
/// 80 }`.
fn address_in(table: &TableNode) -> Option<String> {
    let (mut host, mut port) = (None, String::new());
    for entry in &table.entries {
        match (&*entry.key, &entry.node.tree) {
            ("addr" | "address" | "dial" | "host" | "ip" | "server" | "target" | "url", Tree::Text(text)) => {
                host = Some(text)
            }
            ("port", Tree::Int(..)) => port = format!(":{}", entry.node.tree.seen()),
            _ => return None,
        }
    }
    host.map(|host| host.clone() + &port)
}

/// Rewrites an address that another proxy would accept; `None` if that fails.
pub(crate) fn address(text: &str, form: Form) -> Option<String> {
    let alike = match form {
        Form::Bind => format!("[::]:{}", text.trim_start_matches('*').trim_start_matches(':')),
        _ => text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/').to_string(),
    };
    [text, &alike].into_iter().find(|text| form.read(text).is_ok()).map(quote).or_else(|| Some(quoted(&braced(text)?)))
}

/// Formats an element like the first element of the example.
fn element(part: &str, example: &str) -> Option<String> {
    if example.starts_with("\"[::]:") {
        return address(part, Form::Bind);
    }
    if example.starts_with("\"10.") {
        return address(part, Form::Address);
    }
    if example.starts_with("\"connect\"") {
        let known = || Form::RetryOn.read(part).is_ok().then(|| quote(part));
        return find(words::FAILURES, part).map(str::to_string).or_else(known);
    }
    part.parse::<u64>().is_err().then(|| quote(part))
}

/// True for `http` and `https` URLs.
fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// True if the text can name a listener or pool.
fn is_name(text: &str) -> bool {
    Form::Name.read(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::ROOT;

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
        let int = |text: &str| Tree::Int(text.parse().ok(), text.to_string());
        for (table, word, value, is) in [
            ("[[route]]", "path", text("/a"), "match = { path = \"/a\" }"),
            ("[pool.NAME]", "max-conns", int("7"), "limits = { requests_per_endpoint = 7 }"),
            ("[pool.NAME]", "servers", text("http://a:80/ b:80"), "endpoints = [\"a:80\", \"b:80\"]"),
            ("[pool.NAME]", "lb_policy", text("LEAST_REQUEST"), "balance = \"leastconn\""),
            ("[pool.NAME]", "strategy", text("p2c"), "balance = \"random\""),
            ("[pool.NAME]", "method", text("ip_hash"), "balance = { maglev = { key = \"client-ip\" } }"),
            ("endpoints of [pool.NAME]", "url", text("http://a:80"), "addr = \"a:80\""),
            ("[listener.NAME]", "listen", text("80"), "bind = [\"[::]:80\"]: all addresses, each with its port"),
            ("[listener.NAME]", "port", int("80"), "bind = [\"[::]:80\"]: all addresses, each with its port"),
            ("[listener.NAME]", "listen", text("*:81"), "bind = [\"[::]:81\"]: all addresses, each with its port"),
            (
                "[[route]]",
                "path",
                text("/api/*"),
                "a key of match; write prefix = \"/api\" instead of path, for it and everything below it",
            ),
            ("[[route]]", "location", text("= /login"), "a key of match; write path = \"/login\""),
            ("[[route]]", "proxy_pass", text("http://app"), "pool = \"app\""),
            ("[[route]]", "proxy_pass", text("http://app:80/x"), "pool = \"NAME\""),
            ("[[route]]", "host", text("a.b, c.d"), "match = { host = [\"a.b\", \"c.d\"] }"),
            ("[listener.NAME]", "maxconn", text("500"), "limits = { connections = 500 }"),
            ("[listener.NAME]", "maxconn", Tree::Bool(true), "limits = { connections = 10000 }"),
            ("health of [pool.NAME]", "inter", int("3"), "interval = \"3s\""),
        ] {
            assert_eq!(
                key(table, word, &value, &TableNode::default()).map(|meant| meant.help),
                Some(format!("here this is {is}"))
            );
        }
        assert!(key("[[route]]", "colour", &Tree::Bool(true), &TableNode::default()).is_none());
    }
}

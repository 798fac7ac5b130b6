//! Edits of the text of a configuration. Comments, order and spaces of the rest stay.
//!
//! An edit needs the section to be written as a header, such as `[pool.web]`. Elsewhere there is no edit: the caller
//! shows the line to add. Whether an edit is right is up to the reader of configurations, which gets its result.

use std::ops::Range;

/// Section of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At<'a> {
    /// `[KIND.NAME]`, such as a pool or a listener.
    Named(&'a str, &'a str),
    /// `[[KIND]]` at this index.
    Nth(&'a str, usize),
}

/// Returns the text with a key of a section set to a value in TOML. `None` if the section has no header, or the key is
/// written as a section of its own or with dots.
pub fn set(text: &str, at: At<'_>, key: &str, value: &str) -> Option<String> {
    let lines = lines(text);
    let header = lines.iter().position(|line| matches(&text[line.clone()], at, &text[..line.start]))?;
    let line = format!("{key} = {value}\n");
    let is_header = |line: &&Range<usize>| text[(*line).clone()].trim_start().starts_with('[');
    let body: Vec<&Range<usize>> = lines[header + 1..].iter().take_while(|line| !is_header(line)).collect();
    let written = |line: &&&Range<usize>| key_of(&text[(**line).clone()]) == Some(key);
    if let Some(old) = body.iter().find(written) {
        return Some(format!("{}{line}{}", &text[..old.start], &text[old.end..]));
    }
    let dotted = |line: &&Range<usize>| key_of(&text[(*line).clone()]).is_some_and(|k| starts(k, key));
    let of_header = headers(text, &lines).any(|name| name == [section(at).as_str(), key].join("."));
    if of_header || body.iter().any(dotted) {
        return None;
    }
    let end = lines[header].end;
    let (before, behind) = text.split_at(end);
    let line_end = if before.ends_with('\n') { "" } else { "\n" };
    Some(format!("{before}{line_end}{line}{behind}"))
}

/// Returns the text with a key of an inline table set to a number or a word. `None` if the section has no such key with
/// an inline table.
pub fn set_inner(text: &str, at: At<'_>, key: &str, inner: &str, value: &str) -> Option<String> {
    let lines = lines(text);
    let header = lines.iter().position(|line| matches(&text[line.clone()], at, &text[..line.start]))?;
    let is_header = |line: &&Range<usize>| text[(*line).clone()].trim_start().starts_with('[');
    let mut body = lines[header + 1..].iter().take_while(|line| !is_header(line));
    let line = body.find(|line| key_of(&text[(*line).clone()]) == Some(key))?;
    let (written, rest) = text[line.clone()].split_once('=')?;
    let open = rest.find(|c: char| !c.is_whitespace()).filter(|at| rest[*at..].starts_with('{'))?;
    let (table, from) = (&rest[open..], line.start + written.len() + 1 + open);
    let is_whole = |at: usize| {
        let before = table[..at].trim_end().chars().next_back();
        let behind = table[at + inner.len()..].trim_start();
        matches!(before, Some('{' | ',')) && behind.starts_with('=')
    };
    let here = table.match_indices(inner).map(|(at, _)| at).find(|at| is_whole(*at));
    let Some(here) = here else {
        let comma = if table[1..].trim_start().starts_with('}') { " " } else { ", " };
        let rest = text[from + 1..].trim_start_matches([' ', '\t']);
        return Some(format!("{}{{ {inner} = {value}{comma}{rest}", &text[..from]));
    };
    let old = from + here + table[here..].find('=')? + 1;
    let end = old + text[old..line.end].find([',', '}', '\n'])?;
    let close = if text[old..end].ends_with(' ') { " " } else { "" };
    Some(format!("{} {value}{close}{}", &text[..old], &text[end..]))
}

fn section(at: At<'_>) -> String {
    match at {
        At::Named(kind, name) => format!("{kind}.{name}"),
        At::Nth(kind, _) => kind.to_string(),
    }
}

fn starts(dotted: &str, key: &str) -> bool {
    dotted.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('.'))
}

/// True if a line is the header of the section. `before`: the text before the line.
fn matches(line: &str, at: At<'_>, before: &str) -> bool {
    match (header(line), at) {
        (Some((name, false)), At::Named(..)) => name == section(at),
        (Some((name, true)), At::Nth(kind, index)) => {
            let is_same = |line: &Range<usize>| header(&before[line.clone()]) == Some((kind.to_string(), true));
            name == kind && lines(before).iter().filter(|line| is_same(line)).count() == index
        }
        _ => false,
    }
}

fn headers<'t>(text: &'t str, lines: &'t [Range<usize>]) -> impl Iterator<Item = String> + 't {
    lines.iter().filter_map(|line| header(&text[line.clone()])).map(|(name, _)| name)
}

/// Name of a header without quotes and spaces, and true for `[[...]]`.
fn header(line: &str) -> Option<(String, bool)> {
    let line = line.trim_start();
    let (rest, end, is_array) = match line.strip_prefix("[[") {
        Some(rest) => (rest, "]]", true),
        None => (line.strip_prefix('[')?, "]", false),
    };
    let (name, _) = rest.split_once(end)?;
    let part = |part: &str| part.trim().trim_matches(['"', '\'']).to_string();
    Some((name.split('.').map(part).collect::<Vec<_>>().join("."), is_array))
}

/// Key of a line `key = value`.
fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    let key = key.trim().trim_matches(['"', '\'']);
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-. \"'".contains(c);
    (!key.is_empty() && key.chars().all(is_key)).then_some(key)
}

/// Logical lines: a value that spans lines belongs to the line of its key.
fn lines(text: &str) -> Vec<Range<usize>> {
    let (mut all, mut start, mut at, mut depth) = (Vec::new(), 0, 0, 0usize);
    let bytes = text.as_bytes();
    let is_header = |start: usize| text[start..].trim_start_matches([' ', '\t']).starts_with('[');
    while at < bytes.len() {
        match bytes[at] {
            b'"' | b'\'' => at = string_end(bytes, at),
            b'#' => at = bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| at + n),
            b'[' | b'{' => (depth, at) = (depth + 1, at + 1),
            b']' | b'}' => (depth, at) = (depth.saturating_sub(1), at + 1),
            b'\n' => {
                at += 1;
                if depth == 0 || is_header(start) {
                    all.push(start..at);
                    (start, depth) = (at, 0);
                }
            }
            _ => at += 1,
        }
    }
    if start < bytes.len() {
        all.push(start..bytes.len());
    }
    all
}

/// End of the string that starts at `at`; the end of the text if it is not closed.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let quote = bytes[at];
    let is_long = bytes[at..].starts_with(&[quote; 3]);
    let mark: &[u8] = if is_long { &[quote; 3] } else { &bytes[at..=at] };
    let mut here = at + mark.len();
    while here < bytes.len() {
        match bytes[here] {
            b'\\' if quote == b'"' => here += 2,
            b'\n' if !is_long => return here,
            _ if bytes[here..].starts_with(mark) => return here + mark.len(),
            _ => here += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# front\n[listener.web]\nbind = [\"127.0.0.1:80\"] # here\n\n[[route]]\npool = \"web\"\n\n[[route]]\n\
        pool = \"b\"\n[pool.\"web\"] # the web\nendpoints = [\n  \"a:1\", # one [\n  'b:1',\n]\nbalance = \"random\"\n\
        [pool.b]\nendpoints = [\"c:1\"]\nretry.attempts = 2\n[pool.b.health]\ntcp = {}";

    fn web(key: &str, value: &str) -> Option<String> {
        set(TEXT, At::Named("pool", "web"), key, value)
    }

    #[test]
    fn a_key_that_is_there_is_replaced_with_all_its_lines() {
        let balanced = web("balance", "\"leastconn\"").expect("it has a header");
        assert_eq!(balanced, TEXT.replace("balance = \"random\"", "balance = \"leastconn\""));
        let moved = web("endpoints", "[\"d:1\"]").expect("it has a header");
        assert!(moved.contains("# the web\nendpoints = [\"d:1\"]\nbalance = \"random\"\n[pool.b]"), "{moved}");
    }

    #[test]
    fn a_new_key_follows_the_header() {
        let added = web("explore", "0.02").expect("it has a header");
        assert!(added.contains("[pool.\"web\"] # the web\nexplore = 0.02\nendpoints = ["), "{added}");
        assert_eq!(added.len(), TEXT.len() + "explore = 0.02\n".len());
        let second = set(TEXT, At::Nth("route", 1), "cache", "true").expect("there are two");
        assert!(second.contains("[[route]]\ncache = true\npool = \"b\""), "{second}");
        assert_eq!(set(TEXT, At::Nth("route", 2), "cache", "true"), None);
    }

    #[test]
    fn the_other_keys_of_an_inline_table_stay() {
        let text = "[pool.web]\nretry = { attempts = 2, budget = 1 } # why\nlimits = {}\nbalance = \"first\"\n";
        let inner = |key, inner, value| set_inner(text, At::Named("pool", "web"), key, inner, value);
        let budget = inner("retry", "budget", "0.2").expect("it has one");
        assert_eq!(budget, text.replace("budget = 1", "budget = 0.2"));
        assert_eq!(inner("retry", "attempts", "1").expect("it has one"), text.replace("attempts = 2", "attempts = 1"));
        let new = inner("retry", "backoff", "\"1s\"").expect("a table");
        assert_eq!(new, text.replace("{ attempts", "{ backoff = \"1s\", attempts"));
        let first = inner("limits", "x", "1").expect("a table");
        assert_eq!(first, text.replace("limits = {}", "limits = { x = 1 }"));
        assert_eq!((inner("balance", "x", "1"), inner("queue", "x", "1")), (None, None));
    }

    #[test]
    fn sections_of_their_own_are_left_alone() {
        let b = At::Named("pool", "b");
        assert_eq!(set(TEXT, b, "health", "{ tcp = {} }"), None);
        assert_eq!(set(TEXT, b, "retry", "{}"), None);
        assert_eq!(set(TEXT, At::Named("pool", "c"), "balance", "\"first\""), None);
    }

    #[test]
    fn no_text_makes_it_panic() {
        for text in [
            "",
            "[",
            "[[",
            "\"",
            "'''",
            "[pool.web]",
            "[pool.web]\n\"\\",
            "[pool.web]\na = \"x\n=\n",
            "= 1\n[pool.web]\né",
        ] {
            let _ = set(text, At::Named("pool", "web"), "a", "1");
        }
        assert_eq!(set("[pool.web]", At::Named("pool", "web"), "a", "1").as_deref(), Some("[pool.web]\na = 1\n"));
    }
}

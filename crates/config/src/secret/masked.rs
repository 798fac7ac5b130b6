//! Masking of secrets in quoted lines, since diagnostics reach logs, clients of the API and bug reports.
//! Known secrets are hidden by their spans; this covers the rest: files that cannot be parsed, and URLs.

use crate::secret::names::Vocabulary;
use std::borrow::Cow;

/// Beginnings of the hashes of passwords that lists of users may have, as they follow a name.
const HASHES: [&str; 6] = [":$2a$", ":$2b$", ":$2y$", ":$argon2id$", ":$5$", ":$6$"];

/// Position of the first hash of a password in a text, with the colon in front of it.
pub(crate) fn hash_in(text: &str) -> Option<usize> {
    HASHES.iter().filter_map(|hash| text.find(hash)).min()
}

/// Character from which the last of `lines`, of a file that is not TOML, must be masked; `None` if it holds
/// no secret.
pub(crate) fn masked_from<'t>(known: &Vocabulary, lines: impl DoubleEndedIterator<Item = &'t str>) -> Option<usize> {
    let mut lines = lines.rev();
    let line = lines.next()?;
    let above: Vec<&str> = lines.collect();
    if let Some(at) = hash_in(line) {
        return Some(line[..at].chars().count());
    }
    if let Some(from) = in_private_key(line, &above) {
        return Some(from);
    }
    // An unknown word that is set may be a misspelled key.
    let is_set = |after: &str| {
        // The padding of base64 is not an assignment.
        let value = after.trim_start().strip_prefix('=').map(str::trim);
        value.is_some_and(|value| !value.is_empty() && !value.starts_with('='))
    };
    let is_unknown = |at: usize, word: &str| !known.has(word) && is_set(&line[at..]);
    if let Some((at, _)) = words(line).find(|(at, word)| known.is_guarded(word) || is_unknown(*at, word)) {
        return Some(line[..at].chars().count());
    }
    // Continuation lines belong to the nearest key above.
    let above = if key(line).is_some() || line.trim_start().starts_with('[') {
        None
    } else {
        above.iter().copied().find_map(key)
    };
    above.filter(|key| known.is_guarded(key) || !known.has(key)).map(|_| 0)
}

/// Character from which a line is part of a private key in PEM; `None` if it is not. `above` has the lines before it, the
/// nearest first.
fn in_private_key(line: &str, above: &[&str]) -> Option<usize> {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    if let Some(at) = line.find(BEGIN).filter(|at| holds_key(&line[*at..])) {
        return Some(line[..at].chars().count());
    }
    let marker = above.iter().find(|line| line.contains(BEGIN) || line.contains(END))?;
    (marker.rfind(BEGIN) > marker.rfind(END) && holds_key(marker)).then_some(0)
}

/// Words of a line, each with the offset of its end.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    line.split(move |c| !is_word(c)).filter(|word| !word.is_empty()).map(|word| {
        let start = word.as_ptr() as usize - line.as_ptr() as usize;
        (start + word.len(), word)
    })
}

/// Last part of the key that is set on a line.
fn key(line: &str) -> Option<&str> {
    let (key, value) = line.split_once('=')?;
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '\'' | ' ' | '\t');
    // The padding of base64 is not an assignment.
    if value.trim_start_matches('=').trim().is_empty() || value.starts_with('=') || !key.chars().all(is_key) {
        return None;
    }
    key.rsplit('.').next().map(|key| key.trim().trim_matches(['"', '\'']))
}

/// True if a text has a private key in PEM, whatever its type.
pub(crate) fn holds_key(text: &str) -> bool {
    text.contains("PRIVATE KEY-----")
}

/// The text with passwords in URLs masked.
pub(crate) fn without_passwords(text: &str) -> Cow<'_, str> {
    let mut shown = Cow::Borrowed(text);
    let mut from = 0;
    while let Some(at) = shown[from..].find("://") {
        let start = from + at + 3;
        let is_end = |c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '?' | '#');
        let authority = &shown[start..];
        let authority = &authority[..authority.find(is_end).unwrap_or(authority.len())];
        from = start;
        if let Some((user, _)) = authority.rsplit_once('@')
            && let Some(colon) = user.find(':')
        {
            let (begin, end) = (start + colon + 1, start + user.len());
            let stars = "*".repeat(shown[begin..end].chars().count());
            shown.to_mut().replace_range(begin..end, &stars);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::ROOT;
    use crate::table::vocabulary;

    #[test]
    fn lines_that_cannot_be_parsed_are_masked_from_the_key_on() {
        let known = vocabulary(&ROOT);
        let from = |text: &str| masked_from(&known, text.lines());
        assert_eq!(from("secret = hunter2"), Some(6));
        assert_eq!(from("sticky = { \u{e9}, secret: hunter2"), Some(20));
        assert_eq!(from("bind = hunter2"), None);
        assert_eq!(from("key = '-----BEGIN PRIVATE KEY-----\\nhunter2"), Some(7));
        assert_eq!(from("key = '''\n-----BEGIN EC PRIVATE KEY-----\nMIIE\nhunter2"), Some(0));
        assert_eq!(from("cert = '''\n-----BEGIN CERTIFICATE-----\nMIIE\nabc"), None);
        assert_eq!(from("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nbind = x"), None);
        assert_eq!(from("users = 'ann:$2y$05$hunter2"), Some(12));
        assert_eq!(from("[listener.web]\nbind = x"), None);
        assert_eq!(from("sekret = hunter2"), Some(6));
        assert_eq!(from("http = { write_token = hunter2"), Some(20));
        for rest in ["hunter2\nbattery", "hunter2\nYWJjZA==", "hunter2\nYWJjZA= "] {
            assert_eq!(from(&format!("secret = \"\"\"\n{rest}")), Some(0), "{rest}");
        }
        assert_eq!(from("secret = 'x'\nbind = y"), None);
        assert_eq!(from("secret = 'x'\n[pool.web"), None);
    }

    #[test]
    fn urls_lose_their_passwords() {
        for (text, want) in [
            ("http://a:b@c/d", "http://a:*@c/d"),
            ("\"http://a:b:@c\" and https://user:p\u{e4}ss@h:1", "\"http://a:**@c\" and https://user:****@h:1"),
            ("http://a:80/b@c", "http://a:80/b@c"),
            ("http://user@host", "http://user@host"),
            ("no url: a@b", "no url: a@b"),
        ] {
            assert_eq!(without_passwords(text), want);
        }
    }
}

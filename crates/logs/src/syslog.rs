//! Fronts that log daemons and containers put before a line.

use crate::date;

/// Line without the front of a syslog daemon (RFC 3164, RFC 5424, or as rsyslog writes files) or of a Kubernetes node.
/// Lines without such a front are returned unchanged.
pub fn strip(line: &[u8]) -> &[u8] {
    match line.first() {
        Some(b'<') => after_priority(line).unwrap_or(line),
        Some(b'A'..=b'S') => after_month(line).unwrap_or(line),
        Some(b'1'..=b'9') => after_date(line).unwrap_or(line),
        _ => line,
    }
}

/// Text behind `<134>`, and behind the header that follows.
fn after_priority(line: &[u8]) -> Option<&[u8]> {
    let end = line.iter().take(6).position(|b| *b == b'>')?;
    let is_priority = end > 1 && line[1..end].iter().all(u8::is_ascii_digit);
    let rest = is_priority.then_some(&line[end + 1..])?;
    if let Some(rest) = rest.strip_prefix(b"1 ") {
        return after_header(rest);
    }
    Some(after_month(rest).or_else(|| after_date(rest)).or_else(|| after_tag(rest)).unwrap_or(rest))
}

/// Message behind the header of RFC 5424: time, host, application, process, kind, and structured data.
fn after_header(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    for _ in 0..5 {
        rest = after_word(rest)?;
    }
    if rest.first() != Some(&b'[') {
        return Some(bare(rest.strip_prefix(b"- ")?));
    }
    // Values are quoted, and a backslash keeps the quote from ending them.
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, &b) in rest.iter().enumerate() {
        match b {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b']' if !is_quoted && rest.get(at + 1) == Some(&b' ') => return Some(bare(&rest[at + 2..])),
            _ => {}
        }
    }
    None
}

/// Message without the mark of UTF-8.
fn bare(message: &[u8]) -> &[u8] {
    message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message)
}

/// Text behind `Nov 20 10:00:00 host haproxy[123]: `.
fn after_month(line: &[u8]) -> Option<&[u8]> {
    let (front, rest) = line.split_at_checked(16)?;
    date::month(&front[..3])?;
    let is_front = [front[3], front[6], front[9], front[12], front[15]] == *b"  :: ";
    is_front.then(|| after_host(rest))?
}

/// Text behind `2026-11-20T10:00:00.123+00:00 host haproxy[123]: `, or behind `2026-11-20T10:00:00.123Z stdout F `.
fn after_date(line: &[u8]) -> Option<&[u8]> {
    let end = line.iter().take(40).position(|b| *b == b' ')?;
    date::iso(&line[..end])?;
    let rest = &line[end + 1..];
    if let Some(rest) = rest.strip_prefix(b"stdout ").or_else(|| rest.strip_prefix(b"stderr ")) {
        return rest.strip_prefix(b"F ");
    }
    after_host(rest)
}

/// Text behind a tag, with a host before it or not.
fn after_host(text: &[u8]) -> Option<&[u8]> {
    after_tag(text).or_else(|| after_tag(after_word(text)?))
}

/// Text behind `haproxy[123]: `.
fn after_tag(text: &[u8]) -> Option<&[u8]> {
    let at = memchr::memchr(b' ', text)?;
    let tag = text[..at].strip_suffix(b":")?;
    let name = tag.split(|b| *b == b'[').next()?;
    let is_name = !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(b));
    is_name.then_some(&text[at + 1..])
}

fn after_word(text: &[u8]) -> Option<&[u8]> {
    let at = memchr::memchr(b' ', text).filter(|at| *at > 0)?;
    Some(&text[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fronts_of_log_daemons_are_removed() {
        for front in [
            "<134>Nov 20 10:00:00 haproxy[123]: ",
            "<134>Nov  2 10:00:00 host haproxy[123]: ",
            "Nov 20 10:00:00 host.example nginx: ",
            "Nov  2 10:00:00 localhost haproxy[123]: ",
            "2026-11-20T10:00:00.123456+00:00 host haproxy[123]: ",
            "2026-11-20T10:00:00.123456789Z stdout F ",
            "<165>1 2026-11-20T10:00:00.003Z host haproxy 123 - - ",
            "<165>1 2026-11-20T10:00:00.003Z host evenkeel 123 access [a@1 b=\"x]\\\"] y\"][c d=\"e\"] \u{feff}",
            "<134>haproxy: ",
            "",
        ] {
            for message in ["10.0.0.1:1 [20/Nov/2026:10:00:00.000] a b/c 1/2/3", "{\"a\":1}", "10.0.0.1 - - [x]"] {
                let line = format!("{front}{message}");
                assert_eq!(strip(line.as_bytes()), message.as_bytes(), "{line}");
            }
        }
    }

    #[test]
    fn other_lines_stay_unchanged() {
        for line in [
            "",
            "<",
            "<134>",
            "<x>a b",
            "Nov 20",
            "2026-11-20T10:00:00Z 10.0.0.1 GET /",
            "https 2026-11-20",
            "<165>1 a b",
            "A",
        ] {
            assert!(line.as_bytes().ends_with(strip(line.as_bytes())), "{line}");
        }
        let line = b"2026-11-20T10:00:00Z 10.0.0.1 200 12";
        assert_eq!(strip(line), line);
    }
}

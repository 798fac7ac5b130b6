//! Statuses: `503`, `500..=504`, or `5xx` for a whole class.

use super::misfit::Misfit;
use crate::code::Code;
use crate::tree::quoted;
use std::ops::RangeInclusive;

/// Parses a status or range that lies within `within`.
pub(super) fn read(text: &str, within: RangeInclusive<u16>) -> Result<RangeInclusive<u16>, Misfit> {
    let bad = |why: &str, help: String| {
        Err(Misfit::new(Code::BadStatus, format!("{} is not a status: {why}", quoted(text)), help))
    };
    let range = text.split_once("..=").or_else(|| text.split_once('-'));
    let (first, last) = match (text.strip_suffix("xx"), range) {
        (Some(class), _) => (number(&format!("{class}00")), number(&format!("{class}99"))),
        (None, Some((first, last))) => (number(first), number(last)),
        (None, None) => (number(text), number(text)),
    };
    let (Some(first), Some(last)) = (first, last) else {
        let half_open = text.contains("..") && !text.contains("..=");
        return match half_open.then(|| text.replace("..", "..=")) {
            Some(closed) => bad("its end is left open", format!("write {}: the last one counts too", quoted(&closed))),
            None => bad("it has no three digits", "write \"503\", \"500..=504\" or \"5xx\"".to_string()),
        };
    };
    if first > last {
        return bad("it ends before it begins", format!("write \"{last}..={first}\""));
    }
    if !within.contains(&first) || !within.contains(&last) {
        return bad("it is out of range", format!("allowed: {} to {}", within.start(), within.end()));
    }
    Ok(first..=last)
}

/// Parses a status or range of final responses; `None` if it is not a status.
pub(crate) fn range(text: &str) -> Option<RangeInclusive<u16>> {
    read(text, 200..=599).ok()
}

fn number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit()))
}

/// Formats a range as [`read`] accepts it.
pub(crate) fn written(range: &RangeInclusive<u16>) -> String {
    match range.start() == range.end() {
        true => range.start().to_string(),
        false => format!("\"{}..={}\"", range.start(), range.end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_one_status_a_range_and_a_class() {
        assert_eq!(read("503", 400..=599), Ok(503..=503));
        assert_eq!(read("500..=504", 400..=599), Ok(500..=504));
        assert_eq!(read("500-504", 400..=599), Ok(500..=504));
        assert_eq!(read("2xx", 200..=599), Ok(200..=299));
        for (text, help) in [
            ("", "\"503\""),
            ("ok", "\"503\""),
            ("50", "\"503\""),
            ("+50", "\"503\""),
            ("55xx", "\"503\""),
            ("500..504", "\"500..=504\""),
            ("504..=500", "\"500..=504\""),
            ("2xx", "400 to 599"),
            ("500..=600", "400 to 599"),
        ] {
            let misfit = read(text, 400..=599).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        assert_eq!(written(&(503..=503)), "503");
        assert_eq!(written(&(500..=599)), "\"500..=599\"");
    }
}

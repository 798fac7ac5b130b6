//! Directives of HAProxy that have no counterpart. Each row has the words of a directive and its treatment.

// Order: process, sections & fate
mod fate;
mod process;
mod sections;

pub(super) use fate::Fate;
use process::GLOBAL;
use sections::{PROXY, SECTIONS};

/// Looks up a directive by its first words, the most of them first; a row that ends in `-` or `.` is a beginning. Actions of
/// other kinds of rules without a row are read as actions of `http-request`.
pub(super) fn fate(section: &str, words: &[String]) -> Option<Fate> {
    let rows = if section == "global" { GLOBAL } else { PROXY };
    let text = |words: &[&str]| words.iter().take(3).copied().collect::<Vec<_>>().join(" ");
    let find = |text: &str| {
        let fits = |row: &str| {
            let open = row.ends_with(['-', '.']);
            text.strip_prefix(row).is_some_and(|rest| open || rest.is_empty() || rest.starts_with([' ', '(']))
        };
        rows.iter().filter(|(row, _)| fits(row)).max_by_key(|(row, _)| row.len()).map(|(_, fate)| *fate)
    };
    let words: Vec<&str> = words.iter().take(4).map(String::as_str).collect();
    find(&text(&words)).or_else(|| match words.as_slice() {
        ["tcp-request", "connection" | "session" | "content", action, ..]
        | ["tcp-response", "content", action, ..]
        | ["http-response" | "http-after-response", action, ..] => find(&text(&["http-request", action])),
        _ => None,
    })
}

/// Treatment of a section that has no counterpart.
pub(super) fn of_section(kind: &str) -> Option<Fate> {
    SECTIONS.iter().find(|(name, _)| *name == kind).map(|(_, fate)| *fate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_has_one_row() {
        for rows in [GLOBAL, PROXY, SECTIONS] {
            for (at, (row, _)) in rows.iter().enumerate() {
                assert!(rows[at + 1..].iter().all(|(other, _)| other != row), "{row}");
            }
        }
    }
}

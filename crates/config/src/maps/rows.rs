//! Files of maps. A file whose name ends in `.csv` has two columns with a comma between them, either of which may be
//! quoted (RFC 4180). Any other file has a key, white space and a value on each line, as HAProxy reads it.

use super::faults::{MapFaults, shown};
use std::borrow::Cow;

/// Largest file, in bytes: a million rows have 256 of them each.
pub const MAP_FILE_MAX: usize = 256 << 20;

/// Key with its value, as a file or the configuration has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapRow<'t> {
    pub key: Cow<'t, [u8]>,
    pub value: Cow<'t, [u8]>,
    /// Line in its file, or number within the configuration; from 1.
    pub line: usize,
}

/// Reads the rows of a file. Empty lines, and lines that begin with `#`, are ignored.
///
/// # Errors
/// Lines without a value, and malformed quotes.
pub fn file_rows<'t>(name: &str, text: &'t [u8]) -> Result<Vec<MapRow<'t>>, MapFaults> {
    let is_csv = name.to_ascii_lowercase().ends_with(".csv");
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let (mut rows, mut faults) = (Vec::new(), MapFaults::default());
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let columns = if is_csv { columns(line) } else { words(line) };
        match columns {
            Some((key, value)) => rows.push(MapRow { key, value, line: at + 1 }),
            None if is_csv => faults.add(
                at + 1,
                format!("{} does not have two columns", shown(&line[..line.len().min(64)])),
                "write KEY,VALUE; a column with a comma goes in double quotes",
            ),
            None => faults.add(
                at + 1,
                format!("{} has no value", shown(&line[..line.len().min(64)])),
                "write a key, a space and a value; name the file .csv if a comma separates them",
            ),
        }
    }
    if faults.first.is_empty() { Ok(rows) } else { Err(faults) }
}

type Columns<'t> = (Cow<'t, [u8]>, Cow<'t, [u8]>);

/// Key and value with white space between them.
fn words(line: &[u8]) -> Option<Columns<'_>> {
    let end = line.iter().position(u8::is_ascii_whitespace)?;
    Some((line[..end].into(), line[end..].trim_ascii().into()))
}

/// Two columns with a comma between them.
fn columns(line: &[u8]) -> Option<Columns<'_>> {
    let (key, rest) = column(line)?;
    let (value, rest) = column(rest.strip_prefix(b",")?)?;
    rest.is_empty().then_some((key, value))
}

/// A column, and the line behind it.
fn column(line: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let line = line.trim_ascii_start();
    let Some(mut rest) = line.strip_prefix(b"\"") else {
        let end = line.iter().position(|byte| *byte == b',').unwrap_or(line.len());
        return Some((line[..end].trim_ascii().into(), &line[end..]));
    };
    let mut text = Vec::new();
    loop {
        let end = rest.iter().position(|byte| *byte == b'"')?;
        text.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        // Two quotes are a quote.
        match rest.strip_prefix(b"\"") {
            Some(more) => {
                text.push(b'"');
                rest = more;
            }
            None => return Some((text.into(), rest.trim_ascii_start())),
        }
    }
}

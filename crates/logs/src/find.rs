//! The format of given lines: the format that reads most of them, and of those the format that learns most.

use crate::fault::Fault;
use crate::formats::{Format, ROWS, Row};
use crate::request::Request;
use std::fmt;

/// Share of the lines that a format must read: logs also have notices, and lines that were cut.
const READ_MIN: f64 = 0.5;

/// Formats whose shares of read lines differ by less are compared by the values that they find.
const SAME: f64 = 0.1;

/// Format of given lines, with its rivals.
#[derive(Debug)]
pub struct Found {
    pub format: Format,
    /// Share of the lines that it reads.
    pub read: f64,
    /// Other formats that read as many lines and find as many values.
    pub rivals: Vec<&'static Row>,
}

/// Result of a format on the lines.
#[derive(Clone, Copy, Debug)]
struct Score {
    read: f64,
    /// Mean number of values that a read line has.
    values: f64,
}

/// Error if no format reads the lines.
#[derive(Clone, Debug, PartialEq)]
pub struct NotFound {
    /// Number of lines that were tried.
    lines: usize,
    /// Format that reads most of them, and its share.
    nearest: Option<(&'static str, f64)>,
    /// First line of the log, cut.
    first: String,
    /// True for notices of HAProxy, which it writes for each connection without `option httplog`.
    is_notices: bool,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotFound { lines, nearest, first, is_notices } = self;
        if *lines == 0 {
            return f.write_str("no line to find a format by");
        }
        write!(f, "no format reads half of the first {lines} lines")?;
        if let Some((name, read)) = nearest {
            write!(f, "; \"{name}\" reads {:.0} %", 100.0 * read)?;
        }
        write!(f, ". The first line is: {first}")?;
        match is_notices {
            true => f.write_str("\nHAProxy writes requests with `option httplog`, and sessions with `option tcplog`"),
            false => Ok(()),
        }
    }
}

impl std::error::Error for NotFound {}

/// Finds the format of the lines.
///
/// # Errors
/// If no format reads half of them.
pub fn find(lines: &[&[u8]]) -> Result<Found, NotFound> {
    let mut all: Vec<(&'static Row, Score)> = Vec::new();
    for row in ROWS {
        all.push((row, score(&Format::of(row), lines)));
    }
    let most = all.iter().map(|(_, score)| score.read).fold(0.0, f64::max);
    if most < READ_MIN {
        let nearest = all.iter().find(|(_, score)| score.read == most && most > 0.0);
        let first = lines.first().map(|line| excerpt(line)).unwrap_or_default();
        let nearest = nearest.map(|(row, _)| (row.name, most));
        return Err(NotFound { lines: lines.len(), nearest, first, is_notices: are_notices(lines) });
    }
    all.retain(|(_, score)| score.read > most - SAME);
    let richest = all.iter().map(|(_, score)| score.values).fold(0.0, f64::max);
    all.retain(|(_, score)| score.values == richest);
    let mut rest = all.into_iter();
    let (row, Score { read, .. }) = rest.next().unwrap_or((&ROWS[0], Score { read: 0.0, values: 0.0 }));
    Ok(Found { format: Format::of(row), read, rivals: rest.map(|(row, _)| row).collect() })
}

/// True if most lines are notices of HAProxy.
fn are_notices(lines: &[&[u8]]) -> bool {
    let Some(row) = ROWS.iter().find(|row| row.name == "httplog") else { return false };
    let format = Format::of(row);
    let is_notice = |line: &&&[u8]| format.read(line, &mut Request::default()) == Err(Fault::Notice);
    2 * lines.iter().filter(is_notice).count() > lines.len()
}

/// Start of a line, as text for messages.
pub(crate) fn excerpt(line: &[u8]) -> String {
    const LENGTH: usize = 120;
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * LENGTH)]);
    let mut out: String = text.chars().take(LENGTH).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    out.push_str(if text.chars().count() > LENGTH { "..." } else { "" });
    out
}

fn score(format: &Format, lines: &[&[u8]]) -> Score {
    let (mut read, mut values) = (0, 0);
    let mut request = Request::default();
    for line in lines {
        if format.read(line, &mut request).is_ok() {
            read += 1;
            values += known(&request);
        }
    }
    Score { read: f64::from(read) / lines.len().max(1) as f64, values: f64::from(values) / f64::from(read.max(1)) }
}

/// Number of values that a request has.
fn known(request: &Request<'_>) -> u32 {
    let tries =
        request.tries.kept().iter().map(|one| {
            [one.connect, one.ttfb, one.took].iter().flatten().count() + usize::from(one.endpoint.is_some())
        });
    let texts = [
        request.listener,
        request.route,
        request.pool,
        request.method,
        request.host,
        request.path,
        request.client,
        request.term,
    ];
    let spans = [request.head, request.queue, request.ttfb, request.total];
    let times = [request.arrived, request.ended];
    let numbers = [request.status.map(u64::from), request.bytes_in, request.bytes_out, request.retries.map(u64::from)];
    let count = texts.iter().flatten().count()
        + spans.iter().flatten().count()
        + times.iter().flatten().count()
        + numbers.iter().flatten().count()
        + tries.sum::<usize>();
    count as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_that_learns_most_is_found() {
        let combined = r#"10.0.0.9 - - [20/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 612 "-" "curl/8""#;
        let added = format!("{combined} rt=0.1 ua=\"10.0.0.1:80\" urt=\"0.1\"");
        let traefik = format!("{combined} 7 \"web@file\" \"http://10.0.0.1:80\" 12ms");
        for (line, name, rivals) in [
            (combined, "combined", 1),
            (added.as_str(), "combined", 0),
            (traefik.as_str(), "traefik-clf", 0),
            ("10.0.1.2:3 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/1/5007 212 -- 0/0/0/0/3 0/0", "tcplog", 0),
        ] {
            let found = find(&[line.as_bytes()]).unwrap();
            assert_eq!((found.format.row.name, found.rivals.len()), (name, rivals), "{line}");
        }
    }

    #[test]
    fn some_lines_may_be_of_no_format() {
        let line = b"10.0.1.2:3 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/1/5007 212 -- 0/0/0/0/3 0/0".as_slice();
        let notice = b"Server bck/srv1 is DOWN".as_slice();
        assert_eq!(find(&[notice, line, line]).unwrap().format.row.name, "tcplog");
        let error = find(&[notice, notice, line]).unwrap_err().to_string();
        assert!(error.contains("\"tcplog\" reads 33 %") && error.contains("Server bck"), "{error}");
        let connect = b"Nov 20 10:00:00 lb haproxy[9]: Connect from 10.0.1.2:3 to 10.0.3.31:80 (www/HTTP)".as_slice();
        assert!(find(&[connect]).unwrap_err().to_string().contains("option httplog"));
        assert!(find(&[]).unwrap_err().to_string().contains("no line"));
    }
}

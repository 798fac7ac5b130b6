//! Results of commands on standard output. Everything else is on standard error.

use crate::failure::Failure;
use evenkeel_config::printable::printable;
use std::io::Write;

/// Rows below their headers, each column as wide as its widest cell.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([header[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect::<Vec<_>>();
        format!("  {}\n", padded.join("  ").trim_end())
    };
    let mut text = line(&mut header.iter().copied());
    rows.iter().for_each(|row| text += &line(&mut row.iter().map(String::as_str)));
    text
}

/// Prints to standard output. A reader that has seen enough (`| head`) is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    print_more(text).map(drop)
}

/// Prints like [`print`]; true if there still is a reader. Characters that would move the cursor are replaced, as clients may
/// send any.
pub fn print_more(text: &str) -> Result<bool, Failure> {
    print_as_it_is(&printable(text, &['\n', '\t']))
}

/// Prints like [`print_more`], with every character: for files, and for control sequences.
pub fn print_as_it_is(text: &str) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::running(format!("cannot write to standard output: {error}"))),
    }
}

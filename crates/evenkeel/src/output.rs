//! Results of commands on standard output. Everything else is on standard error.

use crate::failure::Failure;
use evenkeel_config::printable::printable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::Write;
use std::os::fd::AsFd;

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

/// True until standard output has no reader any more: a pipe is closed, or a terminal is gone.
pub fn has_reader() -> bool {
    !loses_other_end(std::io::stdout(), Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
}

/// Waits until the other end of a pipe is closed, or a terminal is gone; returns false if the time is over, or if the
/// kernel does not report it.
pub fn loses_other_end(fd: impl AsFd, limit: Option<&Timespec>) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::empty())];
    let polled = rustix::io::retry_on_intr(|| poll(&mut fds, limit));
    polled.is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
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

//! A log of any length: the lines of a simulated system over and over, each time later.

use super::case::{Arrivals, Law, More, Row, Sharing};
use super::entry::Entry;
use super::lines::Format;
use crate::error::{Result, While};
use std::io::Write;

/// Twelve endpoints with eight cores each: 2,240 requests a second, so that 10 million lines are 75 minutes.
const ROW: Row = Row {
    name: "long",
    endpoints: &[(8, 1.0); 12],
    sharing: Sharing::Fifo,
    law: Law::Exponential,
    load: 0.7,
    arrivals: Arrivals::Poisson,
    policy: "leastconn",
    format: Format::Haproxy,
    requests: 100_000,
    more: More::Nothing,
    quick: false,
};

/// Lines that are formatted at once.
const LINES_AT_ONCE: usize = 1_000;

/// Writes so many lines of `option httplog`.
///
/// # Errors
/// If the output cannot be written.
pub fn write(lines: u64, out: &mut impl Write) -> Result<()> {
    let (mut entries, period_ns) = round();
    let (mut left, mut number) = (lines, 0);
    while left > 0 {
        let shift = |of: &mut Entry| {
            of.shift_ns = (number * period_ns) as i64 - if wraps(of, period_ns) { period_ns as i64 } else { 0 }
        };
        entries.iter_mut().for_each(shift);
        // Requests that end in the next round have no line before it.
        let due =
            if number == 0 { entries.iter().filter(|of| !wraps(of, period_ns)).cloned().collect() } else { Vec::new() };
        for part in if number == 0 { &due } else { &entries }.chunks(LINES_AT_ONCE) {
            let part = &part[..part.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            out.write_all(ROW.format.write(part).as_bytes()).or_say(|| "cannot write lines".to_owned())?;
            left -= part.len() as u64;
        }
        number += 1;
    }
    out.flush().or_say(|| "cannot write lines".to_owned())
}

/// Entries of a round, in the order of their ends when rounds follow each other, and the length of a round.
fn round() -> (Vec<Entry>, u64) {
    let case = ROW.case();
    let (_, log) = case.log();
    let mut entries = case.entries(&log);
    let last = entries.iter().map(|of| of.arrived_ns).max().unwrap_or(0);
    let period_ns = last + last / ROW.requests;
    entries.sort_by_key(|of| of.ended_ns() % period_ns);
    (entries, period_ns)
}

/// True if a request ends in the round after its arrival.
fn wraps(of: &Entry, period_ns: u64) -> bool {
    of.ended_ns() >= period_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_so_many_lines_and_rounds_follow_each_other() {
        let mut text = Vec::new();
        write(ROW.requests + 1_500, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().count() as u64, ROW.requests + 1_500);
        let second = |line: &str| {
            let (_, at) = line.split_once("[30/Nov/2026:10:").expect("it begins at ten");
            let seconds: f64 = at[3..9].parse().expect("seconds");
            60.0 * at[..2].parse::<f64>().expect("minutes") + seconds
        };
        let seconds: Vec<f64> = text.lines().map(second).collect();
        // Lines are in the order of ends, and no request takes a second.
        assert!(seconds.windows(2).all(|pair| pair[1] > pair[0] - 1.0));
        assert!(seconds[seconds.len() - 1] > ROW.requests as f64 / 2_300.0);
    }
}

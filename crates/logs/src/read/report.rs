//! Result of reading logs: counts, lines that are not requests, and files that ended early.

use crate::coverage::Coverage;
use crate::fault::Fault;
use std::collections::BTreeMap;

/// Bad lines that are kept with their text.
const KEPT_MAX: usize = 10;

/// Line that is not a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Position of its file among the sources, from 0.
    pub file: usize,
    /// Number of the line in its file, from 1.
    pub line: u64,
    pub fault: Fault,
    /// Start of the line, up to 120 characters.
    pub excerpt: String,
}

/// File that could not be read to its end, such as an archive that was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub file: usize,
    pub error: String,
}

/// Counts of lines and requests over all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lines that are not empty.
    pub lines: u64,
    pub coverage: Coverage,
    /// Bad lines by their fault.
    pub faults: BTreeMap<Fault, u64>,
    /// First bad lines, at most ten.
    pub bad: Vec<Bad>,
    pub cut: Vec<Cut>,
}

impl Report {
    /// Number of lines that are not requests.
    pub fn bad_lines(&self) -> u64 {
        self.faults.values().sum()
    }

    #[cold]
    pub(super) fn add_bad(&mut self, file: usize, line: u64, fault: Fault, text: &[u8]) {
        *self.faults.entry(fault).or_default() += 1;
        if self.bad.len() < KEPT_MAX {
            self.bad.push(Bad { file, line, fault, excerpt: crate::find::excerpt(text) });
        }
    }
}

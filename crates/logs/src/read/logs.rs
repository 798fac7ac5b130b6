//! Sources of logs, and their requests one after the other.

use super::decoded::decoded;
use super::lines::{Line, Lines};
use super::report::{Cut, Report};
use crate::fault::Fault;
use crate::find::{Found, NotFound, find};
use crate::formats::{Format, Unreadable};
use crate::request::Request;
use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::rc::Rc;

/// Lines that the format is found by.
const SAMPLE: usize = 200;

/// File or stream that a log is read from.
pub enum Source {
    File(PathBuf),
    Stdin,
    /// Any reader, with a name for messages.
    Reader(Box<dyn Read>, String),
}

impl Source {
    /// Source by an argument: `-` is standard input.
    pub fn of(argument: &str) -> Source {
        if argument == "-" { Source::Stdin } else { Source::File(argument.into()) }
    }
}

/// Logs that are open, with their format.
pub struct Logs {
    files: Vec<Opened>,
    found: Found,
    /// Bytes of all files; `None` if one has no known length.
    total: Option<u64>,
}

struct Opened {
    name: String,
    lines: Lines,
    read: Rc<Cell<u64>>,
}

/// Position of a request in the logs, and the progress of reading.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Position of the file among the sources, from 0.
    pub file: usize,
    /// Number of the line in the file, from 1.
    pub line: u64,
    /// Bytes of files that were read, before decompression.
    pub read: u64,
    /// Bytes of all files; `None` with standard input.
    pub total: Option<u64>,
}

/// Error of opening logs, or of finding their format.
#[derive(Debug)]
pub enum OpenError {
    /// Name of the file, and the error.
    Io(String, io::Error),
    Format(Unreadable),
    NotFound(NotFound),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Io(name, error) => write!(f, "{name}: {error}"),
            OpenError::Format(error) => error.fmt(f),
            OpenError::NotFound(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io(_, error) => Some(error),
            OpenError::Format(error) => Some(error),
            OpenError::NotFound(error) => Some(error),
        }
    }
}

impl Logs {
    /// Opens all sources. `format`: see [`Format::named`]; without it, the format is found by the first lines of the
    /// first source that has lines. `demand`: see [`Format::with_demand`].
    ///
    /// # Errors
    /// If a source cannot be opened, or the format is not found.
    pub fn open(sources: Vec<Source>, format: Option<&str>, demand: Option<&str>) -> Result<Logs, OpenError> {
        let mut total = Some(0);
        let mut files = Vec::new();
        for source in sources {
            let (file, length) = open(source)?;
            total = total.zip(length).map(|(total, length)| total + length);
            files.push(file);
        }
        let mut found = match format {
            Some(text) => {
                let format = Format::named(text).map_err(OpenError::Format)?;
                Found { format, read: 1.0, rivals: Vec::new() }
            }
            None => find_in(&mut files)?,
        };
        if let Some(name) = demand {
            found.format = found.format.with_demand(name).map_err(OpenError::Format)?;
        }
        Ok(Logs { files, found, total })
    }

    /// Format of the logs, as named or found.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Names of the sources, for positions.
    pub fn names(&self) -> Vec<String> {
        self.files.iter().map(|file| file.name.clone()).collect()
    }

    /// Reads all requests, in the order of the lines, until `each` breaks. Lines that are not requests, and errors of
    /// reading, are counted in the report.
    pub fn read(self, mut each: impl FnMut(&Request<'_>, Place) -> ControlFlow<()>) -> Report {
        let Logs { files, found, total } = self;
        let mut report = Report::default();
        let mut before = 0;
        for (file, Opened { mut lines, read, .. }) in files.into_iter().enumerate() {
            loop {
                let text = match lines.next() {
                    Ok(None) => break,
                    Ok(Some(Line::At(range))) => lines.text(range),
                    Ok(Some(Line::TooLong)) => {
                        report.lines += 1;
                        report.add_bad(file, lines.number, Fault::TooLong, b"");
                        continue;
                    }
                    Err(error) => {
                        report.cut.push(Cut { file, error: error.to_string() });
                        break;
                    }
                };
                report.lines += 1;
                let line = lines.number;
                let mut request = Request::default();
                if let Err(fault) = found.format.read(text, &mut request) {
                    report.add_bad(file, line, fault, text);
                    continue;
                }
                report.coverage.add(&request);
                let place = Place { file, line, read: before + read.get(), total };
                if each(&request, place).is_break() {
                    return report;
                }
            }
            before += read.get();
        }
        report
    }
}

/// Opens a source, and returns its length in bytes if it is known.
fn open(source: Source) -> Result<(Opened, Option<u64>), OpenError> {
    let read = Rc::new(Cell::new(0));
    let (name, text, length) = match source {
        Source::File(path) => {
            let name = path.display().to_string();
            let failed = |error| OpenError::Io(name.clone(), error);
            let file = File::open(&path).map_err(failed)?;
            let kind = file.metadata().map_err(failed)?;
            if kind.is_dir() {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            let length = kind.is_file().then_some(kind.len());
            (name.clone(), decoded(file, Rc::clone(&read)).map_err(failed)?, length)
        }
        Source::Stdin => {
            let name = "standard input".to_string();
            let text = decoded(io::stdin(), Rc::clone(&read)).map_err(|error| OpenError::Io(name.clone(), error))?;
            (name, text, None)
        }
        Source::Reader(reader, name) => {
            let text = decoded(reader, Rc::clone(&read)).map_err(|error| OpenError::Io(name.clone(), error))?;
            (name, text, None)
        }
    };
    Ok((Opened { name, lines: Lines::new(text), read }, length))
}

/// Finds the format by the first file that has lines.
fn find_in(files: &mut [Opened]) -> Result<Found, OpenError> {
    for Opened { lines, .. } in files {
        let sample = lines.peek(SAMPLE);
        if !sample.is_empty() {
            return find(&sample).map_err(OpenError::NotFound);
        }
    }
    find(&[]).map_err(OpenError::NotFound)
}

//! Files of routes that are read again when they have changed.

#![expect(clippy::disallowed_types, reason = "taken when files are read, never by workers")]

use evenkeel_config::Subject;
use evenkeel_runtime::Diagnostic;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Files that are read together, as they were when they were looked at and when they were read.
#[derive(Debug)]
pub struct WatchedFiles {
    files: Vec<PathBuf>,
    looked: Mutex<Looked>,
}

#[derive(Debug)]
struct Looked {
    seen: Vec<Stamp>,
    read: Vec<Stamp>,
}

/// Identity and state of a file, or the error of looking at it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp(Result<(u64, u64, u64, i64, i64), io::ErrorKind>);

impl WatchedFiles {
    /// Notes the state of files that are about to be read.
    pub fn new(files: Vec<PathBuf>) -> WatchedFiles {
        let stamps: Vec<Stamp> = files.iter().map(|file| Stamp::of(file)).collect();
        WatchedFiles { files, looked: Mutex::new(Looked { seen: stamps.clone(), read: stamps }) }
    }

    /// True if there are no files to look at.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// True if the files are as they were when they were read.
    pub fn are_as_read(&self) -> bool {
        let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        self.files.iter().map(|file| Stamp::of(file)).eq(looked.read.iter().cloned())
    }

    /// Calls `read` if files have changed and then stayed the same between two calls: files that are still being
    /// written are not read yet.
    pub fn look(&self, read: impl FnOnce()) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps: Vec<Stamp> = self.files.iter().map(|file| Stamp::of(file)).collect();
        let is_settled = looked.seen == stamps;
        looked.seen.clone_from(&stamps);
        if is_settled && looked.read != stamps {
            read();
            looked.read = stamps;
        }
    }
}

impl fmt::Display for WatchedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, file) in self.files.iter().enumerate() {
            write!(f, "{}{}", if n == 0 { "" } else { ", " }, file.display())?;
        }
        Ok(())
    }
}

impl Stamp {
    fn of(path: &Path) -> Stamp {
        let metadata = fs::metadata(path).map_err(|error| error.kind());
        Stamp(metadata.map(|m| (m.dev(), m.ino(), m.len(), m.ctime(), m.ctime_nsec())))
    }
}

/// Reads a file of at most `max` bytes. From a longer file it reads `max` + 1 bytes, so that the caller notices.
///
/// # Errors
/// The file and the reason why it cannot be read.
pub fn read(path: &Path, max: usize) -> Result<Vec<u8>, String> {
    let text = || {
        // Opening a pipe would wait for its other end.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut text = Vec::new();
        File::open(path)?.take(max as u64 + 1).read_to_end(&mut text)?;
        Ok(text)
    };
    text().map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Reports a list of networks or users that cannot be read.
pub fn no_list(of: Subject, problem: String) -> Diagnostic {
    Diagnostic::Machine {
        problem,
        help: Some(
            "a list of networks has a network or an address on each line, and one of users NAME:HASH, as htpasswd -B writes \
             it; the user that runs evenkeel must be able to read it"
                .to_string(),
        ),
        of: vec![of],
    }
}

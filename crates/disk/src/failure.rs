//! Failures of the disk in plain words, with the path and a remedy.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Reason why the tier cannot be used. The cache continues in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    /// Describes a failed call. `what`: the action that was tried, as "create".
    pub fn of(what: &str, path: &Path, error: &io::Error) -> Failure {
        let remedy = match error.kind() {
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                "remove the symbolic link, or set the folder that it points to"
            }
            ErrorKind::NotFound => "create the folder",
            ErrorKind::PermissionDenied => "allow the user of evenkeel to write there",
            ErrorKind::ReadOnlyFilesystem => "mount it writable, or set another folder",
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free room there, or set a smaller size",
            ErrorKind::FileTooLarge => "raise the limit for the size of files (ulimit -f), or set a smaller size",
            ErrorKind::NotADirectory => "set a folder",
            _ => "the kernel log may have the cause",
        };
        Failure(format!("cannot {what} {}: {}; {remedy}", path.display(), reason(error)))
    }
}

/// Text of an error without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

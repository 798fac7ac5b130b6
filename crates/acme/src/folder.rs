//! The folder of an authority: the account, and each certificate with its key in a single file, so that both change at
//! once. Only the user of the process can read it, and only a single process at a time uses it.

use crate::failed::{Cause, Failed};
use evenkeel_config::Disk;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The folder of an authority, locked by this process.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Holds the `flock`, which the kernel releases even after a crash.
    _lock: File,
}

impl Folder {
    /// Opens and locks a folder, creating it if needed. `None` while another process has the lock.
    ///
    /// # Errors
    /// The folder cannot be created or written to.
    pub fn open(path: &Path) -> Result<Option<Folder>, Failed> {
        let cannot = |error: io::Error| failed(path, &error);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(cannot)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path.join("lock"))
            .map_err(cannot)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Folder { path: path.into(), _lock: lock })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(cannot(error.into())),
        }
    }

    /// Reads a file; `None` if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Failed> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, &error)),
        }
    }

    /// Replaces a file atomically: readers see the old content or the new, even after a crash.
    ///
    /// # Errors
    /// The file cannot be written. The old file is still there then.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failed> {
        let path = self.path.join(name);
        Disk::replace(&path, bytes, 0o600, None).map_err(|error| failed(&path, &error))
    }

    /// Removes a file, if it exists.
    pub fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path.join(name));
    }
}

fn failed(path: &Path, error: &io::Error) -> Failed {
    let help = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "set \"state\" of [acme] to a folder that evenkeel can write to"
        }
        ErrorKind::StorageFull => "free some disk space",
        _ => "check \"state\" of [acme]",
    };
    Failed::new(Cause::Storage, format!("cannot use {}: {error}", path.display()), help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn temporary(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn what_is_kept_is_for_one_user_and_one_process() {
        let path = temporary("acme-folder").join("ca.internal");
        let folder = Folder::open(&path).expect("it can be made").expect("nothing else has it");
        folder.write("a.pem", b"one").expect("it can be written");
        folder.write("a.pem", b"two").expect("it can be written again");
        assert_eq!(folder.read("a.pem").expect("it can be read").as_deref(), Some(&b"two"[..]));
        assert_eq!(folder.read("b.pem").expect("that is no error"), None);
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("a.pem"))), (0o700, 0o600));
        assert!(Folder::open(&path).expect("it can be opened").is_none(), "two at a time");
        drop(folder);
        let folder = Folder::open(&path).expect("it can be opened").expect("the first is gone");
        folder.remove("a.pem");
        assert_eq!(folder.read("a.pem").expect("that is no error"), None);
    }

    #[test]
    fn what_cannot_be_written_is_reported_with_its_path() {
        let failed = Folder::open(Path::new("/proc/nothing")).expect_err("nothing can be made there");
        assert_eq!(failed.cause, Cause::Storage);
        assert!(failed.to_string().contains("/proc/nothing"), "{failed}");
    }
}

//! The Unix socket: a file whose mode decides which users may connect, and so may change things.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Access for the owner and the group of the process.
const MODE: u32 = 0o660;

/// Listens at `path`. A socket without a listener, as a killed process leaves it, is replaced.
///
/// # Errors
/// Another process listens there, the path is something else than a socket, or as `bind(2)`.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            return Err(ErrorKind::AddrInUse.into());
        }
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_replaced_only_if_no_process_listens() {
        let path = std::env::temp_dir().join(format!("evenkeel-admin-{}.sock", std::process::id()));
        let first = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(first);
        drop(listen(&path).unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "not ours").unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).unwrap(), "not ours");
        fs::remove_file(&path).unwrap();
    }
}
